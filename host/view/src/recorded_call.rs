//! A recorded host call, with its request and its whole response.

use serde::Serialize;
use strata_core::record::host_call::{CallOutcome, HostCall};
use strata_core::record::json::Json;
use strata_driver::public_event::{EventLine, PublicEvent};

use super::response_text;

/// A recorded host call. It is serialised as its public event, followed by what came back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedCallView {
    /// The public event of the call.
    #[serde(flatten)]
    pub line: EventLine,
    /// How it ended.
    #[serde(serialize_with = "super::serialize_outcome")]
    pub outcome: CallOutcome,
    /// The response as it was recorded.
    #[serde(serialize_with = "super::serialize_document")]
    pub response: Json,
    /// The response as a text: that of a model's reply, the body of an HTTP response, or the JSON
    /// document.
    #[serde(skip)]
    pub text: String,
}

impl RecordedCallView {
    /// Creates the view of a call and its public event.
    pub fn new(line: EventLine, call: &HostCall) -> Self {
        Self {
            line,
            outcome: call.outcome,
            response: call.response.clone(),
            text: response_text(call),
        }
    }

    /// Returns whether an action made the call: `ROLE.ACTION`.
    pub fn is_of(&self, action: &str) -> bool {
        matches!(&self.line.event, PublicEvent::HostCall { action: of, .. } if of.qualified_name() == action)
    }
}
