//! The result of an action that was run without a team.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::id::RoleId;
use strata_core::record::money::Usd;

use super::FaultView;
use crate::provenance::Provenance;

/// The result of an action that was run without a team. Serialised, it is what `try --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialResult {
    /// How it ended, spelled like the status of a run.
    #[serde(serialize_with = "strata_driver::serialize_name::status")]
    pub status: Status,
    /// The output, as `team.json` has messages; `None` if the action failed.
    pub output: Option<Value>,
    /// The messages that it emitted besides.
    pub emissions: Vec<Value>,
    /// What it wrote to its own scope.
    pub state: BTreeMap<String, Value>,
    /// The questions that it asks people.
    pub questions: Vec<String>,
    /// Why it failed.
    pub faults: Vec<FaultView>,
    /// What it cost, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
}

impl TrialResult {
    /// Returns the result of a trial that ended with this status.
    pub fn new(stepper: &Stepper, provenance: &Provenance, status: Status) -> Self {
        let (team, env) = (stepper.team(), stepper.env());
        let mut messages = Vec::new();
        for message in env.history.iter().map(|id| env.message(*id)) {
            if !message.sent_from.is_empty() {
                let json = serde_json::from_str(&strata_team_json::message_json(message));
                messages.push(json.unwrap_or_default());
            }
        }
        // The output is published after what was emitted.
        let output = (status == Status::Done).then(|| messages.pop()).flatten();
        let scope = &env.role(RoleId(0)).scope;
        let faults = env.open_faults(team);
        let faults =
            faults.filter_map(|(call, ..)| FaultView::from_call(stepper, call, provenance));
        let questions = env.open_requests();
        Self {
            status,
            output,
            emissions: messages,
            state: scope
                .iter()
                .map(|(key, value)| (key.clone(), value.value()))
                .collect(),
            questions: questions
                .map(|(_, request)| request.question.clone())
                .collect(),
            faults: faults.collect(),
            spent: env.spent,
        }
    }

    /// Returns the output for people: its text, or its data if it has no text.
    pub fn output_text(&self) -> Option<String> {
        let output = self.output.as_ref()?;
        match (
            output["content"].as_str(),
            output["instruct_content"]["value"].clone(),
        ) {
            (Some(""), data) if !data.is_null() => serde_json::to_string_pretty(&data).ok(),
            (content, _) => content.map(str::to_owned),
        }
    }
}
