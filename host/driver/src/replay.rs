//! Replay: repeats the recorded attempts of a run, each in its original state, and compares the
//! results with the record.
//!
//! The same component with the same input, state and answers does the same. A replay demonstrates
//! this, or shows what else the component depends on. The network is not used and nothing is
//! written. Files that actions wrote have their recorded contents. Inputs that are not recorded and
//! could make a difference, such as other files and variables, are reported. `replayer` repeats a
//! single attempt.

mod compare;
mod replayer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::component_slot;
use strata_core::record::event::{AttemptEvent, CallFailed, Event, FilesWritten, HostCalled};
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::id::{Digest, GuardMoment, RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_services::plugin::Plugin;

use crate::DriverError;
use crate::work_name::index_and_name_of_call;

pub use compare::AttemptDifference;
use replayer::{RecordedAttempt, ReplayOutcome};
pub use replayer::{RecordedFiles, Replayer};

/// Which attempts are repeated.
#[derive(Clone, Debug, Default)]
pub struct AttemptSelection {
    /// Only those of this step.
    pub step: Option<u64>,
    /// Only those of this action: `ROLE.ACTION`, or `ROLE.think`.
    pub action: Option<String>,
}

/// What to do about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDifference {
    /// Stop.
    Stop,
    /// Go on.
    Continue,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// The number of attempts that were repeated with the same result.
    pub equal: u64,
    /// The attempts with other results, in order.
    pub differences: Vec<AttemptDifference>,
    /// The attempts that were not repeated, and why.
    pub skipped: Vec<(AttemptLocation, SkipReason)>,
    /// Inputs that could make a difference and are not recorded, by action.
    pub unrecorded: BTreeSet<(String, String)>,
}

/// An attempt, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLocation {
    /// The step it was made in.
    pub step: u64,
    /// `ROLE.ACTION` or `ROLE.think`.
    pub action: String,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
}

impl std::fmt::Display for AttemptLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "step {}, `{}`, attempt {}",
            self.step, self.action, self.attempt
        )
    }
}

/// The reason why an attempt is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It was made by another component than the present one.
    OtherComponent {
        /// The digest of the recorded component.
        recorded: Option<Digest>,
        /// The digest of the present component.
        found: Option<Digest>,
    },
    /// A guard decided about its calls, or changed its result, and was another component than the present one.
    OtherGuard {
        /// The guard, as `--component` names it: `ROLE.before` or `ROLE.after`.
        guard: String,
        /// The digest of the recorded component.
        recorded: Digest,
        /// The digest of the present component.
        found: Digest,
    },
    /// It did not finish: the host was killed or stopped, or ended it because it wrote more than is
    /// allowed.
    CutOff,
    /// It exceeded a time limit, which no two runs measure in the same way.
    OutOfTime(FaultKind),
    /// It read a file that an action wrote and whose contents are no longer stored.
    FileMissing,
}

/// Reads a record and repeats its attempts.
pub struct ReplaySession {
    rerun: Replayer,
    plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The present components.
    components: BTreeMap<Slot, Digest>,
    selection: AttemptSelection,
    on_difference: OnDifference,
    open: BTreeMap<CallKey, OpenAttempt>,
    report: ReplayReport,
}

/// An attempt whose end has not been read yet.
struct OpenAttempt {
    call: Invocation,
    location: AttemptLocation,
    recorded: RecordedAttempt,
}

/// Whether to continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReplayControl {
    /// Go on with the next attempt.
    Continue,
    /// End the replay.
    Stop,
}

impl ReplaySession {
    /// Creates a replay of the selected attempts.
    pub fn new(
        rerun: Replayer,
        plugins: BTreeMap<Slot, Arc<Plugin>>,
        components: BTreeMap<Slot, Digest>,
        selection: AttemptSelection,
        on_difference: OnDifference,
    ) -> Self {
        let (open, report) = (BTreeMap::new(), ReplayReport::default());
        Self {
            rerun,
            plugins,
            components,
            selection,
            on_difference,
            open,
            report,
        }
    }

