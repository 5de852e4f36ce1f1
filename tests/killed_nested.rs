//! A script that calls six tools is killed after each event: no nested call that ended is made again, a
//! write is in doubt exactly if its answer was lost, and the model is told the same. Also with guards, which
//! are not asked again about a call that is recorded.

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
GUARDS
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
APPROVE
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

/// Guards: one asks a server before it decides, and has a person asked about `wipe`; one marks results.
const GUARDS: &str = r#"
[role.before]
component = "probe.wasm"
config = { steps = [{ http = "http://127.0.0.1:PORT/v1/policy", method = "GET" }, { guard = { wipe = "ask" } }] }
allow = { http = [{ host = "127.0.0.1:PORT", methods = ["GET"], path = "/*" }] }
[role.after]
component = "probe.wasm"
config = { steps = [{ say = "<{inputs}>" }] }
"#;

const RESULT: &str = r#"{"n":0},{"n":1},ordered,wiped,{"n":2},{"n":3}"#;
/// The result if each is marked.
const MARKED: &str = r#"<<{"n":0}>,<{"n":1}>,<ordered>,<wiped>,<{"n":2}>,<{"n":3}>>"#;
/// How many calls there are, with that of the model.
const CALLS: usize = 7;
const ANSWER: &str = r#"ask-0-0-0-0-3={"approve": true}"#;
/// The maximum number of resumes until the run ends.
const RESUMES: usize = 6;

/// What decides about `wipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    /// The team file.
    ByTool,
    /// A guard. Another one sees the results.
    ByGuard,
}

impl Approval {
    fn result(self) -> &'static str {
        match self {
            Self::ByTool => RESULT,
            Self::ByGuard => MARKED,
        }
    }
}

struct Desk {
    web: Web,
    workspace: Workspace,
}

impl Desk {
    fn new(approval: Approval) -> Self {
        let web = Web::new();
        let (guards, approve) = match approval {
            Approval::ByTool => ("", "approve = true"),
            Approval::ByGuard => (GUARDS, ""),
        };
        let team = TEAM.replace("GUARDS", guards).replace("APPROVE", approve);
        let workspace = Workspace::with(&team.replace("PORT", &web.port().to_string()));
        workspace.write("replies.toml", REPLIES);
        Self { web, workspace }
    }

    /// Returns how many requests the tools, and the guard, have made.
    fn requests(&self) -> (usize, usize) {
        let lines = self.web.lines();
        let of_guard = lines.iter().filter(|line| line.contains("/v1/policy"));
        let of_guard = of_guard.count();
        (lines.len() - of_guard, of_guard)
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
fn check(approval: Approval, killed: Killed, n: usize) {
    let desk = Desk::new(approval);
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
        approval.result()
    );
    // A page whose answer was lost is fetched again, and an order that was in doubt is made again.
    let (of_tools, of_guard) = desk.requests();
    assert!(of_tools <= 5 + 1, "after event {n}");
    // So is what the guard asks, unless the decision is recorded.
    assert!(of_guard <= CALLS + 1, "{of_guard} after event {n}");
    desk.workspace
        .host(&["replay", "store", "--verify"])
        .expect(0);
}

fn check_all(approval: Approval) {
    let desk = Desk::new(approval);
    let count = desk.workspace.run().code;
    assert_eq!(count, Some(4));
    let first = desk.workspace.recorded().len();
    assert_eq!(desk.resume(&["--answer", ANSWER]), Some(0));
    let all = desk.workspace.recorded().len();
    let of_guard = match approval {
        Approval::ByTool => 0,
        Approval::ByGuard => CALLS,
    };
    assert_eq!(desk.requests(), (5, of_guard));
    in_parallel(all, |n| {
        if n < first {
            check(approval, Killed::First, n + 1);
        } else {
            check(approval, Killed::Answered, n + 1 - first);
        }
    });
}

#[test]
fn a_script_killed_after_any_event_repeats_no_nested_call_that_ended() {
    check_all(Approval::ByTool);
}

#[test]
fn a_guard_decides_once_about_each_call_of_a_script_that_is_killed_after_any_event() {
    check_all(Approval::ByGuard);
}
