//! Tests of base addresses of endpoints.

use super::*;

#[test]
fn base_addresses_lead_to_completions_or_are_refused() {
    let check = |base: &str, expected: Result<&str, &str>| match (completions_url(base), expected) {
        (Ok(url), Ok(expected)) => assert_eq!(url.as_str(), expected),
        (Err(error), Err(part)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
        (found, _) => panic!("{base}: {found:?} instead of {expected:?}"),
    };
    check(
        "https://a.example/v1",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1//",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/chat/completions",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/chat/completions/",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/chat/completions?api-version=2",
        Ok("https://a.example/chat/completions?api-version=2"),
    );
    check(
        "https://a.example/completions",
        Ok("https://a.example/completions/chat/completions"),
    );
    check(
        "https://a.example/",
        Ok("https://a.example/chat/completions"),
    );
    check(
        "http://[::1]:8080",
        Ok("http://[::1]:8080/chat/completions"),
    );
    check(
        "https://a.example/d/?api-version=2",
        Ok("https://a.example/d/chat/completions?api-version=2"),
    );
    check(
        "https://a.example/v1?key=s3cret",
        Err("`https://a.example/v1` as the model's `base_url`: its query holds more"),
    );
    check("a.example/v1", Err("write it like"));
    check("", Err("write it like"));
    check("ftp://a.example", Err("no HTTP address"));
    check("data:x", Err("no HTTP address"));
    check(
        "https://me:s3cret@a.example",
        Err("`https://…@a.example` as the model's `base_url`: it holds credentials"),
    );
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
