//! Whether a state that was read can have come about. Everything else takes for granted that what a state names is there:
//! where one enters from outside, this is asked once.

use super::{Environment, MessageRef};
use crate::activation::Activation;
use crate::event::Work;
use crate::id::{Part, RoleId, Slot};
use crate::shape::RoleShape;

/// Why a state is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// What it says of its roles does not go with its shape.
    #[error("it has other roles than the team that it is of")]
    Roles,
    /// The same of joins.
    #[error("it has other joins than the team that it is of")]
    Joins,
    /// A reference leads nowhere.
    #[error("it speaks of messages that it does not have")]
    Messages,
    /// It speaks of an action that its shape does not have.
    #[error("it speaks of actions that the team does not have")]
    Actions,
}

impl Environment {
    /// The state, if all of it goes together.
    pub fn checked(mut self) -> Result<Self, Unsound> {
        let shape = &self.shape;
        if self.roles.len() != shape.roles.len() || self.rules.roles.len() != shape.roles.len() {
            return Err(Unsound::Roles);
        }
        let sources = shape.joins.iter().map(|join| join.from.len());
        if !sources.eq(self.joins.iter().map(|join| join.queues.len())) {
            return Err(Unsound::Joins);
        }
        if !self.names_actions() {
            return Err(Unsound::Actions);
        }
        let (messages, mut is_there) = (self.messages.len(), true);
        self.each_reference(&mut |id| is_there &= (id.0 as usize) < messages);
        if is_there {
            Ok(self)
        } else {
            Err(Unsound::Messages)
        }
    }

    /// Shows every reference to a message, which may be changed.
    pub fn each_reference(&mut self, visit: &mut dyn FnMut(&mut MessageRef)) {
        self.history.iter_mut().for_each(&mut *visit);
        self.dead_letters
            .iter_mut()
            .for_each(|dead| visit(&mut dead.message));
        self.joins
            .iter_mut()
            .flat_map(|join| &mut join.queues)
            .flatten()
            .for_each(&mut *visit);
        self.outbox
            .iter_mut()
            .for_each(|outbound| visit(&mut outbound.message));
        for role in &mut self.roles {
            role.mailbox
                .iter_mut()
                .for_each(|mail| visit(&mut mail.message));
            role.memory
                .iter_mut()
                .chain(&mut role.latest)
                .for_each(&mut *visit);
            if let Some(activation) = &mut role.activation {
                activation.news.iter_mut().for_each(&mut *visit);
                for done in &mut activation.done {
                    visit(&mut done.output.message);
                    done.emissions
                        .iter_mut()
                        .for_each(|outgoing| visit(&mut outgoing.message));
                }
            }
        }
    }

    /// Whether every action that it speaks of is one of the role whose it is said to be.
    fn names_actions(&self) -> bool {
        let role = |id: RoleId| self.shape.roles.get(id.index());
        let has = |slot: &Slot| match slot.part {
            Part::Think => role(slot.role).is_some(),
            Part::Action(action) => {
                role(slot.role).is_some_and(|role| action.index() < role.actions.len())
            }
        };
        let kept = self.files.kept.values();
        self.components.keys().chain(self.ledger.keys()).all(has)
            && kept
                .into_iter()
                .all(|kept| role(kept.role).is_some_and(|role| is_of(kept.work, role)))
            && self
                .activations()
                .all(|(id, activation)| role(id).is_some_and(|role| goes_with(activation, role)))
    }
}

/// Whether a role has what its activation speaks of.
fn goes_with(activation: &Activation, role: &RoleShape) -> bool {
    let works = activation
        .done
        .iter()
        .map(|done| done.work)
        .chain(activation.undone.iter().map(|undone| undone.work));
    let choices = -1..role.actions.len() as i32;
    works.into_iter().all(|work| is_of(work, role))
        && activation
            .choices
            .iter()
            .all(|choice| choices.contains(choice))
}

fn is_of(work: Work, role: &RoleShape) -> bool {
    match work {
        Work::Act { action, .. } => action.index() < role.actions.len(),
        Work::Plan | Work::Think { .. } | Work::Answer => true,
    }
}
