//! A tool call of a client: how the client can be asked meanwhile, what it learns of the progress, and when it has
//! given up.

use std::time::Duration;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientResult, ElicitRequest,
    ElicitRequestParams, ElicitResult, JsonObject, ProgressNotificationParam, ProtocolVersion,
    ServerNotification, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use super::Principal;

/// How long runs may take to be saved when the server ends. What is recorded by then is durable.
const SAVE_TIMEOUT: Duration = Duration::from_millis(3500);
/// The maximum length of the name of a tool, in characters.
pub(super) const MAX_TOOL_NAME_CHARS: usize = 128;

/// How a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elicitation {
    /// Not at all.
    None,
    /// By a result that requires input.
    InputRequired,
    /// By a request while its own is open.
    WithinCall,
}

/// A tool call of a client.
pub(super) struct ClientCall<'a> {
    pub(super) principal: Principal,
    pub(super) elicitation: Elicitation,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) closing: &'a CancellationToken,
}

impl Elicitation {
    /// Returns how the client of a request can be asked.
    pub(super) fn of_client(context: &RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities().unwrap_or_default();
        // A capability without modes, as in older revisions, is that for forms.
        let has_forms = capabilities
            .elicitation
            .is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let revision = context.protocol_version();
        let asks_by_result =
            revision.is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28);
        match (has_forms, asks_by_result) {
            (false, _) => Self::None,
            (true, true) => Self::InputRequired,
            (true, false) => Self::WithinCall,
        }
    }
}

impl ClientCall<'_> {
    /// Returns the `_meta` of the request.
    pub(super) fn meta(&self) -> &JsonObject {
        &self.context.meta.0.0
    }

    /// Returns a token that is cancelled with the call.
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.context.ct.clone()
    }

    /// Waits until the client has cancelled the call, or is gone.
    pub(super) async fn cancelled(&self) {
        self.context.ct.cancelled().await;
    }

    /// Returns whether the client has cancelled the call, or is gone.
    pub(super) fn is_cancelled(&self) -> bool {
        self.context.ct.is_cancelled()
    }

    /// Waits until the server has been ending for as long as runs may take to be saved.
    pub(super) async fn overdue(&self) {
        self.closing.cancelled().await;
        tokio::time::sleep(SAVE_TIMEOUT).await;
    }

    /// Waits until the call is cancelled, or the server ends.
    pub(super) async fn cancelled_or_closing(&self) {
        tokio::select! {
            () = self.cancelled() => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// Returns whether the client asked for reports on the progress.
    pub(super) fn wants_progress(&self) -> bool {
        self.context.meta.get_progress_token().is_some()
    }

    /// Reports progress, if the client asked for that. `progress` has to grow.
    pub(super) async fn report_progress(&self, progress: u64, message: String) {
        let Some(token) = self.context.meta.get_progress_token() else {
            return;
        };
        #[allow(clippy::cast_precision_loss, reason = "there are not so many lines")]
        let progress = ProgressNotificationParam::new(token, progress as f64);
        let sent = self
            .context
            .peer
            .notify_progress(progress.with_message(message));
        tokio::select! {
            // A client that is gone, or does not read, misses only this.
            _ = sent => {}
            () = self.cancelled_or_closing() => {}
        }
    }

    /// Asks the client while its call is open. The error says why it cannot be asked.
    pub(super) async fn ask(&self, form: ElicitRequestParams) -> Result<ElicitResult, String> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let options = PeerRequestOptions::no_options();
        let peer = &self.context.peer;
        let failed = |why: &dyn std::fmt::Display| format!("the client cannot be asked: {why}");
        let sent_request = peer.send_cancellable_request(request, options).await;
        let handle = sent_request.map_err(|why| failed(&why))?;
        let id = handle.id.clone();
        tokio::select! {
            biased;
            () = self.cancelled_or_closing() => {
                let params = CancelledNotificationParam::new(Some(id), Some("the call has ended".into()));
                let cancelled = CancelledNotification::new(params);
                let notification = ServerNotification::CancelledNotification(cancelled);
                // The client may be gone.
                let _ = peer.send_notification(notification).await;
                Err("the call has ended before the question was answered".into())
            }
            answered = handle.await_response() => match answered {
                Ok(ClientResult::ElicitResult(result)) => Ok(result),
                Ok(_) => Err(failed(&"its answer is no result of `elicitation/create`")),
                Err(why) => Err(failed(&why)),
            }
        }
    }
}

/// Returns the name that a team has as a tool: what is not allowed in one becomes `_`.
pub fn tool_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = name
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .take(MAX_TOOL_NAME_CHARS)
        .collect();
    if name.is_empty() { "_".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_the_name_of_its_team_as_far_as_the_protocol_allows_it() {
        for (name, expected) in [
            ("press", "press"),
            ("my team (2)", "my_team__2_"),
            ("größe", "gr__e"),
            ("", "_"),
        ] {
            assert_eq!(tool_name(name), expected);
        }
        assert_eq!(tool_name(&"a".repeat(500)).len(), MAX_TOOL_NAME_CHARS);
    }
}
