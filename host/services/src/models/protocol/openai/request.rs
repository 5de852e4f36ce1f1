//! Writes requests in the chat completions protocol.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use strata_core::record::conversation::{Media, MediaSource, Part, ToolChoice};

use super::{
    ChatCompletions, EXTRA_CONTENT, MESSAGE_EXTRA, RETURNED_REASONING, RETURNED_WITH_CALLS,
};
use crate::gateway::HostError;
use crate::models::media::{IMAGE_TYPES, MediaContent};
use crate::models::model_request::parts_text;
use crate::models::protocol::body::write_text_message;
use crate::models::protocol::conversation::{
    ConversationRules, EMPTY, OpaqueKind, SentCall, SentMessage, SentPart, sent_conversation,
};
use crate::models::protocol::json_writer::{self, ListWriter, ObjectWriter};
use crate::models::protocol::tools::{
    Enforcement, ReplySchema, SCHEMA_NAME, SchemaText, SentTool, ToolNames, arguments_object,
    sent_tools,
};
use crate::models::protocol::{ModelProtocol, Outbound, RequestBody, TransferMode};

/// The rules of OpenAI's own endpoint, as far as they are the strictest. See
/// <https://platform.openai.com/docs/api-reference/chat/create>.
const RULES: ConversationRules = ConversationRules {
    max_id_chars: 40,
    opaque: |_| OpaqueKind::Other,
};

/// The types of sound, with their names in this protocol.
const AUDIO_FORMATS: [(&str, &str); 3] = [
    ("audio/wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
];

/// Returns the body of a request.
pub(super) fn body(
    dialect: ChatCompletions,
    outbound: &Outbound<'_>,
) -> Result<RequestBody, HostError> {
    let request = outbound.request;
    let mut body = RequestBody::default();
    body.field("model", outbound.model);
    let limit = match dialect {
        ChatCompletions::OpenAi => "max_completion_tokens",
        ChatCompletions::Compatible => "max_tokens",
    };
    body.optional(limit, outbound.max_tokens().as_ref());
    body.optional("reasoning_effort", outbound.effort());
    body.optional("temperature", request.temperature.as_ref());
    body.optional("seed", request.seed.as_ref());
    if !request.stop.is_empty() {
        body.field("stop", &request.stop);
    }
    let enforcement = match dialect {
        ChatCompletions::OpenAi => Enforcement::Objects,
        ChatCompletions::Compatible => Enforcement::Any,
    };
    let schema = ReplySchema::of(request, enforcement)?;
    if let Some(schema) = schema.enforced() {
        body.raw("response_format", response_format(dialect, schema));
    }
    let names = ToolNames::new(request, dialect.tool_names());
    write_tools(dialect, outbound, &names, &mut body)?;
    if outbound.transfer == TransferMode::Streamed {
        body.field("stream", &true);
        body.field("stream_options", &json!({ "include_usage": true }));
    }
    body.conversation("messages", messages(outbound, &names, &schema)?);
    Ok(body)
}

fn response_format(dialect: ChatCompletions, schema: &SchemaText) -> String {
    json_writer::object(|format| {
        format.field("type", "json_schema");
        format.object("json_schema", |definition| {
            definition.field("name", SCHEMA_NAME);
            write_strict(dialect, schema, definition);
            definition.raw("schema", &schema.json);
        });
    })
}

fn write_strict(dialect: ChatCompletions, schema: &SchemaText, into: &mut ObjectWriter<'_>) {
    // Other endpoints may not know the field.
    if dialect == ChatCompletions::OpenAi && schema.is_strict {
        into.field("strict", &true);
    }
}

fn write_tools(
    dialect: ChatCompletions,
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
        for SentTool { tool, schema } in &sent {
            list.object(|item| {
                item.field("type", "function");
                item.object("function", |function| {
                    function.field("name", &names.sent(&tool.name));
                    function.field("description", &tool.description);
                    write_strict(dialect, schema, function);
                    function.raw("parameters", &schema.json);
                });
            });
        }
    });
    body.raw("tools", tools);
    match &request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::Required => body.field("tool_choice", "required"),
        ToolChoice::None => body.field("tool_choice", "none"),
        ToolChoice::Tool(name) => body.field(
            "tool_choice",
            &json!({ "type": "function", "function": { "name": names.sent(name) } }),
        ),
    }
    Ok(())
}

fn messages(
    outbound: &Outbound<'_>,
    names: &ToolNames<'_>,
    schema: &ReplySchema,
) -> Result<String, HostError> {
    let messages = sent_conversation(outbound, &RULES, names);
    json_writer::try_list(|list| {
        if let Some(instructions) = schema.instructions(outbound.request) {
            write_text_message(list, "system", &instructions);
        }
        let mut messages = messages.iter();
        messages.try_for_each(|message| write_message(outbound, message, list))
    })
}

