//! The `generateContent` protocol of Gemini.
//!
//! Its calls of tools have no ids, or ids that are optional: the host makes them up, and results are
//! connected with calls by name and order. A signature belongs to the part that it came with; it is
//! kept as an opaque part behind that part.

mod builder;
mod embeddings;
mod parts;
mod request;

use reqwest::Url;
use serde_json::{Map, Value, json};
use strata_core::record::conversation::AssistantPart;

use self::embeddings::BatchEmbedContents;
use self::parts::PartList;
use super::assembler::ReplyBuilder;
use super::parsed_reply::{ParsedReply, ReplyProblem, SentToolCall, items_of, name_of, text_of};
use super::{
    EmbeddingProtocol, KeyHeader, ModelProtocol, Outbound, ReplyContext, RequestBody, TransferMode,
};
use crate::gateway::HostError;
use crate::models::FinishReason;
use crate::models::tokens::{ReportedUsage, first_count};
use crate::tool_name::NameRule;

/// The protocol.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct GenerateContent;

/// The field of a part that has to be returned with the part.
const SIGNATURE: &str = "thoughtSignature";
/// The fields of a part that are not text, of which it has one (`Part` in
/// <https://ai.google.dev/api/caching#Part>). Text may be beside it.
const DATA: [&str; 8] = [
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];
/// What precedes the name of a model in the provider's own lists.
const MODEL_PREFIX: &str = "models/";

/// The names of tools that it accepts.
const TOOL_NAMES: NameRule = NameRule::LetterFirst;

/// Returns the address of a method of a model.
fn method_url(base: &Url, model: &str, method: &str) -> Url {
    let method = format!("{}:{method}", model_id(model));
    super::append_path(base, &["v1beta", "models", &method])
}

/// Returns the id of a model without what precedes it in the provider's lists.
fn model_id(model: &str) -> &str {
    model.strip_prefix(MODEL_PREFIX).unwrap_or(model)
}

