//! The open activations of an environment and their calls: those in which roles handle mail, and
//! those that tool calls of other activations led to. The latter are kept with the role that handles
//! mail, and end with its activation.

use alloc::vec::Vec;

use super::{Environment, RoleState};
use crate::record::fault::Fault;
use crate::record::file::FileChange;
use crate::record::host_call::ExternalWrite;
use crate::record::human_request::HumanRequest;
use crate::record::id::RoleId;
use crate::record::scope_write::Write;
use crate::record::turn::ToolRef;
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, OpenCall, OpenCallMut, Phase};
use crate::state::messages::MessageRef;
use crate::team::Team;

impl RoleState {
    /// Returns the activation in which the role handles mail, and those of other roles that it led
    /// to. `id` is the role.
    pub(super) fn activations(
        &self,
        id: RoleId,
    ) -> impl Iterator<Item = (ActivationKey, &Activation)> {
        let of_mail = self.activation.iter();
        of_mail
            .map(move |activation| (ActivationKey::of_mail(id), activation))
            .chain(self.called.iter().map(|(key, called)| (*key, called)))
    }

    /// Returns these activations, to be changed.
    pub fn activations_mut(
        &mut self,
        id: RoleId,
    ) -> impl Iterator<Item = (ActivationKey, &mut Activation)> {
        let of_mail = self.activation.iter_mut();
        of_mail
            .map(move |activation| (ActivationKey::of_mail(id), activation))
            .chain(self.called.iter_mut().map(|(key, called)| (*key, called)))
    }

    /// Returns one of these activations.
    pub(super) fn activation_at(&self, key: ActivationKey) -> Option<&Activation> {
        if key.via.is_empty() {
            self.activation.as_ref()
        } else {
            self.called.get(&key)
        }
    }
}

impl Environment {
    /// Returns the open activations in which roles handle their mail.
    pub fn mail_activations(&self) -> impl Iterator<Item = (RoleId, &Activation)> {
        let all = self.roles.iter().enumerate();
        all.filter_map(|(i, role)| role.activation.as_ref().map(|a| (RoleId(i as u16), a)))
    }

    /// Returns the open activations. Those that the tool calls of one led to come after it.
    pub fn activations(&self) -> impl Iterator<Item = (ActivationKey, &Activation)> {
        (0..self.roles.len()).flat_map(|index| self.activations_of(RoleId(index as u16)))
    }

    /// Returns the open activation in which a role handles mail, and those of other roles that it
    /// led to.
    pub fn activations_of(
        &self,
        root: RoleId,
    ) -> impl Iterator<Item = (ActivationKey, &Activation)> {
        self.role(root).activations(root)
    }

    /// Returns an activation if it is open.
    pub fn activation(&self, key: ActivationKey) -> Option<&Activation> {
        self.roles.get(key.root().index())?.activation_at(key)
    }

    /// Returns an activation if it is open, to be changed.
    pub(crate) fn activation_mut(&mut self, key: ActivationKey) -> Option<&mut Activation> {
        let root = self.roles.get_mut(key.root().index())?;
        if key.via.is_empty() {
            return root.activation.as_mut();
        }
        root.called.get_mut(&key)
    }

    /// Calls `visit` with every open activation, which may be changed.
    pub(crate) fn for_each_activation_mut(
        &mut self,
        visit: &mut dyn FnMut(ActivationKey, &mut Activation),
    ) {
        for (role, index) in self.roles.iter_mut().zip(0..) {
            for (key, activation) in role.activations_mut(RoleId(index)) {
                visit(key, activation);
            }
        }
    }

    /// Returns the calls that open activations have not finished.
    pub fn open_calls(&self, team: &Team) -> impl Iterator<Item = (CallKey, OpenCall<'_>)> {
        self.activations().flat_map(move |(key, activation)| {
            activation
                .open_calls(team.role(key.role))
                .map(move |(work, call)| (CallKey::in_activation(key, work), call))
        })
    }

