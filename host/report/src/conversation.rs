//! The conversations of roles whose model works with tools, as a report holds them.

use strata_core::record::money::Usd;
use strata_core::record::work::ActivationKey;

use super::bounded::{Excerpt, FirstAndNewest};
use strata_view::{ActionFault, ConversationView, ToolCallOutcome, ToolCallView, TurnView};

/// The maximum number of turns shown of a conversation.
const MAX_TURNS: usize = 200;
/// The maximum number of tool calls shown of a turn.
const MAX_CALLS: usize = 64;
/// The maximum number of characters of a reply, of arguments and of results.
const TEXT_CHARS: usize = 6_000;

/// A conversation of a role with its model.
#[derive(Clone, Debug)]
pub struct ConversationEntry {
    /// The activation.
    pub activation: ActivationKey,
    /// The step in which the role took its mail.
    pub step: u64,
    /// The replies of the model.
    pub turns: FirstAndNewest<TurnEntry>,
}

/// A reply of the model.
#[derive(Clone, Debug)]
pub struct TurnEntry {
    /// The number of the turn, from 0.
    pub number: u32,
    /// The name of the model.
    pub model: String,
    /// Why the reply ended, spelled as in public events.
    pub finish: &'static str,
    /// The reasoning of the model, if it is kept.
    pub reasoning: Option<Excerpt>,
    /// The text.
    pub text: Excerpt,
    /// The tool calls.
    pub calls: FirstAndNewest<ToolCallEntry>,
    /// Why the answer in the reply was not accepted.
    pub misfit: Option<Excerpt>,
}

/// A tool call.
#[derive(Clone, Debug)]
pub struct ToolCallEntry {
    /// The position in the reply, from 0.
    pub number: u32,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Excerpt,
    /// The arguments that a human set in their place.
    pub edited_arguments: Option<Excerpt>,
    /// The person who approved or declined it, if one did and the name is known.
    pub decided_by: Option<Excerpt>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The cost of its host calls.
    pub cost: Usd,
    /// What became of it.
    pub outcome: ToolCallEntryOutcome,
    /// The result, or the reason why there is none.
    pub text: Excerpt,
}

/// What became of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCallEntryOutcome {
    /// It returned a result.
    Returned,
    /// It failed, and the model was told.
    FaultReturned,
    /// It was not made, and the model was told.
    Rejected,
    /// A human did not approve it, and the model was told.
    Declined,
    /// It failed, and a resume makes it again.
    Failed,
    /// It waits for a human.
    WaitsForHuman,
    /// It has not ended.
    Open,
}

impl ConversationEntry {
    pub(super) fn from_view(view: &ConversationView) -> Self {
        let mut turns = FirstAndNewest::at_most(MAX_TURNS);
        for turn in &view.turns {
            turns.push(TurnEntry::from_view(turn));
        }
        Self {
            activation: view.activation,
            step: view.step,
            turns,
        }
    }

    /// Returns all its texts, so that they can be shortened.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        self.turns.iter_mut().flat_map(TurnEntry::texts_mut)
    }
}

impl TurnEntry {
    fn from_view(turn: &TurnView) -> Self {
        let mut calls = FirstAndNewest::at_most(MAX_CALLS);
        for call in &turn.calls {
            calls.push(ToolCallEntry::from_view(call));
        }
        let shown = |text: &String| Excerpt::from_text(text, TEXT_CHARS);
        Self {
            number: turn.turn,
            model: turn.model.clone(),
            finish: turn.finish.name(),
            reasoning: (!turn.reasoning.is_empty()).then(|| shown(&turn.reasoning)),
            text: shown(&turn.text),
            calls,
            misfit: turn.misfit.as_ref().map(shown),
        }
    }

    fn texts_mut(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        let calls = self.calls.iter_mut().flat_map(ToolCallEntry::texts_mut);
        [&mut self.text]
            .into_iter()
            .chain(&mut self.reasoning)
            .chain(&mut self.misfit)
            .chain(calls)
    }
}

impl ToolCallEntry {
    fn from_view(call: &ToolCallView) -> Self {
        let shown = |text: &str| Excerpt::from_text(text, TEXT_CHARS);
        let result = call.outcome.result().map(shown).unwrap_or_default();
        let (outcome, text) = match &call.outcome {
            ToolCallOutcome::Returned { .. } => (ToolCallEntryOutcome::Returned, result),
            ToolCallOutcome::FaultReturned { fault } => {
                (ToolCallEntryOutcome::FaultReturned, describe_fault(fault))
            }
            ToolCallOutcome::Failed { fault } => {
                (ToolCallEntryOutcome::Failed, describe_fault(fault))
            }
            ToolCallOutcome::Rejected { reason } => (ToolCallEntryOutcome::Rejected, shown(reason)),
            ToolCallOutcome::Declined { reason } => (ToolCallEntryOutcome::Declined, shown(reason)),
            ToolCallOutcome::WaitsForHuman => {
                (ToolCallEntryOutcome::WaitsForHuman, Excerpt::default())
            }
            ToolCallOutcome::Running | ToolCallOutcome::Pending => {
                (ToolCallEntryOutcome::Open, Excerpt::default())
            }
        };
        let edited = call.edited_arguments.as_ref();
        Self {
            number: call.tool_call,
            tool: call.tool.clone(),
            arguments: shown(&call.arguments),
            edited_arguments: edited.map(|json| shown(json.as_str())),
            decided_by: call.decided_by.as_deref().map(shown),
            attempts: call.attempts,
            cost: call.cost,
            outcome,
            text,
        }
    }

    fn texts_mut(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        [&mut self.arguments, &mut self.text]
            .into_iter()
            .chain(&mut self.edited_arguments)
            .chain(&mut self.decided_by)
    }
}

fn describe_fault(fault: &ActionFault) -> Excerpt {
    Excerpt::from_text(&format!("{}: {}", fault.kind, fault.message), TEXT_CHARS)
}
