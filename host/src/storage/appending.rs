//! An append, or another change of a run, that was begun: it is done, or it has to be waited for.

use futures_util::future::BoxFuture;

use super::{Durability, MailReply, Record, StoreError};
use crate::wait::wait;

/// What is appended to a run.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The events.
    pub records: &'a [Record],
    /// The replies to requests that became these events. A storage in which requests are kept stores
    /// them together with the events; for others, this has no meaning.
    pub replies: &'a [MailReply],
    /// What the events have to survive.
    pub durability: Durability,
}

impl<'a> Append<'a> {
    /// Returns events that answer nothing.
    pub fn new(records: &'a [Record], durability: Durability) -> Self {
        Self {
            records,
            replies: &[],
            durability,
        }
    }
}

/// An append that was begun.
pub enum Appending<'a> {
    /// It is done, with this result.
    Done(Result<(), StoreError>),
    /// It is done when the future returns. If the future is dropped before, the lease cannot be used
    /// any more.
    Pending(BoxFuture<'a, Result<(), StoreError>>),
}

impl Appending<'_> {
    /// Waits for the end of the append.
    pub async fn finish(self) -> Result<(), StoreError> {
        match self {
            Self::Done(result) => result,
            Self::Pending(appending) => appending.await,
        }
    }

    /// Does the same and blocks this thread meanwhile.
    pub fn finish_blocking(self) -> Result<(), StoreError> {
        match self {
            Self::Done(result) => result,
            Self::Pending(appending) => wait(appending),
        }
    }
}
