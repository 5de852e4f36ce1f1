//! Puts everything that happened into one order, and what belongs together into one entry.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::nested_path::NestedPath;
use strata_core::record::work::{ActivationKey, CallKey, Work};

use super::super::super::{
    AttemptEntry, AttemptOutcome, ConversationEntry, FaultEntry, FirstAndNewest, HostCallEntry,
    HumanRequestEntry, MessageEntry, NestedCallEntry, ReplacementEntry, Report, RunMarker,
    RunMarkerKind, StepEntry, ToolCallEntry, TurnEntry,
};

/// What happened in a step, or before the first one.
pub(super) struct StreamStep<'a> {
    /// The step; `None` for what happened before the first one.
    pub(super) step: Option<&'a StepEntry>,
    /// The entries, oldest first.
    pub(super) entries: Vec<Entry<'a>>,
    /// The positions of entries before which messages are left out, and how many.
    pub(super) gaps: Vec<(usize, usize)>,
}

/// Something that happened.
pub(super) enum Entry<'a> {
    Attempt(AttemptRun<'a>),
    Turn(TurnRun<'a>),
    Message(&'a MessageEntry),
    Question(&'a HumanRequestEntry),
    Marker(&'a RunMarker),
}

/// What can be shown and hidden together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Attempt,
    Turn,
    Message,
    Question,
    Marker,
}

/// An attempt, with what belongs to it.
pub(super) struct AttemptRun<'a> {
    pub(super) attempt: &'a AttemptEntry,
    /// The message that its result became.
    pub(super) message: Option<&'a MessageEntry>,
    pub(super) calls: Vec<&'a HostCallEntry>,
    pub(super) fault: Option<&'a FaultEntry>,
}

/// A reply of a model, with the tool calls that it led to.
pub(super) struct TurnRun<'a> {
    pub(super) run: AttemptRun<'a>,
    pub(super) turn: &'a TurnEntry,
    /// What was replaced in what the model was sent for it.
    pub(super) replacements: Vec<&'a ReplacementEntry>,
    pub(super) tools: Vec<ToolRun<'a>>,
}

/// A tool call, with its attempts.
pub(super) struct ToolRun<'a> {
    pub(super) call: &'a ToolCallEntry,
    pub(super) attempts: Vec<AttemptRun<'a>>,
    pub(super) nested: Vec<NestedRun<'a>>,
}

/// A call that code made within a tool call, with its attempts.
pub(super) struct NestedRun<'a> {
    pub(super) call: &'a NestedCallEntry,
    pub(super) attempts: Vec<AttemptRun<'a>>,
    pub(super) nested: Vec<NestedRun<'a>>,
}

/// Attempts at tool calls: by the step and the activation, the turn, the position of the call in the reply, and the way from
/// there to a call that code made.
type AttemptsOfTools<'a> =
    BTreeMap<(u64, ActivationKey, u32, u32, NestedPath), Vec<&'a AttemptEntry>>;

impl EntryKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Attempt,
        Self::Turn,
        Self::Message,
        Self::Question,
        Self::Marker,
    ];

    /// Returns the CSS class of such entries.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Turn => "turn",
            Self::Message => "message",
            Self::Question => "question",
            Self::Marker => "marker",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Attempt => "Actions",
            Self::Turn => "Replies of models",
            Self::Message => "Other messages",
            Self::Question => "Questions",
            Self::Marker => "Starts and stops",
        }
    }
}

impl Entry<'_> {
    pub(super) fn kind(&self) -> EntryKind {
        match self {
            Self::Attempt(_) => EntryKind::Attempt,
            Self::Turn(_) => EntryKind::Turn,
            Self::Message(_) => EntryKind::Message,
            Self::Question(_) => EntryKind::Question,
            Self::Marker(_) => EntryKind::Marker,
        }
    }

    /// Returns whether something failed in it.
    pub(super) fn failed(&self) -> bool {
        let has_failed = |run: &AttemptRun<'_>| run.attempt.outcome == AttemptOutcome::Failed;
        match self {
            Self::Attempt(run) => has_failed(run),
            Self::Turn(turn) => {
                let attempts = turn.tools.iter().flat_map(|tool| &tool.attempts);
                turn.turn.misfit.is_some() || attempts.into_iter().any(has_failed)
            }
            Self::Message(message) => !message.undelivered.is_empty(),
            Self::Question(_) => false,
            Self::Marker(marker) => marker.kind == RunMarkerKind::Failed,
        }
    }
}

