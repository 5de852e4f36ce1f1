//! A server for the tests that plays an endpoint of a model.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::models::config::{Endpoint, ModelConfig, ProtocolName, ProviderConfig};
use crate::tests::loopback::{LoopbackServer, ReceivedRequest};

/// What the server does with a request.
#[derive(Clone)]
pub enum ServerBehavior {
    /// Sends a status, further header lines, and a body.
    Respond(&'static str, &'static str, String),
    /// Sends further header lines and a streamed body, byte by byte, and then closes the
    /// connection.
    Stream(&'static str, String),
    /// Sends further header lines and a body whose length is not known, and then nothing until the
    /// client disconnects.
    StayOpen(&'static str, String),
    /// Sends the head and the beginning of a response, and then nothing until the client
    /// disconnects.
    Stall,
    /// Sends an endless body.
    SendEndlessly,
    /// Closes the connection without a response.
    Disconnect,
}

/// Responds with this message.
pub fn respond_with_message(message: &str) -> ServerBehavior {
    let body = format!(
        r#"{{"model":"served","choices":[{{"message":{message}}}],"usage":{{"prompt_tokens":10,"completion_tokens":5}}}}"#
    );
    ServerBehavior::Respond("200 OK", "", body)
}

/// Responds with a message that consists of this text.
pub fn respond_with_text(content: &str) -> ServerBehavior {
    respond_with_message(
        &serde_json::json!({ "role": "assistant", "content": content }).to_string(),
    )
}

/// The server. The last behavior is repeated.
pub struct ModelServer(LoopbackServer);

impl ModelServer {
    pub fn new(plays: impl Into<Vec<ServerBehavior>>) -> Self {
        Self(LoopbackServer::new(plays.into(), handle_request))
    }

    /// Returns the requests that it received, with the heads in lower case.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        let lower = |seen: ReceivedRequest| ReceivedRequest {
            head: seen.head.to_lowercase(),
            ..seen
        };
        self.0.requests().into_iter().map(lower).collect()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            protocol: ProtocolName::OpenAi,
            base_url: format!("http://127.0.0.1:{}/v1", self.0.port),
            api_key_env: None,
            retries: 0,
            timeout: Endpoint::DEFAULT_TIMEOUT,
        }
    }

    pub fn config(&self) -> ModelConfig {
        ModelConfig {
            model: Some("m".to_owned()),
            ..ModelConfig::with_provider(ProviderConfig::Endpoint(self.endpoint()))
        }
    }
}

fn handle_request(
    play: &ServerBehavior,
    _seen: &ReceivedRequest,
    mut out: &TcpStream,
) -> std::io::Result<()> {
    match play {
        ServerBehavior::Respond(status, headers, body) => {
            let length = body.len();
            let end = "connection: close\r\n\r\n";
            write!(
                out,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}{end}{body}"
            )
        }
        ServerBehavior::Stream(headers, body) => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}connection: close\r\n\r\n"
            )?;
            for byte in body.as_bytes().chunks(1) {
                out.write_all(byte)?;
            }
            Ok(())
        }
        ServerBehavior::StayOpen(headers, body) => {
            write!(out, "HTTP/1.1 200 OK\r\n{headers}\r\n{body}")?;
            out.read_to_end(&mut Vec::new())?;
            Ok(())
        }
        ServerBehavior::Stall => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{")?;
            out.read_to_end(&mut Vec::new())?;
            Ok(())
        }
        ServerBehavior::SendEndlessly => {
            write!(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                out.write_all(&[b' '; 1 << 16])?;
            }
        }
        ServerBehavior::Disconnect => Ok(()),
    }
}
