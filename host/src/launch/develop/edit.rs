//! An edit, and which recorded calls it concerns.

use std::collections::BTreeSet;
use std::path::PathBuf;

use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::event::{AttemptEvent, CallFailed};
use strata_core::record::fault::{FaultHandling, FaultKind};
use strata_core::record::id::{Slot, SlotKind};
use strata_core::record::turn::TurnOutcome;
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::team::Team;
use strata_manifest::Definition;
use strata_manifest::edited::{EditedPart, parts_edited, parts_that_read};
use strata_storage::SavedDefinition;

/// The parts of a team that an edit changes.
#[derive(Debug, Default)]
pub(super) struct Edit {
    parts: BTreeSet<EditedPart>,
}

impl Edit {
    /// Compares the team file with the saved one, and adds what depends on the files in `changed`.
    pub(super) fn new(now: &Definition, saved: &SavedDefinition, changed: &[PathBuf]) -> Self {
        // The saved file is parsed without the files that it names, so the other one has to be as well.
        let before = Definition::parse_without_files(&saved.text, &saved.name, &saved.base);
        let source = &now.source;
        let written = Definition::parse_without_files(&source.text, &source.name, &source.base);
        let mut edit = Self::default();
        if let (Ok(before), Ok(written)) = (before, written) {
            edit.add(parts_edited(&before, &written));
        }
        for file in changed {
            edit.add(parts_that_read(now, file));
        }
        edit
    }

    /// Returns what the model of a role is asked, for roles that have one of these slots as a tool.
    pub(super) fn of_described_tools(stepper: &Stepper, slots: &BTreeSet<Slot>) -> Self {
        let team = stepper.team();
        let tools = slots.iter().filter(|slot| {
            matches!(slot.kind, SlotKind::Action(_)) && team.role(slot.role).tool_loop().is_some()
        });
        let parts = tools.map(|slot| EditedPart::Requests(slot.role)).collect();
        Self { parts }
    }

    /// Adds components.
    pub(super) fn add_slots(&mut self, slots: impl Iterator<Item = Slot>) {
        self.add(slots.map(EditedPart::Slot));
    }

    fn add(&mut self, parts: impl IntoIterator<Item = EditedPart>) {
        for part in parts {
            self.parts.insert(part);
            // Guards run within turns and calls, and have no calls of their own.
            if let EditedPart::Slot(Slot {
                role,
                kind: SlotKind::Guard(_),
            }) = part
            {
                self.parts.insert(EditedPart::Calls(role));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether a call may use one of the parts.
    pub(super) fn may_concern(&self, team: &Team, call: CallKey) -> bool {
        let CallKey { role, work, .. } = call;
        match component_slot(team.role(role), role, work) {
            Some(slot) => self.parts.contains(&EditedPart::Slot(slot)),
            None => {
                let is_asked = matches!(
                    work,
                    Work::Turn { .. } | Work::Think { .. } | Work::Summary { .. }
                );
                let parts = [EditedPart::Requests(role), EditedPart::Calls(role)];
                is_asked && parts.iter().any(|part| self.parts.contains(part))
            }
        }
    }

    /// Returns whether a call that ended with this event used one of the parts.
    pub(super) fn is_used(&self, team: &Team, call: CallKey, end: &AttemptEvent) -> bool {
        if !self.may_concern(team, call) {
            return false;
        }
        let AttemptEvent::CallFinished(finished) = end else {
            // The model was told the fault.
            return matches!(
                end,
                AttemptEvent::CallFailed(CallFailed {
                    handling: FaultHandling::Returned,
                    ..
                })
            );
        };
        match &finished.result {
            CallResult::Replied(reply) => {
                let calls_tools =
                    matches!(&reply.outcome, TurnOutcome::Calls(calls) if !calls.is_empty());
                calls_tools || self.parts.contains(&EditedPart::Requests(call.role))
            }
            _ => true,
        }
    }

    /// Returns whether it concerns a call that failed, and that is tried again where it is. After too many
    /// turns without an answer, another turn would only fail again.
    pub(super) fn concerns_fault(&self, stepper: &Stepper) -> bool {
        let team = stepper.team();
        let mut failed = stepper.env().failed_calls(team);
        failed.any(|(call, open)| {
            let kind = open.phase.fault().map(|fault| fault.kind);
            let is_tried_again = !matches!(kind, Some(FaultKind::Turns | FaultKind::Interrupted));
            is_tried_again && self.may_concern(team, call)
        })
    }
}

/// Returns whether a call does not go on after this event.
pub(super) fn ends_call(event: &AttemptEvent) -> bool {
    matches!(
        event,
        AttemptEvent::CallFinished(_)
            | AttemptEvent::CallFailed(CallFailed {
                handling: FaultHandling::Returned,
                ..
            })
    )
}
