//! Writes requests in the `generateContent` protocol.

use serde_json::{Value, json};
use strata_core::record::conversation::{Media, Part, ToolChoice};

use super::{SIGNATURE, TOOL_NAMES};
use crate::gateway::HostError;
use crate::models::media::MediaContent;
use crate::models::model_request::{is_host_made_id, parts_text};
use crate::models::protocol::conversation::{
    ConversationRules, OpaqueKind, SentMessage, SentPart, SentResult, sent_conversation,
};
use crate::models::protocol::json_writer::{self, ObjectWriter};
use crate::models::protocol::tools::{
    Enforcement, ReplySchema, SchemaText, SentTool, ToolNames, arguments_object, sent_tools,
};
use crate::models::protocol::{Outbound, RequestBody};

/// The roles of contents.
const USER: &str = "user";
const MODEL: &str = "model";
/// The types of images.
const IMAGE_TYPES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// The rules for contents. See <https://ai.google.dev/api/caching#Content> and
/// <https://ai.google.dev/gemini-api/docs/function-calling>.
const RULES: ConversationRules = ConversationRules {
    max_id_chars: 64,
    opaque: opaque_kind,
};
/// What stands for the signature of a call that another model made. Gemini 3 refuses calls without
/// one. See <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// How the ids of models begin that require no signatures, and may reject the placeholder.
const UNSIGNED_MODELS: [&str; 3] = ["gemini-1", "gemini-2", "gemma"];

fn opaque_kind(part: &Value) -> OpaqueKind {
    let Value::Object(fields) = part else {
        return OpaqueKind::Foreign;
    };
    // Parts with these fields are written by the host.
    if fields.contains_key("functionCall") || fields.contains_key("functionResponse") {
        OpaqueKind::Foreign
    } else if part["thought"] == true {
        OpaqueKind::Reasoning
    } else if signature_only(part).is_some() {
        OpaqueKind::Signature
    } else {
        OpaqueKind::Other
    }
}

/// Returns the body of a request.
pub(super) fn body(outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
    let request = outbound.request;
    let mut body = RequestBody::default();
    let schema = ReplySchema::of(request, Enforcement::Any)?;
    write_config(outbound, schema.enforced(), &mut body);
    let names = ToolNames::new(request, TOOL_NAMES);
    write_tools(outbound, &names, &mut body)?;
    if let Some(instructions) = schema.instructions(request) {
        body.field(
            "systemInstruction",
            &json!({ "parts": [{ "text": instructions }] }),
        );
    }
    body.conversation("contents", contents(outbound, &names)?);
    Ok(body)
}

fn write_config(outbound: &Outbound<'_>, schema: Option<&SchemaText>, body: &mut RequestBody) {
    let request = outbound.request;
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
        if let Some(schema) = schema {
            config.field("responseMimeType", "application/json");
            config.raw("responseJsonSchema", &schema.json);
        }
    });
    if config != "{}" {
        body.raw("generationConfig", config);
    }
}

fn write_tools(
    outbound: &Outbound<'_>,
    names: &ToolNames<'_>,
    body: &mut RequestBody,
) -> Result<(), HostError> {
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
                        item.field("name", &names.sent(&tool.name));
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
        ToolChoice::Tool(name) => {
            json!({ "mode": "ANY", "allowedFunctionNames": [names.sent(name)] })
        }
    };
    body.field("toolConfig", &json!({ "functionCallingConfig": calling }));
    Ok(())
}

/// A content of the conversation: its role, and its parts as JSON text.
struct Content {
    role: &'static str,
    parts: Vec<String>,
}

fn contents(outbound: &Outbound<'_>, names: &ToolNames<'_>) -> Result<String, HostError> {
    let mut contents: Vec<Content> = Vec::new();
    for message in &sent_conversation(outbound, &RULES, names) {
        let content = content(outbound, message)?;
        match contents.last_mut() {
            // A content with calls must follow one of the user.
            Some(last) if last.role == MODEL && content.role == MODEL => {
                last.parts.extend(content.parts);
            }
            _ => contents.push(content),
        }
    }
    Ok(json_writer::list(|list| {
        for Content { role, parts } in &contents {
            list.object(|content| {
                content.field("role", role);
                content.list("parts", |list| {
                    for part in parts {
                        list.raw(part);
                    }
                });
            });
        }
    }))
}

