//! An append, or another change of a run, that was begun: it is done, or it has to be waited for.

use futures_util::future::BoxFuture;

use super::StoreError;
use crate::wait::wait;

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
