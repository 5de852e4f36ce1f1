//! The commands that are suggested for faults of a role with tools, and for its calls in doubt: they work, and name what
//! failed.

use serde_json::{Value, json};

use crate::killed_mcp::SERVER;
use crate::stream;
use crate::workspace::Workspace;

/// A role with tools of every kind. Its faults stop the run.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "desk"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py", FLAGS]
timeout = "500ms"
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
tool_faults = "stop"
skills = ["skills/*"]
[[role.tool]]
mcp = "pages"
tools = ["*"]
[[role.tool]]
role = "Sub"
[[role.action]]
name = "act"
component = "probe.wasm"
config = { steps = [{ fail = "trap" }] }
[[role]]
name = "Sub"
[[role.action]]
name = "work"
component = "probe.wasm"
config = { steps = [{ now = true }, { fail = "trap" }] }
"#;
const SKILL: &str = "---\nname: report\ndescription: Writes a report.\n---\nRun scripts/fail.js.\n";

/// Returns a team whose model makes these tool calls. A turn without a reply is a fault.
fn team(flags: &str, calls: &str) -> Workspace {
    let place = Workspace::with(&TEAM.replace("FLAGS", flags));
    place.write("server.py", SERVER);
    place.write("skills/report/SKILL.md", SKILL);
    place.write(
        "skills/report/scripts/fail.js",
        "throw new Error('no report');\n",
    );
    let turn = if calls.is_empty() { 1 } else { 0 };
    let reply = format!("[[reply]]\nturn = {turn}\ntool_calls = [{calls}]\n");
    place.write("replies.toml", reply);
    place
}

/// Returns the `inspect` commands in a text that show an action or its calls, as arguments.
fn suggested(text: &str) -> Vec<Vec<String>> {
    let commands = text.lines().filter_map(|line| {
        let (_, command) = line.split_once("strata-host ")?;
        Some(command.split_whitespace().map(str::to_owned).collect())
    });
    let is_about_action = |command: &Vec<String>| command.iter().any(|word| word == "--action");
    commands.filter(is_about_action).collect()
}

/// Runs the command that `inspect` suggests, and those that it suggests in turn. Returns what they print.
fn follow(place: &Workspace) -> String {
    let summary = place.host(&["inspect", "store"]).expect(0).stdout;
    let mut open = suggested(&summary);
    assert_eq!(open.len(), 1, "{summary}");
    let mut shown = String::new();
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let printed = place.host(&words).expect(0).stdout;
        assert!(!printed.is_empty(), "{command:?}");
        open.extend(suggested(&printed));
        shown += &printed;
    }
    shown
}

