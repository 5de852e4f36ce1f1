//! Requests: what people are asked, and what became of it. How an answer is held against its request is the host's
//! `services::human`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::RequestId;
use crate::json::Json;

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Says where in the run it is asked, so that it is the same when that is repeated.
    pub id: RequestId,
    /// The question.
    pub question: String,
    /// The JSON Schema that the answer must follow.
    pub schema: Option<Json>,
    /// The texts one of which must be the answer; empty where any will do.
    pub choices: Vec<String>,
    /// The answer that is taken where nobody gives one in time.
    pub default: Option<Json>,
    /// When it is too late to answer, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
    /// A digest of what was asked, which tells it from other calls of the host.
    pub call: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A person answered.
    Given(Json),
    /// Nobody did in time, and this stands in for it.
    Default(Json),
    /// Nobody did in time, and nothing stands in for it.
    Expired,
}

impl Request {
    /// What becomes of it when nobody answers in time.
    pub fn lapse(&self) -> Answer {
        self.default
            .clone()
            .map_or(Answer::Expired, Answer::Default)
    }

    /// Whether it is too late to answer.
    pub fn is_over(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

impl Answer {
    /// Who answered, as it is called in events: `person`, `default`, `nobody`.
    pub fn by(&self) -> &'static str {
        match self {
            Self::Given(_) => "person",
            Self::Default(_) => "default",
            Self::Expired => "nobody",
        }
    }

    /// The answer itself, where there is one.
    pub fn value(&self) -> Option<&Json> {
        match self {
            Self::Given(value) | Self::Default(value) => Some(value),
            Self::Expired => None,
        }
    }

    /// The form in which it is recorded among the host calls of an attempt.
    pub fn record(&self) -> Json {
        Json::from(match self.value() {
            Some(value) => json!({ "by": self.by(), "value": value.value() }),
            None => json!({ "by": self.by() }),
        })
    }

    /// Back from the form in which it is recorded.
    pub fn recorded(record: &Json) -> Option<Self> {
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
            Answer::Given(number()),
            Answer::Given(Json::null()),
            Answer::Default(number()),
            Answer::Expired,
        ] {
            assert_eq!(Answer::recorded(&answer.record()), Some(answer));
        }
        for other in [
            json!(null),
            json!({ "by": "person" }),
            json!({ "by": "nobody", "value": 1 }),
            json!({}),
        ] {
            assert_eq!(Answer::recorded(&Json::from(other)), None);
        }
    }
}
