//! Which requests are meant for a server: those that name it in `Host`, and that no page of another server makes.
//! Without this, a page could reach a server on this machine by a name that it makes lead there.

use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header;

use super::service::HttpRefusal;

/// The names by which a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames {
    /// The port on which it listens.
    port: u16,
    /// Whether it is reached over TLS.
    is_encrypted: bool,
    /// The address on which it listens, as `Host` has it, if that is a single one.
    address: Option<String>,
    /// The names that its operator gave.
    hosts: Vec<String>,
}

/// Why a request is not meant for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForServer {
    /// It names another host, several or none.
    OtherHost,
    /// A page of another server makes it.
    OtherOrigin,
}

impl From<NotForServer> for HttpRefusal {
    fn from(why: NotForServer) -> Self {
        let (status, detail) = match why {
            NotForServer::OtherHost => (421, "the request is addressed to another host"),
            NotForServer::OtherOrigin => (403, "the request comes from a page of another origin"),
        };
        Self {
            status,
            detail: detail.into(),
        }
    }
}

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl ServerNames {
    /// Returns the names of a server that listens on `address`: those of this machine, that of the address, and
    /// `hosts`, which its operator gave.
    pub fn new(address: SocketAddr, is_encrypted: bool, hosts: Vec<String>) -> Self {
        let is_single = !address.ip().is_unspecified();
        Self {
            port: address.port(),
            is_encrypted,
            address: is_single.then(|| match address {
                SocketAddr::V4(address) => address.ip().to_string(),
                SocketAddr::V6(address) => format!("[{}]", address.ip()),
            }),
            hosts,
        }
    }

    /// Fails unless a request with these headers is meant for this server. `authority` is that of its address, if the
    /// request line has one.
    pub fn check(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<(), NotForServer> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let is_own = host.is_some_and(|host| self.is_own_host(host))
            && authority.is_none_or(|authority| self.is_own_host(authority));
        if hosts.next().is_some() || !is_own {
            return Err(NotForServer::OtherHost);
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(());
        };
        let is_own = origin
            .to_str()
            .is_ok_and(|origin| self.is_own_origin(origin));
        if is_own && origins.next().is_none() {
            Ok(())
        } else {
            Err(NotForServer::OtherOrigin)
        }
    }

    /// Whether a value of `Host` names this server.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, port) = split_port(host);
        let name = name.to_ascii_lowercase();
        let is_own_port = port.is_some_and(|port| port == self.port.to_string());
        let is_default_port = port.is_none() && self.port == self.default_port();
        let own = LOOPBACK.iter().copied().chain(self.address.as_deref());
        if (is_own_port || is_default_port) && own.into_iter().any(|own| own == name) {
            return true;
        }
        // A proxy may listen on another port than this server.
        self.hosts.iter().any(|own_host| {
            let (own_name, own_port) = split_port(own_host);
            own_name.eq_ignore_ascii_case(&name)
                && match own_port {
                    Some(_) => port == own_port,
                    None => port.is_none_or(|port| port.parse::<u16>().is_ok()),
                }
        })
    }

    /// Whether an origin is that of this server's page.
    fn is_own_origin(&self, origin: &str) -> bool {
        let rest = match (
            origin.strip_prefix("http://"),
            origin.strip_prefix("https://"),
        ) {
            (Some(rest), _) if !self.is_encrypted => rest,
            (_, Some(rest)) => rest,
            _ => return false,
        };
        !rest.contains(['/', '@', '?', '#']) && self.is_own_host(rest)
    }

    fn default_port(&self) -> u16 {
        if self.is_encrypted { 443 } else { 80 }
    }
}

