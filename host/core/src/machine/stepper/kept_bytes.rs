//! How much a run keeps: a running total of its messages, the values of its scopes, and what open
//! activations have returned. It is adjusted where these change, so that nothing has to be counted in
//! a step that does not change it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::team_state::TeamState;
use crate::record::event::{AttemptEvent, Event};
use crate::record::fault::{Fault, FaultKind};
use crate::record::id::RoleId;
use crate::record::json::Json;
use crate::state::environment::Environment;
use crate::state::environment::scope::Scope;
use crate::state::kept_bytes::{activation_bytes, scope_value_bytes};

/// How much a run keeps besides its messages, which count themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptBytes {
    scopes: u64,
    /// What the open activations of a role, and those of roles that they called, have returned.
    open: BTreeMap<RoleId, u64>,
    /// The sum of `open`.
    all_open: u64,
}

impl KeptBytes {
    /// Counts all of a state.
    pub(super) fn count(env: &Environment) -> Self {
        let shared = env.shared_scopes.values();
        let scopes = shared.chain(env.roles.iter().map(|role| &role.scope));
        let value = |(key, value): (&String, &Json)| scope_value_bytes(key, value);
        let mut kept = Self {
            scopes: scopes.flat_map(Scope::iter).map(value).sum(),
            ..Self::default()
        };
        for id in (0..env.roles.len()).map(|index| RoleId(index as u16)) {
            kept.count_activations(env, id);
        }
        kept
    }

    /// Adjusts the total to a value of a scope that was replaced.
    pub(super) fn replace_value(&mut self, key: &str, old: Option<u64>, new: Option<&Json>) {
        let new = new.map_or(0, |value| scope_value_bytes(key, value));
        self.scopes = (self.scopes + new).saturating_sub(old.unwrap_or(0));
    }

    /// Adjusts the total to the open activations of a role, which have changed.
    fn count_activations(&mut self, env: &Environment, id: RoleId) {
        let activations = env.activations_of(id);
        let bytes = activations
            .map(|(_, activation)| activation_bytes(activation))
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
                | AttemptEvent::CallRevised(_)
                | AttemptEvent::RequestAnswered(_),
            ) => self.count_activations(env, call.activation().root()),
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

impl TeamState {
    /// Returns how many bytes the run keeps.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.env.messages.kept_bytes() + self.kept.scopes + self.kept.all_open
    }

    /// Fails if the run would keep more than it may with this much in addition.
    pub(super) fn check_kept_bytes(&self, added: u64) -> Result<(), Fault> {
        let most = self.team.policy.state_bytes;
        let bytes = self.kept_bytes().saturating_add(added);
        if bytes <= most {
            return Ok(());
        }
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let message = format!(
            "the messages, scopes and results of the run would take {} MiB, and `state` in `[run]` allows {} MiB",
            mebibytes(bytes),
            mebibytes(most)
        );
        Err(Fault::new(FaultKind::Memory, message))
    }
}
