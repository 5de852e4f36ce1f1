//! The published rules of providers for requests, as far as they depend on what a conversation
//! contains. Each function fails with the rule that a body breaks. The rules are written down here
//! a second time, independently of what makes requests valid.

use std::collections::BTreeSet;

use serde_json::Value;

type Checked = Result<(), String>;

/// Checks a name of a tool against the pattern of all providers.
fn check_name(name: &Value) -> Checked {
    let name = text(name)?;
    let accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    require(
        (1..=64).contains(&name.len()) && name.chars().all(accepted),
        || format!("the name {name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$"),
    )
}

fn check_id(id: &str, longest: usize) -> Checked {
    let accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    require(
        (1..=longest).contains(&id.len()) && id.chars().all(accepted),
        || format!("the id {id:?} is not accepted"),
    )
}

fn check_visible(value: &Value) -> Checked {
    let text = text(value)?;
    require(
        text.chars().any(|c| !c.is_whitespace() && !c.is_control()),
        || format!("the text {text:?} is blank"),
    )
}

fn check_arguments(arguments: &Value) -> Checked {
    let text = text(arguments)?;
    let parsed: Value = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    require(parsed.is_object(), || format!("{text} is not an object"))
}

/// No provider stores NUL, and JSON parsers refuse unpaired surrogates.
fn check_characters(body: &Value) -> Checked {
    match body {
        Value::String(text) => require(!text.contains('\0'), || format!("{text:?} contains NUL")),
        Value::Array(items) => items.iter().try_for_each(check_characters),
        Value::Object(fields) => fields.values().try_for_each(check_characters),
        _ => Ok(()),
    }
}

/// Checks a request of chat completions.
pub(super) fn check_chat_completions(body: &Value) -> Checked {
    check_characters(body)?;
    let mut ids = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for message in items(&body["messages"])? {
        let role = text(&message["role"])?;
        require(role == "tool" || open.is_empty(), || {
            format!("calls without a result before {message}: {open:?}")
        })?;
        match role {
            "system" => check_visible(&message["content"])?,
            "user" => check_content(&message["content"])?,
            "assistant" => {
                let calls = message.get("tool_calls").map(items).transpose()?;
                if calls.is_none() || !message["content"].is_null() {
                    check_visible(&message["content"])?;
                }
                for call in calls.unwrap_or_default() {
                    let id = text(&call["id"])?.to_owned();
                    check_id(&id, 40)?;
                    require(ids.insert(id.clone()), || {
                        format!("the id {id} is not unique")
                    })?;
                    open.push(id);
                    check_name(&call["function"]["name"])?;
                    check_arguments(&call["function"]["arguments"])?;
                }
            }
            "tool" => {
                let id = text(&message["tool_call_id"])?;
                let place = open.iter().position(|open| open == id);
                let place = place.ok_or_else(|| format!("no call has the id {id}"))?;
                open.remove(place);
                check_visible(&message["content"])?;
            }
            other => return Err(format!("the role {other}")),
        }
    }
    require(open.is_empty(), || {
        format!("calls without a result: {open:?}")
    })
}

/// Checks the content of a user: a text, or a list of parts.
fn check_content(content: &Value) -> Checked {
    let Value::Array(parts) = content else {
        return check_visible(content);
    };
    require(!parts.is_empty(), || "an empty content".to_owned())?;
    for part in parts {
        if let Some(text) = part.get("text") {
            check_visible(text)?;
        }
    }
    Ok(())
}

/// Checks a request of Responses.
pub(super) fn check_responses(body: &Value) -> Checked {
    check_characters(body)?;
    let mut ids = BTreeSet::new();
    let mut item_ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let mut after_reasoning = false;
    for item in items(&body["input"])? {
        let kind = item["type"].as_str().unwrap_or("message");
        let from_model =
            matches!(kind, "function_call" | "reasoning") || item["role"] == "assistant";
        require(!after_reasoning || from_model, || {
            "reasoning without the item that follows it".to_owned()
        })?;
        after_reasoning = kind == "reasoning";
        let is_output = kind == "function_call_output";
        require(open.is_empty() || from_model || is_output, || {
            format!("calls without a result before {item}: {open:?}")
        })?;
        if let Some(id) = item["id"].as_str() {
            require(item_ids.insert(id.to_owned()), || {
                format!("the item {id} twice")
            })?;
        }
        match kind {
            "message" => check_content(&item["content"])?,
            "function_call" => {
                let id = text(&item["call_id"])?.to_owned();
                check_id(&id, 64)?;
                require(ids.insert(id.clone()), || {
                    format!("the id {id} is not unique")
                })?;
                open.insert(id);
                check_name(&item["name"])?;
                check_arguments(&item["arguments"])?;
            }
            "function_call_output" => {
                let id = text(&item["call_id"])?;
                require(open.remove(id), || format!("no call has the id {id}"))?;
                check_content(&item["output"])?;
            }
            "reasoning" => {}
            other => return Err(format!("an item of the type {other}")),
        }
    }
    require(!after_reasoning, || "reasoning at the end".to_owned())?;
    require(open.is_empty(), || {
        format!("calls without a result: {open:?}")
    })
}

