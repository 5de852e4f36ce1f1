//! Validates the addresses of services that operators write. What guests may call is decided in
//! `plugin::http`.

use reqwest::Url;

use super::http;
use super::models::config::ProtocolName;

/// The purpose of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// A language model.
    Models,
    /// Messages for recipients outside of a team.
    Messages,
}

/// The only query parameter that endpoints of models require. Other parameters may be keys, which
/// must not be written down.
const VERSION_PARAMETER: &str = "api-version";

/// The reason why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress {
    /// The address, without the parts that may be secret.
    pub display_text: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub hint: String,
}

/// Parses an address. It has to be `http` or `https` and must not contain anything that may be
/// secret.
pub fn parse_address(text: &str, service: ServiceKind) -> Result<Url, InvalidAddress> {
    let unfit = |problem: &str, hint: &str| InvalidAddress {
        display_text: without_secrets(text),
        problem: problem.to_owned(),
        hint: hint.to_owned(),
    };
    let url = Url::parse(text).map_err(|error| {
        let problem = match error {
            url::ParseError::RelativeUrlWithoutBase => "it is not a full URL".to_owned(),
            other => other.to_string(),
        };
        unfit(&problem, "write it like `https://api.example.com/v1`")
    })?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(unfit(
            "it is no HTTP address",
            "begin it with `https://` or `http://`",
        ));
    }
    let elsewhere = match service {
        ServiceKind::Models => "put the key into a variable and name it under `api_key`",
        ServiceKind::Messages => "leave them out",
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("it holds credentials", elsewhere));
    }
    if url.fragment().is_some() {
        return Err(unfit(
            "it holds a fragment",
            "leave out the `#` and what follows it",
        ));
    }
    match service {
        ServiceKind::Models if url.query_pairs().any(|(name, _)| name != VERSION_PARAMETER) => {
            Err(unfit(
                &format!("its query holds more than `{VERSION_PARAMETER}`"),
                elsewhere,
            ))
        }
        ServiceKind::Messages if url.query().is_some() => Err(unfit(
            "it holds a query",
            "leave out the `?` and what follows it",
        )),
        ServiceKind::Models | ServiceKind::Messages => Ok(url),
    }
}

/// Returns the address to which a protocol appends its path. A base address that contains the whole
/// path already is accepted without it. Fails if the address contains only a part of the path, or
/// the path of another protocol.
pub fn model_base(base_url: &str, protocol: ProtocolName) -> Result<Url, InvalidAddress> {
    let mut url = parse_address(base_url, ServiceKind::Models)?;
    let path: Vec<String> = url
        .path_segments()
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    let is_slash = |segment: &&String| segment.is_empty();
    let slashes = path.iter().rev().take_while(is_slash).count();
    let path = &path[..path.len() - slashes];
    let surplus = surplus_segments(path, protocol).map_err(|surplus| InvalidAddress {
        display_text: without_secrets(base_url),
        problem: format!("its path ends in `/{surplus}`"),
        hint: format!("write the part before `/{}`", protocol.path().join("/")),
    })?;
    if let Ok(mut path) = url.path_segments_mut() {
        for _ in 0..slashes + surplus {
            path.pop();
        }
    }
    Ok(url)
}

/// Returns how many segments at the end of a path are the path of the protocol. Fails with the
/// segments that do not belong there.
fn surplus_segments(path: &[String], protocol: ProtocolName) -> Result<usize, String> {
    let own = protocol.path();
    let ends_with = |segments: &[&str]| {
        path.len() >= segments.len()
            && path[path.len() - segments.len()..]
                .iter()
                .zip(segments)
                .all(|(one, other)| one == other)
    };
    if ends_with(own) {
        return Ok(own.len());
    }
    let beginnings = (1..own.len()).map(|length| &own[..length]);
    let others = ProtocolName::ALL.iter().map(|other| other.path());
    match beginnings
        .chain(others)
        .find(|segments| ends_with(segments))
    {
        Some(segments) => Err(segments.join("/")),
        None => Ok(0),
    }
}

/// Returns whether a key can be sent to an address: over TLS, or to a host that is named by its IP
/// address or is this machine. The same rule applies to guests' secrets.
pub fn may_receive_keys(url: &Url) -> bool {
    url.scheme() == "https"
        || !matches!(url.host(), Some(url::Host::Domain(name)) if name != "localhost")
}

