//! The start of another lineage: at a checkpoint, with edited values in its scopes if the operator
//! wants that.

use alloc::string::String;
use alloc::vec::Vec;

use super::team_state::{ApplyResult, TeamState, ensure};
use crate::record::edit::{Edit, EditedScope};
use crate::record::event::{Event, Forked};
use crate::record::spending::Account;
use crate::state::environment::Environment;

/// Returns the event that starts another lineage with this state, or `None` if the state is not
/// that of a checkpoint. `account` is that of all lineages together.
pub(super) fn forked_event(
    env: &Environment,
    lineage: String,
    edits: Vec<Edit>,
    account: Account,
) -> Option<Event> {
    let from = env.checkpoint.clone()?;
    let checkpoint = env
        .lineage
        .fork(&lineage, &from)
        .checkpoint_id(env.checkpoint_count);
    let account = Account {
        spent: account.spent.max(env.spent),
        ..account
    };
    Some(Event::Forked(Forked {
        lineage,
        from,
        checkpoint,
        step: env.step,
        edits,
        account,
        questions: env.questions.clone(),
    }))
}

pub(super) fn apply_forked(state: &mut TeamState, forked: &Forked) -> ApplyResult {
    let Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        account,
        questions,
    } = forked;
    state.ensure_started()?;
    ensure(
        state.env.checkpoint.as_ref() == Some(from) && *step == state.env.step,
        "a fork from another place",
    )?;
    ensure(
        !lineage.is_empty() && !state.env.lineage.is_self_or_ancestor(lineage),
        "a fork that is no other lineage",
    )?;
    let new_lineage = state.env.lineage.fork(lineage, from);
    ensure(
        *checkpoint == new_lineage.checkpoint_id(state.env.checkpoint_count),
        "a fork that does not count on",
    )?;
    ensure(
        account.spent >= state.env.spent,
        "a fork that gives money back",
    )?;
    account
        .ledger
        .keys()
        .try_for_each(|slot| state.ensure_slot_exists(*slot))?;
    ensure(
        edits.iter().all(|edit| state.team.has_scope(&edit.scope)),
        "an edit of a scope that does not exist",
    )?;
    for Edit { scope, key, value } in edits {
        let scope = match scope {
            EditedScope::Shared(name) => state.env.shared_scopes.entry(name.clone()).or_default(),
            EditedScope::Role(id) => &mut state.env.roles[id.index()].scope,
        };
        scope.insert(key.clone(), value.clone());
    }
    state.env.adopt_account(account);
    state.env.questions.merge(questions);
    state.env.lineage = new_lineage;
    state.set_checkpoint(checkpoint.clone(), Some(from.clone()));
    Ok(())
}
