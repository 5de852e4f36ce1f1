//! Observing replies while they are written. Observation affects nothing else: a reply is recorded
//! as a whole before an action receives it.

use std::fmt;
use std::sync::Arc;

use strata_core::record::host_call::HostCallKind;
use tokio::sync::watch;

use super::{Charge, ModelReply};

/// A change of a reply that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    /// More text of the reply.
    Text(&'a str),
    /// The text so far is void: the reply broke off, and the request is repeated.
    Restarted,
}

/// A callback for the events of one reply. It is dropped when no more follow.
pub type StreamListener = Box<dyn FnMut(StreamEvent<'_>) + Send>;

/// A call that leaves the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedCall<'a> {
    /// The name of the role that makes it.
    pub role: &'a str,
    /// Its kind.
    pub kind: HostCallKind,
    /// Which reply of a model of a tools role it asks for, or belongs to.
    pub turn: Option<u32>,
    /// Which attempt makes it, from 1.
    pub attempt: u32,
}

/// A callback for each call that leaves the host. Returns a listener if the reply of a model is to be observed.
pub type StreamObserverFactory =
    Arc<dyn Fn(ObservedCall<'_>) -> Option<StreamListener> + Send + Sync>;

/// Whether a request is in flight. A request may have to wait for the rate limit, at first or again
/// after a failure. It costs nothing more while it waits.
#[derive(Clone, Debug, Default)]
pub struct DispatchState(Arc<watch::Sender<DispatchPhase>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DispatchPhase {
    InFlight,
    NotInFlight { used: Charge },
}

impl Default for DispatchPhase {
    fn default() -> Self {
        Self::NotInFlight {
            used: Charge::default(),
        }
    }
}

impl DispatchState {
    /// Returns the state of a request that has not been sent yet.
    pub fn not_in_flight() -> Self {
        Self::default()
    }

    /// Returns the state of a request that may be sent immediately and never waits again.
    pub fn dispatched() -> Self {
        Self(Arc::new(watch::Sender::new(DispatchPhase::InFlight)))
    }

    /// Waits until the request is not in flight, and returns what it has used until
    /// then.
    pub async fn wait_until_not_in_flight(&self) -> Charge {
        let mut phase = self.0.subscribe();
        // The sender cannot be dropped, because `self` holds it.
        match phase
            .wait_for(|phase| *phase != DispatchPhase::InFlight)
            .await
            .as_deref()
        {
            Ok(DispatchPhase::NotInFlight { used }) => *used,
            _ => Charge::default(),
        }
    }
}

/// Observes a call: tracks whether it is in flight, and passes the reply to a listener, if there is
/// one.
#[derive(Default)]
pub struct StreamObserver {
    dispatch_state: DispatchState,
    listener: Option<StreamListener>,
    /// Whether the listener has received any text of the reply.
    has_text: bool,
}

impl StreamObserver {
    /// Returns an observer with a listener.
    pub fn with_listener(listener: StreamListener) -> Self {
        Self {
            listener: Some(listener),
            ..Self::default()
        }
    }

    /// Replaces the dispatch state, so that the caller can wait for it.
    pub fn with_dispatch_state(self, dispatch_state: DispatchState) -> Self {
        Self {
            dispatch_state,
            ..self
        }
    }

    /// Notes that the request is sent now.
    pub(super) fn dispatched(&self) {
        self.dispatch_state.0.send_replace(DispatchPhase::InFlight);
    }

    /// Notes that the request failed and waits to be sent again. It has used this much so far.
    pub(super) fn waits_again(&self, used: Charge) {
        self.dispatch_state
            .0
            .send_replace(DispatchPhase::NotInFlight { used });
    }

    /// Returns whether there is a listener.
    pub(super) fn has_listener(&self) -> bool {
        self.listener.is_some()
    }

    /// Passes more text of the reply to the listener.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(listener) = self.listener.as_mut().filter(|_| !text.is_empty()) {
            self.has_text = true;
            listener(StreamEvent::Text(text));
        }
    }

    /// Tells the listener that the request is repeated.
    pub(super) fn restarted(&mut self) {
        if let Some(listener) = self
            .listener
            .as_mut()
            .filter(|_| std::mem::take(&mut self.has_text))
        {
            listener(StreamEvent::Restarted);
        }
    }

    /// Notes that the reply is complete. Passes its text to the listener if none was passed yet.
    pub(super) fn completed(&mut self, reply: &ModelReply) {
        if !self.has_text {
            self.text(&reply.text());
        }
    }
}

impl fmt::Debug for StreamObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamObserver")
            .field("begun", &self.has_text)
            .finish_non_exhaustive()
    }
}
