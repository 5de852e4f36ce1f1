//! Answers to requests: JSON, with or without a strong tag by which a client asks whether it has changed.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use strata_core::record::id::to_hex;

const JSON: &str = "application/json";

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    /// Its entries.
    pub items: Vec<T>,
    /// The position after which the list continues; `None` at its end.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Returns a list that has only one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// Returns an answer of JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    json_text(status, serde_json::to_string(value).unwrap_or_default())
}

/// Returns an answer of JSON that was written before.
pub fn json_text(status: StatusCode, text: String) -> Response {
    let mut response = (status, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Returns an answer without a body.
pub fn empty(status: StatusCode) -> Response {
    status.into_response()
}

/// Returns the strong tag of a body.
pub fn entity_tag(body: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    format!("\"{}\"", to_hex(&digest.as_ref()[..16]))
}

/// Whether a client has what has this tag, by the values of its header `If-None-Match`.
fn has_tag<'a>(known: impl Iterator<Item = &'a HeaderValue>, tag: &HeaderValue) -> bool {
    let mut tags = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','));
    tags.any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag
    })
}

/// Returns an answer with a tag, or only that it has not changed.
pub fn tagged(headers: &HeaderMap, media_type: &'static str, body: Vec<u8>) -> Response {
    let tag = entity_tag(&body);
    let mut response = Body::from(body).into_response();
    let own = response.headers_mut();
    own.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        own.insert(header::ETAG, tag);
    }
    // It may be kept, and has to be asked for again each time.
    own.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, no-cache"),
    );
    unless_known(response, headers.get_all(header::IF_NONE_MATCH).iter())
}

/// Returns an answer, or only that it has not changed if its tag is among the values of the header `If-None-Match`.
pub fn unless_known<'a>(
    mut response: Response,
    known: impl Iterator<Item = &'a HeaderValue>,
) -> Response {
    let tag = response.headers().get(header::ETAG);
    if tag.is_some_and(|tag| has_tag(known, tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

/// Returns JSON with a tag.
pub fn tagged_json(headers: &HeaderMap, value: &impl Serialize) -> Response {
    tagged(headers, JSON, serde_json::to_vec(value).unwrap_or_default())
}

/// Makes an answer one that a browser only stores: its content is of a run, whose guests could write a page.
pub fn as_attachment(mut response: Response, name: &str) -> Response {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    let headers = response.headers_mut();
    let value = format!("attachment; filename=\"{name}\"");
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    let policy = HeaderValue::from_static("sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_tag_gets_no_body() {
        let check = |value: &'static str, expected: u16| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            let response = tagged(&headers, JSON, b"{}".to_vec());
            assert_eq!(response.status().as_u16(), expected, "{value}");
            assert!(response.headers().contains_key(header::ETAG));
        };
        let tag = entity_tag(b"{}");
        check(Box::leak(tag.clone().into_boxed_str()), 304);
        check(Box::leak(format!("\"x\", {tag}").into_boxed_str()), 304);
        check(Box::leak(format!("W/{tag}").into_boxed_str()), 304);
        check("*", 304);
        check("\"another\"", 200);
    }

    #[test]
    fn the_name_of_a_file_ends_no_header() {
        let response = as_attachment(empty(StatusCode::OK), "a\"b\r\nc/é.html");
        let value = &response.headers()[header::CONTENT_DISPOSITION];
        assert_eq!(value, "attachment; filename=\"a_b__c__.html\"");
    }
}
