//! Starts a new run. The initial state is saved before anything is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::clock;
use strata_base::files::sha256::sha256;
use strata_base::random_id::random_id;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{Digest, RunId, Slot, to_hex};
use strata_core::state::environment::Environment;
use strata_driver::telemetry::TelemetryExport;
use strata_driver::{Driver, Journal, LineListener};
use strata_manifest::{Definition, Overrides, is_confined, warnings};
use strata_sandbox::{HiddenStorage, SandboxError, WasmSandbox};
use strata_storage::{FIRST_LINE, KEPT_ASIDE, ReplacePolicy, StorageLocation};

use super::attached_files::AttachedFiles;
use super::beside::{Beside, with_beside};
use super::provenance::provenance_of;
use super::saved_team_file::mark_as_own;
use super::{Components, LaunchError, Notice, RunHandle, saved_definition};
use crate::storage_mark;

/// The arguments of a new run.
#[derive(Clone, Debug)]
pub struct Start {
    /// The team file.
    pub team: PathBuf,
    /// The idea. Replaces the one in the team file.
    pub idea: Option<String>,
    /// Images and files that belong to the idea.
    pub files: Vec<PathBuf>,
    /// The overrides of the command line.
    pub overrides: Overrides,
    /// Where the run is kept.
    pub storage: StorageLocation,
    /// What happens to an unfinished team that is saved there.
    pub replace: ReplacePolicy,
    /// Which recorded host calls are served to another attempt.
    pub calls: CallPolicy,
    /// The id of the run, which no other run may have. `None` makes one.
    pub run: Option<RunId>,
    /// The export to which what the team says about telemetry is applied.
    pub telemetry: TelemetryExport,
}

impl Start {
    /// Returns a run of a team file with its own idea, which fails if an unfinished team is saved
    /// in `storage`.
    pub fn new(
        team: impl Into<PathBuf>,
        storage: impl Into<StorageLocation>,
        overrides: Overrides,
    ) -> Self {
        Self {
            team: team.into(),
            idea: None,
            files: Vec::new(),
            overrides,
            storage: storage.into(),
            replace: ReplacePolicy::Never,
            calls: CallPolicy::Auto,
            run: None,
            telemetry: TelemetryExport::default(),
        }
    }
}

/// A new run.
pub struct StartedRun {
    /// The run.
    pub run: RunHandle,
    /// Where the team was moved that was saved there before.
    pub moved_to: Option<PathBuf>,
}

