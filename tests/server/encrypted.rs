//! A server with a certificate: which protocol it speaks. Where `openssl` is not installed, the test is skipped, and says so.

use std::io::Write;
use std::process::{Command, Stdio};

use super::ASKING;
use super::client::TestServer;
use crate::skipped::skip;
use crate::workspace::Workspace;

/// Sends a request over an encrypted connection of a client that knows these protocols, and returns what was said.
fn request(server: &TestServer, protocols: &str) -> String {
    let address = format!("127.0.0.1:{}", server.client().port);
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-alpn", protocols])
        .args(["-ign_eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let head = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    // A client that is refused has ended.
    let _ = client.stdin.take().unwrap().write_all(head.as_bytes());
    let output = client.wait_with_output().unwrap();
    let texts = [output.stdout, output.stderr];
    let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
    texts.concat()
}

#[test]
fn an_encrypted_connection_speaks_http_1_and_a_client_that_does_not_is_refused() {
    let place = Workspace::with(ASKING);
    let (key, certificate) = (place.path("key.pem"), place.path("certificate.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return skip("openssl is not installed");
    }
    let files = ["--tls-cert", "certificate.pem", "--tls-key", "key.pem"];
    let server = TestServer::start_in(place, &files);
    for protocols in ["http/1.1", "h2,http/1.1"] {
        let said = request(&server, protocols);
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains("HTTP/1.1 200 OK"), "{said}");
    }
    let refused = request(&server, "h2");
    assert!(refused.contains("no application protocol"), "{refused}");
    assert!(!refused.contains("HTTP/1.1"), "{refused}");
}