/// Returns everything that happened, by step.
pub(super) fn steps(report: &Report) -> Vec<StreamStep<'_>> {
    let mut gatherer = Gatherer::new(report);
    gatherer.add_turns();
    gatherer.add_attempts();
    gatherer.add_the_rest();
    gatherer.into_steps()
}

/// The entries so far, and what belongs to none yet.
struct Gatherer<'a> {
    report: &'a Report,
    calls: BTreeMap<u64, Vec<&'a HostCallEntry>>,
    faults: BTreeMap<u64, &'a FaultEntry>,
    messages: BTreeMap<&'a str, &'a MessageEntry>,
    /// The entries with the events at which they began.
    entries: Vec<(u64, Entry<'a>)>,
    /// The attempts and messages that are part of an entry.
    used_attempts: BTreeSet<u64>,
    used_messages: BTreeSet<&'a str>,
}

impl<'a> Gatherer<'a> {
    fn new(report: &'a Report) -> Self {
        let mut calls: BTreeMap<u64, Vec<&HostCallEntry>> = BTreeMap::new();
        for call in report.calls.iter() {
            calls.entry(call.attempt).or_default().push(call);
        }
        let faults = report.faults.iter().map(|fault| (fault.attempt, fault));
        let messages = report
            .messages
            .iter()
            .map(|message| (message.id.as_str(), message));
        Self {
            report,
            calls,
            faults: faults.collect(),
            messages: messages.collect(),
            entries: Vec::new(),
            used_attempts: BTreeSet::new(),
            used_messages: BTreeSet::new(),
        }
    }

    /// Returns an attempt with what belongs to it.
    fn take(&mut self, attempt: &'a AttemptEntry) -> AttemptRun<'a> {
        self.used_attempts.insert(attempt.id);
        let message = attempt.message.as_deref();
        let message = message.and_then(|id| self.messages.get(id).copied());
        if let Some(message) = message {
            self.used_messages.insert(&message.id);
        }
        AttemptRun {
            attempt,
            message,
            calls: self.calls.remove(&attempt.id).unwrap_or_default(),
            fault: self.faults.get(&attempt.id).copied(),
        }
    }

    /// Adds the replies of models. The attempt that got a reply is the last one of its turn; failed
    /// ones are entries of their own.
    fn add_turns(&mut self) {
        let report = self.report;
        let mut attempts: BTreeMap<(u64, CallKey), Vec<&AttemptEntry>> = BTreeMap::new();
        let mut of_tools = AttemptsOfTools::new();
        for attempt in report.attempts.iter() {
            let (step, call) = (attempt.opened_step, attempt.call);
            match call.work {
                Work::Turn { .. } => attempts.entry((step, call)).or_default().push(attempt),
                Work::ToolCall {
                    turn,
                    call: index,
                    nested,
                    ..
                } => {
                    let key = (step, call.activation(), turn, index, nested);
                    of_tools.entry(key).or_default().push(attempt);
                }
                _ => {}
            }
        }
        for conversation in report.conversations.iter() {
            for turn in conversation.turns.iter() {
                let (step, key) = (conversation.step, conversation.activation);
                let work = Work::Turn { turn: turn.number };
                let call = (step, CallKey::in_activation(key, work));
                let tries = attempts.get(&call).map_or(&[][..], Vec::as_slice);
                let replied =
                    |attempt: &&&AttemptEntry| attempt.outcome == AttemptOutcome::Finished;
                let Some(attempt) = tries.iter().rfind(replied).copied() else {
                    continue;
                };
                let run = self.take(attempt);
                let tools = self.take_tools(conversation, turn, &of_tools);
                let replacements = conversation.replacements.iter();
                let turn = TurnRun {
                    run,
                    turn,
                    replacements: replacements.filter(|one| one.turn == turn.number).collect(),
                    tools,
                };
                self.entries.push((attempt.events.0, Entry::Turn(turn)));
            }
        }
    }

    fn take_tools(
        &mut self,
        conversation: &ConversationEntry,
        turn: &'a TurnEntry,
        attempts: &AttemptsOfTools<'a>,
    ) -> Vec<ToolRun<'a>> {
        let (step, activation) = (conversation.step, conversation.activation);
        let mut tools = Vec::new();
        for call in turn.calls.iter() {
            let mut of_call = |path: NestedPath| {
                let key = (step, activation, turn.number, call.number, path);
                let attempts = attempts.get(&key).into_iter().flatten();
                attempts.map(|attempt| self.take(attempt)).collect()
            };
            tools.push(ToolRun {
                call,
                attempts: of_call(NestedPath::EMPTY),
                nested: nested_runs(&call.nested, NestedPath::EMPTY, &mut of_call),
            });
        }
        tools
    }

