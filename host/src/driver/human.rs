//! Requests to people: an attempt that asks a person ends, and its request stays open until it is
//! answered or expires.

use std::time::Duration;

use strata_core::event::{Event, HostCallKind, Source};
use strata_core::id::{RequestId, RoleId};
use strata_core::request::{Answer as Answered, Request};
use tokio::sync::oneshot;

use super::call::told;
use super::clock::now_ms;
use super::{Arrived, Driver, DriverError};
use crate::gateway::Answer;
use crate::services::human::Question;

/// A request has reached its time limit.
pub(super) struct Over {
    role: RoleId,
    request: RequestId,
}

impl Driver {
    /// Asks a person, unless the answer is recorded.
    pub(super) fn consult(
        &mut self,
        role: RoleId,
        question: &Question,
        reply: oneshot::Sender<Answer>,
    ) -> Result<(), DriverError> {
        let Some(attempt) = self.attempts.get_mut(&role) else {
            return Ok(());
        };
        let before = attempt.consulted;
        attempt.consulted += 1;
        let recorded = attempt.recall(HostCallKind::Human, &question.digest());
        let read = |call: &strata_core::event::HostCall| Answered::recorded(&call.response);
        if let Some((call, answered)) =
            recorded.and_then(|call| read(&call).map(|answered| (call, answered)))
        {
            let work = attempt.work();
            let what = told(&question.text);
            self.journal.stage(Event::HostCalled {
                role,
                work,
                call,
                source: Source::Recorded,
                what,
            })?;
            self.journal.flush()?;
            let _ = reply.send(Answer::Person(answered));
            return Ok(());
        }
        let stepper = self.journal.stepper();
        // The sandbox has validated the question; validating it again here would block the driver.
        let request = stepper
            .request_id(role, before)
            .and_then(|id| question.request(id, now_ms()).ok());
        let Some(request) = request else {
            return Ok(());
        };
        let Some(event) = stepper.request_opened(role, request.clone()) else {
            return Ok(());
        };
        self.journal.stage(event)?;
        self.await_end(role, &request);
        // Removing the attempt and dropping the reply channel ends the guest and releases its
        // resources. Its result is ignored.
        self.attempts.remove(&role);
        drop(reply);
        Ok(())
    }

    /// Starts a timer for each open request that has a time limit.
    pub(super) fn await_ends(&mut self) {
        let open: Vec<_> = self
            .journal
            .env()
            .requests()
            .map(|(role, request)| (role, request.clone()))
            .collect();
        for (role, request) in &open {
            self.await_end(*role, request);
        }
    }

    fn await_end(&mut self, role: RoleId, request: &Request) {
        let Some(end) = request.expires_ms else {
            return;
        };
        let pause = Duration::from_millis(u64::try_from(end.saturating_sub(now_ms())).unwrap_or(0));
        let over = Over {
            role,
            request: request.id.clone(),
        };
        self.arrivals.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            Arrived::Over(over)
        }));
    }

    /// Ends a request that has expired, unless it was answered.
    pub(super) fn over(&mut self, over: Over) -> Result<(), DriverError> {
        let open = self
            .journal
            .env()
            .requests()
            .find(|(role, open)| (*role, &open.id) == (over.role, &over.request));
        let Some((role, request)) = open.map(|(role, request)| (role, request.clone())) else {
            return Ok(());
        };
        if !request.is_over(now_ms()) {
            // The clock was set back, or this timer belongs to an earlier request with the same id.
            self.await_end(role, &request);
            return Ok(());
        }
        match self
            .journal
            .stepper()
            .request_answered(role, request.lapse())
        {
            Some(event) => self.journal.stage(event),
            None => Ok(()),
        }
    }
}
