//! A session with a server: the revision is settled, its tools are listed, and called.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use strata_base::text::excerpt::excerpt;
use strata_base::text::units::format_bytes;
use tokio::sync::mpsc;

use super::call::{CallEnd, CallLimits, OpenCall};
use super::call_span::record_request;
use super::connection::{Connection, refused};
use super::exchange::{LostAnswer, QUEUED_SIGNALS, Reach, Request};
use super::message::{self, Reply, RpcError};
use super::question::KnownAnswers;
use super::revision::Revision;
use super::stdio::StdioConnection;
use super::tool::{OmittedTool, Tool, read_tools};
use crate::telemetry::{CallTrace, names};

/// How long a server may be silent when it is asked whether it knows the newest revision. Later it is
/// taken for an older one.
const PROBE_TIME: Duration = Duration::from_secs(10);
/// The errors by which a server of the newest revision shows itself.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32022..=-32020;
/// The error of a server that does not speak the revision of a request.
const UNSUPPORTED_REVISION: i64 = -32022;
/// The statuses with which a server over HTTP refuses a request that has only the transport of 2024.
const SSE_STATUSES: [u64; 3] = [400, 404, 405];
/// What is said then.
const SSE_IS_NOT_SUPPORTED: &str =
    "if it has the transport HTTP+SSE of 2024-11-05: that is not supported";
/// How many tools a list may have.
const MAX_TOOLS: usize = 1000;
/// How many bytes a list may have.
const MAX_LIST_BYTES: usize = 4 << 20;
/// How many pages a list may have.
const MAX_PAGES: usize = 100;
/// How much of the names of revisions, of the server's own name and of its version is kept, in characters.
const MAX_NAME_CHARS: usize = 200;
/// How much of the instructions of a server is passed on, in bytes.
const MAX_INSTRUCTION_BYTES: usize = 2 << 10;
/// The beginning of the names that the protocol reserves in `_meta`.
const META: &str = "io.modelcontextprotocol/";

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) instructions: Option<String>,
}

/// A session with a server.
pub(super) struct ServerSession {
    connection: Connection,
    revision: Revision,
    info: ServerInfo,
    next_id: AtomicU64,
    tools: Mutex<Arc<Vec<Tool>>>,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The server ended when it was asked whether it knows the newest revision. Another process is asked
    /// with `initialize`.
    EndedAtProbe,
    /// The server does not speak the revision that was spoken with it before.
    NotAsKnown(String),
    /// There is no common revision, or the server breaks the protocol.
    Failed(String),
}

impl OpenError {
    /// Returns the reason, for people.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::EndedAtProbe => "it does not answer".into(),
            Self::NotAsKnown(why) | Self::Failed(why) => why,
        }
    }
}

/// How a session is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The newest revision is tried first, then older ones.
    Auto,
    /// With `initialize`, whatever the server answers.
    Handshake(Revision),
    /// With `initialize`, because this revision was spoken before.
    Known(Revision),
    /// With this revision and no other.
    Only(Revision),
}

/// A question that a call has to be repeated with the answers of.
#[derive(Clone, Debug, Default)]
pub(super) struct CallRound {
    /// The state that the server gave, which it gets back as it is.
    pub(super) state: Option<String>,
    /// The answers, by the server's names of its questions.
    pub(super) responses: Map<String, Value>,
}

/// A tool to be called.
pub(super) struct ToolCall<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: &'a Value,
    /// The key of a write.
    pub(super) idempotency_key: Option<&'a str>,
    /// What an earlier round of the same call left.
    pub(super) round: Option<&'a CallRound>,
    /// The answers to questions that it may ask within the call.
    pub(super) known: &'a KnownAnswers,
    /// The arguments that are sent as headers, too.
    pub(super) headers: &'a [(String, String)],
    /// What its spans say, and the trace that it belongs to.
    pub(super) trace: &'a CallTrace,
}

