//! A script that calls six tools is killed after each event: no nested call that ended is made again, a
//! write is in doubt exactly if its answer was lost, and the model is told the same.

use serde_json::Value;

use crate::crash::in_parallel;
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// A script with six nested calls: two pages, a write without a key, one that a person approves, and two
/// more pages at once.
const TEAM: &str = r#"
schema = "strata.team/1"

[team]
name = "desk"
idea = "add it up"

[llm]
provider = "scripted"
replies = "replies.toml"

[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"

[[role.action]]
name = "page"
component = "probe.wasm"
config = { steps = [{ http = "http://127.0.0.1:PORT/v1/page", method = "GET" }, { say = "{arguments}" }] }
[role.action.allow]
http = [{ host = "127.0.0.1:PORT", methods = ["GET"], path = "/*" }]

[[role.action]]
name = "order"
component = "probe.wasm"
config = { steps = [{ http = "http://127.0.0.1:PORT/v1/order/20", method = "POST" }, { say = "ordered" }] }
[role.action.allow]
http = [{ host = "127.0.0.1:PORT", methods = ["POST"], path = "/*" }]

[[role.action]]
name = "wipe"
component = "probe.wasm"
approve = true
config = { steps = [{ say = "wiped" }] }

[[role.action]]
name = "script"
component = "probe.wasm"
config = { steps = [
  { tool = "page", arguments = { n = 0 } }, { tool = "page", arguments = { n = 1 } },
  { tool = "order", arguments = {} }, { tool = "wipe", arguments = {} },
  { tool = "page", arguments = { n = 2 } }, { tool = "page", arguments = { n = 3 } },
  { say = "{reads}" },
] }
[role.action.allow]
tools = ["page", "order", "wipe"]
"#;

const REPLIES: &str = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "script", arguments = {} }]
[[reply]]
turn = 1
text = "done"
"#;

const RESULT: &str = r#"{"n":0},{"n":1},ordered,wiped,{"n":2},{"n":3}"#;
const ANSWER: &str = r#"ask-0-0-0-0-3={"approve": true}"#;
/// The maximum number of resumes until the run ends.
const RESUMES: usize = 6;

struct Desk {
    web: Web,
    workspace: Workspace,
}

impl Desk {
    fn new() -> Self {
        let web = Web::new();
        let workspace = Workspace::with(&TEAM.replace("PORT", &web.port().to_string()));
        workspace.write("replies.toml", REPLIES);
        Self { web, workspace }
    }

    fn resume(&self, more: &[&str]) -> Option<i32> {
        let resume = ["run", "--recover_path", "store"];
        self.workspace.host(&[&resume, more].concat()).code
    }

    /// Returns whether the write was begun and its answer is not recorded.
    fn has_lost_an_answer(&self) -> bool {
        let events = self.workspace.recorded();
        let of_order = |kind| {
            let events = stream::of_kind(&events, kind).into_iter();
            events.filter(|event| event["action"] == "order").count()
        };
        of_order("host-call-begun") > of_order("host-call")
    }
}

/// Fails if a nested call that has ended was started again.
fn assert_ended_once(events: &[Value]) {
    let mut ended = Vec::new();
    for event in events.iter().filter(|event| !event["nested"].is_null()) {
        let call = (&event["action"], &event["nested"]);
        match event["kind"].as_str() {
            Some("action-finished") => ended.push(call),
            Some("action-started") => assert!(!ended.contains(&call), "{call:?} is made again"),
            _ => {}
        }
    }
    assert_eq!(ended.len(), 6);
}

/// Which process of the run is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    First,
    /// The one that goes on after the answer of the person.
    Answered,
}

/// Kills a process of the run after its event `n`, and continues the run to its end.
fn check(killed: Killed, n: usize) {
    let desk = Desk::new();
    let mut process = match killed {
        Killed::First => desk.workspace.start_run(&[]),
        Killed::Answered => {
            assert_eq!(desk.workspace.run().code, Some(4));
            let resume = ["run", "--recover_path", "store", "--answer", ANSWER];
            desk.workspace
                .start(&[&resume[..], &["--events", "-"]].concat())
        }
    };
    for _ in 0..n {
        if process.next().is_none() {
            break;
        }
    }
    process.kill();
    let is_lost = desk.has_lost_an_answer();
    let (mut code, mut doubts) = (desk.resume(&[]), 0);
    for _ in 0..RESUMES {
        code = match code {
            Some(0) => break,
            Some(4) => desk.resume(&["--answer", ANSWER]),
            Some(10) => {
                doubts += 1;
                desk.resume(&["--in-doubt", "redo"])
            }
            other => panic!("exit code {other:?} after event {n}"),
        };
    }
    assert_eq!(code, Some(0), "after event {n}");
    assert_eq!(doubts, usize::from(is_lost), "after event {n}");
    let events = desk.workspace.recorded();
    assert_ended_once(&events);
    let finished = stream::of_kind(&events, "action-finished");
    let script = finished.iter().find(|event| event["action"] == "script");
    assert_eq!(
        script.expect("the script ends")["output"]["content"],
        RESULT
    );
    // A page whose answer was lost is fetched again, and an order that was in doubt is made again.
    assert!(desk.web.lines().len() <= 5 + 1, "after event {n}");
    desk.workspace
        .host(&["replay", "store", "--verify"])
        .expect(0);
}

#[test]
fn a_script_killed_after_any_event_repeats_no_nested_call_that_ended() {
    let desk = Desk::new();
    let count = desk.workspace.run().code;
    assert_eq!(count, Some(4));
    let first = desk.workspace.recorded().len();
    assert_eq!(desk.resume(&["--answer", ANSWER]), Some(0));
    let all = desk.workspace.recorded().len();
    in_parallel(all, |n| match n < first {
        true => check(Killed::First, n + 1),
        false => check(Killed::Answered, n + 1 - first),
    });
}
