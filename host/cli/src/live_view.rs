//! The live view of a run, at the bottom of a terminal: a line for the team and one for each action
//! being run. Permanent lines are written by `reporter`; drawing is done by `printer`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use strata_core::machine::stepper::Stepper;
use strata_core::record::host_call::{AnswerSource, HostCallKind};
use strata_core::record::money::Usd;
use strata_core::team::{THINK, TURN};
use strata_host::clock::now_ms;
use strata_host::public_event::{ActionRef, PublicEvent};
use strata_host::services::models::StreamObserverFactory;
use unicode_width::UnicodeWidthStr;

use super::printer::Printer;
use super::sanitize::sanitize_line;

/// The maximum number of actions that have a line of their own. More would displace the permanent
/// lines on a small screen.
const MAX_ROWS: usize = 6;
/// The minimum width of a name, in columns.
pub(super) const MIN_NAME_COLUMNS: usize = 28;
/// The interval at which elapsed times are updated.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// A handle to the live view. All clones show the same view.
#[derive(Clone)]
pub(super) struct LiveView(Option<Arc<Mutex<LiveContent>>>);

/// The content of the live view.
struct LiveContent {
    printer: Printer,
    started_ms: i64,
    /// The calls being made, by role, action, turn and tool call.
    running: BTreeMap<RunningKey, RunningAction>,
    step: u64,
    roles: usize,
    spent: f64,
    budget: Option<Usd>,
    /// Stops the thread that updates elapsed times when it is dropped. `None` while nothing is
    /// shown.
    updater: Option<Sender<()>>,
}

/// Identifies one of the calls that are being made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunningKey {
    role: String,
    action: String,
    /// The turn and the position of the call in it, if it is a tool call.
    tool_call: Option<[u32; 2]>,
    /// The turn and the position of the tool call that the role answers, if it does not handle mail.
    via: Option<[u32; 2]>,
}

impl RunningKey {
    /// Returns the key of the choice of a role's next action.
    fn of_choice(role: &str) -> Self {
        Self {
            role: role.to_owned(),
            action: THINK.to_owned(),
            tool_call: None,
            via: None,
        }
    }

    /// Returns the key of a turn of a role's model.
    fn of_turn(role: &str) -> Self {
        Self {
            role: role.to_owned(),
            action: TURN.to_owned(),
            tool_call: None,
            via: None,
        }
    }

    fn from_action(action: &ActionRef) -> Self {
        let tool_call = action.turn.zip(action.tool_call);
        Self {
            role: action.role.clone(),
            action: action.action.clone(),
            tool_call: tool_call.map(|(turn, call)| [turn, call]),
            via: action.via.as_ref().map(|via| [via.turn, via.tool_call]),
        }
    }
}

/// An action being run.
struct RunningAction {
    name: String,
    started_ms: i64,
    attempt: u32,
    /// The host function that it called last.
    last_call: Option<String>,
    /// How many host calls have been sent and have not returned.
    pending_calls: usize,
}

impl LiveView {
    /// Creates a live view, which is empty if there is no terminal that can show it, or if nothing
    /// but warnings is to be reported.
    pub(super) fn at_terminal(printer: &Printer) -> Self {
        let shows = printer.can_show_live_view() && !printer.is_quiet();
        Self(shows.then(|| Arc::new(Mutex::new(LiveContent::new(printer.clone())))))
    }

    /// Shows a team that is started or resumed.
    pub(super) fn show(&self, stepper: &Stepper) {
        let Some(mut content) = self.content() else {
            return;
        };
        let (team, env) = (stepper.team(), stepper.env());
        (content.started_ms, content.step, content.roles) = (now_ms(), env.step, team.roles.len());
        (content.spent, content.budget) = (env.spent.to_dollars(), env.budget);
        let (clock, stopped) = mpsc::channel();
        content.updater = Some(clock);
        let live = self.clone();
        // If the thread cannot be started, elapsed times are updated with each event only.
        let _ = thread::Builder::new()
            .name("live part".into())
            .spawn(move || {
                while stopped.recv_timeout(UPDATE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if let Some(content) = live.content() {
                        content.draw();
                    }
                }
            });
        content.draw();
    }

    /// Returns a factory of stream observers that also shows calls being sent, for which there is
    /// no event. It delegates to `other`.
    pub(super) fn observer_factory(
        &self,
        other: Option<StreamObserverFactory>,
    ) -> Option<StreamObserverFactory> {
        if self.0.is_none() {
            return other;
        }
        let live = self.clone();
        Some(Arc::new(move |call| {
            live.call_sent(call.role, call.kind);
            other.as_ref().and_then(|other| other(call))
        }))
    }

    fn call_sent(&self, role: &str, kind: HostCallKind) {
        let Some(mut content) = self.content() else {
            return;
        };
        content.add_pending_call(role, kind);
        content.draw();
    }

    /// Follows what happens.
    pub(super) fn update(&self, event: &PublicEvent) {
        if let Some(mut content) = self.content() {
            content.update(event);
            content.draw();
        }
    }

    /// Removes the view from the terminal.
    pub(super) fn hide(&self) {
        let Some(mut content) = self.content() else {
            return;
        };
        content.updater = None;
        content.running.clear();
        content.printer.set_live_rows(Vec::new());
    }

