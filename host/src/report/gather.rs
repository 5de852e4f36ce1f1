//! Builds a report from a state and the events that follow it. Events are processed one by one, so
//! that the memory used does not depend on the length of the run. Attempts are followed in
//! `attempts`, recipients of messages in `messages`.

mod attempts;
mod messages;

use std::collections::{BTreeMap, BTreeSet};

use strata_core::event::{Event, Status};
use strata_core::id::{CheckpointId, RoleId};
use strata_core::request::{Answer, Request};
use strata_core::stepper::{Illegal, Stepper};

use super::room::{Kept, Text};
use super::{
    Beside, Facts, Mark, MarkKind, Output, Question, Report, Spending, State, Step, state,
};
use crate::excerpt::excerpt;
use crate::graph::{Format, Graph};
use crate::store::{CheckpointRow, Record};
use attempts::{Attempts, EventTime};
use messages::Ways;

/// The maximum number of steps shown.
const MAX_STEPS: usize = 3_000;
/// The maximum number of attempts, and of host calls, shown.
const MAX_ATTEMPTS: usize = 3_000;
/// The maximum number of messages shown: as many as a browser can search without a noticeable
/// delay.
const MAX_MESSAGES: usize = 5_000;
/// The maximum number of faults, of requests to humans, and of run markers shown.
const MAX_RARE: usize = 400;
/// The maximum number of states shown.
const MAX_STATES: usize = 120;
/// The maximum number of characters of a message, an output or a response.
const TEXT_CHARS: usize = 6_000;
/// The maximum number of characters of the result. A long document is shown completely.
const RESULT_CHARS: usize = 400_000;
/// The maximum number of characters of the idea, of reasons and of log lines.
const SHORT_CHARS: usize = 2_000;

/// A report under construction.
pub struct Gathering {
    stepper: Stepper,
    /// How many events were processed.
    events: u64,
    span_ms: Option<(i64, i64)>,
    running: bool,
    steps: Kept<Step>,
    marks: Kept<Mark>,
    questions: Kept<Question>,
    asked: BTreeMap<RoleId, Question>,
    /// The checkpoints whose states are to be shown and have not been reached yet.
    chosen: BTreeSet<CheckpointId>,
    /// How many checkpoints were left out, and the first one that follows them.
    left_out: Option<(usize, CheckpointId)>,
    states: Vec<State>,
    /// Whether anything in the team changed after the newest checkpoint.
    moved: bool,
    attempts: Attempts,
    ways: Ways,
}

