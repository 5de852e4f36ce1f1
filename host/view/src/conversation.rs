//! The conversations of roles whose model works with tools: what the model was told, its replies,
//! the tool calls of each, and what became of them.
//!
//! A conversation is part of its activation, which ends when its step is committed. What the state
//! does not keep (what tool calls cost, faults of attempts that were repeated) is collected from the
//! events.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, Part, reply_text, tool_calls};
use strata_core::record::event::{AttemptEvent, Event};
use strata_core::record::host_call::{AnswerSource, FinishReason};
use strata_core::record::json::Json;
use strata_core::record::memory::MemoryReplacement;
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::work::{ActivationKey, CallKey, Work};
use strata_core::state::activation::{Activation, Phase, ToolOutcome, Turn, TurnCall};
use strata_core::team::Team;
use strata_driver::public_event::{NestedNumber, RoleCaller};

use super::ActionFault;
use super::part::{PartFields, serialize_parts};

/// A conversation of a role with its model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ConversationView {
    /// The activation.
    #[serde(skip)]
    pub activation: ActivationKey,
    /// The name of the role.
    pub role: String,
    /// The tool call that the role answers, if it does not handle mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<RoleCaller>,
    /// The step in which the role took its mail.
    pub step: u64,
    /// The messages that the role handles, oldest first.
    pub news: Vec<NewsView>,
    /// The replies of the model, oldest first.
    pub turns: Vec<TurnView>,
    /// What was replaced in what the model was sent, oldest first.
    pub replacements: Vec<ReplacementView>,
    /// The fault of the next turn, if it failed.
    pub fault: Option<ActionFault>,
    /// The content of the output, if the conversation has come to an end.
    pub output: Option<String>,
    /// The cost of all turns, summaries and tool calls, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    #[schemars(with = "f64")]
    pub cost: Usd,
}

/// A replacement of the oldest messages of a conversation in what the model is sent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplacementView {
    /// The turn that was requested next.
    pub turn: u32,
    /// The positions of the first and the last message that was replaced, from 0 in the whole
    /// conversation.
    pub messages: Option<(u32, u32)>,
    /// The name of the method, as in the event.
    pub how: &'static str,
    /// The text that replaced them; `None` if results of tools became a line each.
    pub summary: Option<String>,
    /// The name of the model that wrote it.
    pub model: Option<String>,
    /// Its cost in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    #[schemars(with = "f64")]
    pub cost: Usd,
    /// The estimated size of the request before, in tokens.
    pub tokens_before: u64,
    /// The estimated size of the request after, in tokens.
    pub tokens_after: u64,
    /// Why there is no summary although one was due.
    pub failure: Option<String>,
}

impl ReplacementView {
    fn from_record(replacement: &MemoryReplacement) -> Self {
        Self {
            turn: replacement.turn,
            messages: replacement.messages,
            how: replacement.how.name(),
            summary: replacement.summary.clone(),
            model: replacement.model.clone(),
            cost: replacement.cost,
            tokens_before: replacement.tokens_before,
            tokens_after: replacement.tokens_after,
            failure: replacement.failure.clone(),
        }
    }
}

/// A message that a role handles.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NewsView {
    /// The message's id.
    pub id: String,
    /// The name of the sender; empty if it came from outside the team.
    pub from: String,
    /// The message's label.
    pub cause_by: String,
    /// The content.
    pub content: String,
    /// Its images and files, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "serialize_parts")]
    #[schemars(with = "Vec<PartFields<'_>>")]
    pub parts: Vec<Part>,
}

/// A reply of the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TurnView {
    /// The number of the turn, from 0.
    pub turn: u32,
    /// The name of the model.
    pub model: String,
    /// Why the reply ended.
    #[serde(serialize_with = "serialize_finish")]
    #[schemars(with = "String")]
    pub finish: FinishReason,
    /// The cost of the reply in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    #[schemars(with = "f64")]
    pub cost: Usd,
    /// The reasoning of the model; empty if it is not kept.
    pub reasoning: String,
    /// The text of the reply.
    pub text: String,
    /// The tool calls, in the model's order.
    pub calls: Vec<ToolCallView>,
    /// Why the answer in the reply was not accepted.
    pub misfit: Option<String>,
}