    fn content(&self) -> Option<MutexGuard<'_, LiveContent>> {
        self.0
            .as_ref()
            .map(|content| content.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LiveContent {
    fn new(printer: Printer) -> Self {
        Self {
            printer,
            started_ms: 0,
            running: BTreeMap::new(),
            step: 0,
            roles: 0,
            spent: 0.0,
            budget: None,
            updater: None,
        }
    }

    fn update(&mut self, event: &PublicEvent) {
        match event {
            PublicEvent::StepStarted { step } => self.step = *step,
            // No event says that a choice starts, except for that of its component.
            PublicEvent::PluginInstantiated { role, action, .. } if action == THINK => {
                self.start(RunningKey::of_choice(role), 1);
            }
            PublicEvent::ActionStarted {
                action, attempt, ..
            } => self.start(RunningKey::from_action(action), *attempt),
            PublicEvent::HostCallBegun { action, call, .. } => {
                if let Some(running) = self.running.get_mut(&RunningKey::from_action(action)) {
                    running.last_call = Some(call.name().to_owned());
                }
            }
            PublicEvent::HostCall {
                action,
                call,
                source,
                cost,
                ..
            } => {
                self.spent += cost;
                if let Some(running) = self.running.get_mut(&RunningKey::from_action(action)) {
                    running.last_call = Some(call.name().to_owned());
                    let came_back = *source == AnswerSource::Live;
                    running.pending_calls = running.pending_calls.saturating_sub(came_back.into());
                }
            }
            PublicEvent::Think { role, .. } => {
                self.running.remove(&RunningKey::of_choice(role));
            }
            PublicEvent::Turn { role, .. } => {
                self.running.remove(&RunningKey::of_turn(role));
            }
            PublicEvent::ActionFinished { action, .. }
            | PublicEvent::ActionFailed { action, .. }
            | PublicEvent::ActionSuspended { action, .. }
            | PublicEvent::RequestOpened { action, .. } => {
                self.running.remove(&RunningKey::from_action(action));
            }
            PublicEvent::RunEnded { .. } => self.running.clear(),
            _ => {}
        }
    }

    /// Shows a call that a role has sent. Which of its actions did is known if only one is running. A
    /// role of which nothing is running asks its model for the next turn.
    fn add_pending_call(&mut self, role: &str, kind: HostCallKind) {
        let mut of_role = self.running.keys().filter(|key| key.role == role);
        let key = match (of_role.next(), of_role.next()) {
            (None, _) => {
                let key = RunningKey::of_turn(role);
                self.start(key.clone(), 1);
                key
            }
            (Some(only), None) => only.clone(),
            (Some(_), Some(_)) => return,
        };
        if let Some(running) = self.running.get_mut(&key) {
            running.last_call = Some(kind.name().to_owned());
            running.pending_calls += 1;
        }
    }

    fn start(&mut self, key: RunningKey, attempt: u32) {
        let running = RunningAction {
            name: sanitize_line(&format!("{}.{}", key.role, key.action)),
            started_ms: now_ms(),
            attempt,
            last_call: None,
            pending_calls: 0,
        };
        self.running.insert(key, running);
    }

    /// Returns how many roles are at work.
    fn busy_roles(&self) -> usize {
        let roles: BTreeSet<&str> = self.running.keys().map(|key| key.role.as_str()).collect();
        roles.len()
    }

    fn draw(&self) {
        if self.updater.is_none() {
            return;
        }
        let now = now_ms();
        let (step, roles, busy) = (self.step, self.roles, self.busy_roles());
        let budget = self
            .budget
            .map(|budget| format!(" of {budget}"))
            .unwrap_or_default();
        let (spent, since) = (
            Usd::from_dollars(self.spent),
            format_duration(now - self.started_ms),
        );
        let head = format!(
            "{since:>8}  step {step:<3} {busy} of {roles} roles at work, {spent}{budget} spent"
        );
        let actions = self.running.values().take(MAX_ROWS);
        let width = actions
            .clone()
            .map(|flight| flight.name.width())
            .fold(MIN_NAME_COLUMNS, usize::max);
        let flights = actions.map(|flight| flight.format_row(step, width, now));
        let more = self.running.len().saturating_sub(MAX_ROWS);
        let more = (more > 0).then(|| format!("{:>8}  {more} more", ""));
        let rows = [head].into_iter().chain(flights).chain(more).collect();
        self.printer.set_live_rows(rows);
    }
}

impl RunningAction {
    fn format_row(&self, step: u64, width: usize, now: i64) -> String {
        let again = (self.attempt > 1).then(|| format!("attempt {}", self.attempt));
        let call = self
            .last_call
            .as_ref()
            .map(|call| match self.pending_calls {
                0 => format!("called {call}"),
                1 => format!("waits for {call}"),
                away => format!("waits for {call}, {away} calls"),
            });
        let more: Vec<String> = again.into_iter().chain(call).collect();
        let since = format_duration(now - self.started_ms);
        let gap = " ".repeat(width.saturating_sub(self.name.width()));
        format!(
            "{since:>8}  step {step:<3} {}{gap} {}",
            self.name,
            more.join(", ")
        )
    }
}

/// Formats a duration for people: `12s`, `3m05s`, `2h03m`.
pub(super) fn format_duration(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::format_duration;

    #[test]
    fn times_are_short_and_as_exact_as_people_want_them() {
        let check = |ms: i64, expected: &str| assert_eq!(format_duration(ms), expected, "{ms}");
        check(-5, "0s");
        check(999, "0s");
        check(12_345, "12s");
        check(185_000, "3m05s");
        check(7_380_000, "2h03m");
    }
}
