//! A client of the API, for commands that work through a server. It blocks, and makes one request at a time.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use strata_host::config_dir;
use strata_host::services::client::builder;
use url::Url;

/// The characters of a name that are not written as they are in a path.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');
/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(120);
/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none of a server.
    #[error("`{url}` is no address of a server: {what}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The server cannot be reached, or the connection broke off.
    #[error("cannot reach the server `{url}`: {what}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why not.
        what: String,
    },
    /// The server refused the request.
    #[error("{detail}{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Refused {
        /// The status of its answer.
        status: u16,
        /// Why.
        detail: String,
        /// What can be done about it.
        hint: Option<String>,
        /// The whole problem document.
        problem: Value,
    },
    /// The file with the tokens of servers cannot be used.
    #[error("cannot use `{path}`: {what}")]
    Tokens {
        /// The file.
        path: String,
        /// Why not.
        what: String,
    },
    /// The answer is not what the API gives.
    #[error("the server `{0}` answered something else than this program understands")]
    NotUnderstood(String),
    /// There is no thread or no memory for it.
    #[error("cannot send a request: {0}")]
    System(#[from] io::Error),
}

/// The file with the tokens of servers, in the configuration directory of the user.
const SERVERS_FILE: &str = "strata-host/servers.toml";

/// The tokens of servers, by their addresses: `["https://strata.example"]` with `token = "…"`.
type KnownServers = BTreeMap<String, KnownServer>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownServer {
    token: String,
}

/// Returns the token that the user has noted for the server at an address. Fails if the file with tokens cannot be read,
/// or if others may read it.
fn noted_token(base: &Url) -> Result<Option<String>, ClientError> {
    let Some(path) = config_dir().map(|directory| directory.join(SERVERS_FILE)) else {
        return Ok(None);
    };
    let wrong = |what: String| ClientError::Tokens {
        path: path.display().to_string(),
        what,
    };
    let (text, mode) = match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => {
            let found = found.map_err(|error| wrong(error.to_string()))?;
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
            (text, found.permissions().mode())
        }
    };
    if mode & 0o077 != 0 {
        return Err(wrong(
            "others may read it; make it private (mode 600)".into(),
        ));
    }
    let known: KnownServers = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let is_meant = |(url, _): &(String, KnownServer)| Url::parse(url).is_ok_and(|url| url == *base);
    let found = known.into_iter().find(is_meant);
    Ok(found.map(|(_, server)| server.token))
}

/// A client of a server.
pub struct ServerClient {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

/// A request.
pub struct ApiRequest<'a> {
    method: reqwest::Method,
    path: &'a str,
    query: Vec<(String, String)>,
    body: Option<ApiBody>,
    headers: Vec<(&'static str, String)>,
}

enum ApiBody {
    Json(Value),
    Bytes(Vec<u8>),
}

/// An answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl<'a> ApiRequest<'a> {
    /// Returns a request without a body.
    pub fn new(method: &str, path: &'a str) -> Self {
        Self {
            method: reqwest::Method::from_bytes(method.as_bytes()).unwrap_or_default(),
            path,
            query: Vec::new(),
            body: None,
            headers: Vec::new(),
        }
    }

    /// Returns it with a parameter.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Returns it with a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Returns it with a body of JSON.
    pub fn json(mut self, value: Value) -> Self {
        self.body = Some(ApiBody::Json(value));
        self
    }

    /// Returns it with a body of bytes.
    pub fn bytes(mut self, bytes: Vec<u8>) -> Self {
        self.body = Some(ApiBody::Bytes(bytes));
        self
    }
}

