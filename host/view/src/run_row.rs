//! A run in a list.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use strata_base::clock::rfc3339;
use strata_core::record::event::Status;
use strata_core::record::money::Usd;
use strata_storage::{LifecycleState, RunListing};

/// A run in a list. Serialised, it is what `runs --json` prints of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Its name where it is kept.
    pub name: String,
    /// Its id; `None` if it has not begun.
    pub id: Option<String>,
    /// The name of its team; `None` if it is not known.
    pub team: Option<String>,
    /// Where it is in its life.
    pub state: &'static str,
    /// Its status, `queued` before it begins; `None` if what is saved of it cannot be read.
    pub status: Option<&'static str>,
    /// The open step or, if none is open, the next one.
    pub step: Option<u64>,
    /// What it spent, in US dollars.
    #[serde(serialize_with = "super::serialize_optional_usd")]
    pub spent: Option<Usd>,
    /// What it may spend; `None` if there is no limit.
    #[serde(serialize_with = "super::serialize_optional_usd")]
    pub budget: Option<Usd>,
    /// How many requests to people are open.
    pub requests: Option<u64>,
    /// How many faults are open.
    pub faults: Option<u64>,
    /// Which process works on it.
    pub owner: Option<OwnerView>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<String>,
    /// What was noted with it to find it by.
    pub labels: BTreeMap<String, String>,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// Why a worker could not run it, or why what is saved of it cannot be read.
    pub problem: Option<String>,
    /// When it was created.
    pub created: Option<String>,
    /// When it last changed.
    pub changed: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// The path or the URL that names it in commands.
    #[serde(serialize_with = "super::serialize_path")]
    pub place: PathBuf,
}

/// The process that works on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// The id of the worker, or of the process on this machine.
    pub worker: String,
    /// The name of its machine, if it is known.
    pub host: Option<String>,
    /// Since when.
    pub since: Option<String>,
}

impl RunRow {
    /// Returns whether the run was cut off: it is saved as running, and nothing continues it by itself.
    pub fn is_cut_off(&self) -> bool {
        self.state == LifecycleState::Resting.name() && self.status == Some(Status::Running.name())
    }

    /// Returns the row of a run. `damage` is why what is saved of it cannot be read.
    pub fn new(run: &RunListing, damage: Option<String>) -> Self {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let overview = run.overview.as_ref();
        let queued = run.queued.clone().unwrap_or_default();
        let owner = run.owner.as_ref().map(|owner| OwnerView {
            worker: owner.worker.clone(),
            host: known(&owner.host),
            since: owner.since_ms.map(rfc3339),
        });
        Self {
            name: run.name.clone(),
            id: overview.and_then(|one| known(&one.run)),
            team: overview.and_then(|one| known(&one.team)),
            state: run.state.name(),
            status: run.status_name(),
            step: overview.map(|one| one.step),
            spent: overview.map(|one| one.spent),
            budget: overview.and_then(|one| one.budget),
            requests: overview.map(|one| one.requests),
            faults: overview.map(|one| one.faults),
            owner,
            scope: queued.scope,
            labels: queued.tags,
            needs: queued.needs,
            problem: damage.or(queued.problem),
            created: run.created_ms.map(rfc3339),
            changed: run.changed_ms.map(rfc3339),
            ended: run.ended_ms.map(rfc3339),
            place: run.location.operand().to_owned(),
        }
    }
}
