//! The chat completions protocol: interpreting replies. Writing requests is in `body`, and
//! assembling a streamed reply from its chunks is in `assembler`.
//!
//! Endpoints differ in what they leave out and in how they represent the rest. Only one thing is
//! required of a reply: a message in one of its choices.

mod assembler;
mod body;
mod tool_calls;

pub(super) use assembler::Assembler;
pub(super) use body::{Dialect, request_body};

use serde_json::Value;

use super::protocol::{ParsedReply, ReplyProblem, UnusableReply};
use super::tokens::{ReportedUsage, UsageWithoutReply, parse_token_count};
use super::{FinishReason, ToolCall};

/// The maximum number of tool calls in one reply. Models write about a hundred at most.
const MAX_TOOL_CALLS: usize = 1024;

/// Interprets a reply.
pub(super) fn parse_reply(reply: &Value) -> Result<ParsedReply, UnusableReply> {
    let choice = first_choice(reply);
    let usage = usage(reply, choice);
    let message = message_of(choice);
    let content = MessageText::from_message(message);
    let tool_calls = tool_calls(message);
    let reasoning = reasoning_text(message);
    let reject = |problem| {
        let wrote = !content.text.is_empty() || !tool_calls.is_empty() || !reasoning.is_empty();
        let usage = match usage {
            usage if usage.is_known() => {
                UsageWithoutReply::Tokens(usage.or_estimate(Default::default()))
            }
            _ if wrote => UsageWithoutReply::Unknown,
            _ => UsageWithoutReply::Nothing,
        };
        Err(UnusableReply { problem, usage })
    };
    if let Some(error) = stated_error(reply).or_else(|| stated_error(choice)) {
        return reject(ReplyProblem::StatedError(error.clone()));
    }
    let reason = &choice["finish_reason"];
    if let Some(reason) = reason.as_str().filter(|reason| is_failure(reason)) {
        return reject(ReplyProblem::FailureReason(reason.to_owned()));
    }
    if !message.is_object() {
        return reject(ReplyProblem::NoMessage);
    }
    if tool_calls.len() > MAX_TOOL_CALLS {
        return reject(ReplyProblem::TooManyToolCalls {
            limit: MAX_TOOL_CALLS,
        });
    }
    let finish = match finish_reason(reason) {
        _ if content.is_refusal => FinishReason::Refusal,
        FinishReason::Stop if !tool_calls.is_empty() => FinishReason::ToolCalls,
        FinishReason::ToolCalls if tool_calls.is_empty() => FinishReason::Stop,
        finish => finish,
    };
    let model = reply["model"]
        .as_str()
        .filter(|model| !model.is_empty())
        .map(str::to_owned);
    Ok(ParsedReply {
        text: content.text,
        tool_calls,
        reasoning,
        model,
        finish,
        usage,
    })
}

/// Returns the error that a reply or a choice states, in whatever form.
fn stated_error(place: &Value) -> Option<&Value> {
    let error = &place["error"];
    let states = match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    if states {
        return Some(error);
    }
    (place["object"] == "error" || place["type"] == "error").then_some(place)
}

/// Returns the choice with the lowest index. Without indices, this is the first one.
fn first_choice(reply: &Value) -> &Value {
    let choices = reply["choices"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let numbered = choices
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
    let own = message["refusal"].as_str().unwrap_or_default();
    let parts = message["content"].as_array().into_iter().flatten();
    let parts = parts
        .filter(|part| part["type"] == "refusal")
        .filter_map(|part| part["refusal"].as_str());
    [own].into_iter().chain(parts).collect()
}

/// Returns the reasoning that is sent separately from the text. It is needed to estimate the tokens
/// if the endpoint does not report them.
fn reasoning_text(message: &Value) -> String {
    let fields = ["reasoning_content", "reasoning"];
    let field = fields
        .into_iter()
        .find_map(|field| message[field].as_str().filter(|text| !text.is_empty()));
    field.unwrap_or_default().to_owned()
}

/// Returns the tool calls in a message, including the deprecated form of a single function call.
fn tool_calls(message: &Value) -> Vec<ToolCall> {
    let list = message["tool_calls"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let legacy = Some(&message["function_call"]).filter(|call| call.is_object() && list.is_empty());
    list.iter().chain(legacy).map(tool_call).collect()
}

fn tool_call(call: &Value) -> ToolCall {
    let function = function(call);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ToolCall {
        id: text(&call["id"]),
        name: text(&function["name"]),
        arguments: match &function["arguments"] {
            // Some models call a tool without parameters with no arguments at all.
            Value::Null => "{}".to_owned(),
            Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
            Value::String(text) => text.clone(),
            document => document.to_string(),
        },
    }
}

/// Returns the object that contains the name and the arguments of a call.
fn function(call: &Value) -> &Value {
    let function = &call["function"];
    if function.is_object() { function } else { call }
}

/// Returns the token usage that a reply reports. Some endpoints put it into the choice.
fn usage(reply: &Value, choice: &Value) -> ReportedUsage {
    let usage = [&reply["usage"], &choice["usage"]]
        .into_iter()
        .find(|usage| usage.is_object());
    let Some(usage) = usage else {
        return ReportedUsage::default();
    };
    let first = |fields: &[&str]| {
        fields
            .iter()
            .find_map(|field| parse_token_count(usage.pointer(field)?))
    };
    ReportedUsage {
        input: first(&["/prompt_tokens", "/input_tokens"]),
        output: first(&["/completion_tokens", "/output_tokens"]),
        total: first(&["/total_tokens"]),
        cached: first(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
        ]),
    }
}

#[cfg(test)]
mod tests;
