//! Writes requests in the Messages protocol.

use std::borrow::Cow;

use serde_json::{Value, json};
use strata_core::record::conversation::{Media, Part, ToolChoice};

use super::thinking;
use crate::gateway::HostError;
use crate::models::media::{self, IMAGE_TYPES, MediaContent};
use crate::models::protocol::body::is_blank;
use crate::models::protocol::conversation::{
    ConversationRules, OpaqueKind, SentMessage, SentPart, SentResult, sent_conversation,
};
use crate::models::protocol::json_writer::{self, ListWriter, ObjectWriter};
use crate::models::protocol::parsed_reply::text_of;
use crate::models::protocol::tools::{
    Enforcement, ReplySchema, SentTool, ToolNames, arguments_object, sent_tools,
};
use crate::models::protocol::{Outbound, RequestBody, TransferMode};
use crate::tool_name::NameRule;

/// The maximum number of output tokens if neither the request nor the model's configuration has
/// one. The protocol requires one; all current models accept this.
const DEFAULT_MAX_TOKENS: u32 = 8192;
/// The type of documents that are not text.
const PDF: &str = "application/pdf";
/// The rules for messages. See <https://docs.anthropic.com/en/api/messages>.
const RULES: ConversationRules = ConversationRules {
    max_id_chars: 64,
    opaque: opaque_kind,
};

/// A block of a message, as the text of its fields.
struct ContentBlock {
    json: String,
    /// Whether it may have a cache mark. Reasoning may not.
    is_markable: bool,
}

/// Whether a block is the end of what is to be cached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CacheMark {
    Here,
    No,
}

fn opaque_kind(block: &Value) -> OpaqueKind {
    match text_of(&block["type"]) {
        // Blocks of these types are written by the host.
        "" | "text" | "image" | "document" | "tool_use" | "tool_result" => OpaqueKind::Foreign,
        "thinking" | "redacted_thinking" => OpaqueKind::Reasoning,
        _ => OpaqueKind::Other,
    }
}

/// Returns the body of a request.
pub(super) fn body(outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
    let request = outbound.request;
    let mut body = RequestBody::default();
    body.field("model", outbound.model);
    body.field("max_tokens", &max_tokens(outbound));
    body.optional("temperature", request.temperature.as_ref());
    if !request.stop.is_empty() {
        body.field("stop_sequences", &request.stop);
    }
    let schema = ReplySchema::of(request, Enforcement::Basic)?;
    write_output_config(outbound, &schema, &mut body);
    if outbound.transfer == TransferMode::Streamed {
        body.field("stream", &true);
    }
    let names = ToolNames::new(request, NameRule::Common);
    let messages = sent_conversation(outbound, &RULES, &names);
    write_tools(outbound, &names, &messages, &mut body)?;
    if let Some(instructions) = schema.instructions(request) {
        let system = json_writer::list(|list| {
            let json = text_block(&instructions);
            write_block(list, &json, CacheMark::Here);
        });
        body.raw("system", system);
    }
    body.conversation("messages", write_messages(outbound, &messages)?);
    Ok(body)
}

/// Returns the maximum number of output tokens. What is reserved for thinking is a part of it.
fn max_tokens(outbound: &Outbound<'_>) -> u32 {
    let thinking = thinking::budget(&outbound.settings.options).unwrap_or_default();
    let default = DEFAULT_MAX_TOKENS.saturating_add(thinking);
    outbound.max_tokens().unwrap_or(default)
}

fn write_output_config(outbound: &Outbound<'_>, schema: &ReplySchema, body: &mut RequestBody) {
    let schema = schema.enforced();
    if schema.is_none() && outbound.effort().is_none() {
        return;
    }
    let config = json_writer::object(|config| {
        config.optional("effort", outbound.effort());
        if let Some(schema) = schema {
            config.object("format", |format| {
                format.field("type", "json_schema");
                format.raw("schema", &schema.json);
            });
        }
    });
    body.raw("output_config", config);
}

fn write_tools(
    outbound: &Outbound<'_>,
    names: &ToolNames<'_>,
    messages: &[SentMessage<'_>],
    body: &mut RequestBody,
) -> Result<(), HostError> {
    let request = outbound.request;
    let sent = sent_tools(request)?;
    if sent.is_empty() {
        write_called_tools(messages, body);
        return Ok(());
    }
    let last = sent.len() - 1;
    let tools = json_writer::list(|list| {
        for (place, SentTool { tool, schema }) in sent.iter().enumerate() {
            list.object(|item| {
                item.field("name", &names.sent(&tool.name));
                if !is_blank(&tool.description) {
                    item.field("description", &tool.description);
                }
                if schema.is_strict {
                    item.field("strict", &true);
                }
                item.raw("input_schema", &schema.json);
                if place == last {
                    write_mark(item);
                }
            });
        }
    });
    body.raw("tools", tools);
    match &request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::Required => body.field("tool_choice", &json!({ "type": "any" })),
        ToolChoice::None => body.field("tool_choice", &json!({ "type": "none" })),
        ToolChoice::Tool(name) => {
            let name = names.sent(name);
            body.field("tool_choice", &json!({ "type": "tool", "name": name }));
        }
    }
    Ok(())
}

