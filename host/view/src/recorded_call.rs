//! A recorded host call, with its request and its whole response.

use serde::Serialize;
use strata_core::record::host_call::{CallOutcome, HostCall};
use strata_core::record::json::Json;
use strata_driver::public_event::{EventLine, PublicEvent};

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
