//! Continues a submitted run that a worker of this process took. Its team file and everything else that
//! is saved of it is somebody else's.

use std::path::PathBuf;
use std::sync::Arc;

use strata_core::state::environment::Environment;
use strata_driver::metrics::{FleetMember, FleetMetrics};
use strata_driver::{LineListener, SpanLabels, expired_requests};
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::submission::{SubmissionGrants, forbidden_uses};
use strata_manifest::{Definition, OutwardUse, Overrides};
use strata_sandbox::WasmSandbox;
use strata_storage::{ClaimedRun, OpenedRun, RunDatabase, RunSchedule};

use super::amend::StoredResume;
use super::opened_team::OpenedTeam;
use super::resume::{Continuation, Membership, continue_team};
use super::saved_team_file::format_uses;
use super::submitted::{SubmittedTeam, restore_workspace};
use super::{Components, LaunchError, Notice, Resume, RunHandle};
use crate::bundle::BundleError;

/// The arguments of a resume of a run that a worker took.
#[derive(Debug)]
pub struct ClaimedResume<'a> {
    /// The database.
    pub database: &'a RunDatabase,
    /// The run.
    pub run: &'a ClaimedRun,
    /// The directory in which the run's workspace is created.
    pub workspace: PathBuf,
    /// What the operator of the worker changes. Its policies say what the team may be granted.
    pub overrides: Overrides,
    /// What the team may use.
    pub grants: SubmissionGrants,
    /// The id of the worker, for its spans.
    pub worker: Option<&'a str>,
    /// Where it is counted what the run does.
    pub fleet: Option<&'a Arc<FleetMetrics>>,
}

/// The outcome of a resume of a run that a worker took.
pub enum ClaimedOutcome {
    /// The run continues.
    Running(Box<RunHandle>),
    /// Nothing is to be done until then.
    Resting(RunSchedule),
}

/// A submitted team that is not run because of what it would use.
#[derive(Debug, thiserror::Error)]
#[error(
    "the team was submitted, so it may use nothing of this worker that its operator has not allowed. It would:{}\n\
     Nothing of this was done. The operator can allow some of it with `worker --policy FILE`; no policy allows to read \
     other files or to build source",
    format_uses(uses)
)]
pub struct RefusedSubmission {
    /// Everything that it must not use.
    pub uses: Vec<OutwardUse>,
}

/// Prepares a run that a worker took. `report` receives the slow operations that begin; `on_line`
/// receives every public event line.
pub fn resume_claimed(
    resume: &ClaimedResume<'_>,
    report: &mut dyn FnMut(Notice<'_>),
    on_line: LineListener,
) -> Result<ClaimedOutcome, LaunchError> {
    let location = resume.database.location(&resume.run.name);
    let stored = if resume.run.is_requested {
        StoredResume::read(&location)?
    } else {
        StoredResume::default()
    };
    let mut overrides = resume.overrides.clone();
    stored.change(&mut overrides);
    let lease = resume.database.open_claimed(resume.run)?;
    let opened = OpenedRun {
        lease,
        team_json_differs: false,
    };
    let mut opened = OpenedTeam::open_records(&location, opened, |saved| {
        let team = SubmittedTeam::unpack(&location, &saved()?, resume.workspace.clone())?;
        let team = team.ok_or_else(BundleError::not_submitted)?;
        let terms = SubmissionTerms {
            operators: &resume.overrides.operators,
            grants: resume.grants,
        };
        submitted_definition(&team, &terms, &overrides)
    })?;
    let env = opened.stepper.env();
    let schedule = RunSchedule::after(env.status, first_expiry(env));
    let is_due = resume.run.is_requested || schedule != RunSchedule::OnRequest;
    let is_elsewhere = stored.names_checkpoint();
    if (env.is_finished() && !is_elsewhere) || !is_due {
        return Ok(ClaimedOutcome::Resting(schedule));
    }
    let mut changed = Resume::new(location, overrides);
    stored.apply(&mut changed);
    if let Some(checkpoint) = &changed.checkpoint {
        opened.select_checkpoint(checkpoint)?;
    }
    let verdicts = expired_requests(opened.stepper.env());
    restore_workspace(&opened)?;
    let sandbox = WasmSandbox::new()?;
    let components = Components::load(&opened.definition, &sandbox, report)?;
    let continuation = Continuation {
        components,
        sandbox,
        resume: &changed,
        verdicts,
        membership: Membership {
            fleet: resume.fleet.map(|fleet| FleetMember {
                fleet: Arc::clone(fleet),
                scope: resume.run.scope().map(|scope| scope.name().to_owned()),
            }),
            labels: SpanLabels {
                run_name: Some(resume.run.name.clone()),
                worker: resume.worker.map(str::to_owned),
            },
        },
    };
    let (run, _) = continue_team(opened, continuation, report, on_line)?;
    Ok(ClaimedOutcome::Running(Box::new(run)))
}

/// Returns when the first open request expires, in milliseconds since 1970.
pub(super) fn first_expiry(env: &Environment) -> Option<i64> {
    env.open_requests()
        .filter_map(|(_, open)| open.expires_ms)
        .min()
}

/// What a submitted team may use.
pub(super) struct SubmissionTerms<'a> {
    pub(super) operators: &'a [OperatorPolicy],
    pub(super) grants: SubmissionGrants,
}

/// Reads the team file of a submitted run. None of the files that it names is opened if it would use
/// something that it must not.
pub(super) fn submitted_definition(
    team: &SubmittedTeam,
    terms: &SubmissionTerms<'_>,
    overrides: &Overrides,
) -> Result<Definition, LaunchError> {
    let alone = team.parse(Definition::parse_without_files)?;
    let uses = forbidden_uses(&alone, &team.files, terms.operators, terms.grants);
    if !uses.is_empty() {
        return Err(Box::new(RefusedSubmission { uses }).into());
    }
    let mut definition = team.parse(Definition::parse)?;
    definition.apply_overrides(overrides)?;
    definition.apply_submission_bounds(terms.operators);
    Ok(definition)
}
