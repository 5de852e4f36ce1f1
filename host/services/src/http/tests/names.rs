//! Host names that resolve to other addresses than expected, initially or after the first lookup.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{HostLookup, HttpClient, RequestSent};
use super::server::{HttpServerBehavior, HttpTestServer, redirects, respond_with};
use super::{Denied, fetch, grant, local, request, secrets};

#[test]
fn a_name_is_connected_to_where_it_was_found_to_be_and_never_to_a_private_address() {
    let server = HttpTestServer::new([respond_with("private")]);
    let check = |name: &str, addresses: &[&str], expected: Result<&str, &str>| {
        let found: Vec<IpAddr> = addresses
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        let lookup: HostLookup = Arc::new(move |_| {
            let found = found.clone();
            Box::pin(async move { Ok(found) })
        });
        let client = HttpClient::with_lookup(secrets(), lookup).expect("a client");
        let asked = request("GET", &format!("http://{name}:{}/v1/x", server.port()));
        let got = fetch(
            &client,
            &asked,
            &[grant(&format!("{name}:{}", server.port()), &[])],
        );
        match (got, expected) {
            (Ok(response), Ok(body)) => assert_eq!(response.body, body.as_bytes()),
            (Err(failed), Err(why)) => {
                assert_eq!(
                    (failed.error.kind, failed.sent),
                    (Denied, RequestSent::No),
                    "{}",
                    failed.error.message
                );
                assert!(
                    failed.error.message.contains(why),
                    "{}",
                    failed.error.message
                );
                for address in addresses {
                    assert!(
                        !failed.error.message.contains(address),
                        "{}",
                        failed.error.message
                    );
                }
            }
            (got, _) => panic!("{name} at {addresses:?}: {got:?}"),
        }
    };
    check("localhost", &["127.0.0.1"], Ok("private"));
    check(
        "rebound.example.com",
        &["127.0.0.1"],
        Err("`rebound.example.com` is not at a public address"),
    );
    check(
        "rebound.example.com",
        &["10.0.0.1", "127.0.0.1"],
        Err("is not at a public address"),
    );
    check(
        "rebound.example.com",
        &["::ffff:127.0.0.1"],
        Err("not at a public address"),
    );
    check("localhost", &["10.0.0.1"], Err("not at a public address"));
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_name_that_turns_private_is_looked_up_once_for_each_connection_and_checked_each_time() {
    const TURNED: &str = "`localhost` is not at a public address";
    // The name resolves to the first address at the first lookup, and to the other one afterwards.
    let check = |plays: &[HttpServerBehavior], expected: Result<&str, &str>, looks: usize| {
        for redirected in [false, true] {
            let server = HttpTestServer::new(plays);
            let named = format!("http://localhost:{}/v1/x", server.port());
            let sender = HttpTestServer::new([redirects("302 Found", &named)]);
            let first = if redirected {
                sender.url("/v1/x")
            } else {
                named
            };
            let looked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&looked);
            let lookup: HostLookup = Arc::new(move |_| {
                let found =
                    [[127, 0, 0, 1], [10, 0, 0, 1]][counted.fetch_add(1, Ordering::SeqCst).min(1)];
                Box::pin(async move { Ok(vec![found.into()]) })
            });
            let client = HttpClient::with_lookup(secrets(), lookup).expect("a client");
            let grants = [
                grant(&format!("localhost:{}", server.port()), &[]),
                local(&sender),
            ];
            let got = fetch(&client, &request("GET", &first), &grants);
            assert_eq!(looked.load(Ordering::SeqCst), looks, "{first}");
            match (got, expected) {
                (Ok(response), Ok(body)) => assert_eq!(response.body, body.as_bytes()),
                (Err(failed), Err(why)) => {
                    assert_eq!(failed.error.kind, Denied, "{}", failed.error.message);
                    assert!(
                        failed.error.message.contains(why),
                        "{}",
                        failed.error.message
                    );
                }
                (got, _) => panic!("{first}: {got:?}"),
            }
            // The connection uses the address of the first lookup. The second lookup led to none.
            assert_eq!(server.seen().len(), 1);
        }
    };
    check(&[respond_with("here")], Ok("here"), 1);
    check(
        &[redirects("302 Found", "/v1/again"), respond_with("again")],
        Err(TURNED),
        2,
    );
}
