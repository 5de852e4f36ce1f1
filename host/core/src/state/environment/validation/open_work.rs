//! Validation of open activations: what they refer to, and the numbers that are counted on.

use super::InvalidState;
use crate::record::conversation::{AssistantPart, Media, MediaSource, Part};
use crate::record::file::{FileChange, PathContent};
use crate::record::human_request::HumanRequest;
use crate::record::json::{self, Json};
use crate::record::memory::{MemoryReplacement, PlannedReplacement, PlannedTokens};
use crate::record::shape::RoleShape;
use crate::record::turn::{Approval, ToolRef};
use crate::record::work::Work;
use crate::state::activation::{
    Activation, CallProgress, Consent, ConversationMemory, MAX_TOKENS, Phase, TurnCall,
};

/// The largest step, and the largest number of bytes of a file. It leaves room for counting on.
const MAX_COUNT: u64 = 1 << 53;
/// The largest number of attempts, messages and turns.
const MAX_SMALL_COUNT: u32 = 1 << 31;
/// The largest estimate of a size in tokens, which is a sum of few that were counted.
const MAX_ESTIMATE: u64 = MAX_TOKENS << 4;

/// Checks an activation of a role in a team of this many roles.
pub(super) fn check(
    activation: &Activation,
    role: &RoleShape,
    roles: usize,
) -> Result<(), InvalidState> {
    let rules = [
        (
            has_actions_of(activation, role, roles),
            InvalidState::Actions,
        ),
        (has_calls(activation), InvalidState::Calls),
        (has_numbers_in_range(activation), InvalidState::Numbers),
        (has_readable_documents(activation), InvalidState::Documents),
        (has_file_digests(activation), InvalidState::Files),
    ];
    let broken = rules.into_iter().find(|(is_kept, _)| !is_kept);
    broken.map_or(Ok(()), |(_, error)| Err(error))
}

/// Returns whether a role has all actions that its activation refers to.
fn has_actions_of(activation: &Activation, role: &RoleShape, roles: usize) -> bool {
    let works = activation
        .done
        .iter()
        .map(|done| done.work)
        .chain(activation.reverted.iter().map(|undone| undone.work))
        .chain(activation.all_tool_calls().map(|(work, _)| work));
    let choices = -1..role.actions.len() as i32;
    works.into_iter().all(|work| exists_in(work, role, roles))
        && activation.choices.len() <= activation.done.len() + 1
        && activation
            .choices
            .iter()
            .all(|choice| choices.contains(choice))
}

/// Returns whether a role has what a call refers to, in a team of this many roles.
pub(super) fn exists_in(work: Work, role: &RoleShape, roles: usize) -> bool {
    match work {
        Work::Act { action, .. }
        | Work::ToolCall {
            tool: ToolRef::Action(action),
            ..
        } => action.index() < role.actions.len(),
        Work::ToolCall {
            tool: ToolRef::Handoff(to) | ToolRef::Role(to),
            ..
        } => to.index() < roles,
        // They have the label of the first action.
        Work::Plan | Work::Think { .. } => !role.actions.is_empty(),
        Work::Answer
        | Work::Turn { .. }
        | Work::ToolCall {
            tool: ToolRef::Host(_) | ToolRef::Server { .. },
            ..
        }
        | Work::Summary { .. } => true,
    }
}

/// Returns whether every tool call is made to a tool, or has ended without one; and whether the tools
/// of servers are in the lists of the activation.
fn has_calls(activation: &Activation) -> bool {
    let all = activation.turns.iter().flat_map(|turn| &turn.calls);
    let mut all = all.flat_map(TurnCall::with_nested);
    all.all(|(_, call)| match call.target {
        None => call.outcome.is_some(),
        Some(target) => match target.tool {
            ToolRef::Server { .. } => activation.server_tool(target.tool).is_some(),
            ToolRef::Action(_) | ToolRef::Handoff(_) | ToolRef::Role(_) | ToolRef::Host(_) => true,
        },
    })
}

/// Returns the progress of all calls.
fn all_progress(activation: &Activation) -> impl Iterator<Item = &CallProgress> {
    let done = activation.done.iter().map(|done| &done.progress);
    let reverted = activation.reverted.iter().map(|call| &call.progress);
    let turns = activation.turns.iter();
    let calls = turns.flat_map(|turn| turn.calls.iter().flat_map(TurnCall::with_nested));
    done.chain(reverted)
        .chain([&activation.current_call])
        .chain(calls.map(|(_, call)| &call.progress))
}

