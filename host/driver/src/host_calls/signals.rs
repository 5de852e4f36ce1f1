//! What happens to calls: they return, or it becomes known what they do.

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use strata_base::process::runtime_context::in_context_of;
use strata_core::record::asking_call::AskingCall;
use strata_core::record::event::Event;

use super::preparing::{PreparedCall, PreparedOutcome};
use super::{HostCalls, ReturnedCall};

/// A call that has returned.
#[expect(
    clippy::large_enum_variant,
    reason = "a value exists only until its caller has matched it"
)]
pub(crate) enum CompletedCall {
    /// It was answered, or failed: the event that records it.
    Recorded(Event),
    /// Its receiver asks people. The attempt has asked others `before`.
    Asks { call: AskingCall, before: u32 },
}

/// Something that happened to a call.
pub(crate) enum CallSignal {
    /// It has returned.
    Returned(ReturnedCall),
    /// It is known what it does.
    Prepared(PreparedCall),
}

impl HostCalls {
    /// Waits for the next call to return or to be prepared; `None` if there is none.
    pub(crate) async fn next_signal(&mut self) -> Option<CallSignal> {
        let (sent, preparing) = (&mut self.sent, &mut self.preparing);
        let returned = async {
            // Polling an empty set would register a waker for nothing.
            if sent.is_empty() {
                None
            } else {
                sent.next().await
            }
        };
        tokio::select! {
            biased;
            Some(returned) = returned => Some(CallSignal::Returned(returned)),
            Some(prepared) = preparing.next() => Some(CallSignal::Prepared(prepared)),
            else => None,
        }
    }

    /// Goes on with a call of which it is known what it does. Returns the events to record before
    /// `send_ready`.
    pub(crate) fn go_on(&mut self, prepared: PreparedCall) -> PreparedOutcome {
        let PreparedCall {
            mut pending,
            rejection,
            ..
        } = prepared;
        let id = pending.attempt;
        let attempt = self.attempts.get_mut(&id.call).filter(|calls| {
            let batch = calls.batch.as_ref();
            let waits = batch.is_some_and(|batch| !batch.reply.is_closed());
            calls.attempt == id && waits && !calls.in_flight.is_draining()
        });
        let Some(attempt) = attempt else {
            return PreparedOutcome::Abandoned;
        };
        if let Some(reason) = rejection {
            return PreparedOutcome::Rejected(id.call, reason);
        }
        let event = attempt.begin_write(&mut pending);
        match (&mut attempt.batch, pending.call.is_paid()) {
            (Some(batch), true) => batch.awaiting_budget.push_back(pending),
            _ => self.ready.push(pending),
        }
        PreparedOutcome::Made(event)
    }

    /// Returns `work` in the context of the runtime to which calls belong.
    pub(crate) fn in_runtime<T: 'static>(
        &self,
        work: BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        match &self.runtime {
            Some(runtime) => Box::pin(in_context_of(runtime.clone(), work)),
            None => work,
        }
    }
}
