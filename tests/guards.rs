//! Guards: what they see of roles, servers and code, what becomes of what they decide, and what happens if they
//! fail. That they are asked once is in `killed_nested`; guards of a conversation with skills are in
//! `agent_skills`.

use serde_json::{Value, json};

use crate::crash::kill_after_each_event;
use crate::killed_mcp::SERVER;
use crate::stream::{self, of_kind};
use crate::workspace::Workspace;

/// A role with a guard, whose code calls three tools.
const DESK: &str = r#"
schema = "strata.team/1"
[team]
name = "desk"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
before = { component = "probe.wasm", config = { steps = [{ guard = { wipe = "deny: too dangerous" } }] } }
[[role.action]]
name = "page"
component = "probe.wasm"
config = { steps = [{ say = "page {arguments}" }] }
[[role.action]]
name = "wipe"
component = "probe.wasm"
config = { steps = [{ say = "wiped" }] }
[[role.action]]
name = "script"
component = "probe.wasm"
config = { steps = [{ tool = "page", arguments = { n = 1 } }, { tool = "wipe", arguments = {} }, { say = "{reads}" }] }
[role.action.allow]
tools = ["page", "wipe"]
"#;

const CALL_SCRIPT: &str = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "script", arguments = {} }]
[[reply]]
turn = 1
text = "done"
"#;

fn place(team: &str, replies: &str) -> Workspace {
    let place = Workspace::with(team);
    place.write("replies.toml", replies);
    place
}

/// Returns the content of what this tool returned.
fn result<'a>(lines: &'a [Value], tool: &str) -> &'a str {
    let finished = of_kind(lines, "action-finished").into_iter();
    let mut of_tool = finished.filter(|line| line["action"] == tool);
    stream::text(&of_tool.next().expect("it finished")["output"]["content"])
}

/// Resumes the run with the team file as it is now, to its end, and returns the events.
fn resume_with_team_file(place: &Workspace) -> Vec<Value> {
    let args = "run team.toml --recover_path store --events -";
    let args: Vec<&str> = args.split(' ').collect();
    place.host(&args).expect(0).events()
}