/// Returns whether all numbers that are counted on or summed up are such as a run can reach.
fn has_numbers_in_range(activation: &Activation) -> bool {
    activation.opened_in_step <= MAX_COUNT
        && activation.message_count <= MAX_SMALL_COUNT
        && is_memory_in_range(&activation.memory)
        && all_progress(activation).all(|progress| {
            let own = [progress.attempts, progress.failures];
            let nested = progress.nested.iter().map(|nested| nested.made_by);
            let mut numbers = own.into_iter().chain(nested);
            numbers.all(|number| number <= MAX_SMALL_COUNT)
        })
}

fn sides(change: &FileChange) -> [&PathContent; 2] {
    [&change.before, &change.after]
}

fn is_memory_in_range(memory: &ConversationMemory) -> bool {
    let planned = memory.planned.as_ref();
    let replaced = memory
        .replacements
        .iter()
        .all(|replaced: &MemoryReplacement| {
            let range = replaced.range;
            let (first, last) = replaced.messages.unwrap_or_default();
            let small = [replaced.turn, range.cut.news, range.cut.turns, first, last];
            small.into_iter().all(|number| number <= MAX_SMALL_COUNT)
                && replaced.tokens_before.max(replaced.tokens_after) <= MAX_ESTIMATE
        });
    replaced
        && memory.kept_bytes <= MAX_COUNT
        && memory.last_input_tokens <= MAX_TOKENS
        && planned.is_none_or(is_plan_in_range)
        // The work for a turn grows with them.
        && memory.kept_results.is_sorted_by(|one, next| one < next)
}

fn is_plan_in_range(planned: &PlannedReplacement) -> bool {
    let PlannedTokens {
        before,
        cleared,
        kept,
        replaced,
    } = planned.tokens;
    let range = planned.range;
    let small = [planned.turn, range.cut.news, range.cut.turns];
    small.into_iter().all(|number| number <= MAX_SMALL_COUNT)
        && [before, cleared, kept, replaced]
            .into_iter()
            .all(|tokens| tokens <= MAX_ESTIMATE)
}

/// Returns whether what humans are shown can be read, and written into a file that can be.
fn has_readable_documents(activation: &Activation) -> bool {
    let own = request_documents(&activation.phase);
    let calls = activation.unsettled_tool_calls();
    let mut of_calls = calls.flat_map(|(_, call)| {
        let nested = call.progress.nested.iter().map(|nested| &nested.arguments);
        let approval = match &call.consent {
            Consent::Needed(Approval {
                input_schema,
                default,
                expires_ms: _,
            }) => [input_schema.as_ref(), default.as_ref()],
            Consent::NotNeeded | Consent::Given => [None, None],
        };
        let documents = approval.into_iter().chain([call.edited_arguments.as_ref()]);
        let documents = documents.flatten().chain(nested);
        documents.chain(request_documents(&call.phase))
    });
    let is_readable = |document: &Json| json::check_limits(document.as_str()).is_ok();
    own.into_iter().all(is_readable) && of_calls.all(is_readable)
}

fn request_documents(phase: &Phase) -> impl Iterator<Item = &Json> {
    let request = match phase {
        Phase::WaitingForHuman(request) => Some(request),
        _ => None,
    };
    request.into_iter().flat_map(|request: &HumanRequest| {
        let proposed = request.proposed.as_ref();
        let call = proposed.map(|call| [Some(&call.arguments), call.input_schema.as_ref()]);
        let own = [request.schema.as_ref(), request.default.as_ref()];
        own.into_iter().chain(call.into_iter().flatten()).flatten()
    })
}

/// Returns whether files are named by their SHA-256, and their sizes can be summed up.
fn has_file_digests(activation: &Activation) -> bool {
    let mut changed = all_progress(activation).flat_map(|progress| &progress.files);
    let mut turns = activation.turns.iter();
    changed.all(|change| sides(change).into_iter().all(is_content))
        && turns.all(|turn| {
            let calls = turn.calls.iter().flat_map(TurnCall::with_nested);
            let returned = calls.filter_map(|(_, call)| call.returned());
            let mut returned = returned.flat_map(|returned| &returned.output.parts);
            turn.message.iter().all(|part| match part {
                AssistantPart::Media(media) => is_media(media),
                _ => true,
            }) && returned.all(|part| match part {
                Part::Image(media) | Part::File(media) => is_media(media),
                Part::Text(_) => true,
            })
        })
}

fn is_content(content: &PathContent) -> bool {
    match content {
        PathContent::File { digest, bytes } => digest.is_sha256() && *bytes <= MAX_COUNT,
        PathContent::Absent | PathContent::Directory => true,
    }
}

fn is_media(media: &Media) -> bool {
    match &media.source {
        MediaSource::Blob { digest, size } => digest.is_sha256() && *size <= MAX_COUNT,
        MediaSource::Url(_) => true,
    }
}
