//! Determines whether a process works on the saved state that is shown and, if not, which commands
//! continue it.

use std::path::Path;

use strata_core::event::{CallPolicy, Status};
use strata_core::stepper::Stepper;

use crate::cli::ending::{CHANGED, UNCHANGED, more, steps_in_all};
use crate::cli::{path_word, recover, shown};
use crate::launch::{Doubt, SavedTeam, doubts, holder};
use crate::store::{At, Holder};

/// Which process holds a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// A process, with its id if known.
    Held(Option<u32>),
    /// No process.
    Free,
    /// Unknown, or not applicable because an earlier state is shown.
    Unknown,
}

impl Life {
    /// Returns which process holds the storage at `path`. This must be called before the state is
    /// read.
    pub(super) fn before(path: &Path, at: &At) -> Self {
        if *at != At::Head {
            return Self::Unknown;
        }
        match holder(path) {
            Ok(Holder::Process { pid }) => Self::Held(pid),
            Ok(Holder::Nobody) => Self::Free,
            Err(_) => Self::Unknown,
        }
    }

    /// Determines it again after the state was read: a process that came in the meantime may have
    /// written what was read.
    pub(super) fn after(self, path: &Path) -> Self {
        if self == Self::Free {
            Self::before(path, &At::Head)
        } else {
            self
        }
    }

    /// Returns whether the run was cut off: it is saved as running, and no process holds it.
    pub(super) fn is_cut_off(self, stepper: &Stepper) -> bool {
        self == Self::Free && stepper.env().status == Status::Running
    }

    /// Describes the status of the run.
    pub(super) fn status(self, stepper: &Stepper) -> String {
        let env = stepper.env();
        let name = env.status.name();
        let process = |pid: Option<u32>| {
            pid.map_or_else(|| "a process".into(), |pid| format!("process {pid}"))
        };
        match (self, env.status) {
            (Self::Held(pid), Status::Running) if env.is_drained() => {
                format!("{name} ({}), idle", process(pid))
            }
            (Self::Held(pid), Status::Running) => format!("{name} ({})", process(pid)),
            (Self::Held(pid), _) => format!("{name} ({} has it open)", process(pid)),
            (Self::Free, Status::Running) => "cut off".into(),
            // A message was sent to it after it was done.
            (Self::Free, Status::Done) if !env.is_finished() => format!("{name}, with new mail"),
            _ => name.into(),
        }
    }

    /// Returns the writes that are in doubt, or will be on the next resume because they were in
    /// progress when the run was cut off.
    pub(super) fn doubts(self, stepper: &Stepper) -> Vec<Doubt> {
        if !self.is_cut_off(stepper) {
            return doubts(stepper);
        }
        let mut resumed = stepper.clone();
        let event = resumed.resumed(stepper.env().budget, CallPolicy::Auto);
        // If the state does not permit a resume, the resume itself will report it.
        let goes = resumed.apply(&event).is_ok();
        doubts(if goes { &resumed } else { stepper })
    }

    /// Returns the commands that continue the run; none if it is finished or a process holds it.
    pub(super) fn ways(self, saved: &SavedTeam, path: &Path, in_doubt: bool) -> Vec<String> {
        let (stepper, resume) = (&saved.stepper, recover(path, None));
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
            Status::OutOfBudget => vec![format!("{plain} {}", more(stepper, None))],
            Status::StepLimit => vec![format!("{plain} {}", steps_in_all(stepper))],
            _ if in_doubt => vec![format!("{plain} --in-doubt redo|skip|VALUE")],
            Status::Failed => {
                let file = saved.definition.file();
                if saved.definition.text.is_empty() || !file.is_file() {
                    return vec![plain];
                }
                let file = path_word(Path::new(&shown(&file)));
                vec![
                    format!("  strata-host run {file} {resume}   # {CHANGED}"),
                    format!("{plain}   # {UNCHANGED}"),
                ]
            }
            _ => vec![plain],
        }
    }
}
