//! Starts a new run. The initial state is saved before anything is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use strata_core::environment::Environment;
use strata_core::event::CallPolicy;
use strata_core::id::{RunId, hex};
use strata_core::stepper::Stepper;

use super::foreign::mark_as_own;
use super::{Components, LaunchError, Makings, Notice, Run, durability, saved_definition, share};
use crate::driver::{Driver, Journal, OnLine, clock};
use crate::manifest::{Definition, Overrides, doubts, is_confined};
use crate::sandbox::{Own, WasmSandbox};
use crate::sha256::sha256;
use crate::store::{Directory, FIRST_LINE, GroupLog, Replace};
use crate::trust::mark;

/// The arguments of a new run.
#[derive(Clone, Debug)]
pub struct Start {
    /// The team file.
    pub team: PathBuf,
    /// The idea. Replaces the one in the team file.
    pub idea: Option<String>,
    /// The overrides of the command line.
    pub overrides: Overrides,
    /// The storage directory.
    pub storage: PathBuf,
    /// What happens to an unfinished team that is saved there.
    pub replace: Replace,
    /// Which recorded host calls are served to another attempt.
    pub calls: CallPolicy,
    /// A log to share with other teams of this process.
    pub group: Option<GroupLog>,
}

impl Start {
    /// Returns a run of a team file with its own idea, which fails if an unfinished team is saved
    /// in `storage`.
    pub fn new(
        team: impl Into<PathBuf>,
        storage: impl Into<PathBuf>,
        overrides: Overrides,
    ) -> Self {
        Self {
            team: team.into(),
            idea: None,
            overrides,
            storage: storage.into(),
            replace: Replace::Never,
            calls: CallPolicy::Auto,
            group: None,
        }
    }
}

/// A new run.
pub struct Started {
    /// The run.
    pub run: Run,
    /// Where the team was moved that was saved there before.
    pub moved_to: Option<PathBuf>,
}

/// Starts a new run. `report` receives the slow operations that begin; `on_line` receives every
/// public event line.
pub fn start(
    start: Start,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<Started, LaunchError> {
    let mut definition = Definition::read(&start.team)?;
    definition.apply(&start.overrides)?;
    let idea = start.idea.or_else(|| definition.idea.clone());
    let missing =
        || "no idea given; add one after the team file or set `[team] idea = \"…\"`".to_owned();
    let idea = idea.ok_or_else(|| LaunchError::Missing(missing()))?;
    let sandbox = WasmSandbox::new()?;
    let components = Components::load(&definition, &sandbox, report)?;
    let equipment = components.equip(&definition, sandbox, Own::of(&start.storage))?;
    for cut in definition.cut() {
        report(Notice::Note(&cut));
    }
    for doubt in doubts(&definition) {
        report(Notice::Warning(&doubt));
    }

    let (saved, makings) = (saved_definition(&definition), Makings::of(&definition));
    let mut env = Environment::new(&definition.team);
    // Saved from the start, so that a run that is killed before its first event is recorded can
    // still begin with it.
    env.idea = idea.clone();
    env.calls = start.calls;
    let (durability, keep) = (durability(&definition), definition.run.checkpoints_kept);
    let before = mark::known(&start.storage);
    let vacant = Directory::new(&start.storage).vacate(start.replace)?;
    if let Some(aside) = &vacant.moved_to {
        mark::carry(before, aside);
    }
    // Marked before the database is created, so that every database has a mark even if the process
    // is killed in between.
    mark_as_own(&start.storage, &saved, is_confined(&definition), report);
    let mut created = vacant.create(&env, &saved)?;
    share(&mut created.store, start.group.as_ref(), durability);
    let stepper = Stepper::new(Arc::new(definition.team), env);
    let journal = Journal::new(stepper, Box::new(created.store), FIRST_LINE, durability);
    let mut journal = journal.keep_checkpoints(keep).on_line(on_line);
    let started = journal
        .stepper()
        .started(run_id(&start.storage), idea, components.digests());
    journal.stage(started)?;
    journal.begin()?;
    let run = Run {
        control: None,
        driver: Driver::new(journal, equipment),
        path: start.storage,
        makings,
    };
    Ok(Started {
        run,
        moved_to: created.moved_to,
    })
}

/// Returns an id that no other run has. It is derived from the time, the process id, the path, and
/// a random number. In containers the first three are often equal, and a server that recognizes
/// repetitions by their keys would confuse the writes of two runs.
pub(super) fn run_id(storage: &Path) -> RunId {
    let seed = format!(
        "{}/{}/{}/{:x}",
        clock::now_ms(),
        std::process::id(),
        storage.display(),
        chance()
    );
    RunId(hex(&sha256(seed)[..6]))
}

/// Returns a random number that has not been used before.
pub(super) fn chance() -> u128 {
    let mut bytes = [0; 16];
    // On Linux this does not fail once the system has booted. If it does, the other parts of the
    // name remain.
    let _ = SystemRandom::new().fill(&mut bytes);
    u128::from_le_bytes(bytes)
}
