//! About how many bytes of memory the parts of a state take. The texts in them are counted exactly, and
//! everything else as small fixed amounts, so that counting is cheap: many short messages take several
//! times what is counted.

use alloc::string::String;

use crate::record::conversation::{AssistantPart, Media, Part};
use crate::record::json::Json;
use crate::record::memory::MemoryReplacement;
use crate::record::message::{Draft, Hop, Message};
use crate::record::scope_write::{ScopeChange, Write};
use crate::record::turn::{ReplyMessage, TurnOutcome, TurnReply};
use crate::record::work::CallResult;
use crate::state::activation::{ToolOutcome, Turn, TurnCall};

/// What an item with several fields takes besides its texts: a message, a turn, a tool call.
pub(crate) const ITEM_BYTES: u64 = 32;
/// What a reference to a message takes: in a mailbox, a memory, the queue of a join, the news of an
/// activation. A message is kept once, but a team can deliver it to all its roles, in every step.
pub(crate) const REFERENCE_BYTES: u64 = 16;
/// What a text takes besides its bytes: in a list, as a key or as a value.
const TEXT_BYTES: u64 = 8;

/// Returns the size of so many references to messages.
pub(crate) fn references_bytes(count: usize) -> u64 {
    count as u64 * REFERENCE_BYTES
}

/// Returns the size of a message for names that nobody has, or that are outside.
pub(crate) fn addressed_bytes<'a>(names: impl IntoIterator<Item = &'a String>) -> u64 {
    REFERENCE_BYTES + texts(names)
}

/// Returns the size of a text in a list, as a key or as a value.
pub(crate) fn text(text: &str) -> u64 {
    text.len() as u64 + TEXT_BYTES
}

fn texts<'a>(all: impl IntoIterator<Item = &'a String>) -> u64 {
    all.into_iter().map(|one| text(one)).sum()
}

/// Returns the size of a key of a scope and its value.
pub(crate) fn scope_value_bytes(key: &str, value: &Json) -> u64 {
    text(key) + text(value.as_str())
}

/// Returns the size of messages of which only the number and the size of their encoded form is known.
pub(crate) fn encoded_messages_bytes(count: usize, encoded_bytes: u64) -> u64 {
    encoded_bytes + count as u64 * ITEM_BYTES
}

/// Returns the size of a message.
pub fn message_bytes(message: &Message) -> u64 {
    let Message {
        id,
        content,
        instruct,
        parts,
        role,
        cause_by,
        sent_from,
        send_to,
        meta,
        route,
    } = message;
    let single = [&id.0, content, role, cause_by, sent_from];
    let data = instruct.iter().map(|data| text(data.value.as_str()));
    let values = meta
        .iter()
        .map(|(key, value)| scope_value_bytes(key, value));
    ITEM_BYTES
        + single.iter().map(|one| one.len() as u64).sum::<u64>()
        + data.sum::<u64>()
        + parts.iter().map(part_bytes).sum::<u64>()
        + texts(send_to)
        + values.sum::<u64>()
        + route.iter().map(hop_bytes).sum::<u64>()
}

fn hop_bytes(hop: &Hop) -> u64 {
    text(&hop.from) + texts(&hop.to)
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text(content) => text(content),
        Part::Image(media) | Part::File(media) => media_bytes(media),
    }
}

/// The bytes of images and files are not part of the state.
fn media_bytes(media: &Media) -> u64 {
    text(&media.media_type) + texts(&media.name) + ITEM_BYTES
}

/// Returns the size of a part of what a model said.
pub(crate) fn assistant_part_bytes(part: &AssistantPart) -> u64 {
    match part {
        AssistantPart::Text(content) => text(content),
        AssistantPart::Media(media) => media_bytes(media),
        AssistantPart::ToolCall(call) => texts([&call.id, &call.name, &call.arguments]),
        AssistantPart::Opaque(part) => text(part.data.as_str()) + text(&part.reasoning),
    }
}

/// Returns the size of a message that has no id yet.
pub(crate) fn draft_bytes(draft: &Draft) -> u64 {
    let Draft {
        content,
        data,
        parts,
        to,
        cause_by,
        route,
    } = draft;
    ITEM_BYTES
        + text(content)
        + data.iter().map(|data| text(data.as_str())).sum::<u64>()
        + parts.iter().map(part_bytes).sum::<u64>()
        + texts(to)
        + texts(cause_by)
        + route.iter().map(hop_bytes).sum::<u64>()
}

/// Returns the size of writes to scopes.
pub(crate) fn writes_bytes(writes: &[Write]) -> u64 {
    let one = |write: &Write| {
        let value = match &write.change {
            ScopeChange::Set(value) => scope_value_bytes(&write.key, value),
            ScopeChange::Delete => text(&write.key),
        };
        text(&write.scope) + value
    };
    writes.iter().map(one).sum()
}

/// Returns the size of a turn with what its calls returned.
pub(crate) fn turn_bytes(turn: &Turn) -> u64 {
    let outcome = |outcome: &ToolOutcome| match outcome {
        ToolOutcome::Returned(returned) => {
            draft_bytes(&returned.output) + writes_bytes(&returned.writes)
        }
        ToolOutcome::Failed(fault) => text(&fault.message),
        ToolOutcome::Rejected(reason) | ToolOutcome::Declined(reason) => text(reason),
    };
    let of_models = turn.calls.iter();
    let calls = of_models
        .flat_map(TurnCall::with_nested)
        .map(|(_, call)| ITEM_BYTES + call.outcome.iter().map(outcome).sum::<u64>());
    let all = turn.calls.iter().flat_map(TurnCall::with_nested);
    let arguments = all
        .flat_map(|(_, call)| &call.progress.nested)
        .map(|nested| text(nested.arguments.as_str()));
    let parts = turn.message.iter().map(assistant_part_bytes);
    ITEM_BYTES + parts.sum::<u64>() + calls.sum::<u64>() + arguments.sum::<u64>()
}

/// Returns the size of a replacement in a conversation.
pub(crate) fn replacement_bytes(replacement: &MemoryReplacement) -> u64 {
    ITEM_BYTES + texts(&replacement.summary) + texts(&replacement.failure)
}

/// Returns how much more a state takes once it contains the result of a call.
pub(crate) fn result_bytes(result: &CallResult) -> u64 {
    let drafts = |drafts: &[Draft]| drafts.iter().map(draft_bytes).sum::<u64>();
    match result {
        CallResult::Chosen(_) => 0,
        CallResult::Planned {
            tasks,
            emissions,
            writes,
        } => {
            // The tasks and the message with their texts.
            let tasks = tasks.iter().map(|task| 2 * text(&task.text));
            tasks.sum::<u64>() + drafts(emissions) + writes_bytes(writes)
        }
        CallResult::Returned {
            output,
            emissions,
            writes,
        } => draft_bytes(output) + drafts(emissions) + writes_bytes(writes),
        CallResult::Reported { output } => draft_bytes(output),
        CallResult::Replied(TurnReply {
            message, outcome, ..
        }) => {
            let parts = match message {
                ReplyMessage::Parts(parts) => parts.iter().map(assistant_part_bytes).sum(),
                ReplyMessage::OfLastCall => 0,
            };
            let answer = match outcome {
                TurnOutcome::Answer(answer) => draft_bytes(answer),
                TurnOutcome::Calls(_) | TurnOutcome::Misfit(_) => 0,
            };
            ITEM_BYTES + parts + answer
        }
        CallResult::SummaryDue(_) => ITEM_BYTES,
        CallResult::Replaced(replacement) => replacement_bytes(replacement),
    }
}
