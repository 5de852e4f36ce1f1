//! What guests choose is shown to people, and does nothing to their terminal: names of files, labels, recipients, keys.

use crate::place::Place;
use crate::process::Process;

/// A takes every place where a guest chooses a text that is shown; then it fails.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "escapes"
idea = "go \u001b[2Jon"
[env.scope.log]
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Write"
component = "probe.wasm"
config = { steps = [
    { write = "/out/file\u001b[2J\nbroken", text = "x" },
    { set = "key\u001b[2J\nbroken", value = "\u001b[2J", scope = "log" },
    { emit = "aside \u001b[2J", cause = "label\u001b[2J\nbroken", to = ["B", "name\u001b[2J\nbroken"] },
    { say = "said \u001b[2J\u009b2J\r", to = ["B"] },
] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role]]
name = "B"
watch = ["Write"]
[[role.action]]
name = "Fail"
component = "probe.wasm"
config = { steps = [{ fail = "error" }] }
"#;

#[test]
fn nothing_that_a_guest_chose_reaches_the_terminal_as_it_is() {
    let place = Place::with(TEAM);
    let run = place.host(&["run", "team.toml", "--storage", "store"]).expect(3);
    let plain = |what: &str, text: &str, parts: &[&str]| {
        let raw = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(raw, None, "{what}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("broken")), "{what}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{what}: `{part}`: {text}"));
    };
    plain("run", &run.stderr, &["warning: message ", "for `name\u{fffd}[2J\u{fffd}broken` reached nobody"]);
    let label = |message: &&serde_json::Value| message["cause_by"].as_str().unwrap().starts_with("label");
    let team = place.team_json();
    let messages = team["strata"]["messages"].as_object().unwrap();
    let id = messages.values().find(label).unwrap()["id"].as_str().unwrap();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["files", "store"], &["file\u{fffd}[2J\u{fffd}broken"]),
        (&["inspect", "store"], &["file\u{fffd}[2J", "to `name\u{fffd}[2J", "idea        go \u{fffd}[2Jon"]),
        (&["inspect", "store", "--message", id], &["label       label\u{fffd}[2J\u{fffd}broken", "name\u{fffd}[2J"]),
        (&["inspect", "store", "--action", "A.Write"], &["said \u{fffd}[2J\u{fffd}2J\u{fffd}"]),
        (&["diff", "store@main-0", "store"], &["log/key\u{fffd}[2J\u{fffd}broken", "[label\u{fffd}[2J"]),
    ];
    for (args, parts) in cases {
        plain(&args.join(" "), &place.host(args).expect(0).stdout, parts);
    }
    // Programs are told what it is.
    let json = place.host(&["files", "store", "--json"]).expect(0).stdout;
    assert!(json.contains(r"file\u001b[2J\nbroken"), "{json}");
}

#[test]
fn our_own_colours_are_shown_beside_what_a_guest_chose() {
    let place = Place::with(TEAM);
    let mut command = place.command(&["run", "team.toml", "--storage", "store"]);
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let shown = Process::spawn(command).end().expect(3).stderr;
    assert!(shown.contains("\u{1b}[1m\u{1b}[31mfault:\u{1b}[0m B action 0 `Fail`"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[2J") && shown.contains("name\u{fffd}[2J"), "{shown:?}");
}
