//! The chat completions protocol of OpenAI, which many other providers and local servers speak.
//! Writing requests is in `request`, assembling streamed replies in `builder`.
//!
//! Endpoints differ in what they leave out and in how they represent the rest. Only one thing is
//! required of a reply: a message in one of its choices.

mod builder;
mod embeddings;
mod request;
mod tool_calls;

use reqwest::Url;
use serde_json::{Map, Value};
use strata_core::record::conversation::AssistantPart;

use super::assembler::ReplyBuilder;
use super::parsed_reply::{
    ParsedReply, ReplyProblem, SentToolCall, items_of, name_of, stated_error, text_of,
};
use super::usage::UsageReports;
use super::{
    EmbeddingProtocol, KeyHeader, ModelProtocol, Outbound, ReplyContext, RequestBody, TransferMode,
    append_path,
};
pub(super) use embeddings::OpenAiEmbeddings;

use crate::gateway::HostError;
use crate::models::FinishReason;
use crate::models::tokens::{ReportedUsage, first_count};
use crate::tool_name::NameRule;

/// The protocol, in the dialect of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ChatCompletions {
    /// OpenAI's own, whose newer models reject `max_tokens`.
    OpenAi,
    /// That of all other endpoints.
    Compatible,
}

/// The host of OpenAI's own endpoint.
const OPENAI_HOST: &str = "api.openai.com";

/// The fields in which endpoints send reasoning that they expect back.
const RETURNED_REASONING: [&str; 2] = ["reasoning_content", "reasoning_details"];
/// The fields in which endpoints send the text of reasoning.
const REASONING_TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// The field in which Gemini's endpoint sends a signature that it expects back, in a tool call or in a
/// message (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const EXTRA_CONTENT: &str = "extra_content";
/// The fields of a tool call that endpoints expect back with it, each an object. LiteLLM, which
/// forwards to other providers, has a field of its own for what it translates.
const RETURNED_WITH_CALLS: [&str; 2] = [EXTRA_CONTENT, "provider_specific_fields"];
/// The name under which what belongs to a message is kept with what belongs to its calls.
const MESSAGE_EXTRA: &str = "message_extra_content";
/// The maximum size in bytes of what is returned with one call or message. Signatures have a few
/// thousand. What is larger is not kept: it would be sent and recorded with each further request.
const MAX_EXTRA_BYTES: usize = 256 << 10;

impl ChatCompletions {
    /// Returns the dialect of the endpoint at a URL.
    pub(super) fn for_url(url: &Url) -> Self {
        if url.host_str() == Some(OPENAI_HOST) {
            Self::OpenAi
        } else {
            Self::Compatible
        }
    }
}

impl ModelProtocol for ChatCompletions {
    fn url(&self, base: &Url, _model: &str, _transfer: TransferMode) -> Url {
        append_path(base, &["chat", "completions"])
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::BEARER
    }

    fn body(&self, outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
        request::body(*self, outbound)
    }

    /// Gemini demands a letter or `_` first, also behind endpoints that forward requests to it.
    fn tool_names(&self) -> NameRule {
        match self {
            Self::OpenAi => NameRule::Common,
            Self::Compatible => NameRule::LetterFirst,
        }
    }

    fn builder(&self) -> Box<dyn ReplyBuilder> {
        Box::<builder::CompletionBuilder>::default()
    }

    fn embeddings(&self) -> Option<&dyn EmbeddingProtocol> {
        Some(&OpenAiEmbeddings)
    }

    fn parse_reply(&self, reply: &Value, context: ReplyContext<'_>) -> ParsedReply {
        let choice = first_choice(reply);
        let message = message_of(choice);
        let content = MessageText::from_message(message);
        let reason = &choice["finish_reason"];
        let reasoning = reasoning_text(message);
        let mut parsed = ParsedReply {
            reasoning_chars: reasoning.chars().count(),
            model: name_of(&reply["model"]),
            finish: if content.is_refusal {
                FinishReason::Refusal
            } else {
                finish_reason(reason)
            },
            usage: usage(reply, choice),
            problem: problem(choice),
            ..ParsedReply::default()
        };
        parsed.push_text(content.text);
        let mut extras = ReturnedExtras::of_message(message);
        for sent in sent_tool_calls(message) {
            let function = function(sent);
            let call = SentToolCall {
                id: &sent["id"],
                name: &function["name"],
                arguments: &function["arguments"],
            };
            let added = parsed.push_tool_call(context, call);
            if let Some(call) = added {
                extras.add_call(&call.id, sent);
            }
        }
        let opaque = opaque_part(message, extras, reasoning, context);
        parsed.parts.extend(opaque);
        parsed
    }
}

