//! Determines whether a process works on the saved state that is shown and, if not, which commands
//! continue it.

use std::path::Path;

use strata_core::event::{CallPolicy, Status};
use strata_core::stepper::Stepper;

use crate::cli::suggested_command::commented_arguments;
use crate::cli::{display_relative_path, recover_args, shell_path};
use crate::launch::{CallInDoubt, SavedTeam, calls_in_doubt, holder};
use crate::store::{LockHolder, StateSelector};
use crate::view::{AFTER_CHANGE, WITHOUT_CHANGE, raise_budget, raise_step_limit};

/// Which process holds a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderState {
    /// A process, with its id if known.
    HeldBy(Option<u32>),
    /// No process.
    Free,
    /// Unknown, or not applicable because an earlier state is shown.
    Unknown,
}

impl HolderState {
    /// Returns which process holds the storage at `path`. This must be called before the state is
    /// read.
    pub(super) fn read(path: &Path, at: &StateSelector) -> Self {
        if *at != StateSelector::Head {
            return Self::Unknown;
        }
        match holder(path) {
            Ok(LockHolder::Process { pid }) => Self::HeldBy(pid),
            Ok(LockHolder::Nobody) => Self::Free,
            Err(_) => Self::Unknown,
        }
    }

    /// Determines it again after the state was read: a process that came in the meantime may have
    /// written what was read.
    pub(super) fn reread(self, path: &Path) -> Self {
        if self == Self::Free {
            Self::read(path, &StateSelector::Head)
        } else {
            self
        }
    }

    /// Returns whether the run was cut off: it is saved as running, and no process holds it.
    pub(super) fn is_cut_off(self, stepper: &Stepper) -> bool {
        self == Self::Free && stepper.env().status == Status::Running
    }

    /// Describes the status of the run.
    pub(super) fn describe_status(self, stepper: &Stepper) -> String {
        let env = stepper.env();
        let name = env.status.name();
        let process = |pid: Option<u32>| {
            pid.map_or_else(|| "a process".into(), |pid| format!("process {pid}"))
        };
        match (self, env.status) {
            (Self::HeldBy(pid), Status::Running) if env.is_drained() => {
                format!("{name} ({}), idle", process(pid))
            }
            (Self::HeldBy(pid), Status::Running) => format!("{name} ({})", process(pid)),
            (Self::HeldBy(pid), _) => format!("{name} ({} has it open)", process(pid)),
            (Self::Free, Status::Running) => "cut off".into(),
            // A message was sent to it after it was done.
            (Self::Free, Status::Done) if !env.is_finished() => format!("{name}, with new mail"),
            _ => name.into(),
        }
    }

    /// Returns the writes that are in doubt, or will be on the next resume because they were in
    /// progress when the run was cut off.
    pub(super) fn writes_in_doubt(self, stepper: &Stepper) -> Vec<CallInDoubt> {
        if !self.is_cut_off(stepper) {
            return calls_in_doubt(stepper);
        }
        let mut resumed = stepper.clone();
        let event = resumed.run_resumed_event(stepper.env().budget, CallPolicy::Auto);
        // If the state does not permit a resume, the resume itself will report it.
        let goes = resumed.apply(&event).is_ok();
        calls_in_doubt(if goes { &resumed } else { stepper })
    }

    /// Returns the commands that continue the run; none if it is finished or a process holds it.
    pub(super) fn resume_commands(
        self,
        saved: &SavedTeam,
        path: &Path,
        in_doubt: bool,
    ) -> Vec<String> {
        let (stepper, resume) = (&saved.stepper, recover_args(path, None));
        let env = stepper.env();
        if self != Self::Free || env.is_finished() {
            return Vec::new();
        }
        // A team saved by MetaGPT has no team file.
        let file = if saved.definition.text.is_empty() {
            "TEAM.toml "
        } else {
            ""
        };
        let plain = format!("  strata-host run {file}{resume}");
        match env.status {
            Status::OutOfBudget => vec![format!(
                "{plain} {}",
                commented_arguments(&raise_budget(stepper, None))
            )],
            Status::StepLimit => vec![format!(
                "{plain} {}",
                commented_arguments(&raise_step_limit(stepper))
            )],
            _ if in_doubt => vec![format!("{plain} --in-doubt redo|skip|VALUE")],
            Status::Failed => {
                let file = saved.definition.file();
                if saved.definition.text.is_empty() || !file.is_file() {
                    return vec![plain];
                }
                let file = shell_path(Path::new(&display_relative_path(&file)));
                vec![
                    format!("  strata-host run {file} {resume}   # {AFTER_CHANGE}"),
                    format!("{plain}   # {WITHOUT_CHANGE}"),
                ]
            }
            _ => vec![plain],
        }
    }
}