impl ModelProtocol for GenerateContent {
    fn url(&self, base: &Url, model: &str, transfer: TransferMode) -> Url {
        let method = match transfer {
            TransferMode::Unstreamed => "generateContent",
            TransferMode::Streamed => "streamGenerateContent",
        };
        let mut url = method_url(base, model, method);
        if transfer == TransferMode::Streamed {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader {
            name: "x-goog-api-key",
            prefix: "",
        }
    }

    fn body(&self, outbound: &Outbound<'_>) -> Result<RequestBody, HostError> {
        request::body(outbound)
    }

    fn tool_names(&self) -> NameRule {
        TOOL_NAMES
    }

    fn builder(&self) -> Box<dyn ReplyBuilder> {
        Box::<builder::ContentBuilder>::default()
    }

    fn embeddings(&self) -> Option<&dyn EmbeddingProtocol> {
        Some(&BatchEmbedContents)
    }

    fn parse_reply(&self, reply: &Value, context: ReplyContext<'_>) -> ParsedReply {
        let candidate = first_candidate(reply);
        let blocked = name_of(&reply["promptFeedback"]["blockReason"]);
        let mut parsed = ParsedReply {
            model: name_of(&reply["modelVersion"]),
            finish: match &blocked {
                Some(_) => FinishReason::Refusal,
                None => finish_reason(&candidate["finishReason"]),
            },
            usage: usage(&reply["usageMetadata"]),
            problem: problem(candidate).filter(|_| blocked.is_none()),
            ..ParsedReply::default()
        };
        let mut parts = PartList::default();
        for part in items_of(&candidate["content"]["parts"]) {
            parts.push(part);
        }
        for part in parts.finish() {
            read_part(&part, context, &mut parsed);
        }
        parsed
    }
}

/// Returns the candidate with the lowest index. Without indices, this is the first one.
fn first_candidate(reply: &Value) -> &Value {
    let candidates = items_of(&reply["candidates"]).iter();
    candidates
        .min_by_key(|candidate| candidate["index"].as_u64().unwrap_or_default())
        .unwrap_or(&Value::Null)
}

/// Returns whether a part has something other than text.
fn has_data(part: &Value) -> bool {
    DATA.iter().any(|field| part[field].is_object())
}

fn read_part(part: &Value, context: ReplyContext<'_>, parsed: &mut ParsedReply) {
    let signature = part[SIGNATURE].as_str();
    let call = &part["functionCall"];
    let returned = if call.is_object() {
        let call = SentToolCall {
            id: &call["id"],
            name: &call["name"],
            arguments: &call["args"],
        };
        let added = parsed.push_tool_call(context, call);
        signature
            .filter(|_| added.is_some())
            .map(|signature| json!({ SIGNATURE: signature }))
    } else if part["thought"] == true {
        return read_thought(part, context, parsed);
    } else if let Some(text) = part["text"].as_str() {
        parsed.push_text(text.to_owned());
        signature.map(|signature| match text {
            "" => json!({ "text": "", SIGNATURE: signature }),
            _ => json!({ SIGNATURE: signature }),
        })
    } else {
        // What the provider's own tools did.
        Some(part.clone())
    };
    if let Some(data) = returned {
        let opaque = context.opaque(data, String::new());
        parsed.parts.push(AssistantPart::Opaque(opaque));
    }
}

/// Reads a summary of the model's reasoning. It is returned if it is signed or kept.
fn read_thought(part: &Value, context: ReplyContext<'_>, parsed: &mut ParsedReply) {
    let text = text_of(&part["text"]);
    parsed.reasoning_chars += text.chars().count();
    let mut data = Map::new();
    data.insert("thought".to_owned(), true.into());
    let thinking = if context.keep_thinking { text } else { "" };
    data.insert("text".to_owned(), thinking.into());
    if part[SIGNATURE].is_string() {
        data.insert(SIGNATURE.to_owned(), part[SIGNATURE].clone());
    } else if !context.keep_thinking {
        return;
    }
    parsed.parts.push(AssistantPart::Opaque(
        context.opaque(data.into(), thinking.to_owned()),
    ));
}

/// Returns why a candidate cannot be used, if it says so or is none.
fn problem(candidate: &Value) -> Option<ReplyProblem> {
    match candidate["finishReason"].as_str() {
        // The model wrote a call that the provider could not read.
        Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "" | "ERROR")) => {
            Some(ReplyProblem::FailureReason(reason.to_owned()))
        }
        // A reply of only reasoning that was truncated has no content.
        Some(_) => None,
        None => (!candidate["content"].is_object()).then_some(ReplyProblem::NoMessage),
    }
}

fn finish_reason(reason: &Value) -> FinishReason {
    match reason.as_str() {
        None | Some("STOP") => FinishReason::Stop,
        Some("MAX_TOKENS") => FinishReason::Length,
        Some(
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY"
            | "LANGUAGE",
        ) => FinishReason::Refusal,
        Some(_) => FinishReason::Other,
    }
}

/// Returns the usage. The protocol counts reasoning apart from the rest of the reply. Some models
/// count it as a part nevertheless, as the total shows; LiteLLM tells them apart in the same way.
fn usage(usage: &Value) -> ReportedUsage {
    let first = |fields: &[&str]| first_count(usage, fields);
    let prompt = first(&["/promptTokenCount"]);
    let tools = first(&["/toolUsePromptTokenCount"]).unwrap_or_default();
    let candidates = first(&["/candidatesTokenCount"]);
    let reasoning = first(&["/thoughtsTokenCount"]);
    let input = prompt.map(|prompt| prompt.saturating_add(tools));
    let total = first(&["/totalTokenCount"]);
    let is_part = match (input, candidates, total) {
        (Some(input), Some(candidates), Some(total)) => input.saturating_add(candidates) == total,
        _ => false,
    };
    let output = match (candidates, reasoning) {
        (Some(candidates), Some(reasoning)) if !is_part => {
            Some(candidates.saturating_add(reasoning))
        }
        (candidates, reasoning) => candidates.or(reasoning),
    };
    ReportedUsage {
        input,
        output,
        total,
        cache_read: first(&["/cachedContentTokenCount"]),
        cache_write: None,
        reasoning,
    }
}
