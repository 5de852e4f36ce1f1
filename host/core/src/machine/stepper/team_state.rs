//! A team with the environment of its run: what all events are applied to, and the checks that many
//! of them share. `apply` makes all of them; whoever examines an event before it is applied, e.g. to
//! find out which attempt starts, calls `ensure_names_exist` first, because a record may come from
//! anywhere.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::component_slot;
use super::kept_bytes::KeptBytes;
use crate::record::event::{Event, RoutingResult, Status};
use crate::record::fault::{Fault, FaultKind};
use crate::record::id::{CheckpointId, Digest, JoinId, RoleId, Slot, SlotKind};
use crate::record::turn::ToolRef;
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, OpenCallMut, Phase};
use crate::state::environment::Environment;
use crate::state::environment::routing::AddressBook;
use crate::team::{LoweredLimits, Team};

/// An event that cannot have happened in this state. The journal is damaged, or there is a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event does not fit the state it is applied to: {0}")]
pub struct IllegalEvent(pub(super) String);

pub(super) type ApplyResult = Result<(), IllegalEvent>;

pub(super) fn ensure(holds: bool, why: &str) -> ApplyResult {
    if holds {
        Ok(())
    } else {
        Err(IllegalEvent(why.into()))
    }
}

/// A team with the environment of its run.
#[derive(Clone, Debug)]
pub(super) struct TeamState {
    /// The team under the rules of the environment.
    pub(super) team: Arc<Team>,
    pub(super) env: Environment,
    /// The indexes of the team.
    pub(super) address_book: Arc<AddressBook>,
    /// How much the run keeps besides its messages.
    pub(super) kept: KeptBytes,
}

