//! Builds a report from a state and the events that follow it. Events are processed one by one, so
//! that the memory used does not depend on the length of the run. Attempts are followed in
//! `attempts`, recipients of messages in `messages`.

mod attempts;
mod messages;

use std::collections::{BTreeMap, BTreeSet};

use strata_base::text::excerpt::excerpt;
use strata_core::machine::stepper::{IllegalEvent, Stepper};
use strata_core::record::event::{
    AttemptEvent, ComponentChanged, DoubtSettled, Event, Forked, HandOverFailed, RequestAnswered,
    RequestOpened, RunEnded, RunResumed, ServerChanged, ServerState, Status, StepCommitted,
    StepStarted,
};
use strata_core::record::human_request::{HumanAnswer, HumanRequest};
use strata_core::record::id::CheckpointId;
use strata_core::record::work::{CallKey, Work};
use strata_storage::{CheckpointRow, Record};

use super::bounded::{Excerpt, FirstAndNewest};
use super::{
    ActionSpending, ConversationEntry, HumanAnswerEntry, HumanRequestEntry, PublishedOutput,
    Report, RunContext, RunMarker, RunMarkerKind, RunOverview, StateEntry, StepEntry, state,
};
use crate::graph::{Graph, RenderFormat};
use attempts::{AttemptTracker, EventTime, call_name};
use messages::Deliveries;
use strata_view::ConversationTracker;

/// The maximum number of steps shown.
const MAX_STEPS: usize = 3_000;
/// The maximum number of attempts, and of host calls, shown.
const MAX_ATTEMPTS: usize = 3_000;
/// The maximum number of conversations shown.
const MAX_CONVERSATIONS: usize = 200;
/// The maximum number of messages shown: as many as a browser can search without a noticeable
/// delay.
const MAX_MESSAGES: usize = 5_000;
/// The maximum number of faults, of requests to humans, and of run markers shown.
const MAX_RARE_ENTRIES: usize = 400;
/// The maximum number of states shown.
const MAX_STATES: usize = 120;
/// The maximum number of characters of a message, an output or a response.
const TEXT_CHARS: usize = 6_000;
/// The maximum number of characters of the result. A long document is shown completely.
const RESULT_CHARS: usize = 400_000;
/// The maximum number of characters of the idea, of reasons and of log lines.
const SHORT_CHARS: usize = 2_000;

/// A report under construction.
pub struct ReportBuilder {
    stepper: Stepper,
    /// How many events were processed.
    event_count: u64,
    span_ms: Option<(i64, i64)>,
    is_running: bool,
    steps: FirstAndNewest<StepEntry>,
    marks: FirstAndNewest<RunMarker>,
    questions: FirstAndNewest<HumanRequestEntry>,
    open_requests: BTreeMap<CallKey, HumanRequestEntry>,
    /// The checkpoints whose states are to be shown and have not been reached yet.
    pending_checkpoints: BTreeSet<CheckpointId>,
    /// How many checkpoints were left out, and the first one that follows them.
    left_out: Option<(usize, CheckpointId)>,
    states: Vec<StateEntry>,
    /// Whether anything in the team changed after the newest checkpoint.
    team_changed: bool,
    attempts: AttemptTracker,
    conversations: FirstAndNewest<ConversationEntry>,
    conversation_tracker: ConversationTracker,
    deliveries: Deliveries,
}

impl ReportBuilder {
    /// Begins with the state of `stepper`. `checkpoints` are the checkpoints whose states are to be
    /// shown; if there are too many, the first and the newest are chosen.
    pub fn new(stepper: Stepper, checkpoints: impl IntoIterator<Item = CheckpointId>) -> Self {
        let mut chosen = FirstAndNewest::at_most(MAX_STATES);
        for id in checkpoints {
            chosen.push(id);
        }
        let left_out = chosen
            .gap()
            .and_then(|(place, count)| Some((count, chosen.iter().nth(place)?.clone())));
        let mut states = Vec::new();
        if stepper
            .env()
            .checkpoint
            .as_ref()
            .is_some_and(|id| chosen.iter().any(|chosen| chosen == id))
        {
            states.push(state::summarize_state(&stepper, None));
        }
        Self {
            stepper,
            event_count: 0,
            span_ms: None,
            is_running: false,
            steps: FirstAndNewest::at_most(MAX_STEPS),
            marks: FirstAndNewest::at_most(MAX_RARE_ENTRIES),
            questions: FirstAndNewest::at_most(MAX_RARE_ENTRIES),
            open_requests: BTreeMap::new(),
            pending_checkpoints: chosen.iter().cloned().collect(),
            left_out,
            states,
            team_changed: false,
            attempts: AttemptTracker::new(),
            conversations: FirstAndNewest::at_most(MAX_CONVERSATIONS),
            conversation_tracker: ConversationTracker::default(),
            deliveries: Deliveries::default(),
        }
    }