#[test]
fn a_call_of_code_that_a_guard_denies_is_rejected_and_an_error_for_the_code() {
    let place = place(DESK, CALL_SCRIPT);
    let lines = place.run().expect(0).events();
    let rejected = of_kind(&lines, "tool-rejected");
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    let told = ["tool", "reason", "nested", "turn", "tool_call"].map(|key| &rejected[0][key]);
    assert_eq!(
        told,
        [
            &json!("wipe"),
            &json!("too dangerous"),
            &json!(1),
            &json!(0),
            &json!(0)
        ]
    );
    let failed = of_kind(&lines, "action-failed");
    let message = stream::text(&failed[0]["message"]);
    assert!(
        message.contains("the call was rejected: too dangerous"),
        "{message}"
    );
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn a_guard_that_fails_ends_the_code_before_the_call_and_a_resume_asks_it_again() {
    let broken = DESK.replace("deny: too dangerous", "perhaps");
    let place = place(&broken, CALL_SCRIPT);
    let failed = place.run().expect(3);
    for part in [
        "Clerk action 2 `script` attempt 1: host",
        "the guard `before` failed",
        "perhaps",
    ] {
        assert!(failed.stderr.contains(part), "`{part}`: {}", failed.stderr);
    }
    place.host(&["replay", "store", "--verify"]).expect(0);
    place.write("team.toml", DESK.replace("deny: too dangerous", "allow"));
    let resumed = resume_with_team_file(&place);
    // The page that was read is not read again.
    assert_eq!(
        stream::actions(&resumed, "action-finished"),
        ["Clerk.wipe", "Clerk.script"]
    );
    assert_eq!(result(&resumed, "script"), r#"page {"n":1},wiped"#);
}

#[test]
fn replay_shows_that_a_guard_decides_otherwise_than_it_did() {
    let place = place(DESK, CALL_SCRIPT);
    place.run().expect(0);
    place.write(
        "team.toml",
        DESK.replace("wipe = \"deny: too dangerous\"", "page = \"deny: no\""),
    );
    let replayed = place.host(&["replay", "store", "team.toml", "--verify"]);
    assert_ne!(replayed.code, Some(0), "{}", replayed.stdout);
    let told = replayed.stdout + &replayed.stderr;
    assert!(told.contains("the guard decides otherwise"), "{told}");
}

#[test]
fn the_fault_of_a_guard_says_where_the_guard_is() {
    let check = |guard: &str, file: &str| {
        let line = DESK.lines().find(|line| line.starts_with("before"));
        let team = DESK.replace(line.expect("a guard"), guard);
        let place = place(&team, CALL_SCRIPT);
        place.write("guard.py", "return \"perhaps\"\n");
        place.write("broken.js", "throw new Error(\"broken\");\n");
        let failed = place.run().expect(3);
        let line = team.lines().position(|line| line == guard).expect("a line") + 1;
        let expected = format!(
            "edit `{file}`, or its `config` in the team file (team.toml:{line}), then resume"
        );
        assert!(
            failed.stderr.contains(&expected),
            "{expected}: {}",
            failed.stderr
        );
    };
    check("before = { script = \"guard.py\" }", "guard.py");
    check("after = { script = \"broken.js\" }", "broken.js");
}

#[test]
fn a_guard_has_no_tools() {
    let granting = DESK.replace(
        "wipe = \"deny: too dangerous\" } }] }",
        "wipe = \"allow\" } }] }, allow = { tools = [\"page\"] }",
    );
    let refused = place(&granting, CALL_SCRIPT)
        .host(&["check", "team.toml"])
        .expect(2);
    let expected = "the guard `before` cannot call tools";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
}

/// A role that calls another one, and a guard that sees the answer.
const OFFICE: &str = r#"
schema = "strata.team/1"
[team]
name = "office"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Head"
watch = ["UserRequirement"]
react = "tools"
after = { component = "probe.wasm", config = { steps = [{ say = "{arguments}: {inputs}" }] } }
[[role.tool]]
role = "Clerk"
[[role]]
name = "Clerk"
[[role.action]]
name = "add"
component = "probe.wasm"
config = { steps = [{ set = "n", value = 1 }, { say = "added {inputs}" }] }
[[role]]
name = "Log"
watch = ["Head"]
[[role.action]]
name = "note"
component = "probe.wasm"
config = { steps = [{ say = "noted {inputs}" }] }
"#;

const CALL_CLERK: &str = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "Clerk", arguments = { message = "one" } }, { name = "Clerk", arguments = { message = "two" } }]
[[reply]]
turn = 1
text = "done"
"#;

/// What the guard makes of the answer to a call with this message.
fn seen(message: &str) -> String {
    let input = json!({ "arguments": { "message": message }, "tool": "Clerk" });
    format!("{input}: added {message}")
}

/// Returns what the calls of the role returned, in their order.
fn results(lines: &[Value]) -> Vec<String> {
    let finished = of_kind(lines, "action-finished").into_iter();
    let mut of_clerk: Vec<_> = finished.filter(|line| line["action"] == "Clerk").collect();
    of_clerk.sort_by_key(|line| line["tool_call"].as_u64());
    let content = |line: &&Value| stream::text(&line["output"]["content"]).to_owned();
    of_clerk.iter().map(content).collect()
}

#[test]
fn a_guard_sees_what_a_role_answers_and_a_kill_repeats_nothing_that_ended() {
    let calm = place(OFFICE, CALL_CLERK);
    let lines = calm.run().expect(0).events();
    assert_eq!(results(&lines), [seen("one"), seen("two")]);
    let suspended = of_kind(&lines, "action-suspended");
    assert_eq!(suspended.len(), 2);
    assert!(suspended.iter().all(|line| line["reason"] == "guard"));
    calm.host(&["replay", "store", "--verify"]).expect(0);
    kill_after_each_event(
        &calm,
        &lines,
        || place(OFFICE, CALL_CLERK),
        |all, what| {
            assert_eq!(results(all), results(&lines), "{what}");
            let ended = of_kind(all, "action-finished").len();
            assert_eq!(ended, of_kind(&lines, "action-finished").len(), "{what}");
            assert_eq!(of_kind(all, "turn").len(), 2, "{what}");
        },
    );
}

