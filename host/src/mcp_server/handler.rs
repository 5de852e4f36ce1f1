//! The requests of clients: which revisions of the protocol are spoken, and what each method returns.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelledNotification,
    CancelledNotificationParam, ClientResult, CustomRequest, CustomResult, DiscoverResult,
    ElicitRequest, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ServerCapabilities, ServerConfig, ServerNotification, ServerRequest, Tool,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use serde_json::Value;
use strata_base::text::excerpt::excerpt;
use strata_driver::telemetry::{SPANS, names, served_span};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::arguments::invalid;
use super::result::error;
use super::{MAX_CALLS, Offer, Principal, Tools};

/// The revisions that are spoken, oldest first.
pub(super) const REVISIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];
/// How long a client may take lists for current, in milliseconds. They do not change while the server
/// runs.
const LIST_TTL_MS: u64 = 300_000;
/// How long runs may take to be saved when the server ends. What is recorded by then is durable.
const SAVE_TIMEOUT: Duration = Duration::from_millis(3500);
/// The maximum length of the name of a tool, in characters.
const MAX_TOOL_NAME_CHARS: usize = 128;
/// The methods whose parameters are known. A request with other parameters does not match any of the
/// library's types.
const KNOWN_METHODS: &[&str] = &[INITIALIZE, "server/discover", "tools/call", "tools/list"];
/// The method that the newest revision does not have any more.
const INITIALIZE: &str = "initialize";

/// The handler of the requests of one client, or of all clients that have the same principal.
#[derive(Clone)]
pub(super) struct Handler {
    offer: Offer,
    /// `None` if the connection says who it is with each request.
    principal: Option<Principal>,
    calls: Arc<Semaphore>,
}

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
pub(super) struct ToolCall<'a> {
    pub(super) principal: Principal,
    pub(super) elicitation: Elicitation,
    context: &'a RequestContext<RoleServer>,
    closing: &'a CancellationToken,
}

impl Handler {
    pub(super) fn new(offer: Offer, principal: Option<Principal>) -> Self {
        Self {
            offer,
            principal,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools: Vec<Tool> = match self.offer.tools.as_ref() {
            Tools::Team(team) => vec![team.tool().clone()],
            Tools::Components(components) => {
                let tools = components.iter().map(|component| component.tool().clone());
                tools.collect()
            }
        };
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    /// Returns who made a request.
    fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        if let Some(principal) = &self.principal {
            return Ok(principal.clone());
        }
        let parts = context.extensions.get::<http::request::Parts>();
        let named = parts.and_then(|parts| parts.extensions.get::<Principal>());
        named
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("it is not known who made the request", None))
    }

    /// Carries out a call of a tool.
    async fn carry_out(
        &self,
        request: CallToolRequestParams,
        call: &ToolCall<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.offer.tools.as_ref() {
            Tools::Team(team) if team.tool().name == request.name => {
                team.call(&request, call).await
            }
            Tools::Team(_) => Err(unknown_tool(&request.name)),
            Tools::Components(components) => {
                let named = components
                    .iter()
                    .find(|component| component.tool().name == request.name);
                let component = named.ok_or_else(|| unknown_tool(&request.name))?;
                Ok(component.call(request.arguments, call).await.into())
            }
        }
    }

    /// Opens the span of a call, within the trace of the client if it names one.
    fn span_of_call(&self, tool: &str, context: &RequestContext<RoleServer>) -> Span {
        let transport = match self.principal {
            Some(_) => "pipe",
            None => "tcp",
        };
        let tool = excerpt(tool, MAX_TOOL_NAME_CHARS);
        let traceparent = context.meta.0.0.get(names::TRACEPARENT);
        let revision = context.protocol_version();
        served_span(traceparent.and_then(Value::as_str), || {
            info_span!(
                target: SPANS, parent: None, "served call",
                otel.name = format!("{} {tool}", names::TOOLS_CALL), otel.kind = "server",
                { names::MCP_METHOD } = names::TOOLS_CALL, { names::TOOL_NAME } = tool,
                { names::OPERATION_NAME } = names::EXECUTE_TOOL,
                { names::MCP_REVISION } = revision.as_ref().map(|revision| revision.as_str()),
                { names::NETWORK_TRANSPORT } = transport, { names::REQUEST_ID } = context.id.to_string(),
                { names::CONVERSATION_ID } = Empty, { names::ERROR_TYPE } = Empty, otel.status_code = Empty
            )
        })
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(
                "strata-host",
                env!("CARGO_PKG_VERSION"),
            ))
            // For clients that ask for a revision which is not spoken.
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(REVISIONS)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let result = DiscoverResult::from_server_info(REVISIONS.to_vec(), self.get_info());
        Ok(result
            .with_ttl_ms(LIST_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools())
            .with_ttl_ms(LIST_TTL_MS)
            .with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.offer.closing.is_cancelled() {
            return Ok(error("the server is ending").into());
        }
        let Ok(_permit) = self.calls.try_acquire() else {
            return Ok(error(format!(
                "{MAX_CALLS} calls are being carried out, and no more are taken; try again later"
            ))
            .into());
        };
        let call = ToolCall {
            principal: self.principal(&context)?,
            elicitation: Elicitation::of_client(&context),
            context: &context,
            closing: &self.offer.closing,
        };
        let span = self.span_of_call(&request.name, &context);
        let result = self.carry_out(request, &call).instrument(span.clone());
        let result = result.await;
        record_result(&span, &result);
        result
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let revision = context.protocol_version();
        let is_newest = revision.is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28);
        let is_known = match is_newest {
            true => method != INITIALIZE && KNOWN_METHODS.contains(&method.as_str()),
            false => KNOWN_METHODS.contains(&method.as_str()),
        };
        if is_known {
            return Err(invalid(format!(
                "the parameters of `{method}` are not valid"
            )));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
    }
}

/// Notes in the span of a call how it ended.
fn record_result(span: &Span, result: &Result<CallToolResponse, ErrorData>) {
    let failed = match result {
        Ok(CallToolResponse::Complete(result)) if result.is_error == Some(true) => {
            names::TOOL_ERROR.to_owned()
        }
        Ok(_) => return,
        Err(error) => error.code.0.to_string(),
    };
    span.record(names::ERROR_TYPE, failed.as_str())
        .record("otel.status_code", "ERROR");
}

fn unknown_tool(name: &str) -> ErrorData {
    let name = excerpt(name, MAX_TOOL_NAME_CHARS);
    invalid(format!("there is no tool `{name}`"))
}

impl Elicitation {
    fn of_client(context: &RequestContext<RoleServer>) -> Self {
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

impl ToolCall<'_> {
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
        let asked = peer.send_cancellable_request(request, options).await;
        let handle = asked.map_err(|why| failed(&why))?;
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

/// Returns a name as that of a tool: what is not allowed in it becomes `_`.
pub(super) fn tool_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = name
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .take(MAX_TOOL_NAME_CHARS)
        .collect();
    match name.is_empty() {
        true => "_".into(),
        false => name,
    }
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
