//! A server at an address: each message is a request over HTTP, whose response is a message or a stream of
//! events. Nothing but the address of the team file is contacted: redirects within its origin are followed
//! with 307 and 308, and all others are errors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use reqwest::{StatusCode, Url, header};
use serde_json::{Value, json};
use strata_base::text::excerpt::excerpt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::call_signals::CallSignals;
use super::config::HttpServer;
use super::event_stream::EventStream;
use super::exchange::{ExchangeResult, LostAnswer, MAX_MESSAGE_BYTES, Request, Signal};
use super::message::{self, Incoming, Reply, RpcError};
use crate::http::{Header, HttpClient, HttpRequest, RequestSent};

/// How many redirects are followed.
const MAX_REDIRECTS: u32 = 5;
/// How much of a challenge or a target is shown, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// How long it is waited before the stream of what a server sends of itself is opened again, at first and at most.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The header with the id of a session.
const SESSION: &str = "mcp-session-id";
/// The header with the revision of the protocol.
const REVISION: &str = "mcp-protocol-version";
/// The key of the revision in `_meta`, by which a message of the newest revision is known.
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";

/// A server at an address.
pub(super) struct HttpConnection {
    server: HttpServer,
    http: Arc<HttpClient>,
    /// What the server of an older revision has settled.
    negotiated: Mutex<NegotiatedSession>,
    /// The calls that the server works on.
    calls: Mutex<CallSignals>,
    /// The task that reads what a server of an older revision sends of itself.
    listening: Mutex<Option<AbortHandle>>,
}

#[derive(Clone, Default)]
struct NegotiatedSession {
    session: Option<String>,
    revision: Option<String>,
}

impl HttpConnection {
    pub(super) fn new(server: HttpServer, http: Arc<HttpClient>) -> Self {
        Self {
            server,
            http,
            negotiated: Mutex::default(),
            calls: Mutex::default(),
            listening: Mutex::default(),
        }
    }

