//! The guards of a role: components that decide about its tool calls before they are made, and that see
//! their results.
//!
//! A guard works for the attempt that it guards. `before` is asked in the turn whose reply calls the
//! tool, so its decisions are part of the recorded turn; about a call that code makes it is asked while
//! the attempt waits that makes it, and its decision is recorded as that of the call. `after` is asked in
//! the attempt at the call, so what it makes of the result is the recorded result. What guards ask the
//! host is recorded with these attempts, too. A guard has no other effects: what it writes or emits is dropped, like that of a
//! component that chooses an action. It can only narrow what a call may do.

use std::sync::Arc;

use serde_json::json;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::tool_calls;
use strata_core::record::fault::{Fault, FaultKind, Retryability};
use strata_core::record::id::{Digest, GuardMoment, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Message};
use strata_core::record::turn::{CallDecision, ReplyMessage, TurnOutcome, TurnReply};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::team::RoleProfile;
use strata_sandbox::{
    EntryPoint, FileView, ReturnValue, Sandbox, SandboxCall, SandboxOutcome, ToolCallInput,
};
use strata_services::gateway::{
    Gateway, GuardDecision, GuestRequest, HostAnswer, PendingGuestRequest,
};
use strata_services::models::{read_answer, shorten_reason};
use strata_services::plugin::{CompiledSchema, Plugin};
use tokio::sync::mpsc;

use super::model_reply::input_schema;
use super::named_call::ReplyRules;

/// How a guard is called within an attempt.
pub(in super::super) struct Guard {
    sandbox: Arc<dyn Sandbox>,
    plugin: Arc<Plugin>,
    /// The component; `None` if the run does not know it, so that each call fails.
    digest: Option<Digest>,
    moment: GuardMoment,
    role: RoleProfile,
    /// What is attempted.
    call: CallKey,
    attempt: u32,
    idempotency_key: String,
    seed: String,
    news: Vec<Arc<Message>>,
    view: Arc<FileView>,
    gateway: Gateway,
}

/// The tool call that a guard is asked about.
struct GuardInput<'a> {
    tool: &'a str,
    arguments: Json,
    turn: u32,
    call: u32,
    /// Its number among those about which the guard is asked in an attempt.
    number: u32,
}

impl Guard {
    /// Returns a guard of the role of an attempt, which sees files as the attempt does.
    pub(in super::super) fn new(
        (sandbox, plugin): (Arc<dyn Sandbox>, Arc<Plugin>),
        moment: GuardMoment,
        call: &Invocation,
        stepper: &Stepper,
        (gateway, view): (&Gateway, Arc<FileView>),
    ) -> Self {
        let slot = Slot {
            role: call.role,
            kind: SlotKind::Guard(moment),
        };
        Self {
            sandbox,
            digest: stepper.env().components.get(&slot).cloned(),
            moment,
            role: stepper.team().role(call.role).to_profile(),
            call: call.key(),
            attempt: call.attempt,
            idempotency_key: format!("{}/{}", call.idempotency_key, moment.name()),
            seed: format!("{}/{}", call.seed, moment.name()),
            news: call.news.clone(),
            view,
            gateway: gateway.for_plugin(plugin.clone()),
            plugin,
        }
    }

