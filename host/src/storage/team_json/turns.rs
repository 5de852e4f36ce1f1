//! The conversation that a role has open with its model, in `strata.open.ROLE.turns`: the replies,
//! and what became of their tool calls. The faults and requests of tool calls are written with the
//! calls, because a role may have several.

use serde_json::{Map, Value, json};

use strata_core::record::conversation::{AssistantPart, OpaquePart, Part, ToolCall};
use strata_core::record::fault::{Fault, Retryability};
use strata_core::record::host_call::FinishReason;
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop};
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::turn::{Approval, CallEffect, CallTarget};
use strata_core::record::work::Work;
use strata_core::state::activation::{
    Activation, Phase, ToolOutcome, ToolReturn, Turn, TurnCall, UncommittedMessage,
};
use strata_core::team::Role;

use super::activation::{
    parse_work, read_fault_fields, read_outgoing, read_phase, read_scope_write,
};
use super::attempts::{AttemptsJson, read_attempts};
use super::layout::PartListJson;
use super::located_value::{ImportResult, LocatedValue};
use super::messages::{ImportedMessages, read_hop, read_part};
use super::requests;
use super::saved_names::{phase_name, work_name};

/// Returns the turns of an activation as JSON. `outgoing` returns a message that is to be published.
pub(super) fn write(
    activation: &Activation,
    outgoing: &dyn Fn(&UncommittedMessage) -> Value,
) -> Vec<Value> {
    let mut turns = Vec::new();
    for (turn, number) in activation.turns.iter().zip(0..) {
        let calls = turn.calls.iter().zip(0..);
        let calls = calls.map(|(call, index)| {
            let work = call.target.map(|target| Work::ToolCall {
                turn: number,
                call: index,
                tool: target.tool,
            });
            call_json(call, work, outgoing)
        });
        let calls: Vec<Value> = calls.collect();
        let reply: Vec<Value> = turn.message.iter().map(assistant_part_json).collect();
        let mut fields = Map::new();
        fields.insert("model".into(), turn.model.as_str().into());
        fields.insert("finish".into(), turn.finish.name().into());
        fields.insert("cost".into(), turn.cost.to_dollars().into());
        fields.insert("reply".into(), reply.into());
        fields.insert("calls".into(), calls.into());
        if let Some(misfit) = &turn.misfit {
            fields.insert("misfit".into(), misfit.as_str().into());
        }
        turns.push(fields.into());
    }
    turns
}

fn assistant_part_json(part: &AssistantPart) -> Value {
    match part {
        AssistantPart::Text(text) => json!({ "type": "text", "text": text }),
        AssistantPart::Media(media) => part_list_json(&[Part::File(media.clone())])[0].clone(),
        AssistantPart::ToolCall(call) => json!({
            "type": "tool-call", "id": call.id, "name": call.name, "arguments": call.arguments,
        }),
        AssistantPart::Opaque(part) => json!({
            "type": "opaque", "provider": part.provider, "model": part.model,
            "data": part.data.value(), "reasoning": part.reasoning,
        }),
    }
}

fn part_list_json(parts: &[Part]) -> Value {
    // Only maps with keys that are not strings cannot be serialised, and there are none.
    serde_json::to_value(PartListJson(parts)).unwrap_or_default()
}

fn call_json(
    call: &TurnCall,
    work: Option<Work>,
    outgoing: &dyn Fn(&UncommittedMessage) -> Value,
) -> Value {
    let mut fields = Map::new();
    let mut insert = |name: &str, value: Value| fields.insert(name.into(), value);
    insert("tool", call.tool.as_str().into());
    if let Some(work) = work {
        insert("work", work_name(work).into());
    }
    if call.target.is_some_and(|to| to.effect == CallEffect::Ends) {
        insert("ends", true.into());
    }
    if let Some(approval) = &call.approval {
        let value = |value: &Option<Json>| value.as_ref().map(|value| value.value());
        insert(
            "approval",
            json!({
                "schema": value(&approval.schema), "default": value(&approval.default),
                "expires_ms": approval.expires_ms,
            }),
        );
    }
    if let Some(arguments) = &call.edited_arguments {
        insert("arguments", arguments.value());
    }
    if let Some(person) = &call.decided_by {
        insert("decided_by", person.as_str().into());
    }
    insert("phase", phase_name(&call.phase).into());
    if let Some(fault) = call.phase.fault() {
        insert("fault", fault_json(fault));
    }
    if let Phase::WaitingForHuman(request) = &call.phase {
        insert("request", requests::to_json(request));
    }
    match &call.outcome {
        None => {}
        Some(ToolOutcome::Returned(returned)) => {
            insert("returned", return_json(returned, outgoing));
        }
        Some(ToolOutcome::Failed(fault)) => {
            insert("failed", fault_json(fault));
        }
        Some(ToolOutcome::Rejected(reason)) => {
            insert("rejected", reason.as_str().into());
        }
        Some(ToolOutcome::Declined(reason)) => {
            insert("declined", reason.as_str().into());
        }
    }
    let tried = serde_json::to_value(AttemptsJson::from(&call.progress)).unwrap_or_default();
    insert("tried", tried);
    fields.into()
}