impl Gathering {
    /// Begins with the state of `stepper`. `shown` are the checkpoints whose states are to be
    /// shown; if there are too many, the first and the newest are chosen.
    pub fn new(stepper: Stepper, shown: impl IntoIterator<Item = CheckpointId>) -> Self {
        let mut chosen = Kept::at_most(MAX_STATES);
        for id in shown {
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
            states.push(state::of(&stepper, None));
        }
        Self {
            stepper,
            events: 0,
            span_ms: None,
            running: false,
            steps: Kept::at_most(MAX_STEPS),
            marks: Kept::at_most(MAX_RARE),
            questions: Kept::at_most(MAX_RARE),
            asked: BTreeMap::new(),
            chosen: chosen.iter().cloned().collect(),
            left_out,
            states,
            moved: false,
            attempts: Attempts::new(),
            ways: Ways::default(),
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
    pub fn record(&mut self, record: &Record) -> Result<(), Illegal> {
        self.stepper.has_what_is_named(&record.event)?;
        self.events += 1;
        let time_ms = record.time_ms;
        self.span_ms = Some((self.span_ms.map_or(time_ms, |(first, _)| first), time_ms));
        self.run(&record.event, time_ms);
        self.step(&record.event, time_ms);
        let at = EventTime {
            event: self.events,
            time_ms,
        };
        self.attempts.event(&record.event, &self.stepper, at);
        self.person(&record.event, time_ms);
        let before = self.stepper.env().checkpoint.clone();
        self.stepper.apply(&record.event)?;
        // The end of a run and a resume do not change the team.
        let is_of_run = matches!(
            record.event,
            Event::RunEnded { .. } | Event::RunResumed { .. }
        );
        self.moved = self.stepper.env().checkpoint == before && (self.moved || !is_of_run);
        self.ways.event(&record.event, &self.stepper, time_ms);
        if self
            .stepper
            .env()
            .checkpoint
            .as_ref()
            .is_some_and(|id| self.chosen.remove(id))
        {
            self.states.push(state::of(&self.stepper, Some(time_ms)));
        }
        Ok(())
    }

    /// Records what happened to the run as a whole.
    fn run(&mut self, event: &Event, time_ms: i64) {
        let mut mark = |kind: MarkKind, text: String| {
            self.marks.push(Mark {
                at: self.events,
                time_ms,
                kind,
                text: excerpt(&text, SHORT_CHARS),
            });
        };
        match event {
            Event::RunStarted { .. } => mark(MarkKind::Began, "started".into()),
            Event::RunResumed { checkpoint, .. } => {
                if self.running {
                    mark(MarkKind::Broke, "the host was killed".into());
                }
                let from = checkpoint.as_ref().map(|id| format!(" from {id}"));
                mark(
                    MarkKind::Began,
                    format!("resumed{}", from.unwrap_or_default()),
                );
            }
            Event::RunEnded { status, .. } => mark(ended(*status), status.name().into()),
            Event::Forked { lineage, from, .. } => {
                mark(MarkKind::Changed, format!("{lineage} left at {from}"))
            }
            Event::ComponentChanged { slot, .. } => {
                mark(
                    MarkKind::Changed,
                    format!(
                        "{} has another component",
                        self.stepper.team().slot_name(*slot)
                    ),
                );
            }
            Event::HandOverFailed { id, why } => {
                mark(
                    MarkKind::Broke,
                    format!("message {id} was not handed over: {why}"),
                );
            }
            Event::DoubtSettled { what, verdict, .. } => {
                mark(
                    MarkKind::Changed,
                    format!("`{what}` was in doubt, settled: {}", verdict.name()),
                );
            }
            _ => {}
        }
        match event {
            Event::RunStarted { .. } | Event::RunResumed { .. } => self.running = true,
            Event::RunEnded { .. } => self.running = false,
            _ => {}
        }
    }

    fn step(&mut self, event: &Event, time_ms: i64) {
        match event {
            // A step that was interrupted continues under its number.
            Event::StepStarted { step, .. }
                if self.steps.last().is_none_or(|last| last.is_over(*step)) =>
            {
                let at = self.events;
                self.steps.push(Step {
                    number: *step,
                    at,
                    began_ms: time_ms,
                    committed: None,
                    sent: 0,
                });
            }
            Event::StepCommitted {
                checkpoint, routed, ..
            } => {
                if let Some(step) = self.steps.last_mut() {
                    step.committed = Some((time_ms, checkpoint.0.clone()));
                    step.sent = routed.len();
                }
            }
            _ => {}
        }
    }

    /// Records requests to humans and their answers.
    fn person(&mut self, event: &Event, time_ms: i64) {
        match event {
            Event::RequestOpened { role, request, .. } => {
                let Request { id, question, .. } = request;
                let asked = Question {
                    id: id.0.clone(),
                    role: self.stepper.team().role(*role).name.clone(),
                    text: Text::of(question, SHORT_CHARS),
                    time_ms,
                    answer: None,
                };
                self.asked.insert(*role, asked);
            }
            Event::RequestAnswered { role, answer, .. } => {
                let Some(question) = self.asked.remove(role) else {
                    return;
                };
                let said = answer
                    .value()
                    .map_or_else(String::new, |value| value.as_str().to_owned());
                let said = Text::of(&said, SHORT_CHARS);
                let by = if matches!(answer, Answer::Given(_)) {
                    "a person"
                } else {
                    answer.by()
                };
                self.questions.push(Question {
                    answer: Some((by, said, time_ms)),
                    ..question
                });
            }
            _ => {}
        }
    }

    /// Completes the report. `elsewhere` are states of other lineages with the time at which each
    /// was reached, if known.
    pub fn finish(mut self, beside: Beside, elsewhere: Vec<(Stepper, Option<i64>)>) -> Report {
        let end = EventTime {
            event: self.events + 1,
            time_ms: self.span_ms.map_or(0, |(_, last_ms)| last_ms),
        };
        self.attempts.finish(end, self.running);
        for question in std::mem::take(&mut self.asked).into_values() {
            self.questions.push(question);
        }
        let states = self.all_states(&beside.checkpoints, &elsewhere);
        let facts = facts(&self.stepper, self.span_ms);
        let messages = self.ways.messages(&self.stepper);
        let team = self.stepper.team();
        let drawn = Graph::of(team).map(|mut graph| {
            graph.add_sent(&self.ways.sent);
            graph
        });
        let picture = drawn
            .and_then(|graph| graph.write(Format::Svg))
            .map_err(|error| error.to_string());
        let mut report = Report {
            facts,
            result: result(&self.stepper),
            picture,
            roles: team.roles.iter().map(|role| role.name.clone()).collect(),
            steps: self.steps,
            marks: self.marks,
            messages,
            questions: self.questions,
            spending: spending(&self.stepper),
            states,
            beside,
            calls: self.attempts.calls,
            models: self.attempts.models,
            faults: self.attempts.faults,
            attempts: self.attempts.ended,
            outcomes: self.attempts.outcomes,
            shortened: 0,
        };
        report.fit();
        report
    }

    /// Returns the states to show: those of other lineages, those that were reached, and the
    /// current one.
    fn all_states(
        &mut self,
        checkpoints: &[CheckpointRow],
        elsewhere: &[(Stepper, Option<i64>)],
    ) -> Kept<State> {
        let mut states: Vec<State> = elsewhere
            .iter()
            .map(|(stepper, time)| state::of(stepper, *time))
            .collect();
        states.append(&mut self.states);
        let env = self.stepper.env();
        // If something happened since the newest checkpoint, the current state is shown too.
        let newest = states.last().is_some_and(|last| {
            last.checkpoint.as_ref() == env.checkpoint.as_ref().map(|id| &id.0)
        });
        if !newest || (env.open && self.moved) {
            let now = state::of(&self.stepper, self.span_ms.map(|span| span.1));
            states.push(State {
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
        Kept::of(
            states,
            place.unwrap_or_default(),
            left_out.unwrap_or_default(),
        )
    }
}

/// Returns the newest output that a role published.
fn result(stepper: &Stepper) -> Option<Output> {
    let output = stepper.env().last_output(stepper.team())?;
    Some(Output {
        id: output.id.0.clone(),
        from: output.sent_from.clone(),
        cause: output.cause_by.clone(),
        text: Text::of(&output.content, RESULT_CHARS),
        data: output
            .instruct
            .as_ref()
            .map(|data| Text::of(data.value.as_str(), TEXT_CHARS)),
    })
}

fn ended(status: Status) -> MarkKind {
    match status {
        Status::Failed | Status::InDoubt | Status::Stalled => MarkKind::Broke,
        _ => MarkKind::Stopped,
    }
}

fn facts(stepper: &Stepper, span_ms: Option<(i64, i64)>) -> Facts {
    let (team, env) = (stepper.team(), stepper.env());
    let mut troubles = Vec::new();
    for (id, _, fault) in env.faults() {
        troubles.push(Text::of(
            &format!("{}: {}: {}", team.role(id).name, fault.kind, fault.message),
            SHORT_CHARS,
        ));
    }
    for (id, request) in env.requests() {
        let text = format!(
            "{} asks: {} ({})",
            team.role(id).name,
            request.question,
            request.id
        );
        troubles.push(Text::of(&text, SHORT_CHARS));
    }
    for (id, _, begun) in env.doubts() {
        let text = format!(
            "{}: nobody knows whether `{}` took effect",
            team.role(id).name,
            begun.intent.what
        );
        troubles.push(Text::of(&text, SHORT_CHARS));
    }
    Facts {
        team: team.name.clone(),
        run: env.run.0.clone(),
        idea: Text::of(&env.idea, SHORT_CHARS),
        status: env.status.name(),
        step: env.step,
        lineage: env.lineage.name.clone(),
        checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
        spent: env.spent,
        budget: env.budget,
        span_ms,
        troubles,
    }
}

fn spending(stepper: &Stepper) -> Vec<Spending> {
    let mut rows = Vec::new();
    for (slot, used) in &stepper.env().ledger {
        let role = stepper.team().role(slot.role);
        rows.push(Spending {
            role: role.name.clone(),
            action: role.part_name(slot.part).to_owned(),
            used: *used,
        });
    }
    rows
}
