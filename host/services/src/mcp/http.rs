//! A server at an address: each message is a request over HTTP, whose response is a message or a stream of
//! events. Nothing but the address of the team file is contacted: redirects within its origin are followed
//! with 307 and 308, and all others are errors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::{StatusCode, Url, header};
use serde_json::{Value, json};
use strata_base::text::excerpt::excerpt;
use strata_base::text::units::format_bytes;
use tokio::sync::mpsc;

use super::config::HttpServer;
use super::connection::{ExchangeResult, Lost, MAX_MESSAGE_BYTES, Request, Signal};
use super::message::{self, Incoming, Reply, RpcError};
use crate::http::{Header, HttpClient, HttpRequest, RequestSent};

/// How many redirects are followed.
const MAX_REDIRECTS: u32 = 5;
/// How much of a challenge or a target is shown, in characters.
const MAX_SHOWN_CHARS: usize = 200;
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
    settled: Mutex<Settled>,
}

#[derive(Clone, Default)]
struct Settled {
    session: Option<String>,
    revision: Option<String>,
}

impl HttpConnection {
    pub(super) fn new(server: HttpServer, http: Arc<HttpClient>) -> Self {
        Self {
            server,
            http,
            settled: Mutex::default(),
        }
    }

    fn settled(&self) -> MutexGuard<'_, Settled> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the revision that `initialize` has settled.
    pub(super) fn settle(&self, revision: &str) {
        self.settled().revision = Some(revision.to_owned());
    }

    /// Forgets the session, which the server does not know any more.
    pub(super) fn forget_session(&self) {
        *self.settled() = Settled::default();
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        signals: mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        let body = message::request(request.id, request.method, &request.params);
        let headers = self.headers(request.method, &request.params, &request.headers);
        let response = self.post(body, headers).await?;
        if let Some(session) = response.headers().get(SESSION)
            && request.method == "initialize"
        {
            self.settled().session = session.to_str().ok().map(str::to_owned);
        }
        if !response.status().is_success() {
            return self.refusal(response).await;
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.starts_with("text/event-stream") {
            true => self.read_events(response, request.id, &signals).await,
            false => self.read_message(response).await,
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
                let Settled { session, revision } = self.settled().clone();
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
    async fn post(&self, body: String, headers: Vec<Header>) -> Result<reqwest::Response, Lost> {
        let mut request = HttpRequest {
            method: "POST".into(),
            url: self.server.url.clone(),
            headers,
            body: Some(body.into_bytes()),
            secrets: self.server.secrets.clone(),
            key: None,
            timeout_ms: None,
        };
        for _ in 0..=MAX_REDIRECTS {
            let response = self.http.open(&request).await.map_err(|failed| Lost {
                message: failed.error.message,
                reach: match failed.sent {
                    RequestSent::No => super::connection::Reach::NotTaken,
                    RequestSent::Perhaps => super::connection::Reach::Unknown,
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
                    return Err(Lost::not_taken(format!(
                        "it redirects with {status} to `{target}`, to which nothing is sent"
                    )));
                }
            }
        }
        Err(Lost::not_taken(format!(
            "it redirects more than {MAX_REDIRECTS} times"
        )))
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
            return Err(Lost::not_taken(format!(
                "it answers {status}{challenge}; add `headers` with a secret, such as \
                 `headers = {{ Authorization = \"Bearer {{{{secret:NAME}}}}\" }}`"
            )));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Lost::not_taken(format!("it answers {status}")));
        }
        if status == StatusCode::NOT_FOUND && self.settled().session.is_some() {
            return Err(Lost::session_gone());
        }
        if status.is_server_error() {
            return Err(Lost::unknown(format!("it answers {status}")));
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
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if bytes.len() + chunk.len() > MAX_MESSAGE_BYTES {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        match self.parse(&bytes) {
            Some(Incoming::Reply { reply, .. }) => Ok(reply),
            _ => Err(Lost::unknown("its answer is no message of the protocol")),
        }
    }

    /// Reads events until one has the answer.
    async fn read_events(
        &self,
        mut response: reqwest::Response,
        id: u64,
        signals: &mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        let mut bytes: Vec<u8> = Vec::new();
        let mut data: Vec<u8> = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            // What arrived before has no end of a line.
            let mut scanned = bytes.len();
            bytes.extend_from_slice(&chunk);
            let mut begin = 0;
            while let Some(length) = bytes[scanned..].iter().position(|byte| *byte == b'\n') {
                let end = scanned + length;
                let line = bytes[begin..end].trim_ascii_end().to_vec();
                (begin, scanned) = (end + 1, end + 1);
                if let Some(more) = line.strip_prefix(b"data:") {
                    data.extend_from_slice(more.trim_ascii_start());
                } else if line.is_empty() && !data.is_empty() {
                    let event = std::mem::take(&mut data);
                    if let Some(reply) = self.handle_event(&event, id, signals) {
                        return Ok(reply);
                    }
                }
            }
            bytes.drain(..begin);
            if bytes.len() + data.len() > MAX_MESSAGE_BYTES {
                return Err(too_large());
            }
        }
        Err(Lost::unknown("it closed the connection before it answered"))
    }

    /// Handles an event. Returns the answer, if it has it.
    fn handle_event(&self, event: &[u8], id: u64, signals: &mpsc::Sender<Signal>) -> Option<Reply> {
        match self.parse(event)? {
            Incoming::Reply {
                id: Some(of),
                reply,
            } if of == id => Some(reply),
            Incoming::Notification { method, .. } if method == "notifications/progress" => {
                // Full of signals that say the same.
                let _ = signals.try_send(Signal::Progress);
                None
            }
            Incoming::Request { id, method, params } if method == "elicitation/create" => {
                let question = json!({ "id": id, "params": params });
                let _ = signals.try_send(Signal::Question(question));
                None
            }
            _ => None,
        }
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

fn broken(error: reqwest::Error) -> Lost {
    Lost::unknown(format!("the connection broke: {}", error.without_url()))
}

fn too_large() -> Lost {
    let most = format_bytes(MAX_MESSAGE_BYTES as u64);
    Lost::unknown(format!("it sent a message of more than {most}"))
}

/// Returns a text as the value of a header: as it is if it can be one, else in Base64.
pub(super) fn header_text(text: &str) -> String {
    use base64::Engine;
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        && text.trim() == text
        && !text.starts_with("=?");
    match is_plain {
        true => text.to_owned(),
        false => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            format!("=?base64?{encoded}?=")
        }
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
