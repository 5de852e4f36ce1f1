//! Whether a process is at what is shown, and how to go on where none is.

use std::path::Path;

use strata_core::event::{CallPolicy, Status};
use strata_core::stepper::Stepper;

use crate::cli::ending::{CHANGED, UNCHANGED, more, steps_in_all};
use crate::cli::{path_word, recover, shown};
use crate::launch::{Doubt, SavedTeam, doubts, holder};
use crate::store::{At, Holder};

/// Who is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// A process, with this id.
    Held(Option<u32>),
    /// Nobody.
    Free,
    /// It is not known, or an earlier state is shown, at which nobody is.
    Unknown,
}

impl Life {
    /// Who is at what is saved at a path, seen before that is read.
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

    /// The same once that was read. Who came meanwhile may have written what was read.
    pub(super) fn after(self, path: &Path) -> Self {
        if self == Self::Free {
            Self::before(path, &At::Head)
        } else {
            self
        }
    }

    /// Whether nobody is at it any more who was at work.
    pub(super) fn is_cut_off(self, stepper: &Stepper) -> bool {
        self == Self::Free && stepper.env().status == Status::Running
    }

    /// How the run stands.
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
            // It was sent since.
            (Self::Free, Status::Done) if !env.is_finished() => format!("{name}, with new mail"),
            _ => name.into(),
        }
    }

    /// What is in doubt, or will be: calls that were under way when the run was cut off.
    pub(super) fn doubts(self, stepper: &Stepper) -> Vec<Doubt> {
        if !self.is_cut_off(stepper) {
            return doubts(stepper);
        }
        let mut resumed = stepper.clone();
        let event = resumed.resumed(stepper.env().budget, CallPolicy::Auto);
        // What cannot be gone on with says so when that is tried.
        let goes = resumed.apply(&event).is_ok();
        doubts(if goes { &resumed } else { stepper })
    }

    /// The commands that go on with it, where that takes one. Something may be in doubt.
    pub(super) fn ways(self, saved: &SavedTeam, path: &Path, in_doubt: bool) -> Vec<String> {
        let (stepper, resume) = (&saved.stepper, recover(path, None));
        let env = stepper.env();
        if self != Self::Free || env.is_finished() {
            return Vec::new();
        }
        // A team that MetaGPT saved has no team file.
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
