//! Requests to people: validates requests and answers. The core's `stepper::human_requests` handles how a
//! call waits for its answer, and the command line how a request is displayed.

use serde_json::Value;
use strata_core::record::human_request::{HumanRequest, ProposedCall};
use strata_core::record::id::RequestId;
use strata_core::record::json::Json;

use crate::plugin::CompiledSchema;

/// The maximum size of a request in bytes, including its schema, choices and default. More would
/// not be read, and every attempt's record contains it.
const MAX_QUESTION_BYTES: usize = 64 << 10;
/// The maximum number of choices.
pub const MAX_CHOICES: usize = 100;
/// The maximum size of an answer in bytes. It is recorded, and served to every further attempt.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The maximum number of characters of an invalid answer that are quoted.
const MAX_QUOTED_CHARS: usize = 60;

/// A question that an action asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanQuestion {
    /// The question.
    pub text: String,
    /// The JSON Schema that the answer has to follow.
    pub schema: Option<String>,
    /// The allowed answers. If empty, any text is allowed.
    pub choices: Vec<String>,
    /// How long an answer is waited for, in seconds.
    pub expires_s: Option<u32>,
    /// The answer that is used after that time.
    pub default: Option<String>,
}

/// The reason why a question or an answer is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidQuestionOrAnswer {
    message: String,
    pointer: String,
}

impl InvalidQuestionOrAnswer {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            pointer: String::new(),
        }
    }

    fn at(self, pointer: String) -> Self {
        Self { pointer, ..self }
    }

    /// Returns the JSON pointer of the part of the answer that is not valid; empty if it is the whole answer.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }
}

impl HumanQuestion {
    /// Fails if nobody could answer the question.
    pub fn check(&self) -> Result<(), InvalidQuestionOrAnswer> {
        let parts = [&self.schema, &self.default]
            .into_iter()
            .flatten()
            .chain(&self.choices)
            .chain([&self.text]);
        let bytes: usize = parts.map(String::len).sum();
        if bytes > MAX_QUESTION_BYTES {
            return fail(format!(
                "the question has {bytes} bytes in all; at most {MAX_QUESTION_BYTES} are asked"
            ));
        }
        if self.choices.len() > MAX_CHOICES {
            let count = self.choices.len();
            return fail(format!(
                "the question has {count} choices; at most {MAX_CHOICES} are shown"
            ));
        }
        // The time and the id do not matter for this check.
        let request = self.to_request(RequestId::from(""), 0)?;
        let schema = compile_schema(&request)?;
        if let Some(schema) = &schema {
            if schema.is_impossible() {
                return fail("nobody could answer it: no value follows its schema");
            }
            let fits = |choice: &String| schema.check(&choice.as_str().into()).is_ok();
            if !self.choices.is_empty() && !self.choices.iter().any(fits) {
                return fail("nobody could answer it: none of its choices follows its schema");
            }
        }
        match &request.default {
            Some(default) => check_answer(&request, schema.as_ref(), default).map_err(|why| {
                InvalidQuestionOrAnswer::new(format!("the default is not a valid answer: {why}"))
            }),
            None => Ok(()),
        }
    }

    /// Creates the request for a question that was checked. `now_ms` is in milliseconds since 1970.
    pub fn to_request(
        &self,
        id: RequestId,
        now_ms: i64,
    ) -> Result<HumanRequest, InvalidQuestionOrAnswer> {
        let json = |what: &str, text: &Option<String>| match text {
            Some(text) => Json::parse(text)
                .map(Some)
                .map_err(|error| InvalidQuestionOrAnswer::new(format!("the {what} is {error}"))),
            None => Ok(None),
        };
        Ok(HumanRequest {
            id,
            question: self.text.clone(),
            schema: json("schema", &self.schema)?,
            choices: self.choices.clone(),
            default: json("default", &self.default)?,
            expires_ms: self
                .expires_s
                .map(|time| now_ms.saturating_add(i64::from(time) * 1000)),
            proposed: None,
            asked_by: None,
        })
    }

    /// Returns the digest that identifies the question among the host calls of an attempt. It does
    /// not depend on the default and on when the question is asked. It is empty if the question was
    /// not checked and cannot be asked.
    pub fn digest(&self) -> String {
        let request = self.to_request(RequestId::from(""), 0);
        request.map_or_else(|_| String::new(), |request| request.call_digest())
    }
}