fn write_message(
    outbound: &Outbound<'_>,
    message: &SentMessage<'_>,
    list: &mut ListWriter<'_>,
) -> Result<(), HostError> {
    match message {
        SentMessage::System(text) => write_text_message(list, "system", text),
        SentMessage::User(parts) => return write_user_message(outbound, parts, list),
        SentMessage::Reply(parts) => write_reply(parts, list),
        SentMessage::Results(results) => {
            for result in results {
                list.object(|message| {
                    message.field("role", "tool");
                    message.field("tool_call_id", &result.id);
                    message.field("content", &parts_text(&result.content));
                });
            }
        }
    }
    Ok(())
}

fn write_user_message(
    outbound: &Outbound<'_>,
    parts: &[Cow<'_, Part>],
    list: &mut ListWriter<'_>,
) -> Result<(), HostError> {
    if parts.iter().all(|part| matches!(**part, Part::Text(_))) {
        // Many endpoints accept only a string here.
        write_text_message(list, "user", &parts_text(parts));
        return Ok(());
    }
    let contents = parts.iter().map(|part| content_part(outbound, part));
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    list.object(|message| {
        message.field("role", "user");
        message.list("content", |list| {
            for content in &contents {
                list.raw(content);
            }
        });
    });
    Ok(())
}

/// Returns a part of a user message as JSON text.
fn content_part(outbound: &Outbound<'_>, part: &Part) -> Result<String, HostError> {
    let text_part = |text: &str| {
        json_writer::object(|part| {
            part.field("type", "text");
            part.field("text", text);
        })
    };
    match part {
        Part::Text(text) => Ok(text_part(text)),
        Part::Image(media) => {
            let content = outbound.media.image(media, &IMAGE_TYPES)?;
            Ok(json_writer::object(|part| {
                part.field("type", "image_url");
                part.object("image_url", |image| {
                    image.field("url", &content.into_url(&media.media_type));
                });
            }))
        }
        Part::File(media) => match outbound.media.text(media)? {
            Some(text) => Ok(text_part(&text)),
            None => file_part(outbound, media),
        },
    }
}

fn file_part(outbound: &Outbound<'_>, media: &Media) -> Result<String, HostError> {
    if matches!(media.source, MediaSource::Url(_)) {
        let error = outbound
            .media
            .unsupported(media, "the address of a file", "bytes");
        return Err(error);
    }
    let content = outbound.media.content(media)?;
    let audio = AUDIO_FORMATS
        .iter()
        .find(|(media_type, _)| *media_type == media.media_type);
    Ok(json_writer::object(|part| match (audio, content) {
        (Some((_, format)), MediaContent::Base64(data)) => {
            part.field("type", "input_audio");
            part.object("input_audio", |audio| {
                audio.field("data", &data);
                audio.field("format", format);
            });
        }
        (_, content) => {
            part.field("type", "file");
            part.object("file", |file| {
                file.field("filename", media.name.as_deref().unwrap_or("file"));
                file.field("file_data", &content.into_url(&media.media_type));
            });
        }
    }))
}

fn write_reply(parts: &[SentPart<'_>], list: &mut ListWriter<'_>) {
    let returned = returned_fields(parts);
    let mut text = String::new();
    let mut calls = Vec::new();
    for part in parts {
        match part {
            SentPart::Text(piece) => text.push_str(piece),
            SentPart::Call(call) => calls.push(call),
            SentPart::Media(_) | SentPart::Opaque(_) => {}
        }
    }
    list.object(|message| {
        message.field("role", "assistant");
        match (text.as_str(), calls.is_empty()) {
            ("", false) => message.field("content", &Value::Null),
            ("", true) => message.field("content", EMPTY),
            (text, _) => message.field("content", text),
        }
        for name in RETURNED_REASONING {
            message.optional(name, returned.get(name));
        }
        message.optional(EXTRA_CONTENT, returned.get(MESSAGE_EXTRA));
        if calls.is_empty() {
            return;
        }
        message.list("tool_calls", |list| {
            for call in calls {
                write_call(call, &returned, list);
            }
        });
    });
}

/// Writes a call. `returned` contains what the endpoint expects back with calls, by their ids.
fn write_call(call: &SentCall<'_>, returned: &Map<String, Value>, list: &mut ListWriter<'_>) {
    list.object(|item| {
        item.field("id", &call.id);
        item.field("type", "function");
        for field in RETURNED_WITH_CALLS {
            let extras = returned.get(field);
            item.optional(
                field,
                extras.and_then(|extras| extras.get(&call.tool_call.id)),
            );
        }
        item.object("function", |function| {
            function.field("name", &call.name);
            function.field("arguments", &arguments_object(&call.tool_call.arguments));
        });
    });
}

/// Returns the fields that the endpoint expects back.
fn returned_fields(parts: &[SentPart<'_>]) -> Map<String, Value> {
    let mut fields = Map::new();
    for part in parts {
        if let SentPart::Opaque(Value::Object(data)) = part {
            fields.extend(data.clone());
        }
    }
    fields
}
