//! The chat completions protocol: the reply in what came back. The request is in `body`.
//!
//! Endpoints differ in what they leave out. What cannot be done without is the first choice's message.

mod body;

pub(super) use body::{Form, body};

use serde_json::Value;
use strata_core::json;

use super::key::Hush;
use crate::services::llm::tokens::{Used, estimate};
use crate::services::llm::{Reply, Request, ToolCall};

/// The reply in the body of an answer, without the key.
pub(super) fn reply(body: &str, model: &str, request: &Request, hush: Hush<'_>) -> Result<Reply, String> {
    let answer = json::read(body).map_err(|e| {
        let quoted = hush.excerpt(body);
        format!("the answer is {e}: `{quoted}`; is `base_url` right?")
    })?;
    let Some(message) = answer.pointer("/choices/0/message").filter(|m| m.is_object()) else {
        return Err(format!("the answer holds no reply: `{}`", hush.excerpt(body)));
    };
    let answered_by = answer["model"].as_str().filter(|m| !m.is_empty());
    let calls = message["tool_calls"].as_array().map(Vec::as_slice);
    let calls = calls.unwrap_or_default().iter().enumerate();
    let usage = &answer["usage"];
    let (input, output) = (tokens(&usage["prompt_tokens"]), tokens(&usage["completion_tokens"]));
    if input.is_none() || output.is_none() {
        tracing::warn!(model, "the endpoint does not say how many tokens were used: they are estimated");
    }
    let text = text(message);
    let tool_calls: Vec<ToolCall> = calls.map(|(i, call)| called(call, request, i)).collect();
    // A budget must hold for endpoints that do not count, too.
    let said = tool_calls.iter().map(|call| call.arguments.as_str()).chain([text.as_str()]);
    let (input_tokens, output_tokens) =
        (input.unwrap_or_else(|| estimate(request.texts())), output.unwrap_or_else(|| estimate(said)));
    let model = answered_by.unwrap_or(model).to_owned();
    Ok(hush.reply(Reply { text, data: None, tool_calls, model, input_tokens, output_tokens }))
}

/// What an answer says that it used up, which holds no reply.
pub(super) fn used(body: &str) -> Used {
    let Ok(answer) = json::read(body) else { return Used::Nothing };
    let usage = &answer["usage"];
    match (tokens(&usage["prompt_tokens"]), tokens(&usage["completion_tokens"])) {
        (None, None) => Used::Nothing,
        (input, output) => Used::Tokens(input.unwrap_or_default(), output.unwrap_or_default()),
    }
}

/// The text of a message: plain, in parts, or in place of it why the model refuses.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => message["refusal"].as_str().unwrap_or_default().to_owned(),
    }
}

fn called(call: &Value, request: &Request, index: usize) -> ToolCall {
    let id = call["id"].as_str().filter(|id| !id.is_empty());
    let function = &call["function"];
    ToolCall {
        id: id.map_or_else(|| request.tool_call_id(index), str::to_owned),
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        arguments: match &function["arguments"] {
            // A tool without parameters is called with nothing at all by some.
            Value::Null => "{}".to_owned(),
            Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
            Value::String(text) => text.clone(),
            document => document.to_string(),
        },
    }
}

fn tokens(count: &Value) -> Option<u32> {
    Some(u32::try_from(count.as_u64()?).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
