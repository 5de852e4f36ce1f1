//! The calls in flight on behalf of one attempt, and when they are abandoned.

use tokio::sync::watch;

use strata_services::models::{Charge, DispatchState};

/// Whether a call is waited for after its attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitPolicy {
    /// No: the call can be made again.
    Discardable,
    /// Yes: otherwise money is lost, or the knowledge whether a write took effect.
    MustAwait,
}

/// Why a call was abandoned.
pub(super) enum AbandonReason {
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
    ) -> impl Future<Output = AbandonReason> + Send + 'static {
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
                return AbandonReason::AnswerLost;
            };
            tokio::select! {
                biased;
                used = dispatch_state.wait_until_not_in_flight() => AbandonReason::NotInFlight(used),
                () = sender_dropped(must_await) => AbandonReason::AnswerLost,
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_call_that_can_be_made_again_is_abandoned_when_its_attempt_ends() {
        let mut calls = InFlight::new();
        let abandoned = calls.track(AwaitPolicy::Discardable, DispatchState::dispatched());
        assert!(!calls.must_await() && !calls.is_draining());
        calls.abandon_discardable();
        assert!(calls.is_draining());
        assert!(matches!(
            abandoned.now_or_never(),
            Some(AbandonReason::AnswerLost)
        ));
    }

    #[test]
    fn a_call_that_must_be_awaited_is_abandoned_only_with_its_attempt() {
        let mut calls = InFlight::new();
        let abandoned = calls.track(AwaitPolicy::MustAwait, DispatchState::dispatched());
        let mut abandoned = Box::pin(abandoned);
        calls.abandon_discardable();
        assert!(calls.must_await());
        assert!(abandoned.as_mut().now_or_never().is_none());
        drop(calls);
        assert!(matches!(
            abandoned.now_or_never(),
            Some(AbandonReason::AnswerLost)
        ));
    }

    #[test]
    fn a_call_that_was_not_sent_yet_is_not_awaited() {
        let mut calls = InFlight::new();
        let abandoned = calls.track(AwaitPolicy::MustAwait, DispatchState::not_in_flight());
        calls.abandon_discardable();
        assert!(matches!(
            abandoned.now_or_never(),
            Some(AbandonReason::NotInFlight(used)) if used == Charge::default()
        ));
        calls.complete(AwaitPolicy::MustAwait);
        assert!(!calls.must_await());
    }
}
