//! The arguments of the tool that a team is, and the schemas of what it takes and returns.

use rmcp::model::{ErrorData, JsonObject};
use serde_json::{Value, json};
use strata_base::files::sha256::sha256;
use strata_core::record::event::Status;
use strata_core::record::id::to_hex;

/// The key of `_meta` with a client's idempotency key.
const KEY_FIELD: &str = "strata/idempotency-key";
/// The maximum length of an idempotency key, in bytes.
const MAX_KEY_BYTES: usize = 255;
/// The maximum length of the name of a run, in bytes. The longest name of a file is a little longer.
const MAX_RUN_NAME_BYTES: usize = 200;

/// The name of a run. It may be the name of a directory, and is of nothing outside of the directory of all
/// runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunName(String);

impl RunName {
    /// Returns a name. Fails if it cannot be that of a run.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        let fits = (1..=MAX_RUN_NAME_BYTES).contains(&text.len());
        let is_name = fits && !text.starts_with('.') && text.bytes().all(is_plain);
        is_name.then(|| Self(text.to_owned()))
    }

    /// Returns it as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the tool is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamArguments {
    /// What the team is asked to do.
    pub(super) idea: String,
    /// The name of the run that is continued, as it was given.
    pub(super) run: Option<String>,
}

impl TeamArguments {
    /// Reads the arguments. The error says why they do not match the schema.
    pub(super) fn parse(arguments: Option<&JsonObject>) -> Result<Self, String> {
        let empty = JsonObject::new();
        let arguments = arguments.unwrap_or(&empty);
        if let Some(other) = arguments.keys().find(|key| *key != "idea" && *key != "run") {
            let other: String = other.chars().take(40).collect();
            return Err(format!(
                "there is no argument `{other}`; the arguments are `idea` and `run`"
            ));
        }
        let Some(Value::String(idea)) = arguments.get("idea") else {
            return Err("the argument `idea` is required, and is a text".into());
        };
        let run = match arguments.get("run") {
            None | Some(Value::Null) => None,
            Some(Value::String(run)) => Some(run.clone()),
            Some(_) => return Err("the argument `run` is the name of a run, a text".into()),
        };
        Ok(Self {
            idea: idea.clone(),
            run,
        })
    }

    /// Returns a digest that other arguments do not have.
    pub(super) fn digest(&self) -> String {
        to_hex(&sha256(json!([self.idea, self.run]).to_string()))
    }
}

/// Returns the idempotency key of a call. Fails if it is no text, or too long.
pub(super) fn idempotency_key(meta: &JsonObject) -> Result<Option<String>, ErrorData> {
    match meta.get(KEY_FIELD) {
        None => Ok(None),
        Some(Value::String(key)) if (1..=MAX_KEY_BYTES).contains(&key.len()) => {
            Ok(Some(key.clone()))
        }
        Some(_) => Err(invalid(format!(
            "`{KEY_FIELD}` is a text of 1 to {MAX_KEY_BYTES} bytes"
        ))),
    }
}

/// Returns the error for parameters that are not valid.
pub(super) fn invalid(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}

/// Returns the JSON Schema of the arguments.
pub(super) fn input_schema() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": {
            "idea": {
                "type": "string",
                "description": "What the team is asked to do.",
            },
            "run": {
                "type": "string",
                "description": "The name of an earlier run, which is continued where it stopped. Its own idea holds. \
                    Leave it out to start a new run.",
            },
        },
        "required": ["idea"],
        "additionalProperties": false,
    }))
}

/// Returns the JSON Schema of the structured result.
pub(super) fn output_schema() -> JsonObject {
    let statuses: Vec<&str> = ENDINGS.iter().map(|status| status.name()).collect();
    object(json!({
        "type": "object",
        "properties": {
            "run": { "type": "string", "description": "The name of the run." },
            "status": { "type": "string", "enum": statuses, "description": "How the run ended." },
            "output": {
                "type": ["string", "null"],
                "description": "The last output; null if the run is not done, or published nothing.",
            },
        },
        "required": ["run", "status", "output"],
        "additionalProperties": false,
    }))
}

/// The statuses with which runs end.
const ENDINGS: &[Status] = &[
    Status::Done,
    Status::Failed,
    Status::Waiting,
    Status::OutOfBudget,
    Status::Stalled,
    Status::StepLimit,
    Status::InDoubt,
    Status::Interrupted,
    Status::Running,
    Status::Cancelled,
    Status::Paused,
];

/// Returns a JSON object as a map.
pub(super) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_run_names_nothing_outside_of_the_directory_of_runs() {
        for name in ["a", "0a1b", "x.y_z-1"] {
            assert!(RunName::parse(name).is_some(), "{name}");
        }
        let long = "a".repeat(MAX_RUN_NAME_BYTES + 1);
        for name in [
            "", ".", "..", ".keys", "a/b", "/etc", "a\\b", "ü", "a\0", &long,
        ] {
            assert!(RunName::parse(name).is_none(), "{name}");
        }
    }

    #[test]
    fn arguments_that_do_not_match_the_schema_are_invalid() {
        for wrong in [
            json!({}),
            json!({ "idea": 1 }),
            json!({ "idea": "x", "run": 1 }),
            json!({ "idea": "x", "answer": true }),
        ] {
            let parsed = TeamArguments::parse(Some(&object(wrong.clone())));
            assert!(parsed.is_err(), "{wrong}");
        }
        let right = object(json!({ "idea": "x", "run": null }));
        let parsed = TeamArguments::parse(Some(&right)).expect("valid");
        assert_eq!((parsed.idea.as_str(), parsed.run), ("x", None));
    }

    #[test]
    fn a_key_is_a_text_that_is_not_too_long() {
        let key = |value: Value| idempotency_key(&object(json!({ KEY_FIELD: value })));
        assert_eq!(key(json!("k1")).expect("valid").as_deref(), Some("k1"));
        assert_eq!(idempotency_key(&JsonObject::new()).expect("valid"), None);
        for wrong in [json!(1), json!(""), json!("x".repeat(MAX_KEY_BYTES + 1))] {
            assert_eq!(key(wrong).unwrap_err().code.0, -32602);
        }
    }
}
