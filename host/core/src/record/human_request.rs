//! Requests to humans and their answers. Whether an answer fits its request is checked in the
//! host's `services::human`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::record::id::{RequestId, to_hex};
use crate::record::json::Json;

/// A question to a human.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanRequest {
    /// The id. It is derived from where in the run the request is made and from the requests that
    /// were made there before, so it is the same when the run is repeated. It belongs to one
    /// question.
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
    /// The tool call that is to be approved, if the request is about one.
    pub proposed: Option<ProposedCall>,
    /// The server that asks, if it is not an action or the host.
    pub asked_by: Option<AskingServer>,
}

/// An MCP server that asks before it answers a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingServer {
    /// Its name in the team file.
    pub server: String,
    /// The tool that was called.
    pub tool: String,
    /// The address at which a human is to do something; the host never opens it.
    pub url: Option<String>,
}

/// What the answer to a question must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerForm {
    /// The JSON Schema that it must conform to.
    pub schema: Option<Json>,
    /// The allowed answers; empty if any text is allowed.
    pub choices: Vec<String>,
}

/// A tool call that a human is asked to approve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Json,
    /// The JSON Schema of the tool's arguments, which arguments that a human sets must conform to.
    pub input_schema: Option<Json>,
}

/// Identifies a question: its text, its schemas, its choices, and the tool call that it is about.
/// It does not depend on the id, the default and the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionDigest([u8; QuestionDigest::BYTES]);

impl QuestionDigest {
    /// The length in bytes. Half a SHA-256 is enough to prevent that somebody finds two questions
    /// with the same digest.
    pub const BYTES: usize = 16;

    /// Returns the digest with these bytes.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the digest in lower-case hex.
    pub fn to_hex(self) -> String {
        to_hex(&self.0)
    }

    /// Returns the digest with this value in hex, or `None` if it is none.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let mut digest = [0; Self::BYTES];
        let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
            return None;
        };
        if pairs.len() != digest.len() {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(pairs) {
            let pair = core::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(digest))
    }
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
    /// Returns the digest of the question.
    pub fn question_digest(&self) -> QuestionDigest {
        let mut sum = Sha256::new();
        // Each part is preceded by its length, so that different questions never have the same
        // concatenation.
        let mut add = |part: Option<&str>| {
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            sum.update(length.to_le_bytes());
            sum.update(part.unwrap_or_default());
        };
        let proposed = self.proposed.as_ref();
        add(Some(&self.question));
        add(self.schema.as_ref().map(Json::as_str));
        add(proposed.map(|call| &*call.tool));
        add(proposed.map(|call| call.arguments.as_str()));
        if let Some(asking) = &self.asked_by {
            add(Some(&asking.server));
            add(Some(&asking.tool));
            add(asking.url.as_deref());
        }
        add(proposed.and_then(|call| Some(call.input_schema.as_ref()?.as_str())));
        for choice in &self.choices {
            add(Some(choice));
        }
        let mut digest = [0; QuestionDigest::BYTES];
        digest.copy_from_slice(&sum.finalize()[..QuestionDigest::BYTES]);
        QuestionDigest(digest)
    }

    /// Returns the digest that identifies the request among the host calls of an attempt. It is that
    /// of the question, so an answer is only ever served to the question that was shown.
    pub fn call_digest(&self) -> String {
        self.question_digest().to_hex()
    }

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
        let Value::Object(fields) = value.value() else {
            return None;
        };
        if fields.get("approve")?.as_bool()? {
            let edited = value.field("arguments");
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
