//! The conversation that a role has open with its model, in `strata.open.ROLE.turns`: the replies,
//! and what became of their tool calls.

use std::borrow::Cow;

use strata_core::record::fault::Fault;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop};
use strata_core::record::nested_path::NestedPath;
use strata_core::record::scope_write::Write;
use strata_core::record::turn::{CallEffect, CallForm, CallTarget, SkillDigest, ToolRef};
use strata_core::record::work::Work;
use strata_core::state::activation::{
    Activation, CallProgress, Consent, NestedCall, Phase, ToolOutcome, ToolReturn, Turn, TurnCall,
};
use strata_core::state::environment::Environment;
use strata_core::team::Role;

use super::field::{Dollars, JsonDocument, Keyword};
use super::layout::{
    FaultJson, NestedCallJson, PartJson, PhaseName, ReplyPartJson, RequestJson, ReturnJson,
    ScopeWriteJson, TurnCallJson, TurnJson,
};
use super::located_value::{ImportResult, LocatedValue};
use super::messages::ImportedMessages;
use super::outgoing::{read_emissions, write_emissions};
use super::saved_names::{parse_work, unknown_work, work_name};

/// Returns the turns of an activation.
pub(super) fn write<'a>(env: &'a Environment, activation: &'a Activation) -> Vec<TurnJson<'a>> {
    let mut turns = Vec::with_capacity(activation.turns.len());
    for (turn, number) in activation.turns.iter().zip(0..) {
        let mut calls = Vec::with_capacity(turn.calls.len());
        for (call, index) in turn.calls.iter().zip(0..) {
            let place = CallPlace {
                turn: number,
                call: index,
                nested: NestedPath::EMPTY,
            };
            calls.push(write_call(env, call, place));
        }
        let reply = turn.message.iter();
        turns.push(TurnJson {
            model: Cow::Borrowed(&turn.model),
            finish: Keyword(turn.finish),
            cost: Dollars(turn.cost),
            reply: reply
                .map(|part| ReplyPartJson(Cow::Borrowed(part)))
                .collect(),
            calls,
            misfit: turn.misfit.as_deref().map(Cow::Borrowed),
            skills: turn
                .skills
                .iter()
                .map(|skill| (skill.skill.clone(), skill.digest.0.clone()))
                .collect(),
        });
    }
    turns
}

/// Where a tool call is in the conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CallPlace {
    turn: u32,
    call: u32,
    nested: NestedPath,
}

impl CallPlace {
    /// Returns the place of a call within this one, or `None` if it would be too deep.
    fn within(self, number: u16) -> Option<Self> {
        let nested = self.nested.with(number)?;
        Some(Self { nested, ..self })
    }

    fn work(self, tool: ToolRef) -> Work {
        let Self { turn, call, nested } = self;
        Work::ToolCall {
            turn,
            call,
            nested,
            tool,
        }
    }
}

fn write_call<'a>(env: &'a Environment, call: &'a TurnCall, place: CallPlace) -> TurnCallJson<'a> {
    let work = call.target.map(|target| place.work(target.tool));
    let mut saved = TurnCallJson {
        tool: Cow::Borrowed(&call.tool),
        by_call_tool: call.form == CallForm::ByCallTool,
        work: work.map(|work| Cow::Owned(work_name(work))),
        ends: call.target.is_some_and(|to| to.effect == CallEffect::Ends),
        approval: match &call.consent {
            Consent::Needed(approval) => Some(approval.into()),
            Consent::NotNeeded | Consent::Given => None,
        },
        approved: call.consent == Consent::Given,
        arguments: call.edited_arguments.as_ref().map(JsonDocument::of),
        decided_by: call.decided_by.as_deref().map(Cow::Borrowed),
        phase: Keyword(PhaseName::from(&call.phase)),
        fault: call.phase.fault().map(FaultJson::from),
        tried: (&call.progress).into(),
        ..TurnCallJson::default()
    };
    if let Phase::WaitingForHuman(request) = &call.phase {
        saved.request = Some(RequestJson::from(request));
    }
    match &call.outcome {
        None => {}
        Some(ToolOutcome::Returned(returned)) => saved.returned = Some(write_return(env, returned)),
        Some(ToolOutcome::Failed(fault)) => saved.failed = Some(fault.into()),
        Some(ToolOutcome::Rejected(reason)) => saved.rejected = Some(Cow::Borrowed(reason)),
        Some(ToolOutcome::Declined(reason)) => saved.declined = Some(Cow::Borrowed(reason)),
    }
    for (number, nested) in (0..).zip(&call.progress.nested) {
        if let Some(place) = place.within(number) {
            saved.nested.push(NestedCallJson {
                request: Cow::Borrowed(&nested.request),
                arguments: JsonDocument::of(&nested.arguments),
                made_by: nested.made_by,
                call: write_call(env, &nested.call, place),
            });
        }
    }
    saved
}

