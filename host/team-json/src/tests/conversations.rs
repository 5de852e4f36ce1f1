//! The conversation that a role has open with its model is read back.

use std::sync::Arc;

use serde_json::{Value, json};

use strata_base::scripted_run::{normalized, team};
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, OpaquePart, ToolCall};
use strata_core::record::event::Event;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallOutcome, FinishReason, HostCall, HostCallKind};
use strata_core::record::id::{ActionId, Digest, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop};
use strata_core::record::money::Usd;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::turn::{
    Approval, CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ReplyMessage, SkillDigest,
    ToolRef, TurnOutcome, TurnReply,
};
use strata_core::record::work::{CallResult, Work};
use strata_core::state::environment::Environment;
use strata_core::team::tools::{CallOrder, Summariser, Tool, ToolFaults, ToolLoop};
use strata_core::team::{React, RetryPolicy, Team};

use crate::{SavedDefinition, export, import};

/// Returns the team of the script, in which the first role works with tools.
pub(super) fn team_with_tools() -> Arc<Team> {
    let mut team = Team::clone(&team());
    let role = &mut team.roles[0];
    let retry = RetryPolicy {
        retries: 0,
        backoff_ms: 0,
    };
    let actions = role.actions.iter().zip(0..);
    let tools = actions.map(|(action, index)| Tool {
        name: action.name.clone(),
        target: target(ToolRef::Action(ActionId(index))),
        faults: None,
        order: CallOrder::Parallel,
        max_calls: None,
    });
    role.react = React::Tools(Box::new(ToolLoop {
        max_turns: 9,
        max_calls: 9,
        repeat: None,
        order: CallOrder::Parallel,
        faults: ToolFaults::Auto,
        retry,
        summariser: Summariser::Model,
        tools: tools.collect(),
        reviews_results: false,
        server_limits: Vec::new(),
    }));
    Arc::new(team)
}

fn target(tool: ToolRef) -> CallTarget {
    CallTarget {
        tool,
        effect: CallEffect::Continues,
    }
}

/// Returns a reply with calls of the first action, as these decisions say.
fn reply(decisions: Vec<CallDecision>) -> CallResult {
    let mut message = vec![
        AssistantPart::Text("let me see".into()),
        AssistantPart::Opaque(OpaquePart {
            provider: "provider".into(),
            model: "model".into(),
            data: Json::parse("[1]").unwrap(),
            reasoning: "why".into(),
        }),
    ];
    for index in 0..decisions.len() {
        message.push(AssistantPart::ToolCall(ToolCall {
            id: format!("id {index}"),
            name: "tool".into(),
            arguments: format!("{{\"n\":{index}}}"),
        }));
    }
    let plan = |decision| CallPlan {
        id: "id".into(),
        tool: "tool".into(),
        form: CallForm::ByCallTool,
        decision,
    };
    CallResult::Replied(TurnReply {
        model: "default".into(),
        finish: FinishReason::ToolCalls,
        cost: Usd::ZERO,
        message: ReplyMessage::Parts(message),
        outcome: TurnOutcome::Calls(decisions.into_iter().map(plan).collect()),
        changed_tools: Vec::new(),
        skills: vec![SkillDigest {
            skill: "pdf".into(),
            digest: Digest::from("d"),
        }],
    })
}

fn result(index: u32) -> Result<CallResult, Fault> {
    let emission = Draft {
        content: "by the way".into(),
        ..Draft::default()
    };
    let output = Draft {
        content: "result".into(),
        data: Some(Json::null()),
        route: vec![Hop {
            from: "A".into(),
            to: vec!["C".into()],
        }],
        ..Draft::default()
    };
    let write = Write {
        scope: "role".into(),
        key: "k".into(),
        change: ScopeChange::Set(Json::parse("7").unwrap()),
    };
    match index {
        0 => Ok(CallResult::Returned {
            output,
            emissions: vec![emission],
            writes: vec![write],
        }),
        1 => Err(Fault::new(FaultKind::Error, "no")),
        _ => Err(Fault::new(FaultKind::Trap, "unreachable")),
    }
}

/// Returns the state in which the calls of a turn have returned, failed, been rejected, or wait
/// for a person.
pub(super) fn state_with_open_turn(team: &Arc<Team>) -> Environment {
    let mut stepper = Stepper::new(team.clone(), Environment::new(team));
    let start = stepper.run_started_event("run".into(), "idea".into(), Default::default());
    stepper.apply(&start).unwrap();
    let first = target(ToolRef::Action(ActionId(0)));
    let approval = Approval {
        input_schema: Some(Json::parse("{}").unwrap()),
        default: None,
        expires_ms: Some(1_700_000_000_000),
    };
    loop {
        let event: Event = match stepper.next() {
            Effect::Record(event) => event,
            Effect::Wait | Effect::Halt(_) => break,
            Effect::Call(call) if call.role != RoleId(0) => break,
            Effect::Call(call) => {
                let started = stepper.call_started_event(&call);
                stepper.apply(&started).unwrap();
                let result = match call.work {
                    Work::ToolCall { call, .. } => result(call),
                    _ => Ok(reply(vec![
                        CallDecision::Make(first),
                        CallDecision::Make(first),
                        CallDecision::Make(first),
                        CallDecision::AskFirst(first, approval.clone()),
                        CallDecision::Reject("no such tool".into()),
                    ])),
                };
                stepper.call_ended_event(call.key(), result).unwrap()
            }
        };
        stepper.apply(&event).unwrap();
    }
    stepper.env().clone()
}

#[test]
fn an_open_conversation_is_read_back() {
    let team = team_with_tools();
    let env = state_with_open_turn(&team);
    let turns = &env.role(RoleId(0)).activation.as_ref().unwrap().turns;
    let open: Vec<bool> = turns[0]
        .calls
        .iter()
        .map(|call| call.outcome.is_none())
        .collect();
    assert_eq!(open, [false, false, true, true, false]);
    let text = export(&team, &env, &SavedDefinition::example());
    let read = import(&team, text.as_bytes()).unwrap();
    assert_eq!(normalized(&read), normalized(&env));
}

#[test]
fn the_host_calls_that_open_tool_calls_have_recorded_are_written_for_people() {
    let team = team_with_tools();
    let mut env = state_with_open_turn(&team);
    let written = |env: &Environment| {
        let text = export(&team, env, &SavedDefinition::example());
        let file: Value = serde_json::from_str(&text).unwrap();
        file["strata"]["open"]["A"]["recorded_calls"].clone()
    };
    assert_eq!(written(&env), Value::Null);
    let activation = env.roles[0].activation.as_mut().unwrap();
    let mut turns = activation.turns.to_vec();
    for call in &mut turns[0].calls {
        call.progress.recorded_calls.push(HostCall {
            kind: HostCallKind::Http,
            request: "0123".into(),
            response: Json::null(),
            cost: Usd::from_dollars(0.25),
            outcome: CallOutcome::Failed,
            model: None,
        });
    }
    activation.turns = turns.into();
    let recorded = |at| json!({ "at": at, "kind": "http", "outcome": "failed", "cost": 0.25 });
    let expected = json!([recorded("tool/0/2/0"), recorded("tool/0/3/0")]);
    assert_eq!(written(&env), expected);
    let text = export(&team, &env, &SavedDefinition::example());
    let read = import(&team, text.as_bytes()).unwrap();
    assert_eq!(written(&read), expected);
}
