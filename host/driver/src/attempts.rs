//! The running attempts: from their start until their end is recorded. An attempt that ends while
//! calls are in flight whose answers must not be lost is kept open for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_base::files::blob::Blobs;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, Event, FilesWritten, Logged, LookupsDenied, WritesUnclaimed,
};
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::host_call::Grant;
use strata_core::record::turn::SkillDigest;
use strata_core::record::work::{ActivationKey, CallKey, CallResult, Work};
use strata_core::state::activation::is_made_in;
use strata_sandbox::{AttemptNotes, FileView, HeldLines, hold_lines};
use strata_services::gateway::{AttemptId, GuardedCall};
use strata_services::plugin::Plugin;

use super::attempt_runner::{AttemptEnd, AttemptRunner, PreparedAttempt, WrittenFiles};
use super::host_calls::Caller;
use super::turns::ToolRoles;

/// How long an attempt that has ended (by a limit, or because the run is stopped) is kept open for
/// answers that are paid for or that tell whether a write was made, and how long the end of a run
/// waits for a hand-over. Most pending answers arrive within this time, and an operator who waits
/// for a run to stop is still patient.
pub(super) const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// The running attempts.
pub(super) struct Attempts {
    runner: AttemptRunner,
    running: BTreeMap<CallKey, RunningAttempt>,
    signals: FuturesUnordered<BoxFuture<'static, AttemptSignal>>,
    /// The signal of an attempt that has run ahead.
    ahead: Option<AttemptSignal>,
}

/// An attempt whose end is not recorded yet.
struct RunningAttempt {
    id: AttemptId,
    call: Invocation,
    plugin: Option<Arc<Plugin>>,
    /// The result, if the attempt has ended while calls that must be awaited are in flight.
    result: Option<Result<CallResult, Fault>>,
    /// What it wrote to files, if it succeeded.
    files: WrittenFiles,
    /// The skill whose text it gave to the model.
    loaded_skill: Option<SkillDigest>,
    notes: AttemptNotes,
}

/// Something that happened to an attempt.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one value at a time, and nearly all are the largest variant"
)]
pub(super) enum AttemptSignal {
    /// It ended.
    Ended(AttemptEnd),
    /// The pause before a retry is over.
    RetryDue(CallKey),
    /// The grace period of an ended attempt is over; see `GRACE_PERIOD`.
    GracePeriodOver(AttemptId),
}

/// What is recorded about the end of an attempt.
pub(super) struct Conclusion {
    /// The contents of files, and of the parts of messages, that the events name.
    pub(super) blobs: Blobs,
    /// The events that precede the end.
    pub(super) before: Vec<Event>,
    /// The event that ends the attempt.
    pub(super) end: Event,
}

impl Attempts {
    pub(super) fn new(runner: AttemptRunner) -> Self {
        Self {
            runner,
            running: BTreeMap::new(),
            signals: FuturesUnordered::new(),
            ahead: None,
        }
    }

    /// Ends all attempts and forgets them, and pauses before retries.
    pub(super) fn clear(&mut self) {
        self.abort();
        self.running.clear();
    }

    /// Ends all attempts, on whichever thread they run, without forgetting them. Pauses before
    /// retries and grace periods end, too.
    pub(super) fn abort(&mut self) {
        // Dropping the futures ends the attempts.
        self.signals = FuturesUnordered::new();
        self.ahead = None;
    }

