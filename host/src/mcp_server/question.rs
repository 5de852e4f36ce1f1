//! Questions to people as requests for input of the protocol, and the results of these as answers.
//!
//! A form of the protocol is flat: an object whose fields are texts, numbers, truth values or choices.
//! A question whose answer has such a schema is asked with it. Any other question has one field,
//! `answer`, which holds the answer as JSON or, where a text is asked for, as it is.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use strata_base::text::excerpt::excerpt;
use strata_core::text::is_invisible;
use strata_view::RequestView;

/// The field of the answer where the schema is not flat.
const ANSWER_FIELD: &str = "answer";
/// The maximum number of characters of a schema that is quoted in the description of a field.
const SCHEMA_CHARS: usize = 2000;
/// The maximum number of characters of the arguments of a tool call that are quoted. Whoever approves
/// a call approves all of them, so this is more than usual arguments have.
const ARGUMENT_CHARS: usize = 8000;

/// What a client said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientReply {
    /// An answer: a JSON document, or text. Whether it fits is checked where it is recorded.
    Answer(String),
    /// Nobody answers, and the request stays open.
    LeftOpen,
    /// What the client sent is no reply, for this reason.
    Invalid(String),
}

/// Returns the request for input with which a question is asked. `rejected` is why the answer of
/// before was not accepted.
pub(super) fn form(
    request: &RequestView,
    run: &str,
    rejected: Option<&str>,
) -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(request, run, rejected),
        requested_schema: Form::of_request(request).into_schema(),
    }
}

/// Returns the text that a person reads. What guests wrote is marked as a quotation.
fn message(request: &RequestView, run: &str, rejected: Option<&str>) -> String {
    let mut text = format!("{} asks (run {run}):\n", visible(&request.role));
    for line in visible(&request.question).lines() {
        text += &format!("> {line}\n");
    }
    if let Some(arguments) = &request.arguments {
        let arguments = excerpt(&visible(arguments.as_str()), ARGUMENT_CHARS);
        text += &format!("> with {arguments}\n");
    }
    if let Some(why) = rejected {
        text += &format!("The last answer was not accepted: {}\n", visible(why));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns a text with what is not seen escaped.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            c if is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// The form with which a question is asked.
enum Form {
    /// The fields of the answer.
    Fields(ElicitationSchema),
    /// One field, which holds the answer.
    Answer(ElicitationSchema),
}

impl Form {
    fn of_request(request: &RequestView) -> Self {
        let schema = match (&request.arguments, &request.schema) {
            (Some(_), _) => approval_schema(),
            (None, Some(schema)) => schema.value(),
            (None, None) => json!({}),
        };
        // The types of the library accept exactly the schemas that a form can have.
        match serde_json::from_value::<ElicitationSchema>(schema.clone()) {
            Ok(flat) if !flat.properties.is_empty() => Self::Fields(flat),
            _ => Self::Answer(single_field_schema(request, &schema)),
        }
    }

    fn into_schema(self) -> ElicitationSchema {
        match self {
            Self::Fields(schema) | Self::Answer(schema) => schema,
        }
    }
}

/// Returns the form for the question whether a tool call may be made.
fn approval_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approve": { "type": "boolean", "description": "Whether the call may be made." },
            "reason": { "type": "string", "description": "Why not. The model is told." },
        },
        "required": ["approve"],
    })
}

/// Returns the form with the field `answer`.
fn single_field_schema(request: &RequestView, schema: &Value) -> ElicitationSchema {
    let field = if request.choices.is_empty() {
        json!({ "type": "string", "description": describe_answer(schema) })
    } else {
        json!({ "type": "string", "enum": request.choices })
    };
    let form = json!({
        "type": "object",
        "properties": { ANSWER_FIELD: field },
        "required": [ANSWER_FIELD],
    });
    serde_json::from_value(form)
        .expect("a form with one text is a form, and so is one with a choice of texts")
}

fn describe_answer(schema: &Value) -> String {
    match schema {
        Value::Object(keys) if !keys.is_empty() => {
            let schema = visible(&schema.to_string());
            format!("JSON that matches {}", excerpt(&schema, SCHEMA_CHARS))
        }
        _ => "The answer.".into(),
    }
}

/// Reads what a client replied to a question.
pub(super) fn read_reply(request: &RequestView, reply: &Value) -> ClientReply {
    let Ok(result) = serde_json::from_value::<ElicitResult>(reply.clone()) else {
        return ClientReply::Invalid(
            "the reply is no result of `elicitation/create`: it has no `action` of `accept`, `decline` or `cancel`".into(),
        );
    };
    read_result(request, result)
}

