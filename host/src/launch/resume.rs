//! Resuming: opens what is saved, compares it with the team file, and continues.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::clock::now_ms;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{ComponentChanged, Event};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::CheckpointId;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::money::Usd;
use strata_core::record::questions::AskedQuestions;
use strata_core::state::environment::Environment;
use strata_driver::metrics::FleetMember;
use strata_driver::telemetry::TelemetryExport;
use strata_driver::{
    Driver, DriverError, HostServices, HumanReply, Journal, LineListener, RequestResolution,
    RevisedCalls, SpanLabels, WhenIdle, expired_requests, revised_calls,
};
use strata_manifest::{Definition, Overrides, is_confined};
use strata_sandbox::{HiddenStorage, WasmSandbox};
use strata_storage::{Durability, Lease, StorageLocation, StoreError};

use super::amend::{amend_before_resume, is_submitted_run};
use super::attached_files::restore_media;
use super::beside::run_beside;
use super::opened_team::{OpenedTeam, ReadSavedDefinition, ResumePlan, StateAuthor, StateOrigin};
use super::provenance::provenance_of;
use super::saved_team_file::{
    definition_from_saved, mark_as_own, mark_state_as_own, warn_if_moved,
};
use super::start::{apply_telemetry, first_event};
use super::submitted::restore_workspace;
use super::{
    Author, Components, DoubtDecision, LaunchError, Notice, RunHandle, SavedTeamFile, in_doubt,
    saved_definition,
};

/// The arguments of a resume.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Where the run is kept.
    pub storage: StorageLocation,
    /// The team file, if not the saved one.
    pub team: Option<PathBuf>,
    /// Which saved team files may be used if none is given.
    pub saved_team_file: SavedTeamFile,
    /// What the command line changes.
    pub overrides: Overrides,
    /// Answers to open requests.
    pub answers: Vec<HumanReply>,
    /// Which recorded host calls are served again.
    pub calls: CallPolicy,
    /// Whether to fail if the components differ from the saved ones.
    pub strict: bool,
    /// The checkpoint to resume from. `None` selects the newest.
    pub checkpoint: Option<CheckpointId>,
    /// Decisions about calls in doubt.
    pub in_doubt: Vec<DoubtDecision>,
    /// Who asks for it, as it is recorded.
    pub by: Option<Author>,
    /// Images and files whose bytes a `team.json` alone does not contain.
    pub files: Vec<PathBuf>,
    /// What happens once nothing is left to do. A finished team is resumed only if it is to stay.
    pub when_idle: WhenIdle,
    /// The export to which what the team says about telemetry is applied, unless somebody else submitted it.
    pub telemetry: TelemetryExport,
}

impl Resume {
    /// Returns a resume of what is saved that changes nothing and ends when nothing is left to do.
    pub fn new(storage: impl Into<StorageLocation>, overrides: Overrides) -> Self {
        Self {
            storage: storage.into(),
            team: None,
            saved_team_file: SavedTeamFile::default(),
            overrides,
            answers: Vec::new(),
            calls: CallPolicy::Auto,
            strict: false,
            checkpoint: None,
            in_doubt: Vec::new(),
            by: None,
            files: Vec::new(),
            when_idle: WhenIdle::End,
            telemetry: TelemetryExport::default(),
        }
    }
}

/// The outcome of a resume.
pub enum ResumeOutcome {
    /// The run continues.
    Running(Box<RunHandle>, ResumeNotes),
    /// The team was finished and was not to stay. Nothing is run.
    Finished(Box<Stepper>, ResumeNotes),
}

/// Information for the operator.
#[derive(Clone, Debug, Default)]
pub struct ResumeNotes {
    /// Whether the `team.json` beside the database was edited. The edits are ignored.
    pub team_json_differs: bool,
    /// Whether decisions about calls in doubt were given although there are none.
    pub nothing_in_doubt: bool,
    /// Whether no role has anything to do because the idea was never sent. MetaGPT saves teams in
    /// this state.
    pub unsent_idea: bool,
    /// What becomes of recorded writes, if that may be unexpected.
    pub writes: Vec<String>,
    /// The images and files of messages whose bytes are not saved, by name.
    pub missing_media: Vec<String>,
}

