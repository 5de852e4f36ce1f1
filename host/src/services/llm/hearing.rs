//! Observing replies while they are written. Observation affects nothing else: a reply is recorded
//! as a whole before an action receives it.

use std::fmt;
use std::sync::Arc;

use strata_core::event::HostCallKind;
use tokio::sync::watch;

use super::Reply;
use super::tokens::Tokens;

/// A change of a reply that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// More text of the reply.
    Text(&'a str),
    /// The text so far is void: the reply broke off, and the request is repeated.
    Again,
}

/// A callback for the events of one reply. It is dropped when no more follow.
pub type Listener = Box<dyn FnMut(Heard<'_>) + Send>;

/// A callback for each call that leaves the host. It receives the name of the role that makes the
/// call and the kind of the call. Returns a listener if the reply of a model is to be observed.
pub type Audience = Arc<dyn Fn(&str, HostCallKind) -> Option<Listener> + Send + Sync>;

/// Whether a request is in flight. A request may have to wait for the rate limit, at first or again
/// after a failure. It costs nothing more while it waits.
#[derive(Clone, Debug, Default)]
pub struct Departure(Arc<watch::Sender<Place>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Away,
    Here { used: Tokens },
}

impl Default for Place {
    fn default() -> Self {
        Self::Here {
            used: Tokens::default(),
        }
    }
}

impl Departure {
    /// Returns the state of a request that has not been sent yet.
    pub fn ahead() -> Self {
        Self::default()
    }

    /// Returns the state of a request that may be sent immediately and never waits again.
    pub fn over() -> Self {
        Self(Arc::new(watch::Sender::new(Place::Away)))
    }

    /// Waits until the request is not in flight, and returns the tokens that it has used until
    /// then.
    pub async fn here(&self) -> Tokens {
        let mut place = self.0.subscribe();
        // The sender cannot be dropped, because `self` holds it.
        match place
            .wait_for(|place| *place != Place::Away)
            .await
            .as_deref()
        {
            Ok(Place::Here { used }) => *used,
            _ => Tokens::default(),
        }
    }
}

/// Observes a call: tracks whether it is in flight, and passes the reply to a listener, if there is
/// one.
#[derive(Default)]
pub struct Hearing {
    departure: Departure,
    listener: Option<Listener>,
    /// Whether the listener has received any text of the reply.
    begun: bool,
}

impl Hearing {
    /// Returns an observer with a listener.
    pub fn by(listener: Listener) -> Self {
        Self {
            listener: Some(listener),
            ..Self::default()
        }
    }

    /// Replaces the dispatch state, so that the caller can wait for it.
    pub fn of(self, departure: Departure) -> Self {
        Self { departure, ..self }
    }

    /// Notes that the request is sent now.
    pub(super) fn departs(&self) {
        self.departure.0.send_replace(Place::Away);
    }

    /// Notes that the request failed and waits to be sent again. It has used these tokens so far.
    pub(super) fn returns(&self, used: Tokens) {
        self.departure.0.send_replace(Place::Here { used });
    }

    /// Returns whether there is a listener.
    pub(super) fn is_wanted(&self) -> bool {
        self.listener.is_some()
    }

    /// Passes more text of the reply to the listener.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(listener) = self.listener.as_mut().filter(|_| !text.is_empty()) {
            self.begun = true;
            listener(Heard::Text(text));
        }
    }

    /// Tells the listener that the request is repeated.
    pub(super) fn again(&mut self) {
        if let Some(listener) = self
            .listener
            .as_mut()
            .filter(|_| std::mem::take(&mut self.begun))
        {
            listener(Heard::Again);
        }
    }

    /// Notes that the reply is complete. Passes its text to the listener if none was passed yet.
    pub(super) fn whole(&mut self, reply: &Reply) {
        if !self.begun {
            self.text(&reply.text);
        }
    }
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hearing")
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
