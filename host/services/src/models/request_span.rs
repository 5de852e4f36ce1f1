//! The spans of requests to models: one for each model that is asked. What is sent again because it
//! failed is part of it.

use serde_json::{Value, json};
use strata_core::record::conversation::{
    AssistantPart, Media, ModelMessage, Part, TokenUsage, ToolResult,
};
use strata_core::record::host_call::FinishReason;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::charge::Charge;
use super::endpoint::RequestFailure;
use super::{ModelReply, ModelRequest};
use crate::gateway::HostErrorKind;
use crate::telemetry::{CallTrace, ContentCapture, SPANS, content_text, names};

/// The model that is asked, as spans name it.
pub(super) struct AskedModel<'a> {
    /// The operation.
    pub(super) operation: &'static str,
    pub(super) provider: &'static str,
    /// The provider's id of the model, or its name in the team if it has none.
    pub(super) model: &'a str,
    /// The host and the port of its endpoint, if it has one.
    pub(super) server: Option<(&'a str, u16)>,
}

/// The span of a request. It does nothing if nobody watches.
pub(super) struct RequestSpan {
    span: Span,
    /// What was charged before the request.
    before: Charge,
    content: ContentCapture,
}

impl RequestSpan {
    /// Opens the span of a request, for which `charged` was charged until now.
    pub(super) fn open(asked_model: &AskedModel<'_>, trace: &CallTrace, charged: Charge) -> Self {
        let &AskedModel {
            operation,
            provider,
            model,
            server,
        } = asked_model;
        let span = info_span!(
            target: SPANS, "model request", otel.name = format!("{operation} {model}"), otel.kind = "client",
            { names::OPERATION_NAME } = operation, { names::PROVIDER_NAME } = provider,
            { names::REQUEST_MODEL } = model, { names::CONVERSATION_ID } = trace.run.as_deref(),
            { names::COMPACTED } = trace.is_compacted.then_some(true),
            { names::SERVER_ADDRESS } = server.map(|(host, _)| host),
            { names::SERVER_PORT } = server.map(|(_, port)| i64::from(port)),
            { names::RESPONSE_MODEL } = Empty, { names::RESPONSE_ID } = Empty, { names::FINISH_REASONS } = Empty,
            { names::INPUT_TOKENS } = Empty, { names::OUTPUT_TOKENS } = Empty, { names::CACHE_READ_TOKENS } = Empty,
            { names::CACHE_WRITE_TOKENS } = Empty, { names::REASONING_TOKENS } = Empty, { names::COST_USD } = Empty,
            { names::STATUS_CODE } = Empty, { names::SYSTEM_INSTRUCTIONS } = Empty,
            { names::INPUT_MESSAGES } = Empty, { names::OUTPUT_MESSAGES } = Empty, { names::ERROR_TYPE } = Empty,
            otel.status_code = Empty, otel.status_description = Empty
        );
        Self {
            span,
            before: charged,
            content: trace.content,
        }
    }

    /// Returns the span, in which the request is made.
    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Notes what is sent, if that is to be part of spans.
    pub(super) fn record_request(&self, request: &ModelRequest) {
        if self.omits_content() {
            return;
        }
        if !request.system.is_empty() {
            let instructions = json!([describe_text(&request.system)]);
            let instructions = instructions.to_string();
            self.span
                .record(names::SYSTEM_INSTRUCTIONS, instructions.as_str());
        }
        let messages: Vec<Value> = request.messages.iter().map(describe_message).collect();
        let messages = Value::from(messages).to_string();
        self.span.record(names::INPUT_MESSAGES, messages.as_str());
    }