    /// Processes the next recorded event.
    pub async fn handle_event(&mut self, event: &Event) -> Result<ReplayControl, DriverError> {
        self.rerun.stepper().ensure_names_exist(event)?;
        match event {
            Event::Attempt(call, AttemptEvent::CallStarted(_)) => self.attempt_started(*call),
            Event::Attempt(key, AttemptEvent::HostCalled(HostCalled { call, .. })) => {
                if let Some(open) = self.open.get_mut(key) {
                    open.recorded.calls.push(call.clone());
                }
            }
            Event::Attempt(key, AttemptEvent::NestedCallMade(nested_call)) => {
                if let (Some(open), Some(plan)) = (self.open.get_mut(key), &nested_call.plan) {
                    open.recorded
                        .nested
                        .insert(nested_call.number, plan.decision.clone());
                }
            }
            Event::Attempt(key, AttemptEvent::FilesWritten(FilesWritten { files })) => {
                if let Some(open) = self.open.get_mut(key) {
                    open.recorded.files.clone_from(files);
                }
            }
            Event::Attempt(
                key,
                AttemptEvent::CallFinished(_)
                | AttemptEvent::CallFailed(_)
                | AttemptEvent::RequestOpened(_)
                | AttemptEvent::CallSuspended(_),
            ) => {
                if let Some(open) = self.open.remove(key) {
                    self.attempt_ended(open, event).await?;
                }
            }
            // The attempt was given up: its call is not made, or a server asks people first.
            Event::Attempt(key, AttemptEvent::CallRevised(_) | AttemptEvent::CallAsks(_)) => {
                self.open.remove(key);
            }
            Event::RunResumed(_) | Event::Forked(_) | Event::RunEnded(_) => {
                self.skip_open_attempts()
            }
            _ => {}
        }
        self.rerun.apply(event)?;
        let stop = self.on_difference == OnDifference::Stop && !self.report.differences.is_empty();
        if stop {
            // The ends of these attempts were recorded, but are not read any more.
            self.open.clear();
            return Ok(ReplayControl::Stop);
        }
        Ok(ReplayControl::Continue)
    }

    /// Returns the result, once there are no more events.
    pub fn into_report(mut self) -> ReplayReport {
        self.skip_open_attempts();
        self.report
    }

    fn attempt_started(&mut self, key: CallKey) {
        let stepper = self.rerun.stepper();
        let calls_role = matches!(
            key.work,
            Work::ToolCall {
                tool: ToolRef::Role(_),
                ..
            }
        );
        if calls_role && stepper.role_result(key).is_none() {
            // The calls of that role are repeated instead.
            return;
        }
        let Some(call) = stepper.next_invocation(key) else {
            return;
        };
        let role = key.role;
        let team = stepper.team();
        let (_, part) = index_and_name_of_call(
            stepper,
            CallKey {
                work: call.work,
                ..key
            },
        );
        let action = format!("{}.{part}", team.role(role).name);
        let location = AttemptLocation {
            step: stepper.env().step,
            action,
            attempt: call.attempt,
        };
        let chosen = self.selection.step.is_none_or(|step| step == location.step)
            && self
                .selection
                .action
                .as_ref()
                .is_none_or(|action| *action == location.action);
        if chosen {
            self.open.insert(
                key,
                OpenAttempt {
                    call,
                    location,
                    recorded: RecordedAttempt::default(),
                },
            );
        }
    }

    fn skip_open_attempts(&mut self) {
        let open = std::mem::take(&mut self.open).into_values();
        self.report
            .skipped
            .extend(open.map(|open| (open.location, SkipReason::CutOff)));
    }