fn content(outbound: &Outbound<'_>, message: &SentMessage<'_>) -> Result<Content, HostError> {
    let (role, parts) = match message {
        // Instructions within a conversation stay in their place, so that what precedes them
        // remains cached.
        SentMessage::System(text) => (USER, vec![text_part(text)]),
        SentMessage::User(parts) => {
            let parts = parts.iter().map(|part| user_part(outbound, part));
            (USER, parts.collect::<Result<Vec<_>, _>>()?)
        }
        SentMessage::Reply(parts) => (MODEL, reply_parts(outbound, parts)?),
        SentMessage::Results(results) => (USER, result_parts(outbound, results)?),
    };
    Ok(Content { role, parts })
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

/// Returns the parts of a reply as JSON text, each with the signature that follows it. If the first
/// call is not signed, another model made the calls, and they get the placeholder.
fn reply_parts(outbound: &Outbound<'_>, parts: &[SentPart<'_>]) -> Result<Vec<String>, HostError> {
    let first_call = parts
        .iter()
        .position(|part| matches!(part, SentPart::Call(_)));
    let is_own = first_call.is_some_and(|place| is_signed(parts, place));
    let requires_signatures = !UNSIGNED_MODELS
        .iter()
        .any(|beginning| super::model_id(outbound.model).starts_with(beginning));
    let placeholder = (requires_signatures && !is_own).then_some(NO_SIGNATURE);
    let mut written: Vec<String> = Vec::new();
    let mut can_be_signed = false;
    for (place, part) in parts.iter().enumerate() {
        match part {
            SentPart::Text(text) => written.push(text_part(text)),
            SentPart::Media(media) => {
                written.push(media_part(media, &outbound.media.content(media)?));
            }
            SentPart::Call(call) => written.push(json_writer::object(|part| {
                part.object("functionCall", |function| {
                    write_id(function, &call.id);
                    function.field("name", &call.name);
                    function.raw("args", &arguments_object(&call.tool_call.arguments));
                });
                part.optional(SIGNATURE, placeholder.filter(|_| !is_signed(parts, place)));
            })),
            SentPart::Opaque(data) => match (signature_only(data), written.last_mut()) {
                (Some(signature), Some(last)) if can_be_signed => sign(last, signature),
                (Some(signature), _) => {
                    let part = json!({ "text": "", SIGNATURE: signature });
                    written.push(json_writer::value(&part));
                }
                (None, _) => written.push(json_writer::value(data)),
            },
        }
        can_be_signed = !matches!(part, SentPart::Opaque(_));
    }
    Ok(written)
}

/// Returns whether a signature follows a part.
fn is_signed(parts: &[SentPart<'_>], place: usize) -> bool {
    match parts.get(place + 1) {
        Some(SentPart::Opaque(data)) => signature_only(data).is_some(),
        _ => false,
    }
}

/// Returns the signature, if the data is nothing else and belongs to the part before it.
fn signature_only(data: &Value) -> Option<&Value> {
    let fields = data.as_object()?;
    fields.get(SIGNATURE).filter(|_| fields.len() == 1)
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

/// Returns the parts of the results of calls. The responses come first, as many as there are calls;
/// the images and files of all results follow them as parts of their own.
fn result_parts(
    outbound: &Outbound<'_>,
    results: &[SentResult<'_>],
) -> Result<Vec<String>, HostError> {
    let response = |result: &SentResult<'_>| {
        let key = if result.is_error { "error" } else { "result" };
        json_writer::object(|part| {
            part.object("functionResponse", |response| {
                write_id(response, &result.id);
                response.field("name", &result.name);
                response.object("response", |content| {
                    content.field(key, &parts_text(&result.content));
                });
            });
        })
    };
    let mut parts: Vec<String> = results.iter().map(response).collect();
    for part in results.iter().flat_map(|result| &result.content) {
        if !matches!(**part, Part::Text(_)) {
            parts.push(user_part(outbound, part)?);
        }
    }
    Ok(parts)
}