/// A tool call that the model asked for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolCallView {
    /// The position in the turn, from 0.
    pub tool_call: u32,
    /// The provider's id.
    pub id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them, which may not be JSON.
    pub arguments: String,
    /// The arguments that a human set in their place.
    #[serde(serialize_with = "super::serialize_json")]
    #[schemars(with = "serde_json::Value")]
    pub edited_arguments: Option<Json>,
    /// The name of the person who approved or declined it, if one did and the name is known.
    pub decided_by: Option<String>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The cost of its host calls, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    #[schemars(with = "f64")]
    pub cost: Usd,
    /// What became of it.
    pub outcome: ToolCallOutcome,
    /// The faults of earlier attempts, oldest first.
    pub earlier_faults: Vec<ActionFault>,
    /// The calls of tools that its code made, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<NestedCallView>,
}

/// A call of a tool that code made within a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NestedCallView {
    /// Its number within the outer call, from 0.
    pub number: u16,
    /// The name of the tool.
    pub tool: String,
    /// The arguments: those that a human set, or else those of the code.
    pub arguments: String,
    /// The name of the person who approved or declined it, if one did and the name is known.
    pub decided_by: Option<String>,
    /// How many attempts were made.
    pub attempts: u32,
    /// What became of it.
    pub outcome: ToolCallOutcome,
    /// The calls of tools that its code made, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<Self>,
}

/// What became of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ToolCallOutcome {
    /// It returned a result.
    Returned {
        /// The content of the result.
        content: String,
        /// The data of the result.
        #[serde(serialize_with = "super::serialize_json")]
        #[schemars(with = "serde_json::Value")]
        data: Option<Json>,
        /// The images, files and further texts of the result, in order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        #[serde(serialize_with = "serialize_parts")]
        #[schemars(with = "Vec<PartFields<'_>>")]
        parts: Vec<Part>,
    },
    /// It failed, and the model was told.
    FaultReturned {
        /// The fault.
        fault: ActionFault,
    },
    /// It was not made, and the model was told.
    Rejected {
        /// The reason.
        reason: String,
    },
    /// A human did not approve it, and the model was told.
    Declined {
        /// The reason.
        reason: String,
    },
    /// It failed, and a resume makes it again.
    Failed {
        /// The fault.
        fault: ActionFault,
    },
    /// A human has to approve it, or it asks a human.
    WaitsForHuman,
    /// It is being made.
    Running,
    /// It was not made yet.
    Pending,
}

impl ToolCallView {
    /// Returns whether a person whose name is known approved the call.
    pub fn was_approved(&self) -> bool {
        let is_declined = matches!(self.outcome, ToolCallOutcome::Declined { .. });
        self.decided_by.is_some() && !is_declined
    }
}

impl ToolCallOutcome {
    /// Returns the result as text, if the call returned one: its data or, without any, its content.
    pub fn result(&self) -> Option<&str> {
        match self {
            Self::Returned { content, data, .. } => {
                Some(data.as_ref().map_or(content, Json::as_str))
            }
            _ => None,
        }
    }

    /// Returns the images, files and further texts of the result.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Returned { parts, .. } => parts,
            _ => &[],
        }
    }

    /// Returns the fault, if it has one that is open or was returned to the model.
    pub fn fault(&self) -> Option<&ActionFault> {
        match self {
            Self::FaultReturned { fault } | Self::Failed { fault } => Some(fault),
            _ => None,
        }
    }
}

/// Collects conversations from events.
#[derive(Debug, Default)]
pub struct ConversationTracker {
    /// What the state does not keep of the conversations that are open.
    open: BTreeMap<ActivationKey, ConversationRecord>,
}

