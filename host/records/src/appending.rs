//! An append, or another change of a run, that was begun: it is done, or it has to be waited for.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use strata_base::process::wait::wait;

use super::{AppendedState, Durability, MailReply, Record, StoreError};

/// What is appended to a run.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The events.
    pub records: &'a [Record],
    /// The replies to requests that became these events. A storage in which requests are kept stores
    /// them together with the events; for others, this has no meaning.
    pub replies: &'a [MailReply],
    /// The state after these events, from which a storage with a list of runs keeps that. Without it, the list does
    /// not know the run any more until the next append.
    pub state: Option<AppendedState<'a>>,
    /// What the events have to survive.
    pub durability: Durability,
    /// What else the owner has to do. It is done with `Appending::finish_beside`.
    pub other_work: OtherWork,
}

/// What an owner has to do besides appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherWork {
    /// Nothing: it waits for the append.
    None,
    /// Something that takes a while, and that can be done while the disk or a server is working.
    Some,
}

impl<'a> Append<'a> {
    /// Returns events that answer nothing, for an owner without other work.
    pub fn new(records: &'a [Record], durability: Durability) -> Self {
        Self {
            records,
            replies: &[],
            state: None,
            durability,
            other_work: OtherWork::None,
        }
    }
}

/// An append that was begun.
pub enum Appending<'a> {
    /// It is done, with this result.
    Done(Result<(), StoreError>),
    /// The events are written, and the disk is working on them. The function waits for the disk. If it
    /// is dropped instead, the lease cannot be used any more.
    Written(Box<dyn FnOnce() -> Result<(), StoreError> + Send + 'a>),
    /// It is done when the future returns. If the future is dropped before, the lease cannot be used
    /// any more.
    Pending(BoxFuture<'a, Result<(), StoreError>>),
}

impl Appending<'_> {
    /// Waits for the end of the append, and calls `meanwhile` once while the disk or a server is working.
    pub async fn finish_beside(self, meanwhile: impl FnOnce()) -> Result<(), StoreError> {
        match self {
            Self::Done(result) => result,
            Self::Written(sync) => {
                meanwhile();
                sync()
            }
            Self::Pending(mut appending) => {
                if let Some(result) = (&mut appending).now_or_never() {
                    return result;
                }
                meanwhile();
                appending.await
            }
        }
    }

    /// Waits for the end of the append.
    pub async fn finish(self) -> Result<(), StoreError> {
        self.finish_beside(|| ()).await
    }

    /// Blocks this thread until the append has ended.
    pub fn finish_blocking(self) -> Result<(), StoreError> {
        wait(self.finish())
    }
}