pub(super) fn fault_json(fault: &Fault) -> Value {
    json!({
        "kind": fault.kind.name(), "cause": fault.cause.name(), "message": fault.message,
        "backtrace": fault.backtrace, "log": fault.log,
        "retryable": fault.retryability == Retryability::Retryable,
    })
}

fn return_json(returned: &ToolReturn, outgoing: &dyn Fn(&UncommittedMessage) -> Value) -> Value {
    let write = |write: &Write| match &write.change {
        ScopeChange::Set(value) => {
            json!({ "scope": write.scope, "key": write.key, "set": value.value() })
        }
        ScopeChange::Delete => json!({ "scope": write.scope, "key": write.key, "delete": true }),
    };
    let Draft {
        content,
        data,
        parts,
        to,
        cause_by,
        route,
    } = &returned.output;
    let hop = |hop: &Hop| json!({ "from": hop.from, "to": hop.to });
    json!({
        "content": content,
        "data": data.as_ref().map(|data| data.value()),
        "has_data": data.is_some(),
        "parts": part_list_json(parts),
        "to": to,
        "cause_by": cause_by,
        "route": route.iter().map(hop).collect::<Vec<_>>(),
        "emissions": returned.emissions.iter().map(outgoing).collect::<Vec<_>>(),
        "writes": returned.writes.iter().map(write).collect::<Vec<_>>(),
    })
}

