//! The page: files that are part of the program, under names with digests of their contents. `build.rs` makes them.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// A file of the page.
struct Asset {
    /// Its name with the digest.
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// What the page may do: nothing but what comes from this server, and no markup is ever parsed in it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
/// A file whose name has its digest never changes.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// The paths below which nothing is an address of the page.
const NOT_OF_PAGE: [&str; 6] = ["/v1", "/assets", "/mcp", "/health", "/ready", "/metrics"];

/// Returns the routes of the page.
pub fn routes() -> Router {
    Router::new()
        .route("/", get(|| async { index() }))
        .route("/assets/{name}", get(asset))
}

fn index() -> Response {
    let Some(bytes) = INDEX else {
        return crate::problem::Problem::not_found("page").into_response();
    };
    let mut response = (StatusCode::OK, bytes).into_response();
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, html);
    let policy = HeaderValue::from_static(POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// Returns the page for an address of it that a browser opens; `None` for other paths.
pub fn for_path(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    is_of_page(method, path, headers).then(index)
}

fn is_of_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let is_navigation = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    let is_elsewhere = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    matches!(*method, Method::GET | Method::HEAD)
        && is_navigation
        && !NOT_OF_PAGE.iter().any(is_elsewhere)
        && !last.contains('.')
}

async fn asset(axum::extract::Path(name): axum::extract::Path<String>) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let Some(asset) = found else {
        return crate::problem::Problem::not_found("file").into_response();
    };
    let mut response = (StatusCode::OK, asset.bytes).into_response();
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static(asset.media_type);
    headers.insert(header::CONTENT_TYPE, media_type);
    let forever = HeaderValue::from_static(FOREVER);
    headers.insert(header::CACHE_CONTROL, forever);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes all scripts may have together.
    const MAX_SCRIPT_BYTES: usize = 300_000;

    #[test]
    fn the_scripts_are_small() {
        let scripts = ASSETS
            .iter()
            .filter(|asset| asset.media_type.contains("javascript"));
        let bytes: usize = scripts.map(|asset| asset.bytes.len()).sum();
        assert!(bytes <= MAX_SCRIPT_BYTES, "{bytes}");
    }

    #[test]
    fn what_a_browser_opens_is_the_page_unless_it_is_of_the_api() {
        let check = |path: &str, accept: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(is_of_page(&Method::GET, path, &headers), expected, "{path}");
        };
        check("/needs", "text/html,*/*", true);
        check("/runs/one/timeline", "text/html", true);
        check("/runs/one", "application/json", false);
        check("/v1/nothing", "text/html", false);
        check("/v1", "text/html", false);
        check("/v1x", "text/html", true);
        check("/assets/x", "text/html", false);
        check("/favicon.ico", "text/html", false);
    }
}