/// Returns whether an address is one of the public internet, as far as it can be told without
/// resolving names: neither a private address nor a name without a dot.
pub fn is_public(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name.contains('.'),
        Some(url::Host::Ipv4(address)) => http::is_public(address.into()),
        Some(url::Host::Ipv6(address)) => http::is_public(address.into()),
        None => false,
    }
}

/// Returns an address without the parts that may be secret, for display. If the address is
/// malformed, its credentials may extend to the last `@`, even if that appears to be in the query.
pub fn without_secrets(text: &str) -> String {
    let (place, query) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let scheme = || {
        text.split_once("://")
            .map_or_else(String::new, |(scheme, _)| format!("{scheme}://"))
    };
    match place.rsplit_once('@') {
        _ if query.contains('@') => format!("{}…", scheme()),
        Some((_, rest)) => format!("{}…@{rest}", scheme()),
        None => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_query_a_version_may_be_there_and_nothing_else() {
        let check = |text: &str, service, problem: &str| {
            let found = parse_address(text, service).map_err(|unfit| unfit.problem);
            match problem {
                "" => assert_eq!(found.expect(text).as_str(), text),
                problem => assert_eq!(found, Err(problem.into()), "{text}"),
            }
        };
        check(
            "https://a.example/v1?api-version=2024-10-21",
            ServiceKind::Models,
            "",
        );
        check("https://a.example/v1", ServiceKind::Messages, "");
        check(
            "https://a.example/v1?key=1",
            ServiceKind::Models,
            "its query holds more than `api-version`",
        );
        check(
            "https://a.example/v1?api-version=1&key=1",
            ServiceKind::Models,
            "its query holds more than `api-version`",
        );
        check(
            "https://a.example/v1?s3cret",
            ServiceKind::Models,
            "its query holds more than `api-version`",
        );
        check(
            "https://a.example/v1?api-version=1",
            ServiceKind::Messages,
            "it holds a query",
        );
        check(
            "https://a.example/v1#x",
            ServiceKind::Models,
            "it holds a fragment",
        );
        check(
            "https://me@a.example/",
            ServiceKind::Messages,
            "it holds credentials",
        );
        check(
            "ftp://a.example/",
            ServiceKind::Models,
            "it is no HTTP address",
        );
    }

    #[test]
    fn a_key_is_sent_over_tls_or_to_an_address() {
        let check = |text: &str, expected: bool| {
            let url = parse_address(text, ServiceKind::Models).expect(text);
            assert_eq!(may_receive_keys(&url), expected, "{text}");
        };
        check("https://a.example/v1", true);
        check("http://a.example/v1", false);
        check("http://localhost.example/v1", false);
        check("http://localhost:8000", true);
        check("http://127.0.0.1:8000", true);
        check("http://192.168.1.5:8000/v1", true);
        check("http://[::1]/v1", true);
    }

    #[test]
    fn an_address_that_will_not_do_is_shown_without_what_may_be_secret() {
        let check = |text: &str, expected: &str| {
            let unfit = parse_address(text, ServiceKind::Models).expect_err(text);
            assert_eq!(unfit.display_text, expected, "{text}");
            assert!(!format!("{unfit:?}").contains("s3cret"), "{unfit:?}");
        };
        check(
            "https://me:s3cret@a.example:8/v1?key=s3cret",
            "https://…@a.example:8/v1",
        );
        check(
            "https://a.example/v1?key=s3cret#s3cret",
            "https://a.example/v1",
        );
        check(
            "https://me:s3cret@a example/v1?key=s3cret",
            "https://…@a example/v1",
        );
        check(
            "https://me:12/s3cret@a.example?s3cret",
            "https://…@a.example",
        );
        check("https://me:s3cret?s3cret@a.example/v1", "https://…");
        check("https://me:s3cret@a.example/v1?s3cret@s3cret", "https://…");
        check("me:s3cret@a.example/v1", "…@a.example/v1");
        check(
            "ftp://me:s3cret@a.example/v1?s3cret",
            "ftp://…@a.example/v1",
        );
        check("//a.example?s3cret", "//a.example");
        check("", "");
    }
}
