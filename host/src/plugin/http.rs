//! Grants of the network: which hosts, methods and paths, and which secrets may go there. Pure: what an address may
//! be once a name is resolved, and the exchange itself, is in `services::http`.

pub mod header;

use percent_encoding::percent_decode_str;
use reqwest::Url;

use self::header::HeaderEffect;
use super::pattern;

/// One entry of `allow.http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrant {
    /// The hosts.
    pub host: HostPattern,
    /// The methods, in upper case.
    pub methods: Vec<String>,
    /// The paths; `*` stands for any run of characters.
    pub path: String,
    /// The secrets that may be sent there, by name.
    pub secrets: Vec<String>,
    /// The headers that may be set although servers may take a request for another one because of them, as
    /// [`header::normalized`] spells them. Others need no grant.
    pub headers: Vec<String>,
}

/// What is granted where an entry names no methods.
pub const READS: [&str; 2] = ["GET", "HEAD"];
/// What is granted where an entry names no path.
pub const ANY_PATH: &str = "/*";

/// Which hosts are meant, at which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: Hosts,
    /// None for the scheme's own.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// This one: a name or an address.
    One(String),
    /// All names that end in this, which begins with a dot.
    Below(String),
    /// All names.
    All,
}

impl HostPattern {
    /// Reads `example.com`, `127.0.0.1:8080`, `[::1]:8080`, `*.example.com` or `*`.
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
        // The same parser reads grants and requests, so that both write one host in one way.
        let plain = match (stars, rest.strip_prefix('.')) {
            (true, Some(below)) => below.to_owned(),
            (true, None) => format!("any{rest}"),
            (false, _) => rest.to_owned(),
        };
        if plain.is_empty() || plain.contains(['/', '@', '?', '#', '\\']) {
            return Err(EXPECTED);
        }
        // Each scheme leaves out its own port when it is read; between the two of them it shows.
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
            (true, true) => Hosts::Below(format!(".{host}")),
            (true, false) => Hosts::All,
            (false, _) => Hosts::One(host.to_owned()),
        };
        Ok(Self {
            host,
            port: http.port().or(https.port()),
        })
    }

    /// The hosts that two patterns have in common. Ports must be written alike: what is the scheme's own depends on it.
    pub(super) fn meet(one: &Self, other: &Self) -> Option<Self> {
        // A star stands for public names only.
        let below =
            |name: &str, end: &str| name.contains('.') && name.ends_with(end) && !is_address(name);
        let host = match (&one.host, &other.host) {
            (Hosts::One(a), Hosts::One(b)) => (a == b).then(|| Hosts::One(a.clone())),
            (Hosts::One(name), Hosts::Below(end)) | (Hosts::Below(end), Hosts::One(name)) => {
                below(name, end).then(|| Hosts::One(name.clone()))
            }
            (Hosts::One(name), Hosts::All) | (Hosts::All, Hosts::One(name)) => {
                below(name, "").then(|| Hosts::One(name.clone()))
            }
            (Hosts::Below(a), Hosts::Below(b)) if a.ends_with(b.as_str()) => {
                Some(Hosts::Below(a.clone()))
            }
            (Hosts::Below(a), Hosts::Below(b)) => {
                b.ends_with(a.as_str()).then(|| Hosts::Below(b.clone()))
            }
            (Hosts::Below(end), Hosts::All) | (Hosts::All, Hosts::Below(end)) => {
                Some(Hosts::Below(end.clone()))
            }
            (Hosts::All, Hosts::All) => Some(Hosts::All),
        };
        host.filter(|_| one.port == other.port).map(|host| Self {
            host,
            port: one.port,
        })
    }

    /// Whether a request goes to such a host. A star stands for public names only: never for an address, nor for a
    /// name without a dot, which means something on this machine or its network only.
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
            Hosts::One(one) => one == host,
            Hosts::Below(end) => public && host.ends_with(end),
            Hosts::All => public,
        }
    }
}

/// Whether a host, as an address is written in URLs, is no name.
fn is_address(host: &str) -> bool {
    !matches!(url::Host::parse(host), Ok(url::Host::Domain(_)))
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Hosts::One(host) => f.write_str(host)?,
            Hosts::Below(end) => write!(f, "*{end}")?,
            Hosts::All => f.write_str("*")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl HttpGrant {
    fn covers(&self, method: &str, url: &Url, paths: &[String; 2]) -> bool {
        self.host.matches(url)
            && self.methods.iter().any(|granted| granted == method)
            && paths.iter().all(|path| pattern::matches(&self.path, path))
    }
}

/// The secrets that may be sent to the host of an address: what comes from there may repeat them, and whoever is there
/// may know them.
pub fn entitled<'a>(grants: &'a [HttpGrant], url: &Url) -> impl Iterator<Item = &'a String> {
    let there = |grant: &&HttpGrant| grant.host.matches(url);
    grants
        .iter()
        .filter(there)
        .flat_map(|grant| &grant.secrets)
        .collect::<Vec<_>>()
        .into_iter()
}

