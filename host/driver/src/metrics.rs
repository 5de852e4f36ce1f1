//! Metrics of runs, counted for Prometheus.
//!
//! A run's journal passes each event here once it is durable (`Metrics::record_commit`). Counters start
//! with the process: a resume starts from zero. The numbers agree with what `events` and `inspect`
//! show. Labels are names from the team file, so their number is bounded. The text format is in
//! `text`; `strata_base::owner` serves it.

mod fleet;
mod text;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, CallFailed, Event, HostCalled, JoinRelease, JoinReleased, MessageSent,
    RoutingResult, RunStarted, StepCommitted, StepConflicted, StepStarted,
};
use strata_core::record::fault::FaultKind;
use strata_core::record::host_call::{AnswerSource, HostCall};
use strata_core::record::id::RoleId;
use strata_core::record::money::Usd;
use strata_core::record::work::CallKey;
use strata_storage::{Durability, Record};

use crate::public_event::is_routed;
use crate::work_name::index_and_name_of_call;

pub use fleet::{FleetMember, FleetMetrics};
pub use text::MetricsWriter;

/// The maximum number of roles with series of their own. Others are counted under `other`.
const MAX_ROLES: usize = 500;
/// The label for these others.
const OTHER_ROLES: &str = "other";
/// The upper bounds of the buckets for the duration of commits, in seconds: from fast to slow
/// disks.
const COMMIT_BUCKETS_SECONDS: [f64; 9] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1.0,
];
/// The upper bounds of the buckets for the duration of attempts, in seconds: from a computation to
/// a long call.
const ATTEMPT_BUCKETS_SECONDS: [f64; 9] = [0.001, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0];

/// The metrics of a process, shared by the runs that update them and the server that reads them.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    run: Option<RunInfo>,
    steps: u64,
    events: u64,
    messages: u64,
    dead_letters: u64,
    activations: BTreeMap<String, u64>,
    /// By role, action and outcome.
    attempts: BTreeMap<[String; 3], u64>,
    /// By role, action and kind.
    faults: BTreeMap<[String; 3], u64>,
    /// By kind, source and outcome.
    calls: BTreeMap<[&'static str; 3], u64>,
    /// Tokens and money by role and action.
    tokens: BTreeMap<[String; 2], u64>,
    spent: BTreeMap<[String; 2], Usd>,
    saved: Usd,
    commits: BTreeMap<&'static str, Histogram>,
    attempt_durations: Histogram,
    /// When the current attempts started, in milliseconds since the epoch.
    attempt_starts_ms: BTreeMap<CallKey, i64>,
    /// The names of the roles with series of their own.
    role_names: Vec<String>,
    /// The number of messages in each role's mailbox; the last element is the sum for all other
    /// roles.
    mailbox_sizes: Vec<usize>,
    open_requests: usize,
    /// What is counted in these two of each role that has unfinished mail or open requests.
    backlog: BTreeMap<RoleId, RoleBacklog>,
}

/// What a role has not finished with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RoleBacklog {
    messages: usize,
    requests: usize,
}

#[derive(Debug, Default)]
struct RunInfo {
    id: String,
    team: String,
    status: &'static str,
    step: u64,
    spent: Usd,
    budget: Option<Usd>,
}

#[derive(Debug, Default)]
struct Histogram {
    /// How many values fall between each upper bound and the one before it.
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, ends: &[f64], value: f64) {
        self.buckets.resize(ends.len(), 0);
        if let Some(class) = ends.iter().position(|end| value <= *end) {
            self.buckets[class] += 1;
        }
        self.count += 1;
        self.sum += value;
    }
}

impl Metrics {
    /// Counts events that became durable together after `took`. `stepper` is the current state.
    pub fn record_commit(
        &self,
        records: &[Record],
        stepper: &Stepper,
        took: Duration,
        durability: Durability,
    ) {
        let mut counts = self.counts();
        let how = if durability == Durability::Full {
            "full"
        } else {
            "process"
        };
        counts
            .commits
            .entry(how)
            .or_default()
            .observe(&COMMIT_BUCKETS_SECONDS, took.as_secs_f64());
        counts.add_records(records, stepper);
    }

