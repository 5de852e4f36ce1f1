//! Checks that replies match the schema of their request.

use strata_core::record::json::{self, Json, JsonError};

use super::endpoint::Outlook;
use super::error_text::{excerpt, invalid};
use super::{FinishReason, ModelReply, ModelRequest};
use crate::gateway::HostError;
use crate::plugin::CompiledSchema;

/// How much of what is wrong with arguments or an answer the model is told, in characters.
const MAX_REASON_CHARS: usize = 1000;

/// What a reply has to match.
pub(super) struct ReplyCheck {
    schema: Option<CompiledSchema>,
    max_tokens: Option<u32>,
}

/// A reply that does not match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// What is wrong with it, to follow "asking the model failed:".
    pub(super) message: String,
    /// Whether the model may do better if it is asked again. It will not if its reply was truncated
    /// or refused.
    pub(super) may_improve: bool,
}

impl Mismatch {
    /// Returns whether another model may answer. A truncated reply or a refusal is an answer of the
    /// model, after which no other one is asked.
    pub(super) fn outlook(&self) -> Outlook {
        if self.may_improve {
            Outlook::Elsewhere
        } else {
            Outlook::Nowhere
        }
    }
}

impl ReplyCheck {
    /// Prepares to check the replies to a request. Fails if its schema cannot be used.
    pub(super) fn for_request(request: &ModelRequest) -> Result<Self, HostError> {
        let schema = request.output_schema.as_deref().map(compile).transpose()?;
        Ok(Self {
            schema,
            max_tokens: request.max_tokens,
        })
    }

    /// Returns a reply with its data, or what is wrong with it.
    pub(super) fn check(&self, mut reply: ModelReply) -> Result<ModelReply, Mismatch> {
        let Some(schema) = &self.schema else {
            return Ok(reply);
        };
        let text = reply.text();
        let json = reply
            .data
            .as_deref()
            .unwrap_or_else(|| strip_code_fence(&text));
        let data = match Json::parse(json) {
            Ok(data) => data,
            // A model that calls a tool answers in a later reply.
            Err(_) if reply.tool_calls().next().is_some() => return Ok(reply),
            Err(error) => return Err(self.not_json(&reply, &text, &error)),
        };
        if let Err(why) = schema.check(&data.value()) {
            if reply.tool_calls().next().is_some() {
                return Ok(reply);
            }
            let quoted = excerpt(json);
            let message = format!("the reply does not match the schema: {why}: `{quoted}`");
            return Err(self.mismatch(&reply, message));
        }
        reply.data = Some(data.as_str().to_owned());
        Ok(reply)
    }

    fn not_json(&self, reply: &ModelReply, text: &str, error: &JsonError) -> Mismatch {
        self.mismatch(reply, format!("the reply is {error}: `{}`", excerpt(text)))
    }

    fn mismatch(&self, reply: &ModelReply, message: String) -> Mismatch {
        // Not all endpoints report that they truncated a reply.
        let is_cut = self
            .max_tokens
            .is_some_and(|most| reply.usage.output >= u64::from(most));
        let hint = match (reply.finish, reply.finish.defect()) {
            (FinishReason::Stop, _) if is_cut => "; it was truncated at `max_tokens`".to_owned(),
            (_, Some(defect)) => format!("; it {}", defect.description()),
            (_, None) => String::new(),
        };
        Mismatch {
            may_improve: hint.is_empty(),
            message: message + &hint,
        }
    }
}

fn compile(text: &str) -> Result<CompiledSchema, HostError> {
    let refuse = |why: String| {
        invalid(format!(
            "cannot ask a model: `output-schema` is {why}; give a JSON Schema"
        ))
    };
    let schema = json::parse_untrusted(text).map_err(|error| refuse(error.to_string()))?;
    CompiledSchema::compile_bounded(&schema).map_err(|why| refuse(format!("no schema: {why}")))
}

/// Reads an answer that has to follow a schema. The error says what is wrong with it.
pub fn read_answer(schema: &CompiledSchema, text: &str) -> Result<Json, String> {
    let document = Json::parse(strip_code_fence(text))
        .map_err(|error| format!("it is {error}, and it has to follow the JSON Schema"))?;
    schema
        .check(&document.value())
        .map_err(|why| shorten_reason(&format!("it does not follow the JSON Schema: {why}")))?;
    Ok(document)
}

/// Returns the beginning of what is wrong, which may quote what a model wrote.
pub fn shorten_reason(reason: &str) -> String {
    strata_base::text::excerpt::excerpt(reason, MAX_REASON_CHARS)
}

/// Returns the text without the Markdown code fence that many models put around JSON.
pub(super) fn strip_code_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    match inner.and_then(|t| t.split_once('\n')) {
        Some((_language, body)) => body.trim(),
        None => text,
    }
}
