//! The bodies of requests: read within a time and a size, and parsed with errors that say where they are.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use strata_core::record::json::{JsonError, parse_decision};

use crate::problem::Problem;

/// Within which time a request has to be read.
pub const READ_TIME: Duration = Duration::from_secs(30);
/// The maximum size of the body of answers and of messages from hooks, of blobs, and of everything else.
pub const MAX_ANSWER_BYTES: u64 = 1 << 20;
pub const MAX_BLOB_BYTES: u64 = 256 << 20;
pub const MAX_BODY_BYTES: u64 = 16 << 20;

/// Reads a body of at most `limit` bytes.
pub async fn read_body(headers: &HeaderMap, body: Body, limit: u64) -> Result<Vec<u8>, Problem> {
    let declared = headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(Problem::too_large(limit));
    }
    let read = async {
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(1 << 20) as usize);
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk: Bytes = chunk.map_err(|_| Problem::bad_request("the body broke off"))?;
            if bytes.len() as u64 + chunk.len() as u64 > limit {
                return Err(Problem::too_large(limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    match tokio::time::timeout(READ_TIME, read).await {
        Ok(read) => read,
        Err(_) => Err(Problem::timeout()),
    }
}

/// Fails unless the body of a request is JSON by its media type.
pub fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Problem::unsupported(
            "send the body as `Content-Type: application/json`",
        ));
    }
    Ok(())
}

/// Parses a body.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let value: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    if !value.is_object() {
        return Err(Problem::field("", "it has to be an object"));
    }
    // Whoever checks a body and whoever carries it out may mean another of two values.
    let text = String::from_utf8_lossy(bytes);
    if let Err(JsonError::RepeatedKey(key)) = parse_decision(&text) {
        let detail =
            format!("it gives the key `{key}` twice, so it is not certain which value is meant");
        return Err(Problem::field("", detail));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let detail = error.inner().to_string();
        let pointer = pointer_of(error.path());
        Problem::field(pointer, detail)
    })
}

/// Returns a path as a JSON pointer.
fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer += &format!("/{index}"),
            Segment::Map { key } => pointer += &format!("/{}", escape_pointer(key)),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Escapes a name for a JSON pointer.
pub fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[expect(dead_code, reason = "only its type matters")]
        idea: Option<String>,
        #[expect(dead_code, reason = "only its type matters")]
        files: Option<BTreeMap<String, u8>>,
    }

    #[test]
    fn an_error_says_where_it_is() {
        let check = |text: &str, status: u16, pointer: Option<&str>| {
            let problem = parse_json::<Example>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.status.as_u16(), status, "{text}");
            let document = problem.to_json();
            let found = document["errors"][0]["pointer"].as_str();
            assert_eq!(found, pointer, "{text}: {document}");
        };
        check("{", 400, None);
        check("", 400, None);
        check(r#"{"colour": 1}"#, 422, Some("/colour"));
        check(r#"{"idea": 5}"#, 422, Some("/idea"));
        check(r#"{"files": {"a/b": "x"}}"#, 422, Some("/files/a~1b"));
        check("[]", 422, Some(""));
        check(r#"["idea", null]"#, 422, Some(""));
        check(r#"{"idea": "a", "idea": "b"}"#, 422, Some(""));
        check(r#"{"files": {"a": 1, "a": 2}}"#, 422, Some(""));
        check("{}{}", 400, None);
    }

    #[test]
    fn a_body_is_json_by_its_media_type() {
        let check = |value: Option<&'static str>, expected: bool| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(require_json(&headers).is_ok(), expected, "{value:?}");
        };
        check(Some("application/json"), true);
        check(Some("Application/JSON; charset=utf-8"), true);
        check(Some("text/plain"), false);
        check(Some("application/jsonp"), false);
        check(None, false);
    }
}
