//! The Responses protocol of OpenAI, without storage at the provider: each request contains the
//! whole conversation, and reasoning is returned in encrypted form.
//!
//! Calls of tools, their results and reasoning are items of their own, beside messages.

mod builder;

use std::borrow::Cow;

use reqwest::Url;
use serde_json::{Value, json};
use strata_core::record::conversation::{AssistantPart, Media, MediaSource, Part, ToolChoice};

use super::assembler::ReplyBuilder;
use super::body::write_text_message;
use super::conversation::{
    ConversationRules, OpaqueKind, SentMessage, SentPart, SentResult, sent_conversation,
};
use super::json_writer::{self, ListWriter};
use super::openai::OpenAiEmbeddings;
use super::parsed_reply::{ParsedReply, ReplyProblem, SentToolCall, items_of, name_of, text_of};
use super::tools::{
    Enforcement, ReplySchema, SCHEMA_NAME, SchemaText, SentTool, ToolNames, arguments_object,
    sent_tools,
};
use super::{
    EmbeddingProtocol, KeyHeader, ModelProtocol, Outbound, ReplyContext, RequestBody, TransferMode,
    append_path,
};
use crate::gateway::HostError;
use crate::models::FinishReason;
use crate::models::media::{self, IMAGE_TYPES, MediaContent};
use crate::models::model_request::parts_text;
use crate::models::tokens::{ReportedUsage, first_count};

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Responses;

/// What is requested in addition: reasoning that can be returned without storage.
const INCLUDED: [&str; 1] = ["reasoning.encrypted_content"];

/// The rules for items. See <https://platform.openai.com/docs/api-reference/responses/create>.
const RULES: ConversationRules = ConversationRules {
    max_id_chars: 64,
    opaque: opaque_kind,
};

fn opaque_kind(item: &Value) -> OpaqueKind {
    match text_of(&item["type"]) {
        // Items of these types are written by the host.
        "" | "message" | "function_call" | "function_call_output" => OpaqueKind::Foreign,
        "reasoning" => OpaqueKind::Reasoning,
        _ => OpaqueKind::Other,
    }
}

impl ModelProtocol for Responses {
    fn url(&self, base: &Url, _model: &str, _transfer: TransferMode) -> Url {
        append_path(base, &["responses"])
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::BEARER
    }

    fn body(&self, outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
        let request = outbound.request;
        let mut body = RequestBody::default();
        body.field("model", outbound.model);
        body.field("store", &false);
        body.field("include", &INCLUDED);
        body.optional("max_output_tokens", outbound.max_tokens().as_ref());
        if let Some(effort) = outbound.effort() {
            body.field("reasoning", &json!({ "effort": effort }));
        }
        body.optional("temperature", request.temperature.as_ref());
        let schema = ReplySchema::of(request, Enforcement::Objects)?;
        if let Some(schema) = schema.enforced() {
            body.raw("text", text_format(schema));
        }
        let names = ToolNames::new(request, self.tool_names());
        write_tools(outbound, &names, &mut body)?;
        if outbound.transfer == TransferMode::Streamed {
            body.field("stream", &true);
        }
        body.optional("instructions", schema.instructions(request).as_ref());
        body.conversation("input", input(outbound, &names)?);
        Ok(body)
    }

    fn builder(&self) -> Box<dyn ReplyBuilder> {
        Box::<builder::ResponseBuilder>::default()
    }

    fn embeddings(&self) -> Option<&dyn EmbeddingProtocol> {
        Some(&OpenAiEmbeddings)
    }

    fn parse_reply(&self, reply: &Value, context: ReplyContext<'_>) -> ParsedReply {
        let mut parsed = ParsedReply {
            model: name_of(&reply["model"]),
            finish: finish_reason(reply),
            usage: usage(&reply["usage"]),
            problem: problem(reply),
            ..ParsedReply::default()
        };
        for item in items_of(&reply["output"]) {
            read_item(item, context, &mut parsed);
        }
        parsed
    }
}

fn text_format(schema: &SchemaText) -> String {
    json_writer::object(|text| {
        text.object("format", |format| {
            format.field("type", "json_schema");
            format.field("name", SCHEMA_NAME);
            format.field("strict", &schema.is_strict);
            format.raw("schema", &schema.json);
        });
    })
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
        for SentTool { tool, schema } in &sent {
            list.object(|item| {
                item.field("type", "function");
                item.field("name", &names.sent(&tool.name));
                item.field("description", &tool.description);
                item.field("strict", &schema.is_strict);
                item.raw("parameters", &schema.json);
            });
        }
    });
    body.raw("tools", tools);
    match &request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::Required => body.field("tool_choice", "required"),
        ToolChoice::None => body.field("tool_choice", "none"),
        ToolChoice::Tool(name) => {
            let name = names.sent(name);
            body.field("tool_choice", &json!({ "type": "function", "name": name }));
        }
    }
    Ok(())
}

