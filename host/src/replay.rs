//! Replay: repeats the recorded attempts of a run, each in its original state, and compares the
//! results with the record.
//!
//! The same component with the same input, state and answers does the same. A replay demonstrates
//! this, or shows what else the component depends on. The network is not used and nothing is
//! written. Files that actions wrote have their recorded contents. Inputs that are not recorded and
//! could make a difference, such as other files and variables, are reported. `driver::rerun`
//! repeats a single attempt.

mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strata_core::effect::Invocation;
use strata_core::event::Event;
use strata_core::fault::{FaultCause, FaultKind};
use strata_core::id::{Digest, RoleId, Slot};
use strata_core::stepper::slot;

use crate::driver::{Again, DriverError, Recorded, Rerun};
use crate::plugin::Plugin;

pub use compare::Difference;

/// Which attempts are repeated.
#[derive(Clone, Debug, Default)]
pub struct Selection {
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
    GoOn,
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of attempts that were repeated with the same result.
    pub equal: u64,
    /// The attempts with other results, in order.
    pub differences: Vec<Difference>,
    /// The attempts that were not repeated, and why.
    pub skipped: Vec<(Place, Skipped)>,
    /// Inputs that could make a difference and are not recorded, by action.
    pub unrecorded: BTreeSet<(String, String)>,
}

/// An attempt, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The step it was made in.
    pub step: u64,
    /// `ROLE.ACTION` or `ROLE.think`.
    pub action: String,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
}

impl std::fmt::Display for Place {
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
pub enum Skipped {
    /// It was made by another component than the present one.
    OtherComponent {
        /// The digest of the recorded component.
        recorded: Option<Digest>,
        /// The digest of the present component.
        found: Option<Digest>,
    },
    /// It did not finish: the host was killed or stopped, or ended it because it wrote more than is
    /// allowed.
    CutOff,
    /// It exceeded a time limit, which no two runs measure in the same way.
    OutOfTime(FaultKind),
    /// It read a file that an action wrote and whose contents are no longer stored.
    FileGone,
}

/// Reads a record and repeats its attempts.
pub(crate) struct Replay {
    rerun: Rerun,
    plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The present components.
    components: BTreeMap<Slot, Digest>,
    selection: Selection,
    on_difference: OnDifference,
    open: BTreeMap<RoleId, Open>,
    report: Report,
}

/// An attempt whose end has not been read yet.
struct Open {
    call: Invocation,
    place: Place,
    recorded: Recorded,
}

/// Whether to continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Stop,
}

impl Replay {
    pub(crate) fn new(
        rerun: Rerun,
        plugins: BTreeMap<Slot, Arc<Plugin>>,
        components: BTreeMap<Slot, Digest>,
        selection: Selection,
        on_difference: OnDifference,
    ) -> Self {
        let (open, report) = (BTreeMap::new(), Report::default());
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
    pub(crate) async fn event(&mut self, event: &Event) -> Result<Next, DriverError> {
        self.rerun.stepper().has_what_is_named(event)?;
        match event {
            Event::CallStarted { role, .. } => self.started(*role),
            Event::HostCalled { role, call, .. } => {
                if let Some(open) = self.open.get_mut(role) {
                    open.recorded.calls.push(call.clone());
                }
            }
            Event::FilesWritten { role, files, .. } => {
                if let Some(open) = self.open.get_mut(role) {
                    open.recorded.files.clone_from(files);
                }
            }
            Event::CallFinished { role, .. }
            | Event::CallFailed { role, .. }
            | Event::RequestOpened { role, .. }
            | Event::CallSuspended { role, .. } => {
                if let Some(open) = self.open.remove(role) {
                    self.ended(open, event).await?;
                }
            }
            Event::RunResumed { .. } | Event::Forked { .. } | Event::RunEnded { .. } => {
                self.cut_off()
            }
            _ => {}
        }
        self.rerun.apply(event)?;
        let stop = self.on_difference == OnDifference::Stop && !self.report.differences.is_empty();
        if stop {
            // The ends of these attempts were recorded, but are not read any more.
            self.open.clear();
            return Ok(Next::Stop);
        }
        Ok(Next::Go)
    }

    /// Returns the result, once there are no more events.
    pub(crate) fn report(mut self) -> Report {
        self.cut_off();
        self.report
    }

    fn started(&mut self, role: RoleId) {
        let stepper = self.rerun.stepper();
        let Some(call) = stepper.invocation_of(role) else {
            return;
        };
        let team = stepper.team();
        let action = match slot(team.role(role), role, call.work) {
            Some(slot) => team.slot_name(slot),
            None => format!("{}.think", team.role(role).name),
        };
        let place = Place {
            step: stepper.env().step,
            action,
            attempt: call.attempt,
        };
        let chosen = self.selection.step.is_none_or(|step| step == place.step)
            && self
                .selection
                .action
                .as_ref()
                .is_none_or(|action| *action == place.action);
        if chosen {
            self.open.insert(
                role,
                Open {
                    call,
                    place,
                    recorded: Recorded::default(),
                },
            );
        }
    }

    fn cut_off(&mut self) {
        let open = std::mem::take(&mut self.open).into_values();
        self.report
            .skipped
            .extend(open.map(|open| (open.place, Skipped::CutOff)));
    }

    async fn ended(&mut self, open: Open, event: &Event) -> Result<(), DriverError> {
        let Open {
            call,
            place,
            mut recorded,
        } = open;
        let stepper = self.rerun.stepper();
        let at = slot(stepper.team().role(call.role), call.role, call.work);
        if let Some(why) = self.skipped(at, &call, event) {
            self.report.skipped.push((place, why));
            return Ok(());
        }
        self.note_unrecorded(at, &place);
        recorded.suspended = matches!(event, Event::CallSuspended { .. });
        let again = self.rerun.run(call, &mut recorded).await?;
        if matches!(again, Again::FileGone) {
            self.report.skipped.push((place, Skipped::FileGone));
            return Ok(());
        }
        match compare::compare(event, &again, &recorded) {
            Some((what, recorded, found)) => {
                self.report.differences.push(Difference {
                    place,
                    what,
                    recorded,
                    found,
                });
            }
            None => self.report.equal += 1,
        }
        Ok(())
    }

    fn skipped(&self, at: Option<Slot>, call: &Invocation, event: &Event) -> Option<Skipped> {
        if let Event::CallFailed { fault, .. } = event {
            match (fault.cause, fault.kind) {
                (FaultCause::CpuLimit, _) => return Some(Skipped::OutOfTime(FaultKind::Cpu)),
                (FaultCause::TimeLimit, _) => return Some(Skipped::OutOfTime(FaultKind::Timeout)),
                (FaultCause::DirectoryOverflow, _) | (_, FaultKind::Interrupted) => {
                    return Some(Skipped::CutOff);
                }
                _ => {}
            }
        }
        let at = at?;
        let found = self.components.get(&at);
        if found != call.digest.as_ref() {
            return Some(Skipped::OtherComponent {
                recorded: call.digest.clone(),
                found: found.cloned(),
            });
        }
        None
    }

    /// Reports the inputs that the guest may have used and that are not recorded.
    fn note_unrecorded(&mut self, at: Option<Slot>, place: &Place) {
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
            .map(|what| (place.action.clone(), what));
        self.report.unrecorded.extend(inputs);
    }
}