/// What the state does not keep of a conversation.
#[derive(Debug, Default)]
struct ConversationRecord {
    /// The cost of host calls, by turn and position of the tool call.
    costs: BTreeMap<(u32, u32), Usd>,
    /// The faults, by turn and position of the tool call.
    faults: BTreeMap<(u32, u32), Vec<ActionFault>>,
}

impl ConversationTracker {
    /// Processes an event that is about to be applied to `stepper`. Returns the conversations that
    /// end with it, in the order of the roles.
    pub fn add_event(&mut self, event: &Event, stepper: &Stepper) -> Vec<ConversationView> {
        match event {
            Event::Attempt(call, event) => self.add_attempt_event(*call, event),
            Event::StepCommitted(_) => {
                let ended = self.conversations(stepper);
                self.open.clear();
                return ended;
            }
            _ => {}
        }
        Vec::new()
    }

    /// Returns the conversations that are open, in the order of the roles that handle mail. Those that
    /// the tool calls of one led to come after it.
    pub fn conversations(&self, stepper: &Stepper) -> Vec<ConversationView> {
        let mut views = Vec::new();
        for (key, activation) in stepper.env().activations() {
            if stepper.team().role(key.role).tool_loop().is_some() {
                views.push(self.view(stepper, key, activation));
            }
        }
        views
    }

    fn view(
        &self,
        stepper: &Stepper,
        key: ActivationKey,
        activation: &Activation,
    ) -> ConversationView {
        let (team, env) = (stepper.team(), stepper.env());
        let unknown = ConversationRecord::default();
        let record = self.open.get(&key).unwrap_or(&unknown);
        let mut turns = Vec::new();
        for (turn, number) in activation.turns.iter().zip(0..) {
            turns.push(record.view_turn(turn, number));
        }
        let mut news = Vec::new();
        for message in &activation.news {
            news.push(NewsView::from_message(env.message(*message)));
        }
        let replacements = activation.memory.replacements.iter();
        let replacements: Vec<ReplacementView> =
            replacements.map(ReplacementView::from_record).collect();
        let output = activation.done.last();
        ConversationView {
            activation: key,
            role: team.role(key.role).name.clone(),
            via: caller(team, key),
            step: activation.opened_in_step,
            news,
            cost: turns.iter().map(TurnView::total_cost).sum::<Usd>()
                + replacements.iter().map(|replaced| replaced.cost).sum(),
            turns,
            replacements,
            fault: turn_fault(activation),
            output: output.map(|done| env.message(done.output.message).content.clone()),
        }
    }

    fn add_attempt_event(&mut self, call: CallKey, event: &AttemptEvent) {
        let Work::ToolCall {
            turn,
            call: position,
            ..
        } = call.work
        else {
            return;
        };
        let at = (turn, position);
        let record = self.open.entry(call.activation()).or_default();
        match event {
            AttemptEvent::HostCalled(called) if called.source == AnswerSource::Live => {
                *record.costs.entry(at).or_default() += called.call.cost;
            }
            AttemptEvent::CallFailed(failed) if call.work.nested().is_none() => {
                let faults = record.faults.entry(at).or_default();
                faults.push(ActionFault::from_fault(&failed.fault));
            }
            _ => {}
        }
    }
}

impl ConversationRecord {
    fn view_turn(&self, turn: &Turn, number: u32) -> TurnView {
        let mut calls = Vec::new();
        for ((call, tool_call), position) in
            turn.calls.iter().zip(tool_calls(&turn.message)).zip(0..)
        {
            let at = (number, position);
            let outcome = outcome_of(call);
            let mut earlier_faults = self.faults.get(&at).cloned().unwrap_or_default();
            if outcome.fault().is_some() {
                earlier_faults.pop();
            }
            calls.push(ToolCallView {
                tool_call: position,
                id: tool_call.id.clone(),
                tool: call.tool.clone(),
                arguments: tool_call.arguments.clone(),
                edited_arguments: call.edited_arguments.clone(),
                decided_by: call.decided_by.clone(),
                attempts: call.progress.attempts,
                cost: self.costs.get(&at).copied().unwrap_or_default(),
                outcome,
                earlier_faults,
                nested: nested_calls(call),
            });
        }
        TurnView {
            turn: number,
            model: turn.model.clone(),
            finish: turn.finish,
            cost: turn.cost,
            reasoning: reasoning(&turn.message),
            text: reply_text(&turn.message),
            calls,
            misfit: turn.misfit.clone(),
        }
    }
}