fn input(outbound: &Outbound<'_>, names: &ToolNames<'_>) -> Result<String, HostError> {
    let messages = sent_conversation(outbound, &RULES, names);
    json_writer::try_list(|list| {
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
        SentMessage::User(parts) => {
            let content = content(outbound, parts)?;
            list.object(|message| {
                message.field("role", "user");
                message.raw("content", &content);
            });
        }
        SentMessage::Reply(parts) => {
            for part in parts {
                write_reply_part(part, list);
            }
        }
        SentMessage::Results(results) => {
            for result in results {
                write_result(outbound, result, list)?;
            }
        }
    }
    Ok(())
}

fn write_reply_part(part: &SentPart<'_>, list: &mut ListWriter<'_>) {
    match part {
        SentPart::Text(text) => write_text_message(list, "assistant", text),
        SentPart::Media(media) => write_text_message(list, "assistant", &media::describe(media)),
        SentPart::Call(call) => list.object(|item| {
            item.field("type", "function_call");
            item.field("call_id", &call.id);
            item.field("name", &call.name);
            item.field("arguments", &arguments_object(&call.tool_call.arguments));
        }),
        SentPart::Opaque(item) => list.raw(&json_writer::value(item)),
    }
}

fn write_result(
    outbound: &Outbound<'_>,
    result: &SentResult<'_>,
    list: &mut ListWriter<'_>,
) -> Result<(), HostError> {
    let output = content(outbound, &result.content)?;
    list.object(|item| {
        item.field("type", "function_call_output");
        item.field("call_id", &result.id);
        item.raw("output", &output);
    });
    Ok(())
}

/// Returns the content of a message or a result as JSON text: a string if it is only text, and a
/// list of parts otherwise.
fn content(outbound: &Outbound<'_>, parts: &[Cow<'_, Part>]) -> Result<String, HostError> {
    if parts.iter().all(|part| matches!(**part, Part::Text(_))) {
        return Ok(json_writer::value(&parts_text(parts)));
    }
    let items = parts.iter().map(|part| content_part(outbound, part));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    Ok(json_writer::list(|list| {
        for item in &items {
            list.raw(item);
        }
    }))
}

fn content_part(outbound: &Outbound<'_>, part: &Part) -> Result<String, HostError> {
    match part {
        Part::Text(text) => Ok(text_part(text)),
        Part::Image(media) => {
            let content = outbound.media.image(media, &IMAGE_TYPES)?;
            Ok(json_writer::object(|part| {
                part.field("type", "input_image");
                part.field("image_url", &content.into_url(&media.media_type));
            }))
        }
        Part::File(media) => match outbound.media.text(media)? {
            Some(text) => Ok(text_part(&text)),
            None => file_part(outbound, media),
        },
    }
}

fn text_part(text: &str) -> String {
    json_writer::object(|part| {
        part.field("type", "input_text");
        part.field("text", text);
    })
}

fn file_part(outbound: &Outbound<'_>, media: &Media) -> Result<String, HostError> {
    let content = outbound.media.content(media)?;
    Ok(json_writer::object(|part| {
        part.field("type", "input_file");
        match (&media.source, content) {
            (MediaSource::Url(_), MediaContent::Url(url)) => part.field("file_url", &url),
            (_, content) => {
                part.field("filename", media.name.as_deref().unwrap_or("file"));
                part.field("file_data", &content.into_url(&media.media_type));
            }
        }
    }))
}

fn read_item(item: &Value, context: ReplyContext<'_>, parsed: &mut ParsedReply) {
    match text_of(&item["type"]) {
        "message" => {
            for part in items_of(&item["content"]) {
                match text_of(&part["type"]) {
                    "refusal" => {
                        parsed.finish = FinishReason::Refusal;
                        parsed.push_text(text_of(&part["refusal"]).to_owned());
                    }
                    _ => parsed.push_text(text_of(&part["text"]).to_owned()),
                }
            }
        }
        "function_call" => {
            let call = SentToolCall {
                id: &item["call_id"],
                name: &item["name"],
                arguments: &item["arguments"],
            };
            parsed.push_tool_call(context, call);
        }
        "reasoning" => read_reasoning(item, context, parsed),
        // What the provider's own tools did. Later requests have to contain it.
        "" => {}
        _ => parsed.parts.push(AssistantPart::Opaque(
            context.opaque(item.clone(), String::new()),
        )),
    }
}

fn read_reasoning(item: &Value, context: ReplyContext<'_>, parsed: &mut ParsedReply) {
    let texts = [&item["summary"], &item["content"]].map(|list| {
        items_of(list)
            .iter()
            .map(|part| text_of(&part["text"]))
            .collect::<Vec<_>>()
            .join("\n\n")
    });
    let [summary, content] = texts;
    let text = if content.is_empty() { summary } else { content };
    parsed.reasoning_chars += text.chars().count();
    let mut item = item.clone();
    if let (false, Some(fields)) = (context.keep_thinking, item.as_object_mut()) {
        fields.insert("summary".to_owned(), json!([]));
        fields.remove("content");
    }
    let text = if context.keep_thinking {
        text
    } else {
        String::new()
    };
    parsed
        .parts
        .push(AssistantPart::Opaque(context.opaque(item, text)));
}

/// Returns why a reply cannot be used, if it says so or is none.
fn problem(reply: &Value) -> Option<ReplyProblem> {
    let status = text_of(&reply["status"]);
    if matches!(status, "failed" | "cancelled") {
        return Some(ReplyProblem::FailureReason(status.to_owned()));
    }
    (!reply["output"].is_array()).then_some(ReplyProblem::NoMessage)
}

fn finish_reason(reply: &Value) -> FinishReason {
    match text_of(&reply["status"]) {
        "incomplete" => match text_of(&reply["incomplete_details"]["reason"]) {
            "max_output_tokens" | "max_tokens" => FinishReason::Length,
            "content_filter" => FinishReason::Refusal,
            _ => FinishReason::Other,
        },
        _ => FinishReason::Stop,
    }
}

fn usage(usage: &Value) -> ReportedUsage {
    let first = |fields: &[&str]| first_count(usage, fields);
    ReportedUsage {
        input: first(&["/input_tokens"]),
        output: first(&["/output_tokens"]),
        total: first(&["/total_tokens"]),
        cache_read: first(&["/input_tokens_details/cached_tokens"]),
        cache_write: first(&["/input_tokens_details/cache_write_tokens"]),
        reasoning: first(&["/output_tokens_details/reasoning_tokens"]),
    }
}
