//! Tools for code: calls of tools that attempts make. Which tools an attempt may call, what becomes of a
//! call, and what the attempt is answered once its calls have ended.
//!
//! The calls themselves are attempts, which the core starts like those that a model asks for. An attempt
//! waits here until all calls that it made at once have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use strata_base::clock::now_ms;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, HostCalled, NestedCallMade, NestedCallPlan};
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::{AnswerSource, CallOutcome, Grant, HostCall, HostCallKind};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::turn::{CallDecision, CallEffect, CallTarget, ToolRef};
use strata_core::record::work::{CallKey, Work};
use strata_core::state::activation::{CallProgress, NestedCall, ToolOutcome};
use strata_core::team::tools::Tool;
use strata_services::gateway::{
    AttemptId, GuardedCall, HostAnswer, HostError, HostErrorKind, ToolDescription, ToolRequest,
};
use strata_services::outbound::summarize;
use strata_services::plugin::{Plugin, pattern};
use strata_services::tools::RoleTool;
use tokio::sync::oneshot;

use super::turns::{KnownTools, ToolRoles, decide_call, input_schema};

/// How much of a failure code is told, in characters.
const MAX_REASON_CHARS: usize = 4096;

/// The attempts that wait for calls of tools.
#[derive(Default)]
pub(super) struct NestedCalls {
    waiting: BTreeMap<CallKey, WaitingAttempt>,
}

/// An attempt that waits until the calls that it made at once have ended.
struct WaitingAttempt {
    attempt: AttemptId,
    /// The calls, in their order.
    calls: Vec<Result<RequestedCall, HostError>>,
    reply: oneshot::Sender<HostAnswer>,
}

/// A call that an attempt made.
pub(super) struct RequestedCall {
    /// Its number within the outer call.
    number: u16,
    /// The name of the request in the record of the outer call.
    request: String,
    /// The call in one line, for people.
    summary: String,
    source: AnswerSource,
}

/// What an attempt is answered.
pub(super) struct ToolAnswer {
    /// What is recorded before it is answered.
    pub(super) events: Vec<Event>,
    answer: HostAnswer,
    reply: oneshot::Sender<HostAnswer>,
}

impl ToolAnswer {
    /// Sends the answer. The events must be durable.
    pub(super) fn send(self) {
        // It is no error if the guest is gone.
        let _ = self.reply.send(self.answer);
    }
}

impl NestedCalls {
    /// Forgets all attempts.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Forgets an attempt that has ended.
    pub(super) fn end_attempt(&mut self, call: CallKey) {
        self.waiting.remove(&call);
    }

    /// Lets an attempt wait for calls that it made.
    pub(super) fn wait(
        &mut self,
        attempt: AttemptId,
        calls: Vec<Result<RequestedCall, HostError>>,
        reply: oneshot::Sender<HostAnswer>,
    ) {
        let waiting = WaitingAttempt {
            attempt,
            calls,
            reply,
        };
        self.waiting.insert(attempt.call, waiting);
    }

    /// Takes an attempt whose calls have all ended, and returns what it is answered.
    pub(super) fn next_answer(&mut self, stepper: &Stepper) -> Option<ToolAnswer> {
        let has_ended = |waiting: &WaitingAttempt| {
            let progress = progress(stepper, waiting.attempt.call);
            progress.is_some_and(|progress| waiting.outcomes(progress).all(|ended| ended.is_some()))
        };
        let mut waiting = self.waiting.iter();
        let key = *waiting.find(|(_, waiting)| has_ended(waiting))?.0;
        let ended = self.waiting.remove(&key)?;
        Some(ended.answer(progress(stepper, key)?))
    }
}

