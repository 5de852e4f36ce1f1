//! Requests to humans and their answers. Whether an answer fits its request is checked in the
//! host's `services::human`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::record::id::RequestId;
use crate::record::json::Json;

/// A question to a human.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanRequest {
    /// The id. It is derived from where in the run the request is made, so it is the same when the
    /// run is repeated.
    pub id: RequestId,
    /// The question.
    pub question: String,
    /// The JSON Schema that the answer must conform to.
    pub schema: Option<Json>,
    /// The allowed answers; empty if any text is allowed.
    pub choices: Vec<String>,
    /// The answer that is used if nobody answers in time.
    pub default: Option<Json>,
    /// The deadline, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// A digest of the request, which distinguishes it from other host calls of the same attempt.
    pub call_digest: String,
    /// The tool call that is to be approved, if the request is about one.
    pub proposed: Option<ProposedCall>,
}

/// A tool call that a human is asked to approve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Json,
}

/// What a human decided about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// It is made, with these arguments in place of the model's if there are any.
    Approved(Option<Json>),
    /// It is not made, for this reason.
    Declined(String),
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HumanAnswer {
    /// A human answered.
    Given(Json),
    /// Nobody answered in time, and the default is used.
    Default(Json),
    /// Nobody answered in time, and there is no default.
    Expired,
}

impl HumanRequest {
    /// Returns the outcome if nobody answers in time.
    pub fn outcome_when_expired(&self) -> HumanAnswer {
        self.default
            .clone()
            .map_or(HumanAnswer::Expired, HumanAnswer::Default)
    }

    /// Returns whether the deadline has passed.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

impl HumanAnswer {
    /// Returns who answered, in the words of the public events: `person`, `default` or `nobody`.
    pub fn answered_by(&self) -> &'static str {
        match self {
            Self::Given(_) => "person",
            Self::Default(_) => "default",
            Self::Expired => "nobody",
        }
    }

    /// Returns the value of the answer, if there is one.
    pub fn value(&self) -> Option<&Json> {
        match self {
            Self::Given(value) | Self::Default(value) => Some(value),
            Self::Expired => None,
        }
    }

    /// Returns the verdict on a tool call that the answer expresses: `{"approve": true}`, with
    /// `arguments` if these are changed, or `{"approve": false}`, with a `reason`. Returns `None` if
    /// it is no such answer.
    pub fn verdict(&self) -> Option<ApprovalVerdict> {
        let Some(value) = self.value() else {
            let reason = "nobody approved it in time";
            return Some(ApprovalVerdict::Declined(reason.into()));
        };
        let Value::Object(mut fields) = value.value() else {
            return None;
        };
        if fields.get("approve")?.as_bool()? {
            let edited = fields.remove("arguments").map(Json::from);
            return Some(ApprovalVerdict::Approved(edited));
        }
        let reason = match (fields.get("reason").and_then(Value::as_str), self) {
            (Some(reason), _) => reason,
            (None, Self::Given(_)) => "a person did not approve it",
            (None, _) => "nobody approved it in time",
        };
        Some(ApprovalVerdict::Declined(reason.into()))
    }

    /// Returns the form in which the answer is recorded among the host calls of an attempt.
    pub fn to_record(&self) -> Json {
        Json::from(match self.value() {
            Some(value) => json!({ "by": self.answered_by(), "value": value.value() }),
            None => json!({ "by": self.answered_by() }),
        })
    }

    /// Returns the answer that was recorded as `record`, or `None` if no answer is recorded like
    /// that.
    pub fn from_record(record: &Json) -> Option<Self> {
        let Value::Object(mut fields) = record.value() else {
            return None;
        };
        let value = fields.remove("value").map(Json::from);
        match (fields.get("by")?.as_str()?, value) {
            ("person", Some(value)) => Some(Self::Given(value)),
            ("default", Some(value)) => Some(Self::Default(value)),
            ("nobody", None) => Some(Self::Expired),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_of_an_answer_is_read_back() {
        let number = || Json::from(json!(42));
        for answer in [
            HumanAnswer::Given(number()),
            HumanAnswer::Given(Json::null()),
            HumanAnswer::Default(number()),
            HumanAnswer::Expired,
        ] {
            assert_eq!(HumanAnswer::from_record(&answer.to_record()), Some(answer));
        }
        for other in [
            json!(null),
            json!({ "by": "person" }),
            json!({ "by": "nobody", "value": 1 }),
            json!({}),
        ] {
            assert_eq!(HumanAnswer::from_record(&Json::from(other)), None);
        }
    }
}
