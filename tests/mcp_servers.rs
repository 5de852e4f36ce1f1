//! MCP servers: those that do not behave, what is left of them, how often they are started and called, and older
//! ones that ask within a call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::children::is_there;
use crate::killed_mcp::SERVER;
use crate::process::Ended;
use crate::stream;
use crate::workspace::Workspace;

/// How long a process may live on after the host that ended it.
const END_TIME: Duration = Duration::from_secs(10);

/// Returns a team with a server that is started with these flags. Its action has these steps.
pub fn team_with_action(flags: &str, server: &str, steps: &str) -> Workspace {
    let team = format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[mcp.pages]
command = ["python3", "server.py", {flags}]
{server}
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = {{ steps = [{steps}, {{ say = "{{reads}}" }}] }}
[role.action.allow]
mcp = [{{ server = "pages", tools = ["*"] }}]
"#
    );
    with_server(&team)
}

/// Returns a team whose model makes these tool calls one after another, each in a turn.
fn team_with_model(flags: &str, tool: &str, calls: &[&str]) -> Workspace {
    let team = format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py", {flags}]
[[role]]
name = "A"
watch = ["UserRequirement"]
react = "tools"
[[role.tool]]
mcp = "pages"
tools = ["*"]
{tool}
"#
    );
    let place = with_server(&team);
    let mut replies = String::new();
    for (turn, call) in calls.iter().enumerate() {
        replies += &format!("[[reply]]\nturn = {turn}\ntool_calls = [{call}]\n");
    }
    replies += &format!("[[reply]]\nturn = {}\ntext = \"done\"\n", calls.len());
    place.write("replies.toml", replies);
    place
}

/// Lets the team use a server at an address in place of the command.
fn use_url(place: &Workspace, url: &str) {
    let team = String::from_utf8(place.read("team.toml")).expect("a text");
    let command = team.lines().find(|line| line.starts_with("command"));
    let url = format!("url = {url:?}");
    place.write("team.toml", team.replace(command.expect("a command"), &url));
}

fn with_server(team: &str) -> Workspace {
    let place = Workspace::with(team);
    place.write("server.py", SERVER);
    place
}

pub fn lines(place: &Workspace, name: &str) -> Vec<String> {
    if place.path(name).exists() {
        let text = String::from_utf8(place.read(name)).expect("a text");
        text.lines().map(str::to_owned).collect()
    } else {
        Vec::new()
    }
}

fn states(ended: &Ended) -> Vec<String> {
    let events = ended.events();
    let changed = stream::of_kind(&events, "mcp-server").into_iter();
    changed
        .map(|event| stream::text(&event["state"]).to_owned())
        .collect()
}

