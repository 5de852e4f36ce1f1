//! Requests to people: an attempt that asks a person ends, and its request stays open until it is
//! answered or expires.

use std::time::Duration;

use strata_core::record::event::{AttemptEvent, Event, HostCalled};
use strata_core::record::host_call::{AnswerSource, HostCallKind};
use strata_core::record::id::{RequestId, RoleId};
use strata_core::record::request::{HumanAnswer, HumanRequest};
use strata_core::record::work::CallKey;
use tokio::sync::oneshot;

use super::call::summarize;
use super::clock::now_ms;
use super::{Driver, DriverError, DriverEvent};
use crate::gateway::HostAnswer;
use crate::services::human::HumanQuestion;

/// A request has reached its time limit.
pub(super) struct RequestExpiry {
    role: RoleId,
    request: RequestId,
}

impl Driver {
    /// Asks a person, unless the answer is recorded.
    pub(super) fn ask_human(
        &mut self,
        key: CallKey,
        question: &HumanQuestion,
        reply: oneshot::Sender<HostAnswer>,
    ) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return Ok(());
        };
        let role = key.role;
        let before = attempt.human_questions;
        attempt.human_questions += 1;
        let recorded = attempt.take_recorded(HostCallKind::Human, &question.digest());
        let read = |call: &strata_core::record::host_call::HostCall| {
            HumanAnswer::from_record(&call.response)
        };
        if let Some((call, answered)) =
            recorded.and_then(|call| read(&call).map(|answered| (call, answered)))
        {
            let summary = summarize(&question.text);
            self.journal.stage(Event::Attempt(
                key,
                AttemptEvent::HostCalled(HostCalled {
                    call,
                    source: AnswerSource::Recorded,
                    summary,
                }),
            ))?;
            self.journal.flush()?;
            let _ = reply.send(HostAnswer::Human(answered));
            return Ok(());
        }
        let stepper = self.journal.stepper();
        // The sandbox has validated the question; validating it again here would block the driver.
        let request = stepper
            .request_id(key, before)
            .and_then(|id| question.to_request(id, now_ms()).ok());
        let Some(request) = request else {
            return Ok(());
        };
        let Some(event) = stepper.request_opened_event(key, request.clone()) else {
            return Ok(());
        };
        self.journal.stage(event)?;
        self.schedule_expiry(role, &request);
        // Removing the attempt and dropping the reply channel ends the guest and releases its
        // resources. Its result is ignored.
        self.attempts.remove(&key);
        drop(reply);
        Ok(())
    }

    /// Starts a timer for each open request that has a time limit.
    pub(super) fn schedule_expiries(&mut self) {
        let open: Vec<_> = self
            .journal
            .env()
            .open_requests()
            .map(|(role, request)| (role, request.clone()))
            .collect();
        for (role, request) in &open {
            self.schedule_expiry(*role, request);
        }
    }

    fn schedule_expiry(&mut self, role: RoleId, request: &HumanRequest) {
        let Some(end) = request.expires_ms else {
            return;
        };
        let pause = Duration::from_millis(u64::try_from(end.saturating_sub(now_ms())).unwrap_or(0));
        let over = RequestExpiry {
            role,
            request: request.id.clone(),
        };
        self.driver_events.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            DriverEvent::RequestExpired(over)
        }));
    }

    /// Ends a request that has expired, unless it was answered.
    pub(super) fn expire_request(&mut self, over: RequestExpiry) -> Result<(), DriverError> {
        let open = self
            .journal
            .env()
            .open_requests()
            .find(|(role, open)| (*role, &open.id) == (over.role, &over.request));
        let Some((role, request)) = open.map(|(role, request)| (role, request.clone())) else {
            return Ok(());
        };
        if !request.is_expired(now_ms()) {
            // The clock was set back, or this timer belongs to an earlier request with the same id.
            self.schedule_expiry(role, &request);
            return Ok(());
        }
        match self
            .journal
            .stepper()
            .request_answered_event(&request.id, request.outcome_when_expired())
        {
            Some(event) => self.journal.stage(event),
            None => Ok(()),
        }
    }
}
