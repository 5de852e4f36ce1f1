//! What is read from a file of replies, and the errors in it.

use std::io::Write;
use std::path::Path;

use strata_base::advice::Hint;
use tempfile::NamedTempFile;

use super::{ScriptedAnswer, read_replies_file};

fn file(source: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(source.as_bytes()).expect("room for it");
    file
}

#[test]
fn data_and_tool_calls_become_json() {
    let source = r#"
        [[reply]]
        data = { title = "Snake", size = [10, 1.5], on = 2026-01-02, ok = true }
        tool_calls = [
            { name = "add", arguments = { b = 2, a = 1 } },
            { id = "x", name = "now" },
            { name = "raw", arguments = '{ "a": 1 }' },
        ]
    "#;
    let file = file(source);
    let entries = read_replies_file(file.path()).unwrap_or_else(|e| panic!("{e}"));
    let ScriptedAnswer::Reply(reply) = &entries[0].answer else {
        panic!("{:?}", entries[0]);
    };
    let data = r#"{"ok":true,"on":"2026-01-02","size":[10,1.5],"title":"Snake"}"#;
    assert_eq!(
        (reply.text.as_str(), reply.data.as_deref()),
        (data, Some(data))
    );
    let calls = reply.tool_calls.iter();
    let calls = calls.map(|c| (c.id.as_deref(), c.name.as_str(), c.arguments.as_str()));
    let expected = [
        (None, "add", r#"{"a":1,"b":2}"#),
        (Some("x"), "now", "{}"),
        (None, "raw", r#"{"a":1}"#),
    ];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[test]
fn mistakes_in_the_file_show_their_place() {
    let check = |source: &str, place: (usize, usize), expected: &str| {
        let problems = read_replies_file(file(source).path()).expect_err(source);
        let first = problems.iter().next().expect("a problem");
        let (found, _) = first.location().expect("a location");
        assert_eq!(found, place, "{problems}");
        let text = format!(
            "{}; {}",
            first.message(),
            first
                .hints()
                .first()
                .map(Hint::to_string)
                .unwrap_or_default()
        );
        assert!(text.contains(expected), "{text}");
    };
    check("", (1, 1), "a replies file needs `reply`; add `[[reply]]`");
    check("reply = []", (1, 9), "holds no replies");
    check("[[reply]]\ntxt = 'x'", (2, 1), "did you mean `text`?");
    check("[[replies]]\ntext = 'x'", (1, 3), "did you mean `reply`?");
    check(
        "[[reply]]\ntext = 'x'\nmatch = '(a'",
        (3, 9),
        "not a regular expression: unclosed group; put a backslash",
    );
    check(
        "[[reply]]\ntext = 'x'\n\n[[reply]]\nmatch = 'é'",
        (4, 1),
        "`[[reply]]` needs `text`, `data` or `tool_calls`",
    );
    check("[[reply]]\ntext = 'é' 'x'", (2, 12), "not valid TOML");
    check("[[reply]]\ntext = 'x'\ntimes = 0", (3, 9), "cannot be `0`");
    check("[[reply]]\ntext = 'x'\ninput = -1", (3, 9), "from 0");
    check(
        "[[reply]]\ntext = 'x'\nstatus = 99",
        (3, 10),
        "`status` cannot be `99`; expected a whole number from 100 to 599",
    );
    check(
        "[[reply]]\ntext = 'x'\ndelay = '2 parsecs'",
        (3, 9),
        "cannot be the duration `2 parsecs`",
    );
    check("[[reply]]\ntext = 'x'\ndelay = '-1s'", (3, 9), "duration");
    check(
        "[[reply]]\ndata = { a = [inf] }",
        (2, 15),
        "the number `inf`",
    );
    check(
        "[[reply]]\ntool_calls = [{ name = 'a', arguments = '{' }]",
        (2, 41),
        "not a JSON document",
    );
    check(
        "[[reply]]\ntool_calls = [{ arguments = {} }]",
        (2, 15),
        "a tool call needs `name`",
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = read_replies_file(Path::new("no/such/replies.toml")).expect_err("no file");
    let text = error.to_string();
    assert!(
        text.contains("`no/such/replies.toml`")
            && text.contains("is `replies` of its model right?"),
        "{text}"
    );
}