/// Why a request is not granted. The texts say what to add.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No entry covers it.
    #[error(
        "`{method} {url}` is not granted; add to `allow.http`: \
         `{{ host = \"{host}\", methods = [\"{method}\"], path = \"{path}\" }}`"
    )]
    Request {
        /// The method.
        method: String,
        /// The address, without its query.
        url: String,
        /// Its host, with the port where it is not the scheme's own.
        host: String,
        /// Its path.
        path: String,
    },
    /// The request is covered, and sending this secret there is not.
    #[error(
        "the secret `{name}` is not granted for `{host}`; add it to `secrets` of that entry of `allow.http`"
    )]
    Secret {
        /// The secret.
        name: String,
        /// The host.
        host: String,
    },
    /// The request is covered, and setting this header is not.
    #[error(
        "the header `{name}` is not granted for `{host}`: servers may take the request for another one because of it; if \
         that is meant, add `headers = [\"{name}\"]` to that entry of `allow.http`"
    )]
    Header {
        /// The header.
        name: String,
        /// The host.
        host: String,
    },
    /// The header is nobody's to set.
    #[error("the header `{name}` is the host's: it belongs to the connection")]
    Connection {
        /// It.
        name: String,
    },
    /// Servers do not agree about what the path means.
    #[error(
        "the path `{path}` can be read in several ways, so no grant covers it; write it without encoded dots and slashes"
    )]
    Ambiguous {
        /// It.
        path: String,
    },
}

/// What a request carries that its grant has to name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried<'a> {
    /// The names of the secrets that it sends.
    pub secrets: &'a [String],
    /// The names of its headers.
    pub headers: &'a [&'a str],
}

/// Whether a request is granted that carries this.
pub fn permit(
    grants: &[HttpGrant],
    method: &str,
    url: &Url,
    carried: Carried<'_>,
) -> Result<(), Refusal> {
    let Some(paths) = readings(url.path()) else {
        return Err(Refusal::Ambiguous {
            path: url.path().to_owned(),
        });
    };
    let covering: Vec<&HttpGrant> = grants
        .iter()
        .filter(|grant| grant.covers(method, url, &paths))
        .collect();
    let host = authority(url);
    if covering.is_empty() {
        let (method, url, path) = (method.to_owned(), shown(url), url.path().to_owned());
        return Err(Refusal::Request {
            method,
            url,
            host,
            path,
        });
    }
    for header in carried.headers {
        let (name, normalized) = ((*header).to_owned(), header::normalized(header));
        let is_named = || {
            covering
                .iter()
                .any(|grant| grant.headers.contains(&normalized))
        };
        match header::effect(header) {
            HeaderEffect::Connection => return Err(Refusal::Connection { name }),
            HeaderEffect::Redirects if !is_named() => return Err(Refusal::Header { name, host }),
            HeaderEffect::Redirects | HeaderEffect::Plain => {}
        }
    }
    let unknown = |name: &&String| !covering.iter().any(|grant| grant.secrets.contains(name));
    match carried.secrets.iter().find(unknown) {
        Some(name) => Err(Refusal::Secret {
            name: name.clone(),
            host,
        }),
        None => Ok(()),
    }
}

/// An address for people: without what may hold secrets.
pub fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), authority(url), url.path())
}

/// Host, and the port where it is not the scheme's own.
pub fn authority(url: &Url) -> String {
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// The ways in which a server may read a path: decoded, and with empty segments left out. A grant must cover both. None
/// where decoding brings out dots or more encoded characters that could change what the path means. (Plain dot segments
/// were resolved when the address was parsed.)
fn readings(path: &str) -> Option<[String; 2]> {
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .ok()?
        .replace('\\', "/");
    let lower = decoded.to_ascii_lowercase();
    let hidden = ["%2e", "%2f", "%5c", "%25"]
        .iter()
        .any(|code| lower.contains(code));
    let segments = || decoded.split('/');
    // What comes after a `;` in a segment is taken for a parameter by some servers.
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
