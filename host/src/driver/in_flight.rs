//! The calls in flight on behalf of one attempt, and the answers that it waits for.

use std::collections::VecDeque;

use strata_core::record::host_call::HostCallKind;
use strata_core::record::json::Json;
use tokio::sync::{oneshot, watch};

use super::call::AwaitPolicy;
use crate::gateway::{Allowance, HostAnswer, HostError, HostErrorKind, recorded_answer_bytes};
use crate::services::http;
use crate::services::models::{Charge, DispatchState, ModelCall};

/// The answer to a call as it is recorded, or why there is none.
pub(super) type CallAnswer = Result<Json, HostError>;

/// Calls that a guest makes at once.
pub(super) struct CallBatch {
    pub(super) kind: HostCallKind,
    /// The answers, in the order of the calls; `None` if the call is in flight or waits.
    pub(super) answers: Vec<Option<CallAnswer>>,
    /// Calls that are made as soon as the budget allows it.
    pub(super) awaiting_budget: VecDeque<CallAwaitingBudget>,
    /// How many bytes the answers may still have.
    pub(super) allowance: Allowance,
    pub(super) reply: oneshot::Sender<HostAnswer>,
}

/// A call to a model that has not been made yet.
pub(super) struct CallAwaitingBudget {
    /// Its index in the batch.
    pub(super) nth: usize,
    /// The name of the request in the record.
    pub(super) request_name: String,
    pub(super) call: ModelCall,
}

impl CallBatch {
    /// Returns whether calls of this batch are in flight.
    pub(super) fn has_calls_in_flight(&self) -> bool {
        self.answers
            .iter()
            .filter(|answer| answer.is_none())
            .count()
            > self.awaiting_budget.len()
    }

    /// Returns whether every call has an answer.
    pub(super) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Deducts the sizes of the recorded answers from the allowance.
    pub(super) fn deduct_recorded_bytes(&self) {
        for recorded in self.answers.iter().flatten().flatten() {
            // An error means that the allowance is used up already.
            let _ = self
                .allowance
                .take(recorded_answer_bytes(self.kind, recorded));
        }
    }

    /// Sends the answers to the guest. Recorded and new answers are converted in the same way.
    pub(super) fn answer(self) {
        let answer = match self.kind {
            HostCallKind::Http => HostAnswer::Responses(decode_answers(self.answers, |json| {
                http::HttpResponse::from_json(&json)
            })),
            _ => HostAnswer::Replies(decode_answers(self.answers, |json| {
                serde_json::from_value(json.value()).map_err(|error| error.to_string())
            })),
        };
        // It is no error if the guest is gone.
        let _ = self.reply.send(answer);
    }
}

fn decode_answers<T>(
    answers: Vec<Option<CallAnswer>>,
    read: impl Fn(Json) -> Result<T, String>,
) -> Vec<Result<T, HostError>> {
    let lost = || {
        Err(HostError::new(
            HostErrorKind::Upstream,
            "the call was not answered",
        ))
    };
    let unreadable = |why| {
        HostError::new(
            HostErrorKind::Upstream,
            format!("cannot read the recorded answer: {why}"),
        )
    };
    let one = |answer: Option<CallAnswer>| {
        answer
            .unwrap_or_else(lost)
            .and_then(|json| read(json).map_err(unreadable))
    };
    answers.into_iter().map(one).collect()
}

/// Why a call was abandoned.
pub(super) enum Abandoned {
    /// It was not in flight: the attempt ended while the request waited to be sent or retried. The
    /// charge is for earlier tries.
    NotInFlight(Charge),
    /// It may have been made, and its answer is lost.
    AnswerLost,
}

/// Waits until the sender is dropped. No value is ever sent.
async fn sender_dropped(mut receiver: watch::Receiver<()>) {
    let _ = receiver.changed().await;
}

/// The calls in flight of one attempt. Dropping a sender abandons the calls that hold its receiver.
pub(super) struct InFlight {
    discardable: Option<watch::Sender<()>>,
    must_await: watch::Sender<()>,
    must_await_count: u32,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self {
            discardable: Some(watch::Sender::new(())),
            must_await: watch::Sender::new(()),
            must_await_count: 0,
        }
    }

    /// Counts a call that is made. The returned future completes when the call must be abandoned: a
    /// call that must be awaited only while it has not been sent, or when the attempt is gone.
    pub(super) fn track(
        &mut self,
        await_policy: AwaitPolicy,
        dispatch_state: DispatchState,
    ) -> impl Future<Output = Abandoned> + Send + 'static {
        let discardable = self.discardable.as_ref().map(watch::Sender::subscribe);
        let must_await = (await_policy == AwaitPolicy::MustAwait).then(|| {
            self.must_await_count += 1;
            self.must_await.subscribe()
        });
        async move {
            if let Some(discardable) = discardable {
                sender_dropped(discardable).await;
            }
            let Some(must_await) = must_await else {
                return Abandoned::AnswerLost;
            };
            tokio::select! {
                biased;
                used = dispatch_state.wait_until_not_in_flight() => Abandoned::NotInFlight(used),
                () = sender_dropped(must_await) => Abandoned::AnswerLost,
            }
        }
    }

    /// Counts a call that has returned.
    pub(super) fn complete(&mut self, await_policy: AwaitPolicy) {
        if await_policy == AwaitPolicy::MustAwait {
            self.must_await_count -= 1;
        }
    }

    /// Abandons calls whose answers may be lost, and those that have not been sent yet.
    pub(super) fn abandon_discardable(&mut self) {
        self.discardable = None;
    }

    /// Returns whether `abandon_discardable` was called: the attempt has ended or is being stopped,
    /// and no further call may be made.
    pub(super) fn is_draining(&self) -> bool {
        self.discardable.is_none()
    }

    /// Returns whether calls are in flight whose answers must not be lost.
    pub(super) fn must_await(&self) -> bool {
        self.must_await_count > 0
    }
}
