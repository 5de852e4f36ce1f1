//! A fresh run: the entry state is saved before anything runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_core::environment::Environment;
use strata_core::event::CallPolicy;
use strata_core::id::{RunId, hex};
use strata_core::stepper::Stepper;

use super::chance::chance;
use super::foreign::mark_as_own;
use super::{Components, LaunchError, Makings, Notice, Run, durability, saved_definition, share};
use crate::driver::{Driver, Journal, OnLine, clock};
use crate::manifest::{Definition, Overrides};
use crate::sandbox::{Own, WasmSandbox};
use crate::sha256::sha256;
use crate::store::{Directory, FIRST_LINE, GroupLog, Replace};
use crate::trust::mark;

/// What a fresh run is made of.
#[derive(Debug)]
pub struct Start<'a> {
    /// The team file.
    pub team: &'a Path,
    /// The idea, in place of the one in the file.
    pub idea: Option<String>,
    /// What the command line changes.
    pub overrides: &'a Overrides,
    /// Where it is saved.
    pub storage: &'a Path,
    /// What happens to an unfinished team there.
    pub replace: Replace,
    /// Which recorded host calls another attempt is served.
    pub calls: CallPolicy,
    /// A log to share with other teams of this process, if any.
    pub group: Option<&'a GroupLog>,
}

impl<'a> Start<'a> {
    /// A run of a team file with its own idea, saved where no unfinished team is.
    pub fn new(team: &'a Path, storage: &'a Path, overrides: &'a Overrides) -> Self {
        Self {
            team,
            idea: None,
            overrides,
            storage,
            replace: Replace::Never,
            calls: CallPolicy::Auto,
            group: None,
        }
    }
}

/// A fresh run.
pub struct Started {
    /// It.
    pub run: Run,
    /// Where the team went that was saved there before.
    pub moved_to: Option<PathBuf>,
}

/// Starts a fresh run. `report` is told what takes long; `on_line` every public line.
pub fn start(
    start: Start<'_>,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<Started, LaunchError> {
    let mut definition = Definition::read(start.team)?;
    definition.apply(start.overrides)?;
    let idea = start.idea.or_else(|| definition.idea.clone());
    let missing =
        || "no idea given; add one after the team file or set `[team] idea = \"…\"`".to_owned();
    let idea = idea.ok_or_else(|| LaunchError::Missing(missing()))?;
    let sandbox = WasmSandbox::new()?;
    let components = Components::load(&definition, &sandbox, report)?;
    let equipment = components.equip(&definition, sandbox, Own::of(start.storage))?;
    definition
        .cut()
        .iter()
        .for_each(|cut| report(Notice::Note(cut)));
    definition
        .doubts()
        .iter()
        .for_each(|doubt| report(Notice::Warning(doubt)));

    let (saved, makings) = (saved_definition(&definition), Makings::of(&definition));
    let mut env = Environment::new(&definition.team);
    // Kept from the first moment: who is killed before the first event is recorded can still begin with it.
    env.idea = idea.clone();
    env.calls = start.calls;
    let (durability, keep) = (durability(&definition), definition.run.checkpoints_kept);
    let before = mark::known(start.storage);
    let vacant = Directory::new(start.storage).vacate(start.replace)?;
    if let Some(aside) = &vacant.moved_to {
        mark::carry(before, aside);
    }
    // Before there is anything to resume: whoever is killed right after has a database with a mark.
    mark_as_own(start.storage, &saved, definition.is_confined(), report);
    let mut created = vacant.create(&env, &saved)?;
    share(&mut created.store, start.group, durability);
    let stepper = Stepper::new(Arc::new(definition.team), env);
    let journal = Journal::new(stepper, Box::new(created.store), FIRST_LINE, durability);
    let mut journal = journal.keep_checkpoints(keep).on_line(on_line);
    let started = journal
        .stepper()
        .started(run_id(start.storage), idea, components.digests());
    journal.stage(started)?;
    journal.begin()?;
    let run = Run {
        control: None,
        driver: Driver::new(journal, equipment),
        path: start.storage.into(),
        makings,
    };
    Ok(Started {
        run,
        moved_to: created.moved_to,
    })
}

/// A name that no other run has: of the time, the process, the place, and chance. In containers the first three are easily
/// the same, and whoever knows repetitions by their keys would take one run's writes for another's.
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
