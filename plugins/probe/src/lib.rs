//! The probe: an action that executes the steps of its config.
//!
//! It is for trying teams, limits and recovery without writing code: `config = { steps = [{ llm =
//! "hello" }, { say = "it answered {reads}" }] }`. This module has the three exports. `steps`
//! defines the steps, `run` executes them, and `misbehaviour` contains the ways in which the probe
//! can misbehave.

pub mod misbehaviour;
pub mod run;
pub mod steps;

use run::{CallContext, run_steps};
use serde_json::Value;
use steps::{Config, PlannedTask};
use strata_action::{
    Action, Choice, Context, Failure, Output, Planner, Situation, Task, Thinker, action,
};

/// The probe, as action, thinker and planner.
pub struct Probe;

impl Action for Probe {
    type Config = Config;
    type Data = Value;

    fn run(cx: &Context<Config>) -> Result<Output<Value>, Failure> {
        let deeds = run_steps(&cx.config, &call_context(cx))?;
        Ok(deeds.output.unwrap_or_else(|| default_output(&cx.action)))
    }
}

impl Thinker for Probe {
    type Config = Config;

    /// Chooses by the `choose` step. Without one, the first action is chosen, once.
    fn choose(situation: &Situation<Config>) -> Result<Choice, Failure> {
        let scene = CallContext {
            action: "think",
            attempt: situation.attempt.number,
            news: &situation.news,
            arguments: None,
        };
        let choices = run_steps(&situation.config, &scene)?
            .choices
            .unwrap_or_else(|| vec![0]);
        let round = usize::try_from(situation.round).unwrap_or(usize::MAX);
        let chosen = choices
            .get(round)
            .and_then(|index| u32::try_from(*index).ok());
        Ok(chosen.map_or(Choice::End, Choice::Run))
    }
}

impl Planner for Probe {
    type Config = Config;

    /// Plans by the `plan` step. Without one, there is one task, whose text is the output of the
    /// action.
    fn plan(cx: &Context<Config>) -> Result<Vec<Task>, Failure> {
        let deeds = run_steps(&cx.config, &call_context(cx))?;
        let Some(plan) = deeds.plan else {
            let output = deeds.output.unwrap_or_else(|| default_output(&cx.action));
            return Ok(vec![Task {
                text: output.content,
                action: None,
            }]);
        };
        let tasks = plan.into_iter().map(|planned| match planned {
            PlannedTask::Text(text) => Task { text, action: None },
            PlannedTask::Task { text, action } => Task { text, action },
        });
        Ok(tasks.collect())
    }
}

action!(Probe, thinker = Probe, planner = Probe);

fn call_context(cx: &Context<Config>) -> CallContext<'_> {
    CallContext {
        action: &cx.action,
        attempt: cx.attempt.number,
        news: &cx.news,
        arguments: cx.raw_arguments.as_deref(),
    }
}

fn default_output(action: &str) -> Output<Value> {
    Output::new(format!("{action} ok"))
}
