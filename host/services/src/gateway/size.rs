//! The sizes of requests and answers in bytes, as `limits.host_bytes` counts them.

use strata_core::record::conversation::{AssistantPart, Media, MediaSource, ModelMessage, Part};
use strata_core::record::human_request;
use strata_core::record::json::Json;
use strata_core::record::message::Message;

use super::{
    EnvironmentRequest, GuestRequest, HostAnswer, HostError, HostErrorKind, ToolDescription,
    ToolRequest,
};
use crate::models::{EmbedRequest, Embeddings, ModelReply, ModelRequest, ToolDefinition};
use crate::{http, human};

/// What an item of a list counts besides its text, so that many empty items are not free.
pub const ITEM_BYTES: usize = 16;
/// What an item with many fields counts besides its text: a message, or a turn, a tool or a tool call
/// of a conversation.
const MESSAGE_BYTES: usize = 128;
/// The size of a number.
const NUMBER_BYTES: usize = 8;

impl GuestRequest {
    /// Returns the bytes that come from the guest.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Environment(request) => request.bytes(),
            // Files are counted by the code that reads them for the guest.
            Self::CurrentTime
            | Self::ClockStart
            | Self::StoredFile(_)
            | Self::ListTools
            // No guest asks for them.
            | Self::Servers(_)
            | Self::GuardedCalls(_) => 0,
            Self::CallTools(calls) => calls.iter().map(ToolRequest::bytes).sum(),
            Self::Random { .. } => NUMBER_BYTES,
            Self::AskHuman(question) => question_bytes(question),
            Self::Outbound(request) => request.bytes(),
        };
        bytes as u64
    }
}

impl EnvironmentRequest {
    fn bytes(&self) -> usize {
        match self {
            Self::Get { scope, key, .. } => scope.len() + key.len(),
            Self::Keys { scope, .. } => scope.len(),
            Self::Recent { label, .. } => 2 * NUMBER_BYTES + label.as_ref().map_or(0, String::len),
        }
    }
}

impl HostAnswer {
    /// Returns the bytes that go to the guest. Answers from outside are counted by the code that
    /// reads them for the guest.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Value(value) => {
                ok_bytes_or_message(value, |value| value.as_ref().map_or(0, json_bytes))
            }
            Self::Keys(keys) => ok_bytes_or_message(keys, |keys| {
                keys.iter().map(|key| key.len() + ITEM_BYTES).sum()
            }),
            Self::Messages(messages) => messages.iter().map(|message| message_bytes(message)).sum(),
            Self::Time(_) => NUMBER_BYTES,
            Self::Bytes(bytes) => ok_bytes_or_message(bytes, Vec::len),
            Self::Human(answer) => match answer {
                human_request::HumanAnswer::Given(value)
                | human_request::HumanAnswer::Default(value) => json_bytes(value),
                human_request::HumanAnswer::Expired => 0,
            },
            Self::Tools(tools) => tools.iter().map(ToolDescription::bytes).sum(),
            Self::Outbound(_)
            | Self::File(_)
            | Self::ToolLists(_)
            | Self::ChangedTools(_)
            | Self::GuardedCalls(_) => 0,
        };
        bytes as u64
    }

    /// Returns whether a part of it is larger than the guest may receive.
    pub fn is_beyond_limit(&self) -> bool {
        let beyond = |error: &HostError| error.kind == HostErrorKind::BeyondLimit;
        match self {
            Self::Outbound(answers) => answers
                .iter()
                .any(|answer| answer.as_ref().is_err_and(beyond)),
            _ => false,
        }
    }
}

/// Returns the size of an answer, or of the message of an error.
pub fn ok_bytes_or_message<T>(answer: &Result<T, HostError>, bytes: impl Fn(&T) -> usize) -> usize {
    match answer {
        Ok(value) => bytes(value),
        Err(error) => error.message.len(),
    }
}

fn json_bytes(json: &Json) -> usize {
    json.as_str().len()
}

fn message_bytes(message: &Message) -> usize {
    let data = message
        .instruct
        .as_ref()
        .map_or(0, |instruct| json_bytes(&instruct.value));
    let to: usize = message.send_to.iter().map(|to| to.len() + ITEM_BYTES).sum();
    let names = message.id.0.len() + message.cause_by.len() + message.sent_from.len();
    let parts: usize = message.parts.iter().map(part_bytes).sum();
    MESSAGE_BYTES + message.content.len() + data + to + names + parts
}

