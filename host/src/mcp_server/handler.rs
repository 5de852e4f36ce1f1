//! The requests of clients: which revisions of the protocol are spoken, and what each method returns.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult,
    DiscoverResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use strata_base::text::excerpt::excerpt;
use strata_driver::telemetry::{SPANS, names, served_span};
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use super::arguments::invalid;
use super::call_limit::{CallLimit, MAX_CALLS};
use super::client_call::{ClientCall, Elicitation, MAX_TOOL_NAME_CHARS};
use super::result::error;
use super::runs::TeamRuns;
use super::served::ServedClient;
use super::team_tool::{TeamTool, describe};
use super::{Offer, Principal, Tools};

/// The revisions that are spoken, oldest first.
pub(super) const REVISIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];
/// How long a client may take lists for current that do not change while the server runs, in milliseconds.
const LIST_TTL_MS: u64 = 300_000;
/// The methods whose parameters are known. A request with other parameters does not match any of the
/// library's types.
const KNOWN_METHODS: &[&str] = &[INITIALIZE, "server/discover", "tools/call", "tools/list"];
/// The method that the newest revision does not have any more.
const INITIALIZE: &str = "initialize";

/// The handler of the requests of one client, or of all clients that have the same principal.
#[derive(Clone)]
pub(super) struct ClientHandler {
    offer: Offer,
    /// `None` if the connection says who it is with each request.
    principal: Option<Principal>,
    calls: CallLimit,
}

impl ClientHandler {
    pub(super) fn new(offer: Offer, principal: Option<Principal>) -> Self {
        Self {
            offer,
            principal,
            calls: CallLimit::default(),
        }
    }

    /// Returns the tools that are the same for all clients.
    fn tools(&self) -> Vec<Tool> {
        match self.offer.tools.as_ref() {
            Tools::Team(_, tool) => vec![Tool::clone(tool)],
            Tools::Components(components) => {
                let tools = components.iter().map(|component| component.tool().clone());
                tools.collect()
            }
            Tools::Served(_) => Vec::new(),
        }
    }

    /// Returns the tools for a client.
    async fn tools_for(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<Tool>, ErrorData> {
        let mut tools: Vec<Tool> = match self.offer.tools.as_ref() {
            Tools::Served(_) => {
                let listed = served_client(context)?.descriptions().await;
                let teams = listed.map_err(unreadable)?;
                let tools = teams.iter().map(|team| describe(&team.name, &team.desc));
                tools.collect()
            }
            Tools::Team(..) | Tools::Components(_) => self.tools(),
        };
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|later, first| later.name == first.name);
        Ok(tools)
    }

    /// Returns how long a client may take lists for current, in milliseconds.
    fn list_ttl_ms(&self) -> u64 {
        match self.offer.tools.as_ref() {
            Tools::Team(..) | Tools::Components(_) => LIST_TTL_MS,
            // Teams are submitted at any time.
            Tools::Served(_) => 0,
        }
    }

    /// Returns how the client of a request can be asked.
    fn elicitation(&self, context: &RequestContext<RoleServer>) -> Result<Elicitation, ErrorData> {
        let may_answer = match self.offer.tools.as_ref() {
            Tools::Served(_) => served_client(context)?.0.may_answer(),
            Tools::Team(..) | Tools::Components(_) => true,
        };
        Ok(if may_answer {
            Elicitation::of_client(context)
        } else {
            Elicitation::None
        })
    }

    /// Returns who made a request.
    fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        if let Some(principal) = &self.principal {
            return Ok(principal.clone());
        }
        of_request::<Principal>(context)
    }

    /// Carries out a call of a tool.
    async fn carry_out(
        &self,
        request: CallToolRequestParams,
        call: &ClientCall<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.offer.tools.as_ref() {
            Tools::Team(team, _) if team.name() == request.name => team.call(&request, call).await,
            Tools::Team(..) => Err(unknown_tool(&request.name)),
            Tools::Components(components) => {
                let named = components
                    .iter()
                    .find(|component| component.tool().name == request.name);
                let component = named.ok_or_else(|| unknown_tool(&request.name))?;
                Ok(component.call(request.arguments, call).await.into())
            }
            Tools::Served(records) => {
                let found = served_client(call.context)?.find(&request.name).await;
                let team = found.map_err(unreadable)?;
                let team = team.ok_or_else(|| unknown_tool(&request.name))?;
                let runs = TeamRuns::new(Arc::clone(&self.offer.runs), team.runs);
                TeamTool::new(&team.name, runs, Arc::clone(records))
                    .call(&request, call)
                    .await
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

impl ServerHandler for ClientHandler {
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
            .with_ttl_ms(self.list_ttl_ms())
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools_for(&context).await?;
        Ok(ListToolsResult::with_all_items(tools)
            .with_ttl_ms(self.list_ttl_ms())
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
        let principal = self.principal(&context)?;
        let Some(_permit) = self.calls.begin(&principal) else {
            return Ok(error(format!(
                "{MAX_CALLS} calls are being carried out, and no more are taken; try again later"
            ))
            .into());
        };
        let call = ClientCall {
            principal,
            elicitation: self.elicitation(&context)?,
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
        let is_known = if is_newest {
            method != INITIALIZE && KNOWN_METHODS.contains(&method.as_str())
        } else {
            KNOWN_METHODS.contains(&method.as_str())
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

/// Returns what the head of a request was given about who made it.
fn of_request<T: Clone + Send + Sync + 'static>(
    context: &RequestContext<RoleServer>,
) -> Result<T, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    let named = parts.and_then(|parts| parts.extensions.get::<T>());
    named
        .cloned()
        .ok_or_else(|| ErrorData::invalid_request("it is not known who made the request", None))
}

/// Returns the client of a server that made a request.
fn served_client(context: &RequestContext<RoleServer>) -> Result<ServedClient, ErrorData> {
    of_request::<ServedClient>(context)
}

/// Returns the error for teams that cannot be read.
fn unreadable(why: String) -> ErrorData {
    ErrorData::internal_error(why, None)
}

fn unknown_tool(name: &str) -> ErrorData {
    let name = excerpt(name, MAX_TOOL_NAME_CHARS);
    invalid(format!("there is no tool `{name}`"))
}
