//! Calls of which it is not known yet whether they are writes: a server says that of its tools, and it may
//! have to be started first.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_core::record::event::Event;
use strata_core::record::work::CallKey;
use strata_services::mcp::ServerNotice;
use strata_services::outbound::Preparation;

use super::batch::PendingCall;

/// The calls that are prepared. Dropping them gives the preparations up.
#[derive(Default)]
pub(super) struct Preparing(FuturesUnordered<BoxFuture<'static, PreparedCall>>);

/// A call that was prepared.
pub(crate) struct PreparedCall {
    pub(super) pending: PendingCall,
    /// What is to be recorded about the servers that it concerned.
    pub(crate) notices: Vec<ServerNotice>,
    pub(super) rejection: Option<String>,
}

/// What becomes of a call that was prepared.
pub(crate) enum PreparedOutcome {
    /// It is made, once this is recorded.
    Made(Option<Event>),
    /// It is not made, for this reason. Its attempt ends.
    Rejected(CallKey, String),
    /// Nobody waits for it any more.
    Abandoned,
}

impl Preparing {
    /// Adds a call.
    pub(super) fn add(
        &mut self,
        pending: PendingCall,
        preparation: BoxFuture<'static, Preparation>,
    ) {
        self.0.push(Box::pin(async move {
            let Preparation { notices, rejection } = preparation.await;
            PreparedCall {
                pending,
                notices,
                rejection,
            }
        }));
    }

    /// Waits for the next call; `None` if none is prepared.
    pub(super) async fn next(&mut self) -> Option<PreparedCall> {
        // Polling an empty set would register a waker for nothing.
        if self.0.is_empty() {
            return None;
        }
        self.0.next().await
    }
}