/// Reads the result of a request for input.
pub(super) fn read_result(request: &RequestView, result: ElicitResult) -> ClientReply {
    let is_approval = request.arguments.is_some();
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline if is_approval => {
            return ClientReply::Answer(json!({ "approve": false }).to_string());
        }
        _ => return ClientReply::LeftOpen,
    }
    let content = result.content.unwrap_or_else(|| json!({}));
    // Whoever approves a call may also give the whole answer, with other arguments for the call.
    let is_whole = is_approval && content.get(ANSWER_FIELD).is_some();
    let answer = match Form::of_request(request) {
        Form::Fields(_) if !is_whole => content,
        Form::Fields(_) | Form::Answer(_) => match content.get(ANSWER_FIELD) {
            Some(answer) => answer.clone(),
            None => {
                return ClientReply::Invalid(format!("the field `{ANSWER_FIELD}` is missing"));
            }
        },
    };
    ClientReply::Answer(match answer {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use strata_core::record::json::Json;

    use super::*;

    fn request(schema: Option<Value>) -> RequestView {
        RequestView {
            id: "ask-0-0-0-0".into(),
            role: "Writer".into(),
            index: Some(0),
            action: "draft".into(),
            question: "how many?".into(),
            arguments: None,
            said: None,
            choices: Vec::new(),
            schema: schema.map(Json::from),
            fields: Vec::new(),
            default: None,
            expires_ms: None,
        }
    }

    fn approval() -> RequestView {
        RequestView {
            arguments: Some(Json::from(json!({ "path": "/etc" }))),
            ..request(Some(json!({
                "type": "object",
                "properties": { "approve": { "type": "boolean" }, "arguments": { "type": "object" } },
            })))
        }
    }

    fn properties(request: &RequestView) -> Value {
        let form = serde_json::to_value(form(request, "r", None)).expect("JSON");
        form["requestedSchema"]["properties"].clone()
    }

    #[test]
    fn a_flat_schema_is_the_form_and_any_other_is_one_field() {
        let flat = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" }, "sure": { "type": "boolean" } },
            "required": ["n"],
        });
        assert_eq!(properties(&request(Some(flat.clone()))), flat["properties"]);
        for other in [
            json!({ "type": "integer" }),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "a": { "type": "object" } } }),
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": {} } }),
            json!(true),
        ] {
            let form = properties(&request(Some(other.clone())));
            assert_eq!(form[ANSWER_FIELD]["type"], "string", "{other}");
            assert_eq!(form.as_object().map(|fields| fields.len()), Some(1));
        }
        let choices = RequestView {
            choices: vec!["yes".into(), "no".into()],
            ..request(None)
        };
        assert_eq!(
            properties(&choices)[ANSWER_FIELD]["enum"],
            json!(["yes", "no"])
        );
        assert!(properties(&approval())["approve"].is_object());
    }

    #[test]
    fn a_reply_is_an_answer_or_leaves_the_request_open() {
        let flat = request(Some(
            json!({ "type": "object", "properties": { "n": { "type": "integer" } } }),
        ));
        let nested = request(Some(
            json!({ "type": "object", "properties": { "a": { "type": "object" } } }),
        ));
        let accept = |content: Value| json!({ "action": "accept", "content": content });
        let answer = |text: &str| ClientReply::Answer(text.into());
        for (request, reply, expected) in [
            (&flat, accept(json!({ "n": 7 })), answer(r#"{"n":7}"#)),
            (
                &nested,
                accept(json!({ "answer": "{\"a\":{}}" })),
                answer(r#"{"a":{}}"#),
            ),
            (
                &nested,
                accept(json!({ "answer": { "a": {} } })),
                answer(r#"{"a":{}}"#),
            ),
            (
                &request(None),
                accept(json!({ "answer": "as it is" })),
                answer("as it is"),
            ),
            (
                &approval(),
                accept(json!({ "approve": true })),
                answer(r#"{"approve":true}"#),
            ),
            (
                &approval(),
                accept(json!({ "answer": r#"{"approve":true,"arguments":{}}"# })),
                answer(r#"{"approve":true,"arguments":{}}"#),
            ),
            (
                &approval(),
                json!({ "action": "decline" }),
                answer(r#"{"approve":false}"#),
            ),
            (
                &approval(),
                json!({ "action": "cancel" }),
                ClientReply::LeftOpen,
            ),
            (&flat, json!({ "action": "decline" }), ClientReply::LeftOpen),
            (&flat, json!({ "action": "cancel" }), ClientReply::LeftOpen),
        ] {
            assert_eq!(read_reply(request, &reply), expected, "{reply}");
        }
        for wrong in [json!(7), json!({}), json!({ "action": "perhaps" })] {
            assert!(
                matches!(read_reply(&flat, &wrong), ClientReply::Invalid(_)),
                "{wrong}"
            );
        }
        let missing = read_reply(&nested, &accept(json!({})));
        assert!(matches!(missing, ClientReply::Invalid(_)));
    }

    #[test]
    fn a_question_is_quoted_and_hides_nothing() {
        let request = RequestView {
            question: "delete?\nsay \u{202e}on".into(),
            ..request(None)
        };
        assert_eq!(
            message(&request, "r", Some("`maybe` is no number")),
            "Writer asks (run r):\n> delete?\n> say \\u{202e}on\nThe last answer was not accepted: `maybe` is no number"
        );
    }
}
