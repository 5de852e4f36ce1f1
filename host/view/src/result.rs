//! The result of a run in short, for programs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use strata_core::machine::stepper::{Stepper, step_of_fault};
use strata_core::record::event::Status;
use strata_core::record::fault::FaultKind;
use strata_core::record::money::Usd;

use super::{JoinView, RequestView, RunOutput, index_and_name_of_call};

/// The result of a run. Serialised, it is what `run --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultSummary {
    /// The status with which it ended.
    #[serde(serialize_with = "strata_driver::serialize_name::status")]
    pub status: Status,
    /// The id of the run.
    pub run: String,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// The directory where it is saved.
    #[serde(serialize_with = "super::serialize_path")]
    pub storage: PathBuf,
    /// The newest checkpoint.
    pub checkpoint: Option<String>,
    /// The money that was spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The part of that which is an estimate, because the answers to these calls were lost.
    #[serde(serialize_with = "super::serialize_usd")]
    pub lost: Usd,
    /// The money that may be spent; `None` if there is no limit.
    #[serde(serialize_with = "super::serialize_optional_usd")]
    pub budget: Option<Usd>,
    /// The open faults.
    pub faults: Vec<FaultSummary>,
    /// The joins that wait for messages.
    pub joins: Vec<IncompleteJoin>,
    /// The ids of the open requests.
    pub requests: Vec<String>,
    /// The content of the result; `None` if the run is not done or published nothing.
    pub output: Option<String>,
}

/// An open fault in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultSummary {
    /// The step in which it happened.
    pub step: u64,
    /// The name of the role.
    pub role: String,
    /// The index of the action in its role; -1 for a choice and for a person's answer.
    pub index: i32,
    /// The name of the action; `think` for a choice, `answer` for a person's answer.
    pub action: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The digest of the component, if there is one.
    pub digest: Option<String>,
    /// How it failed.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_kind")]
    pub kind: FaultKind,
    /// What was attempted and why it failed.
    pub message: String,
}

/// A join that waits for messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncompleteJoin {
    /// The id of the join.
    pub join: String,
    /// The names of the sources that it waits for.
    pub missing: Vec<String>,
}

impl ResultSummary {
    /// Returns the result of a run that ended with this status and is saved at `storage`.
    pub fn from_stepper(stepper: &Stepper, status: Status, storage: &Path) -> Self {
        let env = stepper.env();
        let mut joins = Vec::new();
        for join in JoinView::all(stepper) {
            if !join.missing.is_empty() {
                joins.push(IncompleteJoin {
                    join: join.id,
                    missing: join.missing,
                });
            }
        }
        let requests = RequestView::all(stepper).into_iter();
        let output = RunOutput::from_stepper(stepper).filter(|_| status == Status::Done);
        Self {
            status,
            run: env.run.0.clone(),
            step: env.step,
            storage: storage.to_owned(),
            checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
            spent: env.spent,
            lost: env.spending(|_| true).lost,
            budget: env.budget,
            faults: FaultSummary::all(stepper),
            joins,
            requests: requests.map(|request| request.id).collect(),
            output: output.map(|output| output.content),
        }
    }
}

impl FaultSummary {
    fn all(stepper: &Stepper) -> Vec<Self> {
        let (team, env) = (stepper.team(), stepper.env());
        let mut faults = Vec::new();
        for (call, open, fault) in env.open_faults(team) {
            let role = team.role(call.role);
            let (index, action) = index_and_name_of_call(stepper, call);
            let digest = stepper.component(call.role, call.work);
            faults.push(Self {
                step: step_of_fault(team, env, open.activation),
                role: role.name.clone(),
                index: index.map_or(-1, i32::from),
                action: action.to_owned(),
                attempt: open.progress.attempts,
                digest: digest.map(|digest| digest.0.clone()),
                kind: fault.kind,
                message: fault.message.clone(),
            });
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strata_core::record::fault::Fault;

    use super::*;
    use crate::tests::fixture::{FixtureAttempt, RunFixture};

    #[test]
    fn a_result_has_the_output_only_if_the_run_is_done() {
        let roles = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                     [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";
        let done = RunFixture::new(roles, |_, _| FixtureAttempt::Return("hello"));
        let result = ResultSummary::from_stepper(&done.stepper, Status::Done, Path::new("store"));
        assert_eq!(result.output.as_deref(), Some("hello"));
        let failed = RunFixture::new(roles, |_, _| {
            FixtureAttempt::Fail(Fault::new(FaultKind::Trap, "boom"))
        });
        let status = failed.stepper.env().status;
        let result = ResultSummary::from_stepper(&failed.stepper, status, Path::new("store"));
        assert_eq!(
            serde_json::to_value(result).expect("JSON"),
            json!({
                "status": "failed", "run": "run", "step": 0, "storage": "store", "checkpoint": "main-1",
                "spent": 0.0, "lost": 0.0, "budget": null, "joins": [], "requests": [], "output": null,
                "faults": [{
                    "step": 0, "role": "A", "index": 0, "action": "One", "attempt": 1, "digest": null,
                    "kind": "trap", "message": "boom",
                }],
            })
        );
    }
}
