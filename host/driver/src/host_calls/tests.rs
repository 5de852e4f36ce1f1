//! Tests of the host calls of an attempt, with calls that answer as the test says.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use strata_base::process::wait::wait;
use strata_core::record::host_call::{CallOutcome, Intent, LostAnswerPolicy};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_services::gateway::{HostError, HostErrorKind};
use strata_services::outbound::CallAnswer;
use strata_storage::{Heartbeat, LEASE_TIME, MemoryCap};
use tokio::runtime;
use tokio::sync::watch;

use super::attempt_calls::local_record;
use super::*;
use crate::tests::fixture::{ROLE, RunningTeam};

/// A call whose answer is its digest.
struct TestCall {
    digest: &'static str,
    is_write: bool,
    /// What it is expected to cost, and what it costs; `None` if it is free.
    cost: Option<(Usd, Usd)>,
    is_answered: bool,
    /// How often its cost was estimated.
    estimates: Arc<AtomicU32>,
    /// The runtime in whose context it was made.
    runtime: Arc<OnceLock<runtime::Id>>,
}

impl TestCall {
    fn read(digest: &'static str) -> Self {
        Self {
            digest,
            is_write: false,
            cost: None,
            is_answered: true,
            estimates: Arc::default(),
            runtime: Arc::default(),
        }
    }

    fn write(digest: &'static str) -> Self {
        Self {
            is_write: true,
            ..Self::read(digest)
        }
    }

    fn paid(digest: &'static str, expected: f64, cost: f64) -> Self {
        let usd = Usd::from_dollars;
        Self {
            cost: Some((usd(expected), usd(cost))),
            ..Self::read(digest)
        }
    }
}

impl OutboundCall for TestCall {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Http
    }

    fn digest(&self, _: &Environment) -> String {
        self.digest.to_owned()
    }

    fn summary(&self) -> String {
        self.digest.to_owned()
    }

    fn is_write(&self) -> bool {
        self.is_write
    }

    fn intent(&self, request_name: &str) -> Option<Intent> {
        self.is_write.then(|| Intent {
            kind: self.kind(),
            request: request_name.to_owned(),
            description: self.digest.to_owned(),
            if_answer_lost: LostAnswerPolicy::AskOperator,
        })
    }

    fn is_paid(&self) -> bool {
        self.cost.is_some()
    }

    fn expected_cost(&self) -> Result<Amount, HostError> {
        self.estimates.fetch_add(1, Ordering::Relaxed);
        let usd = self.cost.map_or(Usd::ZERO, |(expected, _)| expected);
        Ok(Amount { usd, tokens: 0 })
    }

    fn send(self: Arc<Self>, _: SendContext) -> BoxFuture<'static, OutboundResult> {
        if !self.is_answered {
            return Box::pin(std::future::pending());
        }
        let result = OutboundResult {
            cost: self.cost.map_or(Usd::ZERO, |(_, cost)| cost),
            ..OutboundResult::answered(answer(self.digest))
        };
        Box::pin(async move {
            if let Ok(current) = Handle::try_current() {
                let _ = self.runtime.set(current.id());
            }
            result
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        response.as_str().len()
    }
}

fn answer(digest: &str) -> Json {
    Json::from(serde_json::json!(digest))
}

/// Returns the answers as texts, for comparison.
fn texts(answer: HostAnswer) -> Vec<String> {
    let HostAnswer::Outbound(answers) = answer else {
        panic!("calls have answers from outside");
    };
    let text = |answer: CallAnswer| match answer {
        Ok(json) => json.as_str().to_owned(),
        Err(error) => format!("{:?}", error.kind),
    };
    answers.into_iter().map(text).collect()
}

/// An attempt of a running team that makes host calls.
struct Fixture {
    team: RunningTeam,
    calls: HostCalls,
    attempt: AttemptId,
}

impl Fixture {
    fn new(team_file: &str) -> Self {
        let team = RunningTeam::start(team_file);
        let attempt = AttemptId {
            call: team.invocations[0].key(),
            serial: 0,
        };
        Self {
            team,
            calls: HostCalls::default(),
            attempt,
        }
    }

