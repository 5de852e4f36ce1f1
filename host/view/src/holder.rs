//! Which process works on a saved state and, if none does, which writes are in doubt and which
//! commands continue it.

use std::path::Path;

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::host_call::CallPolicy;
use strata_storage::{LockHolder, StateSelector, StorageLocation};

use super::{
    AFTER_CHANGE, CommandArgument, Continuation, DoubtView, ResumeTarget, SuggestedCommand,
    WITHOUT_CHANGE, raise_budget, raise_step_limit,
};
use crate::saved_team::SavedTeam;

/// Which process holds a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "pid", rename_all = "kebab-case")]
pub enum HolderState {
    /// A process, with its id if known.
    HeldBy(Option<u32>),
    /// No process.
    Free,
    /// Unknown, or not applicable because an earlier state is shown.
    Unknown,
}

impl HolderState {
    /// Returns which process holds a run. This must be called before the state is
    /// read.
    pub fn read(location: &StorageLocation, at: &StateSelector) -> Self {
        if *at != StateSelector::Head {
            return Self::Unknown;
        }
        match location.holder() {
            Ok(LockHolder::Process { pid }) => Self::HeldBy(pid),
            Ok(LockHolder::Nobody) => Self::Free,
            Err(_) => Self::Unknown,
        }
    }

    /// Determines it again after the state was read: a process that came in the meantime may have
    /// written what was read.
    pub fn reread(self, location: &StorageLocation) -> Self {
        if self == Self::Free {
            Self::read(location, &StateSelector::Head)
        } else {
            self
        }
    }

    /// Returns whether the run was cut off: it is saved as running, and no process holds it.
    pub fn is_cut_off(self, stepper: &Stepper) -> bool {
        self == Self::Free && stepper.env().status == Status::Running
    }

    /// Returns the writes that are in doubt, or will be on the next resume because they were in
    /// progress when the run was cut off.
    pub fn writes_in_doubt(self, stepper: &Stepper) -> Vec<DoubtView> {
        if !self.is_cut_off(stepper) {
            return DoubtView::all(stepper);
        }
        let mut resumed = stepper.clone();
        let event = resumed.run_resumed_event(stepper.env().budget, CallPolicy::Auto);
        // If the state does not permit a resume, the resume itself will report it.
        let is_resumed = resumed.apply(&event).is_ok();
        DoubtView::all(if is_resumed { &resumed } else { stepper })
    }

    /// Returns the commands that continue the run; none if it is finished, a process holds it, or it goes on by itself.
    pub fn resume_commands(
        self,
        saved: &SavedTeam,
        path: &Path,
        continuation: Continuation,
    ) -> Vec<SuggestedCommand> {
        let stepper = &saved.stepper;
        let env = stepper.env();
        if self != Self::Free || env.is_finished() || continuation == Continuation::Itself {
            return Vec::new();
        }
        let target = ResumeTarget {
            path,
            policy: None,
            continuation,
        };
        // A team saved by MetaGPT has no team file.
        let has_team_file = !saved.definition.text.is_empty();
        let missing = (!has_team_file).then(|| CommandArgument::placeholder("TEAM.toml"));
        let plain = target.command(missing);
        let in_doubt = self.writes_in_doubt(stepper);
        match env.status {
            Status::OutOfBudget => {
                let file = Some(saved.definition.file());
                let file = file.filter(|file| has_team_file && file.is_file());
                vec![plain.with_suggested(raise_budget(stepper, None, file.as_deref()))]
            }
            Status::StepLimit => vec![plain.with_suggested(raise_step_limit(stepper))],
            _ if !in_doubt.is_empty() => vec![plain.with([
                CommandArgument::word("--in-doubt"),
                CommandArgument::placeholder(DoubtView::verdicts(&in_doubt)),
            ])],
            Status::Failed => {
                let file = saved.definition.file();
                if !has_team_file || !file.is_file() {
                    return vec![plain];
                }
                let changed = target.command(Some(CommandArgument::TeamFile(file)));
                vec![
                    changed.commented(AFTER_CHANGE),
                    plain.commented(WITHOUT_CHANGE),
                ]
            }
            _ => vec![plain],
        }
    }
}