/// Returns why a choice cannot be used, if it says so or is none.
fn problem(choice: &Value) -> Option<ReplyProblem> {
    if let Some(error) = stated_error(choice) {
        return Some(ReplyProblem::StatedError(error.clone()));
    }
    let reason = choice["finish_reason"].as_str();
    if let Some(reason) = reason.filter(|reason| is_failure(reason)) {
        return Some(ReplyProblem::FailureReason(reason.to_owned()));
    }
    (!message_of(choice).is_object()).then_some(ReplyProblem::NoMessage)
}

/// Returns what the endpoint expects back besides text and tool calls, with the `extras`, and the text of its reasoning, if there is any of it.
fn opaque_part(
    message: &Value,
    extras: ReturnedExtras,
    reasoning: String,
    context: ReplyContext<'_>,
) -> Option<AssistantPart> {
    let mut data = Map::new();
    for field in RETURNED_REASONING {
        let sent = &message[field];
        let is_text_only = sent.is_string();
        let is_empty = text_of(sent).is_empty() && items_of(sent).is_empty();
        if !is_empty && (context.keep_thinking || !is_text_only) {
            let mut sent = sent.clone();
            if !context.keep_thinking {
                remove_texts(&mut sent);
            }
            data.insert(field.to_owned(), sent);
        }
    }
    data.extend(extras.0);
    let reasoning = if context.keep_thinking {
        reasoning
    } else {
        String::new()
    };
    (!data.is_empty() || !reasoning.is_empty())
        .then(|| AssistantPart::Opaque(context.opaque(data.into(), reasoning)))
}

/// What an endpoint expects back with a message and its tool calls: for each field of calls, what was
/// in it, by the ids of the calls; and what the message had.
#[derive(Default)]
struct ReturnedExtras(Map<String, Value>);

impl ReturnedExtras {
    /// Returns what is expected back with a message itself.
    fn of_message(message: &Value) -> Self {
        let mut extras = Self::default();
        if let Some(extra) = returned_extra(&message[EXTRA_CONTENT]) {
            extras.0.insert(MESSAGE_EXTRA.to_owned(), extra.clone());
        }
        extras
    }

    /// Adds what is expected back with the call that has this id here.
    fn add_call(&mut self, id: &str, sent: &Value) {
        for field in RETURNED_WITH_CALLS {
            if let Some(extra) = returned_extra(&sent[field]) {
                self.0.entry(field).or_insert_with(|| Map::new().into())[id] = extra.clone();
            }
        }
    }
}

/// Returns a field that is expected back, if it is one and not too large.
fn returned_extra(field: &Value) -> Option<&Value> {
    let is_kept = field.as_object().is_some_and(|map| !map.is_empty());
    (is_kept && field.to_string().len() <= MAX_EXTRA_BYTES).then_some(field)
}

/// Removes the readable texts from a list of reasoning details, which keep their signatures.
fn remove_texts(details: &mut Value) {
    for detail in details.as_array_mut().into_iter().flatten() {
        for field in ["text", "summary"] {
            if detail[field].is_string() {
                detail[field] = "".into();
            }
        }
    }
}

/// Returns the choice with the lowest index. Without indices, this is the first one.
fn first_choice(reply: &Value) -> &Value {
    let numbered = items_of(&reply["choices"])
        .iter()
        .zip(0..)
        .map(|(choice, place)| (index_of(choice, place), choice));
    numbered
        .min_by_key(|(index, _)| *index)
        .map_or(&Value::Null, |(_, choice)| choice)
}

fn index_of(part: &Value, place: u64) -> u64 {
    part["index"].as_u64().unwrap_or(place)
}

