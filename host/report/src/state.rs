//! Extracts from a state what a report shows of it.

use strata_core::machine::stepper::Stepper;
use strata_core::record::id::RoleId;
use strata_core::record::work::ActivationKey;
use strata_core::state::environment::scope::Scope;

use super::{Excerpt, RoleStateEntry, StateEntry};
use strata_view::{JoinView, RoleActivity, WorkState};

/// The maximum number of roles shown per state.
const MAX_ROLES: usize = 60;
/// The maximum number of messages shown per mailbox.
const MAX_MAIL: usize = 20;
/// The maximum number of keys shown per scope.
const MAX_KEYS: usize = 60;
/// The maximum number of characters shown of a message in a mailbox. The list of messages shows
/// more of it.
const MAIL_CHARS: usize = 120;
/// The maximum number of characters shown of a value.
const VALUE_CHARS: usize = 1000;

/// Returns what a report shows of a state that was reached at `time_ms`.
pub(super) fn summarize_state(stepper: &Stepper, time_ms: Option<i64>) -> StateEntry {
    let (team, env) = (stepper.team(), stepper.env());
    let roles: Vec<RoleStateEntry> = team
        .role_ids()
        .filter(|id| has_content(stepper, *id))
        .take(MAX_ROLES)
        .map(|id| summarize_role(stepper, id))
        .collect();
    let shared = env
        .shared_scopes
        .iter()
        .flat_map(|(name, scope)| scope.iter().map(move |(key, value)| (name, key, value)));
    let shared = shared.take(MAX_KEYS);
    let shared = shared.map(|(name, key, value)| {
        (
            name.clone(),
            key.clone(),
            Excerpt::from_text(value.as_str(), VALUE_CHARS),
        )
    });
    let shared = shared.collect();
    let mut joins = JoinView::all(stepper);
    joins.retain(|join| !join.is_empty());
    StateEntry {
        checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
        lineage: env.lineage.name.clone(),
        step: env.step,
        status: env.status.name(),
        time_ms,
        spent: env.spent,
        messages: env.messages.len(),
        hidden_roles: env.roles.len() - roles.len(),
        hidden_roles_are_empty: roles.len() < MAX_ROLES,
        roles,
        shared_scopes: shared,
        joins,
    }
}

/// Returns whether a role has anything to show.
fn has_content(stepper: &Stepper, id: RoleId) -> bool {
    let role = stepper.env().role(id);
    role.activation.is_some() || !role.mailbox.is_empty() || !role.scope.is_empty()
}

fn summarize_role(stepper: &Stepper, id: RoleId) -> RoleStateEntry {
    let (env, role) = (stepper.env(), stepper.team().role(id));
    let mail: Vec<_> = env.unfinished_mail(id).collect();
    let entries = mail.iter().take(MAX_MAIL).map(|message| {
        let message = env.message(*message);
        (
            message.sent_from.clone(),
            message.cause_by.clone(),
            Excerpt::from_text(&message.content, MAIL_CHARS),
        )
    });
    RoleStateEntry {
        name: role.name.clone(),
        activity: describe_activity(RoleActivity::from_role(stepper, id, false).as_ref()),
        mail: entries.collect(),
        hidden_mail: mail.len().saturating_sub(MAX_MAIL),
        memory: env.memory(ActivationKey::of_mail(id)).count(),
        scope: scope_values(&env.role(id).scope),
    }
}

fn scope_values(scope: &Scope) -> Vec<(String, Excerpt)> {
    let entries = scope.iter().take(MAX_KEYS);
    entries
        .map(|(key, value)| (key.clone(), Excerpt::from_text(value.as_str(), VALUE_CHARS)))
        .collect()
}

/// Describes what a role is doing.
fn describe_activity(activity: Option<&RoleActivity>) -> String {
    let (action, state, attempts) = match activity {
        None => return "idle".into(),
        Some(RoleActivity::Finished) => return "finished, waits for the step to commit".into(),
        Some(RoleActivity::CallingTools { turn, open }) => {
            return format!("tool calls of turn {turn} are open: {open}");
        }
        Some(RoleActivity::Working {
            action,
            state,
            attempts,
            ..
        }) => (action, state, attempts),
    };
    let how = match state {
        WorkState::Next => "is next",
        WorkState::Running | WorkState::CutOff => "is running",
        WorkState::BackingOff => "waits for another try",
        WorkState::Failed | WorkState::Interrupted => "failed",
        WorkState::Finished => "is finished",
        WorkState::WaitingForPerson => "waits for a person",
    };
    match attempts {
        0 => format!("{action} {how}"),
        attempts => format!("{action} {how}, attempt {attempts}"),
    }
}
