//! `http`: the host functions for HTTP requests, which are checked against the grants first.
//! `services::http` makes the requests and follows redirects.

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use strata_base::text::units::format_bytes;
use strata_core::record::host_call::Grant;
use strata_services::http::{
    Header, HttpBatch, HttpRequest, HttpResponse, KEY_HEADER, MAX_BODY_BYTES, MAX_HEADERS_BYTES,
    MAX_URL_BYTES,
};
use strata_services::plugin::http::header::normalize;
use strata_services::plugin::http::{GrantedParts, check_grants};

use super::MAX_BATCH;
use crate::bindings::{http, types};
use crate::ctx::outbound::call_outside;
use crate::ctx::{Ctx, HostResult, invalid};

/// The maximum length of an idempotency key. Services accept 64 to 255 characters.
const MAX_KEY_BYTES: usize = 255;
/// The maximum number of secrets that a request may name. Requests need one or two, and each is
/// searched for in every header.
const MAX_SECRETS: usize = 64;

type HttpCallResult<T> = Result<T, types::HostError>;

fn invalid_request(what: &str) -> types::HostError {
    invalid(format!("cannot make the request: {what}"))
}

/// Validates and converts a request.
fn parse_request(request: http::Request) -> HttpCallResult<HttpRequest> {
    let http::Request {
        method,
        url,
        headers,
        body,
        secrets,
        timeout_ms,
        idempotency_key,
    } = request;
    let wrong = |what: String| invalid_request(&what);
    let known =
        (1..=16).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !known || matches!(method.as_str(), "CONNECT" | "TRACE") {
        let method: String = method.chars().take(32).collect();
        return Err(wrong(format!(
            "`{method}` is not a method that can be asked for; methods are upper case: `GET`"
        )));
    }
    let url = parse_url(&url)?;
    if let Some(length) = body
        .as_ref()
        .map(Vec::len)
        .filter(|length| *length > MAX_BODY_BYTES)
    {
        let (length, limit) = (
            format_bytes(length as u64),
            format_bytes(MAX_BODY_BYTES as u64),
        );
        return Err(wrong(format!(
            "its body has {length}, at most {limit} are sent"
        )));
    }
    if secrets.len() > MAX_SECRETS {
        return Err(wrong(format!(
            "it names {} secrets, at most {MAX_SECRETS} are put in",
            secrets.len()
        )));
    }
    let (headers, named_key) = read_headers(headers)?;
    let key = idempotency_key.or(named_key);
    if key.as_ref().is_some_and(|key| !is_valid_key(key)) {
        return Err(wrong(format!(
            "an idempotency key has 1 to {MAX_KEY_BYTES} printable ASCII characters"
        )));
    }
    Ok(HttpRequest {
        method,
        url,
        headers,
        body,
        secrets,
        key,
        timeout_ms,
    })
}

/// Parses the URL of a request, and removes its fragment, which is not sent.
fn parse_url(url: &str) -> HttpCallResult<Url> {
    let wrong = |what: String| invalid_request(&what);
    if url.len() > MAX_URL_BYTES {
        return Err(wrong(format!(
            "its address has {} bytes, at most {MAX_URL_BYTES} are sent",
            url.len()
        )));
    }
    let mut url =
        Url::parse(url).map_err(|error| wrong(format!("its address cannot be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!(
            "its address has the scheme `{}`; `http` and `https` are known",
            url.scheme()
        )));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "its address holds credentials; put them into a header, by the name of a secret".into(),
        ));
    }
    url.set_fragment(None);
    Ok(url)
}

fn is_valid_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && key
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// Validates the headers. Returns the idempotency key separately if one of them has it.
fn read_headers(wit_headers: Vec<http::Header>) -> HttpCallResult<(Vec<Header>, Option<String>)> {
    let wrong = |what: String| Err(invalid_request(&what));
    let length: usize = wit_headers
        .iter()
        .map(|header| header.name.len() + header.value.len())
        .sum();
    if length > MAX_HEADERS_BYTES {
        return wrong(format!(
            "its headers have {length} bytes, at most {MAX_HEADERS_BYTES} are sent"
        ));
    }
    let mut headers = Vec::new();
    let mut key = None;
    for http::Header { name, value } in wit_headers {
        let name = name.to_ascii_lowercase();
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            return wrong(format!(
                "`{}` is not the name of a header",
                name.escape_debug()
            ));
        }
        if HeaderValue::from_str(&value).is_err() {
            return wrong(format!(
                "the header `{name}` has a value with characters that no header can carry"
            ));
        }
        // Servers that read `_` as `-` would find two keys if another spelling were sent beside the
        // host's.
        if normalize(&name) == KEY_HEADER {
            key = Some(value);
        } else {
            headers.push(Header { name, value })
        }
    }
    Ok((headers, key))
}

fn to_wit_response(response: HttpResponse) -> http::Response {
    let header = |header: Header| http::Header {
        name: header.name,
        value: header.value,
    };
    let headers = response.headers.into_iter().map(header).collect();
    http::Response {
        status: response.status,
        headers,
        body: response.body,
    }
}

/// Validates a request and checks that it is granted.
fn authorize_request(ctx: &mut Ctx, request: http::Request) -> HttpCallResult<HttpRequest> {
    let request = parse_request(request)?;
    let headers: Vec<&str> = request
        .headers
        .iter()
        .map(|header| header.name.as_str())
        .collect();
    let carried = GrantedParts {
        secrets: &request.secrets,
        headers: &headers,
    };
    let granted = check_grants(
        &ctx.capabilities.grants().http,
        &request.method,
        &request.url,
        carried,
    );
    granted.map_err(|refusal| ctx.deny(Grant::Http, refusal.to_string()))?;
    Ok(request)
}

/// Makes the requests that are allowed, all at once, and returns the results in the order of
/// the requests.
async fn fetch_all(
    ctx: &mut Ctx,
    function: &'static str,
    requests: Vec<http::Request>,
) -> wasmtime::Result<Vec<HttpCallResult<http::Response>>> {
    let mut checked = Vec::new();
    for request in requests {
        checked.push(authorize_request(ctx, request));
    }
    let responses = call_outside(ctx, function, checked, |_, requests| HttpBatch(requests));
    let responses = responses.await?.into_iter();
    Ok(responses
        .map(|response| response.map(to_wit_response))
        .collect())
}

impl http::Host for Ctx {
    async fn fetch(&mut self, request: http::Request) -> HostResult<http::Response> {
        self.count_calls("http.fetch", 1)?;
        let mut responses = fetch_all(self, "http.fetch", vec![request]).await?;
        Ok(responses.pop().expect("one request has one response"))
    }

    async fn fetch_many(
        &mut self,
        requests: Vec<http::Request>,
    ) -> wasmtime::Result<Vec<HttpCallResult<http::Response>>> {
        // Each request counts as a call, so that calling for many at once does not evade the limit.
        let count = u32::try_from(requests.len()).unwrap_or(u32::MAX).max(1);
        self.count_calls("http.fetch-many", count)?;
        if requests.len() > MAX_BATCH {
            let message =
                format!("asked for {count} responses at once; at most {MAX_BATCH} are given");
            return Ok(requests
                .iter()
                .map(|_| Err(invalid(message.clone())))
                .collect());
        }
        fetch_all(self, "http.fetch-many", requests).await
    }
}
