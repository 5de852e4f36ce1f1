//! Tests of HTTP, secrets and variables: what is not granted is refused before a request is made.

use strata_core::record::fault::FaultKind;
use strata_host::plugin::Grants;
use strata_host::plugin::http::{HostPattern, HttpGrant};
use strata_host::sandbox::ReturnValue;

use crate::driver::{call, limits, plugin, run};
use crate::guest;

/// The request that a guest makes.
pub struct TestHttpRequest<'a> {
    method: &'a str,
    url: &'a str,
    /// At most one header.
    header: Option<(&'a str, &'a str)>,
    secret: Option<&'a str>,
    key: Option<&'a str>,
    body_bytes: usize,
}

impl Default for TestHttpRequest<'_> {
    fn default() -> Self {
        Self {
            method: "GET",
            url: "http://api.example.com/v1/x",
            header: None,
            secret: None,
            key: None,
            body_bytes: 0,
        }
    }
}

/// Returns a guest that makes a request and returns the body of the response.
pub fn asking(asked: &TestHttpRequest<'_>) -> Vec<u8> {
    let (name, value) = asked.header.unwrap_or_default();
    let (secret, key) = (
        asked.secret.unwrap_or_default(),
        asked.key.unwrap_or_default(),
    );
    let mut items = String::new();
    // First a list of one header and a list of one secret, then the texts.
    let mut at = 4096;
    let mut place = |text: &str| {
        items.push_str(&format!(
            "(data (i32.const {at}) \"{}\")",
            text.escape_default()
        ));
        at += 1024;
        (at - 1024, text.len())
    };
    let [method, url, name, value, secret, key] =
        [asked.method, asked.url, name, value, secret, key].map(&mut place);
    let pair = |at: i32, text: (i32, usize)| {
        format!(
            "(i32.store (i32.const {at}) (i32.const {})) (i32.store (i32.const {}) (i32.const {}))",
            text.0,
            at + 4,
            text.1
        )
    };
    let body = (i32::from(asked.body_bytes > 0), asked.body_bytes);
    let run = format!(
        "{} {} {}
         (call $fetch (i32.const {}) (i32.const {}) (i32.const {}) (i32.const {})
            (i32.const 3072) (i32.const {}) (i32.const {}) (i32.const 0) (i32.const {})
            (i32.const 3088) (i32.const {}) (i32.const 0) (i32.const 0)
            (i32.const {}) (i32.const {}) (i32.const {}) (i32.const 2048))
         (call $told (i32.const 12))",
        pair(3072, name),
        pair(3080, value),
        pair(3088, secret),
        method.0,
        method.1,
        url.0,
        url.1,
        i32::from(asked.header.is_some()),
        body.0,
        body.1,
        i32::from(asked.secret.is_some()),
        i32::from(asked.key.is_some()),
        key.0,
        key.1,
    );
    guest::Guest {
        items: &items,
        run: &run,
        memory: "160",
        ..guest::Guest::default()
    }
    .build()
}

fn grant() -> Grants {
    let http = HttpGrant {
        host: HostPattern::parse("api.example.com").expect("a host"),
        methods: vec!["GET".into(), "POST".into()],
        path: "/v1/*".into(),
        secrets: vec!["TOKEN".into()],
        headers: vec!["x-real-ip".into()],
    };
    Grants {
        http: vec![http],
        secrets: vec!["OTHER".into()],
        env: vec!["PATH".into(), "NONE_SUCH".into()],
        ..Grants::default()
    }
}

fn run_with_grants(guest: &[u8], grants: Grants) -> Result<String, (FaultKind, String)> {
    let mut plugin = plugin(limits());
    plugin.limits.memory_bytes = 32 << 20;
    plugin.grants = grants;
    match run(call(guest, plugin)).result {
        Ok(returned) => match returned.value {
            ReturnValue::Output(draft) => Ok(draft.content),
            other => panic!("not an output: {other:?}"),
        },
        Err(fault) => Err((fault.kind, fault.message)),
    }
}