#[test]
fn a_guard_that_fails_after_a_role_has_answered_is_repeated_alone() {
    let broken = OFFICE.replace("{ say = \"{arguments}: {inputs}\" }", "{ fail = \"trap\" }");
    let place = place(&broken, CALL_CLERK);
    let failed = place.run().expect(3);
    let expected = "the guard `after` failed: trap";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    place.write("team.toml", OFFICE);
    let resumed = resume_with_team_file(&place);
    let of_clerk = |line: &&&Value| line["role"] == "Clerk";
    let again = of_kind(&resumed, "action-started");
    assert_eq!(again.iter().filter(of_clerk).count(), 0, "{again:?}");
    assert_eq!(results(&resumed), [seen("one"), seen("two")]);
}

/// A role whose model and code call a tool of a server that writes.
const LIBRARY: &str = r#"
schema = "strata.team/1"
[team]
name = "library"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py"]
[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
after = { component = "probe.wasm", config = { steps = [{ say = "{inputs}" }] } }
[[role.tool]]
mcp = "pages"
tools = ["*"]
[[role.action]]
name = "script"
component = "probe.wasm"
config = { steps = [{ tool = "pages/order", arguments = { n = 7 } }, { say = "{reads}" }] }
[role.action.allow]
tools = ["pages/*"]
"#;

#[test]
fn a_guard_that_fails_on_the_result_of_a_server_stops_the_run_and_the_call_is_not_sent_again() {
    let broken = LIBRARY.replace("{ say = \"{inputs}\" }", "{ fail = \"error\" }");
    let fails = broken.replace("\"server.py\"", "\"server.py\", \"fails=order\"");
    let direct = CALL_SCRIPT.replace("\"script\"", "\"pages__order\"");
    for (team, replies) in [
        (&broken, &*direct),
        (&fails, &*direct),
        (&broken, CALL_SCRIPT),
    ] {
        let place = place(team, replies);
        place.write("server.py", SERVER);
        let failed = place.run().expect(3);
        let expected = "the guard `after` failed: error";
        assert!(failed.stderr.contains(expected), "{}", failed.stderr);
        place.write("team.toml", LIBRARY);
        let resumed = resume_with_team_file(&place);
        assert_eq!(of_kind(&resumed, "turn").len(), 1, "{resumed:?}");
        assert!(result(&resumed, "pages/order").len() > 2, "{resumed:?}");
        let calls = String::from_utf8(place.read("calls.txt")).expect("a text");
        assert_eq!(calls.lines().count(), 1, "{calls}");
    }
}

#[test]
fn a_guard_is_told_which_tool_of_a_server_was_called_and_sees_its_errors() {
    let team = r#"
schema = "strata.team/1"
[team]
name = "library"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py", "fails=put_page"]
[[role]]
name = "Clerk"
watch = ["UserRequirement"]
react = "tools"
after = { component = "probe.wasm", config = { steps = [{ say = "{arguments}: {inputs}" }] } }
[[role.tool]]
mcp = "pages"
tools = ["*"]
"#;
    let replies = r#"
[[reply]]
turn = 0
tool_calls = [{ name = "pages__read_page", arguments = { n = 1 } }, { name = "pages__put_page", arguments = { n = 2 } }]
[[reply]]
turn = 1
text = "done"
"#;
    let place = place(team, replies);
    place.write("server.py", SERVER);
    let lines = place.run().expect(0).events();
    for (tool, number) in [("pages/read_page", 1), ("pages/put_page", 2)] {
        let input = json!({ "arguments": { "n": number }, "tool": tool });
        let told = result(&lines, tool);
        assert!(told.starts_with(&format!("{input}: ")), "{told}");
    }
}
