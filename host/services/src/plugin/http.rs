//! Grants of HTTP requests: hosts, methods and paths, and the secrets that may be sent there. This
//! module does no I/O; `services::http` makes requests and checks the addresses that names resolve
//! to.

pub mod header;

use percent_encoding::percent_decode_str;
use reqwest::Url;
use serde::{Serialize, Serializer};

use self::header::HeaderEffect;
use super::pattern;

/// One entry of `allow.http`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpGrant {
    /// The hosts.
    #[serde(serialize_with = "as_text")]
    pub host: HostPattern,
    /// The methods, in upper case.
    pub methods: Vec<String>,
    /// The paths; `*` matches any characters.
    pub path: String,
    /// The names of the secrets that may be sent there.
    pub secrets: Vec<String>,
    /// The headers that may be set although they can make servers treat a request as a different
    /// one, in the spelling of [`header::normalize`]. Other headers need no grant.
    pub headers: Vec<String>,
}

/// The methods that are granted if an entry has none.
pub const DEFAULT_METHODS: [&str; 2] = ["GET", "HEAD"];
/// The path that is granted if an entry has none.
pub const DEFAULT_PATH: &str = "/*";

/// A set of hosts and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: HostSet,
    /// `None` for the default port of the scheme.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostSet {
    /// One host: a name or an address.
    Single(String),
    /// All names that end in this text, which starts with a dot.
    Subdomains(String),
    /// All names.
    All,
}

impl HostPattern {
    /// Returns the host, if the pattern is that of a single one.
    pub fn single_host(&self) -> Option<&str> {
        match &self.host {
            HostSet::Single(host) => Some(host),
            HostSet::Subdomains(_) | HostSet::All => None,
        }
    }

    /// Parses `example.com`, `127.0.0.1:8080`, `[::1]:8080`, `*.example.com` or `*`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected a host name without scheme or path, such as `api.example.com` or `127.0.0.1:8080`";
        let (stars, rest) = match text.strip_prefix('*') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.contains('*') || (stars && !rest.is_empty() && !rest.starts_with(['.', ':'])) {
            return Err(
                "`*` stands for a whole host, or for what comes before a dot: `*.example.com`",
            );
        }
        // The same parser reads grants and requests, so both are in the same form.
        let plain = match (stars, rest.strip_prefix('.')) {
            (true, Some(below)) => below.to_owned(),
            (true, None) => format!("any{rest}"),
            (false, _) => rest.to_owned(),
        };
        if plain.is_empty() || plain.contains(['/', '@', '?', '#', '\\']) {
            return Err(EXPECTED);
        }
        // A URL omits the default port of its scheme, so the port is visible in one of the two.
        let read = |scheme: &str| Url::parse(&format!("{scheme}://{plain}/")).ok();
        let (Some(http), Some(https)) = (read("http"), read("https")) else {
            return Err(EXPECTED);
        };
        let Some(host) = http.host_str() else {
            return Err(EXPECTED);
        };
        let is_name = matches!(http.host(), Some(url::Host::Domain(_)));
        let host = match (stars, rest.starts_with('.')) {
            (true, _) if !is_name => return Err(EXPECTED),
            (true, true) => HostSet::Subdomains(format!(".{host}")),
            (true, false) => HostSet::All,
            (false, _) => HostSet::Single(host.to_owned()),
        };
        Ok(Self {
            host,
            port: http.port().or(https.port()),
        })
    }

    /// Returns the hosts that match both patterns. The ports must be equal: whether a port is the
    /// default depends on the scheme, which is unknown here.
    pub fn intersect(one: &Self, other: &Self) -> Option<Self> {
        // A star matches public names only.
        let below =
            |name: &str, end: &str| name.contains('.') && name.ends_with(end) && !is_address(name);
        let host = match (&one.host, &other.host) {
            (HostSet::Single(a), HostSet::Single(b)) => {
                (a == b).then(|| HostSet::Single(a.clone()))
            }
            (HostSet::Single(name), HostSet::Subdomains(end))
            | (HostSet::Subdomains(end), HostSet::Single(name)) => {
                below(name, end).then(|| HostSet::Single(name.clone()))
            }
            (HostSet::Single(name), HostSet::All) | (HostSet::All, HostSet::Single(name)) => {
                below(name, "").then(|| HostSet::Single(name.clone()))
            }
            (HostSet::Subdomains(a), HostSet::Subdomains(b)) if a.ends_with(b.as_str()) => {
                Some(HostSet::Subdomains(a.clone()))
            }
            (HostSet::Subdomains(a), HostSet::Subdomains(b)) => b
                .ends_with(a.as_str())
                .then(|| HostSet::Subdomains(b.clone())),
            (HostSet::Subdomains(end), HostSet::All) | (HostSet::All, HostSet::Subdomains(end)) => {
                Some(HostSet::Subdomains(end.clone()))
            }
            (HostSet::All, HostSet::All) => Some(HostSet::All),
        };
        host.filter(|_| one.port == other.port).map(|host| Self {
            host,
            port: one.port,
        })
    }

    /// Returns whether a request goes to a matching host. A star matches public names only: no
    /// addresses, and no names without a dot, which only mean something on this machine or its
    /// network.
    fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let port = match self.port {
            None => url.port().is_none(),
            Some(port) => url.port_or_known_default() == Some(port),
        };
        let public = matches!(url.host(), Some(url::Host::Domain(name)) if name.contains('.'));
        port && match &self.host {
            HostSet::Single(one) => one == host,
            HostSet::Subdomains(end) => public && host.ends_with(end),
            HostSet::All => public,
        }
    }
}

