//! Replays a saved team: loads its components and repeats its recorded attempts. Nothing that is
//! saved changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use strata_base::text::suggest::suggest;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, FilesWritten};
use strata_core::record::file::PathContent;
use strata_driver::replay::{
    AttemptSelection, OnDifference, RecordedFiles, ReplayControl, ReplayReport, ReplaySession,
    Replayer,
};
use strata_manifest::{Definition, Overrides};
use strata_sandbox::{HiddenStorage, WasmSandbox};
use strata_services::models::config::ModelsConfig;
use strata_storage::{Reader, StorageLocation};

use super::opened_team::check_shape;
use super::saved_team_file::definition_from_saved;
use super::{Components, LaunchError, Notice, SavedTeamFile};

/// The arguments of a replay.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// Where the run is kept.
    pub storage: StorageLocation,
    /// The team file, if not the saved one.
    pub team: Option<PathBuf>,
    /// Which saved team files may be used if none is given.
    pub saved_team_file: SavedTeamFile,
    /// Overrides of the team file: components, and the policies that bind what is run here.
    pub overrides: Overrides,
    /// The lineage, if not the current one.
    pub lineage: Option<String>,
    /// The attempts to repeat.
    pub selection: AttemptSelection,
    /// What to do at the first difference.
    pub on_difference: OnDifference,
}

/// Repeats recorded attempts and compares the results. `report` receives the slow operations that
/// begin, and notes about events that were pruned.
pub async fn replay(
    replay: ReplayRequest,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<ReplayReport, LaunchError> {
    let mut reader = replay.storage.read()?;
    if let Some(lineage) = &replay.lineage {
        reader.switch_lineage(lineage)?;
    }
    let definition = match &replay.team {
        Some(team) => {
            let mut definition = Definition::read(team)?;
            definition.apply_overrides(&replay.overrides)?;
            definition
        }
        None => definition_from_saved(
            &replay.storage,
            &reader.definition()?,
            &replay.overrides,
            replay.saved_team_file,
        )?,
    };
    for line in definition.describe_reductions() {
        report(Notice::Note(&line));
    }
    if let Some(action) = &replay.selection.action {
        check_action(&definition, action)?;
    }
    let beginning = reader.earliest_state()?;
    check_shape(&beginning.env, &definition.team)?;
    if beginning.dropped > 0 {
        let dropped = beginning.dropped;
        report(Notice::Note(&format!(
            "the first {dropped} events were pruned; what they tell of is not made again"
        )));
    }
    let sandbox = WasmSandbox::one_shot()?;
    let components = Components::load(&definition, &sandbox, report)?;
    let own = HiddenStorage::new(replay.storage.local_paths());
    let services = components.offline_services(&definition, sandbox, own)?;
    let plugins: BTreeMap<_, _> = services.plugins.clone();
    let models = definition.llm.as_ref().map(ModelsConfig::names);
    let stepper = Stepper::new(Arc::new(definition.team.clone()), beginning.env);
    let reader: Rc<dyn Reader> = Rc::from(reader);
    let blob_reader = Rc::clone(&reader);
    let files = RecordedFiles {
        before: contents_before(reader.as_ref(), beginning.position)?,
        blobs: Box::new(move |digest| blob_reader.blob(digest)),
    };
    let rerun = Replayer::new(stepper, services, models, files);
    let mut session = ReplaySession::new(
        rerun,
        plugins,
        components.digests(),
        replay.selection,
        replay.on_difference,
    );
    for record in reader.records_after(beginning.position) {
        if session.handle_event(&record?.event).await? == ReplayControl::Stop {
            break;
        }
    }
    Ok(session.into_report())
}

/// Fails if the team has no action of this name.
fn check_action(definition: &Definition, action: &String) -> Result<(), LaunchError> {
    let names: Vec<String> = definition
        .plugins
        .keys()
        .map(|slot| definition.team.slot_name(*slot))
        .collect();
    if names.contains(action) {
        return Ok(());
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = suggest(action, &known);
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Err(LaunchError::InvalidInput(format!(
        "the team has no action `{action}`{hint}"
    )))
}

/// Returns what was at each path before the first action changed it. Later attempts and later
/// observers find other contents there.
fn contents_before(
    reader: &dyn Reader,
    from: u64,
) -> Result<BTreeMap<String, PathContent>, LaunchError> {
    let mut before = BTreeMap::new();
    for record in reader.records_after(from) {
        let Event::Attempt(_, AttemptEvent::FilesWritten(FilesWritten { files })) = record?.event
        else {
            continue;
        };
        for change in files {
            before.entry(change.path).or_insert(change.before);
        }
    }
    Ok(before)
}
