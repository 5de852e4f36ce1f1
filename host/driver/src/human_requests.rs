//! Requests to people: an attempt that asks a person ends, and its request stays open until it is
//! answered or expires.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_base::clock::now_ms;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event};
use strata_core::record::human_request::HumanRequest;
use strata_core::record::id::RequestId;
use strata_core::record::work::CallKey;
use strata_core::state::environment::Environment;

use strata_services::human::HumanQuestion;

/// The time limits of the open requests. The requests themselves are part of the environment.
#[derive(Default)]
pub(super) struct HumanRequests {
    expiries: FuturesUnordered<BoxFuture<'static, RequestExpiry>>,
}

/// A request has reached its time limit.
#[derive(Debug)]
pub(super) struct RequestExpiry(RequestId);

impl HumanRequests {
    /// Forgets all time limits.
    pub(super) fn clear(&mut self) {
        self.expiries = FuturesUnordered::new();
    }

    /// Waits for the time limits of the open requests.
    pub(super) fn watch_all(&mut self, env: &Environment) {
        for (_, request) in env.open_requests() {
            self.watch(request);
        }
    }

    /// Waits for the time limit of the request that an event of the stepper opens, if it opens one
    /// that has a time limit.
    pub(super) fn watch_opened(&mut self, event: &Event) {
        if let Event::Attempt(_, AttemptEvent::RequestOpened(opened)) = event {
            self.watch(&opened.request);
        }
    }

    /// Waits for the time limit of a request, if it has one.
    fn watch(&mut self, request: &HumanRequest) {
        let Some(end) = request.expires_ms else {
            return;
        };
        let pause = Duration::from_millis(u64::try_from(end.saturating_sub(now_ms())).unwrap_or(0));
        let expiry = RequestExpiry(request.id.clone());
        self.expiries.push(Box::pin(async move {
            // Limits that passed while the team did not run are all returned at once.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            expiry
        }));
    }

    /// Returns the event that asks a person and ends the attempt, and waits for its time limit.
    /// `earlier` is the number of questions that the attempt has asked before. Returns `None` if the
    /// question is not valid, or the attempt is not running any more.
    pub(super) fn open(
        &mut self,
        stepper: &Stepper,
        call: CallKey,
        question: &HumanQuestion,
        earlier: u32,
    ) -> Option<Event> {
        let id = stepper.first_request_id(call, earlier)?;
        // The sandbox has validated the question; validating it again here would block the driver.
        let request = question.to_request(id, now_ms()).ok()?;
        let event = stepper.request_opened_event(call, request)?;
        self.watch_opened(&event);
        Some(event)
    }

    /// Waits for the next time limit; `None` if no open request has one.
    pub(super) async fn next_expiry(&mut self) -> Option<RequestExpiry> {
        // Polling an empty set would register a waker for nothing.
        if self.expiries.is_empty() {
            return None;
        }
        self.expiries.next().await
    }

    /// Returns a time limit that has been reached by now.
    pub(super) fn expiry_now(&mut self) -> Option<RequestExpiry> {
        self.expiries.next().now_or_never().flatten()
    }

    /// Returns the event that ends a request that has expired; `None` if it was answered before, or
    /// has not expired yet.
    pub(super) fn expire(&mut self, expiry: &RequestExpiry, stepper: &Stepper) -> Option<Event> {
        let mut open = stepper.env().open_requests();
        let (_, request) = open.find(|(_, open)| open.id == expiry.0)?;
        if !request.is_expired(now_ms()) {
            // The clock was set back, or this time limit belongs to an earlier request with the same
            // question.
            self.watch(request);
            return None;
        }
        stepper.request_answered_event(&request.id, request.outcome_when_expired(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::{ROLE, RunningTeam};

    fn question(expires_s: Option<u32>) -> HumanQuestion {
        HumanQuestion {
            text: "really?".into(),
            schema: None,
            choices: Vec::new(),
            expires_s,
            default: None,
        }
    }

    /// Opens a request, and returns its id.
    fn open(
        team: &mut RunningTeam,
        requests: &mut HumanRequests,
        question: &HumanQuestion,
    ) -> RequestId {
        let call = team.invocations[0].key();
        let event = requests.open(&team.stepper, call, question, 0);
        let event = event.expect("a running attempt");
        team.stepper.apply(&event).expect("an event that fits");
        let Event::Attempt(_, AttemptEvent::RequestOpened(opened)) = event else {
            panic!("a request must be opened");
        };
        opened.request.id
    }

    #[tokio::test]
    async fn a_request_without_a_time_limit_never_expires() {
        let mut team = RunningTeam::start(ROLE);
        let mut requests = HumanRequests::default();
        open(&mut team, &mut requests, &question(None));
        requests.watch_all(team.stepper.env());
        assert!(requests.next_expiry().await.is_none());
    }

    #[tokio::test]
    async fn time_limits_that_were_reached_together_are_returned_without_waiting() {
        let mut team = RunningTeam::start(ROLE);
        let mut requests = HumanRequests::default();
        open(&mut team, &mut requests, &question(None));
        for _ in 0..3 {
            let (_, request) = team
                .stepper
                .env()
                .open_requests()
                .next()
                .expect("a request");
            requests.watch(&HumanRequest {
                expires_ms: Some(0),
                ..request.clone()
            });
        }
        assert!(requests.next_expiry().await.is_some());
        assert!(requests.expiry_now().is_some());
        assert!(requests.expiry_now().is_some());
        assert!(requests.expiry_now().is_none());
    }

    #[tokio::test]
    async fn a_request_does_not_expire_before_its_time() {
        let mut team = RunningTeam::start(ROLE);
        let mut requests = HumanRequests::default();
        let request = open(&mut team, &mut requests, &question(Some(3600)));
        assert_eq!(requests.expiries.len(), 1);
        let early = RequestExpiry(request);
        assert!(requests.expire(&early, &team.stepper).is_none());
        assert_eq!(requests.expiries.len(), 2, "it is waited for again");
        let other = RequestExpiry(RequestId::from("another"));
        assert!(requests.expire(&other, &team.stepper).is_none());
        assert_eq!(requests.expiries.len(), 2);
        requests.clear();
        assert!(requests.next_expiry().await.is_none());
    }
}
