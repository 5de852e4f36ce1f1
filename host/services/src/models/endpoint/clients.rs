//! The HTTP clients of endpoints. Setting one up reads the root certificates of the machine, so
//! models share those that are configured alike.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Url};

use crate::client;

/// The maximum time for connecting. An available endpoint accepts within a few round trips.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The clients that were set up.
#[derive(Debug, Default)]
pub(in super::super) struct HttpClients(BTreeMap<ClientOptions, Client>);

/// How a client is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClientOptions {
    connect_timeout: Duration,
    uses_tls: bool,
    is_loopback: bool,
}

impl HttpClients {
    /// Returns the client for an address, for requests that take this long at most.
    pub(super) fn client(
        &mut self,
        url: &Url,
        timeout: Duration,
    ) -> Result<Client, reqwest::Error> {
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT.min(timeout),
            uses_tls: url.scheme() != "http",
            is_loopback: is_loopback(url),
        };
        if let Some(client) = self.0.get(&options) {
            return Ok(client.clone());
        }
        let client = options.build()?;
        self.0.insert(options, client.clone());
        Ok(client)
    }
}

impl ClientOptions {
    fn build(self) -> Result<Client, reqwest::Error> {
        let mut builder = client::reading_builder().connect_timeout(self.connect_timeout);
        if !self.uses_tls {
            // No root certificates are needed. A machine that has none can still use a local
            // endpoint.
            builder = builder.tls_certs_only([]);
        }
        if self.is_loopback {
            // A proxy cannot reach this machine's loopback interface.
            builder = builder.no_proxy();
        }
        builder.build()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_are_configured_alike_share_a_client() {
        let mut clients = HttpClients::default();
        let mut add = |url: &str, timeout_s: u64| {
            let url = Url::parse(url).expect("an address");
            let client = clients.client(&url, Duration::from_secs(timeout_s));
            client.expect("a client");
            clients.0.len()
        };
        assert_eq!(add("http://127.0.0.1:8080/v1", 120), 1);
        assert_eq!(add("http://localhost:9090", 60), 1);
        assert_eq!(add("http://127.0.0.1:8080/v1", 1), 2, "it gives up earlier");
        assert_eq!(add("http://models.example.com", 120), 3);
    }

    #[test]
    fn addresses_of_this_machine_are_told_apart() {
        let check = |url: &str, expected: bool| {
            assert_eq!(
                is_loopback(&Url::parse(url).expect("an address")),
                expected,
                "{url}"
            );
        };
        check("http://localhost:1/v1", true);
        check("http://127.0.0.2", true);
        check("http://[::1]:1", true);
        check("https://127.example.com", false);
        check("http://10.0.0.1", false);
    }
}
