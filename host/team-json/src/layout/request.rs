//! The format of requests to people: in the list of all requests, and in the call that one belongs
//! to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use strata_core::record::id::RequestId;
use strata_core::record::json::Json;
use strata_core::record::nested_path::NestedPath;
use strata_core::record::request::{AskingServer, HumanRequest, ProposedCall};

use super::super::field::{JsonDocument, NotDecoded, TextList, TimeText, nullable};
use super::super::located_value::{ImportResult, LocatedValue};
use super::RoleCallJson;

/// A request. An entry of the list says in addition who asks; a request that stands in the call that
/// it belongs to does not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct RequestJson<'a> {
    pub id: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub index: NotDecoded<i64>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub action: NotDecoded<&'a str>,
    #[serde(skip_serializing_if = "NotDecoded::is_absent")]
    pub step: NotDecoded<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<u32>,
    #[serde(skip_serializing_if = "NestedPath::is_empty")]
    pub nested: NestedPath,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<RoleCallJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<JsonDocument<'a>>,
    pub question: Cow<'a, str>,
    pub schema: Option<JsonDocument<'a>>,
    pub choices: TextList<'a>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub default: Option<JsonDocument<'a>>,
    pub expires: Option<TimeText>,
}

impl<'a> From<&'a HumanRequest> for RequestJson<'a> {
    fn from(request: &'a HumanRequest) -> Self {
        let HumanRequest {
            id,
            question,
            schema,
            choices,
            default,
            expires_ms,
            proposed,
            asked_by,
        } = request;
        let proposed = proposed.as_ref();
        Self {
            id: Cow::Borrowed(&id.0),
            tool: proposed
                .map(|call| Cow::Borrowed(&*call.tool))
                .or_else(|| Some(Cow::Borrowed(&*asked_by.as_ref()?.tool))),
            server: asked_by
                .as_ref()
                .map(|asking| Cow::Borrowed(&*asking.server)),
            url: asked_by
                .as_ref()
                .and_then(|asking| asking.url.as_deref().map(Cow::Borrowed)),
            arguments: proposed.map(|call| JsonDocument::of(&call.arguments)),
            input_schema: proposed
                .and_then(|call| call.input_schema.as_ref().map(JsonDocument::of)),
            question: Cow::Borrowed(question),
            schema: schema.as_ref().map(JsonDocument::of),
            choices: choices.as_slice().into(),
            default: default.as_ref().map(JsonDocument::of),
            expires: expires_ms.map(TimeText),
            ..Self::default()
        }
    }
}

impl RequestJson<'_> {
    /// Returns the request. Fails if it has no id.
    pub(in super::super) fn into_request(
        self,
        place: &LocatedValue<'_>,
    ) -> ImportResult<HumanRequest> {
        if self.id.is_empty() {
            return Err(place.invalid("has no `id`"));
        }
        let (arguments, input_schema) = (self.arguments, self.input_schema);
        let (asked_by, proposed_tool) = match (self.server, self.tool) {
            (Some(server), tool) => {
                let asking = AskingServer {
                    server: server.into_owned(),
                    tool: tool.map(Cow::into_owned).unwrap_or_default(),
                    url: self.url.map(Cow::into_owned),
                };
                (Some(asking), None)
            }
            (None, tool) => (None, tool),
        };
        Ok(HumanRequest {
            id: RequestId(self.id.into_owned()),
            question: self.question.into_owned(),
            schema: self.schema.map(JsonDocument::into_json),
            choices: self.choices.0.into_owned(),
            default: self.default.map(JsonDocument::into_json),
            expires_ms: self.expires.map(|time| time.0),
            asked_by,
            proposed: proposed_tool.map(|tool| ProposedCall {
                tool: tool.into_owned(),
                arguments: arguments.map_or_else(Json::null, JsonDocument::into_json),
                input_schema: input_schema.map(JsonDocument::into_json),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_default_may_be_null_or_missing() {
        let read = |saved: Value| {
            let saved = LocatedValue::root(&saved);
            let request = saved.decode::<RequestJson<'_>>().unwrap();
            request.into_request(&saved).unwrap()
        };
        let mut request = read(json!({ "id": "ask", "question": "how many?", "schema": null }));
        assert_eq!((&request.default, &request.schema), (&None, &None));
        for default in [None, Some(Json::null()), Some(Json::from(json!(1)))] {
            request.default = default;
            let saved = serde_json::to_value(RequestJson::from(&request)).unwrap();
            assert_eq!(read(saved), request);
        }
    }
}