    async fn attempt_ended(&mut self, open: OpenAttempt, event: &Event) -> Result<(), DriverError> {
        let OpenAttempt {
            call,
            location,
            mut recorded,
        } = open;
        let stepper = self.rerun.stepper();
        let at = component_slot(stepper.team().role(call.role), call.role, call.work);
        if let Some(why) = self.skip_reason(at, &call, event) {
            self.report.skipped.push((location, why));
            return Ok(());
        }
        self.note_unrecorded(at, &location);
        recorded.suspended = matches!(event, Event::Attempt(_, AttemptEvent::CallSuspended(_)));
        if let Event::Attempt(_, AttemptEvent::CallFinished(finished)) = event
            && let CallResult::Replied(reply) = &finished.result
        {
            recorded.changed_tools.clone_from(&reply.changed_tools);
        }
        let outcome = self.rerun.run(call, &mut recorded).await?;
        if matches!(outcome, ReplayOutcome::FileMissing) {
            self.report
                .skipped
                .push((location, SkipReason::FileMissing));
            return Ok(());
        }
        match compare::compare_attempt(event, &outcome, &recorded) {
            Some((what, recorded, found)) => {
                self.report.differences.push(AttemptDifference {
                    attempt: location,
                    what,
                    recorded,
                    found,
                });
            }
            None => self.report.equal += 1,
        }
        Ok(())
    }

    fn skip_reason(
        &self,
        at: Option<Slot>,
        call: &Invocation,
        event: &Event,
    ) -> Option<SkipReason> {
        if let Event::Attempt(_, AttemptEvent::CallFailed(CallFailed { fault, .. })) = event {
            match (fault.cause, fault.kind) {
                (FaultCause::CpuLimit, _) => return Some(SkipReason::OutOfTime(FaultKind::Cpu)),
                (FaultCause::TimeLimit, _) => {
                    return Some(SkipReason::OutOfTime(FaultKind::Timeout));
                }
                (FaultCause::DirectoryOverflow, _) | (_, FaultKind::Interrupted) => {
                    return Some(SkipReason::CutOff);
                }
                _ => {}
            }
        }
        if let Some(at) = at {
            let found = self.components.get(&at);
            if found != call.digest.as_ref() {
                return Some(SkipReason::OtherComponent {
                    recorded: call.digest.clone(),
                    found: found.cloned(),
                });
            }
        }
        // The calls that a tool makes are guarded, too.
        let moments: &[GuardMoment] = match call.work {
            Work::Turn { .. } => &[GuardMoment::Before],
            Work::ToolCall { .. } => &[GuardMoment::Before, GuardMoment::After],
            _ => &[],
        };
        let changed = |moment: &GuardMoment| self.changed_guard(call.role, *moment);
        moments.iter().find_map(changed)
    }

    /// Returns why attempts with a guard are not repeated, if it was another component than the present one.
    fn changed_guard(&self, role: RoleId, moment: GuardMoment) -> Option<SkipReason> {
        let slot = Slot {
            role,
            kind: SlotKind::Guard(moment),
        };
        let stepper = self.rerun.stepper();
        let recorded = stepper.env().components.get(&slot)?;
        let found = self.components.get(&slot)?;
        (recorded != found).then(|| SkipReason::OtherGuard {
            guard: stepper.team().slot_name(slot),
            recorded: recorded.clone(),
            found: found.clone(),
        })
    }

    /// Reports the inputs that the guest may have used and that are not recorded.
    fn note_unrecorded(&mut self, at: Option<Slot>, location: &AttemptLocation) {
        let Some(plugin) = at.and_then(|at| self.plugins.get(&at)) else {
            return;
        };
        let dirs = plugin
            .grants
            .dirs
            .iter()
            .map(|dir| format!("files in `{}` that no action wrote", dir.host.display()));
        let variables = plugin
            .grants
            .env
            .iter()
            .map(|name| format!("the variable `{name}`"));
        let inputs = dirs
            .chain(variables)
            .map(|what| (location.action.clone(), what));
        self.report.unrecorded.extend(inputs);
    }
}
