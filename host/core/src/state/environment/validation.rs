//! Validation of a state that was read from outside. All other code assumes that whatever a state
//! refers to exists, so this is checked once, where a state enters.

use super::{Environment, MessageRef};
use crate::record::id::{RoleId, Slot, SlotKind};
use crate::record::shape::RoleShape;
use crate::record::turn::ToolRef;
use crate::record::work::Work;
use crate::state::activation::{Activation, ToolOutcome};

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
    /// It refers to an action that its shape does not have.
    #[error("it speaks of actions that the team does not have")]
    Actions,
}

impl Environment {
    /// Returns the state if it is consistent.
    pub fn validate(mut self) -> Result<Self, InvalidState> {
        let shape = &self.shape;
        if self.roles.len() != shape.roles.len() || self.rules.roles.len() != shape.roles.len() {
            return Err(InvalidState::Roles);
        }
        let sources = shape.joins.iter().map(|join| join.from.len());
        if !sources.eq(self.joins.iter().map(|join| join.queues.len())) {
            return Err(InvalidState::Joins);
        }
        if !self.has_all_actions() {
            return Err(InvalidState::Actions);
        }
        let (messages, mut is_there) = (self.messages.len(), true);
        self.for_each_message_ref(&mut |id| is_there &= (id.0 as usize) < messages);
        if is_there {
            Ok(self)
        } else {
            Err(InvalidState::Messages)
        }
    }

    /// Calls `visit` with every reference to a message. The references may be changed.
    pub fn for_each_message_ref(&mut self, visit: &mut dyn FnMut(&mut MessageRef)) {
        for message in &mut self.history {
            visit(message);
        }
        for dead_letter in &mut self.dead_letters {
            visit(&mut dead_letter.message);
        }
        for message in self
            .joins
            .iter_mut()
            .flat_map(|join| &mut join.queues)
            .flatten()
        {
            visit(message);
        }
        for outbound in &mut self.outbox {
            visit(&mut outbound.message);
        }
        for role in &mut self.roles {
            for mail in &mut role.mailbox {
                visit(&mut mail.message);
            }
            for message in role.memory.iter_mut().chain(&mut role.latest) {
                visit(message);
            }
            if let Some(activation) = &mut role.activation {
                for message in &mut activation.news {
                    visit(message);
                }
                let turns = activation.turns.iter_mut();
                for call in turns.flat_map(|turn| &mut turn.calls) {
                    if let Some(ToolOutcome::Returned(returned)) = &mut call.outcome {
                        for outgoing in &mut returned.emissions {
                            visit(&mut outgoing.message);
                        }
                    }
                }
                for done in &mut activation.done {
                    visit(&mut done.output.message);
                    for outgoing in &mut done.emissions {
                        visit(&mut outgoing.message);
                    }
                }
            }
        }
    }

    /// Returns whether every action that the state refers to exists in the role it is attributed
    /// to.
    fn has_all_actions(&self) -> bool {
        let roles = self.shape.roles.len();
        let role = |id: RoleId| self.shape.roles.get(id.index());
        let has = |slot: &Slot| match slot.kind {
            SlotKind::Think | SlotKind::Turn => role(slot.role).is_some(),
            SlotKind::Action(action) => {
                role(slot.role).is_some_and(|role| action.index() < role.actions.len())
            }
        };
        let files = self.files.committed.values();
        self.components.keys().chain(self.ledger.keys()).all(has)
            && files
                .into_iter()
                .all(|file| role(file.role).is_some_and(|role| exists_in(file.work, role, roles)))
            && self.activations().all(|(id, activation)| {
                role(id).is_some_and(|role| has_actions_of(activation, role, roles))
            })
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
        .chain(activation.tool_calls().map(|(work, _)| work));
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
            tool: ToolRef::Handoff(to),
            ..
        } => to.index() < roles,
        Work::Plan | Work::Think { .. } | Work::Answer | Work::Turn { .. } => true,
    }
}