impl TeamState {
    /// Returns how many bytes the run keeps.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.env.messages.kept_bytes() + self.kept.total()
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
            "the messages, scopes and results of the run would take {} MiB, and `state` in `[run]` allows {} MiB{}",
            mebibytes(bytes),
            mebibytes(most),
            LoweredLimits::remark(self.team.policy.lowered.state_bytes.as_ref())
        );
        Err(Fault::new(FaultKind::Memory, message))
    }

    /// Returns the component that makes a call, if one does.
    pub(super) fn component(&self, id: RoleId, work: Work) -> Option<&Digest> {
        let slot = component_slot(self.team.role(id), id, work)?;
        self.env.components.get(&slot)
    }

    /// Fails if the event refers to a role, an action or a slot that the team does not have.
    pub(super) fn ensure_names_exist(&self, event: &Event) -> ApplyResult {
        match event {
            Event::ComponentChanged(changed) => self.ensure_slot_exists(changed.slot),
            Event::Attempt(call, _) => self.ensure_call_exists(*call),
            Event::StepConflicted(conflict) => conflict
                .writers
                .iter()
                .try_for_each(|writer| self.ensure_call_exists(writer.call)),
            Event::StepStarted(started) => started
                .roles
                .iter()
                .try_for_each(|role| self.ensure_role_exists(*role)),
            // The roles in these events are examined only after they were applied.
            Event::RunStarted(_)
            | Event::RunResumed(_)
            | Event::MessageSent(_)
            | Event::StepCommitted(_)
            | Event::RunEnded(_)
            | Event::Forked(_)
            | Event::HandedOver(_)
            | Event::HandOverFailed(_)
            | Event::JoinReleased(_)
            | Event::FilesPlaced(_)
            | Event::CapReached(_)
            | Event::ConsentWithdrawn(_)
            | Event::ServerChanged(_)
            | Event::ServerToolOmitted(_) => Ok(()),
        }
    }

    fn ensure_call_exists(&self, call: CallKey) -> ApplyResult {
        for caller in call.via.calls() {
            self.ensure_role_exists(caller.role)?;
        }
        match call.work {
            Work::Act { action, .. } => self.ensure_slot_exists(Slot {
                role: call.role,
                kind: SlotKind::Action(action),
            }),
            Work::ToolCall {
                tool: ToolRef::Action(action),
                ..
            } => self.ensure_slot_exists(Slot {
                role: call.role,
                kind: SlotKind::Action(action),
            }),
            Work::ToolCall {
                tool: ToolRef::Handoff(to) | ToolRef::Role(to),
                ..
            } => {
                self.ensure_role_exists(call.role)?;
                self.ensure_role_exists(to)
            }
            Work::Think { .. }
            | Work::Plan
            | Work::Answer
            | Work::Turn { .. }
            | Work::ToolCall {
                tool: ToolRef::Host(_) | ToolRef::Server { .. },
                ..
            }
            | Work::Summary { .. } => self.ensure_role_exists(call.role),
        }
    }

    /// Fails if the run was never started.
    pub(super) fn ensure_started(&self) -> ApplyResult {
        ensure(
            !self.env.run.0.is_empty(),
            "something of a run that never started",
        )
    }

    /// Fails if the run has ended.
    pub(super) fn ensure_running(&self) -> ApplyResult {
        ensure(
            self.env.status == Status::Running,
            "something of a run that has ended",
        )
    }

    /// Fails if the team does not have this slot.
    pub(super) fn ensure_slot_exists(&self, slot: Slot) -> ApplyResult {
        self.ensure_role_exists(slot.role)?;
        let exists = match slot.kind {
            SlotKind::Think
            | SlotKind::Turn
            | SlotKind::Guard(_)
            | SlotKind::SkillScript(_)
            | SlotKind::Summary => true,
            SlotKind::Action(action) => action.index() < self.team.role(slot.role).actions.len(),
        };
        ensure(exists, "a place of an action that the role does not have")
    }

    /// Fails if the team does not have this role.
    pub(super) fn ensure_role_exists(&self, id: RoleId) -> ApplyResult {
        ensure(
            id.index() < self.env.roles.len(),
            "a role that the team does not have",
        )
    }

    /// Fails unless the receivers are roles of the team and the joins wait for the sender, both
    /// ascending and without duplicates.
    pub(super) fn ensure_valid_routing(&self, routed: &RoutingResult) -> ApplyResult {
        ensure(
            routed.to.is_sorted_by(|a, b| a < b),
            "receivers that are not in order",
        )?;
        routed
            .to
            .last()
            .map_or(Ok(()), |id| self.ensure_role_exists(*id))?;
        ensure(
            routed.joins.is_sorted_by(|a, b| a < b),
            "joins that are not in order",
        )?;
        let waits = |id: &JoinId| self.address_book.waits_for(*id, routed.from);
        ensure(
            routed.joins.iter().all(waits),
            "a join that does not wait for the sender",
        )
    }

    /// Fails unless this is a valid routing of a message from outside.
    pub(super) fn ensure_routed_from_outside(&self, routed: &RoutingResult) -> ApplyResult {
        ensure(
            routed.from.is_none(),
            "a message from outside that a role sent",
        )?;
        self.ensure_valid_routing(routed)
    }

    /// Returns an open activation. Fails if it is not open.
    pub(super) fn activation_mut(
        &mut self,
        key: ActivationKey,
    ) -> Result<&mut Activation, IllegalEvent> {
        self.ensure_role_exists(key.role)?;
        self.env
            .activation_mut(key)
            .ok_or_else(|| IllegalEvent("a role that is idle".into()))
    }

    /// Returns an open call. Fails if it is not open.
    pub(super) fn open_call_mut(&mut self, call: CallKey) -> Result<OpenCallMut<'_>, IllegalEvent> {
        let team = self.team.clone();
        self.activation_mut(call.activation())?
            .open_call_mut(team.role(call.role), call.work)
            .ok_or_else(|| IllegalEvent("a call that is not open".into()))
    }

    /// Returns a call that is running. Fails if it is not.
    pub(super) fn running_call_mut(
        &mut self,
        call: CallKey,
    ) -> Result<OpenCallMut<'_>, IllegalEvent> {
        self.ensure_running()?;
        let open = self.open_call_mut(call)?;
        ensure(*open.phase == Phase::Running, "a call that is not running")?;
        Ok(open)
    }

    /// Fails unless this attempt of a call is running.
    pub(super) fn ensure_current_attempt(&mut self, call: CallKey, attempt: u32) -> ApplyResult {
        let open = self.running_call_mut(call)?;
        ensure(
            open.progress.attempts == attempt,
            "the end of another attempt",
        )
    }

    /// Makes this the newest checkpoint.
    pub(super) fn set_checkpoint(&mut self, id: CheckpointId, parent: Option<CheckpointId>) {
        self.env.checkpoint = Some(id);
        self.env.parent = parent;
        self.env.checkpoint_count += 1;
    }
}

/// Moves an activation on to its next call.
pub(super) fn advance_to_next(state: &mut TeamState, key: ActivationKey) -> ApplyResult {
    let team = state.team.clone();
    state.activation_mut(key)?.proceed(team.role(key.role));
    Ok(())
}