/// Parses an answer: a JSON document, or bare text if the question accepts a string.
pub fn parse_answer(request: &HumanRequest, text: &str) -> Result<Json, InvalidQuestionOrAnswer> {
    if text.len() > MAX_ANSWER_BYTES {
        return fail(format!(
            "the answer has {} bytes; at most {MAX_ANSWER_BYTES} are taken",
            text.len()
        ));
    }
    if text.trim().is_empty() {
        return fail("the answer is empty; an empty text is `\"\"`");
    }
    let schema = request.schema.as_ref().map(compile_recorded).transpose()?;
    let check = |value: &Json| check_answer(request, schema.as_ref(), value);
    let as_text = || Json::from(Value::from(text.trim()));
    match Json::parse_decision(text) {
        Ok(value) => check(&value).map(|()| value).or_else(|why| {
            // A number or a literal such as `true` may be meant as a string.
            let bare = !looks_like_json(text);
            if bare && check(&as_text()).is_ok() {
                Ok(as_text())
            } else {
                Err(why)
            }
        }),
        Err(error) if looks_like_json(text) => fail(format!("`{}` is {error}", quote_start(text))),
        Err(_) => check(&as_text()).map(|()| as_text()),
    }
}

/// Returns whether a text begins like a JSON object, array or string, and so cannot be a bare word.
pub fn looks_like_json(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' '])
        .trim_start()
        .starts_with(['{', '[', '"'])
}

/// Checks whether a value answers a request.
fn check_answer(
    request: &HumanRequest,
    schema: Option<&CompiledSchema>,
    value: &Json,
) -> Result<(), InvalidQuestionOrAnswer> {
    let mut value = value.value();
    if request.asked_by.is_some() {
        if value.is_null() {
            // It declines.
            return Ok(());
        }
        let schema = request.schema.as_ref().map(Json::value);
        fill_in_defaults(&mut value, &schema.unwrap_or_default());
    }
    if !request.choices.is_empty()
        && !value
            .as_str()
            .is_some_and(|text| request.choices.iter().any(|c| c == text))
    {
        let choices: Vec<String> = request
            .choices
            .iter()
            .map(|choice| format!("`{}`", quote_start(choice)))
            .collect();
        return fail(format!(
            "`{}` is none of the choices {}",
            quote_start(&value.to_string()),
            choices.join(", ")
        ));
    }
    if let Some(schema) = schema {
        schema.check(&value).map_err(|why| {
            InvalidQuestionOrAnswer::new(format!("it does not follow the schema: {why}"))
                .at(schema.first_violation(&value))
        })?;
    }
    match (&request.proposed, value.get("arguments")) {
        (Some(call), Some(arguments)) => check_changed_arguments(call, arguments),
        _ => Ok(()),
    }
}

/// Adds the fields that an answer omits and for which its schema has defaults.
pub(crate) fn fill_in_defaults(answer: &mut Value, schema: &Value) {
    let (Value::Object(fields), Some(Value::Object(properties))) =
        (answer, schema.get("properties"))
    else {
        return;
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default") {
            fields
                .entry(name.clone())
                .or_insert_with(|| default.clone());
        }
    }
}

/// Checks whether a tool can be called with arguments that a person sets: with the tool's own schema,
/// as it is.
fn check_changed_arguments(
    call: &ProposedCall,
    arguments: &Value,
) -> Result<(), InvalidQuestionOrAnswer> {
    let Some(schema) = &call.input_schema else {
        return Ok(());
    };
    let schema = compile_recorded(schema)?;
    schema.check(arguments).map_err(|why| {
        InvalidQuestionOrAnswer::new(format!(
            "the arguments do not follow the schema of `{}`: {why}",
            call.tool
        ))
        .at(format!("/arguments{}", schema.first_violation(arguments)))
    })
}

fn compile_schema(
    request: &HumanRequest,
) -> Result<Option<CompiledSchema>, InvalidQuestionOrAnswer> {
    let schema = request
        .schema
        .as_ref()
        .map(|schema| CompiledSchema::compile_bounded(&schema.value()))
        .transpose();
    schema.map_err(|why| InvalidQuestionOrAnswer::new(format!("its schema cannot be used: {why}")))
}

/// Compiles the schema of a request that was opened. That of a guest is within the bounds, as was
/// checked before; that of an operator may be beyond them.
fn compile_recorded(schema: &Json) -> Result<CompiledSchema, InvalidQuestionOrAnswer> {
    let schema = schema.value();
    CompiledSchema::compile_bounded(&schema)
        .or_else(|_| CompiledSchema::compile(&schema))
        .map_err(|why| InvalidQuestionOrAnswer::new(format!("its schema cannot be used: {why}")))
}

/// Returns the beginning of a text, for display.
fn quote_start(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

fn fail<T>(why: impl Into<String>) -> Result<T, InvalidQuestionOrAnswer> {
    Err(InvalidQuestionOrAnswer::new(why))
}

#[cfg(test)]
mod tests;
