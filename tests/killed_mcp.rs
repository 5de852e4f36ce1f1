//! A role whose model calls tools of an MCP server is killed after each event: no call that was answered is sent
//! again, a write is in doubt exactly if its answer was lost, and the replay needs no server.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::crash::in_parallel;
use crate::stream;
use crate::workspace::Workspace;

/// The server, which all tests with servers share.
pub const SERVER: &str = include_str!("fixtures/mcp/server.py");

const TEAM: &str = r#"
schema = "strata.team/1"

[team]
name = "library"
idea = "look it up"

[llm]
provider = "scripted"
replies = "replies.toml"

[mcp.pages]
command = ["python3", "server.py"]

[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
[[role.tool]]
mcp = "pages"
tools = ["*"]
[[role.action]]
name = "shelve"
component = "probe.wasm"
config = { steps = [
  { mcp = "pages/read_page", arguments = { n = 10 } }, { mcp = "pages/order", arguments = { n = 11 } },
  { tool = "pages/read_page", arguments = { n = 12 } }, { tool = "pages/put_page", arguments = { n = 13 } },
  { say = "{reads}" },
] }
[role.action.allow]
mcp = [{ server = "pages", tools = ["read_page", "order"] }]
tools = ["pages/*"]
"#;

const REPLIES: &str = r#"
[[reply]]
turn = 0
tool_calls = [
  { name = "pages__read_page", arguments = { n = 1 } }, { name = "pages__order", arguments = { n = 2 } },
]
[[reply]]
turn = 1
tool_calls = [{ name = "pages__ask", arguments = { n = 3 } }]
[[reply]]
turn = 2
tool_calls = [{ name = "pages__put_page", arguments = { n = 4 } }, { name = "shelve", arguments = {} }]
[[reply]]
turn = 3
text = "done"
"#;

const ANSWER: &str = r#"ask-0-0-1-0-0={"name": "bob"}"#;
/// The maximum number of resumes until the run ends.
const RESUMES: usize = 8;
/// How many calls the team makes. One of them is sent twice, because the server asks.
const CALLS: usize = 8;

struct Library(Workspace);

impl Library {
    fn new() -> Self {
        let workspace = Workspace::with(TEAM);
        workspace.write("replies.toml", REPLIES);
        workspace.write("server.py", SERVER);
        Self(workspace)
    }

    fn resume(&self, more: &[&str]) -> Option<i32> {
        let resume = ["run", "--recover_path", "store"];
        self.0.host(&[&resume, more].concat()).code
    }

    /// Returns the calls that were sent: tool and arguments.
    fn sent(&self) -> Vec<String> {
        if !self.0.path("calls.txt").exists() {
            return Vec::new();
        }
        let log = String::from_utf8(self.0.read("calls.txt")).expect("a text");
        let without_key = |line: &str| Some(line.rsplit_once(' ')?.0.to_owned());
        log.lines().filter_map(without_key).collect()
    }

    /// Continues the run to its end. Returns how many times a call was in doubt.
    fn finish(&self) -> usize {
        let (mut code, mut doubts) = (self.resume(&[]), 0);
        for _ in 0..RESUMES {
            code = match code {
                Some(0) => return doubts,
                Some(4) => self.resume(&["--answer", ANSWER]),
                Some(10) => {
                    doubts += 1;
                    self.resume(&["--in-doubt", "redo"])
                }
                other => panic!("exit code {other:?}"),
            };
        }
        panic!("it never ends");
    }
}

/// Returns the calls whose answers are recorded, by tool and arguments.
fn answered(events: &[Value]) -> BTreeSet<String> {
    let calls = stream::of_kind(events, "host-call").into_iter();
    let calls = calls.filter(|event| event["call"] == "mcp");
    let name = |event: &Value| {
        let request = stream::text(&event["what"]).to_owned();
        request.trim_start_matches("pages/").to_owned()
    };
    calls.map(name).collect()
}

/// Returns how many writes that must not be repeated were begun without a recorded answer or question.
fn lost_answers(events: &[Value]) -> usize {
    let of_kind = |kind, key: &str| {
        let events = stream::of_kind(events, kind).into_iter();
        let events = events.filter(|event| event["source"] != "recorded");
        let names = events.filter_map(|event| event[key].as_str());
        names.filter(|name| is_write(name)).count()
    };
    of_kind("host-call-begun", "what")
        - of_kind("host-call", "what")
        - of_kind("request-opened", "tool")
}

/// Returns whether a call is one that must not be repeated.
fn is_write(name: &str) -> bool {
    let name = name.trim_start_matches("pages/");
    name.starts_with("order") || name.starts_with("ask")
}

/// Which process of the run is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    First,
    /// The one that goes on after the answer of the person.
    Answered,
}

fn check(killed: Killed, n: usize) {
    let library = Library::new();
    let mut process = match killed {
        Killed::First => library.0.start_run(&[]),
        Killed::Answered => {
            assert_eq!(library.0.run().code, Some(4));
            let resume = ["run", "--recover_path", "store", "--answer", ANSWER];
            library.0.start(&[&resume[..], &["--events", "-"]].concat())
        }
    };
    for _ in 0..n {
        if process.next().is_none() {
            break;
        }
    }
    process.kill();
    let (events, before) = (library.0.recorded(), library.sent().len());
    let (answered, lost) = (answered(&events), lost_answers(&events));
    let doubts = library.finish();
    assert_eq!(doubts, lost, "after event {n} of {killed:?}");
    let sent = library.sent();
    for again in &sent[before..] {
        assert!(
            !answered.contains(again),
            "{again} is sent again after event {n} of {killed:?}"
        );
    }
    // What was on its way is sent again, if it may be.
    assert!(sent.len() <= CALLS + 1 + 2, "{sent:?}");
    std::fs::remove_file(library.0.path("server.py")).expect("the server");
    let replay = library.0.host(&["replay", "store", "--verify"]);
    replay.expect(0);
}

#[test]
fn a_role_killed_after_any_event_sends_no_call_of_a_server_again_that_was_answered() {
    let library = Library::new();
    assert_eq!(library.0.run().code, Some(4));
    let first = library.0.recorded().len();
    assert_eq!(library.resume(&["--answer", ANSWER]), Some(0));
    let events = library.0.recorded();
    assert_eq!(answered(&events).len(), CALLS);
    assert_eq!(library.sent().len(), CALLS + 1);
    in_parallel(events.len(), |n| {
        if n < first {
            check(Killed::First, n + 1);
        } else {
            check(Killed::Answered, n + 1 - first);
        }
    });
}
