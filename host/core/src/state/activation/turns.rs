//! The conversation that an activation has open with its model: the replies of the model in turn,
//! the tool calls of each, how far these have come, and what became of them.
//!
//! A turn is complete when all its calls have ended. Only then its effects are visible to the calls
//! of later turns, in the order of the calls, whichever ended first.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{
    Activation, CallProgress, Consent, OpenCall, OpenCallMut, Phase, ToolOutcome, ToolReturn,
    UncommittedMessage,
};
use crate::record::conversation::{AssistantPart, stored_media, tool_calls};
use crate::record::fault::Fault;
use crate::record::file::FileChange;
use crate::record::host_call::FinishReason;
use crate::record::id::{Digest, RoleId};
use crate::record::json::Json;
use crate::record::message::stored_parts;
use crate::record::money::Usd;
use crate::record::nested_path::NestedPath;
use crate::record::scope_write::Write;
use crate::record::turn::{
    Approval, CallDecision, CallEffect, CallForm, CallPlan, CallTarget, HostTool, SkillDigest,
    ToolRef, TurnOutcome, TurnReply,
};
use crate::record::work::Work;
use crate::state::messages::MessageRef;

/// A reply of the model and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The name of the model that replied.
    pub model: String,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// What the reply cost.
    pub cost: Usd,
    /// The reply.
    pub message: Vec<AssistantPart>,
    /// Its tool calls, in its order.
    #[serde(with = "super::call_list")]
    pub calls: Vec<TurnCall>,
    /// Why the answer in the reply was not accepted; the model is told.
    pub misfit: Option<String>,
    /// The role's skills as they were when it was the first turn. Empty in later turns.
    pub skills: Vec<SkillDigest>,
}

/// A tool call of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCall {
    /// The name of the tool.
    pub tool: String,
    /// How the model called it.
    pub form: CallForm,
    /// What it is made to; `None` if it was rejected.
    pub target: Option<CallTarget>,
    /// Whether a human has to approve it before it is made.
    pub consent: Consent,
    /// The arguments that a human set in place of the model's.
    pub edited_arguments: Option<Json>,
    /// The name of the person who approved or declined it, if one did and the name is known.
    pub decided_by: Option<String>,
    /// Its progress.
    pub progress: CallProgress,
    /// Its phase; `Complete` once it has ended.
    pub phase: Phase,
    /// What became of it, once it has ended.
    pub outcome: Option<ToolOutcome>,
}

impl Turn {
    /// Returns the turn that begins with a reply, which has these parts.
    pub(crate) fn from_reply(reply: &TurnReply, parts: Vec<AssistantPart>) -> Self {
        let (calls, misfit) = match &reply.outcome {
            TurnOutcome::Calls(plans) => (plans.iter().map(TurnCall::from_plan).collect(), None),
            TurnOutcome::Answer(_) => (Vec::new(), None),
            TurnOutcome::Misfit(reason) => (Vec::new(), Some(reason.clone())),
        };
        Self {
            model: reply.model.clone(),
            finish: reply.finish,
            cost: reply.cost,
            message: parts,
            calls,
            misfit,
            skills: reply.skills.clone(),
        }
    }

    /// Returns whether all its calls have ended.
    pub fn is_complete(&self) -> bool {
        self.calls.iter().all(|call| call.outcome.is_some())
    }

    /// Returns the arguments of a call: those that a human set, or else those of the model. Returns
    /// `None` if the model's are not JSON.
    pub fn arguments(&self, call: usize) -> Option<Json> {
        let turn_call = self.calls.get(call)?;
        turn_call.edited_arguments.clone().or_else(|| {
            let tool_call = tool_calls(&self.message).nth(call)?;
            turn_call.form.arguments(&tool_call.arguments)
        })
    }

    /// Returns the result of the call that ends the activation, if that call succeeded.
    pub(crate) fn ending(&self) -> Option<(CallTarget, &ToolReturn)> {
        self.calls.iter().find_map(|call| {
            let target = call.target.filter(|to| to.effect == CallEffect::Ends)?;
            match &call.outcome {
                Some(ToolOutcome::Returned(returned)) => Some((target, returned)),
                _ => None,
            }
        })
    }

