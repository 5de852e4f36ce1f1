//! The work of roles that other roles called is read back.

use std::sync::Arc;

use serde_json::{Value, json};

use strata_base::scripted_run::normalized;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, ToolCall};
use strata_core::record::event::{Event, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallPolicy, FinishReason};
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::message::Draft;
use strata_core::record::money::Usd;
use strata_core::record::turn::{
    CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ReplyMessage, ToolRef, TurnOutcome,
    TurnReply,
};
use strata_core::record::work::{CallResult, Work};
use strata_core::state::environment::Environment;
use strata_core::team::{React, Team};

use super::conversations::team_with_tools;
use crate::{SavedDefinition, export, import};

pub(super) const CALLED: [RoleId; 2] = [RoleId(1), RoleId(4)];

/// Returns the team of the script, in which the first role calls two others, one of them a
/// person.
pub(super) fn team_with_calls() -> Arc<Team> {
    let mut team = Team::clone(&team_with_tools());
    if let React::Tools(tools) = &mut team.roles[0].react {
        let names = ["B/2", "E"];
        for (id, name) in CALLED.into_iter().zip(names) {
            let mut tool = tools.tools[0].clone();
            (tool.name, tool.target) = (name.into(), target(id));
            tools.tools.push(tool);
        }
    }
    Arc::new(team)
}

fn target(role: RoleId) -> CallTarget {
    CallTarget {
        tool: ToolRef::Role(role),
        effect: CallEffect::Continues,
    }
}

/// Returns a reply that calls both roles.
fn reply() -> CallResult {
    let call = |id: RoleId| {
        AssistantPart::ToolCall(ToolCall {
            id: format!("id {}", id.0),
            name: "tool".into(),
            arguments: r#"{"message":"please"}"#.into(),
        })
    };
    let plan = |id| CallPlan {
        id: "id".into(),
        tool: "tool".into(),
        form: CallForm::Direct,
        decision: CallDecision::Make(target(id)),
    };
    CallResult::Replied(TurnReply {
        model: "default".into(),
        finish: FinishReason::ToolCalls,
        cost: Usd::ZERO,
        message: ReplyMessage::Parts(CALLED.map(call).to_vec()),
        outcome: TurnOutcome::Calls(CALLED.map(plan).to_vec()),
        changed_tools: Vec::new(),
        skills: Vec::new(),
    })
}

/// Returns the state in which the action `y` of a called role has failed, and a person is asked.
pub(super) fn stopped_run(team: &Arc<Team>) -> Stepper {
    let mut stepper = Stepper::new(team.clone(), Environment::new(team));
    let start = stepper.run_started_event("run".into(), "idea".into(), Default::default());
    stepper.apply(&start).unwrap();
    loop {
        let event: Event = match stepper.next() {
            Effect::Record(event) => event,
            Effect::Wait | Effect::Halt(_) => return stepper,
            Effect::Call(call) => {
                let started = stepper.call_started_event(&call);
                stepper.apply(&started).unwrap();
                let result = match call.work {
                    Work::Turn { .. } => Ok(reply()),
                    Work::Act {
                        action: ActionId(1),
                        ..
                    } => Err(Fault::new(FaultKind::Trap, "unreachable")),
                    _ => Ok(CallResult::Returned {
                        output: Draft::default(),
                        emissions: Vec::new(),
                        writes: Vec::new(),
                    }),
                };
                stepper.call_ended_event(call.key(), result).unwrap()
            }
        };
        stepper.apply(&event).unwrap();
    }
}

#[test]
fn the_work_of_called_roles_is_read_back() {
    let team = team_with_calls();
    let stepper = stopped_run(&team);
    let env = stepper.env();
    assert_eq!(env.status, Status::Failed);
    assert_eq!(env.role(RoleId(0)).called.len(), 2);
    let text = export(&team, env, &SavedDefinition::example());
    let read = import(&team, text.as_bytes()).unwrap();
    assert_eq!(normalized(&read), normalized(env));
    let shown: Value = serde_json::from_str(&text).unwrap();
    let via = json!([{ "role": "A", "turn": 0, "tool_call": 0 }]);
    assert_eq!(shown["strata"]["faults"][0]["via"], via);
    // The file alone is enough to go on.
    let mut resumed = Stepper::new(team.clone(), read);
    let event = resumed.run_resumed_event(None, CallPolicy::Auto);
    resumed.apply(&event).unwrap();
    let Effect::Call(call) = resumed.next() else {
        panic!("a call is made again");
    };
    assert_eq!((call.role, call.attempt), (RoleId(1), 2));
}
