//! A resume: what is saved is opened, held against the team, and gone on from.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use strata_core::environment::Environment;
use strata_core::event::{CallPolicy, Event};
use strata_core::id::{CheckpointId, Digest, Slot};
use strata_core::message::IDEA_LABEL;
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
use crate::manifest::{Definition, Overrides};
use crate::sandbox::{Own, WasmSandbox, real_path};
use crate::shell::path_word;
use crate::store::{
    At, Content, Directory, Durability, FIRST_LINE, Fill, GroupLog, Saved, SavedDefinition,
    SqliteStore, Store, StoreError, team_json,
};

/// What a resume is made of.
#[derive(Debug)]
pub struct Resume<'a> {
    /// The storage directory or its `team.json`.
    pub path: &'a Path,
    /// The team file, where it is not the saved one.
    pub team: Option<&'a Path>,
    /// Which saved team files are used where none is given.
    pub saved_team_file: SavedTeamFile,
    /// What the command line changes.
    pub overrides: &'a Overrides,
    /// Answers for what is open.
    pub answers: &'a [Given],
    /// Which recorded host calls are served again.
    pub calls: CallPolicy,
    /// Whether other components than the saved ones are refused.
    pub strict: bool,
    /// The checkpoint it goes on from; the newest where none is named.
    pub checkpoint: Option<&'a CheckpointId>,
    /// What becomes of calls in doubt: `redo`, `skip` or a response, for all or behind a name and `=`.
    pub in_doubt: &'a [String],
    /// What will happen once nothing is left to do. A finished team is woken only to stay.
    pub when_idle: WhenIdle,
    /// A log to share with other teams of this process, if any.
    pub group: Option<&'a GroupLog>,
}

impl<'a> Resume<'a> {
    /// What is saved goes on as it is, and ends when nothing is left to do.
    pub fn new(path: &'a Path, overrides: &'a Overrides) -> Self {
        Self {
            path,
            team: None,
            saved_team_file: SavedTeamFile::default(),
            overrides,
            answers: &[],
            calls: CallPolicy::Auto,
            strict: false,
            checkpoint: None,
            in_doubt: &[],
            when_idle: WhenIdle::End,
            group: None,
        }
    }
}

/// What became of a resume.
pub enum Resumed {
    /// The run goes on.
    Goes(Box<Run>, Notes),
    /// The team was finished, and was not to stay; nothing is run.
    Finished(Box<Stepper>, Notes),
}

/// What the operator should know.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Whether somebody changed the `team.json` beside the database, which is not looked at.
    pub team_json_differs: bool,
    /// Whether something was said of calls in doubt and none is.
    pub nothing_in_doubt: bool,
    /// Whether nobody has anything to do because the idea was never sent: so other programs save a team.
    pub unsent_idea: bool,
    /// What becomes of recorded writes, where that is not what one would expect.
    pub writes: Vec<String>,
}

/// A saved team that was read, to be gone on from. Nothing was changed yet.
pub(super) struct Opened {
    pub(super) directory: Directory,
    pub(super) definition: Definition,
    pub(super) stepper: Stepper,
    next_line: u64,
    pub(super) origin: Origin,
    pub(super) way: Way,
}

/// Reads the team file that is saved, if that is needed.
type SavedNow<'a> = Box<dyn FnOnce() -> Result<SavedDefinition, LaunchError> + 'a>;

/// Where a saved state came from.
pub(super) enum Origin {
    /// The database.
    Database {
        store: Box<SqliteStore>,
        team_json_differs: bool,
    },
    /// A `team.json` alone.
    TeamJson(Vec<u8>),
}

