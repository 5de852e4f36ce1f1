//! Tests of what a grant covers.

use super::*;

fn grant(host: &str, methods: &[&str], path: &str) -> HttpGrant {
    HttpGrant {
        host: HostPattern::parse(host).expect("a host"),
        methods: methods.iter().map(|method| (*method).into()).collect(),
        path: path.into(),
        secrets: vec!["TOKEN".into()],
        headers: Vec::new(),
    }
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_host_matches_as_it_is_written_and_at_its_port() {
    let check = |host: &str, address: &str, expected: bool| {
        let granted = grant(host, &["GET"], DEFAULT_PATH);
        assert_eq!(
            check_grants(&[granted], "GET", &url(address), GrantedParts::default()).is_ok(),
            expected,
            "{host} {address}"
        );
    };
    check("example.com", "https://example.com/", true);
    check("example.com", "http://EXAMPLE.com:80/x", true);
    check("example.com", "https://example.com:8443/", false);
    check("example.com", "https://api.example.com/", false);
    check("example.com", "https://example.com.evil.org/", false);
    check("example.com", "https://evil.org/example.com", false);
    check("EXAMPLE.com:8443", "https://example.com:8443/", true);
    check("example.com:443", "https://example.com/", true);
    check("example.com:443", "http://example.com/", false);
    check("example.com:80", "http://example.com/", true);
    check("example.com:80", "https://example.com/", false);
    check("127.0.0.1:8080", "http://127.0.0.1:8080/", true);
    check("127.0.0.1:8080", "http://127.0.0.1/", false);
    check("127.0.0.1:8080", "http://0x7f.1:8080/", true);
    check("127.0.0.1", "http://127.0.0.2/", false);
    check("[::1]:8080", "http://[::1]:8080/", true);
    check("[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080/", true);
    check("localhost", "http://localhost/", true);
    check("localhost", "http://localhost./", false);
    check("*.example.com", "https://api.example.com/", true);
    check("*.example.com", "https://a.b.example.com/", true);
    check("*.example.com", "https://example.com/", false);
    check("*.example.com", "https://badexample.com/", false);
    check("*.example.com:8443", "https://api.example.com:8443/", true);
    check("*", "https://example.com/", true);
    check("*", "https://example.com:8443/", false);
    check("*", "http://127.0.0.1/", false);
    check("*", "http://[::1]/", false);
    check("*", "http://localhost/", false);
    check("*", "http://metadata/", false);
}

#[test]
fn methods_and_paths_match_whatever_way_the_path_is_written() {
    let check = |methods: &[&str], path: &str, request: (&str, &str), expected: bool| {
        let address = url(&format!("https://example.com{}", request.1));
        let granted = grant("example.com", methods, path);
        let permitted = check_grants(&[granted], request.0, &address, GrantedParts::default());
        assert_eq!(
            permitted.is_ok(),
            expected,
            "{methods:?} {path} {request:?}: {permitted:?}"
        );
    };
    check(&["GET"], "/v1/*", ("GET", "/v1/x"), true);
    check(&["GET"], "/v1/*", ("POST", "/v1/x"), false);
    check(&["GET"], "/v1/*", ("HEAD", "/v1/x"), false);
    check(&["GET", "POST"], "/v1/*", ("POST", "/v1/x"), true);
    check(&["GET"], "/v1/*", ("GET", "/v1/x?to=/v2/"), true);
    check(&["GET"], "/v1/*", ("GET", "/v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1"), false);
    check(&["GET"], "/v1/*", ("GET", "/V1/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/../v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/%2e%2e/v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/%2E./v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/..%2fv2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/..%5cv2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/..\\v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/%252e%252e/v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/..;/v2/x"), false);
    check(&["GET"], "/v1/*", ("GET", "//v1/x"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1//x"), true);
    check(&["GET"], "/v1/*", ("GET", "/v1/a%20b"), true);
    check(&["GET"], "/v1/*", ("GET", "/v1/a%2fb"), true);
    check(&["GET"], "/v1/*", ("GET", "/v1/a%00b"), false);
    check(&["GET"], "/v1/*", ("GET", "/v1/./x"), true);
    check(&["GET"], "/v1/x", ("GET", "/v2/../v1/x"), true);
    check(&["GET"], "/v1/x", ("GET", "/v1/x/"), false);
    check(&["GET"], "/v1/*/end", ("GET", "/v1/a/b/end"), true);
    check(&["GET"], DEFAULT_PATH, ("GET", "/"), true);
}

#[test]
fn a_secret_goes_only_where_an_entry_names_it() {
    let plain = HttpGrant {
        secrets: Vec::new(),
        ..grant("example.com", &["GET"], "/*")
    };
    let grants = [plain, grant("example.com", &["GET"], "/v1/*")];
    let check = |path: &str, secrets: &[&str], expected: &str| {
        let names: Vec<String> = secrets.iter().map(|name| (*name).into()).collect();
        let permitted = check_grants(
            &grants,
            "GET",
            &url(&format!("https://example.com{path}")),
            GrantedParts {
                secrets: &names,
                headers: &[],
            },
        );
        let told = permitted.map_or_else(|refusal| refusal.to_string(), |()| "ok".into());
        assert!(told.contains(expected), "{path} {secrets:?}: {told}");
    };
    check("/v1/x", &["TOKEN"], "ok");
    check("/v2/x", &[], "ok");
    check(
        "/v2/x",
        &["TOKEN"],
        "the secret `TOKEN` is not granted for `example.com`",
    );
    check(
        "/v1/x",
        &["TOKEN", "OTHER"],
        "the secret `OTHER` is not granted",
    );
}

#[test]
fn a_header_that_makes_another_request_of_it_goes_only_where_an_entry_names_it() {
    let named = |headers: &[&str]| HttpGrant {
        headers: headers.iter().map(|name| header::normalize(name)).collect(),
        ..grant("example.com", &["GET"], "/v1/*")
    };
    let plain = "accept authorization content-type cookie if-none-match origin prefer range referer user-agent x-api-key \
                 x-request-id x-goog-upload-protocol x-method-of-payment";
    let redirecting = "x-http-method-override X-HTTP-Method x_method_override x.http_method.override x-original-method \
                       x-original-url X_Original_Url x-original-uri x-rewrite-url x-envoy-original-path x-forwarded-path \
                       x-forwarded-prefix x-forwarded-for x_forwarded_proto x-forwarded-anything forwarded Forwarded-For \
                       x-host x-http-host-override x-original-host x-real-ip true-client-ip cf-connecting-ip via \
                       destination x-amz-copy-source x-ms-rename-source script-name remote_user";
    let connection = "Host host connection Keep-Alive te trailer transfer-encoding transfer_encoding upgrade \
                      content-length content_length expect accept-encoding proxy-authorization Proxy_Connection Proxy proxy_";
    let check = |headers: &str, grants: &[HttpGrant], expected: bool| {
        for name in headers.split_whitespace() {
            let carried = GrantedParts {
                secrets: &[],
                headers: &[name],
            };
            let permitted = check_grants(grants, "GET", &url("https://example.com/v1/x"), carried);
            assert_eq!(permitted.is_ok(), expected, "{name}");
            let told = permitted.map_or_else(|refusal| refusal.to_string(), |()| name.into());
            assert!(told.contains(name), "{told}");
        }
    };
    check(plain, &[named(&[])], true);
    let all: Vec<&str> = [redirecting, connection]
        .iter()
        .flat_map(|names| names.split_whitespace())
        .collect();
    check(redirecting, &[named(&["x-other"])], false);
    check(redirecting, &[named(&all)], true);
    check(connection, &[named(&all)], false);
    // The grant for another path names it, but not this one.
    let elsewhere = HttpGrant {
        path: "/v2/*".into(),
        ..named(&all)
    };
    check(redirecting, &[named(&[]), elsewhere], false);
}

#[test]
fn a_refusal_names_the_entry_to_add_and_no_query() {
    let refusal = check_grants(
        &[],
        "POST",
        &url("http://127.0.0.1:8080/v1/x?key=abc"),
        GrantedParts::default(),
    )
    .unwrap_err();
    let expected = "`POST http://127.0.0.1:8080/v1/x` is not granted; add to `allow.http`: \
                    `{ host = \"127.0.0.1:8080\", methods = [\"POST\"], path = \"/v1/x\" }`";
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn hosts_that_are_none_are_refused_and_others_print_as_they_are_meant() {
    let check = |text: &str, expected: Option<&str>| {
        let shown = HostPattern::parse(text)
            .ok()
            .map(|pattern| pattern.to_string());
        assert_eq!(shown.as_deref(), expected, "{text}");
    };
    check("example.com", Some("example.com"));
    check("Example.COM:8443", Some("example.com:8443"));
    check("example.com:80", Some("example.com:80"));
    check("[::1]:80", Some("[::1]:80"));
    check("*.example.com", Some("*.example.com"));
    check("*:8443", Some("*:8443"));
    check("*", Some("*"));
    for text in [
        "",
        "a/b",
        "a@b",
        "http://a",
        "a b",
        "*a.com",
        "a.*",
        "a*",
        "*.",
        "*.1.2.3.4",
        "a:99999",
        "a?b",
        "**",
    ] {
        check(text, None);
    }
}