    /// Returns the current state.
    pub fn stepper(&self) -> &Stepper {
        &self.stepper
    }

    /// Processes the next event.
    ///
    /// # Errors
    ///
    /// Returns an error if the event does not fit the state.
    pub fn add_event(&mut self, record: &Record) -> Result<(), IllegalEvent> {
        self.stepper.ensure_names_exist(&record.event)?;
        self.event_count += 1;
        let time_ms = record.time_ms;
        self.span_ms = Some((self.span_ms.map_or(time_ms, |(first, _)| first), time_ms));
        self.add_run_marker(&record.event, time_ms);
        self.add_step(&record.event, time_ms);
        let at = EventTime {
            event: self.event_count,
            time_ms,
        };
        self.attempts.add_event(&record.event, &self.stepper, at);
        for ended in self
            .conversation_tracker
            .add_event(&record.event, &self.stepper)
        {
            self.conversations
                .push(ConversationEntry::from_view(&ended));
        }
        self.add_human_request(&record.event, time_ms);
        let before = self.stepper.env().checkpoint.clone();
        self.stepper.apply(&record.event)?;
        self.attempts.add_output(&record.event, &self.stepper);
        // The end of a run and a resume do not change the team.
        let is_of_run = matches!(record.event, Event::RunEnded(_) | Event::RunResumed(_));
        self.team_changed =
            self.stepper.env().checkpoint == before && (self.team_changed || !is_of_run);
        self.deliveries
            .add_event(&record.event, &self.stepper, self.event_count);
        if self
            .stepper
            .env()
            .checkpoint
            .as_ref()
            .is_some_and(|id| self.pending_checkpoints.remove(id))
        {
            self.states
                .push(state::summarize_state(&self.stepper, Some(time_ms)));
        }
        Ok(())
    }

    /// Records what happened to the run as a whole.
    fn add_run_marker(&mut self, event: &Event, time_ms: i64) {
        let mut mark = |kind: RunMarkerKind, text: String| {
            self.marks.push(RunMarker {
                event: self.event_count,
                time_ms,
                kind,
                text: excerpt(&text, SHORT_CHARS),
            });
        };
        match event {
            Event::RunStarted(_) => mark(RunMarkerKind::Started, "started".into()),
            Event::RunResumed(RunResumed { checkpoint, .. }) => {
                if self.is_running {
                    mark(RunMarkerKind::Failed, "the host was killed".into());
                }
                let from = checkpoint.as_ref().map(|id| format!(" from {id}"));
                mark(
                    RunMarkerKind::Started,
                    format!("resumed{}", from.unwrap_or_default()),
                );
            }
            Event::RunEnded(RunEnded { status, .. }) => {
                mark(end_marker_kind(*status), status.name().into())
            }
            Event::Forked(Forked { lineage, from, .. }) => {
                mark(RunMarkerKind::Changed, format!("{lineage} left at {from}"))
            }
            Event::ComponentChanged(ComponentChanged { slot, .. }) => {
                mark(
                    RunMarkerKind::Changed,
                    format!(
                        "{} has another component",
                        self.stepper.team().slot_name(*slot)
                    ),
                );
            }
            Event::HandOverFailed(HandOverFailed { id, why }) => {
                mark(
                    RunMarkerKind::Failed,
                    format!("message {id} was not handed over: {why}"),
                );
            }
            Event::Attempt(
                _,
                AttemptEvent::DoubtSettled(DoubtSettled {
                    description,
                    resolution: verdict,
                    ..
                }),
            ) => {
                mark(
                    RunMarkerKind::Changed,
                    format!("`{description}` was in doubt, settled: {}", verdict.name()),
                );
            }
            Event::ServerChanged(changed) => {
                let (kind, text) = server_marker(changed);
                mark(kind, text);
            }
            _ => {}
        }
        match event {
            Event::RunStarted(_) | Event::RunResumed(_) => self.is_running = true,
            Event::RunEnded(_) => self.is_running = false,
            _ => {}
        }
    }

