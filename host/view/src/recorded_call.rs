//! A recorded host call, with its request and its whole response.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use strata_core::record::host_call::{CallOutcome, HostCall};
use strata_core::record::json::Json;
use strata_driver::public_event::{EventLine, PublicEvent};

/// A recorded host call. It is serialised as its public event, followed by what came back.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordedCallView {
    /// The public event of the call.
    #[serde(flatten)]
    #[schemars(schema_with = "host_call_schema")]
    pub line: EventLine,
    /// How it ended.
    #[serde(serialize_with = "super::serialize_outcome")]
    #[schemars(with = "String")]
    pub outcome: CallOutcome,
    /// The response as it was recorded.
    #[serde(serialize_with = "super::serialize_document")]
    #[schemars(with = "serde_json::Value")]
    pub response: Json,
}

impl RecordedCallView {
    /// Creates the view of a call and its public event.
    pub fn new(line: EventLine, call: &HostCall) -> Self {
        Self {
            line,
            outcome: call.outcome,
            response: call.response.clone(),
        }
    }

    /// Returns whether an action made the call: `ROLE.ACTION`.
    pub fn is_of(&self, action: &str) -> bool {
        matches!(&self.line.event, PublicEvent::HostCall { action: of, .. } if of.qualified_name() == action)
    }
}

/// Returns the schema of the public events of host calls.
fn host_call_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = EventLine::json_schema(generator);
    let events = schema.remove("oneOf");
    let events = events.as_ref().and_then(Value::as_array);
    let mut events = events.into_iter().flatten();
    let event = events.find(|event| event["properties"]["kind"]["const"] == "host-call");
    if let (Some(event), Some(line)) = (event, schema.as_object_mut()) {
        for name in ["properties", "required"] {
            match (&event[name], &mut line[name]) {
                (Value::Object(more), Value::Object(fields)) => fields.extend(more.clone()),
                (Value::Array(more), Value::Array(required)) => required.extend(more.clone()),
                _ => {}
            }
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::*;

    #[test]
    fn the_schema_is_that_of_one_event_and_of_what_came_back() {
        let schema = schema_for!(RecordedCallView).to_value();
        for name in ["n", "time", "call", "tokens", "outcome", "response"] {
            assert!(schema["properties"][name].is_object(), "{name}");
        }
        let required = schema["required"].as_array().expect("some are required");
        let is_required = |name: &str| required.contains(&name.into());
        assert!(is_required("n") && is_required("call") && !is_required("tokens"));
    }
}
