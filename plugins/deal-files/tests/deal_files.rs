//! Tests which worker gets which files.

use deal_files::DealFiles;
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind};

fn call(workers: &[&str]) -> Call {
    Call::new()
        .news("count")
        .config(json!({ "directory": "/in/", "workers": workers }))
}

#[test]
fn files_are_distributed_in_turns_to_all_workers() {
    let mut host = Host::new()
        .file("/in/c", "")
        .file("/in/a", "")
        .file("/in/b/x", "")
        .file("/in/b/y", "");
    let cases = [
        (
            &["W1", "W2", "W3"][..],
            json!({ "W1": ["/in/a", "/in/c"], "W2": ["/in/b/x"], "W3": ["/in/b/y"] }),
        ),
        (
            &["W"],
            json!({ "W": ["/in/a", "/in/b/x", "/in/b/y", "/in/c"] }),
        ),
        (
            &["1", "2", "3", "4", "5"],
            json!({ "1": ["/in/a"], "2": ["/in/b/x"], "3": ["/in/b/y"], "4": ["/in/c"], "5": [] }),
        ),
    ];
    for (workers, shares) in cases {
        let output = host.run::<DealFiles>(call(workers)).expect("dealt");
        assert_eq!(
            output.content,
            format!("dealt 4 files to {} workers", workers.len())
        );
        assert_eq!(
            serde_json::to_value(output.data).expect("json"),
            json!({ "shares": shares })
        );
    }
}

#[test]
fn an_invalid_directory_or_worker_is_rejected() {
    let full = (0..10_001).fold(Host::new(), |host, i| host.file(&format!("/in/{i}"), ""));
    let deep = (0..20).fold(Host::new(), |host, i| {
        host.file(&format!("/in{}/x", "/d".repeat(i)), "")
    });
    let cases = [
        (Host::new(), &["W"][..], FailureKind::Denied, "/in"),
        (
            Host::new().file("/in/a", ""),
            &[],
            FailureKind::Error,
            "no `workers`",
        ),
        (full, &["W"], FailureKind::Error, "more than 10000 files"),
        (deep, &["W"], FailureKind::Error, "16 directories deep"),
    ];
    for (mut host, workers, kind, expected) in cases {
        let failure = host.run::<DealFiles>(call(workers)).expect_err(expected);
        assert_eq!(failure.kind, kind, "{}", failure.message);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [DealFiles::CONFIG_SCHEMA, DealFiles::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