    /// Returns a call if it is open.
    pub fn open_call(&self, team: &Team, call: CallKey) -> Option<OpenCall<'_>> {
        let activation = self.activation(call.activation())?;
        activation.open_call(team.role(call.role), call.work)
    }

    /// Returns a call if it is open, to be changed.
    pub(crate) fn open_call_mut(&mut self, team: &Team, call: CallKey) -> Option<OpenCallMut<'_>> {
        let activation = self.activation_mut(call.activation())?;
        activation.open_call_mut(team.role(call.role), call.work)
    }

    /// Returns the calls that failed. A call that code made is not one of them: its fault is that of
    /// the call that it was made in.
    pub fn failed_calls(&self, team: &Team) -> impl Iterator<Item = (CallKey, OpenCall<'_>)> {
        self.open_calls(team).filter(|(key, call)| {
            key.work.nested().is_none() && matches!(call.phase, Phase::Failed(_))
        })
    }

    /// Returns the open faults: those of calls that failed, and of calls that can be made again but
    /// were not yet.
    pub fn open_faults(
        &self,
        team: &Team,
    ) -> impl Iterator<Item = (CallKey, OpenCall<'_>, &Fault)> {
        self.open_calls(team)
            .filter(|(key, _)| key.work.nested().is_none())
            .filter_map(|(key, call)| Some((key, call, call.phase.fault()?)))
    }

    /// Returns the open requests and the roles that wait for them.
    pub fn open_requests(&self) -> impl Iterator<Item = (RoleId, &HumanRequest)> {
        self.activations().flat_map(|(key, activation)| {
            let requests = activation.open_requests();
            requests.map(move |request| (key.role, request))
        })
    }

    /// Returns the open requests of the activation in which a role handles mail, and of those that
    /// it led to.
    pub fn open_requests_of(&self, root: RoleId) -> impl Iterator<Item = &HumanRequest> {
        self.activations_of(root)
            .flat_map(|(_, activation)| activation.open_requests())
    }

    /// Returns the host calls in doubt: the call that made each, the index among its external
    /// writes, and the write.
    pub fn writes_in_doubt(
        &self,
        team: &Team,
    ) -> impl Iterator<Item = (CallKey, usize, &ExternalWrite)> {
        self.open_calls(team).flat_map(|(key, call)| {
            call.writes_in_doubt()
                .map(move |(index, write)| (key, index, write))
        })
    }

    /// Returns the changes to files that the next call of an activation sees although they are not
    /// committed, oldest first.
    pub fn visible_changes(&self, key: ActivationKey) -> impl Iterator<Item = &FileChange> {
        let before = self
            .visible_predecessors(key)
            .flat_map(Activation::file_changes);
        let own = self.activation(key).into_iter().flat_map(|activation| {
            activation
                .file_changes()
                .filter(|(work, _)| !activation.is_of_incomplete_turn(*work))
        });
        before.chain(own).map(|(_, change)| change)
    }

    /// Returns the writes that the next call of an activation sees, in order.
    pub(super) fn visible_writes(&self, key: ActivationKey) -> impl Iterator<Item = &Write> {
        let own = self.activation(key).into_iter();
        self.visible_predecessors(key)
            .flat_map(Activation::writes)
            .chain(own.flat_map(Activation::visible_writes))
    }

    /// Returns the messages that an activation remembers and that are not in the memory of its role
    /// yet, oldest first.
    pub(crate) fn uncommitted_memory(&self, key: ActivationKey) -> Vec<MessageRef> {
        let mut found = Vec::new();
        for activation in self.visible_predecessors(key) {
            found.extend(activation.remembered());
        }
        found.extend(
            self.activation(key)
                .into_iter()
                .flat_map(Activation::outputs),
        );
        found
    }

    /// Returns the activations of the same role whose results an activation sees although they are
    /// not committed: those that the same caller called in earlier turns. The calls of a turn see
    /// the state at the start of the turn.
    pub(super) fn visible_predecessors(
        &self,
        key: ActivationKey,
    ) -> impl Iterator<Item = &Activation> {
        let caller = key.caller();
        let turns = caller
            .and_then(|caller| self.activation(caller))
            .into_iter();
        let before = key.via.last().map_or(0, |call| call.turn as usize);
        let turns = turns.flat_map(move |caller| caller.complete_turns().take(before));
        turns.zip(0..).flat_map(move |(turn, number)| {
            turn.calls.iter().zip(0..).flat_map(move |(call, index)| {
                let all = call.with_nested().into_iter();
                all.filter_map(move |(nested, call)| {
                    let same = call.called_role() == Some(key.role);
                    let caller = caller.filter(|_| same)?;
                    self.activation(caller.called(key.role, number, index, nested)?)
                })
            })
        })
    }
}

/// Returns the key of the activation that a tool call of an activation leads to; `None` if it does
/// not call a role.
pub fn called_key(caller: ActivationKey, work: Work) -> Option<ActivationKey> {
    match work {
        Work::ToolCall {
            turn,
            call,
            nested,
            tool: ToolRef::Role(role),
        } => caller.called(role, turn, call, nested),
        _ => None,
    }
}
