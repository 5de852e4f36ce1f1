//! Listening to replies while they are written. Nothing depends on what is heard: a reply is recorded whole before
//! anybody is given it.

use std::fmt;
use std::sync::Arc;

use strata_core::event::HostCallKind;
use tokio::sync::watch;

use super::Reply;
use super::tokens::Tokens;

/// What is heard of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// More of its text.
    Text(&'a str),
    /// What was heard so far does not count: the reply broke off, and is asked for again.
    Again,
}

/// Hears one reply. It is dropped when that is over.
pub type Listener = Box<dyn FnMut(Heard<'_>) + Send>;

/// Is told of each call that leaves the host, by the name of the role that makes it and what it calls. Gives a listener
/// where a model's reply is to be heard while it is written.
pub type Audience = Arc<dyn Fn(&str, HostCallKind) -> Option<Listener> + Send + Sync>;

/// Where a request is. It may have to wait for its turn, at first or after it was refused or its reply broke off, and costs
/// nothing more meanwhile.
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
    /// Of what has not left yet.
    pub fn ahead() -> Self {
        Self::default()
    }

    /// Of what may have left as soon as it is made, and never comes back to wait.
    pub fn over() -> Self {
        Self(Arc::new(watch::Sender::new(Place::Away)))
    }

    /// Waits until it is not away, and gives what it has used up by then.
    pub async fn here(&self) -> Tokens {
        let mut place = self.0.subscribe();
        // It cannot be gone while it is held here.
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

/// What is heard of a call: its departure, and its reply where somebody listens.
#[derive(Default)]
pub struct Hearing {
    departure: Departure,
    listener: Option<Listener>,
    /// Whether anything of the reply was heard.
    begun: bool,
}

impl Hearing {
    /// Somebody listens.
    pub fn by(listener: Listener) -> Self {
        Self {
            listener: Some(listener),
            ..Self::default()
        }
    }

    /// Of a call whose departure is waited for.
    pub fn of(self, departure: Departure) -> Self {
        Self { departure, ..self }
    }

    /// The request leaves now.
    pub(super) fn departs(&self) {
        self.departure.0.send_replace(Place::Away);
    }

    /// The request was refused or its reply broke off, and it waits to be made again. So much is used up.
    pub(super) fn returns(&self, used: Tokens) {
        self.departure.0.send_replace(Place::Here { used });
    }

    /// Whether anybody listens.
    pub(super) fn is_wanted(&self) -> bool {
        self.listener.is_some()
    }

    /// More of the reply's text has come.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(listener) = self.listener.as_mut().filter(|_| !text.is_empty()) {
            self.begun = true;
            listener(Heard::Text(text));
        }
    }

    /// The reply is asked for again.
    pub(super) fn again(&mut self) {
        if let Some(listener) = self
            .listener
            .as_mut()
            .filter(|_| std::mem::take(&mut self.begun))
        {
            listener(Heard::Again);
        }
    }

    /// The reply is there. It is heard now if it came in one piece.
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
