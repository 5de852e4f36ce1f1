//! Calls under way on behalf of one attempt, and the answers that it waits for.

use std::collections::VecDeque;

use strata_core::event::HostCallKind;
use strata_core::json::Json;
use tokio::sync::{oneshot, watch};

use super::call::Weight;
use crate::gateway::{Allowance, Answer, HostError, HostErrorKind, of_recorded};
use crate::services::http;
use crate::services::llm::{self, Departure, Tokens};

/// What a guest is told of a call: the answer as it is recorded, or why there is none.
pub(super) type Given = Result<Json, HostError>;

/// Calls that a guest makes together.
pub(super) struct Batch {
    pub(super) kind: HostCallKind,
    /// In the order of the calls; none where the answer is under way, or the call waits.
    pub(super) answers: Vec<Option<Given>>,
    /// Those that are yet to be made, once there is enough to spend.
    pub(super) waiting: VecDeque<Waiting>,
    /// What those under way may bring.
    pub(super) allowance: Allowance,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// A call to a model that is yet to be made.
pub(super) struct Waiting {
    /// Its place among those that are made together.
    pub(super) nth: usize,
    /// What it is called in the record.
    pub(super) request: String,
    pub(super) call: llm::Request,
}

impl Batch {
    /// Whether some of them are away from the host.
    pub(super) fn is_away(&self) -> bool {
        self.answers
            .iter()
            .filter(|answer| answer.is_none())
            .count()
            > self.waiting.len()
    }

    /// Whether all answers are there.
    pub(super) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// Sees to it that what is recorded counts with what is under way.
    pub(super) fn use_up(&self) {
        for recorded in self.answers.iter().flatten().flatten() {
            // Where it was too much already, nothing more is taken.
            let _ = self.allowance.take(of_recorded(self.kind, recorded));
        }
    }

    /// Tells the guest. What is recorded and what was just made is told in the same way.
    pub(super) fn answer(self) {
        let answer = match self.kind {
            HostCallKind::Http => {
                Answer::Responses(told(self.answers, |json| http::Response::from_json(&json)))
            }
            _ => Answer::Replies(told(self.answers, |json| {
                serde_json::from_value(json.value()).map_err(|error| error.to_string())
            })),
        };
        // A guest that is gone does not listen any more; that is no error.
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

/// How a call was given up.
pub(super) enum GivenUp {
    /// While it waited for its turn: nothing is away from the host. So much was used up before.
    Unsent(Tokens),
    /// It may have been made, and nobody hears of it.
    Unheard,
}

/// Nothing is ever sent: it changes when the other end is gone.
async fn gone(mut held: watch::Receiver<()>) {
    drop(held.changed().await);
}

/// Calls under way. They are given up when the end that is held here is dropped.
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

    /// A call is made. The future ends when it is to be given up: one of weight only while it is not away, or when nobody
    /// waits for it any more.
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

    /// A call came back.
    pub(super) fn land(&mut self, weight: Weight) {
        if weight == Weight::Heavy {
            self.heavy_count -= 1;
        }
    }

    /// Gives up those with which nothing is lost: also of weight, while they wait for their turn.
    pub(super) fn lighten(&mut self) {
        self.light = None;
    }

    /// Whether that was done: the attempt has ended or is being stopped, and nothing more leaves.
    pub(super) fn are_last(&self) -> bool {
        self.light.is_none()
    }

    /// Whether answers of weight are under way.
    pub(super) fn is_heavy(&self) -> bool {
        self.heavy_count > 0
    }
}
