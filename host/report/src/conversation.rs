//! The conversations of roles whose model works with tools, as a report holds them.

use strata_core::record::money::Usd;
use strata_core::record::work::ActivationKey;

use super::bounded::{Excerpt, FirstAndNewest};
use strata_view::{
    ActionFault, ConversationView, NestedCallView, ReplacementView, ToolCallOutcome, ToolCallView,
    TurnView, describe_part,
};

/// The maximum number of turns shown of a conversation.
const MAX_TURNS: usize = 200;
/// The maximum number of tool calls shown of a turn.
const MAX_CALLS: usize = 64;
/// The maximum number of calls shown that code made within one call.
const MAX_NESTED_CALLS: usize = 64;
/// The maximum number of replacements shown of a conversation.
const MAX_REPLACEMENTS: usize = 64;
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
    /// What was replaced in what the model was sent.
    pub replacements: FirstAndNewest<ReplacementEntry>,
}

/// A replacement of the oldest messages of a conversation in what the model is sent.
#[derive(Clone, Debug)]
pub struct ReplacementEntry {
    /// The turn that was requested next.
    pub turn: u32,
    /// The positions of the first and the last message that was replaced.
    pub messages: Option<(u32, u32)>,
    /// The name of the method.
    pub how: &'static str,
    /// The estimated sizes of the request before and after, in tokens.
    pub tokens: (u64, u64),
    /// What the summary cost.
    pub cost: Usd,
    /// The summary; `None` if results of tools became a line each.
    pub summary: Option<Excerpt>,
    /// Why there is no summary although one was due.
    pub failure: Option<Excerpt>,
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
    /// The calls of tools that its code made.
    pub nested: FirstAndNewest<NestedCallEntry>,
}

/// A call of a tool that code made within a tool call.
#[derive(Clone, Debug)]
pub struct NestedCallEntry {
    /// Its number within the outer call, from 0.
    pub number: u16,
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Excerpt,
    /// The person who approved or declined it, if one did and the name is known.
    pub decided_by: Option<Excerpt>,
    /// How many attempts were made.
    pub attempts: u32,
    /// What became of it.
    pub outcome: ToolCallEntryOutcome,
    /// The result, or the reason why there is none.
    pub text: Excerpt,
    /// The calls of tools that its code made.
    pub nested: FirstAndNewest<Self>,
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
        let mut replacements = FirstAndNewest::at_most(MAX_REPLACEMENTS);
        for replacement in &view.replacements {
            replacements.push(ReplacementEntry::from_view(replacement));
        }
        Self {
            activation: view.activation,
            step: view.step,
            turns,
            replacements,
        }
    }

    /// Returns all its texts, so that they can be shortened.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        let replacements = self.replacements.iter_mut();
        let replaced = replacements.flat_map(|one| one.summary.iter_mut().chain(&mut one.failure));
        let turns = self.turns.iter_mut().flat_map(TurnEntry::texts_mut);
        turns.chain(replaced)
    }
}

impl ReplacementEntry {
    fn from_view(view: &ReplacementView) -> Self {
        let excerpt = |text: &String| Excerpt::from_text(text, TEXT_CHARS);
        Self {
            turn: view.turn,
            messages: view.messages,
            how: view.how,
            tokens: (view.tokens_before, view.tokens_after),
            cost: view.cost,
            summary: view.summary.as_ref().map(excerpt),
            failure: view.failure.as_ref().map(excerpt),
        }
    }
}

