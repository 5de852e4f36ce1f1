//! What is shown of a run: what is listed of it, and what only its state tells.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::id::RoleId;
use strata_core::record::money::Usd;
use strata_host::clock::rfc3339;
use strata_host::launch::load_saved;
use strata_host::storage::{ServedRun, Shortage, StateSelector};
use strata_host::view::{RoleActivity, RunOutput, WorkState};

use crate::problem::Problem;
use crate::run_origin::RunOrigin;

/// How many characters of an idea and of an output are shown.
const MAX_TEXT_CHARS: usize = 2000;
/// How many runs are remembered.
const MAX_CACHED: usize = 4096;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunView {
    /// Its id, which never changes.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The name of its team.
    pub team: String,
    /// Its tenant.
    pub tenant: String,
    /// The name of the token that started it.
    pub by: String,
    /// What was noted with it to find it by.
    pub labels: BTreeMap<String, String>,
    /// Where it is in its life: `queued`, `refused`, `running`, `resting`, `ended` or `detached`.
    pub state: String,
    /// Its status; `queued` before it begins.
    pub status: Option<String>,
    /// Why it is refused.
    pub problem: Option<String>,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// What is missing for a worker to take it while it is `queued`. Only the answer about this run alone says so.
    pub waits_for: Option<MissingForWorker>,
    /// The names of the roles that are at work on it.
    pub at_work: Vec<String>,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// What it spent, in US dollars.
    pub spent: f64,
    /// What it may spend; `null` without a limit.
    pub budget: Option<f64>,
    /// The cap above the run that was found to be used up since it was last started or resumed.
    pub cap_reached: Option<ReachedCap>,
    /// How many requests to people are open.
    pub requests: u64,
    /// How many faults are open.
    pub faults: u64,
    /// When it is taken up by itself.
    pub timer: Option<String>,
    /// Its newest checkpoint.
    pub checkpoint: Option<String>,
    /// The lineage that it continues.
    pub lineage: Option<String>,
    /// The run and the checkpoint from which it was forked, as `ID@CHECKPOINT`.
    pub forked_from: Option<String>,
    /// When it was submitted.
    pub created: Option<String>,
    /// When it last changed.
    pub updated: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Its idea, at most 2,000 characters of it.
    pub idea: String,
    /// Its newest output, at most 2,000 characters of it.
    pub output: Option<String>,
    /// Whether the idea or the output is longer.
    pub truncated: bool,
    /// How many events are recorded of it. One of them may become several public events.
    pub events: u64,
    /// The digest of the bundle with which it was started.
    pub bundle: Option<String>,
}

/// What is missing for a worker to take a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingForWorker {
    /// What it is: a `worker`, `labels` or `secrets` that no worker has, `room` at those that there are, or a program that
    /// knows the `format` in which the run was recorded.
    kind: &'static str,
    /// The names of the labels or the secrets.
    names: Vec<String>,
}

impl From<Shortage> for MissingForWorker {
    fn from(shortage: Shortage) -> Self {
        let (kind, names) = match shortage {
            Shortage::Format(_) => ("format", Vec::new()),
            Shortage::Worker => ("worker", Vec::new()),
            Shortage::Labels(names) => ("labels", names),
            Shortage::Secrets(names) => ("secrets", names),
            Shortage::Room => ("room", Vec::new()),
        };
        Self { kind, names }
    }
}

/// A cap that is used up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReachedCap {
    /// What it applies to: `all` runs, or those with this scope.
    pub scope: String,
    /// The cap, in US dollars.
    pub cap: f64,
}

/// What only the state of a run tells.
#[derive(Clone, Debug, Default)]
struct StateTexts {
    cap_reached: Option<ReachedCap>,
    idea: String,
    output: Option<String>,
    at_work: Vec<String>,
    checkpoint: Option<String>,
    lineage: Option<String>,
    is_truncated: bool,
    events: u64,
    overview: Option<StateNumbers>,
}

/// What is listed of a run whose rows do not tell.
#[derive(Clone, Debug)]
struct StateNumbers {
    team: String,
    status: &'static str,
    step: u64,
    spent: Usd,
    budget: Option<Usd>,
    requests: u64,
    faults: u64,
}

