//! What turns ask MCP servers about their tools: the lists, for the first turn of an activation, and whether tools
//! are still what the model was told. A server may have to be started first.

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use strata_services::gateway::{AttemptId, HostAnswer};
use strata_services::mcp::ServerNotice;
use tokio::sync::oneshot;

/// The listings in progress. Dropping them gives them up.
#[derive(Default)]
pub(super) struct ToolListings(FuturesUnordered<BoxFuture<'static, FinishedListing>>);

/// A listing that has ended.
pub(super) struct FinishedListing {
    /// The turn that waits for it.
    pub(super) attempt: AttemptId,
    pub(super) answer: HostAnswer,
    /// What is to be recorded about the servers.
    pub(super) notices: Vec<ServerNotice>,
    pub(super) reply: oneshot::Sender<HostAnswer>,
}

impl ToolListings {
    /// Gives all listings up.
    pub(super) fn clear(&mut self) {
        self.0 = FuturesUnordered::new();
    }

    /// Adds a listing.
    pub(super) fn add(
        &mut self,
        attempt: AttemptId,
        listing: BoxFuture<'static, (HostAnswer, Vec<ServerNotice>)>,
        reply: oneshot::Sender<HostAnswer>,
    ) {
        self.0.push(Box::pin(async move {
            let (answer, notices) = listing.await;
            FinishedListing {
                attempt,
                answer,
                notices,
                reply,
            }
        }));
    }

    /// Waits for the next listing to end; `None` if there is none.
    pub(super) async fn next(&mut self) -> Option<FinishedListing> {
        // Polling an empty set would register a waker for nothing.
        if self.0.is_empty() {
            return None;
        }
        self.0.next().await
    }
}
