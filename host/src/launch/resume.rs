//! Resuming: opens what is saved, compares it with the team file, and continues.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use strata_core::environment::Environment;
use strata_core::event::{CallPolicy, Event};
use strata_core::id::{CheckpointId, Digest, Slot};
use strata_core::message::IDEA_LABEL;
use strata_core::money::Usd;
use strata_core::shape::Shape;
use strata_core::stepper::Stepper;
use strata_core::team::Team;

use super::back::Way;
use super::foreign::{define_saved, mark_as_own};
use super::saved::{definition as saved_definition_of, import};
use super::start::run_id;
use super::{
    Components, LaunchError, Makings, Notice, Run, SavedTeamFile, doubt, durability,
    saved_definition, share,
};
use crate::driver::{
    AnswerError, Driver, DriverError, Given, Journal, OnLine, Verdict, WhenIdle, judge, lapsed,
};
use crate::manifest::{Definition, Overrides, is_confined};
use crate::sandbox::{Own, WasmSandbox, real_path};
use crate::shell::path_word;
use crate::store::{
    At, Content, Directory, Durability, FIRST_LINE, Fill, GroupLog, Saved, SavedDefinition,
    SqliteStore, Store, StoreError, team_json,
};

/// The arguments of a resume.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The storage directory or its `team.json`.
    pub path: PathBuf,
    /// The team file, if not the saved one.
    pub team: Option<PathBuf>,
    /// Which saved team files may be used if none is given.
    pub saved_team_file: SavedTeamFile,
    /// What the command line changes.
    pub overrides: Overrides,
    /// Answers to open requests.
    pub answers: Vec<Given>,
    /// Which recorded host calls are served again.
    pub calls: CallPolicy,
    /// Whether to fail if the components differ from the saved ones.
    pub strict: bool,
    /// The checkpoint to resume from. `None` selects the newest.
    pub checkpoint: Option<CheckpointId>,
    /// Decisions about calls in doubt: `redo`, `skip` or a response, for all calls, or for one if
    /// its name and `=` precede it.
    pub in_doubt: Vec<String>,
    /// What happens once nothing is left to do. A finished team is resumed only if it is to stay.
    pub when_idle: WhenIdle,
    /// A log to share with other teams of this process.
    pub group: Option<GroupLog>,
}

impl Resume {
    /// Returns a resume of what is saved that changes nothing and ends when nothing is left to do.
    pub fn new(path: impl Into<PathBuf>, overrides: Overrides) -> Self {
        Self {
            path: path.into(),
            team: None,
            saved_team_file: SavedTeamFile::default(),
            overrides,
            answers: Vec::new(),
            calls: CallPolicy::Auto,
            strict: false,
            checkpoint: None,
            in_doubt: Vec::new(),
            when_idle: WhenIdle::End,
            group: None,
        }
    }
}

/// The outcome of a resume.
pub enum Resumed {
    /// The run continues.
    Goes(Box<Run>, Notes),
    /// The team was finished and was not to stay. Nothing is run.
    Finished(Box<Stepper>, Notes),
}

/// Information for the operator.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Whether the `team.json` beside the database was edited. The edits are ignored.
    pub team_json_differs: bool,
    /// Whether decisions about calls in doubt were given although there are none.
    pub nothing_in_doubt: bool,
    /// Whether no role has anything to do because the idea was never sent. MetaGPT saves teams in
    /// this state.
    pub unsent_idea: bool,
    /// What becomes of recorded writes, if that may be unexpected.
    pub writes: Vec<String>,
}

/// A saved team that was read and can be resumed. Nothing was changed yet.
pub(super) struct Opened {
    pub(super) directory: Directory,
    pub(super) definition: Definition,
    pub(super) stepper: Stepper,
    next_line: u64,
    pub(super) origin: Origin,
    pub(super) way: Way,
}

/// A function that reads the saved team file.
type SavedNow<'a> = Box<dyn FnOnce() -> Result<SavedDefinition, LaunchError> + 'a>;

/// Where a saved state comes from.
pub(super) enum Origin {
    /// The database.
    Database {
        store: Box<SqliteStore>,
        team_json_differs: bool,
    },
    /// A `team.json` without a database.
    TeamJson(Vec<u8>),
}

/// Runs `work` while the newest state is read. If no thread can be created, the state is read
/// afterwards.
fn load_beside<T>(
    store: &mut SqliteStore,
    work: impl FnOnce() -> T,
) -> (T, Result<Saved, StoreError>) {
    let reading = &mut *store;
    let (done, loaded) = thread::scope(|scope| {
        let loading = thread::Builder::new().spawn_scoped(scope, move || reading.load(&At::Head));
        let done = work();
        (
            done,
            loading.map(|loading| loading.join().unwrap_or_else(|panic| resume_unwind(panic))),
        )
    });
    (done, loaded.unwrap_or_else(|_| store.load(&At::Head)))
}