    fn add_step(&mut self, event: &Event, time_ms: i64) {
        match event {
            // A step that was interrupted continues under its number.
            Event::StepStarted(StepStarted { step, .. })
                if self
                    .steps
                    .last()
                    .is_none_or(|last| last.is_followed_by(*step)) =>
            {
                let at = self.event_count;
                self.steps.push(StepEntry {
                    number: *step,
                    start_event: at,
                    started_ms: time_ms,
                    committed: None,
                    sent_messages: 0,
                });
            }
            Event::StepCommitted(StepCommitted {
                checkpoint, routed, ..
            }) => {
                if let Some(step) = self.steps.last_mut() {
                    step.committed = Some((time_ms, checkpoint.0.clone()));
                    step.sent_messages = routed.len();
                }
            }
            _ => {}
        }
    }

    /// Records requests to humans and their answers.
    fn add_human_request(&mut self, event: &Event, time_ms: i64) {
        match event {
            Event::Attempt(call, AttemptEvent::RequestOpened(RequestOpened { request })) => {
                let HumanRequest { id, question, .. } = request;
                let entry = HumanRequestEntry {
                    id: id.0.clone(),
                    role: self.stepper.team().role(call.role).name.clone(),
                    call: *call,
                    tool: matches!(call.work, Work::ToolCall { .. })
                        .then(|| call_name(&self.stepper, *call)),
                    text: Excerpt::from_text(question, SHORT_CHARS),
                    event: self.event_count,
                    time_ms,
                    answer: None,
                };
                self.open_requests.insert(*call, entry);
            }
            Event::Attempt(
                call,
                AttemptEvent::RequestAnswered(RequestAnswered { answer, person, .. }),
            ) => {
                let Some(question) = self.open_requests.remove(call) else {
                    return;
                };
                let text = answer
                    .value()
                    .map_or_else(String::new, |value| value.as_str().to_owned());
                let text = Excerpt::from_text(&text, SHORT_CHARS);
                let by = match (person, answer) {
                    (Some(person), _) => person.as_str(),
                    (None, HumanAnswer::Given(_)) => "a person",
                    (None, _) => answer.answered_by(),
                };
                self.questions.push(HumanRequestEntry {
                    answer: Some(HumanAnswerEntry {
                        by: by.to_owned(),
                        text,
                        event: self.event_count,
                        time_ms,
                    }),
                    ..question
                });
            }
            _ => {}
        }
    }

    /// Completes the report.
    pub fn finish(mut self, context: RunContext) -> Report {
        let end = EventTime {
            event: self.event_count + 1,
            time_ms: self.span_ms.map_or(0, |(_, last_ms)| last_ms),
        };
        self.attempts.finish(end, self.is_running);
        for question in std::mem::take(&mut self.open_requests).into_values() {
            self.questions.push(question);
        }
        for open in self.conversation_tracker.conversations(&self.stepper) {
            self.conversations.push(ConversationEntry::from_view(&open));
        }
        let states = self.collect_states(&context.storage.checkpoints, &context.other_states);
        let facts = run_overview(&self.stepper, self.span_ms);
        let messages = self.deliveries.messages(&self.stepper);
        let team = self.stepper.team();
        let mut observed = std::mem::take(&mut self.deliveries.observed);
        for (slot, used) in &self.stepper.env().ledger {
            *observed.spent.entry(slot.role).or_default() += used.usd;
        }
        let drawn = Graph::from_team(team, &context.tool_roles).map(|mut graph| {
            graph.add_observed(&observed);
            graph
        });
        let picture = drawn
            .and_then(|graph| graph.render(RenderFormat::EmbeddedSvg))
            .map_err(|error| error.to_string());
        let mut report = Report {
            overview: facts,
            standing: context.standing,
            result: last_output(&self.stepper),
            picture,
            roles: team.roles.iter().map(|role| role.name.clone()).collect(),
            steps: self.steps,
            markers: self.marks,
            messages,
            conversations: self.conversations,
            human_requests: self.questions,
            spending: action_spending(&self.stepper),
            states,
            storage: context.storage,
            calls: self.attempts.calls,
            models: self.attempts.models,
            faults: self.attempts.faults,
            attempts: self.attempts.ended,
            outcomes: self.attempts.outcomes,
            shortened: 0,
        };
        report.shorten_texts();
        report
    }