impl TurnView {
    /// Returns the cost of the reply and of its tool calls.
    pub fn total_cost(&self) -> Usd {
        let of_calls = self.calls.iter().map(|call| call.cost);
        self.cost + of_calls.sum()
    }
}

impl NewsView {
    /// Returns the view of a message.
    pub fn from_message(message: &Message) -> Self {
        Self {
            id: message.id.0.clone(),
            from: message.sent_from.clone(),
            cause_by: message.cause_by.clone(),
            content: message.content.clone(),
            parts: message.parts.clone(),
        }
    }
}

/// Returns the calls that code made within a call.
fn nested_calls(call: &TurnCall) -> Vec<NestedCallView> {
    let numbered = (0..).zip(&call.progress.nested);
    let views = numbered.map(|(number, nested)| NestedCallView {
        number,
        tool: nested.call.tool.clone(),
        arguments: nested.arguments().as_str().to_owned(),
        decided_by: nested.call.decided_by.clone(),
        attempts: nested.call.progress.attempts,
        outcome: outcome_of(&nested.call),
        nested: nested_calls(&nested.call),
    });
    views.collect()
}

/// Returns the tool call that an activation answers, if it does not handle mail.
fn caller(team: &Team, key: ActivationKey) -> Option<RoleCaller> {
    let call = key.via.last()?;
    Some(RoleCaller {
        role: team.role(call.role).name.clone(),
        turn: call.turn,
        tool_call: call.call,
        nested: NestedNumber::from_path(call.nested),
    })
}

/// Returns what became of a call.
fn outcome_of(call: &TurnCall) -> ToolCallOutcome {
    match &call.outcome {
        Some(ToolOutcome::Returned(returned)) => ToolCallOutcome::Returned {
            content: returned.output.content.clone(),
            data: returned.output.data.clone(),
            parts: returned.output.parts.clone(),
        },
        Some(ToolOutcome::Failed(fault)) => ToolCallOutcome::FaultReturned {
            fault: ActionFault::from_fault(fault),
        },
        Some(ToolOutcome::Rejected(reason)) => ToolCallOutcome::Rejected {
            reason: reason.clone(),
        },
        Some(ToolOutcome::Declined(reason)) => ToolCallOutcome::Declined {
            reason: reason.clone(),
        },
        None => match &call.phase {
            Phase::Failed(fault) => ToolCallOutcome::Failed {
                fault: ActionFault::from_fault(fault),
            },
            Phase::WaitingForHuman(_) => ToolCallOutcome::WaitsForHuman,
            Phase::Running | Phase::BackingOff | Phase::CallingRole => ToolCallOutcome::Running,
            Phase::Ready | Phase::ReadyAfterFault(_) | Phase::Complete | Phase::CallingTools => {
                ToolCallOutcome::Pending
            }
        },
    }
}

/// Returns the fault of the turn that follows those that were taken.
fn turn_fault(activation: &Activation) -> Option<ActionFault> {
    match &activation.phase {
        Phase::Failed(fault) => Some(ActionFault::from_fault(fault)),
        _ => None,
    }
}

/// Returns the reasoning in a reply that people can read.
fn reasoning(message: &[AssistantPart]) -> String {
    let mut text = String::new();
    for part in message {
        if let AssistantPart::Opaque(opaque) = part {
            text.push_str(&opaque.reasoning);
        }
    }
    text
}

fn serialize_finish<S: serde::Serializer>(
    finish: &FinishReason,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    finish.name().serialize(serializer)
}