impl ApiAnswer {
    /// Returns the body as JSON.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Encodes a name for a path.
pub fn encode_name(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

impl ServerClient {
    /// Returns a client of the server at an address, with a token: the given one, that in the address, or the one that the
    /// user has noted.
    ///
    /// # Errors
    /// Fails if the address is none of a server.
    pub fn new(url: &str, token: Option<String>) -> Result<Self, ClientError> {
        let wrong = |what: String| ClientError::Address {
            url: url.split('#').next().unwrap_or_default().into(),
            what,
        };
        let hint = || wrong("write http://HOST:PORT or https://HOST".into());
        let mut base = Url::parse(url).map_err(|_| hint())?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(hint());
        }
        // The address that a server prints has the token behind `#`.
        let fragment = base.fragment().and_then(|text| text.strip_prefix("token="));
        let token = token.or_else(|| fragment.map(str::to_owned));
        base.set_fragment(None);
        let token = match token {
            Some(token) => Some(token),
            None => noted_token(&base)?,
        };
        let http = builder()
            .connect_timeout(CONNECT_TIME)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            base,
            token,
            http,
            runtime,
        })
    }

    /// Returns the address of the server.
    pub fn url(&self) -> &str {
        self.base.as_str()
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        let mut what = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            what = cause.to_string();
            source = cause.source();
        }
        ClientError::Unreachable {
            url: self.base.to_string(),
            what,
        }
    }

    fn prepare(&self, request: ApiRequest<'_>) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(request.path);
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let mut builder = self.http.request(request.method, url);
        if let Some(token) = &self.token {
            builder = builder.bearer_auth(token);
        }
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        match request.body {
            None => builder,
            Some(ApiBody::Json(value)) => builder.json(&value),
            Some(ApiBody::Bytes(bytes)) => builder
                .header("content-type", "application/octet-stream")
                .body(bytes),
        }
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// Fails with `ClientError::Refused` if the server refuses it.
    pub fn send(&self, request: ApiRequest<'_>) -> Result<ApiAnswer, ClientError> {
        let builder = self.prepare(request).timeout(REQUEST_TIME);
        let sent = self.runtime.block_on(async {
            let response = builder.send().await?;
            let status = response.status().as_u16();
            let body = response.bytes().await?.to_vec();
            Ok::<_, reqwest::Error>(ApiAnswer { status, body })
        });
        let answer = sent.map_err(|error| self.unreachable(&error))?;
        match answer.status {
            200..=399 => Ok(answer),
            status => Err(refusal(status, answer.value())),
        }
    }

    /// Sends a request whose answer is a stream, and passes its messages to `visit`: the name, the id and the data of
    /// each. Returns when the stream is over or `visit` returns false.
    ///
    /// # Errors
    /// Fails if the server refuses it, and if the connection breaks off.
    pub fn read_stream(
        &self,
        request: ApiRequest<'_>,
        visit: &mut dyn FnMut(&StreamMessage) -> bool,
    ) -> Result<StreamEnd, ClientError> {
        let builder = self.prepare(request.header("accept", "text/event-stream"));
        self.runtime.block_on(async {
            let mut response = builder
                .send()
                .await
                .map_err(|error| self.unreachable(&error))?;
            match response.status().as_u16() {
                204 => return Ok(StreamEnd::Over),
                200 => {}
                status => {
                    let body = response.bytes().await.unwrap_or_default();
                    let problem = serde_json::from_slice(&body).unwrap_or_default();
                    return Err(refusal(status, problem));
                }
            }
            let mut parser = StreamParser::default();
            while let Some(chunk) = response
                .chunk()
                .await
                .map_err(|error| self.unreachable(&error))?
            {
                for message in parser.add(&chunk) {
                    if message.name == "end" {
                        return Ok(StreamEnd::Over);
                    }
                    if !visit(&message) {
                        return Ok(StreamEnd::Over);
                    }
                }
            }
            Ok(StreamEnd::BrokenOff)
        })
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Nothing follows.
    Over,
    /// It is continued with the id of the last message.
    BrokenOff,
}

/// A message of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamMessage {
    /// Its name; empty for the default one.
    pub name: String,
    /// Its id; empty if it has none.
    pub id: String,
    /// Its data.
    pub data: String,
}

/// Splits a stream into messages.
#[derive(Debug, Default)]
struct StreamParser {
    rest: Vec<u8>,
    message: StreamMessage,
}

impl StreamParser {
    /// Adds a part of the stream, and returns the messages that are complete.
    fn add(&mut self, chunk: &[u8]) -> Vec<StreamMessage> {
        self.rest.extend_from_slice(chunk);
        let mut messages = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let message = std::mem::take(&mut self.message);
                if !message.data.is_empty() {
                    messages.push(message);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => self.message.name = value.into(),
                "id" => self.message.id = value.into(),
                "data" => {
                    if !self.message.data.is_empty() {
                        self.message.data.push('\n');
                    }
                    self.message.data.push_str(value);
                }
                _ => {}
            }
        }
        messages
    }
}

fn refusal(status: u16, problem: Value) -> ClientError {
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    ClientError::Refused {
        status,
        detail: text("detail")
            .or_else(|| text("title"))
            .unwrap_or_else(|| format!("the server answered with the status {status}")),
        hint: text("hint"),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_wherever_a_stream_is_cut() {
        let text = "retry: 1000\n\nid: 1\ndata: {\"n\":1}\n\n: \n\nevent: end\ndata: {}\n\n";
        let expected = [
            StreamMessage {
                name: String::new(),
                id: "1".into(),
                data: "{\"n\":1}".into(),
            },
            StreamMessage {
                name: "end".into(),
                id: String::new(),
                data: "{}".into(),
            },
        ];
        for cut in 0..text.len() {
            let mut parser = StreamParser::default();
            let mut messages = parser.add(&text.as_bytes()[..cut]);
            messages.extend(parser.add(&text.as_bytes()[cut..]));
            assert_eq!(messages, expected, "{cut}");
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(encode_name("two words/é?"), "two%20words%2F%C3%A9%3F");
    }

    #[test]
    fn an_address_names_a_server_and_perhaps_a_token() {
        let client = |url: &str| ServerClient::new(url, None);
        assert!(client("postgres://x").is_err());
        assert!(client("127.0.0.1:7464").is_err());
        let printed = client("http://127.0.0.1:7464/#token=abc").unwrap();
        assert_eq!(printed.token.as_deref(), Some("abc"));
        assert_eq!(printed.url(), "http://127.0.0.1:7464/");
    }
}
