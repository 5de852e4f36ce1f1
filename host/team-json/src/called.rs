//! Activations of roles that other roles called as tools, in `strata.open.ROLE.called` of the role
//! that handles mail. Each names the calls that led to it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use strata_core::record::id::RoleId;
use strata_core::record::role_call::{RoleCall, RoleCallPath};
use strata_core::record::work::ActivationKey;
use strata_core::state::activation::{Activation, Phase};
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use super::activation;
use super::layout::{ActivationJson, FaultJson, RequestJson, RoleCallJson};
use super::located_value::{ImportResult, LocatedValue};
use super::messages::ImportedMessages;

/// Returns an activation with the calls that led to it, its fault and its request.
pub(super) fn write<'a>(
    team: &'a Team,
    env: &'a Environment,
    key: &ActivationKey,
    activation: &'a Activation,
) -> ActivationJson<'a> {
    ActivationJson {
        role: Some(Cow::Borrowed(&team.role(key.role).name)),
        via: write_path(team, &key.via),
        fault: activation.phase.fault().map(FaultJson::from),
        request: match &activation.phase {
            Phase::WaitingForHuman(request) => Some(RequestJson::from(request)),
            _ => None,
        },
        ..activation::write(env, activation)
    }
}

/// Returns the calls of roles that led to an activation, the first one first.
pub(super) fn write_path<'a>(team: &'a Team, via: &RoleCallPath) -> Vec<RoleCallJson<'a>> {
    let call = |call: &RoleCall| RoleCallJson {
        role: Cow::Borrowed(&*team.role(call.role).name),
        turn: call.turn,
        tool_call: call.call,
        nested: call.nested,
    };
    via.calls().iter().map(call).collect()
}

/// Reads the activations of other roles that one in which a role handles mail led to.
pub(super) fn read(
    team: &Team,
    saved: Vec<ActivationJson<'_>>,
    list: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> ImportResult<BTreeMap<ActivationKey, Activation>> {
    let mut called = BTreeMap::new();
    for (index, saved) in saved.into_iter().enumerate() {
        let place = list.item(index);
        let role = role_named(team, saved.role.as_deref(), &place)?;
        let mut via = RoleCallPath::EMPTY;
        let path = place.child("via");
        for (index, call) in saved.via.iter().enumerate() {
            let call = RoleCall {
                role: role_named(team, Some(&call.role), &path.item(index))?,
                turn: call.turn,
                call: call.tool_call,
                nested: call.nested,
            };
            via = via
                .with(call)
                .ok_or_else(|| place.invalid("is called by too many roles"))?;
        }
        let activation = activation::read(team.role(role), saved, &place, messages)?;
        called.insert(ActivationKey { role, via }, activation);
    }
    Ok(called)
}

/// Returns the role with this name, which the record at `place` contains.
fn role_named(team: &Team, name: Option<&str>, place: &LocatedValue<'_>) -> ImportResult<RoleId> {
    let mut ids = team.role_ids();
    ids.find(|id| name == Some(&team.role(*id).name))
        .ok_or_else(|| place.invalid("names no `role` of the team"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use strata_base::scripted_run::normalized;
    use strata_core::machine::effect::Effect;
    use strata_core::machine::stepper::Stepper;
    use strata_core::record::conversation::{AssistantPart, ToolCall};
    use strata_core::record::event::{Event, Status};
    use strata_core::record::fault::{Fault, FaultKind};
    use strata_core::record::host_call::{CallPolicy, FinishReason};
    use strata_core::record::id::ActionId;
    use strata_core::record::message::Draft;
    use strata_core::record::money::Usd;
    use strata_core::record::turn::{
        CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ReplyMessage, ToolRef,
        TurnOutcome, TurnReply,
    };
    use strata_core::record::work::{CallResult, Work};
    use strata_core::state::environment::Environment;
    use strata_core::team::React;

    use super::*;
    use crate::turns::tests::team_with_tools;
    use crate::{SavedDefinition, export, import};

    const CALLED: [RoleId; 2] = [RoleId(1), RoleId(4)];

    /// Returns the team of the script, in which the first role calls two others, one of them a
    /// person.
    fn team_with_calls() -> Arc<Team> {
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
    fn stopped_run(team: &Arc<Team>) -> Stepper {
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

    #[test]
    fn work_that_no_role_called_is_refused() {
        let team = team_with_calls();
        let text = export(&team, stopped_run(&team).env(), &SavedDefinition::example());
        let check = |change: &dyn Fn(&mut Value)| {
            let mut value: Value = serde_json::from_str(&text).unwrap();
            change(&mut value["strata"]["open"]["A"]["called"]);
            let read = import(&team, value.to_string().as_bytes());
            assert!(read.is_err(), "{read:?}");
        };
        check(&|called| *called = json!([]));
        check(&|called| called[0]["via"] = json!([]));
        check(&|called| called[0]["role"] = "nobody".into());
        check(&|called| called[0]["via"][0]["turn"] = 7.into());
        check(&|called| {
            let hop = called[0]["via"][0].clone();
            called[0]["via"] = vec![hop; 99].into();
        });
    }
}