    fn add_attempts(&mut self) {
        let report = self.report;
        for attempt in report.attempts.iter() {
            if !self.used_attempts.contains(&attempt.id) {
                let run = self.take(attempt);
                self.entries.push((attempt.events.0, Entry::Attempt(run)));
            }
        }
    }

    /// Adds messages, questions and markers.
    fn add_the_rest(&mut self) {
        let report = self.report;
        for message in report.messages.iter() {
            if !self.used_messages.contains(message.id.as_str()) {
                let event = message.event.unwrap_or_default();
                self.entries.push((event, Entry::Message(message)));
            }
        }
        for question in report.human_requests.iter() {
            self.entries
                .push((question.event, Entry::Question(question)));
        }
        for marker in report.markers.iter() {
            self.entries.push((marker.event, Entry::Marker(marker)));
        }
        self.entries.sort_by_key(|(event, _)| *event);
    }

    /// Returns the entries by step.
    fn into_steps(self) -> Vec<StreamStep<'a>> {
        let new_step = |step| StreamStep {
            step,
            entries: Vec::new(),
            gaps: Vec::new(),
        };
        // Messages of a state whose events are unknown have no step.
        let mut steps = vec![new_step(None)];
        let mut next = self.report.steps.iter().peekable();
        let gap = self.report.messages.gap();
        let after_gap = gap.and_then(|(place, _)| self.report.messages.iter().nth(place));
        for (event, entry) in self.entries {
            while let Some(step) = next.next_if(|step| step.start_event <= event) {
                steps.push(new_step(Some(step)));
            }
            let Some(last) = steps.last_mut() else { break };
            let is_after_gap = |message: &MessageEntry| {
                after_gap.is_some_and(|after| std::ptr::eq(after, message))
            };
            if let (Entry::Message(message), Some((_, count))) = (&entry, gap)
                && is_after_gap(message)
            {
                last.gaps.push((last.entries.len(), count));
            }
            last.entries.push(entry);
        }
        steps.extend(next.map(|step| new_step(Some(step))));
        steps.retain(|step| step.step.is_some() || !step.entries.is_empty());
        steps
    }
}

/// Returns the calls that code made within a call, with their attempts, which `attempts` finds.
fn nested_runs<'a>(
    calls: &'a FirstAndNewest<NestedCallEntry>,
    outer: NestedPath,
    attempts: &mut dyn FnMut(NestedPath) -> Vec<AttemptRun<'a>>,
) -> Vec<NestedRun<'a>> {
    let mut runs = Vec::new();
    for call in calls.iter() {
        // The view has no calls that are nested deeper than paths can be.
        let Some(path) = outer.with(call.number) else {
            continue;
        };
        runs.push(NestedRun {
            call,
            attempts: attempts(path),
            nested: nested_runs(&call.nested, path, attempts),
        });
    }
    runs
}