/// Splits the port off a host.
fn split_port(host: &str) -> (&str, Option<&str>) {
    // The colons of an address in brackets are not before a port.
    let start = host.rfind(']').unwrap_or(0);
    match host[start..].rfind(':') {
        Some(at) => (&host[..start + at], Some(&host[start + at + 1..])),
        None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn names() -> ServerNames {
        let address = SocketAddr::from(([0, 0, 0, 0], 7464));
        let hosts = vec!["strata.test".into(), "other.test:8443".into()];
        ServerNames::new(address, false, hosts)
    }

    #[test]
    fn a_host_is_this_machine_with_the_port_or_one_that_was_given() {
        let check = |host: &str, expected: bool| {
            assert_eq!(names().is_own_host(host), expected, "{host}");
        };
        check("127.0.0.1:7464", true);
        check("localhost:7464", true);
        check("LOCALHOST:7464", true);
        check("[::1]:7464", true);
        check("127.0.0.1", false);
        check("127.0.0.1:1", false);
        check("127.0.0.1:07464", false);
        check("127.0.0.2:7464", false);
        check("strata.test", true);
        check("strata.test:9", true);
        check("strata.test:x", false);
        check("other.test:8443", true);
        check("other.test", false);
        check("evil.example", false);
        check("evil.example:7464", false);
        check("strata.test.evil.example", false);
        check("127.0.0.1:7464@evil.example", false);
        check("evil.example#127.0.0.1:7464", false);
        check("", false);
        check(":7464", false);
    }

    #[test]
    fn a_host_may_be_the_single_address_on_which_the_server_listens() {
        let check = |address: &str, host: &str, expected: bool| {
            let address = address.parse().expect("an address");
            let names = ServerNames::new(address, false, Vec::new());
            assert_eq!(names.is_own_host(host), expected, "{address} {host}");
        };
        check("10.0.0.2:7464", "10.0.0.2:7464", true);
        check("10.0.0.2:7464", "10.0.0.3:7464", false);
        check("10.0.0.2:80", "10.0.0.2", true);
        check("[fd00::2]:7464", "[fd00::2]:7464", true);
        check("0.0.0.0:7464", "0.0.0.0:7464", false);
    }

    #[test]
    fn an_origin_is_that_of_the_servers_own_page() {
        let check = |origin: &str, expected: bool| {
            assert_eq!(names().is_own_origin(origin), expected, "{origin}");
        };
        check("http://127.0.0.1:7464", true);
        check("https://strata.test", true);
        check("http://127.0.0.1:1", false);
        check("http://evil.example", false);
        check("https://evil.example", false);
        check("null", false);
        check("file://", false);
        check("http://127.0.0.1:7464/", false);
        check("http://user@127.0.0.1:7464", false);
        let encrypted = ServerNames {
            is_encrypted: true,
            ..names()
        };
        assert!(!encrypted.is_own_origin("http://127.0.0.1:7464"));
    }

    #[test]
    fn a_request_with_two_hosts_or_none_is_for_another_server() {
        use NotForServer::{OtherHost, OtherOrigin};
        let check = |hosts: &[&'static str], origins: &[&'static str], expected| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_static(host));
            }
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_static(origin));
            }
            let checked = names().check(&headers, None);
            assert_eq!(checked.err(), expected, "{hosts:?} {origins:?}");
        };
        check(&["127.0.0.1:7464"], &[], None);
        check(&[], &[], Some(OtherHost));
        check(&["127.0.0.1:7464", "127.0.0.1:7464"], &[], Some(OtherHost));
        check(&["127.0.0.1:7464", "evil.example"], &[], Some(OtherHost));
        check(&["127.0.0.1:7464"], &["http://127.0.0.1:7464"], None);
        check(
            &["127.0.0.1:7464"],
            &["http://evil.example"],
            Some(OtherOrigin),
        );
        let twice = ["http://127.0.0.1:7464", "http://evil.example"];
        check(&["127.0.0.1:7464"], &twice, Some(OtherOrigin));
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, HeaderValue::from_static("127.0.0.1:7464"));
        let checked = names().check(&headers, Some("evil.example"));
        assert_eq!(checked, Err(OtherHost));
    }
}