    /// Counts events that were made durable earlier, if any, and the current state.
    pub fn record_events(&self, records: &[Record], stepper: &Stepper) {
        self.counts().add_records(records, stepper);
    }

    /// Returns all metrics in the text format of Prometheus.
    pub fn to_text(&self) -> String {
        self.counts().to_text()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Numbers have no invariant that a panic could have broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add_records(&mut self, records: &[Record], stepper: &Stepper) {
        self.update_run(stepper);
        if self.role_names.is_empty() {
            self.name_roles(stepper);
            self.update_backlog(stepper, stepper.team().role_ids());
        }
        for record in records {
            self.events += u64::from(record.lines);
            self.update_changed_backlog(&record.event, stepper);
            self.add_event(&record.event, stepper, record.time_ms);
        }
    }

    fn add_event(&mut self, event: &Event, stepper: &Stepper, time_ms: i64) {
        match event {
            Event::RunStarted(RunStarted { routed, .. })
            | Event::MessageSent(MessageSent { routed, .. }) => self.add_routed(routed),
            Event::StepStarted(StepStarted { roles, .. }) => {
                self.steps += 1;
                for role in roles {
                    let role = self.role_label(*role);
                    *self.activations.entry(role).or_default() += 1;
                }
            }
            Event::StepCommitted(StepCommitted { routed, .. }) => {
                for routed in routed {
                    self.add_routed(routed);
                }
            }
            Event::StepConflicted(StepConflicted { writers, .. }) => {
                for writer in writers {
                    let (_, action) = index_and_name_of_call(stepper, writer.call);
                    self.add_fault(writer.call.role, action, FaultKind::StateConflict);
                }
            }
            Event::Attempt(call, event) => self.add_attempt_event(*call, event, stepper, time_ms),
            _ => {}
        }
    }

    /// Counts a host call, or the start or the end of an attempt.
    fn add_attempt_event(
        &mut self,
        call: CallKey,
        event: &AttemptEvent,
        stepper: &Stepper,
        time_ms: i64,
    ) {
        let CallKey { role, work, .. } = call;
        let (_, action) = index_and_name_of_call(stepper, call);
        match event {
            AttemptEvent::HostCalled(HostCalled { call, source, .. }) => {
                self.add_host_call(role, action, call, *source);
            }
            AttemptEvent::CallStarted(_) => {
                self.attempt_starts_ms.insert(call, time_ms);
            }
            AttemptEvent::CallFinished(_) => {
                self.add_ended_attempt(call, action, "finished", time_ms);
            }
            AttemptEvent::CallFailed(CallFailed { fault, .. }) => {
                let outcome = if fault.kind == FaultKind::Interrupted {
                    "interrupted"
                } else {
                    "failed"
                };
                self.add_fault(role, action, fault.as_reported(work).kind);
                self.add_ended_attempt(call, action, outcome, time_ms);
            }
            AttemptEvent::CallSuspended(_) => {
                self.add_ended_attempt(call, action, "suspended", time_ms);
            }
            AttemptEvent::RequestOpened(_) if self.attempt_starts_ms.contains_key(&call) => {
                self.add_ended_attempt(call, action, "asked", time_ms);
            }
            _ => {}
        }
    }

    fn add_fault(&mut self, role: RoleId, action: &str, kind: FaultKind) {
        let labels = [self.role_label(role), action.into(), kind.name().into()];
        *self.faults.entry(labels).or_default() += 1;
    }

    fn add_host_call(&mut self, role: RoleId, action: &str, call: &HostCall, source: AnswerSource) {
        *self
            .calls
            .entry([call.kind.name(), source.name(), call.outcome.name()])
            .or_default() += 1;
        if source == AnswerSource::Live {
            let labels = [self.role_label(role), action.to_owned()];
            *self.tokens.entry(labels.clone()).or_default() += call.tokens();
            *self.spent.entry(labels).or_default() += call.cost;
        } else {
            self.saved += call.cost;
        }
    }

    fn add_routed(&mut self, routed: &RoutingResult) {
        self.messages += u64::from(is_routed(routed));
        self.dead_letters += routed.undeliverable.len() as u64;
    }

    fn add_ended_attempt(&mut self, call: CallKey, action: &str, outcome: &str, time_ms: i64) {
        let labels = [self.role_label(call.role), action.into(), outcome.into()];
        *self.attempts.entry(labels).or_default() += 1;
        if let Some(start_ms) = self.attempt_starts_ms.remove(&call) {
            self.attempt_durations.observe(
                &ATTEMPT_BUCKETS_SECONDS,
                (time_ms - start_ms).max(0) as f64 / 1000.0,
            );
        }
    }

    fn update_run(&mut self, stepper: &Stepper) {
        let env = stepper.env();
        let run = self.run.get_or_insert_default();
        if run.id.is_empty() {
            (run.id, run.team) = (env.run.0.clone(), stepper.team().name.clone());
        }
        (run.status, run.step, run.spent, run.budget) =
            (env.status.name(), env.step, env.spent, env.budget);
    }

    fn name_roles(&mut self, stepper: &Stepper) {
        let roles = stepper.team().roles.iter().take(MAX_ROLES);
        self.role_names = roles.map(|role| role.name.clone()).collect();
        self.mailbox_sizes = vec![0; self.role_names.len() + 1];
    }

    /// Updates the counts of the roles whose mail or requests an event may have changed. The others
    /// are not visited: there may be many.
    fn update_changed_backlog(&mut self, event: &Event, stepper: &Stepper) {
        match event {
            Event::RunStarted(RunStarted { routed, .. })
            | Event::MessageSent(MessageSent { routed, .. }) => {
                self.update_backlog(stepper, routed.to.iter().copied());
            }
            Event::StepStarted(StepStarted { roles, .. }) => {
                self.update_backlog(stepper, roles.iter().copied());
            }
            Event::StepCommitted(StepCommitted {
                routed, released, ..
            }) => {
                // The activations that ended are among those with unfinished mail.
                let ended: Vec<RoleId> = self.backlog.keys().copied().collect();
                self.update_backlog(stepper, ended);
                self.update_backlog(
                    stepper,
                    routed.iter().flat_map(|routed| &routed.to).copied(),
                );
                self.update_backlog(stepper, receivers(released));
            }
            Event::JoinReleased(JoinReleased { released }) => {
                self.update_backlog(stepper, receivers(released));
            }
            Event::Attempt(
                call,
                AttemptEvent::RequestOpened(_)
                | AttemptEvent::CallAsks(_)
                | AttemptEvent::RequestAnswered(_)
                | AttemptEvent::CallRevised(_),
            ) => self.update_backlog(stepper, [call.activation().root()]),
            Event::RunResumed(_) | Event::Forked(_) | Event::ConsentWithdrawn(_) => {
                self.update_backlog(stepper, stepper.team().role_ids());
            }
            _ => {}
        }
    }

    /// Counts the unfinished mail and the open requests of these roles anew.
    fn update_backlog(&mut self, stepper: &Stepper, roles: impl IntoIterator<Item = RoleId>) {
        let env = stepper.env();
        for role in roles {
            let now = RoleBacklog {
                messages: env.unfinished_mail(role).count(),
                requests: env.open_requests_of(role).count(),
            };
            let before = if now == RoleBacklog::default() {
                self.backlog.remove(&role)
            } else {
                self.backlog.insert(role, now)
            };
            let before = before.unwrap_or_default();
            let size = &mut self.mailbox_sizes[role.index().min(self.role_names.len())];
            *size = *size + now.messages - before.messages;
            self.open_requests = self.open_requests + now.requests - before.requests;
        }
    }

    /// Returns the label under which a role is counted.
    fn role_label(&self, id: RoleId) -> String {
        self.role_names
            .get(id.index())
            .map_or_else(|| OTHER_ROLES.to_owned(), Clone::clone)
    }
}

/// Returns the roles that receive what joins release.
fn receivers(released: &[JoinRelease]) -> impl Iterator<Item = RoleId> {
    released.iter().flat_map(|released| &released.to).copied()
}