impl WaitingAttempt {
    /// Returns what became of the calls that were made; `None` for one that has not ended.
    fn outcomes<'a>(
        &'a self,
        progress: &'a CallProgress,
    ) -> impl Iterator<Item = Option<&'a ToolOutcome>> {
        let accepted = self.calls.iter().filter_map(|call| call.as_ref().ok());
        accepted.map(|call| {
            let nested = progress.nested.get(usize::from(call.number))?;
            nested.call.outcome.as_ref()
        })
    }

    fn answer(self, progress: &CallProgress) -> ToolAnswer {
        let mut events = Vec::new();
        let mut answers = Vec::new();
        for call in self.calls {
            let answer = call.and_then(|call| {
                let nested = progress.nested.get(usize::from(call.number));
                let answer = nested.map_or_else(|| Err(lost()), outcome_answer);
                let called = HostCalled {
                    call: call_record(call.request, &answer),
                    source: call.source,
                    summary: call.summary,
                };
                events.push(Event::Attempt(
                    self.attempt.call,
                    AttemptEvent::HostCalled(called),
                ));
                answer
            });
            answers.push(answer);
        }
        ToolAnswer {
            events,
            answer: HostAnswer::Outbound(answers),
            reply: self.reply,
        }
    }
}

fn lost() -> HostError {
    HostError::new(HostErrorKind::Failed, "the call did not end")
}

/// Returns the progress of a call that is open.
fn progress(stepper: &Stepper, call: CallKey) -> Option<&CallProgress> {
    let open = stepper.env().open_call(stepper.team(), call)?;
    Some(open.progress)
}

/// Returns the record of a call in the call that it was made in.
fn call_record(request: String, answer: &Result<Json, HostError>) -> HostCall {
    let (response, outcome) = match answer {
        Ok(value) => (value.clone(), CallOutcome::Answered),
        Err(error) => (Json::from(json!(error)), CallOutcome::Failed),
    };
    HostCall {
        kind: HostCallKind::Tool,
        request,
        response,
        cost: Usd::ZERO,
        outcome,
        model: None,
    }
}

/// Returns what code is told about a call that has ended: the data of its result, or else its text.
fn outcome_answer(nested: &NestedCall) -> Result<Json, HostError> {
    let failed = |message: String| {
        let message: String = message.chars().take(MAX_REASON_CHARS).collect();
        Err(HostError::new(HostErrorKind::Failed, message))
    };
    match &nested.call.outcome {
        Some(ToolOutcome::Returned(returned)) if returned.is_error => {
            failed(returned.output.content.clone())
        }
        Some(ToolOutcome::Returned(returned)) => Ok(match &returned.output.data {
            Some(data) => data.clone(),
            None => Json::from(Value::String(returned.output.content.clone())),
        }),
        Some(ToolOutcome::Failed(fault)) => failed(format!("{}: {}", fault.kind, fault.message)),
        Some(ToolOutcome::Rejected(reason)) => failed(format!("the call was rejected: {reason}")),
        Some(ToolOutcome::Declined(reason)) => {
            failed(format!("the call was not approved: {reason}"))
        }
        None => Err(lost()),
    }
}

/// What calls of tools that an attempt makes are checked against.
pub(crate) struct ToolAccess<'a> {
    stepper: &'a Stepper,
    /// The tools of the role with those of servers, as the core and as the model knows them.
    tools: Option<Arc<KnownTools>>,
    plugin: Option<&'a Plugin>,
    call: CallKey,
}

impl<'a> ToolAccess<'a> {
    /// Returns what applies to an attempt at `call`, which `plugin` makes.
    pub(crate) fn new(
        stepper: &'a Stepper,
        roles: &ToolRoles,
        plugin: Option<&'a Plugin>,
        call: CallKey,
    ) -> Self {
        let own = stepper.team().role(call.role).tool_loop();
        let activation = stepper.env().activation(call.activation());
        let lists = activation.and_then(|activation| activation.server_tools.clone());
        let tools = own.and_then(|own| roles.known(call.role, own, lists.unwrap_or_default()));
        Self {
            stepper,
            tools,
            plugin,
            call,
        }
    }

