//! Who gets which files.

use deal_files::{DealFiles, Dealt};
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind};

fn call(workers: &[&str]) -> Call {
    Call::new().news("count").config(json!({ "directory": "/in/", "workers": workers }))
}

#[test]
fn files_are_dealt_in_turns_and_nobody_goes_without_a_message() {
    let mut host = Host::new().file("/in/c", "").file("/in/a", "").file("/in/b/x", "").file("/in/b/y", "");
    let output = host.run::<DealFiles>(call(&["W1", "W2", "W3"])).expect("dealt");
    assert_eq!(output.content, "dealt 4 files to 3 workers");
    assert_eq!(output.data, Some(Dealt { files: 4, workers: 3 }));
    let dealt: Vec<(String, Value)> = host
        .emitted()
        .iter()
        .map(|e| (e.to.join("+"), serde_json::from_str(e.data.as_ref().expect("data")).expect("json")))
        .collect();
    let expected = [("W1", json!(["/in/a", "/in/c"])), ("W2", json!(["/in/b/x"])), ("W3", json!(["/in/b/y"]))];
    assert_eq!(dealt, expected.map(|(to, files)| (to.to_owned(), json!({ "files": files }))));
    host.run::<DealFiles>(call(&["1", "2", "3", "4", "5"])).expect("dealt");
    assert_eq!(host.emitted().last().expect("an emission").content, "no files");
}

#[test]
fn what_cannot_be_dealt_is_refused() {
    let full = (0..10_001).fold(Host::new(), |host, i| host.file(&format!("/in/{i}"), ""));
    let deep = (0..20).fold(Host::new(), |host, i| host.file(&format!("/in{}/x", "/d".repeat(i)), ""));
    let cases = [
        (Host::new(), &["W"][..], FailureKind::Denied, "/in"),
        (Host::new().file("/in/a", ""), &[], FailureKind::Error, "no `workers`"),
        (full, &["W"], FailureKind::Error, "more than 10000 files"),
        (deep, &["W"], FailureKind::Error, "16 directories deep"),
    ];
    for (mut host, workers, kind, expected) in cases {
        let failure = host.run::<DealFiles>(call(workers)).expect_err(expected);
        assert_eq!(failure.kind, kind, "{}", failure.message);
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert!(host.emitted().is_empty());
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [DealFiles::CONFIG_SCHEMA, DealFiles::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