    /// Returns whether no attempt is running.
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the calls that are attempted.
    pub(super) fn calls(&self) -> impl Iterator<Item = CallKey> + '_ {
        self.running.keys().copied()
    }

    /// Returns the activations that have attempts running, with the plugins that make them.
    pub(super) fn plugins(&self) -> impl Iterator<Item = (ActivationKey, &Plugin)> + Clone {
        self.running
            .iter()
            .filter_map(|(key, attempt)| Some((key.activation(), attempt.plugin.as_deref()?)))
    }

    /// Returns the roles whose models work with tools.
    pub(super) fn tool_roles(&self) -> &ToolRoles {
        self.runner.tool_roles()
    }

    /// Returns the attempts at a call and at the calls within it, the innermost first.
    pub(super) fn calls_within(&self, outer: CallKey) -> Vec<CallKey> {
        if !matches!(outer.work, Work::ToolCall { .. }) {
            return vec![outer];
        }
        let within = self.running.keys().rev().filter(|call| {
            call.activation() == outer.activation()
                && (call.work == outer.work || is_made_in(call.work, outer.work))
        });
        within.copied().collect()
    }

    /// Returns a call and the calls that it was made in, the innermost first.
    pub(super) fn calls_around(&self, inner: CallKey) -> Vec<CallKey> {
        if inner.work.nested().is_none() {
            return vec![inner];
        }
        let around = self.running.keys().rev().filter(|call| {
            call.activation() == inner.activation()
                && (call.work == inner.work || is_made_in(inner.work, call.work))
        });
        around.copied().collect()
    }

    /// Prepares an attempt; `add` starts it.
    pub(super) fn prepare(
        &mut self,
        call: &Invocation,
        stepper: &Stepper,
        view: Arc<FileView>,
    ) -> PreparedAttempt {
        self.runner.prepare(call, stepper, view)
    }

    /// Adds an attempt, which runs while signals are waited for.
    pub(super) fn add(&mut self, call: Invocation, prepared: PreparedAttempt) {
        let PreparedAttempt { id, plugin, end } = prepared;
        let attempt = RunningAttempt {
            id,
            call,
            plugin,
            result: None,
            files: WrittenFiles::default(),
            loaded_skill: None,
            notes: AttemptNotes::default(),
        };
        self.running.insert(id.call, attempt);
        self.signals
            .push(Box::pin(async move { AttemptSignal::Ended(end.await) }));
    }

    /// Runs an attempt ahead, until it waits for something: what led to it is not durable yet. Its
    /// requests stay in their queue and its signal stays here, until somebody asks for them. Returns
    /// what it has logged.
    pub(super) fn run_ahead(&mut self) -> HeldLines {
        let (signal, lines) = hold_lines(|| self.signals.next().now_or_never().flatten());
        self.ahead = signal;
        lines
    }

    /// Waits for the next signal; `None` if there is nothing to wait for.
    pub(super) async fn next_signal(&mut self) -> Option<AttemptSignal> {
        if let Some(signal) = self.ahead.take() {
            return Some(signal);
        }
        // Polling an empty set would register a waker for nothing.
        if self.signals.is_empty() {
            return None;
        }
        self.signals.next().await
    }

    /// Returns a signal that is there by now.
    pub(super) fn signal_now(&mut self) -> Option<AttemptSignal> {
        let signal = self.ahead.take();
        signal.or_else(|| self.signals.next().now_or_never().flatten())
    }

    fn get(&self, id: AttemptId) -> Option<&RunningAttempt> {
        self.running
            .get(&id.call)
            .filter(|attempt| attempt.id == id)
    }

    /// Returns whether an attempt has not been concluded.
    pub(super) fn is_running(&self, id: AttemptId) -> bool {
        self.get(id).is_some()
    }

    /// Returns what the host calls of an attempt depend on. `about` is the call about which a guard
    /// decides that makes them.
    pub(super) fn caller<'a>(
        &'a self,
        id: AttemptId,
        about: Option<&'a GuardedCall>,
    ) -> Option<Caller<'a>> {
        self.get(id).map(|attempt| Caller {
            attempt: id,
            number: attempt.call.attempt,
            idempotency_key: &attempt.call.idempotency_key,
            seed: &attempt.call.seed,
            about,
        })
    }

    /// Returns the plugin that makes an attempt.
    pub(super) fn plugin(&self, id: AttemptId) -> Option<&Arc<Plugin>> {
        self.get(id)?.plugin.as_ref()
    }

    /// Keeps the result of an attempt. Returns false if the attempt is not running any more; then
    /// the result is ignored.
    pub(super) fn keep_result(&mut self, end: AttemptEnd) -> bool {
        let attempt = self
            .running
            .get_mut(&end.attempt.call)
            .filter(|attempt| attempt.id == end.attempt);
        let Some(attempt) = attempt else {
            return false;
        };
        attempt.result = Some(end.result);
        attempt.files = end.files;
        attempt.loaded_skill = end.loaded_skill;
        attempt.notes = end.notes;
        true
    }

    /// Returns whether an attempt has ended and is kept open for calls in flight.
    pub(super) fn has_ended(&self, key: CallKey) -> bool {
        let attempt = self.running.get(&key);
        attempt.is_some_and(|attempt| attempt.result.is_some())
    }

    /// Starts the grace period of an attempt.
    pub(super) fn begin_grace_period(&mut self, id: AttemptId) {
        self.signals.push(Box::pin(async move {
            tokio::time::sleep(GRACE_PERIOD).await;
            AttemptSignal::GracePeriodOver(id)
        }));
    }

    /// Forgets an attempt that continues later, when an answer has arrived or the budget was raised.
    /// Returns its number; `None` if it is not running.
    pub(super) fn suspend(&mut self, key: CallKey) -> Option<u32> {
        self.running
            .remove(&key)
            .map(|attempt| attempt.call.attempt)
    }

    /// Forgets an attempt and returns what is recorded about its end: its result, or that it was
    /// interrupted. `unclaimed` are the writes of earlier attempts that it did not make. If it is to
    /// be retried, the pause begins.
    pub(super) fn conclude(
        &mut self,
        key: CallKey,
        stepper: &Stepper,
        unclaimed: Vec<(u32, String)>,
    ) -> Option<Conclusion> {
        let attempt = self.running.remove(&key)?;
        let stopped = || Fault::new(FaultKind::Interrupted, "stopped before it ended");
        let result = attempt.result.unwrap_or_else(|| Err(stopped()));
        let end = stepper.call_ended_event(key, result)?;
        let (mut blobs, mut before) = (Blobs::new(), Vec::new());
        let AttemptNotes {
            logged,
            denied_lookups: paths,
        } = attempt.notes;
        if !paths.is_empty() && !says_not_granted(&end) {
            let denied = AttemptEvent::LookupsDenied(LookupsDenied { paths });
            before.push(Event::Attempt(key, denied));
        }
        match &end {
            Event::Attempt(_, AttemptEvent::CallFailed(failed)) => {
                if let Some(pause) = failed.retry_ms {
                    self.begin_retry_pause(key, Duration::from_millis(u64::from(pause)));
                }
            }
            Event::Attempt(_, AttemptEvent::CallFinished(finished)) => {
                let mut record = |event| before.push(Event::Attempt(key, event));
                if !unclaimed.is_empty() {
                    let writes = unclaimed;
                    record(AttemptEvent::WritesUnclaimed(WritesUnclaimed { writes }));
                }
                if let Some(loaded) = attempt.loaded_skill {
                    record(AttemptEvent::SkillLoaded(loaded));
                }
                blobs = attempt.files.blobs;
                let files = attempt.files.changes;
                if !files.is_empty() {
                    record(AttemptEvent::FilesWritten(FilesWritten { files }));
                }
                if let Some(request) = attempt.files.memory {
                    record(AttemptEvent::MemoryRequested(request));
                }
                if let Some(logged) = logged.filter(|logged| !is_shown_by(&finished.result, logged))
                {
                    record(AttemptEvent::Logged(logged));
                }
            }
            _ => {}
        }
        Some(Conclusion { blobs, before, end })
    }

    fn begin_retry_pause(&mut self, key: CallKey, pause: Duration) {
        self.signals.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            AttemptSignal::RetryDue(key)
        }));
    }
}

