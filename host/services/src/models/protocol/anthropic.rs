//! The Messages protocol of Anthropic.
//!
//! What a conversation shares with the previous one is read from a cache up to marks in the request,
//! which are set here: on the last block of the instructions, the last tool and the last block of
//! the newest message.

mod builder;
mod request;
mod thinking;

use reqwest::Url;
use serde_json::Value;
use strata_core::record::conversation::AssistantPart;

pub(super) use self::thinking::{allows_forced_choice, check_settings};
use super::assembler::ReplyBuilder;
use super::parsed_reply::{ParsedReply, ReplyProblem, SentToolCall, items_of, name_of, text_of};
use super::{
    KeyHeader, ModelProtocol, Outbound, ReplyContext, RequestBody, TransferMode, append_path,
};
use crate::gateway::HostError;
use crate::models::FinishReason;
use crate::models::tokens::{ReportedUsage, first_count};

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct CreateMessage;

impl ModelProtocol for CreateMessage {
    fn url(&self, base: &Url, _model: &str, _transfer: TransferMode) -> Url {
        append_path(base, &["v1", "messages"])
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader {
            name: "x-api-key",
            prefix: "",
        }
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn body(&self, outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
        request::body(outbound)
    }

    fn check_body(&self, body: &RequestBody) -> Result<(), HostError> {
        thinking::check_body(body)
    }

    fn builder(&self) -> Box<dyn ReplyBuilder> {
        Box::<builder::MessageBuilder>::default()
    }

    fn parse_reply(&self, reply: &Value, context: ReplyContext<'_>) -> ParsedReply {
        let mut parsed = ParsedReply {
            model: name_of(&reply["model"]),
            finish: finish_reason(&reply["stop_reason"]),
            usage: usage(&reply["usage"]),
            problem: (!reply["content"].is_array()).then_some(ReplyProblem::NoMessage),
            ..ParsedReply::default()
        };
        for block in items_of(&reply["content"]) {
            read_block(block, context, &mut parsed);
        }
        parsed
    }
}

fn read_block(block: &Value, context: ReplyContext<'_>, parsed: &mut ParsedReply) {
    match text_of(&block["type"]) {
        "text" => parsed.push_text(text_of(&block["text"]).to_owned()),
        "tool_use" => {
            let call = SentToolCall {
                id: &block["id"],
                name: &block["name"],
                arguments: &block["input"],
            };
            parsed.push_tool_call(context, call);
        }
        "thinking" => {
            let text = text_of(&block["thinking"]);
            parsed.reasoning_chars += text.chars().count();
            let mut block = block.clone();
            let mut thinking = text.to_owned();
            if !context.keep_thinking {
                // The signature contains the reasoning; the text is for people.
                block["thinking"] = "".into();
                thinking.clear();
            }
            parsed
                .parts
                .push(AssistantPart::Opaque(context.opaque(block, thinking)));
        }
        "" => {}
        // Encrypted reasoning, and what the provider's own tools did.
        _ => parsed.parts.push(AssistantPart::Opaque(
            context.opaque(block.clone(), String::new()),
        )),
    }
}

fn finish_reason(reason: &Value) -> FinishReason {
    match reason.as_str() {
        None | Some("end_turn" | "stop_sequence") => FinishReason::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("tool_use") => FinishReason::ToolCalls,
        Some("refusal") => FinishReason::Refusal,
        Some(_) => FinishReason::Other,
    }
}

/// The parts of what was written to the cache, by how long they are kept there.
const CACHE_WRITES: [&str; 2] = [
    "/cache_creation/ephemeral_5m_input_tokens",
    "/cache_creation/ephemeral_1h_input_tokens",
];

/// Returns the usage. The protocol counts what was read from the cache or written to it apart from
/// the other tokens of the request.
fn usage(usage: &Value) -> ReportedUsage {
    let first = |fields: &[&str]| first_count(usage, fields);
    let cache_read = first(&["/cache_read_input_tokens"]);
    // Some endpoints report only how long what was written is kept.
    let cache_write = first(&["/cache_creation_input_tokens"]).or_else(|| {
        let counts = CACHE_WRITES.map(|pointer| first(&[pointer]));
        let sum = counts.into_iter().flatten().fold(0, u64::saturating_add);
        (sum > 0).then_some(sum)
    });
    let uncached = first(&["/input_tokens"]);
    let cached = cache_read
        .unwrap_or_default()
        .saturating_add(cache_write.unwrap_or_default());
    ReportedUsage {
        input: uncached.map(|uncached| uncached.saturating_add(cached)),
        output: first(&["/output_tokens"]),
        total: None,
        cache_read,
        cache_write,
        reasoning: first(&[
            "/output_tokens_details/thinking_tokens",
            "/output_tokens_details/reasoning_tokens",
        ]),
    }
}

#[cfg(test)]
mod tests;