    fn negotiated(&self) -> MutexGuard<'_, NegotiatedSession> {
        lock(&self.negotiated)
    }

    /// Notes the revision that `initialize` has settled.
    pub(super) fn set_revision(&self, revision: &str) {
        self.negotiated().revision = Some(revision.to_owned());
    }

    /// Forgets the session, which the server does not know any more.
    pub(super) fn forget_session(&self) {
        *self.negotiated() = NegotiatedSession::default();
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        signals: mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        let _waiting =
            (request.method == "tools/call").then(|| WaitingCall::new(self, request.id, &signals));
        let body = message::request(request.id, request.method, &request.params);
        let headers = self.headers(request.method, &request.params, &request.headers);
        let response = self.post(body, headers).await?;
        if let Some(session) = response.headers().get(SESSION)
            && request.method == "initialize"
        {
            self.negotiated().session = session.to_str().ok().map(str::to_owned);
        }
        if !response.status().is_success() {
            return self.refusal(response).await;
        }
        if is_event_stream(&response) {
            self.read_events(response, request, &signals).await
        } else {
            self.read_message(response).await
        }
    }

    /// Answers a question of the server.
    pub(super) async fn respond(&self, id: &Value, result: &Value) {
        lock(&self.calls).note_answer(id);
        self.send("", message::answer(id, result)).await;
    }

    /// Reads from now on what a server of an older revision sends of itself, which is where some of them ask people. A
    /// server that has no such stream works, too.
    pub(super) fn listen(self: &Arc<Self>) {
        let connection = Arc::downgrade(self);
        let listening = tokio::spawn(async move {
            let mut pause = SHORTEST_PAUSE;
            while let Some(stream) = open_stream(&connection).await {
                if follow_stream(&connection, stream).await {
                    pause = SHORTEST_PAUSE;
                }
                tokio::time::sleep(pause).await;
                pause = LONGEST_PAUSE.min(2 * pause);
            }
        });
        if let Some(before) = lock(&self.listening).replace(listening.abort_handle()) {
            before.abort();
        }
    }

    /// Sends a notification or an answer. It is no error if the server is gone.
    pub(super) async fn send(&self, method: &str, body: String) {
        let headers = self.headers(method, &Value::Null, &[]);
        let _ = self.post(body, headers).await;
    }

    fn headers(&self, method: &str, params: &Value, own: &[(String, String)]) -> Vec<Header> {
        let mut headers = vec![
            (
                "accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        match params["_meta"][META_REVISION].as_str() {
            Some(revision) => {
                headers.push((REVISION.into(), revision.to_owned()));
                headers.push(("mcp-method".into(), method.to_owned()));
                if method == "tools/call" {
                    let name = params["name"].as_str().unwrap_or_default();
                    headers.push(("mcp-name".into(), header_text(name)));
                }
                headers.extend(own.iter().cloned());
            }
            None => {
                let NegotiatedSession { session, revision } = self.negotiated().clone();
                headers.extend(session.map(|session| (SESSION.to_owned(), session)));
                headers.extend(revision.map(|revision| (REVISION.to_owned(), revision)));
            }
        }
        headers.extend(self.server.headers.iter().cloned());
        let headers = headers.into_iter();
        headers
            .map(|(name, value)| Header {
                name: name.to_ascii_lowercase(),
                value,
            })
            .collect()
    }

    /// Posts a message. Follows redirects within the origin of the address.
    async fn post(
        &self,
        body: String,
        headers: Vec<Header>,
    ) -> Result<reqwest::Response, LostAnswer> {
        let mut request = self.http_request("POST", headers, Some(body.into_bytes()));
        for _ in 0..=MAX_REDIRECTS {
            let response = self
                .http
                .open(&request)
                .await
                .map_err(|failed| LostAnswer {
                    message: failed.error.message,
                    reach: match failed.sent {
                        RequestSent::No => super::exchange::Reach::NotTaken,
                        RequestSent::Perhaps => super::exchange::Reach::Unknown,
                    },
                })?;
            let status = response.status();
            if !status.is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get(header::LOCATION);
            let target = target
                .and_then(|target| target.to_str().ok())
                .unwrap_or_default();
            let next = request.url.join(target).ok();
            let followed = matches!(
                status,
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            match next.filter(|next| followed && self.is_same_origin(next)) {
                Some(next) => request.url = next,
                None => {
                    let target = shown(target);
                    return Err(LostAnswer::not_taken(format!(
                        "it redirects with {status} to `{target}`, to which nothing is sent"
                    )));
                }
            }
        }
        Err(LostAnswer::not_taken(format!(
            "it redirects more than {MAX_REDIRECTS} times"
        )))
    }

    fn http_request(
        &self,
        method: &str,
        headers: Vec<Header>,
        body: Option<Vec<u8>>,
    ) -> HttpRequest {
        HttpRequest {
            method: method.into(),
            url: self.server.url.clone(),
            headers,
            body,
            secrets: self.server.secrets.clone(),
            key: None,
            timeout_ms: None,
        }
    }

    fn is_same_origin(&self, url: &Url) -> bool {
        url.origin() == self.server.url.origin()
    }

    /// Returns what a response says that is no success.
    async fn refusal(&self, response: reqwest::Response) -> ExchangeResult {
        let status = response.status();
        let challenge = response.headers().get(header::WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|text| text.to_str().ok()).map(shown);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let challenge = challenge.map_or_else(String::new, |text| format!(" ({text})"));
            return Err(LostAnswer::not_taken(format!(
                "it answers {status}{challenge}; add `headers` with a secret, such as \
                 `headers = {{ Authorization = \"Bearer {{{{secret:NAME}}}}\" }}`"
            )));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(LostAnswer::not_taken(format!("it answers {status}")));
        }
        if status == StatusCode::NOT_FOUND && self.negotiated().session.is_some() {
            return Err(LostAnswer::session_gone());
        }
        if status.is_server_error() {
            return Err(LostAnswer::unknown(format!("it answers {status}")));
        }
        match self.read_message(response).await {
            Ok(Reply::Error(error)) => Ok(Reply::Error(error)),
            _ => Ok(Reply::Error(RpcError {
                code: 0,
                message: format!("it answers {status}"),
                data: json!({ "status": status.as_u16() }),
            })),
        }
    }

    /// Reads a response that is one message.
    async fn read_message(&self, mut response: reqwest::Response) -> ExchangeResult {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(LostAnswer::broken)? {
            if bytes.len() + chunk.len() > MAX_MESSAGE_BYTES {
                return Err(LostAnswer::too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        match self.parse(&bytes) {
            Some(Incoming::Reply { reply, .. }) => Ok(reply),
            _ => Err(LostAnswer::unknown(
                "its answer is no message of the protocol",
            )),
        }
    }

    /// Reads events until one has the answer.
    async fn read_events(
        &self,
        response: reqwest::Response,
        request: &Request,
        signals: &mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        let mut events = EventStream::new(response);
        while let Some(event) = events.next().await? {
            match self.handle_event(event.as_bytes(), request, signals) {
                HandledMessage::Reply(reply) => return Ok(reply),
                HandledMessage::Request(answer) => self.send("", answer).await,
                HandledMessage::Other => {}
            }
        }
        Err(LostAnswer::unknown(
            "it closed the connection before it answered",
        ))
    }

    /// Handles an event of the stream that belongs to no request. Returns the answer to a request of the server.
    fn handle_own_event(&self, event: &[u8]) -> Option<String> {
        match self.parse(event)? {
            Incoming::Notification { method, params } if method == "notifications/progress" => {
                lock(&self.calls).note_progress(&params);
                None
            }
            Incoming::Request { id, method, params } => match method.as_str() {
                message::ELICITATION if lock(&self.calls).ask(&id, params) => None,
                message::PING => Some(message::answer(&id, &json!({}))),
                _ => Some(message::refusal(&id, &method)),
            },
            _ => None,
        }
    }

    /// Handles an event of the stream that answers a request.
    fn handle_event(
        &self,
        event: &[u8],
        request: &Request,
        signals: &mpsc::Sender<Signal>,
    ) -> HandledMessage {
        // Where signals are lost, there are others that say the same.
        match self.parse(event) {
            Some(Incoming::Reply {
                id: Some(of),
                reply,
            }) if of == request.id => return HandledMessage::Reply(reply),
            Some(Incoming::Notification { method, .. }) if method == "notifications/progress" => {
                let _ = signals.try_send(Signal::Progress);
            }
            Some(Incoming::Request { method, .. })
                if is_newest(&request.params) && method == message::PING => {}
            Some(Incoming::Request { method, .. }) if is_newest(&request.params) => {
                let _ = signals.try_send(Signal::Unexpected(method));
            }
            Some(Incoming::Request { id, method, params }) => match method.as_str() {
                message::ELICITATION => {
                    let question = json!({ "id": id, "params": params });
                    let _ = signals.try_send(Signal::Question(question));
                }
                message::PING => return HandledMessage::Request(message::answer(&id, &json!({}))),
                _ => return HandledMessage::Request(message::refusal(&id, &method)),
            },
            _ => {}
        }
        HandledMessage::Other
    }

    /// Parses a message, in which no secret is left.
    fn parse(&self, bytes: &[u8]) -> Option<Incoming> {
        if self.server.secrets.is_empty() {
            return message::parse(bytes);
        }
        let text = self
            .http
            .redact(std::str::from_utf8(bytes).ok()?, &self.server.secrets);
        message::parse(text.as_bytes())
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        if let Some(listening) = lock(&self.listening).take() {
            listening.abort();
        }
    }
}

/// A call that the server works on until this is dropped.
struct WaitingCall<'a> {
    connection: &'a HttpConnection,
    id: u64,
}

impl<'a> WaitingCall<'a> {
    fn new(connection: &'a HttpConnection, id: u64, signals: &mpsc::Sender<Signal>) -> Self {
        lock(&connection.calls).insert(id, signals.clone());
        Self { connection, id }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        lock(&self.connection.calls).remove(self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the stream of what the server sends of itself. Returns `None` if it has none, or the connection is gone.
async fn open_stream(connection: &Weak<HttpConnection>) -> Option<EventStream> {
    let connection = connection.upgrade()?;
    let headers = connection.headers("", &Value::Null, &[]);
    let request = connection.http_request("GET", headers, None);
    let response = connection.http.open(&request).await.ok()?;
    let is_stream = response.status().is_success() && is_event_stream(&response);
    is_stream.then(|| EventStream::new(response))
}

/// Handles the events of such a stream until it ends. Returns whether there were any.
async fn follow_stream(connection: &Weak<HttpConnection>, mut stream: EventStream) -> bool {
    let mut has_events = false;
    while let Ok(Some(event)) = stream.next().await {
        has_events = true;
        let Some(connection) = connection.upgrade() else {
            break;
        };
        if let Some(answer) = connection.handle_own_event(event.as_bytes()) {
            connection.send("", answer).await;
        }
    }
    has_events
}

fn is_event_stream(response: &reqwest::Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// What an event of a stream was.
enum HandledMessage {
    /// The answer.
    Reply(Reply),
    /// A request of the server, which this answers.
    Request(String),
    /// Something else.
    Other,
}

/// Returns whether these are the parameters of a request of the newest revision.
fn is_newest(params: &Value) -> bool {
    params["_meta"][META_REVISION].is_string()
}

/// Returns a text as the value of a header: as it is if it can be one, else in Base64.
pub(super) fn header_text(text: &str) -> String {
    use base64::Engine;
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        && text.trim() == text
        && !text.starts_with("=?");
    if is_plain {
        text.to_owned()
    } else {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        format!("=?base64?{encoded}?=")
    }
}

fn shown(text: &str) -> String {
    excerpt(
        &text.replace(strata_core::text::is_invisible, " "),
        MAX_SHOWN_CHARS,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_no_header_can_carry_is_encoded() {
        assert_eq!(header_text("north"), "north");
        assert_eq!(header_text("größe"), "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(header_text(" x"), "=?base64?IHg=?=");
        assert_eq!(header_text("=?base64?"), "=?base64?PT9iYXNlNjQ/?=");
    }
}