    /// Submits calls. Returns the events to record, and the end of the channel for the answer.
    fn submit(&mut self, calls: Vec<TestCall>) -> (Vec<Event>, oneshot::Receiver<HostAnswer>) {
        let as_outbound = |call| -> Arc<dyn OutboundCall> { Arc::new(call) };
        let calls = calls.into_iter().map(as_outbound).collect();
        let (reply, answer) = oneshot::channel();
        let batch = GuestBatch::new(calls, Allowance::unlimited(), reply);
        let caller = Caller {
            attempt: self.attempt,
            number: 1,
            idempotency_key: "run/0/A/0",
            seed: "run/0/A/0",
            about: None,
        };
        let env = self.team.stepper.env();
        (self.calls.submit(caller, batch, env), answer)
    }

    fn apply(&mut self, event: &Event) {
        self.team.stepper.apply(event).expect("an event that fits");
    }

    /// Runs a round of the budget gate. Returns the number of reservations, and the suspended call.
    fn run_round(&mut self) -> (usize, Option<CallKey>) {
        let (mut reserved, mut suspended) = (0, None);
        let mut round = self.calls.admission_round();
        while let Some(decision) = self.calls.decide_next(&mut round, &self.team.stepper) {
            match decision {
                AdmissionDecision::Reserve(event) => {
                    reserved += 1;
                    self.apply(&event);
                }
                AdmissionDecision::Draw(usd) => {
                    if let Some(reached) = wait(self.calls.caps().draw(usd)) {
                        self.apply(&Event::CapReached(reached));
                    }
                }
                AdmissionDecision::Suspend(call) => {
                    suspended = Some(call);
                    self.calls.end_attempt(call, &[]);
                }
            }
        }
        (reserved, suspended)
    }

    fn send_ready(&mut self) {
        self.send_ready_under(&LeaseStatus::permanent());
    }

    fn send_ready_under(&mut self, lease: &LeaseStatus) {
        let team = self.team.stepper.team().clone();
        self.calls.send_ready(&team, &Spans::default(), lease);
    }

    /// Waits for a call, and applies its record. Returns whether there was one.
    async fn complete_next(&mut self) -> bool {
        let returned = self.calls.next_returned().await.expect("a call in flight");
        match self.calls.complete(returned) {
            Some((_, CompletedCall::Recorded(event))) => {
                self.apply(&event);
                true
            }
            Some((_, CompletedCall::Asks { .. })) | None => false,
        }
    }
}

/// Returns the names of attempt events.
fn kinds(events: &[Event]) -> Vec<&'static str> {
    let kind = |event: &Event| match event {
        Event::Attempt(_, AttemptEvent::HostCalled(called)) => called.source.name(),
        Event::Attempt(_, AttemptEvent::HostCallBegun(_)) => "begun",
        _ => "other",
    };
    events.iter().map(kind).collect()
}

#[tokio::test]
async fn recorded_answers_are_served_and_other_calls_are_made() {
    let mut fixture = Fixture::new(ROLE);
    let recorded = local_record(HostCallKind::Http, "a", answer("recorded"));
    fixture
        .calls
        .begin_attempt(fixture.attempt, vec![recorded], Vec::new(), None);
    let calls = vec![TestCall::read("a"), TestCall::read("b")];
    let (events, mut reply) = fixture.submit(calls);
    assert_eq!(kinds(&events), ["recorded"]);
    assert!(fixture.calls.waits_for_flush());
    fixture.send_ready();
    assert!(reply.try_recv().is_err(), "one call is still in flight");
    assert!(fixture.complete_next().await);
    assert!(fixture.calls.waits_for_flush(), "the batch is complete");
    fixture.send_ready();
    let answers = texts(reply.await.expect("an answer"));
    assert_eq!(answers, ["\"recorded\"", "\"b\""]);
    assert!(!fixture.calls.waits_for_flush());
}

#[test]
fn calls_are_made_in_the_runtime_that_was_set_for_them() {
    let runtime = || runtime::Builder::new_current_thread().build().unwrap();
    let (polling, own) = (runtime(), runtime());
    let made_in = |fixture: &mut Fixture| {
        let call = TestCall::read("a");
        let seen = Arc::clone(&call.runtime);
        let _answer = fixture.submit(vec![call]);
        fixture.send_ready();
        polling.block_on(fixture.complete_next());
        seen.get().copied()
    };
    let mut fixture = Fixture::new(ROLE);
    assert_eq!(made_in(&mut fixture), Some(polling.handle().id()));
    let mut fixture = Fixture::new(ROLE);
    fixture.calls.set_runtime(own.handle().clone());
    assert_eq!(made_in(&mut fixture), Some(own.handle().id()));
}