impl OpenedTeam {
    /// Opens what is saved at a path, with the given team file or the saved one.
    pub(super) fn open(resume: &Resume) -> Result<Self, LaunchError> {
        Self::open_with(
            &resume.storage,
            StorageLocation::open,
            |saved| match &resume.team {
                Some(team) => read_given_definition(team, &resume.overrides, saved),
                None => definition_from_saved(
                    &resume.storage,
                    &saved()?,
                    &resume.overrides,
                    resume.saved_team_file,
                ),
            },
        )
    }

    /// Ends the resume of a finished team, whose state does not change. Writes `team.json` if the
    /// run was killed before it could do so.
    fn finish(mut self) -> Result<ResumeOutcome, LaunchError> {
        let notes = self.notes();
        if let (ResumePlan::SwitchLineage { lineage, .. }, StateOrigin::Records { lease, .. }) =
            (&self.plan, &mut self.origin)
        {
            lease.switch_lineage(lineage)?;
            write_team_json(&self.location, lease.as_mut(), &self.stepper)?;
        } else if let StateOrigin::Records {
            mut lease,
            team_json_differs: false,
        } = self.origin
        {
            let saved = self.location.read_team_json();
            let checkpoint = self.stepper.env().checkpoint.as_ref();
            if !saved.is_ok_and(|bytes| strata_team_json::is_finished_at(&bytes, checkpoint)) {
                write_team_json(&self.location, lease.as_mut(), &self.stepper)?;
            }
        }
        Ok(ResumeOutcome::Finished(Box::new(self.stepper), notes))
    }

    /// Fails if there are such components.
    fn refuse_changes(&self, changes: &[Event]) -> Result<(), LaunchError> {
        let differences: Vec<String> = changes
            .iter()
            .map(|event| describe_change(&self.definition, event))
            .collect();
        if differences.is_empty() {
            Ok(())
        } else {
            Err(LaunchError::Mismatch(differences))
        }
    }

    /// Returns whether messages may have images and files whose bytes are not saved.
    fn may_lack_media(&self) -> bool {
        matches!(self.origin, StateOrigin::TeamJson(_))
    }

    fn notes(&self) -> ResumeNotes {
        let team_json_differs = matches!(
            self.origin,
            StateOrigin::Records {
                team_json_differs: true,
                ..
            }
        );
        ResumeNotes {
            team_json_differs,
            ..ResumeNotes::default()
        }
    }
}

/// Writes `team.json` with the state of the team, if it has one.
fn write_team_json(
    location: &StorageLocation,
    lease: &mut dyn Lease,
    stepper: &Stepper,
) -> Result<(), StoreError> {
    match location.team_json() {
        Some(file) => file.write_state(lease, stepper, Durability::Full),
        None => Ok(()),
    }
}

/// Resumes what is saved. `report` receives the slow operations that begin; `on_line` receives
/// every public event line.
pub fn resume(
    mut resume: Resume,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<ResumeOutcome, LaunchError> {
    let changes_team = resume.team.is_some() || !resume.overrides.components.is_empty();
    if changes_team && is_submitted_run(&resume.storage)? {
        amend_before_resume(&resume, report)?;
        resume.team = None;
        resume.overrides.components.clear();
    }
    let (sandbox, opened) = run_beside(WasmSandbox::new, || OpenedTeam::open(&resume));
    let mut opened = opened?;
    if resume.team.is_none()
        && let Some((line, advice)) = warn_if_moved(&opened.definition, &opened.location)
    {
        report(Notice::AdvisedWarning(&line, &advice));
    }
    if let Some(checkpoint) = &resume.checkpoint {
        opened.select_checkpoint(checkpoint)?;
    }
    let mut verdicts = opened.check_answers(&resume.answers)?;
    verdicts.extend(expired_requests(opened.stepper_to_continue()?.env()));
    let env = opened.stepper.env();
    let is_finished = env.is_finished() && resume.when_idle == WhenIdle::End;
    if is_finished && !resume.strict {
        return opened.finish();
    }
    let sandbox = sandbox?;
    let components = Components::load(&opened.definition, &sandbox, report)?;
    if is_finished {
        opened.refuse_changes(&opened.changed_components(&components))?;
        return opened.finish();
    }
    restore_workspace(&opened)?;
    if !opened.definition.is_submitted() {
        apply_telemetry(&resume.telemetry, &opened.definition, report);
    }
    let continuation = Continuation {
        components,
        sandbox,
        resume: &resume,
        verdicts,
        membership: Membership {
            labels: SpanLabels {
                run_name: resume.storage.run_name().map(str::to_owned),
                worker: None,
            },
            fleet: None,
        },
    };
    let (run, notes) = continue_team(opened, continuation, report, on_line)?;
    Ok(ResumeOutcome::Running(Box::new(run), notes))
}

/// What a saved team continues with.
pub(super) struct Continuation<'a> {
    pub(super) components: Components,
    pub(super) sandbox: WasmSandbox,
    pub(super) resume: &'a Resume,
    pub(super) verdicts: Vec<RequestResolution>,
    pub(super) membership: Membership,
}