/// Checks a request of Messages.
pub(super) fn check_messages(body: &Value) -> Checked {
    check_characters(body)?;
    let messages = items(&body["messages"])?;
    let first = messages.first().ok_or("no messages")?;
    require(first["role"] == "user", || {
        "the first message is not the user's".to_owned()
    })?;
    for block in body
        .get("system")
        .map(items)
        .transpose()?
        .unwrap_or_default()
    {
        check_visible(&block["text"])?;
    }
    let mut ids = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let blocks = items(&message["content"])?;
        let last = blocks.last().ok_or("a message without content")?;
        if message["role"] == "assistant" {
            require(open.is_empty(), || {
                format!("calls without a result: {open:?}")
            })?;
            require(last["type"] != "thinking", || {
                "thinking ends a message".to_owned()
            })?;
            for block in blocks {
                match text(&block["type"])? {
                    "text" => check_visible(&block["text"])?,
                    "tool_use" => {
                        let id = text(&block["id"])?.to_owned();
                        check_id(&id, 64)?;
                        require(ids.insert(id.clone()), || {
                            format!("the id {id} is not unique")
                        })?;
                        open.push(id);
                        check_name(&block["name"])?;
                        require(block["input"].is_object(), || "an input".to_owned())?;
                    }
                    "thinking" => {}
                    other => return Err(format!("a block of the type {other}")),
                }
            }
            continue;
        }
        // Results come first, and those of all calls of the message before.
        let is_result = |block: &&Value| block["type"] == "tool_result";
        let results = blocks.iter().take_while(is_result).count();
        require(blocks.iter().filter(is_result).count() == results, || {
            "a result after another block".to_owned()
        })?;
        for block in &blocks[..results] {
            let id = text(&block["tool_use_id"])?;
            let place = open.iter().position(|open| open == id);
            open.remove(place.ok_or_else(|| format!("no call has the id {id}"))?);
            check_content(&block["content"])?;
        }
        require(open.is_empty(), || {
            format!("calls without a result: {open:?}")
        })?;
        check_content(&Value::from(blocks[results..].to_vec())).or_else(|error| {
            if results == blocks.len() {
                Ok(())
            } else {
                Err(error)
            }
        })?;
    }
    require(open.is_empty(), || {
        format!("calls without a result: {open:?}")
    })?;
    require(ids.is_empty() || body["tools"].is_array(), || {
        "calls without tools".to_owned()
    })
}

/// Checks a request of `generateContent` to a model that requires signatures.
pub(super) fn check_generate_content(body: &Value) -> Checked {
    check_characters(body)?;
    let contents = items(&body["contents"])?;
    let mut open: Vec<Value> = Vec::new();
    let mut previous = "model";
    require(!contents.is_empty(), || "no contents".to_owned())?;
    for content in contents {
        let role = text(&content["role"])?;
        let parts = items(&content["parts"])?;
        require(!parts.is_empty(), || "a content without parts".to_owned())?;
        let calls: Vec<&Value> = values(parts, "functionCall").collect();
        let responses: Vec<&Value> = values(parts, "functionResponse").collect();
        require(responses.len() == open.len(), || {
            format!("{} responses to {} calls", responses.len(), open.len())
        })?;
        for (call, response) in open.iter().zip(responses) {
            for field in ["id", "name"] {
                require(call[field] == response[field], || {
                    format!("{call} and {response}")
                })?;
            }
            require(response["response"].is_object(), || "a response".to_owned())?;
        }
        open = calls.into_iter().cloned().collect();
        require(open.is_empty() || role == "model", || {
            "calls of the user".to_owned()
        })?;
        require(role != "model" || previous == "user", || {
            "a content of the model does not follow one of the user".to_owned()
        })?;
        previous = role;
        check_parts(parts)?;
    }
    require(open.is_empty(), || {
        format!("calls without a response: {open:?}")
    })
}

fn check_parts(parts: &[Value]) -> Checked {
    for part in parts {
        let is_signed = part["thoughtSignature"].is_string();
        if let Some(text) = part.get("text")
            && !is_signed
            && part["thought"] != true
        {
            check_visible(text)?;
        }
        if let Some(call) = part.get("functionCall") {
            check_name(&call["name"])?;
            let name = text(&call["name"])?;
            let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
            require(name.starts_with(begins), || format!("the name {name}"))?;
            require(call["args"].is_object(), || "the arguments".to_owned())?;
        }
        let kinds = [
            "text",
            "functionCall",
            "functionResponse",
            "inlineData",
            "fileData",
        ];
        require(kinds.iter().any(|kind| part.get(kind).is_some()), || {
            format!("the part {part} has no data")
        })?;
    }
    let first = parts.iter().find(|part| part.get("functionCall").is_some());
    require(
        first.is_none_or(|call| call["thoughtSignature"].is_string()),
        || "a call without a signature".to_owned(),
    )
}

fn values<'a>(parts: &'a [Value], field: &'static str) -> impl Iterator<Item = &'a Value> {
    parts.iter().filter_map(move |part| part.get(field))
}

fn text(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("{value} is not a text"))
}

fn items(value: &Value) -> Result<&[Value], String> {
    let items = value
        .as_array()
        .ok_or_else(|| format!("{value} is not a list"))?;
    Ok(items)
}

fn require(holds: bool, rule: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(rule()) }
}