/// Waits until none of the processes of the server lives.
pub fn assert_nothing_is_left(place: &Workspace, at_least: usize) {
    let pids: Vec<i32> = lines(place, "pids.txt")
        .iter()
        .map(|pid| pid.parse().expect("a process id"))
        .collect();
    assert!(pids.len() >= at_least, "{pids:?}");
    let begun = Instant::now();
    while pids.iter().any(|pid| is_there(*pid)) {
        assert!(begun.elapsed() < END_TIME, "one of {pids:?} lives");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const READ: &str = r#"{ mcp = "pages/read_page", arguments = { n = 1 } }"#;

#[test]
fn a_model_finds_and_calls_a_tool_of_a_server_that_is_not_sent() {
    let calls = [
        r#"{ name = "find_tools", arguments = { query = "read 317" } }"#,
        r#"{ name = "call_tool", arguments = { name = "pages__read_317", arguments = { n = 4 } } }"#,
    ];
    let place = team_with_model(r#""more=500""#, "defer = true", &calls);
    let events = place.run().expect(0).events();
    assert!(stream::of_kind(&events, "tool-rejected").is_empty());
    let made = lines(&place, "calls.txt");
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(made[0].starts_with("read_317"), "{made:?}");
    let shown = place
        .host(&["inspect", "store", "--conversation", "A"])
        .expect(0)
        .stdout;
    assert!(shown.contains("The tool read_317."), "{shown}");
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn a_server_that_breaks_a_limit_is_a_fault_that_names_it() {
    let check = |flags: &str, server: &str, expected: &str| {
        let place = team_with_action(flags, server, READ);
        let ended = place.run();
        assert_eq!(ended.code, Some(3), "{flags}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{flags}: {}", ended.stderr);
        let failed = ended.events();
        let failed = stream::of_kind(&failed, "action-failed");
        assert_eq!(failed.len(), 1, "{flags}");
        assert_nothing_is_left(&place, 1);
    };
    check(r#""more=1000""#, "", "more than 1000 tools");
    check(r#""page=100""#, "", "more than 100 pages");
    check(r#""large=read_page""#, "", "more than 16 MiB");
    check(r#""dies=read_page""#, "", "about to die");
    check(r#""slow=read_page""#, "timeout = \"300ms\"", "`timeout`");
    let quiet = "timeout = \"1m\"\nmax_timeout = \"300ms\"";
    check(r#""slow=read_page""#, quiet, "`max_timeout`");
}

#[test]
fn a_server_that_says_nothing_does_not_start_and_a_program_that_is_missing_is_named() {
    let place = team_with_action("", "start = \"500ms\"", READ);
    place.write("server.py", "import time; time.sleep(60)");
    let ended = place.run();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("`start`"), "{}", ended.stderr);
    let team = String::from_utf8(place.read("team.toml")).expect("a text");
    place.write("team.toml", team.replace("python3", "no-such-program"));
    let ended = place.host(&["run", "team.toml", "--storage", "other"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("no-such-program"), "{}", ended.stderr);
}

#[test]
fn a_server_that_sends_a_request_within_a_call_is_refused_or_of_the_newest_revision_not_answered() {
    let place = team_with_action(r#""asks=sampling/createMessage""#, "", READ);
    let ended = place.run();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let expected = "asks for sampling/createMessage, which is not offered";
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    // What it hears is that the call is given up, or the end of its input.
    let heard = lines(&place, "answers.txt").join("\n");
    assert!(!heard.contains("\"id\""), "{heard}");
    let place = team_with_action(r#""old", "asks=sampling/createMessage""#, "", READ);
    place.run().expect(0);
    let heard = lines(&place, "answers.txt").join("\n");
    assert!(heard.contains("-32601"), "{heard}");
}

#[test]
fn a_server_with_the_transport_of_2024_alone_is_a_fault_that_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1 << 16]);
            let refused =
                "HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.write_all(refused.as_bytes());
        }
    });
    let place = team_with_action("", "", READ);
    use_url(&place, &format!("http://{address}/sse"));
    let ended = place.run();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("HTTP+SSE"), "{}", ended.stderr);
}

#[test]
fn noise_on_both_streams_costs_nothing_but_a_warning() {
    let place = team_with_action(r#""noise", "flood""#, "", READ);
    let ended = place.run().expect(0);
    let warnings = ended.stderr.matches("no messages").count();
    assert_eq!(warnings, 1, "{}", ended.stderr);
}

#[test]
fn a_server_that_dies_is_started_again_three_times_and_then_no_more() {
    let calls: Vec<String> = (0..6)
        .map(|n| format!("{{ name = \"pages__read_page\", arguments = {{ n = {n} }} }}"))
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let place = team_with_model(r#""dies=read_page""#, "", &calls);
    let ended = place.run().expect(0);
    let expected = ["ready", "restarted", "restarted", "restarted", "gone"];
    assert_eq!(states(&ended), expected, "{}", ended.stderr);
    assert_eq!(lines(&place, "pids.txt").len(), 4);
    assert_eq!(lines(&place, "calls.txt").len(), 4);
}

#[test]
fn a_server_that_hangs_costs_a_call_and_a_later_write_reaches_the_process_that_follows_it() {
    for flags in [r#""slow=read_page""#, r#""slow=read_page", "old""#] {
        let calls = ["read_page", "order"]
            .map(|tool| format!("{{ name = \"pages__{tool}\", arguments = {{ n = 1 }} }}"));
        let place = team_with_model(flags, "", &calls.each_ref().map(String::as_str));
        let team = String::from_utf8(place.read("team.toml")).expect("a text");
        let team = team.replace("[mcp.pages]", "[mcp.pages]\ntimeout = \"300ms\"");
        place.write("team.toml", team);
        let ended = place.run().expect(0);
        assert_eq!(states(&ended), ["ready", "restarted"], "{}", ended.stderr);
        assert!(ended.stderr.contains("`pages` hangs"), "{}", ended.stderr);
        assert_eq!(lines(&place, "calls.txt").len(), 2);
        assert_nothing_is_left(&place, 2);
    }
}

#[test]
fn a_server_ends_with_the_run_and_with_all_that_it_started_whatever_it_does() {
    let place = team_with_action(r#""stubborn""#, "", READ);
    place.run().expect(0);
    assert_nothing_is_left(&place, 2);
}

#[test]
fn a_server_ends_if_the_host_is_killed() {
    let place = team_with_action(r#""stubborn", "slow=read_page""#, "", READ);
    let process = place.start_run(&[]);
    while lines(&place, "calls.txt").is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill();
    assert_nothing_is_left(&place, 2);
}

#[test]
fn the_calls_of_a_server_s_tools_are_limited_together() {
    let call =
        |tool: &str, n: u32| format!("{{ name = \"pages__{tool}\", arguments = {{ n = {n} }} }}");
    let calls = [
        call("read_page", 1),
        call("put_page", 2),
        call("read_page", 3),
    ];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let place = team_with_model("", "max_calls = 2", &calls);
    let ended = place.run().expect(0);
    let events = ended.events();
    let rejected = stream::of_kind(&events, "tool-rejected");
    assert_eq!(rejected.len(), 1);
    assert!(stream::text(&rejected[0]["reason"]).contains("no more than 2 calls"));
    assert_eq!(lines(&place, "calls.txt").len(), 2);
}

#[test]
fn the_revision_that_was_spoken_before_is_tried_first() {
    let steps = r#"{ mcp = "pages/read_page", arguments = { n = 1 } }, { fail = "error", attempts = [1] },
        { mcp = "pages/read_page", arguments = { n = 2 } }"#;
    let place = team_with_action(r#""old""#, "", &steps.replace('\n', " "));
    place.run().expect(3);
    let first = ["server/discover", "initialize", "tools/list", "tools/call"];
    assert_eq!(lines(&place, "heard.txt"), first);
    place.resume().expect(0);
    // An action that says that it failed makes its calls again.
    let later = ["initialize", "tools/list", "tools/call", "tools/call"];
    let again = [&first[..], &later].concat();
    assert_eq!(lines(&place, "heard.txt"), again);
}

#[test]
fn another_server_than_before_is_found_out_although_its_revision_is_recorded() {
    let steps = r#"{ mcp = "pages/read_page", arguments = { n = 1 } }, { fail = "error", attempts = [1] }, { mcp = "pages/read_page", arguments = { n = 2 } }"#;
    let place = team_with_action(r#""old""#, "", steps);
    place.run().expect(3);
    place.write("server.py", SERVER.replace("\"old\" in FLAGS", "False"));
    let ended = place.resume().expect(0);
    let events = ended.events();
    let ready = stream::of_kind(&events, "mcp-server");
    assert_eq!(ready[0]["revision"], "2026-07-28");
}

/// The call of an older server that asks a person within it.
pub const ASK: &str = r#"{ mcp = "pages/ask", arguments = { n = 1 } }"#;

/// Answers the open request of a team, and returns how the command ended.
fn answer(place: &Workspace, request: &Value) -> Ended {
    let given = format!("{}={{\"name\": \"bob\"}}", stream::text(request));
    place.host(&["answer", "store", &given])
}

#[test]
fn an_older_server_that_asks_goes_on_with_its_call_while_the_team_is_kept_alive() {
    let limits = "timeout = \"500ms\"\nmax_timeout = \"1s\"";
    let place = team_with_action(r#""old""#, limits, ASK);
    let mut process = place.start_run(&["--keep-alive"]);
    let opened = process.until("request-opened", None);
    // The time in which a person is asked does not count.
    std::thread::sleep(Duration::from_millis(1500));
    answer(&place, &opened["request"]).expect(0);
    let finished = process.until("action-finished", None);
    let content = stream::text(&finished["output"]["content"]).to_owned();
    assert!(
        content.contains("accept") && content.contains("bob"),
        "{content}"
    );
    process.signal(crate::process::Signal::INT);
    process.end().expect(0);
    assert_eq!(lines(&place, "calls.txt").len(), 1);
    let events = place.recorded();
    assert_eq!(stream::of_kind(&events, "host-call-begun").len(), 1);
    assert_nothing_is_left(&place, 1);
    std::fs::remove_file(place.path("server.py")).expect("the server");
    place.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn an_older_server_may_ask_on_the_stream_that_it_sends_of_itself() {
    let place = team_with_action("", "", ASK);
    place.write("asking.py", include_str!("fixtures/mcp/asking_server.py"));
    let mut server = Command::new("python3")
        .arg("asking.py")
        .current_dir(place.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut port = String::new();
    let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
    output.read_line(&mut port).expect("a port");
    use_url(&place, &format!("http://127.0.0.1:{}/mcp", port.trim()));
    let mut process = place.start_run(&["--keep-alive"]);
    let opened = process.until("request-opened", None);
    answer(&place, &opened["request"]).expect(0);
    let finished = process.until("action-finished", None);
    let content = stream::text(&finished["output"]["content"]).to_owned();
    assert!(content.contains("bob"), "{content}");
    process.signal(crate::process::Signal::INT);
    process.end().expect(0);
    assert_eq!(lines(&place, "calls.txt").len(), 1);
    server.kill().expect("it lives");
    server.wait().expect("it ends");
}

#[test]
fn a_write_of_an_older_server_that_asks_is_in_doubt_if_the_run_is_stopped_meanwhile() {
    let place = team_with_action(r#""old""#, "", ASK);
    let ended = place.run().expect(4);
    let events = ended.events();
    let opened = stream::of_kind(&events, "request-opened");
    answer(&place, &opened[0]["request"]).expect(0);
    let ended = place.resume();
    assert_eq!(ended.code, Some(10), "{}", ended.stderr);
    let redo = ["run", "--recover_path", "store", "--in-doubt", "redo"];
    place.host(&redo).expect(0);
    assert_eq!(lines(&place, "calls.txt").len(), 2);
}

#[test]
fn a_lost_answer_is_told_to_the_model_also_after_the_host_was_killed() {
    let call = "{ name = \"pages__order\", arguments = { n = 1 } }";
    let place = team_with_model(r#""slow=order""#, "", &[call]);
    let team = String::from_utf8(place.read("team.toml")).expect("a text");
    place.write(
        "team.toml",
        team.replace("[mcp.pages]", "[mcp.pages]\nin_doubt = \"unknown\""),
    );
    let process = place.start_run(&[]);
    while lines(&place, "calls.txt").is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill();
    place.resume().expect(0);
    assert_eq!(lines(&place, "calls.txt").len(), 1);
    let events = place.recorded();
    assert_eq!(
        stream::of_kind(&events, "doubt-settled").len(),
        1,
        "{events:?}"
    );
}

#[test]
fn doctor_finds_the_programs_of_the_servers_of_a_team() {
    let place = team_with_action("", "", READ);
    let ended = place.host(&["doctor", "team.toml"]);
    assert!(
        ended.stdout.contains("`pages`: `python3` is `/"),
        "{}",
        ended.stdout
    );
    let team = String::from_utf8(place.read("team.toml")).expect("a text");
    let team = team.replace("python3", "no-such-program");
    let optional = team.replace("[mcp.pages]", "[mcp.pages]\nrequired = false");
    for (team, mark) in [(team, "BAD"), (optional, "-- ")] {
        place.write("team.toml", team);
        let ended = place.host(&["doctor", "team.toml"]);
        let missing =
            format!("{mark}  mcp         `pages`: the program `no-such-program` is not found");
        assert!(ended.stdout.contains(&missing), "{}", ended.stdout);
        assert_eq!(ended.code == Some(1), mark == "BAD", "{}", ended.stdout);
    }
}