    /// Returns the calls of its model with the work that each is, in order. `number` is its own number.
    fn tool_calls(&self, number: u32) -> impl Iterator<Item = (Work, &TurnCall)> {
        let numbered = self.calls.iter().zip(0..);
        numbered.filter_map(move |(call, index)| {
            Some((call.work(number, index, NestedPath::EMPTY)?, call))
        })
    }

    /// Returns its calls with the work that each is, in order, those of code after the call that they
    /// were made in.
    fn all_tool_calls(&self, number: u32) -> impl Iterator<Item = (Work, &TurnCall)> {
        self.calls.iter().zip(0..).flat_map(move |(call, index)| {
            let all = call.with_nested().into_iter();
            all.filter_map(move |(path, call)| Some((call.work(number, index, path)?, call)))
        })
    }

    /// Returns those of its calls that have not ended, as `all_tool_calls` does.
    fn open_tool_calls(&self, number: u32) -> impl Iterator<Item = (Work, &TurnCall)> {
        self.calls.iter().zip(0..).flat_map(move |(call, index)| {
            let all = call.open_with_nested().into_iter();
            all.filter_map(move |(path, call)| Some((call.work(number, index, path)?, call)))
        })
    }

    fn returns(&self) -> impl Iterator<Item = &ToolReturn> {
        self.calls.iter().filter_map(TurnCall::returned)
    }
}

impl TurnCall {
    /// Returns its result, if it returned one.
    pub fn returned(&self) -> Option<&ToolReturn> {
        match &self.outcome {
            Some(ToolOutcome::Returned(returned)) => Some(returned),
            _ => None,
        }
    }

    fn from_plan(plan: &CallPlan) -> Self {
        Self::from_decision(&plan.tool, plan.form, &plan.decision)
    }

    /// Returns a call of a tool with this name, about which this was decided.
    pub(super) fn from_decision(tool: &str, form: CallForm, decision: &CallDecision) -> Self {
        let (target, consent, outcome) = match decision {
            CallDecision::Make(target) => (Some(*target), Consent::NotNeeded, None),
            CallDecision::AskFirst(target, approval) => {
                (Some(*target), Consent::Needed(approval.clone()), None)
            }
            CallDecision::Reject(reason) => {
                let outcome = ToolOutcome::Rejected(reason.clone());
                (None, Consent::NotNeeded, Some(outcome))
            }
        };
        Self {
            tool: tool.into(),
            form,
            target,
            consent,
            edited_arguments: None,
            decided_by: None,
            progress: CallProgress::default(),
            phase: match outcome {
                Some(_) => Phase::Complete,
                None => Phase::Ready,
            },
            outcome,
        }
    }

    /// Ends the call without having made it. A rejected call has no target, so it counts as none.
    pub(crate) fn reject(&mut self, reason: String) {
        self.target = None;
        self.end(ToolOutcome::Rejected(reason));
    }

    /// Demands the approval of a human. A request for it that is open is withdrawn, and opened again
    /// like this.
    pub(crate) fn ask_first(&mut self, approval: Approval) {
        self.consent = Consent::Needed(approval);
        if matches!(&self.phase, Phase::WaitingForHuman(request) if request.proposed.is_some()) {
            self.phase = Phase::Ready;
        }
    }

    /// Ends the call.
    pub(crate) fn end(&mut self, outcome: ToolOutcome) {
        self.outcome = Some(outcome);
        self.phase = Phase::Complete;
        self.close_nested();
    }

    /// Continues after a stop or a crash, if it has not ended and no role works on it.
    pub(super) fn resume(&mut self) {
        self.progress.failures = 0;
        if self.outcome.is_none() && self.phase != Phase::CallingRole {
            OpenCallMut {
                progress: &mut self.progress,
                phase: &mut self.phase,
            }
            .resume();
        }
    }

    /// Returns the role that it calls, if its tool is one.
    pub fn called_role(&self) -> Option<RoleId> {
        let ToolRef::Role(role) = self.target?.tool else {
            return None;
        };
        Some(role)
    }

    /// Returns whether it was made and counts as finished.
    pub fn was_made(&self) -> bool {
        matches!(
            self.outcome,
            Some(ToolOutcome::Returned(_) | ToolOutcome::Failed(_))
        )
    }

    /// Returns whether the call can be started as far as the call itself is concerned.
    pub(crate) fn is_ready(&self) -> bool {
        self.outcome.is_none() && !self.needs_consent() && self.phase.is_ready()
    }