fn check(asked: &TestHttpRequest<'_>, expected: Result<&str, (FaultKind, &str)>) {
    let got = run_with_grants(&asking(asked), grant());
    let what = format!("{} {} {:?}", asked.method, asked.url, asked.header);
    match (&got, expected) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{what}"),
        (Err((kind, message)), Err((expected, part))) => {
            assert_eq!(*kind, expected, "{what}: {message}");
            assert!(message.contains(part), "{what}: {message}");
        }
        _ => panic!("{what}: {got:?}"),
    }
}

#[test]
fn a_request_is_made_only_where_it_is_granted() {
    let denied = |part| Err((FaultKind::Denied, part));
    check(
        &TestHttpRequest::default(),
        Ok("GET http://api.example.com/v1/x"),
    );
    check(
        &TestHttpRequest {
            method: "POST",
            body_bytes: 9,
            ..TestHttpRequest::default()
        },
        Ok("POST http://api.example.com/v1/x"),
    );
    check(
        &TestHttpRequest {
            method: "PUT",
            ..TestHttpRequest::default()
        },
        denied("`PUT http://api.example.com/v1/x` is not granted"),
    );
    check(
        &TestHttpRequest {
            url: "https://api.example.com/v1/x#part",
            ..TestHttpRequest::default()
        },
        Ok("GET https://api.example.com/v1/x"),
    );
    check(
        &TestHttpRequest {
            url: "http://api.example.com/v2/x",
            ..TestHttpRequest::default()
        },
        denied("is not granted"),
    );
    check(
        &TestHttpRequest {
            url: "http://api.example.com/v1/../v2/x",
            ..TestHttpRequest::default()
        },
        denied("is not granted"),
    );
    check(
        &TestHttpRequest {
            url: "http://api.example.com/v1/..%2fv2/x",
            ..TestHttpRequest::default()
        },
        denied("several ways"),
    );
    check(
        &TestHttpRequest {
            url: "http://evil.org/v1/x",
            ..TestHttpRequest::default()
        },
        denied("host = \"evil.org\""),
    );
    check(
        &TestHttpRequest {
            secret: Some("TOKEN"),
            ..TestHttpRequest::default()
        },
        Ok("GET http://api.example.com/v1/x"),
    );
    check(
        &TestHttpRequest {
            secret: Some("OTHER"),
            ..TestHttpRequest::default()
        },
        denied("the secret `OTHER` is not granted for"),
    );
    let (kind, message) =
        run_with_grants(&asking(&TestHttpRequest::default()), Grants::default()).unwrap_err();
    assert_eq!(kind, FaultKind::Denied);
    assert!(message.contains("add to `allow.http`"), "{message}");
}

#[test]
fn a_header_that_cannot_be_set_says_why() {
    let invalid = |part| Err((FaultKind::Error, part));
    let header = |name, value| TestHttpRequest {
        header: Some((name, value)),
        ..TestHttpRequest::default()
    };
    check(
        &header("X-Mine", "1"),
        Ok("GET http://api.example.com/v1/x x-mine=1"),
    );
    check(
        &header("Idempotency-Key", "k"),
        Ok("GET http://api.example.com/v1/x"),
    );
    check(
        &header("Idempotency_Key", "k"),
        Ok("GET http://api.example.com/v1/x"),
    );
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Accept-Encoding",
        "Proxy-Authorization",
        "Proxy",
        "transfer_encoding",
    ] {
        check(
            &header(name, "1"),
            Err((FaultKind::Denied, "is the host's")),
        );
    }
    for name in [
        "X-HTTP-Method-Override",
        "x_http_method_override",
        "X-Original-URL",
        "X-Forwarded-For",
        "Via",
    ] {
        check(
            &header(name, "1"),
            Err((
                FaultKind::Denied,
                "servers may take the request for another one",
            )),
        );
    }
    check(
        &header("X_Real_IP", "1"),
        Ok("GET http://api.example.com/v1/x x_real_ip=1"),
    );
    check(&header("a b", "1"), invalid("is not the name of a header"));
    check(&header("", "1"), invalid("is not the name of a header"));
    check(&header("a", "b\r\nc: d"), invalid("no header can carry"));
}

