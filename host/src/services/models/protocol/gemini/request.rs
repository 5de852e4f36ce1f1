//! Writes requests in the `generateContent` protocol.

use serde_json::{Map, Value, json};
use strata_core::record::conversation::{
    AssistantPart, Media, ModelMessage, Part, ToolChoice, ToolResult,
};

use super::SIGNATURE;
use crate::gateway::HostError;
use crate::services::models::media::MediaContent;
use crate::services::models::protocol::json_writer::{self, ListWriter, ObjectWriter};
use crate::services::models::protocol::tools::{
    SchemaText, SentTool, arguments_object, sent_tools,
};
use crate::services::models::protocol::{Outbound, RequestBody};
use crate::services::models::request::{is_host_made_id, parts_text};

/// The types of images.
const IMAGE_TYPES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// Returns the body of a request.
pub(super) fn body(outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
    let request = outbound.request;
    let mut body = RequestBody::default();
    write_config(outbound, &mut body)?;
    write_tools(outbound, &mut body)?;
    if !request.system.is_empty() {
        body.field(
            "systemInstruction",
            &json!({ "parts": [{ "text": request.system }] }),
        );
    }
    body.conversation("contents", contents(outbound)?);
    Ok(body)
}

fn write_config(outbound: &Outbound<'_>, body: &mut RequestBody) -> Result<(), HostError> {
    let request = outbound.request;
    let schema = SchemaText::of_reply(request)?;
    let config = json_writer::object(|config| {
        config.optional("temperature", request.temperature.as_ref());
        config.optional("maxOutputTokens", outbound.max_tokens().as_ref());
        config.optional("seed", request.seed.as_ref());
        if !request.stop.is_empty() {
            config.field("stopSequences", &request.stop);
        }
        if let Some(effort) = outbound.effort() {
            config.field("thinkingConfig", &json!({ "thinkingLevel": effort }));
        }
        if let Some(schema) = &schema {
            config.field("responseMimeType", "application/json");
            config.raw("responseJsonSchema", &schema.json);
        }
    });
    if config != "{}" {
        body.raw("generationConfig", config);
    }
    Ok(())
}

fn write_tools(outbound: &Outbound<'_>, body: &mut RequestBody) -> Result<(), HostError> {
    let request = outbound.request;
    let sent = sent_tools(request)?;
    if sent.is_empty() {
        return Ok(());
    }
    let tools = json_writer::list(|list| {
        list.object(|tools| {
            tools.list("functionDeclarations", |list| {
                for SentTool { tool, schema } in &sent {
                    list.object(|item| {
                        item.field("name", &tool.name);
                        item.field("description", &tool.description);
                        item.raw("parametersJsonSchema", &schema.json);
                    });
                }
            });
        });
    });
    body.raw("tools", tools);
    let calling = match &request.tool_choice {
        ToolChoice::Auto => return Ok(()),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Tool(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
    };
    body.field("toolConfig", &json!({ "functionCallingConfig": calling }));
    Ok(())
}

fn contents(outbound: &Outbound<'_>) -> Result<String, HostError> {
    json_writer::try_list(|list| {
        let mut messages = outbound.request.messages.iter();
        messages.try_for_each(|message| write_message(outbound, message, list))
    })
}

fn write_message(
    outbound: &Outbound<'_>,
    message: &ModelMessage,
    list: &mut ListWriter<'_>,
) -> Result<(), HostError> {
    let (role, parts) = match message {
        // Instructions within a conversation stay in their place, so that what precedes them
        // remains cached.
        ModelMessage::System(text) => ("user", vec![text_part(text)]),
        ModelMessage::User(parts) => {
            let parts = parts.iter().map(|part| user_part(outbound, part));
            ("user", parts.collect::<Result<Vec<_>, _>>()?)
        }
        ModelMessage::Assistant(parts) => ("model", reply_parts(outbound, parts)?),
        ModelMessage::ToolResults(results) => {
            let mut parts = Vec::new();
            for result in results {
                write_result(outbound, result, &mut parts)?;
            }
            ("user", parts)
        }
    };
    list.object(|content| {
        content.field("role", role);
        content.list("parts", |list| {
            for part in &parts {
                list.raw(part);
            }
        });
    });
    Ok(())
}

fn text_part(text: &str) -> String {
    json_writer::object(|part| part.field("text", text))
}

fn user_part(outbound: &Outbound<'_>, part: &Part) -> Result<String, HostError> {
    match part {
        Part::Text(text) => Ok(text_part(text)),
        Part::Image(media) => {
            let content = outbound.media.image(media, &IMAGE_TYPES)?;
            Ok(media_part(media, &content))
        }
        Part::File(media) => {
            let content = outbound.media.content(media)?;
            Ok(media_part(media, &content))
        }
    }
}

fn media_part(media: &Media, content: &MediaContent) -> String {
    json_writer::object(|part| match content {
        MediaContent::Base64(data) => part.object("inlineData", |inline| {
            inline.field("mimeType", &media.media_type);
            inline.field("data", data);
        }),
        MediaContent::Url(url) => part.object("fileData", |file| {
            file.field("mimeType", &media.media_type);
            file.field("fileUri", url);
        }),
    })
}

/// Returns the parts of a reply as JSON text, each with the signature that follows it.
fn reply_parts(outbound: &Outbound<'_>, parts: &[AssistantPart]) -> Result<Vec<String>, HostError> {
    let mut written: Vec<String> = Vec::new();
    for part in parts {
        match part {
            AssistantPart::Text(text) => written.push(text_part(text)),
            AssistantPart::Media(media) => {
                written.push(media_part(media, &outbound.media.content(media)?));
            }
            AssistantPart::ToolCall(call) => written.push(json_writer::object(|part| {
                part.object("functionCall", |function| {
                    write_id(function, &call.id);
                    function.field("name", &call.name);
                    function.raw("args", &arguments_object(&call.arguments));
                });
            })),
            AssistantPart::Opaque(part) => {
                if let Some(Value::Object(data)) = outbound.own_opaque(part) {
                    match (signature_only(&data), written.last_mut()) {
                        (Some(signature), Some(last)) => sign(last, signature),
                        _ => written.push(json_writer::value(&data)),
                    }
                }
            }
        }
    }
    Ok(written)
}

/// Returns the signature, if the data is nothing else and belongs to the part before it.
fn signature_only(data: &Map<String, Value>) -> Option<&Value> {
    data.get(SIGNATURE).filter(|_| data.len() == 1)
}

/// Adds a signature to a part, which is the text of an object.
fn sign(part: &mut String, signature: &Value) {
    if part.pop() == Some('}') {
        part.push_str(&format!(
            ",\"{SIGNATURE}\":{}}}",
            json_writer::value(signature)
        ));
    }
}

/// Writes an id if the provider knows it.
fn write_id(function: &mut ObjectWriter<'_>, id: &str) {
    if !is_host_made_id(id) {
        function.field("id", id);
    }
}

/// Adds the parts of a tool's result. Images and files follow it as parts of their own.
fn write_result(
    outbound: &Outbound<'_>,
    result: &ToolResult,
    parts: &mut Vec<String>,
) -> Result<(), HostError> {
    let key = if result.is_error { "error" } else { "result" };
    parts.push(json_writer::object(|part| {
        part.object("functionResponse", |response| {
            write_id(response, &result.call);
            response.field("name", &result.tool);
            response.object("response", |content| {
                content.field(key, &parts_text(&result.content));
            });
        });
    }));
    for part in &result.content {
        if !matches!(part, Part::Text(_)) {
            parts.push(user_part(outbound, part)?);
        }
    }
    Ok(())
}