#[tokio::test]
async fn a_write_is_announced_before_it_is_sent_and_awaited_after_its_attempt() {
    let mut fixture = Fixture::new(ROLE);
    let pending = TestCall {
        is_answered: false,
        ..TestCall::write("w")
    };
    let (events, _reply) = fixture.submit(vec![pending]);
    assert_eq!(kinds(&events), ["begun"]);
    assert!(!fixture.calls.must_await(fixture.attempt.call));
    fixture.send_ready();
    fixture.calls.abandon_discardable(fixture.attempt.call);
    assert!(fixture.calls.must_await_any());
    assert!(fixture.calls.returned_now().is_none());
    fixture.calls.end_attempt(fixture.attempt.call, &[]);
    assert!(!fixture.calls.must_await_any());
    assert!(!fixture.complete_next().await, "nobody waits for it now");
}

#[tokio::test]
async fn a_call_waits_while_its_budget_is_reserved_for_others() {
    let mut fixture = Fixture::new(&format!("investment = 1.0\n{ROLE}"));
    let calls = vec![
        TestCall::paid("a", 2.0, 0.5),
        TestCall::paid("b", 2.0, 0.6),
        TestCall::paid("c", 2.0, 0.0),
    ];
    let (events, mut reply) = fixture.submit(calls);
    assert!(events.is_empty());
    assert_eq!(fixture.run_round(), (1, None), "the second call is blocked");
    fixture.send_ready();
    assert!(fixture.complete_next().await);
    assert_eq!(fixture.run_round(), (1, None), "half a dollar is left");
    fixture.send_ready();
    assert!(fixture.complete_next().await);
    let suspended = Some(fixture.attempt.call);
    assert_eq!(fixture.run_round(), (0, suspended), "the budget is used up");
    assert!(!fixture.calls.waits_for_flush());
    let closed = reply.try_recv();
    assert_eq!(closed.err(), Some(oneshot::error::TryRecvError::Closed));
}

#[tokio::test]
async fn a_call_is_charged_to_the_caps_above_its_run_before_it_leaves() {
    let cap = MemoryCap::new(Usd::from_dollars(3.0));
    let used = |usd: f64| assert_eq!(cap.used(), i128::from(Usd::from_dollars(usd).0));
    let mut fixture = Fixture::new(ROLE);
    let accounts = cap.accounts();
    fixture.calls.set_caps(accounts.join(None));
    let other_run = accounts.join(None);
    let calls = vec![
        TestCall::paid("a", 2.0, 0.5),
        TestCall::paid("b", 2.0, 2.4),
        TestCall::paid("c", 1.0, 0.1),
    ];
    let (_, mut reply) = fixture.submit(calls);
    assert_eq!(fixture.run_round(), (1, None), "the second call is blocked");
    assert!(fixture.calls.holds_calls());
    used(2.0);
    fixture.send_ready();
    assert!(fixture.complete_next().await);
    assert_eq!(fixture.run_round(), (1, None), "1.5 of the first are free");
    fixture.send_ready();
    assert!(fixture.complete_next().await);
    let suspended = Some(fixture.attempt.call);
    assert_eq!(fixture.run_round(), (0, suspended), "0.1 are left");
    let reached = fixture.team.stepper.env().cap_reached.as_ref();
    assert_eq!(reached.map(|reached| reached.scope.as_str()), Some("all"));
    let closed = reply.try_recv();
    assert_eq!(closed.err(), Some(oneshot::error::TryRecvError::Closed));
    fixture.calls.caps().leave();
    other_run.leave();
    used(2.9);
}