/// Returns whether an attempt ends with a fault that says which path it may not see.
fn says_not_granted(end: &Event) -> bool {
    match end {
        Event::Attempt(_, AttemptEvent::CallFailed(failed)) => {
            failed.fault.cause == FaultCause::NotGranted(Grant::Dirs)
        }
        _ => false,
    }
}

/// Returns whether a result ends with what was logged. What a script prints is its result if it
/// returns nothing, and need not be kept twice.
fn is_shown_by(result: &CallResult, logged: &Logged) -> bool {
    let CallResult::Returned { output, .. } = result else {
        return false;
    };
    let (content, printed) = (output.content.trim_end(), logged.lines.join("\n"));
    let before = content.strip_suffix(printed.trim_end());
    before.is_some_and(|before| before.is_empty() || before.ends_with('\n'))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::tests::fixture::{ROLE, RunningTeam};

    /// Starts the first attempt of a team.
    fn start(team: &mut RunningTeam) -> (Attempts, AttemptId) {
        let (requests, _) = mpsc::channel(1);
        let mut attempts = Attempts::new(AttemptRunner::new(&team.services, requests));
        let call = team.invocations.remove(0);
        let prepared = attempts.prepare(&call, &team.stepper, Arc::default());
        let id = prepared.id;
        attempts.add(call, prepared);
        (attempts, id)
    }

    async fn end(attempts: &mut Attempts) -> AttemptEnd {
        match attempts.next_signal().await {
            Some(AttemptSignal::Ended(end)) => end,
            _ => panic!("the attempt must end"),
        }
    }

    #[tokio::test]
    async fn the_end_of_an_attempt_is_recorded_after_what_belongs_to_it() {
        let mut team = RunningTeam::start(ROLE);
        let (mut attempts, id) = start(&mut team);
        let end = end(&mut attempts).await;
        assert!(attempts.keep_result(end) && attempts.has_ended(id.call));
        let unclaimed = vec![(0, "POST a".to_owned())];
        let concluded = attempts
            .conclude(id.call, &team.stepper, unclaimed)
            .expect("a running attempt");
        assert!(matches!(
            concluded.before.as_slice(),
            [Event::Attempt(_, AttemptEvent::WritesUnclaimed(_))]
        ));
        assert!(matches!(
            concluded.end,
            Event::Attempt(call, AttemptEvent::CallFinished(_)) if call == id.call
        ));
        assert!(attempts.is_empty());
    }

    #[tokio::test]
    async fn an_attempt_that_is_aborted_is_recorded_as_interrupted() {
        let mut team = RunningTeam::start(ROLE);
        let (mut attempts, id) = start(&mut team);
        attempts.abort();
        assert!(attempts.signal_now().is_none() && attempts.is_running(id));
        let concluded = attempts.conclude(id.call, &team.stepper, Vec::new());
        let Some(Event::Attempt(_, AttemptEvent::CallFailed(failed))) =
            concluded.map(|concluded| concluded.end)
        else {
            panic!("it must fail");
        };
        assert_eq!(failed.fault.kind, FaultKind::Interrupted);
    }

    #[tokio::test]
    async fn the_result_of_a_suspended_attempt_is_ignored() {
        let mut team = RunningTeam::start(ROLE);
        let (mut attempts, id) = start(&mut team);
        assert_eq!(attempts.suspend(id.call), Some(1));
        assert!(attempts.caller(id, None).is_none());
        let end = end(&mut attempts).await;
        assert!(!attempts.keep_result(end));
        assert!(
            attempts
                .conclude(id.call, &team.stepper, Vec::new())
                .is_none()
        );
    }
}
