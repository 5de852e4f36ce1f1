//! The status lines of a run at a terminal: what they show while actions run, that they are removed
//! at the end, and where they are not shown.

use crate::terminal::{Terminal, screen};
use crate::workspace::Workspace;

/// A team in which A makes a paid call, B sleeps, and C has nothing to do.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "seen"
idea = "go"
investment = 2.0
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 100000, output = 100000 }
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Think"
component = "probe.wasm"
config = { steps = [{ llm = "q" }, { say = "thought \u001b[2Jof it" }] }
[role.action.allow]
llm = { models = ["*"] }
[[role]]
name = "B"
watch = ["UserRequirement"]
[[role.action]]
name = "WorkOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOn"
component = "probe.wasm"
config = { steps = [{ sleep = "PAUSE" }, { say = "worked" }] }
[[role]]
name = "C"
watch = ["nothing"]
[[role.action]]
name = "Rest"
component = "probe.wasm"
"#;

const RUN: [&str; 4] = ["run", "team.toml", "--storage", "store"];

fn place(pause: &str) -> Workspace {
    let place = Workspace::with(&TEAM.replace("PAUSE", pause));
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"t\"\ninput = 1\noutput = 1\n",
    );
    place
}

#[test]
fn running_roles_and_costs_are_shown_below_finished_actions_and_removed_at_the_end() {
    let place = place("90s");
    let mut terminal = Terminal::of_kind("xterm", &place, &RUN);
    terminal.until("A.Think");
    terminal.until("ok    ");
    // Redrawn until then.
    terminal.until("1 of 3 roles at work, $0.2000 of $2.0000 spent");
    terminal.until("B.WorkOn");
    let stands = terminal.screen_content();
    let lines: Vec<&str> = stands.lines().collect();
    assert!(
        lines[0].contains("step 0   A.Think") && lines[0].contains("[2Jof it"),
        "{stands}"
    );
    assert!(
        lines[1].contains("step 0   1 of 3 roles at work"),
        "{stands}"
    );
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    let stands = screen(&shown);
    assert!(stands.contains("interrupted at step 0"), "{stands}");
    assert!(!stands.contains("at work"), "{stands}");
}

#[test]
fn a_running_call_is_shown() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    let model = format!("provider = \"openai\"\nmodel = \"m\"\nretries = 0\nbase_url = \"{url}\"");
    let scripted = "provider = \"scripted\"\nreplies = \"replies.toml\"";
    let place = Workspace::with(&TEAM.replace(scripted, &model).replace("PAUSE", "1ms"));
    let mut terminal = Terminal::of_kind("xterm", &place, &RUN);
    // The system accepts the connection, but nobody reads the request.
    terminal.until("waits for llm");
    drop(server);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(3), "{shown}");
}

#[test]
fn the_live_view_is_not_shown_where_it_would_disturb() {
    let moves = |kind: &str, flags: &[&str]| {
        let place = place("400ms");
        let terminal = Terminal::of_kind(kind, &place, &[&RUN[..], flags].concat());
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{shown}");
        (shown.contains("at work"), shown.contains('\u{1b}'))
    };
    assert_eq!(moves("xterm", &[]), (true, true));
    assert_eq!(moves("dumb", &[]), (false, false));
    assert_eq!(moves("xterm", &["--quiet"]), (false, false));
    let piped = place("1ms").host(&RUN).expect(0);
    assert!(
        !piped.stderr.contains("at work") && !piped.stderr.contains('\u{1b}'),
        "{}",
        piped.stderr
    );
}

#[test]
fn events_and_the_log_are_not_mixed_with_the_live_view() {
    let place = place("400ms");
    let terminal = Terminal::of_kind(
        "xterm",
        &place,
        &[&RUN[..], &["--events", "-", "-v"]].concat(),
    );
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let begun = shown.split("{\"n\":").skip(1).count();
    // The lines must not be mixed with the status.
    let whole = shown
        .split("{\"n\":")
        .skip(1)
        .filter(|rest| rest.contains("}\r\n") || rest.contains("}\n"))
        .count();
    assert_eq!(begun, whole, "{shown}");
    assert_eq!(begun, place.recorded().len());
}