fn write_return<'a>(env: &'a Environment, returned: &'a ToolReturn) -> ReturnJson<'a> {
    let Draft {
        content,
        data,
        parts,
        to,
        cause_by,
        route,
    } = &returned.output;
    let parts = parts.iter();
    ReturnJson {
        content: Cow::Borrowed(content),
        data: data.as_ref().map(JsonDocument::of),
        has_data: data.is_some(),
        parts: parts.map(|part| PartJson(Cow::Borrowed(part))).collect(),
        to: to.as_slice().into(),
        cause_by: cause_by.as_deref().map(Cow::Borrowed),
        route: route.iter().map(Into::into).collect(),
        emissions: write_emissions(env, &returned.emissions),
        writes: returned.writes.iter().map(ScopeWriteJson::from).collect(),
        is_error: returned.is_error,
    }
}

/// Reads the turns of an activation.
pub(super) fn read(
    role: &Role,
    saved: Vec<TurnJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<Turn>> {
    let mut turns = Vec::with_capacity(saved.len());
    for (turn, number) in saved.into_iter().zip(0..) {
        let place = list.item(number as usize);
        let list = place.child("calls");
        let mut calls = Vec::with_capacity(turn.calls.len());
        for (call, index) in turn.calls.into_iter().zip(0..) {
            let expected = CallPlace {
                turn: number,
                call: index,
                nested: NestedPath::EMPTY,
            };
            let place = list.item(index as usize);
            calls.push(read_call(role, call, expected, &place, messages)?);
        }
        let reply = turn.reply.into_iter();
        turns.push(Turn {
            model: turn.model.into_owned(),
            finish: turn.finish.0,
            cost: turn.cost.0,
            message: reply.map(|part| part.0.into_owned()).collect(),
            calls,
            misfit: turn.misfit.map(Cow::into_owned),
            skills: turn
                .skills
                .into_iter()
                .map(|(skill, digest)| SkillDigest {
                    skill,
                    digest: Digest(digest),
                })
                .collect(),
        });
    }
    Ok(turns)
}

/// Reads the tool that a call is made to; `None` if the call was rejected.
fn read_tool(
    role: &Role,
    work: Option<&str>,
    expected: CallPlace,
    place: &LocatedValue<'_>,
) -> ImportResult<Option<ToolRef>> {
    let Some(name) = work else { return Ok(None) };
    match parse_work(role, 0, name).ok_or_else(|| unknown_work(place))? {
        work @ Work::ToolCall { tool, .. } if work == expected.work(tool) => Ok(Some(tool)),
        _ => Err(place.invalid("is another tool call than its place says")),
    }
}

/// Reads the calls that were made within a tool call.
fn read_nested(
    role: &Role,
    saved: Vec<NestedCallJson<'_>>,
    outer: CallPlace,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<NestedCall>> {
    let mut calls = Vec::with_capacity(saved.len());
    for (index, saved) in saved.into_iter().enumerate() {
        let place = list.item(index);
        let number = u16::try_from(index).ok();
        let expected = number.and_then(|number| outer.within(number));
        let expected = expected.ok_or_else(|| place.invalid("is one nested call too many"))?;
        calls.push(NestedCall {
            request: saved.request.into_owned(),
            arguments: saved.arguments.into_json(),
            made_by: saved.made_by,
            call: read_call(role, saved.call, expected, &place.child("call"), messages)?,
        });
    }
    Ok(calls)
}

/// Reads a tool call, which is at this place of the conversation.
fn read_call(
    role: &Role,
    saved: TurnCallJson<'_>,
    expected: CallPlace,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<TurnCall> {
    let tool = read_tool(role, saved.work.as_deref(), expected, place)?;
    let nested = read_nested(
        role,
        saved.nested,
        expected,
        &place.child("nested"),
        messages,
    )?;
    let returned = match saved.returned {
        Some(returned) => Some(read_return(returned, &place.child("returned"), messages)?),
        None => None,
    };
    let (failed, rejected, declined) = (saved.failed, saved.rejected, saved.declined);
    let outcome = returned
        .map(ToolOutcome::Returned)
        .or_else(|| Some(ToolOutcome::Failed(failed?.into())))
        .or_else(|| Some(ToolOutcome::Rejected(rejected?.into_owned())))
        .or_else(|| Some(ToolOutcome::Declined(declined?.into_owned())));
    if tool.is_none() && outcome.is_none() {
        return Err(place.invalid("does not say what `work` it is"));
    }
    let effect = if saved.ends {
        CallEffect::Ends
    } else {
        CallEffect::Continues
    };
    let request = match saved.request {
        Some(request) => Some(request.into_request(&place.child("request"))?),
        None => None,
    };
    let phase = match saved.phase.0.with(saved.fault.map(Fault::from), request) {
        _ if outcome.is_some() => Phase::Complete,
        Phase::Complete => Phase::Ready,
        Phase::CallingTools if nested.is_empty() => Phase::Ready,
        phase => phase,
    };
    Ok(TurnCall {
        tool: saved.tool.into_owned(),
        form: match saved.by_call_tool {
            true => CallForm::ByCallTool,
            false => CallForm::Direct,
        },
        target: tool.map(|tool| CallTarget { tool, effect }),
        consent: match saved.approval {
            Some(approval) => Consent::Needed(approval.into()),
            None if saved.approved => Consent::Given,
            None => Consent::NotNeeded,
        },
        edited_arguments: saved.arguments.map(JsonDocument::into_json),
        decided_by: saved.decided_by.map(Cow::into_owned),
        progress: CallProgress {
            nested,
            ..saved.tried.into()
        },
        phase,
        outcome,
    })
}

fn read_return(
    saved: ReturnJson<'_>,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<ToolReturn> {
    let data = saved.data.map(JsonDocument::into_json);
    let parts = saved.parts.into_iter();
    Ok(ToolReturn {
        output: Draft {
            content: saved.content.into_owned(),
            // `null` may be data.
            data: data.or_else(|| saved.has_data.then(Json::null)),
            parts: parts.map(|part| part.0.into_owned()).collect(),
            to: saved.to.0.into_owned(),
            cause_by: saved.cause_by.map(Cow::into_owned),
            route: saved.route.into_iter().map(Hop::from).collect(),
        },
        emissions: read_emissions(saved.emissions, &place.child("emissions"), messages)?,
        writes: saved.writes.into_iter().map(Write::from).collect(),
        is_error: saved.is_error,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use strata_base::scripted_run::{normalized, team};
    use strata_core::machine::effect::Effect;
    use strata_core::machine::stepper::Stepper;
    use strata_core::record::conversation::{AssistantPart, OpaquePart, ToolCall};
    use strata_core::record::event::Event;
    use strata_core::record::fault::FaultKind;
    use strata_core::record::host_call::FinishReason;
    use strata_core::record::id::{ActionId, RoleId};
    use strata_core::record::money::Usd;
    use strata_core::record::scope_write::ScopeChange;
    use strata_core::record::turn::{
        Approval, CallDecision, CallPlan, ReplyMessage, TurnOutcome, TurnReply,
    };
    use strata_core::record::work::CallResult;
    use strata_core::state::environment::Environment;
    use strata_core::team::tools::{CallOrder, Summariser, Tool, ToolFaults, ToolLoop};
    use strata_core::team::{React, RetryPolicy, Team};

    use super::*;
    use crate as team_json;
    use crate::SavedDefinition;

    /// Returns the team of the script, in which the first role works with tools.
    pub(crate) fn team_with_tools() -> Arc<Team> {
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
    fn state_with_open_turn(team: &Arc<Team>) -> Environment {
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
        let text = team_json::export(&team, &env, &SavedDefinition::example());
        let read = team_json::import(&team, text.as_bytes()).unwrap();
        assert_eq!(normalized(&read), normalized(&env));
    }

    #[test]
    fn an_invalid_value_of_a_conversation_is_named_with_its_place() {
        let team = team_with_tools();
        let env = state_with_open_turn(&team);
        let text = team_json::export(&team, &env, &SavedDefinition::example());
        let check = |pointer: &str, value: Value, expected: &str| {
            let mut file: Value = serde_json::from_str(&text).unwrap();
            let pointer = format!("/strata/open/A/turns/0{pointer}");
            *file.pointer_mut(&pointer).expect(&pointer) = value;
            let read = team_json::import(&team, file.to_string().as_bytes());
            let error = read.unwrap_err().to_string();
            let named = error.contains(&format!("`{pointer}` "));
            assert!(named && error.contains(expected), "{error}");
        };
        check("/finish", "tired".into(), "expected one of `stop`");
        check("/cost", json!(-1), "is -1, expected an amount of money");
        check("/reply/0/type", "video".into(), "expected one of `text`");
        check("/reply/1/provider", json!(7), "is 7, expected a text");
        check("/calls", json!({}), "is an object, expected a list");
        check(
            "/calls/0/work",
            "tool/0/0/9".into(),
            "is the text `tool/0/0/9`",
        );
        check(
            "/calls/1",
            json!({ "work": "tool/0/0/0" }),
            "another tool call",
        );
        check("/calls/2", json!({}), "does not say what `work` it is");
        check(
            "/calls/0/returned/has_data",
            json!(1),
            "expected true or false",
        );
        check(
            "/calls/0/returned/emissions/0",
            json!({}),
            "has no `message`",
        );
        check(
            "/calls/0/returned/writes/0/key",
            json!([]),
            "expected a text",
        );
        check(
            "/calls/2/tried/attempts",
            json!(0.5),
            "expected a whole number",
        );
        check(
            "/calls/3/approval/expires_ms",
            "soon".into(),
            "expected a whole number",
        );
        check(
            "/calls/4/rejected",
            json!(false),
            "is false, expected a text",
        );
    }
}
