//! The open requests of a run: who asks, the question, which answers are valid, and how to answer.

use std::path::Path;

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::reply_text;
use strata_core::record::human_request::HumanRequest;
use strata_core::record::json::Json;
use strata_core::record::work::{CallKey, Work};

use super::answer_form::{AnswerField, answer_fields};
use super::{CommandArgument, SuggestedCommand, index_and_name_of_call};

/// The requests that wait for a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenRequests {
    /// The requests, in the order of the roles.
    pub requests: Vec<RequestView>,
    /// The command that answers them; `None` if there are none.
    pub answer_command: Option<SuggestedCommand>,
}

/// An open request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestView {
    /// The id that the answer names.
    pub id: String,
    /// The name of the role that asks.
    pub role: String,
    /// The index of the action that asks; `None` if the role is played by a person or asks while it
    /// chooses an action.
    pub index: Option<u16>,
    /// The name of the action; `think` or `answer` if it has no index.
    pub action: String,
    /// The question.
    pub question: String,
    /// The arguments of the tool call that is to be approved, if the request is about one.
    #[serde(
        serialize_with = "super::serialize_json",
        skip_serializing_if = "Option::is_none"
    )]
    pub arguments: Option<Json>,
    /// What the model said in the reply in which it called the tool, if the request is about a tool call
    /// and the reply has text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The valid answers; empty if any answer is valid that matches the schema.
    pub choices: Vec<String>,
    /// The JSON Schema that the answer must conform to.
    #[serde(serialize_with = "super::serialize_json")]
    pub schema: Option<Json>,
    /// The fields of the answer, if it is an object with known fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<AnswerField>,
    /// The answer that is used if nobody answers in time.
    #[serde(serialize_with = "super::serialize_json")]
    pub default: Option<Json>,
    /// The deadline, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

impl OpenRequests {
    /// Returns the open requests of a run that is saved at `storage`.
    pub fn from_stepper(stepper: &Stepper, storage: &Path) -> Self {
        let requests = RequestView::all(stepper);
        let answer_command = (!requests.is_empty()).then(|| {
            let answers = requests
                .iter()
                .map(|request| CommandArgument::Template(request.answer_template()));
            SuggestedCommand::from_subcommand("answer", [CommandArgument::Path(storage.to_owned())])
                .with(answers)
        });
        Self {
            requests,
            answer_command,
        }
    }
}

impl RequestView {
    /// Returns the open requests of a run.
    pub fn all(stepper: &Stepper) -> Vec<Self> {
        let mut requests = Vec::new();
        for (call, open) in stepper.env().open_calls(stepper.team()) {
            for request in open.requests() {
                requests.push(Self::from_call(stepper, call, request));
            }
        }
        requests
    }

    fn from_call(stepper: &Stepper, call: CallKey, request: &HumanRequest) -> Self {
        let role = stepper.team().role(call.role);
        let (index, action) = index_and_name_of_call(stepper, call);
        Self {
            id: request.id.0.clone(),
            role: role.name.clone(),
            index,
            action: action.to_owned(),
            question: request.question.clone(),
            arguments: request.proposed.as_ref().map(|call| call.arguments.clone()),
            said: said_in_turn(stepper, call),
            choices: request.choices.clone(),
            fields: answer_fields_of(request),
            schema: request.schema.clone(),
            default: request.default.clone(),
            expires_ms: request.expires_ms,
        }
    }

    /// Returns an answer as `answer` takes it. One that approves a tool call is complete; any other
    /// contains the word `ANSWER`.
    fn answer_template(&self) -> String {
        let answer = match self.arguments {
            Some(_) => r#"{"approve": true}"#,
            None => "ANSWER",
        };
        format!("{}={answer}", self.id)
    }

    /// Returns whether the deadline has passed.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end| end <= now_ms)
    }
}

/// Returns the text beside the tool calls of the reply that a tool call belongs to.
fn said_in_turn(stepper: &Stepper, call: CallKey) -> Option<String> {
    let Work::ToolCall { turn, .. } = call.work else {
        return None;
    };
    let activation = stepper.env().activation(call.activation())?;
    let turn = activation.turns.get(turn as usize)?;
    let text = reply_text(&turn.message);
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the fields of the answer. Those of the question whether a tool call may be made are the
/// same for all calls.
fn answer_fields_of(request: &HumanRequest) -> Vec<AnswerField> {
    match (&request.schema, &request.proposed) {
        (Some(schema), None) => answer_fields(&schema.value()),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strata_core::record::id::RequestId;

    use super::*;
    use crate::tests::fixture::{FixtureAttempt, RunFixture};

    #[test]
    fn an_open_request_has_its_choices_and_the_command_that_answers_it() {
        let roles = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                     [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";
        let run = RunFixture::new(roles, |_, _| {
            FixtureAttempt::Ask(HumanRequest {
                id: RequestId::from("ask-0-0-0-0"),
                question: "which?".into(),
                schema: Some(Json::from(json!({ "type": "string" }))),
                choices: vec!["yes".into(), "no".into()],
                default: None,
                expires_ms: Some(1000),
                proposed: None,
                asked_by: None,
            })
        });
        let open = OpenRequests::from_stepper(&run.stepper, Path::new("store"));
        assert_eq!(
            serde_json::to_value(&open).expect("JSON"),
            json!({
                "requests": [{
                    "id": "ask-0-0-0-0", "role": "A", "index": 0, "action": "One", "question": "which?",
                    "choices": ["yes", "no"], "schema": { "type": "string" }, "default": null,
                    "expires_ms": 1000,
                }],
                "answer_command": {
                    "program": "strata-host", "comment": null,
                    "arguments": [
                        { "kind": "word", "value": "answer" }, { "kind": "path", "value": "store" },
                        { "kind": "template", "value": "ask-0-0-0-0=ANSWER" },
                    ],
                },
            })
        );
        assert!(open.requests[0].is_expired(1000) && !open.requests[0].is_expired(999));
    }
}
