//! Converts conversations with models, and checks what guests put into them.

use strata_core::record::conversation::{
    AssistantPart, ModelMessage, OpaquePart, Part, ToolCall, ToolChoice, ToolResult,
};
use strata_core::record::host_call::FinishReason;
use strata_core::record::json::{Json, JsonError};
use strata_services::models::{
    EmbedRequest, Embeddings, IfTooLong, ModelReply, ModelRequest, ToolDefinition,
};

use crate::bindings::{llm, types};
use crate::media::{
    AttemptMedia, InvalidMedia, bytes_from_guest, media_bytes_from_guest, media_to_guest,
};

/// The maximum length of a tool's name. No provider accepts longer ones.
const MAX_TOOL_NAME_BYTES: usize = 64;
/// The maximum length of a name in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// Why a request is not accepted from a guest.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidRequest {
    /// A text that has to be JSON is not.
    #[error("{what} is {why}")]
    Json {
        /// What the text is.
        what: &'static str,
        /// The reason.
        why: JsonError,
    },
    /// An image or a file is not acceptable.
    #[error("part {part} of message {message} is not acceptable: {why}")]
    Media {
        /// The index of the message.
        message: usize,
        /// The index of the part in it.
        part: usize,
        /// The reason.
        why: InvalidMedia,
    },
    /// The temperature is not a number.
    #[error("`temperature` is not a number")]
    Temperature,
    /// A tool has a name that no provider accepts.
    #[error("`{0}` is not the name of a tool: 1 to {MAX_TOOL_NAME_BYTES} of `A-Z a-z 0-9 _ -`")]
    ToolName(String),
    /// The tool that is to be called is not offered.
    #[error("`tool-choice` names `{0}`, which is not among the tools")]
    ToolChoice(String),
}

/// Returns how many bytes of images and files a guest passes with a request.
pub(super) fn media_bytes(request: &llm::Request) -> u64 {
    request.messages.iter().map(message_media_bytes).sum()
}

fn message_media_bytes(message: &llm::ChatMessage) -> u64 {
    match message {
        llm::ChatMessage::System(_) => 0,
        llm::ChatMessage::User(parts) => bytes_from_guest(parts),
        llm::ChatMessage::Assistant(parts) => parts
            .iter()
            .map(|part| match part {
                llm::AssistantPart::Media(media) => media_bytes_from_guest(media),
                _ => 0,
            })
            .sum(),
        llm::ChatMessage::ToolResults(results) => results
            .iter()
            .map(|result| bytes_from_guest(&result.content))
            .sum(),
    }
}

/// Converts a request from a guest.
pub(super) fn request(
    request: llm::Request,
    media: &mut AttemptMedia,
) -> Result<ModelRequest, InvalidRequest> {
    if request.temperature.is_some_and(|t| !t.is_finite()) {
        return Err(InvalidRequest::Temperature);
    }
    if let Some(schema) = &request.output_schema {
        parse("`output-schema`", schema)?;
    }
    let tools: Vec<ToolDefinition> = request
        .tools
        .into_iter()
        .map(tool)
        .collect::<Result<_, _>>()?;
    let tool_choice = tool_choice(request.tool_choice, &tools)?;
    let mut messages = request.messages.into_iter().enumerate().peekable();
    let mut instructions = Vec::new();
    // Providers take the instructions apart from the conversation.
    while let Some((_, llm::ChatMessage::System(text))) =
        messages.next_if(|(_, message)| matches!(message, llm::ChatMessage::System(_)))
    {
        instructions.push(text);
    }
    let convert = |(index, message)| {
        let converted = model_message(message, media);
        converted.map_err(|invalid| invalid.in_message(index))
    };
    Ok(ModelRequest {
        model: request.model,
        system: instructions.join("\n\n"),
        messages: messages.map(convert).collect::<Result<_, _>>()?,
        tools,
        tool_choice,
        output_schema: request.output_schema,
        effort: request.effort,
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        stop: request.stop,
        seed: request.seed,
        if_too_long: IfTooLong::AskFallbacks,
    })
}

/// Why a message of a conversation is not accepted.
enum InvalidMessage {
    Json(JsonError),
    Media { part: usize, why: InvalidMedia },
}

impl InvalidMessage {
    fn in_message(self, message: usize) -> InvalidRequest {
        match self {
            Self::Json(why) => InvalidRequest::Json {
                what: "the `data` of an opaque part",
                why,
            },
            Self::Media { part, why } => InvalidRequest::Media { message, part, why },
        }
    }
}

fn model_message(
    message: llm::ChatMessage,
    media: &mut AttemptMedia,
) -> Result<ModelMessage, InvalidMessage> {
    Ok(match message {
        llm::ChatMessage::System(text) => ModelMessage::System(text),
        llm::ChatMessage::User(parts) => ModelMessage::User(convert_parts(parts, media)?),
        llm::ChatMessage::Assistant(parts) => {
            let convert = |(index, part)| assistant_part(index, part, media);
            let parts = parts.into_iter().enumerate().map(convert);
            ModelMessage::Assistant(parts.collect::<Result<_, _>>()?)
        }
        llm::ChatMessage::ToolResults(results) => {
            let mut converted = Vec::new();
            for result in results {
                converted.push(ToolResult {
                    call: result.call,
                    tool: result.tool,
                    content: convert_parts(result.content, media)?,
                    is_error: result.is_error,
                });
            }
            ModelMessage::ToolResults(converted)
        }
    })
}