/// Returns the message of a choice. It is called `delta` in a chunk of a stream, and with some
/// endpoints also in a complete reply.
fn message_of(choice: &Value) -> &Value {
    let [message, delta] = [&choice["message"], &choice["delta"]];
    let has_delta = delta.as_object().is_some_and(|delta| !delta.is_empty());
    if has_delta || !message.is_object() {
        delta
    } else {
        message
    }
}

fn is_failure(reason: &str) -> bool {
    reason.is_empty() || reason.eq_ignore_ascii_case("error")
}

fn finish_reason(reason: &Value) -> FinishReason {
    let Some(reason) = reason.as_str() else {
        return FinishReason::Stop;
    };
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => FinishReason::ToolCalls,
        "content_filter" | "refusal" | "safety" => FinishReason::Refusal,
        _ => FinishReason::Other,
    }
}

/// The text of a message.
#[derive(Debug, Default)]
struct MessageText {
    text: String,
    /// Whether the text is a refusal.
    is_refusal: bool,
}

impl MessageText {
    fn from_message(message: &Value) -> Self {
        let text = content_text(&message["content"]);
        let refusal = refusal_text(message);
        let is_refusal = !refusal.is_empty();
        Self {
            text: if text.is_empty() { refusal } else { text },
            is_refusal,
        }
    }
}

/// Returns the text of a content: a string, one part, or a list of parts. Any other value is
/// returned as JSON, because some endpoints return a JSON answer unquoted.
fn content_text(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part_text).collect(),
        Value::Object(map) if map.contains_key("type") || content["text"].is_string() => {
            part_text(content)
        }
        other => other.to_string(),
    }
}

/// Returns the text of a part. Parts of other types, such as reasoning, do not belong to the
/// answer.
fn part_text(part: &Value) -> String {
    let text = match (part, part["type"].as_str()) {
        (Value::String(text), _) => Some(text.as_str()),
        (part, None | Some("text" | "output_text")) => part["text"].as_str(),
        _ => None,
    };
    text.unwrap_or_default().to_owned()
}

/// Returns the refusal, which is in a field of its own or in a part.
fn refusal_text(message: &Value) -> String {
    let own = text_of(&message["refusal"]);
    let parts = items_of(&message["content"])
        .iter()
        .filter(|part| part["type"] == "refusal")
        .map(|part| text_of(&part["refusal"]));
    [own].into_iter().chain(parts).collect()
}

/// Returns the reasoning that is sent separately from the text: in a field of its own, or in parts
/// of the content, as Mistral does (<https://docs.mistral.ai/capabilities/reasoning/>).
fn reasoning_text(message: &Value) -> String {
    let field = REASONING_TEXTS
        .into_iter()
        .find_map(|field| name_of(&message[field]));
    field.unwrap_or_else(|| {
        let parts = items_of(&message["content"]).iter();
        parts.map(|part| content_text(&part["thinking"])).collect()
    })
}

/// Returns the tool calls in a message, including the deprecated form of a single function call.
fn sent_tool_calls(message: &Value) -> impl Iterator<Item = &Value> {
    let list = items_of(&message["tool_calls"]);
    let legacy = Some(&message["function_call"]).filter(|call| call.is_object() && list.is_empty());
    list.iter().chain(legacy)
}

/// Returns the object that contains the name and the arguments of a call.
fn function(call: &Value) -> &Value {
    let function = &call["function"];
    if function.is_object() { function } else { call }
}

/// Returns the token usage that a reply reports. Some endpoints put it into the choice.
fn usage(reply: &Value, choice: &Value) -> ReportedUsage {
    let mut reports = UsageReports::default();
    reports.add(reply["usage"].clone());
    reports.add(choice["usage"].clone());
    let usage = &reports.finish();
    let first = |fields: &[&str]| first_count(usage, fields);
    ReportedUsage {
        input: first(&["/prompt_tokens", "/input_tokens"]),
        output: first(&["/completion_tokens", "/output_tokens"]),
        total: first(&["/total_tokens"]),
        cache_read: first(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
        ]),
        cache_write: first(&["/prompt_tokens_details/cache_write_tokens"]),
        reasoning: first(&[
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
        ]),
    }
}

#[cfg(test)]
mod tests;