/// Does something while the newest state is read; one after the other where no thread can be had for it.
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
    /// Opens what is saved at a path, with the team file given or the saved one.
    pub(super) fn open(resume: &Resume<'_>) -> Result<Self, LaunchError> {
        let storage = Directory::locate(resume.path)?;
        Self::with(resume.path, |saved| match resume.team {
            Some(team) => define_given(team, resume.overrides, saved),
            None => define_saved(
                storage.path(),
                &saved()?,
                resume.overrides,
                resume.saved_team_file,
            ),
        })
    }

    /// Opens what is saved at a path, to change it without running anything: what the team file names need not be there.
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
                // To read a large team takes about as long as to read what it has said.
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

    /// A journal that goes on where the records end, or on the way that was chosen; a `team.json` alone gets a
    /// database now.
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

    /// Whether anything was recorded. A run that was killed just after its database was made has not begun.
    pub(super) fn has_begun(&self) -> bool {
        !self.stepper.env().run.0.is_empty()
    }

    /// Holds answers against what is open.
    pub(super) fn judge(&self, given: &[Given]) -> Result<Vec<Verdict>, AnswerError> {
        judge(self.stepper.env(), given)
    }

    /// Ends the resume of a finished team, whose state is not changed. Where the run was killed before it could save
    /// `team.json`, that is made up for.
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

    /// The components that are others than the saved ones.
    pub(super) fn changes(&self, components: &Components) -> Vec<Event> {
        if self.has_begun() {
            changes(self.stepper.env(), components.digests())
        } else {
            Vec::new()
        }
    }

    /// Refuses such components.
    fn refuse(&self, changes: &[Event]) -> Result<(), LaunchError> {
        let told: Vec<String> = changes
            .iter()
            .map(|event| difference(&self.definition, event))
            .collect();
        if told.is_empty() {
            Ok(())
        } else {
            Err(LaunchError::Unfit(told))
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

/// Writes `team.json` as a team stands.
fn project(store: &mut SqliteStore, stepper: &Stepper) -> Result<(), StoreError> {
    let definition = store.definition()?;
    let fill: &Fill<'_> = &|out| team_json::write(stepper.team(), stepper.env(), &definition, out);
    store.write_team_json(fill, Durability::Full)
}

/// Goes on from what is saved. `report` is told what takes long; `on_line` every public line.
pub fn resume(
    resume: Resume<'_>,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<Resumed, LaunchError> {
    let mut opened = Opened::open(&resume)?;
    if resume.team.is_none() {
        moved(&opened.definition, opened.directory.path())
            .iter()
            .for_each(|line| report(Notice::Warning(line)));
    }
    if let Some(checkpoint) = resume.checkpoint {
        opened.go_back(checkpoint)?;
    }
    let mut verdicts = opened.judge(resume.answers)?;
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
    let (run, notes) = go_on(
        opened,
        (components, sandbox),
        (&resume, verdicts),
        report,
        on_line,
    )?;
    Ok(Resumed::Goes(Box::new(run), notes))
}

/// Goes on with a team that was opened, and perhaps turned to another way, with these components.
pub(super) fn go_on(
    opened: Opened,
    (components, sandbox): (Components, WasmSandbox),
    (resume, verdicts): (&Resume<'_>, Vec<Verdict>),
    report: &mut dyn FnMut(Notice<'_>),
    on_line: OnLine,
) -> Result<(Run, Notes), LaunchError> {
    let (definition, env) = (&opened.definition, opened.stepper.env());
    let begun = opened.has_begun();
    let changes = opened.changes(&components);
    if resume.strict {
        opened.refuse(&changes)?;
    }
    let equipment = components.equip(definition, sandbox, Own::of(opened.directory.path()))?;
    definition
        .cut()
        .iter()
        .for_each(|cut| report(Notice::Note(cut)));
    let is_said =
        resume.overrides.investment.is_some() || (resume.team.is_some() && definition.says_budget);
    let budget = definition.within_budget(if is_said {
        definition.team.policy.budget
    } else {
        env.budget
    });
    let mut notes = opened.notes();
    let (saved, makings) = (saved_definition(definition), Makings::of(definition));
    let is_confined = definition.is_confined();
    let mut settled = Vec::new();
    if begun {
        // As it will be once it goes on: then it shows what is in doubt.
        let mut stepper = opened.stepper.clone();
        for (role, answer) in &verdicts {
            if let Some(answered) = stepper.request_answered(*role, answer.clone()) {
                stepper.apply(&answered).map_err(DriverError::from)?;
            }
        }
        let resumed = stepper.resumed(budget, resume.calls);
        [&resumed]
            .into_iter()
            .chain(&changes)
            .try_for_each(|event| stepper.apply(event))
            .map_err(DriverError::from)?;
        settled = doubt::settle(&stepper, resume.in_doubt, resume.calls)?;
        notes.nothing_in_doubt = settled.is_empty() && !resume.in_doubt.is_empty();
        notes.unsent_idea = has_unsent_idea(env);
        notes.writes = doubt::recorded_writes(&stepper, &changes);
    }
    let elsewhere = opened.way.spent();
    let (journal, directory) = opened.journal(resume.group)?;
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
    changes
        .into_iter()
        .chain(settled)
        .try_for_each(|event| journal.stage(event))?;
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

/// Whether nothing happens since nothing was ever said.
fn has_unsent_idea(env: &Environment) -> bool {
    let is_said = env
        .messages
        .iter()
        .any(|message| message.cause_by == IDEA_LABEL || message.content == env.idea);
    env.is_drained() && !env.idea.is_empty() && !is_said
}

/// What to say where a team was saved beside another team file than the one it goes by: it was copied, or moved, and the
/// files that its own names lie where they lay.
fn moved(definition: &Definition, storage: &Path) -> Option<String> {
    /// How far above the storage a team file belongs to it.
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

/// The team file that was given to go on with.
fn define_given(
    team: &Path,
    overrides: &Overrides,
    saved: SavedNow<'_>,
) -> Result<Definition, LaunchError> {
    let mut definition = Definition::read(team)?;
    // A cap that it named and names no more is none.
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

/// The components that were replaced.
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