#[tokio::test]
async fn a_call_that_must_not_be_made_twice_waits_until_the_lease_is_confirmed() {
    let long_ago = Instant::now().checked_sub(LEASE_TIME).unwrap();
    let (beats, heartbeat) = watch::channel(Heartbeat::Answered { sent: long_ago });
    let lease = LeaseStatus::depending_on(heartbeat, Path::new("database"));
    let mut fixture = Fixture::new(&format!("investment = 10.0\n{ROLE}"));
    let calls = vec![
        TestCall::read("r"),
        TestCall::write("w"),
        TestCall::paid("p", 1.0, 1.0),
    ];
    let (_, _reply) = fixture.submit(calls);
    assert_eq!(fixture.run_round(), (1, None));
    fixture.send_ready_under(&lease);
    assert!(fixture.complete_next().await, "reading is harmless");
    assert!(fixture.calls.holds_calls() && fixture.calls.next_returned().await.is_none());
    let sent = Instant::now();
    beats.send_replace(Heartbeat::Answered { sent });
    fixture.send_ready_under(&lease);
    assert!(!fixture.calls.holds_calls());
    assert!(fixture.complete_next().await && fixture.complete_next().await);
}

#[test]
fn the_cost_of_a_blocked_call_is_not_estimated() {
    let mut fixture = Fixture::new(&format!("investment = 1.0\n{ROLE}"));
    let blocked = TestCall::paid("b", 2.0, 0.6);
    let estimates = blocked.estimates.clone();
    let (_, _reply) = fixture.submit(vec![TestCall::paid("a", 2.0, 0.5), blocked]);
    assert_eq!(fixture.run_round(), (1, None));
    assert_eq!(fixture.run_round(), (0, None), "the second call is blocked");
    assert_eq!(estimates.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn the_cost_of_a_call_that_waits_for_a_cap_is_estimated_once() {
    let mut fixture = Fixture::new(ROLE);
    let accounts = MemoryCap::new(Usd::from_dollars(3.0)).accounts();
    fixture.calls.set_caps(accounts.join(None));
    let waiting = TestCall::paid("b", 2.0, 0.5);
    let estimates = waiting.estimates.clone();
    let (_, _reply) = fixture.submit(vec![TestCall::paid("a", 2.0, 0.5), waiting]);
    assert_eq!(fixture.run_round(), (1, None));
    assert_eq!(fixture.run_round(), (0, None), "the second call is blocked");
    fixture.send_ready();
    assert!(fixture.complete_next().await);
    assert_eq!(fixture.run_round(), (1, None));
    assert_eq!(estimates.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn nothing_is_reserved_for_an_attempt_that_has_ended() {
    let mut fixture = Fixture::new(ROLE);
    let (_, _reply) = fixture.submit(vec![TestCall::paid("a", 2.0, 0.5)]);
    fixture.calls.abandon_discardable(fixture.attempt.call);
    assert_eq!(fixture.run_round(), (0, None));
    assert!(!fixture.calls.waits_for_flush());
}

#[test]
fn random_bytes_depend_on_the_seed_the_attempt_and_the_draw() {
    let draw = |number: u32, draws: usize| {
        let mut calls = HostCalls::default();
        let attempt = AttemptId::first(strata_core::record::id::RoleId(0));
        let caller = Caller {
            attempt,
            number,
            idempotency_key: "key",
            seed: "seed",
            about: None,
        };
        let drawn = (0..draws).map(|_| match calls.draw_random_bytes(caller, 8).answer {
            HostAnswer::Bytes(Ok(bytes)) => bytes,
            other => panic!("{other:?}"),
        });
        drawn.collect::<Vec<_>>()
    };
    assert_eq!(draw(1, 2), draw(1, 2));
    assert_ne!(draw(1, 2)[0], draw(1, 2)[1]);
    assert_ne!(draw(1, 1), draw(2, 1));
    assert_eq!(draw(1, 1)[0].len(), 8);
}

#[test]
fn a_failed_call_is_recorded_with_its_error() {
    let failed = OutboundResult::failed(HostError::new(HostErrorKind::Upstream, "it is down"));
    let record = failed.to_record(HostCallKind::Http, "a#1".into());
    assert_eq!(
        (record.request.as_str(), record.outcome),
        ("a#1", CallOutcome::Failed)
    );
    let error: HostError = serde_json::from_value(record.response.value()).expect("an error");
    assert_eq!(Err(error), failed.answer);
}