/// To what a run belongs, as far as that is observed.
#[derive(Debug, Default)]
pub(super) struct Membership {
    /// Where it is counted with the other runs of this process.
    pub(super) fleet: Option<FleetMember>,
    pub(super) labels: SpanLabels,
}

/// Continues a team that was opened, according to its resume plan.
pub(super) fn continue_team(
    opened: OpenedTeam,
    continuation: Continuation<'_>,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<(RunHandle, ResumeNotes), LaunchError> {
    let Continuation {
        components,
        sandbox,
        resume,
        verdicts,
        membership,
    } = continuation;
    let (definition, env) = (&opened.definition, opened.stepper.env());
    let (has_begun, changes) = (opened.has_begun(), opened.changed_components(&components));
    if resume.strict {
        opened.refuse_changes(&changes)?;
    }
    let hidden = HiddenStorage::new(opened.location.local_paths());
    let services = components.services(definition, sandbox, hidden)?;
    report_reductions(&opened, report)?;
    let (budget, mut notes) = (budget_after_resume(definition, resume, env), opened.notes());
    let saved = saved_definition(definition);
    let provenance = provenance_of(definition);
    let (is_confined, is_submitted) = (is_confined(definition), definition.is_submitted());
    let mut settled = Vec::new();
    if has_begun {
        let before = opened.stepper_to_continue()?;
        let stepper = after_resume(&before, &verdicts, &changes, budget, resume.calls)?;
        settled = in_doubt::resolve_doubts(&stepper, &resume.in_doubt, resume.calls, definition)?;
        notes.nothing_in_doubt = settled.is_empty() && !resume.in_doubt.is_empty();
        notes.unsent_idea = has_unsent_idea(env);
        notes.writes = in_doubt::recorded_writes(&stepper, &changes);
    }
    let may_lack_media = opened.may_lack_media();
    let total_spent = opened.plan.total_spent();
    let asked_elsewhere = opened.plan.asked_elsewhere();
    let revised = opened.revised_calls();
    let (journal, location) = opened.into_journal()?;
    let mut journal = observe(journal, membership, &services, on_line);
    let is_new = resume.team.is_some() || !resume.overrides.components.is_empty();
    if is_new {
        journal.store().set_definition(&saved)?;
    }
    if may_lack_media || !resume.files.is_empty() {
        notes.missing_media = restore_media(&mut journal, &resume.files)?;
    }
    journal.resolve_requests(verdicts)?;
    let event = if has_begun {
        let spent = journal.store().spent()?.max(total_spent);
        let stepper = journal.stepper();
        let resumed = stepper.run_resumed_event_with_spent(spent, budget, resume.calls);
        let by = resume.by.clone().map(String::from);
        with_questions(asked_elsewhere, resumed).with_author(by)
    } else {
        first_event(journal.stepper(), &location, components.digests())
    };
    journal.stage(event)?;
    let changes = changes.into_iter().chain(settled);
    stage_changes(&mut journal, changes, &services, revised)?;
    journal.flush_blocking()?;
    // Only now, since it has to be durable that what people decided elsewhere does not count.
    mark_state_as_own(&location);
    // A run that somebody else submitted is trusted anew each time: its files may change.
    if is_new || (resume.saved_team_file == SavedTeamFile::Trusted && !is_submitted) {
        mark_as_own(&location, (&saved).into(), is_confined, report);
    }
    let run = RunHandle {
        control: None,
        driver: Driver::new(journal, services),
        location,
        provenance,
    };
    Ok((run, notes))
}

/// Lets it be seen what a run does.
fn observe(
    journal: Journal,
    membership: Membership,
    services: &HostServices,
    on_line: LineListener,
) -> Journal {
    let Membership { fleet, labels } = membership;
    if let (Some(member), Some(models)) = (&fleet, &services.models) {
        models.set_tally(Arc::clone(member.fleet.models()));
    }
    let journal = journal.with_listener(on_line).with_fleet(fleet);
    journal.with_span_labels(labels)
}