/// Writes the tools that are called in a conversation whose request has no tools. The protocol
/// requires tools if there are calls; the model must not call these.
fn write_called_tools(messages: &[SentMessage<'_>], body: &mut RequestBody) {
    let mut names = Vec::new();
    for message in messages {
        if let SentMessage::Results(results) = message {
            for result in results {
                if !names.contains(&&result.name) {
                    names.push(&result.name);
                }
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let tools: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "input_schema": { "type": "object" } }))
        .collect();
    body.field("tools", &tools);
    body.field("tool_choice", &json!({ "type": "none" }));
}

fn write_messages(
    outbound: &Outbound<'_>,
    messages: &[SentMessage<'_>],
) -> Result<String, HostError> {
    json_writer::try_list(|list| {
        for (place, message) in messages.iter().enumerate() {
            let (role, blocks) = message_blocks(outbound, message)?;
            let is_newest = place + 1 == messages.len();
            let marked = blocks.iter().rposition(|block| block.is_markable);
            let marked = marked.filter(|_| is_newest);
            list.object(|message| {
                message.field("role", role);
                message.list("content", |list| {
                    for (place, block) in blocks.iter().enumerate() {
                        let mark = if marked == Some(place) {
                            CacheMark::Here
                        } else {
                            CacheMark::No
                        };
                        write_block(list, &block.json, mark);
                    }
                });
            });
        }
        Ok(())
    })
}

/// Returns the role and the blocks of a message. There is at least one.
fn message_blocks(
    outbound: &Outbound<'_>,
    message: &SentMessage<'_>,
) -> Result<(&'static str, Vec<ContentBlock>), HostError> {
    Ok(match message {
        // Instructions within a conversation stay in their place, so that what precedes them
        // remains cached.
        SentMessage::System(text) => ("user", vec![ContentBlock::new(text_block(text))]),
        SentMessage::User(parts) => ("user", user_blocks(outbound, parts)?),
        SentMessage::Reply(parts) => ("assistant", parts.iter().map(reply_block).collect()),
        SentMessage::Results(results) => {
            let blocks = results.iter().map(|result| result_block(outbound, result));
            ("user", blocks.collect::<Result<_, _>>()?)
        }
    })
}

impl ContentBlock {
    fn new(json: String) -> Self {
        Self {
            json,
            is_markable: true,
        }
    }
}

fn user_blocks(
    outbound: &Outbound<'_>,
    parts: &[Cow<'_, Part>],
) -> Result<Vec<ContentBlock>, HostError> {
    let mut blocks = Vec::new();
    for part in parts {
        blocks.push(ContentBlock::new(match &**part {
            Part::Text(text) => text_block(text),
            Part::Image(media) => image_block(outbound, media)?,
            Part::File(media) => document_block(outbound, media)?,
        }));
    }
    Ok(blocks)
}

fn reply_block(part: &SentPart<'_>) -> ContentBlock {
    match part {
        SentPart::Text(text) => ContentBlock::new(text_block(text)),
        SentPart::Media(media) => ContentBlock::new(text_block(&media::describe(media))),
        SentPart::Call(call) => ContentBlock::new(json_writer::object(|block| {
            block.field("type", "tool_use");
            block.field("id", &call.id);
            block.field("name", &call.name);
            block.raw("input", &arguments_object(&call.tool_call.arguments));
        })),
        SentPart::Opaque(data) => ContentBlock {
            json: json_writer::value(data),
            is_markable: false,
        },
    }
}

fn result_block(
    outbound: &Outbound<'_>,
    result: &SentResult<'_>,
) -> Result<ContentBlock, HostError> {
    let blocks = user_blocks(outbound, &result.content)?;
    Ok(ContentBlock::new(json_writer::object(|block| {
        block.field("type", "tool_result");
        block.field("tool_use_id", &result.id);
        block.list("content", |list| {
            for block in &blocks {
                list.raw(&block.json);
            }
        });
        if result.is_error {
            block.field("is_error", &true);
        }
    })))
}

fn text_block(text: &str) -> String {
    json_writer::object(|block| {
        block.field("type", "text");
        block.field("text", text);
    })
}

fn image_block(outbound: &Outbound<'_>, media: &Media) -> Result<String, HostError> {
    let content = outbound.media.image(media, &IMAGE_TYPES)?;
    Ok(json_writer::object(|block| {
        block.field("type", "image");
        block.object("source", |source| write_source(source, media, &content));
    }))
}

fn document_block(outbound: &Outbound<'_>, media: &Media) -> Result<String, HostError> {
    let text = outbound.media.text(media)?;
    if text.is_none() && media.media_type != PDF {
        return Err(outbound.media.unsupported(media, "a file", PDF));
    }
    let content = outbound.media.content(media)?;
    Ok(json_writer::object(|block| {
        block.field("type", "document");
        block.object("source", |source| match &text {
            Some(text) => {
                source.field("type", "text");
                source.field("media_type", "text/plain");
                source.field("data", text);
            }
            None => write_source(source, media, &content),
        });
        block.optional("title", media.name.as_deref());
    }))
}

fn write_source(source: &mut ObjectWriter<'_>, media: &Media, content: &MediaContent) {
    match content {
        MediaContent::Base64(data) => {
            source.field("type", "base64");
            source.field("media_type", &media.media_type);
            source.field("data", data);
        }
        MediaContent::Url(url) => {
            source.field("type", "url");
            source.field("url", url);
        }
    }
}

/// Writes a block, which is the text of an object, with or without a cache mark at its end.
fn write_block(list: &mut ListWriter<'_>, json: &str, mark: CacheMark) {
    match (mark, json.strip_suffix('}')) {
        (CacheMark::Here, Some(open)) => {
            let mark = r#","cache_control":{"type":"ephemeral"}}"#;
            list.raw(&format!("{open}{mark}"));
        }
        _ => list.raw(json),
    }
}

fn write_mark(item: &mut ObjectWriter<'_>) {
    item.field("cache_control", &json!({ "type": "ephemeral" }));
}
