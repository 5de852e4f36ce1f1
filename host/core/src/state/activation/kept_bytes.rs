//! About how many bytes of memory the turns of an activation take.

use super::{ToolOutcome, Turn, TurnCall};
use crate::state::kept_bytes::{ITEM_BYTES, assistant_part_bytes, draft_bytes, text, writes_bytes};

/// Returns the size of a turn with what its calls returned.
pub(super) fn turn_bytes(turn: &Turn) -> u64 {
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