/// Tells whether a run is as it was when its state was read.
type CacheKey = (Option<i64>, Option<&'static str>, u64, Usd, u64, u64);

/// What the states of runs tell that have not changed since.
#[derive(Debug, Default)]
pub struct ViewCache {
    cached: Mutex<BTreeMap<String, (CacheKey, StateTexts)>>,
}

impl ViewCache {
    /// Returns what is shown of a run that was started with this. Its state is read unless that was done before and
    /// it rests.
    pub fn view(&self, run: &ServedRun, origin: RunOrigin) -> Result<RunView, Problem> {
        let key = cache_key(run);
        let known = self
            .lock()
            .get(&run.id)
            .filter(|(of, _)| *of == key)
            .cloned();
        if let Some((_, texts)) = known {
            return Ok(view_of(run, texts, origin));
        }
        let texts = read_texts(run)?;
        // A process that works on a run changes it without a trace in what is listed.
        if run.listing.owner.is_none() {
            let mut cached = self.lock();
            if cached.len() >= MAX_CACHED {
                cached.pop_first();
            }
            cached.insert(run.id.clone(), (key, texts.clone()));
        }
        Ok(view_of(run, texts, origin))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (CacheKey, StateTexts)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cache_key(run: &ServedRun) -> CacheKey {
    let one = run.listing.overview.as_ref();
    (
        run.listing.changed_ms,
        run.listing.status_name(),
        one.map_or(0, |one| one.step),
        one.map_or(Usd::ZERO, |one| one.spent),
        one.map_or(0, |one| one.requests),
        one.map_or(0, |one| one.faults),
    )
}

/// Reads what only the state tells.
fn read_texts(run: &ServedRun) -> Result<StateTexts, Problem> {
    let saved = load_saved(&run.listing.location, &StateSelector::Head)?;
    let stepper = &saved.stepper;
    let (env, team) = (stepper.env(), stepper.team());
    let (idea, is_idea_cut) = cut(&env.idea);
    let output = RunOutput::from_stepper(stepper).map(|output| cut(&output.content));
    let is_output_cut = output.as_ref().is_some_and(|(_, is_cut)| *is_cut);
    let at_work = team.role_ids().filter(|role| is_at_work(stepper, *role));
    let reader = run.listing.location.read()?;
    let current = reader.lineages()?.into_iter().find(|row| row.current);
    let overview = run.listing.overview.is_none().then(|| StateNumbers {
        team: team.name.clone(),
        status: env.status.name(),
        step: env.step,
        spent: env.spent,
        budget: env.budget,
        requests: env.open_requests().count() as u64,
        faults: env.open_faults(team).count() as u64,
    });
    let cap_reached = env.cap_reached.as_ref().map(|reached| ReachedCap {
        scope: reached.scope.clone(),
        cap: reached.cap.to_dollars(),
    });
    Ok(StateTexts {
        cap_reached,
        idea,
        output: output.map(|(text, _)| text),
        at_work: at_work.map(|role| team.role(role).name.clone()).collect(),
        checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
        lineage: current.map(|row| row.name),
        is_truncated: is_idea_cut || is_output_cut,
        events: reader.dropped()?.1,
        overview,
    })
}

/// Whether a role does something that does not wait for a person.
fn is_at_work(stepper: &Stepper, role: RoleId) -> bool {
    match RoleActivity::from_role(stepper, role, false) {
        Some(RoleActivity::Working { state, .. }) => matches!(
            state,
            WorkState::Next | WorkState::Running | WorkState::BackingOff
        ),
        Some(RoleActivity::CallingTools { .. }) => true,
        Some(RoleActivity::Finished) | None => false,
    }
}

/// Returns the beginning of a text, and whether it is longer.
fn cut(text: &str) -> (String, bool) {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => (text[..end].to_owned(), true),
        None => (text.to_owned(), false),
    }
}

fn view_of(run: &ServedRun, texts: StateTexts, origin: RunOrigin) -> RunView {
    let listing = &run.listing;
    let queued = listing.queued.clone().unwrap_or_default();
    let numbers = match &listing.overview {
        Some(one) => Some(StateNumbers {
            team: one.team.clone(),
            status: listing.status_name().unwrap_or(Status::Running.name()),
            step: one.step,
            spent: one.spent,
            budget: one.budget,
            requests: one.requests,
            faults: one.faults,
        }),
        None => texts.overview,
    };
    let one = numbers.as_ref();
    RunView {
        id: run.id.clone(),
        name: run.name().to_owned(),
        team: one.map(|one| one.team.clone()).unwrap_or_default(),
        tenant: run.tenant.clone(),
        by: run.submitter.clone(),
        labels: queued.tags,
        state: listing.state.name().to_owned(),
        status: one.map(|one| one.status.to_owned()),
        problem: queued.problem,
        needs: queued.needs,
        waits_for: None,
        step: one.map_or(0, |one| one.step),
        spent: one.map_or(0.0, |one| one.spent.to_dollars()),
        budget: one.and_then(|one| one.budget).map(|usd| usd.to_dollars()),
        requests: one.map_or(0, |one| one.requests),
        faults: one.map_or(0, |one| one.faults),
        cap_reached: texts.cap_reached,
        timer: run.due_ms.map(rfc3339),
        at_work: texts.at_work,
        checkpoint: texts.checkpoint,
        lineage: texts.lineage,
        forked_from: origin.forked_from,
        created: listing.created_ms.map(rfc3339),
        updated: listing.changed_ms.map(rfc3339),
        ended: listing.ended_ms.map(rfc3339),
        idea: texts.idea,
        output: texts.output,
        truncated: texts.is_truncated,
        events: texts.events,
        bundle: origin.bundle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let long = "é".repeat(MAX_TEXT_CHARS + 1);
        let (text, is_cut) = cut(&long);
        assert!(is_cut);
        assert_eq!(text.chars().count(), MAX_TEXT_CHARS);
        assert_eq!(cut("short"), ("short".into(), false));
    }
}