/// Returns whether a host, as written in URLs, is an address and not a name.
fn is_address(host: &str) -> bool {
    !matches!(url::Host::parse(host), Ok(url::Host::Domain(_)))
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            HostSet::Single(host) => f.write_str(host)?,
            HostSet::Subdomains(end) => write!(f, "*{end}")?,
            HostSet::All => f.write_str("*")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn as_text<S: Serializer>(host: &HostPattern, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(host)
}

impl HttpGrant {
    fn covers(&self, method: &str, url: &Url, paths: &[String; 2]) -> bool {
        self.host.matches(url)
            && self.methods.iter().any(|granted| granted == method)
            && paths.iter().all(|path| pattern::matches(&self.path, path))
    }
}

/// Returns the secrets that may be sent to the host of a URL. Responses from there may repeat them,
/// and its operator may know them.
pub fn secrets_for<'a>(grants: &'a [HttpGrant], url: &Url) -> impl Iterator<Item = &'a String> {
    let matches_host = |grant: &&HttpGrant| grant.host.matches(url);
    grants
        .iter()
        .filter(matches_host)
        .flat_map(|grant| &grant.secrets)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Why a request is not granted. The messages name what to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpRefusal {
    /// No entry covers the request.
    #[error(
        "`{method} {url}` is not granted; add to `allow.http`: \
         `{{ host = \"{host}\", methods = [\"{method}\"], path = \"{path}\" }}`"
    )]
    Request {
        /// The method.
        method: String,
        /// The URL without its query.
        url: String,
        /// The host, with its port if that is not the scheme's default.
        host: String,
        /// Its path.
        path: String,
    },
    /// The request is granted, but not sending this secret.
    #[error(
        "the secret `{name}` is not granted for `{host}`; add it to `secrets` of that entry of `allow.http`"
    )]
    Secret {
        /// The name of the secret.
        name: String,
        /// The host.
        host: String,
    },
    /// The request is granted, but not setting this header.
    #[error(
        "the header `{name}` is not granted for `{host}`: servers may take the request for another one because of it; if \
         that is meant, add `headers = [\"{name}\"]` to that entry of `allow.http`"
    )]
    Header {
        /// The name of the header.
        name: String,
        /// The host.
        host: String,
    },
    /// No grant can allow this header.
    #[error("the header `{name}` is the host's: it belongs to the connection")]
    Connection {
        /// The name of the header.
        name: String,
    },
    /// Servers disagree about the meaning of the path.
    #[error(
        "the path `{path}` can be read in several ways, so no grant covers it; write it without encoded dots and slashes"
    )]
    Ambiguous {
        /// The path.
        path: String,
    },
}

/// The parts of a request that its grant must name.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantedParts<'a> {
    /// The names of the secrets it sends.
    pub secrets: &'a [String],
    /// The names of its headers.
    pub headers: &'a [&'a str],
}

/// Checks that a request is granted with the secrets and headers it carries.
pub fn check_grants(
    grants: &[HttpGrant],
    method: &str,
    url: &Url,
    carried: GrantedParts<'_>,
) -> Result<(), HttpRefusal> {
    let Some(paths) = path_readings(url.path()) else {
        return Err(HttpRefusal::Ambiguous {
            path: url.path().to_owned(),
        });
    };
    let covering: Vec<&HttpGrant> = grants
        .iter()
        .filter(|grant| grant.covers(method, url, &paths))
        .collect();
    let host = authority(url);
    if covering.is_empty() {
        let (method, url, path) = (method.to_owned(), display_url(url), url.path().to_owned());
        return Err(HttpRefusal::Request {
            method,
            url,
            host,
            path,
        });
    }
    for header in carried.headers {
        let (name, normalized) = ((*header).to_owned(), header::normalize(header));
        let is_named = || {
            covering
                .iter()
                .any(|grant| grant.headers.contains(&normalized))
        };
        match header::effect_of(header) {
            HeaderEffect::Connection => return Err(HttpRefusal::Connection { name }),
            HeaderEffect::ChangesRequest if !is_named() => {
                return Err(HttpRefusal::Header { name, host });
            }
            HeaderEffect::ChangesRequest | HeaderEffect::Plain => {}
        }
    }
    let unknown = |name: &&String| !covering.iter().any(|grant| grant.secrets.contains(name));
    match carried.secrets.iter().find(unknown) {
        Some(name) => Err(HttpRefusal::Secret {
            name: name.clone(),
            host,
        }),
        None => Ok(()),
    }
}

/// Formats a URL for people, without parts that may contain secrets.
pub fn display_url(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), authority(url), url.path())
}

/// Returns the host, with its port if that is not the scheme's default.
pub fn authority(url: &Url) -> String {
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// Returns the ways in which servers may read a path: decoded, and decoded without empty segments.
/// A grant must cover both. Returns `None` if decoding reveals dot segments or further encoded
/// characters that could change the meaning. (Plain dot segments were resolved when the URL was
/// parsed.)
fn path_readings(path: &str) -> Option<[String; 2]> {
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .ok()?
        .replace('\\', "/");
    let lower = decoded.to_ascii_lowercase();
    let hidden = ["%2e", "%2f", "%5c", "%25"]
        .iter()
        .any(|code| lower.contains(code));
    let segments = || decoded.split('/');
    // Some servers treat the text after a `;` in a segment as a parameter.
    let dots = segments().any(|segment| matches!(segment.split(';').next(), Some("." | "..")));
    if hidden || dots || decoded.chars().any(char::is_control) {
        return None;
    }
    let filled: Vec<&str> = segments().filter(|segment| !segment.is_empty()).collect();
    let end = if decoded.ends_with('/') && !filled.is_empty() {
        "/"
    } else {
        ""
    };
    let collapsed = format!("/{}{end}", filled.join("/"));
    Some([decoded, collapsed])
}

#[cfg(test)]
mod tests;
