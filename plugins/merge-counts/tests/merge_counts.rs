//! Tests how the counts of the workers are added up.

use merge_counts::{MergeCounts, Totals};
use serde_json::{Value, json};
use strata_action::testing::{Call, Host};
use strata_action::{Action, FailureKind, Message};

fn call(counts: &[Value]) -> Call {
    let call = Call::new().config(json!({ "path": "/out/words.md", "top": 2 }));
    counts.iter().fold(call, |call, counts| {
        call.message(Message {
            data: Some(counts.to_string()),
            ..Message::new("CountWords", "")
        })
    })
}

#[test]
fn counts_are_added_whichever_worker_counted() {
    let one =
        json!({ "files": { "/in/b": 3 }, "skipped": ["/in/x|y"], "words": { "the": 2, "fox": 1 } });
    let two = json!({ "files": { "/in/a": 3 }, "skipped": [], "words": { "the": 1, "crow": 1, "ant": 1 } });
    let none = json!({ "files": {}, "words": {} });
    let expected = "# Words\n\n| file | words |\n|---|---:|\n| /in/a | 3 |\n| /in/b | 3 |\n| /in/x\\|y | no text |\n\n\
        | word | times |\n|---|---:|\n| the | 3 |\n| ant | 1 |\n";
    for counts in [[&one, &two, &none], [&two, &none, &one]] {
        let mut host = Host::new().writable("/out");
        let output = host
            .run::<MergeCounts>(call(&counts.map(Clone::clone)))
            .expect("merged");
        assert_eq!(
            output.content,
            "6 words in 2 files, 4 of them different: `/out/words.md`"
        );
        assert_eq!(
            output.data,
            Some(Totals {
                files: 2,
                words: 6,
                different: 4,
                path: "/out/words.md".into()
            })
        );
        assert_eq!(
            String::from_utf8_lossy(host.content("/out/words.md").expect("a table")),
            expected
        );
    }
}

#[test]
fn an_input_that_cannot_be_merged_is_rejected() {
    let cases = [
        (
            Host::new(),
            call(&[json!({ "files": {}, "words": {} })]),
            FailureKind::Denied,
            "/out/words.md",
        ),
        (
            Host::new().writable("/out"),
            call(&[json!({ "files": 1 })]),
            FailureKind::Error,
            "the data of message",
        ),
    ];
    for (mut host, call, kind, expected) in cases {
        let failure = host.run::<MergeCounts>(call).expect_err(expected);
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(expected), "{}", failure.message);
    }
}

#[test]
fn the_schemas_are_json() {
    for schema in [MergeCounts::CONFIG_SCHEMA, MergeCounts::OUTPUT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema.expect("a schema")).expect("json");
        assert_eq!(schema["type"], "object");
    }
}
