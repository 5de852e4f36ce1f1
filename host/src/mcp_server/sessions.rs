//! The sessions of clients with older revisions: how many there may be, and whose each of them is. What a session
//! receives and answers is for the client that opened it, so its id is of no use to others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

use super::Principal;

/// How many sessions there may be, and how many of one client. Each has tasks of its own, for five minutes after
/// its last request.
const MAX_SESSIONS: usize = 256;
const MAX_CLIENT_SESSIONS: usize = 128;

tokio::task_local! {
    /// Who makes the request that a task answers. The library does not pass it on.
    pub(super) static REQUEST_CLIENT: RequestClient;
}

/// Who makes a request.
#[derive(Clone)]
pub(super) struct RequestClient {
    pub(super) principal: Option<Principal>,
    /// Whether a session was refused because there are too many.
    pub(super) is_refused: Arc<AtomicBool>,
}

/// The sessions of clients with older revisions, up to a maximum number.
#[derive(Default)]
pub(super) struct BoundedSessions {
    sessions: LocalSessionManager,
    /// Whose the sessions are, by id. Those that have ended are removed when a new one begins.
    owners: Mutex<BTreeMap<SessionId, Option<Principal>>>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionProblem {
    #[error(
        "at most {MAX_SESSIONS} sessions are open, and {MAX_CLIENT_SESSIONS} of one client; close one, or try again later"
    )]
    TooMany,
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

impl BoundedSessions {
    fn owners(&self) -> MutexGuard<'_, BTreeMap<SessionId, Option<Principal>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a session is one of the client that makes the request. Outside of requests, the library itself
    /// uses sessions.
    fn is_of_client(&self, id: &SessionId) -> bool {
        let owner = self.owners().get(id).cloned();
        let Ok(client) = REQUEST_CLIENT.try_with(|client| client.principal.clone()) else {
            return true;
        };
        owner == Some(client)
    }
}

impl SessionManager for BoundedSessions {
    type Error = SessionProblem;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionProblem> {
        let client = REQUEST_CLIENT.try_with(Clone::clone).ok();
        let principal = client.as_ref().and_then(|client| client.principal.clone());
        let open = self.sessions.sessions.read().await;
        let (all, own) = {
            let mut owners = self.owners();
            owners.retain(|id, _| open.contains_key(id));
            let own = owners.values().filter(|owner| **owner == principal);
            (open.len(), own.count())
        };
        drop(open);
        if all >= MAX_SESSIONS || own >= MAX_CLIENT_SESSIONS {
            if let Some(client) = client {
                client.is_refused.store(true, Ordering::Relaxed);
            }
            return Err(SessionProblem::TooMany);
        }
        let (id, transport) = self.sessions.create_session().await?;
        self.owners().insert(id.clone(), principal);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionProblem> {
        Ok(self.sessions.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionProblem> {
        // That of another client is as unknown as one that does not exist.
        Ok(self.is_of_client(id) && self.sessions.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionProblem> {
        if self.is_of_client(id) {
            Ok(self.sessions.close_session(id).await?)
        } else {
            Ok(())
        }
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.sessions.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionProblem> {
        Ok(self.sessions.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.sessions.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.sessions.resume(id, last_event_id).await?)
    }
}
