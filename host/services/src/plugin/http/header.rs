//! Classifies request headers by their effect on a request. This module does no I/O.
//!
//! A grant in `allow.http` names hosts, methods and paths. Many servers, and the proxies and
//! frameworks in front of them, override these with headers: a granted GET then becomes a DELETE of
//! something else, or appears to come from another client. An action may set such a header only if
//! its grant names it.

/// The effect of a request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderEffect {
    /// It gives information about the request.
    Plain,
    /// Servers may treat the request as a different one because of it: with another method, path,
    /// host or client.
    ChangesRequest,
    /// It belongs to the connection or the framing of the message, which the host controls. No
    /// grant allows it.
    Connection,
}

/// Headers of the connection and the framing, and those that determine how the host decodes the
/// response. `proxy`, which programs that follow CGI
/// read as the address of a proxy, and names that start with `proxy-` belong to them too.
const CONNECTION: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Parts of names, between dashes, of headers that replace something of the request: as in
/// `x-http-method-override`, `x-original-url`, `x-rewrite-url`, `x-forwarded-host`.
const REPLACING_PARTS: [&str; 8] = [
    "forward",
    "forwarded",
    "forwarder",
    "original",
    "originating",
    "override",
    "rewrite",
    "rewritten",
];

/// Properties of a request. A header `x-…` with such a name overrides the property, also with one
/// of `QUALIFIERS` before it: `x-http-method`, `x-host`.
const REQUEST_PROPERTIES: [&str; 11] = [
    "authority",
    "host",
    "method",
    "path",
    "port",
    "prefix",
    "proto",
    "protocol",
    "scheme",
    "uri",
    "url",
];

/// Qualifiers of the properties that a header overrides.
const QUALIFIERS: [&str; 7] = [
    "backend-",
    "http-",
    "real-",
    "request-",
    "server-",
    "target-",
    "upstream-",
];

/// The ends of the names of headers that state who the client is, or that name another resource for
/// the request.
const NAME_ENDINGS: [&str; 30] = [
    "amz-target",
    "auth-request-email",
    "auth-request-user",
    "authenticated-user",
    "authenticated-user-email",
    "authenticated-user-id",
    "client-cert",
    "client-principal",
    "client-principal-id",
    "client-principal-name",
    "connecting-ipv6",
    "external-address",
    "middleware-subrequest",
    "oidc-data",
    "oidc-identity",
    "proxyuser-ip",
    "remote-host",
    "socketip",
    "client-addr",
    "client-ip",
    "clientip",
    "connecting-ip",
    "copy-from",
    "copy-source",
    "real-ip",
    "remote-addr",
    "remote-ip",
    "remote-user",
    "rename-source",
    "user-ip",
];

/// The full names of other such headers.
const FULL_NAMES: [&str; 10] = [
    "base-url",
    "destination",
    "front-end-https",
    "new-uri",
    "script-name",
    "via",
    "x-http-destinationurl",
    "x-script-name",
    "x-url-scheme",
    "x-webauth-user",
];

/// Returns a name in the spelling in which names are compared. Servers that pass headers on as
/// variables, as CGI does, do not distinguish `_` and other characters from `-`.
pub fn normalize(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
}

/// Returns the effect of a header with this name in any spelling.
pub fn effect_of(name: &str) -> HeaderEffect {
    let name = normalize(name);
    let name = name.as_str();
    if CONNECTION.contains(&name) || name.split('-').next() == Some("proxy") {
        return HeaderEffect::Connection;
    }
    // Headers in which a proxy passes on the client's certificate.
    let is_certificate = name.starts_with("ssl-client-") || name.starts_with("x-ssl-");
    let is_stand_in = name.split('-').any(|part| REPLACING_PARTS.contains(&part));
    let ends_with = |end: &&str| {
        name.strip_suffix(*end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    if is_certificate
        || is_stand_in
        || overrides_property(name)
        || NAME_ENDINGS.iter().any(ends_with)
        || FULL_NAMES.contains(&name)
    {
        HeaderEffect::ChangesRequest
    } else {
        HeaderEffect::Plain
    }
}

fn overrides_property(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("x-") else {
        return false;
    };
    let rest = QUALIFIERS
        .iter()
        .find_map(|qualifier| rest.strip_prefix(*qualifier))
        .unwrap_or(rest);
    REQUEST_PROPERTIES.contains(&rest)
}