/// Reports what policies take from the team, and what people decided that does not count.
fn report_reductions(
    opened: &OpenedTeam,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<(), LaunchError> {
    for cut in opened.definition.describe_reductions() {
        report(Notice::Note(&cut));
    }
    if opened.consent_withdrawal()?.is_some() {
        report(Notice::Warning(&describe_withdrawal(opened)));
    }
    Ok(())
}

/// Returns the event of a resume in a lineage that may not know these questions.
fn with_questions(questions: AskedQuestions, mut event: Event) -> Event {
    if let Event::RunResumed(resumed) = &mut event {
        resumed.questions = questions;
    }
    event
}

/// Describes that what people decided is asked again.
fn describe_withdrawal(opened: &OpenedTeam) -> String {
    let location = &opened.location;
    let why = match &opened.author {
        StateAuthor::Unknown(Some(error)) => {
            format!(
                "it cannot be found out whether your own strata-host wrote `{location}` ({error})"
            )
        }
        StateAuthor::Unknown(None) | StateAuthor::Own => format!(
            "`{location}` is not known as written by your own strata-host (somebody else wrote it, or it was \
             moved or copied since)"
        ),
    };
    format!(
        "{why}, so what people are said to have decided in it, and has not taken effect yet, is asked again"
    )
}

/// Records the changes since the run stopped, and what follows from the tools of now for the calls
/// that are open after them.
fn stage_changes(
    journal: &mut Journal,
    changes: impl Iterator<Item = Event>,
    services: &HostServices,
    revised: RevisedCalls,
) -> Result<(), DriverError> {
    for event in changes {
        journal.stage(event)?;
    }
    for event in revised_calls(journal.stepper(), &services.tool_roles, revised, now_ms()) {
        journal.stage(event)?;
    }
    Ok(())
}

/// Returns the budget of the resumed run. That of the arguments takes precedence over the saved one.
fn budget_after_resume(definition: &Definition, resume: &Resume, env: &Environment) -> Option<Usd> {
    let is_given = resume.overrides.investment.is_some()
        || (resume.team.is_some() && definition.declares_budget);
    definition.bounded_budget(if is_given {
        definition.team.policy.budget
    } else {
        env.budget
    })
}

/// Returns the state after the resume, in which the calls in doubt can be seen.
fn after_resume(
    stepper: &Stepper,
    verdicts: &[RequestResolution],
    changes: &[Event],
    budget: Option<Usd>,
    calls: CallPolicy,
) -> Result<Stepper, DriverError> {
    let mut stepper = stepper.clone();
    for verdict in verdicts {
        let answered = stepper.request_answered_event(
            &verdict.request,
            verdict.answer.clone(),
            verdict.person.clone(),
        );
        if let Some(answered) = answered {
            stepper.apply(&answered)?;
        }
    }
    let resumed = stepper.run_resumed_event(budget, calls);
    stepper.apply(&resumed)?;
    for event in changes {
        stepper.apply(event)?;
    }
    Ok(stepper)
}

/// Returns whether nothing happens because the idea was never sent.
fn has_unsent_idea(env: &Environment) -> bool {
    // Old messages are decoded only if this depends on them.
    env.is_drained()
        && !env.idea.is_empty()
        && !env
            .messages
            .iter()
            .any(|message| message.cause_by == IDEA_LABEL || message.content == env.idea)
}

/// Reads the team file that was given for the resume.
fn read_given_definition(
    team: &Path,
    overrides: &Overrides,
    saved: ReadSavedDefinition<'_>,
) -> Result<Definition, LaunchError> {
    let mut definition = Definition::read(team)?;
    // If the previous team file set a budget and the given one does not, there is none.
    let named = || {
        super::parse_saved_definition(&saved()?, Definition::parse_without_files)
            .map(|before| before.declares_budget)
    };
    definition.declares_budget = definition.declares_budget || named().unwrap_or(false);
    definition.apply_overrides(overrides)?;
    Ok(definition)
}

fn describe_change(definition: &Definition, event: &Event) -> String {
    let Event::ComponentChanged(ComponentChanged { slot, old, new }) = event else {
        return String::new();
    };
    let place = definition.team.slot_name(*slot);
    let old = old.as_ref().map_or("nothing", |digest| digest.0.as_str());
    format!("component of `{place}` is `{new}`, saved `{old}`")
}