    /// Returns the tools that are granted. A tool cannot call itself, and only a model hands over or
    /// calls the tools of the host.
    fn granted(&self) -> Vec<(&Tool, &RoleTool)> {
        let (Some(known), Some(plugin)) = (&self.tools, self.plugin) else {
            return Vec::new();
        };
        let own = match self.call.work {
            Work::ToolCall { tool, .. } => Some(tool),
            _ => None,
        };
        let all = known.tools.tools.iter().zip(&known.settings.tools);
        let granted = all.filter(|(tool, _)| {
            let target = tool.target.tool;
            !matches!(target, ToolRef::Handoff(_) | ToolRef::Host(_))
                && Some(target) != own
                && pattern::matches_any(&plugin.grants.tools, &tool.name)
        });
        granted.collect()
    }

    /// Describes the tools that are granted.
    pub(crate) fn descriptions(&self) -> Vec<ToolDescription> {
        let mut descriptions = Vec::new();
        for (tool, known) in self.granted() {
            let schema = known.input_schema.as_ref();
            descriptions.push(ToolDescription {
                name: tool.name.clone(),
                description: known.description.clone().unwrap_or_default(),
                input_schema: Json::from(schema.map_or_else(
                    || json!({ "type": "object" }),
                    |schema| schema.document().clone(),
                )),
            });
        }
        descriptions
    }

