//! Request headers, by what they can do to a request. Pure.
//!
//! A grant of `allow.http` names hosts, methods and paths. Many servers, and the proxies and frameworks in front of them,
//! take these from headers if there are such: a GET that was granted then is a DELETE of something else, or comes from
//! somebody else. An action sets such a header only if its grant names it.

/// What a request header can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderEffect {
    /// It says something about the request.
    Plain,
    /// Servers may take the request for another one because of it: another method, path, host or sender.
    Redirects,
    /// It belongs to the connection or frames the message, which is the host's part. No grant allows it.
    Connection,
}

/// Headers of the connection, of framing, and those by which the host makes sense of the response. Those that begin with
/// `proxy-` belong to them, too.
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

/// Parts of names, between the dashes, that mark a header as a stand-in for something of the request: as in
/// `x-http-method-override`, `x-original-url`, `x-rewrite-url`, `x-forwarded-host`.
const STAND_INS: [&str; 8] = [
    "forward",
    "forwarded",
    "forwarder",
    "original",
    "originating",
    "override",
    "rewrite",
    "rewritten",
];

/// What a request has one of. A header `x-…` of this name says it again, perhaps with one of `QUALIFIERS` before it:
/// `x-http-method`, `x-host`.
const SUBJECTS: [&str; 11] = [
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

/// Whose method, host or path a header gives.
const QUALIFIERS: [&str; 7] = [
    "backend-",
    "http-",
    "real-",
    "request-",
    "server-",
    "target-",
    "upstream-",
];

/// The ends of names that say who the sender is, or name another resource that the request is about.
const ENDS: [&str; 30] = [
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

/// Others with their whole names.
const NAMES: [&str; 10] = [
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

/// Returns a name in the spelling in which names are compared. Servers that hand headers on as variables, as CGI does,
/// cannot tell `_` and other characters from `-`.
pub fn normalized(name: &str) -> String {
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

/// Returns what a header of this name can do, however the name is spelled.
pub fn effect(name: &str) -> HeaderEffect {
    let name = normalized(name);
    let name = name.as_str();
    if CONNECTION.contains(&name) || name.starts_with("proxy-") {
        return HeaderEffect::Connection;
    }
    // What a server in front says of the certificate that it has seen.
    let is_certificate = name.starts_with("ssl-client-") || name.starts_with("x-ssl-");
    let is_stand_in = name.split('-').any(|part| STAND_INS.contains(&part));
    let ends_with = |end: &&str| {
        name.strip_suffix(*end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    if is_certificate
        || is_stand_in
        || says_again(name)
        || ENDS.iter().any(ends_with)
        || NAMES.contains(&name)
    {
        HeaderEffect::Redirects
    } else {
        HeaderEffect::Plain
    }
}

fn says_again(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("x-") else {
        return false;
    };
    let rest = QUALIFIERS
        .iter()
        .find_map(|qualifier| rest.strip_prefix(*qualifier))
        .unwrap_or(rest);
    SUBJECTS.contains(&rest)
}