/// Returns the size of embeddings, in bytes.
pub fn embeddings_bytes(embeddings: &Embeddings) -> usize {
    let vector = |vector: &Vec<f32>| ITEM_BYTES + vector.len() * size_of::<f32>();
    embeddings.model.len() + embeddings.vectors.iter().map(vector).sum::<usize>()
}

impl EmbedRequest {
    /// Returns the size of all texts in the request.
    pub fn text_bytes(&self) -> usize {
        let texts = self.texts.iter().map(|text| text.len() + ITEM_BYTES);
        texts.sum::<usize>() + self.model.as_ref().map_or(0, String::len)
    }
}

fn question_bytes(question: &human::HumanQuestion) -> usize {
    let texts = question
        .schema
        .iter()
        .chain(&question.default)
        .map(String::len)
        .sum::<usize>();
    let choices: usize = question
        .choices
        .iter()
        .map(|choice| choice.len() + ITEM_BYTES)
        .sum();
    question.text.len() + texts + choices
}

/// Returns the size of a model's reply, in bytes.
pub fn reply_bytes(reply: &ModelReply) -> usize {
    let data = reply.data.as_ref().map_or(0, String::len);
    let parts = reply.parts.iter().map(assistant_part_bytes).sum::<usize>();
    parts + data + reply.model.len()
}

/// Returns the size of an HTTP response, in bytes.
pub fn response_bytes(response: &http::HttpResponse) -> usize {
    response.body.len() + header_bytes(&response.headers)
}

fn header_bytes(headers: &[http::Header]) -> usize {
    headers
        .iter()
        .map(|header| header.name.len() + header.value.len() + ITEM_BYTES)
        .sum()
}

impl http::HttpRequest {
    /// Returns the size of everything in the request that can be long.
    pub fn bytes(&self) -> usize {
        let secrets: usize = self
            .secrets
            .iter()
            .map(|name| name.len() + ITEM_BYTES)
            .sum();
        self.url.as_str().len()
            + header_bytes(&self.headers)
            + self.body.as_ref().map_or(0, Vec::len)
            + secrets
    }
}

impl ModelRequest {
    /// Returns the size of all texts in the request and of the items that hold them. A guest may
    /// pass the same list several times and each one counts. The bytes of images and files count
    /// where the guest hands them over.
    pub fn bytes(&self) -> usize {
        let tool = |tool: &ToolDefinition| {
            MESSAGE_BYTES + tool.name.len() + tool.description.len() + tool.parameters.len()
        };
        let rest = [&self.model, &self.output_schema, &self.effort];
        self.system.len()
            + self.messages.iter().map(model_message_bytes).sum::<usize>()
            + self.tools.iter().map(tool).sum::<usize>()
            + self
                .stop
                .iter()
                .map(|text| text.len() + ITEM_BYTES)
                .sum::<usize>()
            + rest.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

fn model_message_bytes(message: &ModelMessage) -> usize {
    let content = match message {
        ModelMessage::System(text) => text.len(),
        ModelMessage::User(parts) => parts.iter().map(part_bytes).sum(),
        ModelMessage::Assistant(parts) => parts.iter().map(assistant_part_bytes).sum(),
        ModelMessage::ToolResults(results) => results
            .iter()
            .map(|result| {
                let content = result.content.iter().map(part_bytes).sum::<usize>();
                MESSAGE_BYTES + result.call.len() + result.tool.len() + content
            })
            .sum(),
    };
    MESSAGE_BYTES + content
}

/// Returns the size of a part without the stored bytes that it refers to.
pub fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text(text) => ITEM_BYTES + text.len(),
        Part::Image(media) | Part::File(media) => media_bytes(media),
    }
}

fn media_bytes(media: &Media) -> usize {
    let source = match &media.source {
        MediaSource::Blob { digest, .. } => digest.0.len(),
        MediaSource::Url(url) => url.len(),
    };
    MESSAGE_BYTES + media.media_type.len() + media.name.as_ref().map_or(0, String::len) + source
}

fn assistant_part_bytes(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text(text) => ITEM_BYTES + text.len(),
        AssistantPart::Media(media) => media_bytes(media),
        AssistantPart::ToolCall(call) => {
            MESSAGE_BYTES + call.id.len() + call.name.len() + call.arguments.len()
        }
        AssistantPart::Opaque(part) => {
            let names = part.provider.len() + part.model.len();
            MESSAGE_BYTES + names + part.data.as_str().len() + part.reasoning.len()
        }
    }
}
