//! Validation of a state that was read from outside. All other code assumes that whatever a state
//! refers to exists, so this is checked once, where a state enters.

use super::activations::called_key;
use super::{Environment, RoleState};
use crate::record::id::{RoleId, Slot, SlotKind};
use crate::record::shape::RoleShape;
use crate::record::turn::ToolRef;
use crate::record::work::{ActivationKey, Work};
use crate::state::activation::{Activation, Phase};

/// Why a state is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidState {
    /// Its roles do not match its shape.
    #[error("it has other roles than the team that it is of")]
    Roles,
    /// Its joins do not match its shape.
    #[error("it has other joins than the team that it is of")]
    Joins,
    /// It refers to a message that does not exist.
    #[error("it speaks of messages that it does not have")]
    Messages,
    /// It has an activation that no call of a role can have led to.
    #[error("it has work of a role that no other role called")]
    RoleCalls,
    /// It refers to an action that its shape does not have.
    #[error("it speaks of actions that the team does not have")]
    Actions,
}

/// Returns the state if it is consistent.
pub fn validate(mut env: Environment) -> Result<Environment, InvalidState> {
    let shape = &env.shape;
    if env.roles.len() != shape.roles.len() || env.rules.roles.len() != shape.roles.len() {
        return Err(InvalidState::Roles);
    }
    let sources = shape.joins.iter().map(|join| join.from.len());
    if !sources.eq(env.joins.iter().map(|join| join.queues.len())) {
        return Err(InvalidState::Joins);
    }
    if !has_all_actions(&env) {
        return Err(InvalidState::Actions);
    }
    let mut roles = env.roles.iter().zip(0..);
    if !roles.all(|(role, index)| role.has_valid_role_calls(RoleId(index))) {
        return Err(InvalidState::RoleCalls);
    }
    let (messages, mut is_there) = (env.messages.len(), true);
    env.for_each_message_ref(&mut |id| is_there &= (id.0 as usize) < messages);
    if is_there {
        Ok(env)
    } else {
        Err(InvalidState::Messages)
    }
}

/// Returns whether every action that the state refers to exists in the role it is attributed
/// to.
fn has_all_actions(env: &Environment) -> bool {
    let roles = env.shape.roles.len();
    let role = |id: RoleId| env.shape.roles.get(id.index());
    let has = |slot: &Slot| match slot.kind {
        SlotKind::Think
        | SlotKind::Turn
        | SlotKind::Guard(_)
        | SlotKind::SkillScript(_)
        | SlotKind::Summary => role(slot.role).is_some(),
        SlotKind::Action(action) => {
            role(slot.role).is_some_and(|role| action.index() < role.actions.len())
        }
    };
    let files = env.files.committed.values();
    env.components.keys().chain(env.ledger.keys()).all(has)
        && files
            .into_iter()
            .all(|file| role(file.role).is_some_and(|role| exists_in(file.work, role, roles)))
        && env.activations().all(|(key, activation)| {
            role(key.role).is_some_and(|role| has_actions_of(activation, role, roles))
        })
}

impl RoleState {
    /// Returns whether the activations of called roles are those that calls of roles led to, no role
    /// is called by itself, and no call waits for an activation that is not there. `id` is the role.
    pub fn has_valid_role_calls(&self, id: RoleId) -> bool {
        let is_called = |key: &ActivationKey, called: &Activation| {
            let caller = key.caller().filter(|caller| !caller.involves(key.role));
            let made = caller.zip(key.via.last()).and_then(|(caller, call)| {
                let turn = self.activation_at(caller)?.turns.get(call.turn as usize)?;
                turn.calls.get(call.call as usize)?.nested(call.nested)
            });
            made.is_some_and(|made| {
                made.called_role() == Some(key.role)
                    && match made.phase {
                        Phase::CallingRole => made.outcome.is_none(),
                        // It has ended, or a guard sees its result.
                        _ => called.phase == Phase::Complete,
                    }
            })
        };
        let waits_in_vain = |(key, activation): (ActivationKey, &Activation)| {
            let mut waiting = activation
                .all_tool_calls()
                .filter(|(_, call)| call.phase == Phase::CallingRole);
            waiting.any(|(work, _)| {
                called_key(key, work).is_none_or(|called| self.activation_at(called).is_none())
            })
        };
        let mut called = self.called.iter();
        called.all(|(key, called)| key.root() == id && is_called(key, called))
            && !self.activations(id).any(waits_in_vain)
    }
}

/// Returns whether a role has all actions that its activation refers to, in a team of this many
/// roles.
fn has_actions_of(activation: &Activation, role: &RoleShape, roles: usize) -> bool {
    let works = activation
        .done
        .iter()
        .map(|done| done.work)
        .chain(activation.reverted.iter().map(|undone| undone.work))
        .chain(activation.all_tool_calls().map(|(work, _)| work));
    let choices = -1..role.actions.len() as i32;
    works.into_iter().all(|work| exists_in(work, role, roles))
        && activation
            .choices
            .iter()
            .all(|choice| choices.contains(choice))
}

fn exists_in(work: Work, role: &RoleShape, roles: usize) -> bool {
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
        Work::Plan
        | Work::Think { .. }
        | Work::Answer
        | Work::Turn { .. }
        | Work::ToolCall {
            tool: ToolRef::Host(_) | ToolRef::Server { .. },
            ..
        }
        | Work::Summary { .. } => true,
    }
}
