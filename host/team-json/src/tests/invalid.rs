//! Files that cannot be imported, and the errors that name what is wrong.

use serde_json::{Value, json};
use strata_base::scripted_run::team;

use super::super::{ImportError, import, is_finished};
use super::{file, read};

#[test]
fn another_team_is_refused_with_the_differences() {
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut edited = file();
        *edited.pointer_mut(pointer).unwrap() = value;
        match read(&edited) {
            Err(ImportError::Misfit(lines)) => {
                assert!(lines.join("\n").contains(expected), "{lines:?}")
            }
            other => panic!("{pointer}: {other:?}"),
        }
    };
    check(
        "/env/roles/A/states",
        json!(["0. p", "1. r"]),
        "actions of `A` are [`p`, `q`], saved [`p`, `r`]",
    );
    check(
        "/env/roles/A/rc/watch",
        json!(["z"]),
        "watch of `A` is [`UserRequirement`, `y`], saved [`z`]",
    );
    check(
        "/env/roles/A/rc/react_mode",
        json!("react"),
        "react of `A` is by_order, saved react",
    );
    check("/strata/shape/groups", json!({}), "group `pair` is new");
    check(
        "/strata/shape/routes",
        json!(["from `A` to [`B`]"]),
        "route from `A` to [`B`] is missing",
    );
    check("/strata/shape/joins", json!([]), "join `quiet` is new");
    check(
        "/env/roles",
        json!({"A": {"states": ["0. p", "1. q"]}}),
        "role `C` is new",
    );
    let mut edited = file();
    edited["env"]["roles"]["F"] = json!({});
    assert_eq!(
        read(&edited),
        Err(ImportError::Misfit(vec!["role `F` is missing".into()]))
    );
}

/// Documents that cannot be imported, each with a part of the error.
const INVALID_DOCUMENTS: &[(&str, &str)] = &[
    ("", "EOF"),
    ("{ not json", "line 1 column 3"),
    (
        "null",
        "holds no saved team: it is `null`, where a saved team is an object",
    ),
    (
        "[]",
        "holds no saved team: it is a list, where a saved team is an object",
    ),
    (
        "3",
        "holds no saved team: it is a number, where a saved team is an object",
    ),
    (
        "\"x\"",
        "holds no saved team: it is a string, where a saved team is an object",
    ),
    (
        "true",
        "holds no saved team: it is `true` or `false`, where a saved team is an object",
    ),
    ("{}", "`/env` is missing"),
    ("{\"env\": {}}", "`/env/roles` is missing"),
    (
        "{\"env\": {\"roles\": 7}, \"strata\": []}",
        "`/strata` is a list, expected an object",
    ),
    (
        "{\"env\": {\"roles\": 7}}",
        "`/env/roles` is 7, expected an object",
    ),
    (
        "{\"env\": 1, \"env\": 2}",
        "key `env` appears twice at line 1",
    ),
    ("{} {}", "trailing characters"),
    ("{\"env\": \"\u{0}\"}", "control character"),
];

/// Values that cannot be imported: the JSON pointer of each, the value as JSON, and a part of the error.
const INVALID_VALUES: &[(&str, &str, &str)] = &[
    (
        "/strata/schema",
        r#""strata.state/99""#,
        "schema `strata.state/99` is newer than `strata.state/1`",
    ),
    (
        "/strata/schema",
        r#""other/1""#,
        "`/strata/schema` is not the name of a schema",
    ),
    (
        "/strata/schema",
        "1",
        "`/strata/schema` is 1, expected a text",
    ),
    (
        "/strata/step",
        "-1",
        "`/strata/step` is -1, expected a whole number",
    ),
    (
        "/strata/step",
        "1e300",
        "`/strata/step` is 1e+300, expected a whole number",
    ),
    (
        "/strata/checkpoints",
        "18446744073709551615",
        "`/strata/checkpoints` is 18446744073709551615",
    ),
    (
        "/strata/status",
        r#""sleeping""#,
        "`/strata/status` is the text `sleeping`",
    ),
    (
        "/strata/buffers/A",
        r#"["../x"]"#,
        "`/strata/buffers/A/0` names message `../x`",
    ),
    (
        "/strata/each",
        r#"{"A": 7}"#,
        "`/strata/each/A` is 7, expected a list",
    ),
    (
        "/strata/joins",
        "[]",
        "`/strata/joins` is a list, expected an object",
    ),
    (
        "/strata/joins",
        r#"{"other": {}}"#,
        "`/strata/joins/other` is no join of the team",
    ),
    (
        "/strata/joins/quiet",
        r#"{"queues": {}}"#,
        "`/strata/joins/quiet/queues` is nothing that a join has",
    ),
    (
        "/strata/joins/quiet",
        r#"{"sources": ["C", "A"]}"#,
        "`/strata/joins/quiet` has other sources than the team's",
    ),
    (
        "/strata/joins/quiet",
        r#"{"queue": {"D": []}}"#,
        "`/strata/joins/quiet/queue/D` is no source of the join",
    ),
    (
        "/strata/joins/quiet",
        r#"{"queue": {"A": ["x"]}}"#,
        "`/strata/joins/quiet/queue/A/0` names message `x`",
    ),
    (
        "/strata/open/B~12",
        "[]",
        "`/strata/open/B~12` is a list, expected an object",
    ),
    (
        "/strata/open/B~12/machine",
        "7",
        "`/strata/open/B~12/machine` is 7, expected a text",
    ),
    (
        "/strata/open/B~12/messages",
        r#"["../x"]"#,
        "`/strata/open/B~12/messages/0` names message `../x`",
    ),
    (
        "/strata/budget/max",
        "-5",
        "`/strata/budget/max` is -5, expected an amount of money",
    ),
    (
        "/env/roles/A",
        "[]",
        "`/env/roles/A` is a list, expected an object",
    ),
    (
        "/env/roles/A/rc/memory/storage/0/content",
        "{}",
        "storage/0/content` is an object, expected a text",
    ),
    (
        "/strata/shape",
        "7",
        "`/strata/shape` is 7, expected an object",
    ),
];

#[test]
fn what_cannot_be_read_is_named() {
    let check_document = |text: &str, expected: &str| {
        let error = import(&team(), text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!is_finished(text.as_bytes()).unwrap_or_default());
    };
    for (text, expected) in INVALID_DOCUMENTS {
        check_document(text, expected);
    }
    check_document(&"[".repeat(200_000), "recursion limit exceeded");
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut edited = file();
        *edited.pointer_mut(pointer).unwrap() = value;
        let error = read(&edited).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    for (pointer, value, expected) in INVALID_VALUES {
        check(pointer, serde_json::from_str(value).unwrap(), expected);
    }
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    check(
        "/strata/messages/idea/meta_info",
        json!({ "x": deep }),
        "`/strata/messages/idea/meta_info/x` is nested deeper",
    );
}