    /// Returns whether a human is still to be asked to approve it.
    pub(crate) fn needs_request(&self) -> bool {
        self.outcome.is_none() && self.needs_consent() && self.phase.is_ready()
    }

    /// Returns whether it can be decided again what is to become of it: it has not ended, and no
    /// attempt of it is in progress or in doubt.
    pub fn can_be_revised(&self) -> bool {
        let waits = matches!(self.phase, Phase::WaitingForHuman(_));
        self.outcome.is_none() && (waits || self.phase.is_ready())
    }

    /// Returns whether an attempt at it is in progress.
    pub(crate) fn is_attempted(&self) -> bool {
        self.outcome.is_none() && self.phase == Phase::Running
    }

    /// Returns whether the role that it calls works on it.
    pub fn is_worked_on(&self) -> bool {
        self.outcome.is_none() && self.phase == Phase::CallingRole
    }

    fn needs_consent(&self) -> bool {
        matches!(self.consent, Consent::Needed(_))
    }
}

impl Activation {
    /// Returns the next turn, or the summary that it needs, unless tool calls are open or the activation has its output.
    pub(super) fn next_turn(&self) -> Option<Work> {
        if !self.done.is_empty() || self.has_open_tool_calls() {
            return None;
        }
        let turn = self.turns.len() as u32;
        Some(match self.memory.planned {
            Some(_) => Work::Summary { turn },
            None => Work::Turn { turn },
        })
    }

    /// Returns whether tool calls are open.
    pub fn has_open_tool_calls(&self) -> bool {
        !self.turns.unsettled().all(|(turn, _)| turn.is_complete())
    }

    /// Returns the tool calls of the model with the work that each is, in order. Rejected calls are no
    /// work.
    pub fn tool_calls(&self) -> impl Iterator<Item = (Work, &TurnCall)> {
        let numbered = self.turns.iter().zip(0..);
        numbered.flat_map(|(turn, number)| turn.tool_calls(number))
    }

    /// Returns all tool calls with the work that each is, in order: those of code after the call that
    /// they were made in. Rejected calls are no work.
    pub fn all_tool_calls(&self) -> impl Iterator<Item = (Work, &TurnCall)> {
        let numbered = self.turns.iter().zip(0..);
        numbered.flat_map(|(turn, number)| turn.all_tool_calls(number))
    }

    /// Returns the tool calls that have not ended, with the work that each is, in order: those of code
    /// after the call that they were made in.
    pub fn unsettled_tool_calls(&self) -> impl Iterator<Item = (Work, &TurnCall)> {
        let unsettled = self.turns.unsettled();
        unsettled.flat_map(|(turn, number)| turn.open_tool_calls(number))
    }

    /// Returns a tool call.
    pub fn tool_call(&self, work: Work) -> Option<&TurnCall> {
        let Work::ToolCall {
            turn, call, nested, ..
        } = work
        else {
            return None;
        };
        let outer = self.turns.get(turn as usize)?.calls.get(call as usize)?;
        let found = outer.nested(nested)?;
        (found.work(turn, call, nested) == Some(work)).then_some(found)
    }

    /// Returns the call that a tool call was made in, if code made it.
    pub fn outer_call(&self, work: Work) -> Option<(Work, &TurnCall)> {
        let Work::ToolCall {
            turn, call, nested, ..
        } = work
        else {
            return None;
        };
        let path = nested.outer()?;
        let outermost = self.turns.get(turn as usize)?.calls.get(call as usize)?;
        let outer = outermost.nested(path)?;
        Some((outer.work(turn, call, path)?, outer))
    }

    /// Returns whether the attempt waits for a tool call in which it was made. Nothing waits for the
    /// calls of a model but the next turn.
    pub fn is_awaited(&self, work: Work) -> bool {
        let Some(number) = work
            .nested()
            .and_then(|path| path.numbers().last().copied())
        else {
            return true;
        };
        self.outer_call(work).is_some_and(|(_, outer)| {
            outer.phase == Phase::Running
                && outer
                    .progress
                    .awaited()
                    .any(|(awaited, _)| awaited == number)
        })
    }