fn convert_parts(
    parts: Vec<types::Part>,
    media: &mut AttemptMedia,
) -> Result<Vec<Part>, InvalidMessage> {
    let convert = |(index, part)| {
        let converted = match part {
            types::Part::Text(text) => Ok(Part::Text(text)),
            types::Part::Image(image) => media.image_from_guest(image).map(Part::Image),
            types::Part::File(file) => media.media_from_guest(file).map(Part::File),
        };
        converted.map_err(|why| InvalidMessage::Media { part: index, why })
    };
    parts.into_iter().enumerate().map(convert).collect()
}

fn assistant_part(
    index: usize,
    part: llm::AssistantPart,
    media: &mut AttemptMedia,
) -> Result<AssistantPart, InvalidMessage> {
    Ok(match part {
        llm::AssistantPart::Text(text) => AssistantPart::Text(text),
        llm::AssistantPart::Media(guest_media) => {
            let converted = media.media_from_guest(guest_media);
            let invalid = |why| InvalidMessage::Media { part: index, why };
            AssistantPart::Media(converted.map_err(invalid)?)
        }
        llm::AssistantPart::ToolCall(call) => AssistantPart::ToolCall(ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }),
        llm::AssistantPart::Opaque(opaque) => AssistantPart::Opaque(OpaquePart {
            provider: opaque.provider,
            model: opaque.model,
            data: Json::parse(&opaque.data).map_err(InvalidMessage::Json)?,
            reasoning: opaque.reasoning,
        }),
    })
}

fn tool(tool: llm::Tool) -> Result<ToolDefinition, InvalidRequest> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !(1..=MAX_TOOL_NAME_BYTES).contains(&tool.name.len()) || !tool.name.chars().all(is_allowed) {
        return Err(InvalidRequest::ToolName(shown(&tool.name)));
    }
    parse("a tool's `parameters`", &tool.parameters)?;
    Ok(ToolDefinition {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    })
}

fn tool_choice(
    choice: llm::ToolChoice,
    tools: &[ToolDefinition],
) -> Result<ToolChoice, InvalidRequest> {
    match choice {
        llm::ToolChoice::Auto => Ok(ToolChoice::Auto),
        llm::ToolChoice::Required => Ok(ToolChoice::Required),
        llm::ToolChoice::None => Ok(ToolChoice::None),
        llm::ToolChoice::Tool(name) if tools.iter().any(|tool| tool.name == name) => {
            Ok(ToolChoice::Tool(name))
        }
        llm::ToolChoice::Tool(name) => Err(InvalidRequest::ToolChoice(shown(&name))),
    }
}

fn parse(what: &'static str, text: &str) -> Result<(), InvalidRequest> {
    Json::parse(text)
        .map(drop)
        .map_err(|why| InvalidRequest::Json { what, why })
}

fn shown(name: &str) -> String {
    name.chars().take(MAX_SHOWN_CHARS).collect()
}

/// Converts a reply for a guest, which may refer to its images and files from then on.
pub(super) fn reply(reply: ModelReply, media: &mut AttemptMedia) -> llm::Reply {
    for part in &reply.parts {
        if let AssistantPart::Media(received) = part {
            media.add_media(received);
        }
    }
    let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    llm::Reply {
        text: reply.text(),
        data: reply.data,
        finish: finish_reason(reply.finish),
        model: reply.model,
        usage: llm::Usage {
            input_tokens: tokens(reply.usage.input),
            output_tokens: tokens(reply.usage.output),
            cache_read_tokens: tokens(reply.usage.cache_read),
            cache_write_tokens: tokens(reply.usage.cache_write),
            reasoning_tokens: tokens(reply.usage.reasoning),
        },
        parts: reply
            .parts
            .into_iter()
            .map(assistant_part_to_guest)
            .collect(),
    }
}

fn assistant_part_to_guest(part: AssistantPart) -> llm::AssistantPart {
    match part {
        AssistantPart::Text(text) => llm::AssistantPart::Text(text),
        AssistantPart::Media(media) => llm::AssistantPart::Media(media_to_guest(&media)),
        AssistantPart::ToolCall(call) => llm::AssistantPart::ToolCall(llm::ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }),
        AssistantPart::Opaque(opaque) => llm::AssistantPart::Opaque(llm::OpaquePart {
            provider: opaque.provider,
            model: opaque.model,
            data: opaque.data.as_str().to_owned(),
            reasoning: opaque.reasoning,
        }),
    }
}

fn finish_reason(finish: FinishReason) -> llm::FinishReason {
    match finish {
        FinishReason::Stop => llm::FinishReason::Stop,
        FinishReason::Length => llm::FinishReason::Length,
        FinishReason::ToolCalls => llm::FinishReason::ToolCalls,
        FinishReason::Refusal => llm::FinishReason::Refusal,
        FinishReason::Other => llm::FinishReason::Other,
    }
}

/// Converts a request for vectors from a guest.
pub(super) fn embed_request(request: llm::EmbedRequest) -> EmbedRequest {
    EmbedRequest {
        model: request.model,
        texts: request.texts,
        dimensions: request.dimensions,
    }
}

/// Converts vectors for a guest.
pub(super) fn embeddings(embeddings: Embeddings) -> llm::Embeddings {
    llm::Embeddings {
        vectors: embeddings.vectors,
        model: embeddings.model,
        input_tokens: u32::try_from(embeddings.input_tokens).unwrap_or(u32::MAX),
    }
}
