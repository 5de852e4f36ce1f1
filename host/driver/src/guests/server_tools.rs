//! What the running guests ask MCP servers: calls that are prepared first, because a server says whether they
//! are writes, and lists of tools.

use futures_util::FutureExt;
use strata_core::record::event::{AttemptEvent, CallRevised, Event, ToolsListed};
use strata_core::record::turn::CallRevision;
use strata_services::gateway::{AttemptId, HostAnswer, ServerRequest};
use tokio::sync::oneshot;

use super::Guests;
use crate::host_calls::{CallSignal, PreparedOutcome};
use crate::tool_listings::FinishedListing;
use crate::{DriverError, Journal};

impl Guests {
    /// Records a call that has returned, or goes on with one of which it is known now whether it is a
    /// write.
    pub(crate) async fn handle_call(
        &mut self,
        signal: CallSignal,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let prepared = match signal {
            CallSignal::Returned(returned) => return self.record_returned(returned, journal).await,
            CallSignal::Prepared(prepared) => prepared,
        };
        for notice in &prepared.notices {
            journal.stage(notice.clone().into())?;
        }
        match self.calls.go_on(prepared) {
            PreparedOutcome::Made(event) => {
                if let Some(event) = event {
                    journal.stage(event)?;
                }
                self.make_calls(journal).await?;
            }
            PreparedOutcome::Rejected(call, reason) => {
                let revision = CallRevision::Reject(reason);
                let revised = AttemptEvent::CallRevised(CallRevised { revision });
                journal.stage(Event::Attempt(call, revised))?;
                self.forget(call);
            }
            PreparedOutcome::Abandoned => {}
        }
        Ok(())
    }

    /// Records the lists of tools that the first turn of an activation waits for.
    pub(crate) fn handle_listing(
        &mut self,
        listed: FinishedListing,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let FinishedListing {
            attempt,
            answer,
            notices,
            reply,
        } = listed;
        for notice in notices {
            journal.stage(notice.into())?;
        }
        if !self.attempts.is_running(attempt) || reply.is_closed() {
            return Ok(());
        }
        if let HostAnswer::ToolLists(Ok(lists)) = &answer {
            let lists = lists.clone();
            let listed = AttemptEvent::ToolsListed(ToolsListed { lists });
            journal.stage(Event::Attempt(attempt.call, listed))?;
        }
        // It is no error if nobody waits any more.
        let _ = reply.send(answer);
        Ok(())
    }

    /// Returns whether an MCP server asks a person within a call that it still works on.
    pub(crate) fn has_asking_servers(&self) -> bool {
        let servers = self.services.mcp.as_ref();
        servers.is_some_and(|servers| servers.has_asking_calls())
    }

    /// Ends the MCP servers of the run.
    pub(crate) async fn close_servers(&mut self) {
        if let Some(servers) = &self.services.mcp {
            let servers = servers.clone();
            self.calls
                .in_runtime(Box::pin(async move { servers.close().await }))
                .await;
        }
    }

    /// Asks servers about their tools, for a turn.
    pub(super) fn ask_servers(
        &mut self,
        id: AttemptId,
        request: ServerRequest,
        reply: oneshot::Sender<HostAnswer>,
    ) {
        let servers = self.services.mcp.clone().unwrap_or_default();
        let asking = match request {
            ServerRequest::List { grants, taken } => servers
                .list(grants, taken)
                .map(|(lists, notices)| (HostAnswer::ToolLists(lists), notices))
                .boxed(),
            ServerRequest::Compare(offered) => servers
                .compare(offered)
                .map(|(changed, notices)| (HostAnswer::ChangedTools(changed), notices))
                .boxed(),
        };
        self.listings.add(id, self.calls.in_runtime(asking), reply);
    }
}