    /// Notes the reply.
    pub(super) fn record_reply(&self, reply: &ModelReply, charged: Charge) {
        if self.span.is_disabled() {
            return;
        }
        self.record_use(charged);
        self.record_answer(Some(&reply.model), Some(reply.finish));
        if self.omits_content() {
            return;
        }
        let parts: Vec<Value> = reply.parts.iter().map(describe_part).collect();
        let reason = finish_reason(reply.finish);
        let messages = json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]);
        let messages = messages.to_string();
        self.span.record(names::OUTPUT_MESSAGES, messages.as_str());
    }

    /// Notes which model returned vectors.
    pub(super) fn record_vectors(&self, model: &str, charged: Charge) {
        self.record_use(charged);
        self.record_answer(Some(model), None);
    }

    /// Notes why there is no reply.
    pub(super) fn record_failure(&self, failure: &RequestFailure, charged: Charge) {
        if self.span.is_disabled() {
            return;
        }
        self.record_use(charged);
        self.record_answer(failure.answered.as_deref(), failure.finish);
        self.span
            .record(names::ERROR_TYPE, error_type(failure.error.kind))
            .record("otel.status_code", "ERROR");
    }

    fn omits_content(&self) -> bool {
        self.span.is_disabled() || self.content == ContentCapture::Omitted
    }

    fn record_answer(&self, model: Option<&str>, finish: Option<FinishReason>) {
        if let Some(model) = model {
            self.span.record(names::RESPONSE_MODEL, model);
        }
        if let Some(finish) = finish {
            self.span
                .record(names::FINISH_REASONS, finish_reason(finish));
        }
    }

    /// Notes what was used and charged since the span was opened.
    fn record_use(&self, charged: Charge) {
        let (before, now) = (self.before.usage, charged.usage);
        let used = |count: fn(TokenUsage) -> u64| count(now).saturating_sub(count(before)) as i64;
        let cost = charged.cost.to_dollars() - self.before.cost.to_dollars();
        self.span
            .record(names::INPUT_TOKENS, used(|usage| usage.input))
            .record(names::OUTPUT_TOKENS, used(|usage| usage.output))
            .record(names::CACHE_READ_TOKENS, used(|usage| usage.cache_read))
            .record(names::CACHE_WRITE_TOKENS, used(|usage| usage.cache_write))
            .record(names::REASONING_TOKENS, used(|usage| usage.reasoning))
            .record(names::COST_USD, cost);
    }
}

/// Returns the word for a refusal or a failure.
fn error_type(kind: HostErrorKind) -> &'static str {
    match kind {
        HostErrorKind::Denied => "denied",
        HostErrorKind::Invalid => "invalid",
        HostErrorKind::NotFound => "not-found",
        HostErrorKind::OutOfBudget => "out-of-budget",
        HostErrorKind::Expired => "timeout",
        HostErrorKind::Upstream | HostErrorKind::Failed => "host",
        HostErrorKind::BeyondLimit => "output-invalid",
    }
}

/// Returns the word of the conventions.
fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Refusal => "content_filter",
        FinishReason::Other => "other",
    }
}

/// Describes a message in the form of the conventions.
fn describe_message(message: &ModelMessage) -> Value {
    let (role, parts): (_, Vec<Value>) = match message {
        ModelMessage::System(text) => ("system", vec![describe_text(text)]),
        ModelMessage::User(parts) => ("user", parts.iter().map(describe_content).collect()),
        ModelMessage::Assistant(parts) => ("assistant", parts.iter().map(describe_part).collect()),
        ModelMessage::ToolResults(results) => {
            ("tool", results.iter().map(describe_result).collect())
        }
    };
    json!({ "role": role, "parts": parts })
}

fn describe_text(text: &str) -> Value {
    json!({ "type": "text", "content": content_text(text) })
}

/// Describes an image or a file, without its bytes.
fn describe_media(media: &Media) -> Value {
    json!({ "type": "file", "mime_type": media.media_type, "file_id": media.name })
}

fn describe_content(part: &Part) -> Value {
    match part {
        Part::Text(text) => describe_text(text),
        Part::Image(media) | Part::File(media) => describe_media(media),
    }
}

fn describe_part(part: &AssistantPart) -> Value {
    match part {
        AssistantPart::Text(text) => describe_text(text),
        AssistantPart::Media(media) => describe_media(media),
        AssistantPart::ToolCall(call) => json!({
            "type": "tool_call", "id": call.id, "name": call.name, "arguments": content_text(&call.arguments),
        }),
        AssistantPart::Opaque(opaque) => {
            json!({ "type": "reasoning", "content": content_text(&opaque.reasoning) })
        }
    }
}

fn describe_result(result: &ToolResult) -> Value {
    let content: Vec<Value> = result.content.iter().map(describe_content).collect();
    json!({ "type": "tool_call_response", "id": result.call, "response": content })
}