impl Opened {
    /// Opens what is saved at a path, with the given team file or the saved one.
    pub(super) fn open(resume: &Resume) -> Result<Self, LaunchError> {
        let storage = Directory::locate(&resume.path)?;
        Self::with(&resume.path, |saved| match &resume.team {
            Some(team) => define_given(team, &resume.overrides, saved),
            None => define_saved(
                storage.path(),
                &saved()?,
                &resume.overrides,
                resume.saved_team_file,
            ),
        })
    }

    /// Opens what is saved at a path in order to change it without running anything. The files that
    /// the team file names need not exist.
    pub(super) fn at_rest(path: &Path) -> Result<Self, LaunchError> {
        Self::with(path, |saved| {
            super::define_again(&saved()?, Definition::parse_alone)
        })
    }

    fn with(
        path: &Path,
        define: impl FnOnce(SavedNow<'_>) -> Result<Definition, LaunchError>,
    ) -> Result<Self, LaunchError> {
        let directory = Directory::locate(path)?;
        match directory.team()? {
            Content::Database => {
                let opened = directory.open()?;
                let (mut store, team_json_differs) = (opened.store, opened.team_json_differs);
                let saved = store.definition();
                // Parsing a large team file takes about as long as reading its state.
                let (definition, saved) =
                    load_beside(&mut store, || define(Box::new(|| Ok(saved?))));
                let (definition, saved) = (definition?, saved?);
                fits(&saved.base, &definition.team)?;
                let mut stepper = Stepper::new(Arc::new(definition.team.clone()), saved.base);
                for record in &saved.tail {
                    stepper.apply(&record.event).map_err(DriverError::from)?;
                }
                let origin = Origin::Database {
                    store: Box::new(store),
                    team_json_differs,
                };
                Ok(Self {
                    directory,
                    definition,
                    stepper,
                    next_line: saved.next_line,
                    origin,
                    way: Way::On,
                })
            }
            _ => {
                let bytes = directory.read_team_json()?;
                let definition = define(Box::new(|| saved_definition_of(&directory, &bytes)))?;
                let env = import(&directory, &definition.team, &bytes)?;
                fits(&env, &definition.team)?;
                let stepper = Stepper::new(Arc::new(definition.team.clone()), env);
                let origin = Origin::TeamJson(bytes);
                Ok(Self {
                    directory,
                    definition,
                    stepper,
                    next_line: FIRST_LINE,
                    origin,
                    way: Way::On,
                })
            }
        }
    }

    /// Opens a journal that continues at the end of the records, according to the resume plan. A
    /// `team.json` alone is converted to a database here.
    pub(super) fn journal(
        self,
        group: Option<&GroupLog>,
    ) -> Result<(Journal, Directory), LaunchError> {
        let mut store = match self.origin {
            Origin::Database { store, .. } => *store,
            Origin::TeamJson(bytes) => self.directory.adopt(
                &bytes,
                self.stepper.env(),
                &saved_definition(&self.definition),
            )?,
        };
        let durability = durability(&self.definition);
        share(&mut store, group, durability);
        let mut journal = Journal::new(self.stepper, Box::new(store), self.next_line, durability)
            .keep_checkpoints(self.definition.run.checkpoints_kept);
        match self.way {
            Way::On => {}
            Way::Over { lineage, .. } => journal.store().turn_to(&lineage)?,
            Way::Aside(event) => journal.stage(*event)?,
        }
        Ok((journal, self.directory))
    }

    /// Returns whether anything was recorded. Nothing was if the run was killed just after its
    /// database was created.
    pub(super) fn has_begun(&self) -> bool {
        !self.stepper.env().run.0.is_empty()
    }

    /// Checks answers against the open requests.
    pub(super) fn judge(&self, given: &[Given]) -> Result<Vec<Verdict>, AnswerError> {
        judge(self.stepper.env(), given)
    }

    /// Ends the resume of a finished team, whose state does not change. Writes `team.json` if the
    /// run was killed before it could do so.
    fn finish(mut self) -> Result<Resumed, LaunchError> {
        let notes = self.notes();
        if let (Way::Over { lineage, .. }, Origin::Database { store, .. }) =
            (&self.way, &mut self.origin)
        {
            store.turn_to(lineage)?;
            project(store, &self.stepper)?;
        } else if let Origin::Database {
            mut store,
            team_json_differs: false,
        } = self.origin
        {
            let saved = self.directory.read_team_json();
            let checkpoint = self.stepper.env().checkpoint.as_ref();
            if !saved.is_ok_and(|bytes| team_json::is_finished_at(&bytes, checkpoint)) {
                project(&mut store, &self.stepper)?;
            }
        }
        Ok(Resumed::Finished(Box::new(self.stepper), notes))
    }

    /// Returns the events for the components that differ from the saved ones.
    pub(super) fn changes(&self, components: &Components) -> Vec<Event> {
        if self.has_begun() {
            changes(self.stepper.env(), components.digests())
        } else {
            Vec::new()
        }
    }

    /// Fails if there are such components.
    fn refuse(&self, changes: &[Event]) -> Result<(), LaunchError> {
        let differences: Vec<String> = changes
            .iter()
            .map(|event| difference(&self.definition, event))
            .collect();
        if differences.is_empty() {
            Ok(())
        } else {
            Err(LaunchError::Unfit(differences))
        }
    }

    fn notes(&self) -> Notes {
        let team_json_differs = matches!(
            self.origin,
            Origin::Database {
                team_json_differs: true,
                ..
            }
        );
        Notes {
            team_json_differs,
            ..Notes::default()
        }
    }
}

/// Writes `team.json` with the state of the team.
fn project(store: &mut SqliteStore, stepper: &Stepper) -> Result<(), StoreError> {
    let definition = store.definition()?;
    let fill: &Fill<'_> = &|out| team_json::write(stepper.team(), stepper.env(), &definition, out);
    store.write_team_json(fill, Durability::Full)
}

/// Resumes what is saved. `report` receives the slow operations that begin; `on_line` receives
/// every public event line.
pub fn resume(
    resume: Resume,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<Resumed, LaunchError> {
    let mut opened = Opened::open(&resume)?;
    if resume.team.is_none() {
        if let Some(line) = moved(&opened.definition, opened.directory.path()) {
            report(Notice::Warning(&line));
        }
    }
    if let Some(checkpoint) = &resume.checkpoint {
        opened.go_back(checkpoint)?;
    }
    let mut verdicts = opened.judge(&resume.answers)?;
    let env = opened.stepper.env();
    verdicts.extend(lapsed(env));
    let is_finished = env.is_finished() && resume.when_idle == WhenIdle::End;
    if is_finished && !resume.strict {
        return opened.finish();
    }
    let sandbox = WasmSandbox::new()?;
    let components = Components::load(&opened.definition, &sandbox, report)?;
    if is_finished {
        opened.refuse(&opened.changes(&components))?;
        return opened.finish();
    }
    let continuation = Continuation {
        components,
        sandbox,
        resume: &resume,
        verdicts,
    };
    let (run, notes) = go_on(opened, continuation, report, on_line)?;
    Ok(Resumed::Goes(Box::new(run), notes))
}

/// What a saved team continues with.
pub(super) struct Continuation<'a> {
    pub(super) components: Components,
    pub(super) sandbox: WasmSandbox,
    pub(super) resume: &'a Resume,
    pub(super) verdicts: Vec<Verdict>,
}

/// Continues a team that was opened, according to its resume plan.
pub(super) fn go_on(
    opened: Opened,
    continuation: Continuation<'_>,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<(Run, Notes), LaunchError> {
    let Continuation {
        components,
        sandbox,
        resume,
        verdicts,
    } = continuation;
    let (definition, env) = (&opened.definition, opened.stepper.env());
    let begun = opened.has_begun();
    let changes = opened.changes(&components);
    if resume.strict {
        opened.refuse(&changes)?;
    }
    let equipment = components.equip(definition, sandbox, Own::of(opened.directory.path()))?;
    for cut in definition.cut() {
        report(Notice::Note(&cut));
    }
    let budget = budget_after_resume(definition, resume, env);
    let mut notes = opened.notes();
    let (saved, makings) = (saved_definition(definition), Makings::of(definition));
    let is_confined = is_confined(&definition);
    let mut settled = Vec::new();
    if begun {
        let stepper = after_resume(&opened.stepper, &verdicts, &changes, budget, resume.calls)?;
        settled = doubt::settle(&stepper, &resume.in_doubt, resume.calls)?;
        notes.nothing_in_doubt = settled.is_empty() && !resume.in_doubt.is_empty();
        notes.unsent_idea = has_unsent_idea(env);
        notes.writes = doubt::recorded_writes(&stepper, &changes);
    }
    let elsewhere = opened.way.spent();
    let (journal, directory) = opened.journal(resume.group.as_ref())?;
    let mut journal = journal.on_line(on_line);
    let is_new = resume.team.is_some() || !resume.overrides.components.is_empty();
    if is_new || resume.saved_team_file == SavedTeamFile::Trusted {
        mark_as_own(directory.path(), &saved, is_confined, report);
    }
    if is_new {
        journal.store().set_definition(&saved)?;
    }
    journal.settle(verdicts)?;
    let event = if begun {
        let spent = journal.store().spent()?.max(elsewhere);
        journal.stepper().resumed_with(spent, budget, resume.calls)
    } else {
        let (run, idea) = (run_id(directory.path()), journal.env().idea.clone());
        journal.stepper().started(run, idea, components.digests())
    };
    journal.stage(event)?;
    for event in changes.into_iter().chain(settled) {
        journal.stage(event)?;
    }
    journal.flush()?;
    let driver = Driver::new(journal, equipment);
    Ok((
        Run {
            control: None,
            driver,
            path: directory.path().into(),
            makings,
        },
        notes,
    ))
}

/// Returns the budget of the resumed run. That of the arguments takes precedence over the saved one.
fn budget_after_resume(definition: &Definition, resume: &Resume, env: &Environment) -> Option<Usd> {
    let is_given =
        resume.overrides.investment.is_some() || (resume.team.is_some() && definition.says_budget);
    definition.within_budget(if is_given {
        definition.team.policy.budget
    } else {
        env.budget
    })
}

/// Returns the state after the resume, in which the calls in doubt can be seen.
fn after_resume(
    stepper: &Stepper,
    verdicts: &[Verdict],
    changes: &[Event],
    budget: Option<Usd>,
    calls: CallPolicy,
) -> Result<Stepper, DriverError> {
    let mut stepper = stepper.clone();
    for (role, answer) in verdicts {
        if let Some(answered) = stepper.request_answered(*role, answer.clone()) {
            stepper.apply(&answered)?;
        }
    }
    let resumed = stepper.resumed(budget, calls);
    stepper.apply(&resumed)?;
    for event in changes {
        stepper.apply(event)?;
    }
    Ok(stepper)
}

/// Returns whether nothing happens because the idea was never sent.
fn has_unsent_idea(env: &Environment) -> bool {
    let is_said = env
        .messages
        .iter()
        .any(|message| message.cause_by == IDEA_LABEL || message.content == env.idea);
    env.is_drained() && !env.idea.is_empty() && !is_said
}

/// Returns a warning if the storage is near another team file of the same name than the one it
/// uses: it was copied or moved, and the files that its team file names are still in the old place.
fn moved(definition: &Definition, storage: &Path) -> Option<String> {
    /// The maximum number of directory levels between the storage and a team file that belongs to
    /// it.
    const NEAR: usize = 4;
    let (base, storage) = (
        real_path(&definition.source.base),
        real_path(&std::path::absolute(storage).ok()?),
    );
    let name = Path::new(&definition.source.name).file_name()?;
    let beside = storage
        .ancestors()
        .skip(1)
        .take(NEAR)
        .map(|above| above.join(name))
        .find(|file| file.is_file())?;
    let own = base.join(name);
    (beside != own && !storage.starts_with(&base)).then(|| {
        let (team, storage) = (path_word(&beside), path_word(&storage));
        let (own, beside) = (own.display(), beside.display());
        format!(
            "the team goes by `{own}` and the files beside that; to go by `{beside}`: `strata-host run {team} \
             --recover_path {storage}`"
        )
    })
}

/// Reads the team file that was given for the resume.
fn define_given(
    team: &Path,
    overrides: &Overrides,
    saved: SavedNow<'_>,
) -> Result<Definition, LaunchError> {
    let mut definition = Definition::read(team)?;
    // If the previous team file set a budget and the given one does not, there is none.
    let named =
        || super::define_again(&saved()?, Definition::parse_alone).map(|before| before.says_budget);
    definition.says_budget = definition.says_budget || named().unwrap_or(false);
    definition.apply(overrides)?;
    Ok(definition)
}

pub(super) fn fits(env: &Environment, team: &Team) -> Result<(), LaunchError> {
    let differences = env.shape.differences(&Shape::of(team));
    if differences.is_empty() {
        Ok(())
    } else {
        Err(LaunchError::Unfit(differences))
    }
}

/// Returns an event for each component that was replaced.
fn changes(env: &Environment, now: BTreeMap<Slot, Digest>) -> Vec<Event> {
    let changed = now
        .into_iter()
        .filter(|(slot, digest)| env.components.get(slot) != Some(digest));
    changed
        .map(|(slot, new)| Event::ComponentChanged {
            slot,
            old: env.components.get(&slot).cloned(),
            new,
        })
        .collect()
}

fn difference(definition: &Definition, event: &Event) -> String {
    let Event::ComponentChanged { slot, old, new } = event else {
        return String::new();
    };
    let place = definition.team.slot_name(*slot);
    let old = old.as_ref().map_or("nothing", |digest| digest.0.as_str());
    format!("component of `{place}` is `{new}`, saved `{old}`")
}
