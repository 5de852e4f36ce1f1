//! The calls in flight on behalf of one attempt, and the answers that it waits for.

use std::collections::VecDeque;

use strata_core::event::HostCallKind;
use strata_core::json::Json;
use tokio::sync::{oneshot, watch};

use super::call::Weight;
use crate::gateway::{Allowance, Answer, HostError, HostErrorKind, of_recorded};
use crate::services::http;
use crate::services::llm::{self, Departure, Tokens};

/// The answer to a call as it is recorded, or why there is none.
pub(super) type Given = Result<Json, HostError>;

/// Calls that a guest makes at once.
pub(super) struct Batch {
    pub(super) kind: HostCallKind,
    /// The answers, in the order of the calls; `None` if the call is in flight or waits.
    pub(super) answers: Vec<Option<Given>>,
    /// Calls that are made as soon as the budget allows it.
    pub(super) waiting: VecDeque<Waiting>,
    /// How many bytes the answers may still have.
    pub(super) allowance: Allowance,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// A call to a model that has not been made yet.
pub(super) struct Waiting {
    /// Its index in the batch.
    pub(super) nth: usize,
    /// The name of the request in the record.
    pub(super) request: String,
    pub(super) call: llm::Request,
}

impl Batch {
    /// Returns whether calls of this batch are in flight.
    pub(super) fn is_away(&self) -> bool {
        self.answers
            .iter()
            .filter(|answer| answer.is_none())
            .count()
            > self.waiting.len()
    }

    /// Returns whether every call has an answer.
    pub(super) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Counts the recorded answers against the allowance.
    pub(super) fn use_up(&self) {
        for recorded in self.answers.iter().flatten().flatten() {
            // An error means that the allowance is used up already.
            let _ = self.allowance.take(of_recorded(self.kind, recorded));
        }
    }

    /// Sends the answers to the guest. Recorded and new answers are converted in the same way.
    pub(super) fn answer(self) {
        let answer = match self.kind {
            HostCallKind::Http => {
                Answer::Responses(told(self.answers, |json| http::Response::from_json(&json)))
            }
            _ => Answer::Replies(told(self.answers, |json| {
                serde_json::from_value(json.value()).map_err(|error| error.to_string())
            })),
        };
        // It is no error if the guest is gone.
        let _ = self.reply.send(answer);
    }
}

fn told<T>(
    answers: Vec<Option<Given>>,
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
    let one = |answer: Option<Given>| {
        answer
            .unwrap_or_else(lost)
            .and_then(|json| read(json).map_err(unreadable))
    };
    answers.into_iter().map(one).collect()
}

/// Why a call was abandoned.
pub(super) enum GivenUp {
    /// It was not sent, and nothing is in flight. The tokens were used by earlier tries.
    Unsent(Tokens),
    /// It may have been made, and its answer is lost.
    Unheard,
}

/// Waits until the sender is dropped. No value is ever sent.
async fn gone(mut held: watch::Receiver<()>) {
    let _ = held.changed().await;
}

/// The calls in flight of one attempt. Dropping a sender abandons the calls that hold its receiver.
pub(super) struct Flights {
    light: Option<watch::Sender<()>>,
    heavy: watch::Sender<()>,
    heavy_count: u32,
}

impl Flights {
    pub(super) fn new() -> Self {
        Self {
            light: Some(watch::Sender::new(())),
            heavy: watch::Sender::new(()),
            heavy_count: 0,
        }
    }

    /// Counts a call that is made. The returned future completes when the call must be abandoned: a
    /// call that must be awaited only while it has not been sent, or when the attempt is gone.
    pub(super) fn take_off(
        &mut self,
        weight: Weight,
        departure: Departure,
    ) -> impl Future<Output = GivenUp> + Send + 'static {
        let light = self.light.as_ref().map(watch::Sender::subscribe);
        let heavy = (weight == Weight::Heavy).then(|| {
            self.heavy_count += 1;
            self.heavy.subscribe()
        });
        async move {
            if let Some(light) = light {
                gone(light).await;
            }
            let Some(heavy) = heavy else {
                return GivenUp::Unheard;
            };
            tokio::select! {
                biased;
                used = departure.here() => GivenUp::Unsent(used),
                () = gone(heavy) => GivenUp::Unheard,
            }
        }
    }

    /// Counts a call that has returned.
    pub(super) fn land(&mut self, weight: Weight) {
        if weight == Weight::Heavy {
            self.heavy_count -= 1;
        }
    }

    /// Abandons calls whose answers may be lost, and those that have not been sent yet.
    pub(super) fn lighten(&mut self) {
        self.light = None;
    }

    /// Returns whether `lighten` was called: the attempt has ended or is being stopped, and no
    /// further call may be made.
    pub(super) fn are_last(&self) -> bool {
        self.light.is_none()
    }

    /// Returns whether calls are in flight whose answers must not be lost.
    pub(super) fn is_heavy(&self) -> bool {
        self.heavy_count > 0
    }
}
