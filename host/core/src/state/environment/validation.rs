//! Validation of a state that was read from outside. All other code assumes that whatever a state
//! refers to exists, so this is checked once, where a state enters.

mod open_work;

use super::activations::called_key;
use super::{Environment, RoleState};
use crate::record::id::{RoleId, Slot, SlotKind};
use crate::record::shape::Shape;
use crate::record::work::ActivationKey;
use crate::state::activation::{Activation, Phase};

use open_work::exists_in;

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
    /// It has a tool call that is made to nothing, or to a tool of a server that it does not list.
    #[error("it has calls of tools that it does not have")]
    Calls,
    /// It has numbers that cannot be counted on.
    #[error("it has numbers that no run reaches")]
    Numbers,
    /// It has documents that are shown to humans and cannot be read.
    #[error("it has documents that are too large or nested too deep")]
    Documents,
    /// It names the content of a file by something else than a digest.
    #[error("it names files by something else than a SHA-256")]
    Files,
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
    for (role, index) in env.roles.iter().zip(0..) {
        role.check_activations(RoleId(index), shape)?;
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
}

impl RoleState {
    /// Checks the activation in which the role handles mail, and those that it led to. `id` is the role,
    /// in a team of this shape.
    pub fn check_activations(&self, id: RoleId, shape: &Shape) -> Result<(), InvalidState> {
        for (key, activation) in self.activations(id) {
            let role = shape.roles.get(key.role.index());
            let role = role.ok_or(InvalidState::Actions)?;
            open_work::check(activation, role, shape.roles.len())?;
        }
        if self.has_valid_role_calls(id) {
            Ok(())
        } else {
            Err(InvalidState::RoleCalls)
        }
    }
    /// Returns whether the activations of called roles are those that calls of roles led to, no role
    /// is called by itself, and no call waits for an activation that is not there. `id` is the role.
    fn has_valid_role_calls(&self, id: RoleId) -> bool {
        let is_called = |key: &ActivationKey, called: &Activation| {
            let caller = key.caller().filter(|caller| !caller.involves(key.role));
            let tool_call = caller.zip(key.via.last()).and_then(|(caller, call)| {
                let turn = self.activation_at(caller)?.turns.get(call.turn as usize)?;
                turn.calls.get(call.call as usize)?.nested(call.nested)
            });
            tool_call.is_some_and(|tool_call| {
                tool_call.called_role() == Some(key.role)
                    && match tool_call.phase {
                        Phase::CallingRole => tool_call.outcome.is_none(),
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