/// Starts a new run. `report` receives the slow operations that begin; `on_line` receives every
/// public event line.
pub fn start(
    start: Start,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<StartedRun, LaunchError> {
    with_beside(WasmSandbox::new, |sandbox| {
        start_in(sandbox, start, report, on_line)
    })
}

/// Starts a new run in a sandbox that is created at the same time.
fn start_in<F: FnOnce() -> Result<WasmSandbox, SandboxError>>(
    sandbox: Beside<'_, Result<WasmSandbox, SandboxError>, F>,
    start: Start,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<StartedRun, LaunchError> {
    let definition = read_definition(&start)?;
    apply_telemetry(&start.telemetry, &definition, report);
    let idea = start.idea.or_else(|| definition.idea.clone());
    let idea = idea.ok_or_else(LaunchError::missing_idea)?;
    let files = AttachedFiles::read(&start.files)?;
    let saved = saved_definition(&definition);
    let mut env = Environment::new(&definition.team);
    // Saved from the start, so that a run that is killed before its first event is recorded can
    // still begin with it.
    (env.idea, env.idea_parts) = (idea, files.parts);
    env.call_policy = start.calls;
    let prepare = || start.storage.prepare(&env, &saved, &files.blobs);
    let (sandbox, components, prepared) = with_beside(prepare, |prepared| {
        let sandbox = sandbox.wait()?;
        let components = Components::load(&definition, &sandbox, report)?;
        Ok::<_, LaunchError>((sandbox, components, prepared.wait()))
    })?;
    let services = components.services(
        &definition,
        sandbox,
        HiddenStorage::new(start.storage.local_paths()),
    )?;
    for cut in definition.describe_reductions() {
        report(Notice::Note(&cut));
    }
    for doubt in warnings(&definition) {
        report(Notice::Warning(&doubt));
    }

    let provenance = provenance_of(&definition);
    let (durability, keep) = (definition.run.durability, definition.run.checkpoints_kept);
    let before = storage_mark::known_definitions(&start.storage);
    let vacant = prepared?.vacate(start.replace)?;
    let moved_to = vacant.moved_to().map(Path::to_path_buf);
    if let Some(aside) = &moved_to {
        storage_mark::mark_copy(before, &start.storage.beside(aside));
    }
    // Before the run exists if that is possible, even if this process is killed.
    let is_confined = is_confined(&definition);
    let has_identity = vacant.has_identity();
    if has_identity {
        mark_as_own(&start.storage, (&saved).into(), is_confined, report);
    }
    let lease = vacant.create()?;
    if moved_to.is_some() && start.replace == ReplacePolicy::Unfinished {
        remove_oldest_aside(&start.storage, report);
    }
    if !has_identity {
        mark_as_own(&start.storage, (&saved).into(), is_confined, report);
    }
    let stepper = Stepper::new(Arc::new(definition.team), env);
    let journal = Journal::new(stepper, lease, FIRST_LINE, durability);
    let mut journal = journal
        .with_team_json(start.storage.team_json())
        .with_kept_checkpoints(keep)
        .with_listener(on_line);
    let run = start.run.unwrap_or_else(|| new_run_id(&start.storage));
    journal.stage(event_of_start(journal.stepper(), run, components.digests()))?;
    journal.begin()?;
    let run = RunHandle {
        control: None,
        driver: Driver::new(journal, services),
        location: start.storage,
        provenance,
    };
    Ok(StartedRun { run, moved_to })
}

/// Removes the oldest of the teams that were moved aside, so that their number is bounded.
fn remove_oldest_aside(storage: &StorageLocation, report: &mut dyn FnMut(Notice<'_>)) {
    for removed in storage.remove_oldest_aside() {
        let removed = removed.display();
        report(Notice::Note(&format!(
            "`{removed}`, which was moved aside earlier, was removed: the last {KEPT_ASIDE} are kept"
        )));
    }
}

/// Applies what a team says about telemetry. A run does not depend on it.
pub(super) fn apply_telemetry(
    export: &TelemetryExport,
    definition: &Definition,
    report: &mut dyn FnMut(Notice<'_>),
) {
    if let Err(why) = export.apply(&definition.telemetry) {
        report(Notice::Warning(&why));
    }
}

/// Reads the team file, with the overrides of the command line.
fn read_definition(start: &Start) -> Result<Definition, LaunchError> {
    let mut definition = Definition::read(&start.team)?;
    definition.apply_overrides(&start.overrides)?;
    Ok(definition)
}

/// Returns the event with which a run begins that is kept at a location: its saved idea is sent.
pub(super) fn first_event(
    stepper: &Stepper,
    location: &StorageLocation,
    components: BTreeMap<Slot, Digest>,
) -> Event {
    event_of_start(stepper, new_run_id(location), components)
}

/// Returns the event with which the run with this id begins.
fn event_of_start(stepper: &Stepper, run: RunId, components: BTreeMap<Slot, Digest>) -> Event {
    let idea = stepper.env().idea.clone();
    stepper.run_started_event(run, idea, components)
}

/// Returns an id that no other run has. It is derived from the time, the process id, the path, and
/// a random number. In containers the first three are often equal, and a server that recognizes
/// repetitions by their keys would confuse the writes of two runs.
fn new_run_id(storage: &StorageLocation) -> RunId {
    let seed = format!(
        "{}/{}/{}/{:x}",
        clock::now_ms(),
        std::process::id(),
        storage,
        random_id()
    );
    RunId(to_hex(&sha256(seed)[..6]))
}