impl ServerSession {
    /// Opens a session and lists the tools. Tools that cannot be used are returned beside it.
    pub(super) async fn open(
        connection: Connection,
        opening: Opening,
    ) -> Result<(Self, Vec<OmittedTool>), OpenError> {
        let mut session = Self {
            connection,
            revision: Revision::V2026,
            info: ServerInfo::default(),
            next_id: AtomicU64::new(1),
            tools: Mutex::default(),
        };
        match opening {
            Opening::Auto => session.negotiate().await?,
            Opening::Only(Revision::V2026) => {
                let found = session.discover(None).await;
                session.accept_discovery(found)?;
            }
            Opening::Handshake(revision) => session.shake_hands(revision, Offers::Several).await?,
            Opening::Known(revision) => session
                .shake_hands(revision, Offers::Several)
                .await
                .map_err(|error| OpenError::NotAsKnown(error.into_reason()))?,
            Opening::Only(revision) => session.shake_hands(revision, Offers::One).await?,
        }
        let omitted = session.list_tools().await.map_err(OpenError::Failed)?;
        Ok((session, omitted))
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn info(&self) -> &ServerInfo {
        &self.info
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the tools as they were listed last, sorted by name.
    pub(super) fn tools(&self) -> Arc<Vec<Tool>> {
        let tools = self.tools.lock();
        tools.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Settles the revision with a server of which nothing is known.
    async fn negotiate(&mut self) -> Result<(), OpenError> {
        let found = self.discover(Some(PROBE_TIME)).await;
        match &found {
            Ok(Reply::Result(_)) => return self.accept_discovery(found),
            Ok(Reply::Error(error)) if MODERN_ERRORS.contains(&error.code) => {
                let older = newest_common(&error.supported());
                return match older.filter(|_| error.code == UNSUPPORTED_REVISION) {
                    Some(older) => self.shake_hands(older, Offers::Several).await,
                    None => self.accept_discovery(found),
                };
            }
            Ok(Reply::Error(_)) => {}
            Err(None) => {}
            // A server at an address has no process that ends.
            Err(Some(lost)) if self.connection.is_alive() => {
                return Err(OpenError::Failed(lost.message.clone()));
            }
            Err(Some(_)) => return Err(OpenError::EndedAtProbe),
        }
        let handshake = self
            .shake_hands(Revision::NEWEST_WITH_HANDSHAKE, Offers::Several)
            .await;
        match handshake {
            Err(OpenError::Failed(why)) if self.connection.is_alive() => {
                // A server that was slow, and not old, knows only this.
                let again = self.discover(None).await;
                let is_modern = match &again {
                    Ok(Reply::Result(_)) => true,
                    Ok(Reply::Error(error)) => MODERN_ERRORS.contains(&error.code),
                    Err(_) => false,
                };
                if is_modern {
                    self.accept_discovery(again)
                } else {
                    Err(OpenError::Failed(why))
                }
            }
            other => other,
        }
    }

    /// Asks a server what it is, as one of the newest revision. Returns `None` as the error if there is no
    /// answer in time.
    async fn discover(&self, time: Option<Duration>) -> Result<Reply, Option<LostAnswer>> {
        let ask = || self.request("server/discover", self.modern_params(json!({})));
        let asking = async {
            match ask().await {
                // It names the revision that it has refused.
                Ok(Reply::Error(error)) if is_offered(Revision::V2026, &error) => ask().await,
                answered => answered,
            }
        };
        match time {
            None => asking.await.map_err(Some),
            Some(time) => match tokio::time::timeout(time, asking).await {
                Ok(reply) => reply.map_err(Some),
                Err(_) => Err(None),
            },
        }
    }

    fn accept_discovery(
        &mut self,
        reply: Result<Reply, Option<LostAnswer>>,
    ) -> Result<(), OpenError> {
        let failed = |why| Err(OpenError::Failed(why));
        let result = match reply {
            Ok(Reply::Result(result)) => result,
            Ok(Reply::Error(error)) if error.code == UNSUPPORTED_REVISION => {
                return failed(no_common_revision(&error.supported()));
            }
            Ok(Reply::Error(error)) => return failed(refused("`server/discover`", &error)),
            Err(lost) => {
                let why = lost.map_or_else(|| "it does not answer".into(), |lost| lost.message);
                return failed(why);
            }
        };
        let supported = names_in(result.get("supportedVersions"));
        if !supported.iter().any(|name| name == Revision::V2026.name()) {
            return failed(no_common_revision(&supported));
        }
        let meta = result.get("_meta").unwrap_or(&Value::Null);
        let info = meta.get(format!("{META}serverInfo"));
        self.note_info(
            info.or_else(|| result.get("serverInfo")),
            result.get("instructions"),
        );
        self.revision = Revision::V2026;
        Ok(())
    }

    /// Begins a session of an older revision.
    async fn shake_hands(&mut self, offered: Revision, offers: Offers) -> Result<(), OpenError> {
        let failed = |why| Err(OpenError::Failed(why));
        let mut offered = offered;
        let mut is_second = false;
        let result = loop {
            match self.request("initialize", initialize_params(offered)).await {
                Ok(Reply::Result(result)) => break result,
                Ok(Reply::Error(error)) => {
                    let supported = error.supported();
                    if supported.is_empty() {
                        let why = refused("`initialize`", &error);
                        return failed(if self.may_speak_sse(&error) {
                            format!("{why}; {SSE_IS_NOT_SUPPORTED}")
                        } else {
                            why
                        });
                    }
                    match newest_common(&supported) {
                        Some(next) if offers == Offers::Several && !is_second => {
                            (offered, is_second) = (next, true);
                        }
                        _ => return failed(no_common_revision(&supported)),
                    }
                }
                Err(lost) => return failed(lost.message),
            }
        };
        let named = result.get("protocolVersion").and_then(Value::as_str);
        let named = named.unwrap_or_default();
        let known = Revision::parse(named).filter(|revision| revision.has_handshake());
        let accepted = match offers {
            Offers::One => known.filter(|revision| *revision == offered),
            Offers::Several => known,
        };
        let Some(revision) = accepted else {
            return failed(no_common_revision(&[named.to_owned()]));
        };
        self.note_info(result.get("serverInfo"), result.get("instructions"));
        self.revision = revision;
        self.note_revision();
        self.connection
            .notify("notifications/initialized", &json!({}))
            .await;
        self.connection.listen();
        Ok(())
    }

    /// Returns whether a server that refuses `initialize` like this may have the transport of the oldest revision.
    fn may_speak_sse(&self, error: &RpcError) -> bool {
        let status = error.data["status"].as_u64();
        matches!(self.connection, Connection::Http(_))
            && status.is_some_and(|status| SSE_STATUSES.contains(&status))
    }

    fn note_revision(&self) {
        if let Connection::Http(http) = &self.connection {
            http.set_revision(self.revision.name());
        }
    }

    /// Begins a new session with a server at an address that has forgotten the one before.
    async fn renew(&self) -> Result<(), LostAnswer> {
        if let Connection::Http(http) = &self.connection {
            http.forget_session();
        }
        let params = initialize_params(Revision::NEWEST_WITH_HANDSHAKE);
        match self.request("initialize", params).await? {
            Reply::Result(_) => {}
            Reply::Error(error) => {
                return Err(LostAnswer::not_taken(refused("`initialize`", &error)));
            }
        }
        self.note_revision();
        self.connection
            .notify("notifications/initialized", &json!({}))
            .await;
        self.connection.listen();
        Ok(())
    }

    fn note_info(&mut self, info: Option<&Value>, instructions: Option<&Value>) {
        let text = |name: &str| {
            let text = info?.get(name)?.as_str()?;
            Some(shown(text))
        };
        self.info = ServerInfo {
            name: text("name"),
            version: text("version"),
            instructions: instructions.and_then(Value::as_str).map(|text| {
                let mut text = super::legible::legible(text).into_owned();
                text.truncate(text.floor_char_boundary(MAX_INSTRUCTION_BYTES));
                text
            }),
        };
    }

    /// Lists the tools anew. Returns those that cannot be used. Fails if the list breaks a limit.
    pub(super) async fn list_tools(&self) -> Result<Vec<OmittedTool>, String> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        let mut cursor: Option<String> = None;
        let mut bytes = 0;
        for _ in 0..MAX_PAGES {
            let mut params = json!({});
            if let Some(cursor) = &cursor {
                params["cursor"] = Value::String(cursor.clone());
            }
            let mut page = match self.request("tools/list", self.params(params)).await {
                Ok(Reply::Result(page)) => page,
                Ok(Reply::Error(error)) => return Err(refused("`tools/list`", &error)),
                Err(lost) => return Err(lost.message),
            };
            let Some(Value::Array(tools)) = page.remove("tools") else {
                return Err("its list of tools has no `tools`".into());
            };
            bytes += tools
                .iter()
                .map(|tool| tool.to_string().len())
                .sum::<usize>();
            entries.extend(tools);
            if entries.len() > MAX_TOOLS {
                return Err(self.stop(format!("its list has more than {MAX_TOOLS} tools")));
            }
            if bytes > MAX_LIST_BYTES {
                let most = format_bytes(MAX_LIST_BYTES as u64);
                return Err(self.stop(format!("its list of tools has more than {most}")));
            }
            match page.remove("nextCursor") {
                Some(Value::String(next)) if seen.insert(next.clone()) => cursor = Some(next),
                Some(Value::String(_)) => {
                    tracing::warn!(
                        "an MCP server repeats a page of its list of tools; the list ends there"
                    );
                    return Ok(self.keep_tools(entries));
                }
                _ => return Ok(self.keep_tools(entries)),
            }
        }
        Err(self.stop(format!("its list of tools has more than {MAX_PAGES} pages")))
    }

    /// Asks the server for a sign of life. Returns whether it answers within this time, or meanwhile says something of
    /// a call that it works on.
    pub(super) async fn is_responsive(&self, stdio: &StdioConnection, time: Duration) -> bool {
        let before = stdio.signs_of_life();
        let asking = async {
            if self.revision.has_handshake() {
                self.request(message::PING, json!({})).await.is_ok()
            } else {
                // It has no `ping`.
                self.discover(None).await.is_ok()
            }
        };
        match tokio::time::timeout(time, asking).await {
            Ok(is_answered) => is_answered,
            Err(_) => stdio.signs_of_life() > before,
        }
    }

    /// Stops a server that exceeds a limit. Returns why.
    fn stop(&self, why: String) -> String {
        if let Connection::Stdio(stdio) = &self.connection {
            stdio.kill();
        }
        why
    }

    fn keep_tools(&self, entries: Vec<Value>) -> Vec<OmittedTool> {
        let uses_headers = matches!(self.connection, Connection::Http(_));
        let (tools, omitted) = read_tools(entries, uses_headers);
        let mut known_tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        *known_tools = Arc::new(tools);
        omitted
    }

    /// Calls a tool.
    pub(super) async fn call(&self, tool: &ToolCall<'_>, limits: CallLimits) -> CallEnd {
        let id = self.new_id();
        let mut params = json!({ "name": tool.tool, "arguments": tool.arguments });
        let mut meta = json!({ "progressToken": id });
        if let Some(key) = tool.idempotency_key {
            meta["strata/idempotency-key"] = key.into();
        }
        if let Some(context) = &tool.trace.traceparent {
            meta[names::TRACEPARENT] = context.as_str().into();
        }
        record_request(tool.trace, &self.connection, self.revision, id);
        params["_meta"] = meta;
        if let Some(round) = tool.round {
            if !round.responses.is_empty() {
                params["inputResponses"] = Value::Object(round.responses.clone());
            }
            if let Some(state) = &round.state {
                params["requestState"] = state.clone().into();
            }
        }
        let request = Request {
            id,
            method: "tools/call",
            params: self.params(params),
            headers: tool.headers.to_vec(),
        };
        let send = |request| OpenCall::new(self.connection.clone(), request, limits);
        match send(request.clone()).wait(tool.known).await {
            CallEnd::Lost(lost) if lost.reach == Reach::SessionGone => match self.renew().await {
                Ok(()) => send(request).wait(tool.known).await,
                Err(lost) => CallEnd::Lost(LostAnswer::not_taken(lost.message)),
            },
            end => end,
        }
    }

    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn request(&self, method: &'static str, params: Value) -> Result<Reply, LostAnswer> {
        let request = Request {
            id: self.new_id(),
            method,
            params,
            headers: Vec::new(),
        };
        // Nothing is said about such a request while it is answered.
        let (signals, _) = mpsc::channel(QUEUED_SIGNALS);
        self.connection.exchange(&request, signals).await
    }

    /// Returns parameters in the form of the settled revision.
    fn params(&self, params: Value) -> Value {
        if self.revision.has_handshake() {
            params
        } else {
            self.modern_params(params)
        }
    }

    /// Returns parameters with what the newest revision demands in each request.
    fn modern_params(&self, mut params: Value) -> Value {
        if !params["_meta"].is_object() {
            params["_meta"] = json!({});
        }
        params["_meta"][format!("{META}protocolVersion")] = Revision::V2026.name().into();
        params["_meta"][format!("{META}clientInfo")] = client_info();
        params["_meta"][format!("{META}clientCapabilities")] = client_capabilities();
        params
    }
}

/// How many revisions are offered to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offers {
    /// One.
    One,
    /// Another one if it refuses the first and names what it supports.
    Several,
}

fn initialize_params(offered: Revision) -> Value {
    json!({
        "protocolVersion": offered.name(),
        "capabilities": client_capabilities(),
        "clientInfo": client_info(),
    })
}

fn client_info() -> Value {
    json!({ "name": "strata-host", "version": env!("CARGO_PKG_VERSION") })
}

fn client_capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} } })
}

fn names_in(list: Option<&Value>) -> Vec<String> {
    let names = list.and_then(Value::as_array).into_iter().flatten();
    names
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect()
}

/// Returns whether an error refuses the revision of a request and names this one.
fn is_offered(revision: Revision, error: &RpcError) -> bool {
    let supported = error.supported();
    error.code == UNSUPPORTED_REVISION && supported.iter().any(|name| name == revision.name())
}

/// Returns the newest revision with a handshake that is among these names.
fn newest_common(supported: &[String]) -> Option<Revision> {
    let mut known = Revision::ALL.into_iter();
    known.find(|revision| {
        revision.has_handshake() && supported.iter().any(|name| name == revision.name())
    })
}

fn no_common_revision(supported: &[String]) -> String {
    let theirs = match supported {
        [] => "does not say which it speaks".to_owned(),
        names => format!("speaks {}", shown(&names.join(", "))),
    };
    format!(
        "there is no common revision of the protocol: it {theirs}; this client speaks {}",
        Revision::all_names()
    )
}

/// Returns a text of a server on one line, without characters that nobody sees.
fn shown(text: &str) -> String {
    excerpt(
        &text.replace(strata_core::text::is_invisible, " "),
        MAX_NAME_CHARS,
    )
}
