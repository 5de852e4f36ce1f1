//! The messages of JSON-RPC 2.0, as far as the protocol uses them.

use serde_json::{Map, Value, json};

/// The error that a method does not exist.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// The request that is answered without doing anything. Servers of the newest revision do not know it.
pub(super) const PING: &str = "ping";
/// The request of a server that asks a person.
pub(super) const ELICITATION: &str = "elicitation/create";

/// A message of a server.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// The answer to a request.
    Reply {
        /// The id of the request; `None` if the server did not understand it.
        id: Option<u64>,
        /// The answer.
        reply: Reply,
    },
    /// A request of the server.
    Request {
        /// Its id, which is returned as it is.
        id: Value,
        /// What it asks for.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A notification.
    Notification {
        /// What it is about.
        method: String,
        /// Its parameters.
        params: Value,
    },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// A result, which is an object.
    Result(Map<String, Value>),
    /// An error.
    Error(RpcError),
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
}

impl RpcError {
    /// Returns it as it is shown: `CODE: message`.
    pub(super) fn describe(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }

    /// Returns the revisions that the server says it supports.
    pub(super) fn supported(&self) -> Vec<String> {
        let supported = self.data.get("supported").and_then(Value::as_array);
        let names = supported.into_iter().flatten();
        names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect()
    }
}

/// Parses a message. Returns `None` if it is none of JSON-RPC 2.0.
pub(super) fn parse(bytes: &[u8]) -> Option<Incoming> {
    from_value(serde_json::from_slice(bytes).ok()?)
}

fn from_value(value: Value) -> Option<Incoming> {
    let Value::Object(mut fields) = value else {
        return None;
    };
    if fields.get("jsonrpc")? != "2.0" {
        return None;
    }
    let id = fields.remove("id").filter(|id| !id.is_null());
    if let Some(method) = fields.remove("method") {
        let Value::String(method) = method else {
            return None;
        };
        let params = fields.remove("params").unwrap_or_default();
        return Some(match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        });
    }
    let id = id.and_then(|id| id.as_u64());
    let reply = match (fields.remove("result"), fields.remove("error")) {
        (Some(Value::Object(result)), None) => Reply::Result(result),
        (_, Some(error)) => Reply::Error(RpcError {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            message: error
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            data: error.get("data").cloned().unwrap_or_default(),
        }),
        (Some(_), None) => Reply::Error(RpcError {
            code: 0,
            message: "the server's result is invalid: it is not an object".into(),
            data: Value::Null,
        }),
        (None, None) => return None,
    };
    Some(Incoming::Reply { id, reply })
}

/// Returns the text of a request.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Returns the text of a notification.
pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// Returns the text of the refusal of a request.
pub(super) fn refusal(id: &Value, method: &str) -> String {
    let message = format!("this client has no method {method}");
    let error = json!({ "code": METHOD_NOT_FOUND, "message": message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
}

/// Returns the text of the answer to a request.
pub(super) fn answer(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_none() {
        for text in [
            "",
            "hello",
            "[1]",
            "{\"level\":\"info\"}",
            "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":1}",
            "{\"jsonrpc\":\"2.0\",\"method\":5}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        let deep = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}",
            "[".repeat(100_000)
        );
        assert_eq!(parse(deep.as_bytes()), None);
    }

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &str| parse(text.as_bytes()).expect("a message");
        assert_eq!(
            parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"),
            Incoming::Reply {
                id: Some(1),
                reply: Reply::Result(Map::new())
            }
        );
        let Incoming::Reply {
            id: Some(2),
            reply: Reply::Error(error),
        } = parse(
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32022,\"message\":\"no\",\"data\":{\"supported\":[\"a\",5]}}}",
        )
        else {
            panic!("an error");
        };
        assert_eq!(
            (error.describe(), error.supported()),
            ("-32022: no".into(), vec!["a".to_owned()])
        );
        assert!(matches!(
            parse("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}"),
            Incoming::Request { id, .. } if id == "x"
        ));
        assert!(matches!(
            parse("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}"),
            Incoming::Notification { .. }
        ));
    }
}
