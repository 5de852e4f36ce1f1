//! What a line looks like. That `count` agrees with what is translated is asserted wherever the
//! driver passes lines on, in every test that runs a team.

use serde_json::json;

use super::*;

#[test]
fn a_line_begins_with_its_number_time_and_kind() {
    let check = |event: PublicEvent, expected: &str| {
        let line = EventLine {
            n: 7,
            time_ms: 1,
            event,
        };
        assert_eq!(line.to_json(), expected);
    };
    let action = ActionRef {
        step: 2,
        role: "R".to_owned(),
        index: 0,
        action: "a".to_owned(),
        turn: None,
        tool_call: None,
        nested: None,
        via: None,
    };
    check(
        PublicEvent::StepStarted { step: 3 },
        r#"{"n":7,"time":"1970-01-01T00:00:00.001Z","kind":"step-started","step":3}"#,
    );
    check(
        PublicEvent::ActionStarted {
            action: action.clone(),
            attempt: 1,
            digest: None,
        },
        r#"{"n":7,"time":"1970-01-01T00:00:00.001Z","kind":"action-started","step":2,"role":"R","index":0,"action":"a","attempt":1,"digest":null}"#,
    );
    check(
        PublicEvent::FilesWritten {
            action,
            files: vec![WrittenFile {
                path: "p".to_owned(),
                change: WrittenContent::Written {
                    bytes: 3,
                    digest: "d".to_owned(),
                },
            }],
        },
        r#"{"n":7,"time":"1970-01-01T00:00:00.001Z","kind":"files-written","step":2,"role":"R","index":0,"action":"a","files":[{"path":"p","change":"written","bytes":3,"digest":"d"}]}"#,
    );
}

#[test]
fn the_schema_accepts_what_is_written_and_nothing_without_a_kind() {
    let schema = jsonschema::validator_for(&json_schema()).unwrap();
    let line = EventLine {
        n: 1,
        time_ms: 0,
        event: PublicEvent::RunStarted {
            run: "r".to_owned(),
            idea: "i".to_owned(),
        },
    };
    assert!(schema.is_valid(&serde_json::to_value(&line).unwrap()));
    assert!(!schema.is_valid(&json!({ "n": 1, "time": "1970-01-01T00:00:00.000Z" })));
    assert!(!schema.is_valid(&json!({ "n": 1, "time": "", "kind": "run-started", "run": 1 })));
}