impl TurnEntry {
    fn from_view(turn: &TurnView) -> Self {
        let mut calls = FirstAndNewest::at_most(MAX_CALLS);
        for call in &turn.calls {
            calls.push(ToolCallEntry::from_view(call));
        }
        let excerpt = |text: &String| Excerpt::from_text(text, TEXT_CHARS);
        Self {
            number: turn.turn,
            model: turn.model.clone(),
            finish: turn.finish.name(),
            reasoning: (!turn.reasoning.is_empty()).then(|| excerpt(&turn.reasoning)),
            text: excerpt(&turn.text),
            calls,
            misfit: turn.misfit.as_ref().map(excerpt),
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
        let excerpt = |text: &str| Excerpt::from_text(text, TEXT_CHARS);
        let (outcome, text) = outcome_of(&call.outcome);
        let edited = call.edited_arguments.as_ref();
        Self {
            number: call.tool_call,
            tool: call.tool.clone(),
            arguments: excerpt(&call.arguments),
            edited_arguments: edited.map(|json| excerpt(json.as_str())),
            decided_by: call.decided_by.as_deref().map(excerpt),
            attempts: call.attempts,
            cost: call.cost,
            outcome,
            text,
            nested: nested_entries(&call.nested),
        }
    }

    fn texts_mut(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        let mut nested = Vec::new();
        for call in self.nested.iter_mut() {
            call.add_texts(&mut nested);
        }
        [&mut self.arguments, &mut self.text]
            .into_iter()
            .chain(&mut self.edited_arguments)
            .chain(&mut self.decided_by)
            .chain(nested)
    }
}

fn nested_entries(views: &[NestedCallView]) -> FirstAndNewest<NestedCallEntry> {
    let mut entries = FirstAndNewest::at_most(MAX_NESTED_CALLS);
    for view in views {
        entries.push(NestedCallEntry::from_view(view));
    }
    entries
}

impl NestedCallEntry {
    fn from_view(call: &NestedCallView) -> Self {
        let excerpt = |text: &str| Excerpt::from_text(text, TEXT_CHARS);
        let (outcome, text) = outcome_of(&call.outcome);
        Self {
            number: call.number,
            tool: call.tool.clone(),
            arguments: excerpt(&call.arguments),
            decided_by: call.decided_by.as_deref().map(excerpt),
            attempts: call.attempts,
            outcome,
            text,
            nested: nested_entries(&call.nested),
        }
    }

    fn add_texts<'a>(&'a mut self, texts: &mut Vec<&'a mut Excerpt>) {
        texts.extend([&mut self.arguments, &mut self.text]);
        texts.extend(&mut self.decided_by);
        for call in self.nested.iter_mut() {
            call.add_texts(texts);
        }
    }
}

/// Returns what became of a tool call, with its result or the reason why there is none.
fn outcome_of(outcome: &ToolCallOutcome) -> (ToolCallEntryOutcome, Excerpt) {
    let excerpt = |text: &str| Excerpt::from_text(text, TEXT_CHARS);
    match outcome {
        ToolCallOutcome::Returned { .. } => {
            let text = outcome.result().filter(|text| !text.is_empty());
            let mut lines: Vec<String> = text.map(str::to_owned).into_iter().collect();
            lines.extend(outcome.parts().iter().map(describe_part));
            (ToolCallEntryOutcome::Returned, excerpt(&lines.join("\n")))
        }
        ToolCallOutcome::FaultReturned { fault } => {
            (ToolCallEntryOutcome::FaultReturned, describe_fault(fault))
        }
        ToolCallOutcome::Failed { fault } => (ToolCallEntryOutcome::Failed, describe_fault(fault)),
        ToolCallOutcome::Rejected { reason } => (ToolCallEntryOutcome::Rejected, excerpt(reason)),
        ToolCallOutcome::Declined { reason } => (ToolCallEntryOutcome::Declined, excerpt(reason)),
        ToolCallOutcome::WaitsForHuman => (ToolCallEntryOutcome::WaitsForHuman, Excerpt::default()),
        ToolCallOutcome::Running | ToolCallOutcome::Pending => {
            (ToolCallEntryOutcome::Open, Excerpt::default())
        }
    }
}

fn describe_fault(fault: &ActionFault) -> Excerpt {
    Excerpt::from_text(&format!("{}: {}", fault.kind, fault.message), TEXT_CHARS)
}