    /// Returns the arguments of a tool call, or `None` if they are not JSON.
    pub fn arguments(&self, work: Work) -> Option<Json> {
        let Work::ToolCall {
            turn, call, nested, ..
        } = work
        else {
            return None;
        };
        let turn = self.turns.get(turn as usize)?;
        match nested.numbers().last() {
            None => turn.arguments(call as usize),
            Some(number) => {
                let (_, outer) = self.outer_call(work)?;
                let nested = outer.progress.nested.get(usize::from(*number))?;
                Some(nested.arguments().clone())
            }
        }
    }

    /// Returns a tool call, to be changed.
    pub(crate) fn tool_call_mut(&mut self, work: Work) -> Option<&mut TurnCall> {
        self.tool_call(work)?;
        let Work::ToolCall {
            turn, call, nested, ..
        } = work
        else {
            return None;
        };
        let outer = self.turns.get_mut(turn)?.calls.get_mut(call as usize)?;
        outer.nested_mut(nested)
    }

    pub(super) fn open_tool_calls(&self) -> impl Iterator<Item = (Work, OpenCall<'_>)> {
        self.unsettled_tool_calls()
            .map(|(work, call)| (work, call.open_call(self)))
    }

    pub(super) fn open_tool_call(&self, work: Work) -> Option<OpenCall<'_>> {
        let call = self.tool_call(work)?;
        (call.outcome.is_none() && self.is_within_open_calls(work)).then(|| call.open_call(self))
    }

    /// Returns whether the calls have not ended in which a tool call was made.
    fn is_within_open_calls(&self, work: Work) -> bool {
        let mut outer = self.outer_call(work);
        while let Some((work, call)) = outer {
            if call.outcome.is_some() {
                return false;
            }
            outer = self.outer_call(work);
        }
        true
    }

    pub(super) fn open_tool_call_mut(&mut self, work: Work) -> Option<OpenCallMut<'_>> {
        self.open_tool_call(work)?;
        let call = self.tool_call_mut(work)?;
        call.outcome.is_none().then_some(OpenCallMut {
            progress: &mut call.progress,
            phase: &mut call.phase,
        })
    }

    /// Takes back the end of a call of a role, because something that the role did for it has to be
    /// done again.
    pub(crate) fn reopen_role_call(&mut self, turn: u32, call: u32, nested: NestedPath) {
        let turn = self.turns.reopen(turn);
        let Some(outermost) = turn.and_then(|turn| turn.calls.get_mut(call as usize)) else {
            return;
        };
        if outermost
            .target
            .is_some_and(|to| to.effect == CallEffect::Ends)
        {
            self.done.clear();
        }
        // The code that called the role runs again once the role is done.
        let mut outer = nested.outer();
        while let Some(path) = outer {
            if let Some(call) = outermost.nested_mut(path) {
                (call.phase, call.outcome) = (Phase::CallingTools, None);
                call.progress.was_suspended = true;
                call.progress.files.clear();
            }
            outer = path.outer();
        }
        if let Some(call) = outermost.nested_mut(nested) {
            (call.phase, call.outcome) = (Phase::CallingRole, None);
        }
        self.phase = Phase::CallingTools;
    }

    /// Takes back the results of those tool calls for which `is_reverted` holds. They will be made
    /// again as further attempts; no turn is. Returns the file changes that they had made.
    pub(crate) fn revert_tool_calls(
        &mut self,
        is_reverted: impl Fn(&TurnCall) -> bool,
        fault: &Fault,
    ) -> Vec<FileChange> {
        let mut files = Vec::new();
        for (number, turn) in (0..).zip(self.turns.reopen_all()) {
            for (index, call) in (0..).zip(&mut turn.calls) {
                if !is_reverted(call) {
                    continue;
                }
                if call.target.is_some_and(|to| to.effect == CallEffect::Ends) {
                    self.done.clear();
                }
                if let Some(work) = call.work(number, index, NestedPath::EMPTY) {
                    let nested = call.nested_files(work).into_iter();
                    files.extend(nested.map(|(_, change)| change.clone()));
                }
                files.append(&mut call.progress.files);
                call.progress.memory = None;
                call.reopen_nested(fault);
                call.progress.keeps_calls = fault.keeps_recorded_calls();
                call.phase = Phase::Failed(fault.clone());
                call.outcome = None;
            }
        }
        if self.has_open_tool_calls() {
            self.phase = Phase::CallingTools;
        }
        files
    }

    /// Returns the turns that are complete, up to the first that is not.
    pub(crate) fn complete_turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns[..self.turns.complete_len()].iter()
    }

    /// Returns the digest that a skill had when the activation began.
    pub fn skill_digest(&self, skill: &str) -> Option<&Digest> {
        let first = self.turns.first()?;
        let found = first.skills.iter().find(|known| known.skill == skill)?;
        Some(&found.digest)
    }

    /// Returns whether the text of a skill is part of the conversation before this turn.
    pub fn has_loaded_skill(&self, skill: &str, turn: u32) -> bool {
        let earlier = self.turns.iter().take(turn as usize);
        let mut calls =
            earlier.flat_map(|turn| turn.calls.iter().enumerate().map(move |call| (turn, call)));
        calls.any(|(turn, (index, call))| {
            let loads = call
                .target
                .is_some_and(|to| to.tool == ToolRef::Host(HostTool::LoadSkill));
            let name = || turn.arguments(index)?.field("name");
            loads
                && matches!(call.outcome, Some(ToolOutcome::Returned(_)))
                && name() == Some(Json::from(serde_json::Value::from(skill)))
        })
    }

    /// Returns the outputs of its finished calls, in order.
    pub fn outputs(&self) -> impl DoubleEndedIterator<Item = MessageRef> {
        self.done.iter().map(|done| done.output.message)
    }

    /// Returns the messages that its role remembers after it: those it handled, then its outputs.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = MessageRef> {
        self.news.iter().copied().chain(self.outputs())
    }

    /// Returns the writes of all finished calls, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let of_turns = self.turns.iter().flat_map(Turn::returns);
        let done = self.done.iter().flat_map(|done| &done.writes);
        done.chain(of_turns.flat_map(|returned| &returned.writes))
    }

    /// Returns the writes that the next call sees, in order.
    pub(crate) fn visible_writes(&self) -> impl Iterator<Item = &Write> {
        let of_turns = self.complete_turns().flat_map(Turn::returns);
        let done = self.done.iter().flat_map(|done| &done.writes);
        done.chain(of_turns.flat_map(|returned| &returned.writes))
    }

    /// Returns the messages that finished calls published in addition, in order.
    pub fn emissions(&self) -> impl Iterator<Item = UncommittedMessage> {
        let of_turns = self.turns.iter().flat_map(Turn::returns);
        let done = self.done.iter().flat_map(|done| &done.emissions);
        done.chain(of_turns.flat_map(|returned| &returned.emissions))
            .copied()
    }

    /// Returns the file changes of finished calls with the calls that made them, in order.
    pub fn file_changes(&self) -> impl Iterator<Item = (Work, &FileChange)> {
        let done = self.done.iter().flat_map(|done| {
            let changes = done.progress.files.iter();
            changes.map(|change| (done.work, change))
        });
        let ended = self.tool_calls().filter(|(_, call)| call.outcome.is_some());
        done.chain(ended.flat_map(|(work, call)| {
            let nested = match &call.outcome {
                Some(ToolOutcome::Returned(_)) => call.nested_files(work),
                _ => Vec::new(),
            };
            let own = call.progress.files.iter();
            nested
                .into_iter()
                .chain(own.map(move |change| (work, change)))
        }))
    }

    /// Returns the digests of the images and files in replies and results whose bytes are stored.
    pub(crate) fn stored_media(&self) -> impl Iterator<Item = &Digest> {
        self.turns.iter().flat_map(|turn| {
            let calls = turn.calls.iter().flat_map(TurnCall::with_nested);
            let returned = calls.filter_map(|(_, call)| call.returned());
            stored_media(&turn.message)
                .chain(returned.flat_map(|returned| stored_parts(&returned.output.parts)))
        })
    }

    /// Returns whether a call made by this work belongs to a turn that is not complete.
    pub(crate) fn is_of_incomplete_turn(&self, work: Work) -> bool {
        match work {
            Work::ToolCall { turn, .. } => turn as usize >= self.turns.complete_len(),
            _ => false,
        }
    }
}

impl TurnCall {
    pub(super) fn work(&self, turn: u32, call: u32, nested: NestedPath) -> Option<Work> {
        let tool = self.target?.tool;
        Some(Work::ToolCall {
            turn,
            call,
            nested,
            tool,
        })
    }

    fn open_call<'a>(&'a self, activation: &'a Activation) -> OpenCall<'a> {
        OpenCall {
            activation,
            progress: &self.progress,
            phase: &self.phase,
        }
    }
}
