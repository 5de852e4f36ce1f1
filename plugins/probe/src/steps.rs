//! The probe's steps, as they are written in a team file. They are executed in `run`.

use crate::misbehaviour::Misbehaviour;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// The probe's `config`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The attempts in which the step is executed; `None` for all.
    pub attempts: Option<Vec<u32>>,
    /// What it does.
    pub operation: Operation,
}

/// The operations of steps. The first field of each is the name of the step in the team file.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "the fields are those of the team file, described at the variant"
)]
pub enum Operation {
    /// Sets the output.
    Say {
        say: String,
        data: Option<Value>,
        /// `None` names no recipients, an empty list nobody.
        to: Option<Vec<String>>,
        #[serde(default)]
        route: Vec<ItineraryHop>,
    },
    /// Publishes one more message.
    Emit {
        emit: String,
        data: Option<Value>,
        /// `None` names no recipients, an empty list nobody.
        to: Option<Vec<String>>,
        cause: Option<String>,
    },
    /// Writes a value.
    Set {
        set: String,
        value: Value,
        #[serde(default = "default_scope")]
        scope: String,
    },
    /// Reads a value.
    Get {
        get: String,
        #[serde(default = "default_scope")]
        scope: String,
    },
    /// Removes a value.
    Delete {
        delete: String,
        #[serde(default = "default_scope")]
        scope: String,
    },
    /// Asks a model.
    Llm {
        llm: String,
        /// The model; by default that of the role.
        model: Option<String>,
        /// The JSON Schema that the reply has to match. The value read is then its data.
        schema: Option<Value>,
    },
    /// Asks for the vectors of texts. The value read is JSON without spaces.
    Embed {
        embed: Vec<String>,
        /// The model; by default that of the role.
        model: Option<String>,
        dimensions: Option<u32>,
    },
    /// Replaces the oldest messages of the conversation by a text.
    Memory { memory: String, up_to: u32 },
    /// Adds an image to the next `llm`.
    Image { image: String },
    /// Reads the clock.
    Now { now: bool },
    /// Gets this many random bytes.
    Random { random: u32 },
    /// Waits in the host.
    Sleep {
        #[serde(deserialize_with = "duration")]
        sleep: Duration,
    },
    /// Reads a file.
    Read { read: String },
    /// Writes a file.
    Write { write: String, text: String },
    /// Removes a file or an empty directory.
    Remove { remove: String },
    /// Misbehaves.
    Fail { fail: Misbehaviour },
    /// As a thinker: the choices, by round.
    Choose { choose: Vec<i32> },
    /// As a guard of tool calls: the answers by the tools' names: `allow`, `deny: REASON` or `ask`. Tools
    /// that are not named are allowed.
    Guard { guard: BTreeMap<String, String> },
    /// As a planner: the tasks.
    Plan { plan: Vec<PlannedTask> },
    /// Reads the instance's counter after adding 1.
    Count { count: bool },
    /// Makes a web request.
    Http {
        http: String,
        #[serde(default = "default_method")]
        method: String,
        body: Option<String>,
        /// The idempotency key of the request.
        key: Option<String>,
        /// The secret that is sent as bearer token.
        secret: Option<String>,
    },
    /// Calls a tool of an MCP server. The value read is the text of the result.
    Mcp {
        /// `SERVER/TOOL`.
        mcp: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    /// Asks a person.
    Ask {
        ask: String,
        schema: Option<Value>,
        #[serde(default)]
        choices: Vec<String>,
        #[serde(default, deserialize_with = "optional_duration")]
        expires: Option<Duration>,
        default: Option<Value>,
    },
    /// Calls a tool of the role. Its result joins the values read.
    Tool {
        tool: String,
        #[serde(default = "no_arguments")]
        arguments: Value,
    },
    /// Reads an environment variable.
    GetEnv { getenv: String },
    /// Names a secret. The value read is its placeholder.
    Secret { secret: String },
}

/// A hop of an itinerary.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItineraryHop {
    /// The role that handles the message at this hop.
    pub from: String,
    /// The recipients of its output.
    pub to: Vec<String>,
}

/// A task of a plan: a text, or a text with the name of the action that executes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[allow(missing_docs, reason = "described at the type")]
pub enum PlannedTask {
    /// The text alone.
    Text(String),
    /// The text and the action.
    Task {
        text: String,
        action: Option<String>,
    },
}

impl Step {
    /// Returns whether the step is executed in this attempt.
    pub fn applies_to(&self, attempt: u32) -> bool {
        self.attempts
            .as_ref()
            .is_none_or(|attempts| attempts.contains(&attempt))
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let attempts = match fields.remove("attempts") {
            Some(attempts) => Vec::deserialize(attempts)
                .map(Some)
                .map_err(D::Error::custom)?,
            None => None,
        };
        let step = Value::Object(fields);
        match Operation::deserialize(&step) {
            Ok(deed) => Ok(Self {
                attempts,
                operation: deed,
            }),
            Err(_) => Err(D::Error::custom(format!(
                "`{step}` is not a step of the probe"
            ))),
        }
    }
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

fn default_method() -> String {
    "GET".to_owned()
}

fn default_scope() -> String {
    "role".to_owned()
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a duration")))
}

fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// Parses an integer with its unit: `200ms`, `2s`, `1m`, `1h`.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(
        number.parse::<u64>().ok()?.checked_mul(milliseconds)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unknown_step_is_named() {
        let cases = [
            json!({ "sing": "la" }),
            json!({ "say": "x", "loud": true }),
            json!({ "sleep": "2 days" }),
            json!({ "fail": "politely" }),
            json!({ "set": "k" }),
        ];
        for step in cases {
            let error = serde_json::from_value::<Step>(step.clone()).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("`{step}` is not a step of the probe")
            );
        }
    }

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let cases = [
            ("200ms", Some(200)),
            ("2s", Some(2_000)),
            ("1m", Some(60_000)),
            ("1h", Some(3_600_000)),
            ("2", None),
            ("s", None),
            ("2 s", None),
            ("99999999999999999999s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                parse_duration(text),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
    }
}