#[test]
fn every_command_that_is_suggested_for_a_fault_of_a_turn_or_a_tool_works() {
    let check = |calls: &str, named: &str, parts: &[&str]| {
        let place = team(r#""slow=read_page""#, calls);
        let ended = place.run();
        assert_eq!(ended.code, Some(3), "{calls}: {}", ended.stderr);
        let summary = place.host(&["inspect", "store"]).expect(0).stdout;
        let command = format!("strata-host inspect store --action {named}\n");
        assert!(summary.contains(&command), "{command}: {summary}");
        let shown = follow(&place);
        for part in parts {
            assert!(shown.contains(part), "`{part}`: {shown}");
        }
        assert!(shown.contains(&format!("action      {named}\n")), "{shown}");
        assert!(shown.contains("FAILED") && !shown.contains("``"), "{shown}");
        let json = place.host(&["inspect", "store", "--action", named, "--json"]);
        let json: Value = serde_json::from_str(&json.expect(0).stdout).expect("JSON");
        assert!(json["fault"]["message"].is_string(), "{json}");
        // Nothing of a role is unknown because it has no fault.
        for part in ["A.turn", "A.summary", "A.act", "A.Sub", "A.load_skill"] {
            place
                .host(&["inspect", "store", "--action", part])
                .expect(0);
        }
    };
    check(
        "",
        "A.turn",
        &[
            "a turn of its model: FAILED",
            "none: the host asks the model",
        ],
    );
    check(
        r#"{ name = "pages__read_page", arguments = { n = 1 } }"#,
        "A.pages/read_page",
        &["`timeout`", "charged to A.turn", "in full: "],
    );
    check(
        r#"{ name = "act", arguments = {} }"#,
        "A.act",
        &["unreachable"],
    );
    let script = r#"{ name = "run_skill_script", arguments = { skill = "report", script = "scripts/fail.js" } }"#;
    check(script, "A.run_skill_script.js", &["no report"]);
}

#[test]
fn a_tool_of_a_server_is_named_wherever_its_fault_is_shown() {
    let call = r#"{ name = "pages__read_page", arguments = { n = 1 } }"#;
    let place = team(r#""slow=read_page""#, call);
    let ended = place.run().expect(3);
    let headline = "fault: A `pages/read_page` attempt 1: timeout: ";
    assert!(ended.stderr.contains(headline), "{}", ended.stderr);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    assert!(
        shown.contains("A tool `pages/read_page`: FAILED"),
        "{shown}"
    );
    let again = place.host(&["run", "--recover_path", "store", "--json", "--quiet"]);
    let result: Value = serde_json::from_str(&again.expect(3).stdout).expect("JSON");
    assert_eq!(result["faults"][0]["action"], "pages/read_page", "{result}");
    let saved = place.team_json();
    assert_eq!(
        saved["strata"]["faults"][0]["action"], "pages/read_page",
        "{saved}"
    );
}

#[test]
fn a_lost_answer_of_a_tool_is_decided_as_is_suggested() {
    let call = r#"{ name = "pages__order", arguments = { n = 1 } }"#;
    let check = |decision: &str, result: &str| {
        let place = team(r#""slow=order""#, call);
        let ended = place.run().expect(10);
        let shown = place.host(&["inspect", "store"]).expect(0).stdout;
        let list = "in doubt (resume with `--in-doubt redo|skip|unknown|VALUE`)\n  A.pages/order: pages/order";
        assert!(shown.contains(list), "{shown}");
        let command = format!("strata-host run --recover_path store --in-doubt {decision} ");
        assert!(
            ended.stderr.contains(&command),
            "{command}: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("status"), "{}", ended.stderr);
        let decision = decision.trim_matches('\'');
        // The model has no further reply.
        let resumed = place.host(&["run", "--recover_path", "store", "--in-doubt", decision]);
        assert_eq!(resumed.code, Some(3), "{}", resumed.stderr);
        let shown = place.host(&["inspect", "store", "--conversation", "A"]);
        let shown = shown.expect(0).stdout;
        assert!(shown.contains(result), "{decision}: {shown}");
        let events = place.recorded();
        assert_eq!(stream::of_kind(&events, "doubt-settled").len(), 1);
    };
    check("unknown", "the answer was lost: it is not known");
    check(r#"'"…"'"#, "…");
    let named = team(r#""slow=order""#, call);
    named.run().expect(10);
    let first = named.host(&["inspect", "store@main-0"]).expect(0).stdout;
    assert!(!first.contains("in doubt ("), "{first}");
    let decision = r#"A.pages/order="made""#;
    let resumed = named.host(&["run", "--recover_path", "store", "--in-doubt", decision]);
    assert_eq!(resumed.code, Some(3), "{}", resumed.stderr);
    let wrong = team(r#""slow=order""#, call);
    wrong.run().expect(10);
    let refused = wrong.host(&["run", "--recover_path", "store", "--in-doubt", "maybe"]);
    let refused = refused.expect(2).stderr;
    assert!(
        refused.contains("neither `redo`, `skip` nor `unknown`, nor an answer in JSON"),
        "{refused}"
    );
}

#[test]
fn check_shows_the_servers_of_a_team_and_what_a_model_may_call() {
    let team = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py", "a b"]
env = ["LANG"]
set = { LEVEL = "quiet" }
[mcp.wiki]
url = "http://127.0.0.1:9/mcp"
headers = { Authorization = "Bearer {{secret:WIKI}}" }
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
[[role.tool]]
mcp = "pages"
tools = ["read_*", "order"]
approve = ["order"]
"#;
    let place = Workspace::with(team);
    place.write("replies.toml", "[[reply]]\ntext = \"done\"\n");
    let check = |args: &[&str]| {
        let mut command = place.command(&["check", "team.toml"]);
        let output = command.args(args).env("WIKI", "hidden").output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("a text")
    };
    let text = check(&[]);
    for part in [
        "A.turn\n  may call   tools read_*, order of the MCP server pages\n",
        "  approve    a person decides on calls of order\n",
        "[mcp.pages]\n  command    python3 server.py 'a b'\n",
        "  sandbox    none: it has the rights of the user\n  env        LANG\n  set        LEVEL\n",
        "[mcp.wiki]\n  url        http://127.0.0.1:9/mcp\n  headers    Authorization\n  secrets    WIKI\n",
    ] {
        assert!(text.contains(part), "`{part}`: {text}");
    }
    assert!(
        !text.contains("quiet") && !text.contains("hidden"),
        "{text}"
    );
    let rows: Value = serde_json::from_str(&check(&["--json"])).expect("JSON");
    assert_eq!(rows[0]["slot"], "A.turn", "{rows}");
    assert_eq!(rows[0]["mcp"][0]["tools"], json!(["read_*", "order"]));
    assert_eq!(rows[1]["mcp_server"], "pages");
    assert_eq!(rows[1]["command"], json!(["python3", "server.py", "a b"]));
    assert_eq!(rows[2]["url"], "http://127.0.0.1:9/mcp");
    assert_eq!(rows[2]["secrets"], json!(["WIKI"]));
    assert_eq!(rows.as_array().map(Vec::len), Some(3), "{rows}");
}