    /// Asks the guard about the calls of a reply, one after another, and changes what becomes of them.
    /// Calls that are not made anyway are not asked about.
    pub(super) async fn decide_calls(
        &self,
        rules: ReplyRules<'_>,
        turn: u32,
        reply: &mut TurnReply,
    ) -> Result<(), Fault> {
        let (TurnOutcome::Calls(plans), ReplyMessage::Parts(parts)) =
            (&mut reply.outcome, &reply.message)
        else {
            return Ok(());
        };
        for ((plan, tool_call), call) in plans.iter_mut().zip(tool_calls(parts)).zip(0..) {
            let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) =
                plan.decision.clone()
            else {
                continue;
            };
            let input = GuardInput {
                tool: &plan.tool,
                arguments: plan
                    .form
                    .arguments(&tool_call.arguments)
                    .unwrap_or_else(Json::null),
                turn,
                call,
                number: call,
            };
            let decision = self.decide(&input, self.gateway.clone()).await?;
            plan.decision = decision.narrow(plan.decision.clone(), || {
                let mut tools = rules.tools.tools.iter().zip(&rules.settings.tools);
                let known = tools.find(|(tool, _)| tool.target.tool == target.tool);
                known.and_then(|(_, settings)| input_schema(settings))
            });
        }
        Ok(())
    }

    /// Decides about the calls of tools that the component of the attempt makes, and passes them on.
    /// Returns why the guard failed: the component is not answered then.
    pub(in super::super) async fn decide_nested(
        &self,
        mut calls: mpsc::Receiver<PendingGuestRequest>,
    ) -> Fault {
        while let Some(pending) = calls.recv().await {
            if let Err(fault) = self.decide_request(pending).await {
                return fault;
            }
        }
        // The component has ended.
        std::future::pending().await
    }

    async fn decide_request(&self, mut pending: PendingGuestRequest) -> Result<(), Fault> {
        let (GuestRequest::CallTools(requests), Work::ToolCall { turn, call, .. }) =
            (&mut pending.request, self.call.work)
        else {
            unreachable!("only tools call tools");
        };
        let about = GuestRequest::GuardedCalls(requests.clone());
        let Some(HostAnswer::GuardedCalls(guarded)) = self.gateway.request(about).await else {
            // The attempt is about to be dropped.
            return Ok(());
        };
        for (request, guarded) in requests.iter_mut().zip(guarded) {
            let Some(guarded) = guarded else { continue };
            let input = GuardInput {
                tool: &guarded.tool,
                arguments: request.arguments.clone(),
                turn,
                call,
                number: guarded.number.into(),
            };
            let gateway = self.gateway.about(guarded.clone());
            request.decision = self.decide(&input, gateway).await?;
        }
        self.gateway.forward(pending).await;
        Ok(())
    }

    async fn decide(
        &self,
        input: &GuardInput<'_>,
        gateway: Gateway,
    ) -> Result<GuardDecision, Fault> {
        let answer = self.call(input, self.news.clone(), gateway).await?;
        let text = answer.content.trim();
        let decision = match text.split_once(':') {
            None if text == "allow" => GuardDecision::Allow,
            None if text == "ask" => GuardDecision::Ask,
            None if text == "deny" => GuardDecision::Deny("it is not allowed".into()),
            Some((word, reason)) if word.trim_end() == "deny" => {
                GuardDecision::Deny(reason.trim().to_owned())
            }
            _ => {
                let why = format!(
                    "it answered `{}`, and not `allow`, `ask` or `deny: REASON`",
                    shorten_reason(text)
                );
                return Err(self.fault(FaultKind::OutputInvalid, &why));
            }
        };
        Ok(decision)
    }

    /// Passes the result of a call to the guard, and returns what becomes of it. `answer_schema` is that
    /// of the role's answer, if the result is that answer.
    pub(in super::super) async fn review(
        self,
        tool: String,
        call: Invocation,
        result: CallResult,
        answer_schema: Option<CompiledSchema>,
    ) -> Result<CallResult, Fault> {
        let Work::ToolCall {
            turn, call: index, ..
        } = call.work
        else {
            return Ok(result);
        };
        let output = match &result {
            CallResult::Returned { output, .. } | CallResult::Reported { output } => output,
            _ => return Ok(result),
        };
        let text = match &output.data {
            Some(data) => data.as_str().to_owned(),
            None => output.content.clone(),
        };
        let input = GuardInput {
            tool: &tool,
            arguments: call.arguments.unwrap_or_else(Json::null),
            turn,
            call: index,
            number: index,
        };
        let message = Message::from_user("result".into(), text.clone(), tool.clone());
        let news = vec![Arc::new(message)];
        let reviewed = self.call(&input, news, self.gateway.clone()).await?;
        if reviewed.content == text {
            Ok(result)
        } else {
            self.with_text(result, reviewed.content, answer_schema.as_ref())
        }
    }

    /// Returns a result with another text. If it is the answer of the role, the text has to be one.
    fn with_text(
        &self,
        mut result: CallResult,
        text: String,
        answer_schema: Option<&CompiledSchema>,
    ) -> Result<CallResult, Fault> {
        let is_error = matches!(result, CallResult::Reported { .. });
        if let CallResult::Returned { output, .. } | CallResult::Reported { output } = &mut result {
            let schema = answer_schema.filter(|_| !is_error);
            let data = schema.map(|schema| read_answer(schema, &text)).transpose();
            output.data = data.map_err(|why| {
                let why = format!("its text is no answer of the role: {why}");
                self.fault(FaultKind::OutputInvalid, &why)
            })?;
            output.content = text;
        }
        Ok(result)
    }

    /// Calls the component, and returns its output.
    async fn call(
        &self,
        input: &GuardInput<'_>,
        news: Vec<Arc<Message>>,
        gateway: Gateway,
    ) -> Result<Draft, Fault> {
        let GuardInput {
            tool,
            arguments,
            turn,
            call,
            number,
        } = input;
        let Some(digest) = self.digest.clone() else {
            let why = "the host was given no component for it";
            return Err(self.fault(FaultKind::Host, why));
        };
        let input = json!({ "tool": tool, "arguments": arguments.value() });
        let sandbox_call = SandboxCall {
            digest,
            plugin: self.plugin.clone(),
            attempt: self.attempt,
            idempotency_key: format!("{}/{number}", self.idempotency_key),
            seed: format!("{}/{number}", self.seed),
            entry: EntryPoint::Run {
                action: self.moment.name().to_owned(),
                index: 0,
                task: None,
                tool_call: Some(ToolCallInput {
                    arguments: Json::from(input),
                    turn: *turn,
                    call: *call,
                }),
            },
            role: self.role.clone(),
            news,
            outputs: Vec::new(),
            view: self.view.clone(),
            // The attempt that it works for may wait for it.
            level: self.call.waiting_attempts() + 1,
        };
        let SandboxOutcome { result, .. } = self.sandbox.call(sandbox_call, gateway).await;
        match result {
            Ok(output) => match output.value {
                ReturnValue::Output(draft) => Ok(draft),
                ReturnValue::Tasks(_) | ReturnValue::Choice(_) => {
                    Err(self.fault(FaultKind::OutputInvalid, "it returned no output"))
                }
            },
            Err(fault) => Err(Fault {
                backtrace: fault.backtrace.clone(),
                log: fault.log.clone(),
                cause: fault.cause,
                ..self.fault(fault.kind, &fault.message)
            }),
        }
    }

    /// Returns the fault of an attempt whose guard failed. After this kind of fault the recorded calls of the
    /// attempt are kept, so that neither the model nor the tool is paid again.
    fn fault(&self, kind: FaultKind, message: &str) -> Fault {
        let name = self.moment.name();
        let message = format!("the guard `{name}` failed: {kind}: {message}");
        Fault {
            retryability: Retryability::Final,
            ..Fault::new(FaultKind::Guard(self.moment), message)
        }
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::conversation::{AssistantPart, ToolCall};
    use strata_core::record::host_call::FinishReason;
    use strata_core::record::money::Usd;
    use strata_core::record::turn::{CallForm, CallPlan};
    use strata_sandbox::{AttemptOutput, ScriptedSandbox, output_without_effects};

    use super::*;
    use crate::tests::fixture::RunningTeam;
    use strata_services::gateway::AttemptId;

    const TEAM: &str = "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\
                        [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n\
                        before = { component = \"guard.wasm\" }\n\
                        [[role.action]]\nname = \"look\"\ncomponent = \"x.wasm\"\n";

    /// Asks a guard that answers like this about a call of `look`, and returns what becomes of it.
    async fn decided(answer: Result<AttemptOutput, Fault>) -> Result<CallDecision, Fault> {
        let team = RunningTeam::start(TEAM);
        let call = &team.invocations[0];
        let sandbox = ScriptedSandbox::new().with_outcomes("A", "before", vec![answer]);
        let slot = Slot {
            role: call.role,
            kind: SlotKind::Guard(GuardMoment::Before),
        };
        let plugin = team.services.plugins[&slot].clone();
        let id = AttemptId {
            call: call.key(),
            serial: 0,
        };
        let gateway = Gateway::new(id, mpsc::channel(1).0);
        let made_by = (Arc::new(sandbox) as Arc<dyn Sandbox>, plugin);
        let context = (&gateway, Arc::default());
        let guard = Guard::new(made_by, GuardMoment::Before, call, &team.stepper, context);
        let tools = team
            .stepper
            .team()
            .role(call.role)
            .tool_loop()
            .expect("tools");
        let rules = ReplyRules {
            tools,
            settings: &team.services.tool_roles[&call.role],
        };
        let mut reply = TurnReply {
            model: "m".into(),
            finish: FinishReason::ToolCalls,
            cost: Usd::ZERO,
            message: ReplyMessage::Parts(vec![AssistantPart::ToolCall(ToolCall {
                id: "c".into(),
                name: "look".into(),
                arguments: "{}".into(),
            })]),
            outcome: TurnOutcome::Calls(vec![CallPlan {
                id: "c".into(),
                tool: "look".into(),
                form: CallForm::Direct,
                decision: CallDecision::Make(tools.tools[0].target),
            }]),
            changed_tools: Vec::new(),
            skills: Vec::new(),
        };
        guard.decide_calls(rules, 0, &mut reply).await?;
        match reply.outcome {
            TurnOutcome::Calls(mut plans) => Ok(plans.remove(0).decision),
            other => panic!("no calls: {other:?}"),
        }
    }

    fn says(text: &str) -> Result<AttemptOutput, Fault> {
        Ok(output_without_effects(ReturnValue::Output(Draft {
            content: text.into(),
            ..Draft::default()
        })))
    }

    #[tokio::test]
    async fn a_guard_allows_denies_or_asks_and_anything_else_is_a_fault() {
        let decision = decided(says("allow")).await;
        assert!(
            matches!(decision, Ok(CallDecision::Make(_))),
            "{decision:?}"
        );
        let decision = decided(says("ask\n")).await;
        assert!(
            matches!(decision, Ok(CallDecision::AskFirst(..))),
            "{decision:?}"
        );
        let decision = decided(says("deny: not: this")).await;
        assert_eq!(decision, Ok(CallDecision::Reject("not: this".into())));
        for answer in ["", "yes", "allow: everything", "{\"decision\": \"allow\"}"] {
            let fault = decided(says(answer)).await.expect_err(answer);
            assert_eq!(
                fault.kind,
                FaultKind::Guard(GuardMoment::Before),
                "{answer}"
            );
        }
        let trap = Fault::new(FaultKind::Trap, "unreachable");
        let fault = decided(Err(trap)).await.expect_err("a trap");
        assert_eq!(fault.kind, FaultKind::Guard(GuardMoment::Before));
        assert!(
            fault.message.contains("the guard `before` failed: trap"),
            "{fault:?}"
        );
        assert_eq!(fault.retryability, Retryability::Final);
    }
}