    /// Returns the tool that a call names. Fails if it is not granted, or no call can be made here.
    fn find(&self, request: &ToolRequest) -> Result<(&Tool, &RoleTool), HostError> {
        let denied = |message: String| {
            HostError::new(HostErrorKind::Denied, message)
                .caused_by(FaultCause::NotGranted(Grant::Tools))
        };
        if let Some(refusal) = self.stepper.nesting_refusal(self.call) {
            return Err(denied(refusal));
        }
        let name = &request.name;
        let granted = self.granted();
        let exact = granted.iter().find(|(tool, _)| tool.name == *name);
        let found = exact.or_else(|| granted.iter().find(|(_, known)| known.model_name == *name));
        found.copied().ok_or_else(|| {
            let shown = summarize(name);
            if self.exists(name) {
                return denied(format!(
                    "the tool `{shown}` is not granted; add it to `tools`, in `[role.action.allow]` or at the `[[role.tool]]`"
                ));
            }
            let names: Vec<String> = granted
                .iter()
                .map(|(tool, _)| format!("`{}`", tool.name))
                .collect();
            let there = match &names[..] {
                [] => "none is granted".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            // No grant helps.
            HostError::new(
                HostErrorKind::Denied,
                format!("there is no tool `{shown}`; {there}"),
            )
        })
    }

    /// Whether the role has a tool of this name, granted or not.
    fn exists(&self, name: &str) -> bool {
        self.tools.as_ref().is_some_and(|known| {
            let mut all = known.tools.tools.iter().zip(&known.settings.tools);
            all.any(|(tool, settings)| tool.name == name || settings.model_name == name)
        })
    }

    /// Returns about which of these calls a guard has to decide: those that are made for the first time
    /// and that the host does not reject.
    pub(crate) fn guarded(&self, requests: &[ToolRequest]) -> Vec<Option<GuardedCall>> {
        let Some(progress) = progress(self.stepper, self.call) else {
            return vec![None; requests.len()];
        };
        let mut made_again = BTreeSet::new();
        let mut next = progress.nested.len();
        let guarded = requests.iter().map(|request| {
            let (tool, known) = self.find(request).ok()?;
            let digest = request.digest(&tool.name);
            let mut earlier = progress.all_earlier_nested(&digest);
            if earlier.any(|number| made_again.insert(number)) {
                return None;
            }
            let number = u16::try_from(next).ok()?;
            next += 1;
            self.guarded_call(tool, known, request, number)
        });
        guarded.collect()
    }

    /// Returns a call about which a guard has to decide unless the host rejects it.
    fn guarded_call(
        &self,
        tool: &Tool,
        known: &RoleTool,
        request: &ToolRequest,
        number: u16,
    ) -> Option<GuardedCall> {
        let decision = self.decide(tool, known, tool.target, request);
        let is_rejected = matches!(decision, CallDecision::Reject(_));
        (!is_rejected).then(|| GuardedCall {
            tool: tool.name.clone(),
            number,
        })
    }

    /// Returns about which of these calls a guard had to decide in an attempt that has ended: those that
    /// the attempt made for the first time, and those that it did not come to make, because the guard
    /// ended it. `plans` are the former, and `counts` says, by their digests, how many calls it has made
    /// before these.
    pub(crate) fn guarded_then(
        &self,
        requests: &[ToolRequest],
        plans: &BTreeMap<u16, CallDecision>,
        counts: &BTreeMap<String, usize>,
    ) -> Vec<Option<GuardedCall>> {
        let mut counts = counts.clone();
        let mut next =
            progress(self.stepper, self.call).map_or(0, |progress| progress.nested.len());
        let guarded = requests.iter().map(|request| {
            let (tool, known) = self.find(request).ok()?;
            let digest = request.digest(&tool.name);
            let number = match self.number_then(&digest, &mut counts) {
                Some(number) => plans.get(&number).map(|_| number)?,
                None => {
                    next += 1;
                    u16::try_from(next - 1).ok()?
                }
            };
            self.guarded_call(tool, known, request, number)
        });
        guarded.collect()
    }

    /// Returns the number of the next call with this digest in an attempt that has ended, and counts it.
    pub(crate) fn number_then(
        &self,
        digest: &str,
        counts: &mut BTreeMap<String, usize>,
    ) -> Option<u16> {
        let nth = counts.entry(digest.to_owned()).or_default();
        let number = progress(self.stepper, self.call)?.nth_nested(digest, *nth);
        *nth += 1;
        number
    }

    /// Returns the digest by which a call is recognised in the record. Fails if the call is denied.
    pub(crate) fn digest(&self, request: &ToolRequest) -> Result<String, HostError> {
        let (tool, _) = self.find(request)?;
        Ok(request.digest(&tool.name))
    }

    /// Returns the event that an attempt makes a call, and the call without its name in the record. Fails if the
    /// call is denied.
    pub(super) fn make(&self, request: &ToolRequest) -> Result<(Event, RequestedCall), HostError> {
        let (tool, known) = self.find(request)?;
        let progress = progress(self.stepper, self.call).ok_or_else(lost)?;
        let digest = request.digest(&tool.name);
        let summary = summarize(&format!("{} {}", tool.name, request.arguments.as_str()));
        let mut call = RequestedCall {
            number: 0,
            request: digest.clone(),
            summary,
            source: AnswerSource::Live,
        };
        if let Some(number) = progress.earlier_nested(&digest) {
            let earlier = progress.nested.get(usize::from(number));
            if earlier.is_some_and(|earlier| earlier.call.outcome.is_some()) {
                call.source = AnswerSource::Recorded;
            }
            call.number = number;
            let nested_call = NestedCallMade { number, plan: None };
            let event = AttemptEvent::NestedCallMade(nested_call);
            return Ok((Event::Attempt(self.call, event), call));
        }
        let target = CallTarget {
            // The result is for the code, and not the answer of the role.
            effect: CallEffect::Continues,
            ..tool.target
        };
        let plan = NestedCallPlan {
            request: digest,
            tool: tool.name.clone(),
            arguments: request.arguments.clone(),
            decision: request
                .decision
                .clone()
                .narrow(self.decide(tool, known, target, request), || {
                    input_schema(known)
                }),
        };
        let event = self.stepper.nested_call_made_event(self.call, plan);
        let event = event
            .ok_or_else(|| HostError::new(HostErrorKind::Invalid, "too many tools were called"))?;
        if let Event::Attempt(_, AttemptEvent::NestedCallMade(nested_call)) = &event {
            call.number = nested_call.number;
        }
        Ok((event, call))
    }

    fn decide(
        &self,
        tool: &Tool,
        known: &RoleTool,
        target: CallTarget,
        request: &ToolRequest,
    ) -> CallDecision {
        let arguments = request.arguments.as_str();
        decide_call(tool, known, target, arguments, now_ms())
    }
}

impl RequestedCall {
    /// Returns the digest by which it is recognised.
    pub(super) fn digest(&self) -> &str {
        &self.request
    }

    /// Returns the call with its name in the record.
    pub(super) fn named(self, request: String) -> Self {
        Self { request, ..self }
    }
}
