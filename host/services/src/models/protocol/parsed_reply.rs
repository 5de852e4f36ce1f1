//! What is read from a reply, whichever protocol it came in, and whether it can be used.

use std::collections::BTreeMap;

use serde_json::Value;
use strata_core::record::conversation::{AssistantPart, ToolCall};

use super::tools::ToolNames;
use super::{MAX_TOOL_CALLS, ModelProtocol, ReplyContext};
use crate::models::FinishReason;
use crate::models::tokens::{ReportedUsage, UsageWithoutReply};

/// The contents of a reply.
#[derive(Debug, Default)]
pub(in super::super) struct ParsedReply {
    /// Its parts. Text contains the model's thinking in `<think>` blocks.
    pub(in super::super) parts: Vec<AssistantPart>,
    /// The number of tool calls among them. Counting them for each call would take quadratic time.
    pub(super) tool_call_count: usize,
    /// The positions in `parts` of the last tool calls with the ids that were sent.
    pub(super) calls_by_id: BTreeMap<String, usize>,
    /// The number of characters of reasoning, whether it is kept or not. It is used only to
    /// estimate tokens.
    pub(in super::super) reasoning_chars: usize,
    /// The model that answered, if the reply names it.
    pub(in super::super) model: Option<String>,
    pub(in super::super) finish: FinishReason,
    pub(in super::super) usage: ReportedUsage,
    /// Why it cannot be used, if the protocol has found a reason.
    pub(in super::super) problem: Option<ReplyProblem>,
}

/// A tool call as a reply contains it.
#[derive(Clone, Copy)]
pub(super) struct SentToolCall<'a> {
    pub(super) id: &'a Value,
    pub(super) name: &'a Value,
    /// The arguments, as text or as an object.
    pub(super) arguments: &'a Value,
}

/// The reason why a reply cannot be used.
#[derive(Debug, PartialEq)]
pub(in super::super) enum ReplyProblem {
    /// It states this error.
    StatedError(Value),
    /// Its finish reason means failure. The reason as sent, possibly an empty string.
    FailureReason(String),
    /// It contains no message.
    NoMessage,
    /// It contains more tool calls than are accepted.
    TooManyToolCalls {
        /// The maximum number.
        limit: usize,
    },
}

/// A reply that cannot be used. It may have a cost nevertheless.
#[derive(Debug, PartialEq)]
pub(in super::super) struct UnusableReply {
    pub(in super::super) problem: ReplyProblem,
    pub(in super::super) usage: UsageWithoutReply,
}

impl ParsedReply {
    /// Returns whether the model wrote anything.
    fn has_output(&self) -> bool {
        !self.parts.is_empty() || self.reasoning_chars > 0
    }

    /// Adds a tool call and returns it. One that was sent without an id gets one from the host.
    /// Returns `None` for a call with the id, name and arguments of an earlier one: it is the same
    /// call, which some endpoints repeat.
    pub(super) fn push_tool_call(
        &mut self,
        context: ReplyContext<'_>,
        sent: SentToolCall<'_>,
    ) -> Option<&ToolCall> {
        let sent_id = name_of(sent.id);
        let id = sent_id.clone();
        let call = ToolCall {
            id: id.unwrap_or_else(|| context.request.tool_call_id(self.tool_call_count)),
            name: text_of(sent.name).to_owned(),
            arguments: arguments_of(sent.arguments),
        };
        if let Some(id) = sent_id {
            let known = self.calls_by_id.insert(id, self.parts.len());
            let known = known.and_then(|place| Some((place, self.parts.get(place)?)));
            if let Some((place, AssistantPart::ToolCall(known))) = known
                && *known == call
            {
                self.calls_by_id.insert(call.id, place);
                return None;
            }
        }
        self.tool_call_count += 1;
        self.parts.push(AssistantPart::ToolCall(call));
        match self.parts.last() {
            Some(AssistantPart::ToolCall(call)) => Some(call),
            _ => None,
        }
    }

    /// Adds text, unless there is none.
    pub(super) fn push_text(&mut self, text: String) {
        if !text.is_empty() {
            self.parts.push(AssistantPart::Text(text));
        }
    }
}

/// Reads a reply, whatever it says about itself.
pub(in super::super) fn read_reply(
    protocol: &dyn ModelProtocol,
    reply: &Value,
    context: ReplyContext<'_>,
) -> Result<ParsedReply, UnusableReply> {
    let mut parsed = protocol.parse_reply(reply, context);
    ToolNames::new(context.request, protocol.tool_names()).restore(&mut parsed.parts);
    let calls = parsed.tool_call_count;
    let stated = stated_error(reply).map(|error| ReplyProblem::StatedError(error.clone()));
    let problem = stated.or_else(|| parsed.problem.take()).or_else(|| {
        (calls > MAX_TOOL_CALLS).then_some(ReplyProblem::TooManyToolCalls {
            limit: MAX_TOOL_CALLS,
        })
    });
    if let Some(problem) = problem {
        let usage = match parsed.usage {
            usage if usage.is_known() => {
                UsageWithoutReply::Tokens(usage.or_estimate(Default::default()))
            }
            _ if parsed.has_output() => UsageWithoutReply::Unknown,
            _ => UsageWithoutReply::Nothing,
        };
        return Err(UnusableReply { problem, usage });
    }
    parsed.finish = match parsed.finish {
        FinishReason::Stop if calls > 0 => FinishReason::ToolCalls,
        FinishReason::ToolCalls if calls == 0 => FinishReason::Stop,
        finish => finish,
    };
    Ok(parsed)
}

/// Where providers put the id of a reply: into the reply, into the first chunk of a stream, or into
/// what that chunk contains.
const REPLY_IDS: [&str; 4] = ["/id", "/responseId", "/message/id", "/response/id"];
/// The maximum length of an id, in bytes. A longer one is ignored.
const MAX_ID_BYTES: usize = 256;

/// Returns the provider's id of a reply, of which a chunk is enough.
pub(in super::super) fn reply_id(reply: &Value) -> Option<&str> {
    let mut ids = REPLY_IDS
        .iter()
        .filter_map(|at| reply.pointer(at)?.as_str());
    ids.find(|id| (1..=MAX_ID_BYTES).contains(&id.len()))
}

/// Returns the error that a reply, a chunk or a part of one states, in whatever form.
pub(super) fn stated_error(value: &Value) -> Option<&Value> {
    let error = &value["error"];
    let states = match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    if states {
        return Some(error);
    }
    (value["object"] == "error" || value["type"] == "error").then_some(value)
}

/// Returns a text, or an empty one if the value is none.
pub(super) fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a text that is not empty.
pub(super) fn name_of(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Returns the items of a list, or none if the value is no list.
pub(in super::super) fn items_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the arguments of a tool call as text, whether they are sent as text or as an object.
fn arguments_of(arguments: &Value) -> String {
    match arguments {
        // Some models call a tool without parameters with no arguments at all.
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => text.clone(),
        document => document.to_string(),
    }
}

/// Removes a field from an object and returns it. Returns `null` if there is none.
pub(super) fn take_field(value: &mut Value, field: &str) -> Value {
    value.get_mut(field).map(Value::take).unwrap_or_default()
}
