//! The chat completions protocol: a request as JSON, and the reply in what came back.
//!
//! Endpoints differ in what they leave out. What cannot be done without is the first choice's message.

use serde_json::{Map, Value, json};
use strata_core::json;

use crate::gateway::HostError;
use crate::services::llm::models::{excerpt, invalid};
use crate::services::llm::tokens::{Used, estimate};
use crate::services::llm::{Reply, Request, Speaker, Tool, ToolCall, Turn};

/// The name that the protocol wants for a schema.
const SCHEMA_NAME: &str = "reply";

/// How a reply is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In one piece.
    Whole,
    /// As it is written.
    Streamed,
}

/// The body of a request.
pub(super) fn body(model: &str, request: &Request, form: Form) -> Result<String, HostError> {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| body.insert(key.to_owned(), value);
    put("model", model.into());
    put("messages", request.messages.iter().map(turn).collect());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(tool);
        put("tools", Value::Array(tools.collect::<Result<_, _>>()?));
    }
    if let Some(schema) = &request.output_schema {
        let schema = parsed(schema, "`output-schema`")?;
        let format = json!({ "name": SCHEMA_NAME, "schema": schema });
        put("response_format", json!({ "type": "json_schema", "json_schema": format }));
    }
    if let Some(temperature) = request.temperature {
        put("temperature", temperature.into());
    }
    if let Some(max_tokens) = request.max_tokens {
        put("max_tokens", max_tokens.into());
    }
    if !request.stop.is_empty() {
        put("stop", request.stop.clone().into());
    }
    if let Some(seed) = request.seed {
        put("seed", seed.into());
    }
    if form == Form::Streamed {
        put("stream", true.into());
        put("stream_options", json!({ "include_usage": true }));
    }
    Ok(Value::Object(body).to_string())
}

fn turn(turn: &Turn) -> Value {
    let role = match turn.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
    };
    let mut said = json!({ "role": role, "content": turn.content });
    if !turn.tool_calls.is_empty() {
        said["tool_calls"] = turn.tool_calls.iter().map(tool_call).collect();
        if turn.content.is_empty() {
            said["content"] = Value::Null;
        }
    }
    if let Some(id) = &turn.tool_call_id {
        said["tool_call_id"] = id.as_str().into();
    }
    said
}

fn tool_call(call: &ToolCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn tool(tool: &Tool) -> Result<Value, HostError> {
    let parameters = parsed(&tool.parameters, &format!("the parameters of the tool `{}`", tool.name))?;
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
    Ok(json!({ "type": "function", "function": function }))
}

fn parsed(schema: &str, what: &str) -> Result<Value, HostError> {
    json::read(schema).map_err(|e| invalid(format!("ask a model: {what} is {e}; give a JSON Schema")))
}

/// The reply in the body of an answer.
pub(super) fn reply(body: &str, model: &str, request: &Request) -> Result<Reply, String> {
    let answer = json::read(body).map_err(|e| {
        let quoted = excerpt(body);
        format!("the answer is {e}: `{quoted}`; is `base_url` right?")
    })?;
    let Some(message) = answer.pointer("/choices/0/message").filter(|m| m.is_object()) else {
        return Err(format!("the answer holds no reply: `{}`", excerpt(body)));
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
    Ok(Reply { text, data: None, tool_calls, model, input_tokens, output_tokens })
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