/// Reads the turns of an activation.
pub(super) fn read(
    role: &Role,
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Vec<Turn>> {
    let mut number = 0;
    place.read_items("turns", |turn| {
        turn.object()?;
        let misfit = turn.get("misfit").map(|misfit| misfit.text()).transpose()?;
        let mut index = 0;
        let calls = turn.read_items("calls", |call| {
            let read = read_call(role, &call, number, index, messages);
            index += 1;
            read
        })?;
        number += 1;
        Ok(Turn {
            model: turn.get_text("model")?,
            finish: turn.keyword("finish", finish_reason)?.unwrap_or_default(),
            cost: turn.dollars("cost")?.unwrap_or_default(),
            message: turn.read_items("reply", read_assistant_part)?,
            calls,
            misfit: misfit.map(String::from),
        })
    })
}

fn finish_reason(name: &str) -> Option<FinishReason> {
    FinishReason::ALL
        .into_iter()
        .find(|finish| finish.name() == name)
}

fn read_assistant_part(place: LocatedValue<'_>) -> ImportResult<AssistantPart> {
    place.object()?;
    match place.get_text("type")?.as_str() {
        "tool-call" => Ok(AssistantPart::ToolCall(ToolCall {
            id: place.get_text("id")?,
            name: place.get_text("name")?,
            arguments: place.get_text("arguments")?,
        })),
        "opaque" => Ok(AssistantPart::Opaque(OpaquePart {
            provider: place.get_text("provider")?,
            model: place.get_text("model")?,
            data: place
                .get("data")
                .map_or(Ok(Json::null()), |data| data.json())?,
            reasoning: place.get_text("reasoning")?,
        })),
        _ => Ok(match read_part(place)? {
            Part::Text(text) => AssistantPart::Text(text),
            Part::Image(media) | Part::File(media) => AssistantPart::Media(media),
        }),
    }
}

fn read_call(
    role: &Role,
    place: &LocatedValue<'_>,
    number: u32,
    index: u32,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<TurnCall> {
    place.object()?;
    let work = place.keyword("work", |name| parse_work(role, 0, name))?;
    let target = match work {
        Some(Work::ToolCall { turn, call, tool }) if (turn, call) == (number, index) => {
            Some(CallTarget {
                tool,
                effect: if place.flag("ends")? {
                    CallEffect::Ends
                } else {
                    CallEffect::Continues
                },
            })
        }
        Some(_) => return Err(place.invalid("is another tool call than its place says")),
        None => None,
    };
    let outcome = read_outcome(place, messages)?;
    if target.is_none() && outcome.is_none() {
        return Err(place.invalid("does not say what `work` it is"));
    }
    let json =
        |of: &LocatedValue<'_>, name: &str| of.get(name).map(|value| value.json()).transpose();
    let approval = match place.get_object("approval")? {
        None => None,
        Some(approval) => Some(Approval {
            schema: json(&approval, "schema")?,
            default: json(&approval, "default")?,
            expires_ms: approval
                .get("expires_ms")
                .map(|time| time.integer(i64::MIN, i64::MAX))
                .transpose()?,
        }),
    };
    let phase = match &outcome {
        Some(_) => Phase::Complete,
        None => match read_own_phase(place)? {
            Phase::Complete | Phase::CallingTools => Phase::Ready,
            phase => phase,
        },
    };
    let decided_by = place
        .get("decided_by")
        .map(|person| person.text())
        .transpose()?;
    Ok(TurnCall {
        tool: place.get_text("tool")?,
        target,
        approval,
        edited_arguments: json(place, "arguments")?,
        decided_by: decided_by.map(String::from),
        progress: read_attempts(place)?,
        phase,
        outcome,
    })
}

/// Reads the phase of something that has its fault and its request beside it.
pub(super) fn read_own_phase(place: &LocatedValue<'_>) -> ImportResult<Phase> {
    let fault = place.get_object("fault")?;
    let fault = fault.map(|fault| read_fault_fields(&fault)).transpose()?;
    let request = place.get_object("request")?;
    let request = request
        .map(|request| requests::read_request(&request))
        .transpose()?;
    read_phase(place, fault, request)
}

fn read_outcome(
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<Option<ToolOutcome>> {
    if let Some(returned) = place.get_object("returned")? {
        return read_return(&returned, messages).map(|of| Some(ToolOutcome::Returned(of)));
    }
    if let Some(fault) = place.get_object("failed")? {
        return read_fault_fields(&fault).map(|fault| Some(ToolOutcome::Failed(fault)));
    }
    let text = |name: &str| -> ImportResult<Option<String>> {
        let reason = place.get(name).map(|reason| reason.text()).transpose()?;
        Ok(reason.map(String::from))
    };
    let rejected = text("rejected")?.map(ToolOutcome::Rejected);
    Ok(rejected.or(text("declined")?.map(ToolOutcome::Declined)))
}

fn read_return(
    place: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<ToolReturn> {
    // `null` may be data.
    let data = match place.get("data") {
        Some(data) => Some(data.json()?),
        None if place.flag("has_data")? => Some(Json::null()),
        None => None,
    };
    let cause_by = place
        .get("cause_by")
        .map(|label| label.text())
        .transpose()?;
    Ok(ToolReturn {
        output: Draft {
            content: place.get_text("content")?,
            data,
            parts: place.read_items("parts", read_part)?,
            to: place.get_texts("to")?.unwrap_or_default(),
            cause_by: cause_by.map(String::from),
            route: place.read_items("route", read_hop)?,
        },
        emissions: place.read_items("emissions", |item| read_outgoing(&item, messages))?,
        writes: place.read_items("writes", read_scope_write)?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use strata_core::machine::effect::Effect;
    use strata_core::machine::stepper::Stepper;
    use strata_core::record::event::Event;
    use strata_core::record::fault::FaultKind;
    use strata_core::record::host_call::FinishReason;
    use strata_core::record::id::{ActionId, RoleId};
    use strata_core::record::money::Usd;
    use strata_core::record::turn::{
        CallDecision, CallPlan, ReplyMessage, ToolRef, TurnOutcome, TurnReply,
    };
    use strata_core::record::work::CallResult;
    use strata_core::state::environment::Environment;
    use strata_core::team::tools::{CallOrder, Tool, ToolFaults, ToolLoop};
    use strata_core::team::{React, RetryPolicy, Team};

    use super::*;
    use crate::storage::script::{definition, normalized, team};
    use crate::storage::team_json;

    /// Returns the team of the script, in which the first role works with tools.
    pub(in crate::storage::team_json) fn team_with_tools() -> Arc<Team> {
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
        });
        role.react = React::Tools(Box::new(ToolLoop {
            max_turns: 9,
            max_calls: 9,
            order: CallOrder::Parallel,
            faults: ToolFaults::Auto,
            retry,
            tools: tools.collect(),
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
            decision,
        };
        CallResult::Replied(TurnReply {
            model: "default".into(),
            finish: FinishReason::ToolCalls,
            cost: Usd::ZERO,
            message: ReplyMessage::Parts(message),
            outcome: TurnOutcome::Calls(decisions.into_iter().map(plan).collect()),
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

    #[test]
    fn an_open_conversation_is_read_back() {
        let team = team_with_tools();
        let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
        let start = stepper.run_started_event("run".into(), "idea".into(), Default::default());
        stepper.apply(&start).unwrap();
        let first = target(ToolRef::Action(ActionId(0)));
        let approval = Approval {
            schema: Some(Json::parse("{}").unwrap()),
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
        let env = stepper.env();
        let turns = &env.role(RoleId(0)).activation.as_ref().unwrap().turns;
        let open: Vec<bool> = turns[0]
            .calls
            .iter()
            .map(|call| call.outcome.is_none())
            .collect();
        assert_eq!(open, [false, false, true, true, false]);
        let text = team_json::export(&team, env, &definition());
        let read = team_json::import(&team, text.as_bytes()).unwrap();
        assert_eq!(normalized(&read), normalized(env));
    }
}
