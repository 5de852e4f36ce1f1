//! The host calls of one attempt: what earlier attempts recorded and was not served yet, how
//! requests are numbered, and the batch that the guest waits for.

use strata_core::record::asking_call::{AskingCall, AskingProgress};
use strata_core::record::event::{AttemptEvent, Event, HostCallBegun};
use strata_core::record::host_call::{
    CallOutcome, ExternalWrite, HostCall, HostCallKind, WriteResult,
};
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_services::gateway::AttemptId;

use super::batch::{CallBatch, PendingCall};
use super::in_flight::InFlight;
use super::request_sequence::{NumberedRequest, RequestSequence, is_answered};

/// The host calls of one attempt.
pub(super) struct AttemptCalls {
    pub(super) attempt: AttemptId,
    /// Recorded host calls that have not been served to this attempt yet.
    recorded: Vec<HostCall>,
    /// The requests of calls that earlier attempts began and that have no recorded answer.
    unanswered_writes: Vec<String>,
    /// The call of earlier attempts whose receiver asked people.
    pub(super) asking_call: Option<AskingCall>,
    /// How many times the attempt has drawn random bytes.
    pub(super) random_draws: u32,
    /// How many times the attempt has asked a person.
    pub(super) human_questions: u32,
    /// Numbers the requests that this attempt makes.
    request_numbers: RequestSequence,
    /// The calls that the guest is waiting for.
    pub(super) batch: Option<CallBatch>,
    pub(super) in_flight: InFlight,
}

impl AttemptCalls {
    /// Creates the calls of an attempt that is served `recorded`, and for which earlier attempts
    /// began the writes `unanswered`.
    pub(super) fn new(
        attempt: AttemptId,
        recorded: Vec<HostCall>,
        unanswered: Vec<String>,
    ) -> Self {
        Self {
            attempt,
            recorded,
            unanswered_writes: unanswered,
            asking_call: None,
            random_draws: 0,
            human_questions: 0,
            request_numbers: RequestSequence::default(),
            batch: None,
            in_flight: InFlight::new(),
        }
    }

    /// Removes and returns the first recorded call of this kind and request.
    pub(super) fn take_recorded(&mut self, kind: HostCallKind, request: &str) -> Option<HostCall> {
        let fits =
            |call: &HostCall| call.kind == kind && call.request == request && is_answered(call);
        let at = self.recorded.iter().position(fits)?;
        Some(self.recorded.remove(at))
    }

    /// Numbers a request among equal ones, and takes the record that answers it, if there is one.
    pub(super) fn number_request(
        &mut self,
        kind: HostCallKind,
        digest: &str,
        is_write: bool,
    ) -> NumberedRequest {
        self.request_numbers
            .number_next(kind, digest, is_write, &mut self.recorded)
    }

    /// Returns the event that a write begins; `None` for other calls, which need no key.
    pub(super) fn begin_write(&mut self, pending: &mut PendingCall) -> Option<Event> {
        let Some(intent) = pending.call.intent(&pending.request_name) else {
            pending.idempotency_key.clear();
            return None;
        };
        self.note_repeated_write(&pending.request_name);
        let asking_call = pending.asking_call.as_ref();
        if asking_call.is_some_and(|asking_call| asking_call.progress == AskingProgress::Open) {
            // It was begun before, and goes on.
            return None;
        }
        let event = AttemptEvent::HostCallBegun(HostCallBegun { intent });
        Some(Event::Attempt(self.attempt.call, event))
    }

    /// Notes that a write whose answer was lost is made again.
    pub(super) fn note_repeated_write(&mut self, request: &str) {
        self.unanswered_writes.retain(|orphan| orphan != request);
    }

    /// Returns the writes of earlier attempts that this attempt, which succeeded, did not make:
    /// their index in `writes` and their descriptions.
    pub(super) fn unclaimed_writes(&self, writes: &[ExternalWrite]) -> Vec<(u32, String)> {
        let mut left: Vec<&str> = self
            .recorded
            .iter()
            .filter(|call| is_answered(call))
            .map(|call| call.request.as_str())
            .collect();
        let mut orphans: Vec<&str> = self.unanswered_writes.iter().map(String::as_str).collect();
        let mut unclaimed = Vec::new();
        for (index, write) in (0..).zip(writes) {
            let among = if write.result == WriteResult::Recorded {
                &mut left
            } else {
                &mut orphans
            };
            if let Some(at) = among
                .iter()
                .position(|request| *request == write.intent.request)
            {
                among.remove(at);
                unclaimed.push((index, write.intent.description.clone()));
            }
        }
        unclaimed
    }
}

/// Returns the record of a call that the host answers itself.
pub(super) fn local_record(kind: HostCallKind, request: &str, response: Json) -> HostCall {
    HostCall {
        kind,
        request: request.to_owned(),
        response,
        cost: Usd::ZERO,
        outcome: CallOutcome::Answered,
        model: None,
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::host_call::{Intent, LostAnswerPolicy};
    use strata_core::record::id::RoleId;

    use super::*;

    fn write(request: &str, result: WriteResult) -> ExternalWrite {
        let intent = Intent {
            kind: HostCallKind::Http,
            request: request.into(),
            description: format!("POST {request}"),
            if_answer_lost: LostAnswerPolicy::AskOperator,
        };
        ExternalWrite { intent, result }
    }

    #[test]
    fn writes_of_earlier_attempts_that_are_not_made_again_are_unclaimed() {
        let attempt = AttemptId::first(RoleId(0));
        let recorded = ["a", "b"].map(|name| local_record(HostCallKind::Http, name, Json::null()));
        let mut calls = AttemptCalls::new(
            attempt,
            recorded.to_vec(),
            vec!["c".to_owned(), "d".to_owned()],
        );
        let writes = [
            write("a", WriteResult::Recorded),
            write("b", WriteResult::Recorded),
            write("c", WriteResult::Unknown),
            write("d", WriteResult::Unknown),
        ];
        let served = calls.number_request(HostCallKind::Http, "a", true);
        assert!(served.recorded.is_some());
        calls.note_repeated_write("d");
        let expected = [(1, "POST b".to_owned()), (2, "POST c".to_owned())];
        assert_eq!(calls.unclaimed_writes(&writes), expected);
    }

    #[test]
    fn a_recorded_answer_is_served_once() {
        let attempt = AttemptId::first(RoleId(0));
        let recorded = vec![local_record(HostCallKind::Clock, "", Json::null())];
        let mut calls = AttemptCalls::new(attempt, recorded, Vec::new());
        assert!(calls.take_recorded(HostCallKind::Random, "").is_none());
        assert!(calls.take_recorded(HostCallKind::Clock, "").is_some());
        assert!(calls.take_recorded(HostCallKind::Clock, "").is_none());
    }
}