    /// Returns the states to show: those of other lineages, those that were reached, and the
    /// current one.
    fn collect_states(
        &mut self,
        checkpoints: &[CheckpointRow],
        elsewhere: &[(Stepper, Option<i64>)],
    ) -> FirstAndNewest<StateEntry> {
        let mut states: Vec<StateEntry> = elsewhere
            .iter()
            .map(|(stepper, time)| state::summarize_state(stepper, *time))
            .collect();
        states.append(&mut self.states);
        let env = self.stepper.env();
        // If something happened since the newest checkpoint, the current state is shown too.
        let newest = states.last().is_some_and(|last| {
            last.checkpoint.as_ref() == env.checkpoint.as_ref().map(|id| &id.0)
        });
        if !newest || (env.is_step_open && self.team_changed) {
            let now = state::summarize_state(&self.stepper, self.span_ms.map(|span| span.1));
            states.push(StateEntry {
                checkpoint: None,
                ..now
            });
        }
        // The status of a run at a checkpoint is often recorded only after the checkpoint.
        for state in &mut states {
            let listed = checkpoints
                .iter()
                .find(|row| state.checkpoint.as_ref() == Some(&row.id.0));
            if let Some(row) = listed {
                state.status = row.status.name();
            }
        }
        let (left_out, next) = self.left_out.take().unzip();
        let place = states
            .iter()
            .position(|state| state.checkpoint.as_ref() == next.as_ref().map(|id| &id.0));
        FirstAndNewest::from_parts(
            states,
            place.unwrap_or_default(),
            left_out.unwrap_or_default(),
        )
    }
}

/// Returns the newest output that a role published.
fn last_output(stepper: &Stepper) -> Option<PublishedOutput> {
    let output = stepper.env().last_output(stepper.team())?;
    Some(PublishedOutput {
        id: output.id.0.clone(),
        from: output.sent_from.clone(),
        cause: output.cause_by.clone(),
        text: Excerpt::from_text(&output.content, RESULT_CHARS),
        data: output
            .instruct
            .as_ref()
            .map(|data| Excerpt::from_text(data.value.as_str(), TEXT_CHARS)),
    })
}

/// Returns how a change of an MCP server is shown.
fn server_marker(changed: &ServerChanged) -> (RunMarkerKind, String) {
    let kind = match changed.state {
        ServerState::Ready => RunMarkerKind::Started,
        ServerState::Restarted => RunMarkerKind::Changed,
        ServerState::Gone | ServerState::Omitted => RunMarkerKind::Failed,
    };
    let called = changed.name.iter().chain(&changed.version);
    let called: Vec<&str> = called.map(String::as_str).collect();
    let mut text = format!(
        "the MCP server `{}` is {}",
        changed.server,
        changed.state.name()
    );
    if !called.is_empty() {
        text += &format!(" ({})", called.join(" "));
    }
    if let Some(reason) = &changed.reason {
        text += &format!(": {reason}");
    }
    (kind, text)
}

fn end_marker_kind(status: Status) -> RunMarkerKind {
    match status {
        Status::Failed | Status::InDoubt | Status::Stalled => RunMarkerKind::Failed,
        _ => RunMarkerKind::Stopped,
    }
}

fn run_overview(stepper: &Stepper, span_ms: Option<(i64, i64)>) -> RunOverview {
    let (team, env) = (stepper.team(), stepper.env());
    RunOverview {
        team: team.name.clone(),
        run: env.run.0.clone(),
        idea: Excerpt::from_text(&env.idea, SHORT_CHARS),
        status: env.status,
        step: env.step,
        lineage: env.lineage.name.clone(),
        checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
        spent: env.spent,
        budget: env.budget,
        span_ms,
    }
}

fn action_spending(stepper: &Stepper) -> Vec<ActionSpending> {
    let mut rows = Vec::new();
    for (slot, used) in &stepper.env().ledger {
        let role = stepper.team().role(slot.role);
        rows.push(ActionSpending {
            role: role.name.clone(),
            action: role.component_name(slot.kind).to_owned(),
            used: *used,
        });
    }
    rows
}