#[test]
fn a_request_with_another_method_address_key_or_body_than_http_has_says_why() {
    let invalid = |part| Err((FaultKind::Error, part));
    check(
        &TestHttpRequest {
            method: "get",
            ..TestHttpRequest::default()
        },
        invalid("`get` is not a method"),
    );
    check(
        &TestHttpRequest {
            method: "CONNECT",
            ..TestHttpRequest::default()
        },
        invalid("is not a method that can be asked for"),
    );
    check(
        &TestHttpRequest {
            method: "",
            ..TestHttpRequest::default()
        },
        invalid("is not a method"),
    );
    check(
        &TestHttpRequest {
            url: "api.example.com/v1/x",
            ..TestHttpRequest::default()
        },
        invalid("address cannot be read"),
    );
    check(
        &TestHttpRequest {
            url: "file:///etc/passwd",
            ..TestHttpRequest::default()
        },
        invalid("scheme `file`"),
    );
    check(
        &TestHttpRequest {
            url: "http://u:p@api.example.com/v1/x",
            ..TestHttpRequest::default()
        },
        invalid("holds credentials"),
    );
    check(
        &TestHttpRequest {
            key: Some(""),
            ..TestHttpRequest::default()
        },
        invalid("an idempotency key has 1 to 255"),
    );
    check(
        &TestHttpRequest {
            key: Some("a\nb"),
            ..TestHttpRequest::default()
        },
        invalid("an idempotency key has 1 to 255"),
    );
    check(
        &TestHttpRequest {
            method: "POST",
            body_bytes: (8 << 20) + 1,
            ..TestHttpRequest::default()
        },
        invalid("at most 8 MiB are sent"),
    );
}

/// Returns a guest that calls a function with a name, and returns the text at `skip` bytes into the
/// answer.
fn calling_with_name(function: &str, name: &str, skip: u32) -> Vec<u8> {
    let length = name.len();
    guest::with(
        &format!(r#"(data (i32.const 4096) "{name}")"#),
        &format!(
            "(call ${function} (i32.const 4096) (i32.const {length}) (i32.const 2048)) (call $told (i32.const {skip}))"
        ),
    )
}

/// Returns a guest that requests the placeholder of a secret.
pub fn placeholder(name: &str) -> Vec<u8> {
    calling_with_name("placeholder", name, 0)
}

/// Returns a guest that reads a variable.
pub fn variable(name: &str) -> Vec<u8> {
    calling_with_name("variable", name, 4)
}

#[test]
fn a_secret_is_a_placeholder_and_a_variable_its_value_where_they_are_granted() {
    assert_eq!(
        run_with_grants(&placeholder("TOKEN"), grant()).unwrap(),
        "{{secret:TOKEN}}"
    );
    assert_eq!(
        run_with_grants(&placeholder("OTHER"), grant()).unwrap(),
        "{{secret:OTHER}}"
    );
    let (kind, message) = run_with_grants(&placeholder("PATH"), grant()).unwrap_err();
    assert_eq!(
        (kind, message.contains("`allow.secrets`")),
        (FaultKind::Denied, true),
        "{message}"
    );
    assert_eq!(
        run_with_grants(&variable("PATH"), grant()).unwrap(),
        std::env::var("PATH").unwrap()
    );
    let (kind, message) = run_with_grants(&variable("TOKEN"), grant()).unwrap_err();
    assert_eq!(
        (kind, message.contains("`allow.env`")),
        (FaultKind::Denied, true),
        "{message}"
    );
}
