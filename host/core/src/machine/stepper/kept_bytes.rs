//! How much a run keeps: a running total of its messages and of the references to them, the values of
//! its scopes, and what open activations have returned. It is adjusted where these change, so that nothing has to be counted in
//! a step that does not change it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::record::event::{AttemptEvent, Event, RoutingResult};
use crate::record::id::RoleId;
use crate::record::json::Json;
use crate::record::work::Work;
use crate::state::activation::Activation;
use crate::state::environment::scope::Scope;
use crate::state::environment::{Environment, OutboxMessage};
use crate::state::kept_bytes::{
    addressed_bytes, references_bytes, scope_value_bytes, text, writes_bytes,
};

/// How much a run keeps besides its messages, which count themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptBytes {
    scopes: u64,
    /// The references to messages in mailboxes, memories and joins, and to those that are on their way
    /// out or that nobody received.
    references: u64,
    /// What the open activations of a role, and those of roles that they called, have returned.
    open: BTreeMap<RoleId, u64>,
    /// The sum of `open`.
    all_open: u64,
}

impl KeptBytes {
    /// Returns how many bytes of memory it takes.
    pub(super) fn total(&self) -> u64 {
        self.scopes + self.references + self.all_open
    }

    /// Counts all of a state.
    pub(super) fn count(env: &Environment) -> Self {
        let shared = env.shared_scopes.values();
        let scopes = shared.chain(env.roles.iter().map(|role| &role.scope));
        let value = |(key, value): (&String, &Json)| scope_value_bytes(key, value);
        let mut bytes = Self {
            scopes: scopes.flat_map(Scope::iter).map(value).sum(),
            references: all_references(env),
            ..Self::default()
        };
        for id in (0..env.roles.len()).map(|index| RoleId(index as u16)) {
            bytes.count_activations(env, id);
        }
        bytes
    }

    /// Adjusts the total to a value of a scope that was replaced.
    pub(super) fn replace_value(&mut self, key: &str, old: Option<u64>, new: Option<&Json>) {
        let new = new.map_or(0, |value| scope_value_bytes(key, value));
        self.scopes = (self.scopes + new).saturating_sub(old.unwrap_or(0));
    }

    /// Adjusts the total to references that were added.
    pub(super) fn add_references(&mut self, count: usize) {
        self.references += references_bytes(count);
    }

    /// Adjusts the total to references that were removed.
    pub(super) fn remove_references(&mut self, count: usize) {
        self.references -= references_bytes(count);
    }

    /// Adjusts the total to the delivery of a message.
    pub(super) fn add_delivery(&mut self, routed: &RoutingResult) {
        self.add_references(routed.to.len());
        for name in &routed.undeliverable {
            self.references += addressed_bytes([name]);
        }
        if !routed.external.is_empty() {
            self.references += addressed_bytes(&routed.external);
        }
    }

    /// Adjusts the total to a message that has left.
    pub(super) fn remove_outbound(&mut self, outbound: &OutboxMessage) {
        self.references -= addressed_bytes(&outbound.to);
    }

    /// Adjusts the total to the open activations of a role, which have changed.
    fn count_activations(&mut self, env: &Environment, id: RoleId) {
        let activations = env.activations_of(id);
        let bytes = activations
            .map(|(key, activation)| {
                // The news of a role that another one called are the message of that one call.
                let news = match key.caller() {
                    None => references_bytes(activation.news.len()),
                    Some(_) => 0,
                };
                news + activation_bytes(activation)
            })
            .sum();
        let old = match bytes {
            0 => self.open.remove(&id),
            bytes => self.open.insert(id, bytes),
        };
        self.all_open = (self.all_open + bytes) - old.unwrap_or(0);
    }

    /// Adjusts the total to an event that was applied.
    pub(super) fn apply_event(&mut self, env: &Environment, event: &Event) {
        match event {
            Event::Attempt(
                call,
                AttemptEvent::CallFinished(_)
                | AttemptEvent::CallFailed(_)
                | AttemptEvent::NestedCallMade(_)
                | AttemptEvent::CallRevised(_)
                | AttemptEvent::RequestAnswered(_),
            ) => self.count_activations(env, call.activation().root()),
            // Nested calls of earlier attempts may have been forgotten.
            Event::Attempt(call, AttemptEvent::CallStarted(started))
                if started.attempt > 1 && matches!(call.work, Work::ToolCall { .. }) =>
            {
                self.count_activations(env, call.activation().root());
            }
            Event::StepStarted(started) => {
                for id in &started.roles {
                    self.count_activations(env, *id);
                }
            }
            Event::StepCommitted(_) => {
                let open: Vec<RoleId> = self.open.keys().copied().collect();
                for id in open {
                    self.count_activations(env, id);
                }
            }
            Event::StepConflicted(conflict) => {
                for writer in &conflict.writers {
                    self.count_activations(env, writer.call.activation().root());
                }
            }
            // These change all of a state, and are rare.
            Event::RunStarted(_)
            | Event::RunResumed(_)
            | Event::ComponentChanged(_)
            | Event::Forked(_) => *self = Self::count(env),
            _ => {}
        }
    }
}

/// Returns the size of all references outside of open activations.
fn all_references(env: &Environment) -> u64 {
    let roles = env.roles.iter();
    let of_roles = roles.map(|role| role.mailbox.len() + role.memory.len());
    let queues = env.joins.iter().flat_map(|join| &join.queues);
    let in_joins = queues.map(|queue| queue.len());
    let dead = env.dead_letters.iter();
    let outbound = env.outbox.iter();
    references_bytes(of_roles.chain(in_joins).sum())
        + dead.map(|dead| addressed_bytes([&dead.to])).sum::<u64>()
        + outbound
            .map(|outbound| addressed_bytes(&outbound.to))
            .sum::<u64>()
}

/// Returns the size of what an activation keeps until it is committed, without messages.
fn activation_bytes(activation: &Activation) -> u64 {
    let tasks = activation.tasks.iter().map(|task| text(&task.text));
    let done = activation
        .done
        .iter()
        .map(|done| writes_bytes(&done.writes));
    tasks.sum::<u64>()
        + done.sum::<u64>()
        + activation.turns.kept_bytes()
        + activation.memory.kept_bytes
}
