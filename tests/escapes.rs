//! Text that guests choose is shown without effect on the terminal: names of files, labels,
//! recipients, keys.

use crate::process::Process;
use crate::workspace::Workspace;

/// A team in which A uses every text of a guest that is shown, and then fails.
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
fn text_of_a_guest_is_escaped_at_the_terminal() {
    let place = Workspace::with(TEAM);
    let run = place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    let plain = |what: &str, text: &str, parts: &[&str]| {
        let raw = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(raw, None, "{what}: {text:?}");
        assert!(
            !text
                .lines()
                .any(|line| line.trim_start().starts_with("broken")),
            "{what}: {text}"
        );
        parts
            .iter()
            .for_each(|part| assert!(text.contains(part), "{what}: `{part}`: {text}"));
    };
    plain(
        "run",
        &run.stderr,
        &[
            "warning: message ",
            "for `name\u{fffd}[2J\u{fffd}broken` reached nobody",
        ],
    );
    let label =
        |message: &&serde_json::Value| message["cause_by"].as_str().unwrap().starts_with("label");
    let team = place.team_json();
    let messages = team["strata"]["messages"].as_object().unwrap();
    let id = messages.values().find(label).unwrap()["id"]
        .as_str()
        .unwrap();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["files", "store"], &["file\u{fffd}[2J\u{fffd}broken"]),
        (
            &["inspect", "store"],
            &[
                "file\u{fffd}[2J",
                "to `name\u{fffd}[2J",
                "idea        go \u{fffd}[2Jon",
            ],
        ),
        (
            &["inspect", "store", "--message", id],
            &[
                "label       label\u{fffd}[2J\u{fffd}broken",
                "name\u{fffd}[2J",
            ],
        ),
        (
            &["inspect", "store", "--action", "A.Write"],
            &["said \u{fffd}[2J\u{fffd}2J\u{fffd}"],
        ),
        (
            &["diff", "store@main-0", "store"],
            &["log/key\u{fffd}[2J\u{fffd}broken", "[label\u{fffd}[2J"],
        ),
    ];
    for (args, parts) in cases {
        plain(&args.join(" "), &place.host(args).expect(0).stdout, parts);
    }
    // In JSON, programs receive the text unchanged.
    let json = place.host(&["files", "store", "--json"]).expect(0).stdout;
    assert!(json.contains(r"file\u001b[2J\nbroken"), "{json}");
}

#[test]
fn colours_of_the_host_are_kept_beside_text_of_a_guest() {
    let place = Workspace::with(TEAM);
    let mut command = place.command(&["run", "team.toml", "--storage", "store"]);
    command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let shown = Process::spawn(command).end().expect(3).stderr;
    assert!(
        shown.contains("\u{1b}[1m\u{1b}[31mfault:\u{1b}[0m B action 0 `Fail`"),
        "{shown:?}"
    );
    assert!(
        !shown.contains("\u{1b}[2J") && shown.contains("name\u{fffd}[2J"),
        "{shown:?}"
    );
}

/// Characters that are invisible, change the order of text or end a line, and two that are needed
/// for emoji.
const UNSEEN: [char; 20] = [
    '\u{85}',
    '\u{9b}',
    '\u{ad}',
    '\u{34f}',
    '\u{61c}',
    '\u{180e}',
    '\u{200b}',
    '\u{200e}',
    '\u{200f}',
    '\u{2028}',
    '\u{2029}',
    '\u{202e}',
    '\u{2060}',
    '\u{2066}',
    '\u{fe00}',
    '\u{feff}',
    '\u{fff9}',
    '\u{e0001}',
    '\u{e0041}',
    '\u{e0100}',
];
const EMOJI: &str = "\u{1f469}\u{200d}\u{1f4bb}\u{2764}\u{fe0f}";

/// The text at every place where a guest, a model or the author of a team chooses a text that is
/// shown.
const UNSEEN_TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "escapes"
idea = "go TEXT on"
[env]
desc = "TEXT"
[env.scope.log]
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
profile = "TEXT"
watch = ["UserRequirement"]
[[role.action]]
name = "Write"
component = "probe.wasm"
config = { steps = [
    { write = "/out/fileTEXT", text = "x" },
    { set = "keyTEXT", value = "TEXT", scope = "log" },
    { llm = "promptTEXT" },
    { emit = "asideTEXT", cause = "labelTEXT", to = ["B", "nameTEXT"] },
    { say = "saidTEXT", data = { "aTEXT" = "TEXT" }, to = ["B"] },
] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
llm = { models = ["*"] }
[[role]]
name = "B"
watch = ["Write"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "questionTEXT" }, { fail = "error" }] }
[[route]]
from = "A"
when = "content != 'TEXT'"
to = ["B"]
"#;

const COMMANDS: [&[&str]; 16] = [
    &["inspect", "store"],
    &["inspect", "store", "--json"],
    &["inspect", "store", "--action", "A.Write"],
    &["inspect", "store", "--action", "B.Ask"],
    &["inspect", "store", "--action", "A.Write", "--json"],
    &["checkpoints", "store"],
    &["events", "store"],
    &["files", "store"],
    &["files", "store", "--json"],
    &["diff", "store@main-0", "store"],
    &["diff", "store@main-0", "store", "--json"],
    &["replay", "store", "--verify"],
    &["check", "team.toml"],
    &["graph", "team.toml"],
    &["graph", "team.toml", "--format", "dot"],
    &["graph", "team.toml", "--format", "svg"],
];

#[test]
fn no_command_shows_invisible_characters() {
    let text: String = UNSEEN.iter().flat_map(|c| ['a', *c]).collect::<String>() + EMOJI;
    let written: String = text
        .chars()
        .map(|c| format!("\\U{:08X}", u32::from(c)))
        .collect();
    let place = Workspace::with(&UNSEEN_TEAM.replace("TEXT", &written));
    place.write(
        "replies.toml",
        format!("[[reply]]\ntext = \"reply{written}\"\n"),
    );
    let run = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--events",
            "events.ndjson",
            "-vv",
        ])
        .expect(4);
    check_output("run", &run.stderr, true);
    check_output(
        "the file of events",
        &String::from_utf8(place.read("events.ndjson")).unwrap(),
        true,
    );
    let on = ["run", "--recover_path", "store"];
    check_output(
        "run --json",
        &place
            .host(&[&on[..], &["--json"]].concat())
            .expect(4)
            .stdout,
        false,
    );
    check_output(
        "an answer",
        &place
            .host(&["answer", "store", &format!("none{text}=1")])
            .expect(2)
            .stderr,
        true,
    );
    let question = place.team_json()["strata"]["requests"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    place
        .host(&["answer", "store", &format!("{question}=1")])
        .expect(0);
    check_output("a fault", &place.host(&on).expect(3).stderr, false);
    let team = place.team_json();
    for id in team["strata"]["messages"].as_object().unwrap().keys() {
        let args = ["inspect", "store", "--message", id];
        check_output(&args.join(" "), &place.host(&args).expect(0).stdout, true);
    }
    place
        .host(&["report", "store", "-o", "report.html"])
        .expect(0);
    check_output(
        "report",
        &String::from_utf8(place.read("report.html")).unwrap(),
        true,
    );
    check_commands(&place, &text);
}

/// Fails if the output of a command contains an invisible character, or if it should contain emoji
/// and does not.
fn check_output(what: &str, shown: &str, emoji: bool) {
    let found: Vec<_> = shown
        .chars()
        .filter(|c| UNSEEN.contains(c))
        .map(|c| c.escape_unicode())
        .collect();
    assert!(found.is_empty(), "{what}: {found:?}");
    assert!(
        !emoji || shown.contains(EMOJI),
        "{what} shows no emoji: {shown}"
    );
}

/// Runs every command that shows a part of a saved team.
fn check_commands(place: &Workspace, text: &str) {
    for args in COMMANDS {
        let ended = place.host(args);
        assert!(
            ended.stderr.is_empty() || matches!(ended.code, Some(0 | 1)),
            "{args:?}: {}",
            ended.stderr
        );
        check_output(&args.join(" "), &(ended.stdout + &ended.stderr), false);
    }
    // In JSON, programs receive the characters, those beyond U+FFFF as escapes.
    let events = place.host(&["events", "store"]).expect(0).stdout;
    assert!(
        events.contains(r"a\u2028a\u2029") && events.contains(r"a\udb40\udc41a"),
        "{events}"
    );
    let said = place
        .recorded()
        .into_iter()
        .find(|line| line["output"]["content"] == format!("said{text}"));
    assert!(said.is_some(), "{events}");
}

#[test]
fn invisible_characters_in_names_of_messages_are_rejected() {
    let place = Workspace::with(TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    for args in [
        ["--cause", "Wri\u{200b}te", "--to", "B"],
        ["--cause", "Write", "--to", "B\u{2060}"],
    ] {
        let refused = place
            .host(&[&["send", "store"][..], &args[..], &["hello"][..]].concat())
            .expect(2)
            .stderr;
        assert!(
            refused.contains("U+200B") || refused.contains("U+2060"),
            "{refused}"
        );
    }
}

#[test]
fn the_last_output_is_shown_without_invisible_characters() {
    let text: String = UNSEEN.iter().flat_map(|c| ['a', *c]).collect::<String>() + EMOJI;
    let written: String = text
        .chars()
        .map(|c| format!("\\U{:08X}", u32::from(c)))
        .collect();
    let role =
        "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Say\"\n";
    let say =
        format!("component = \"probe.wasm\"\nconfig = {{ steps = [{{ say = \"{written}\" }}] }}\n");
    let head = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n";
    let place = Workspace::with(&format!("{head}{role}{say}"));
    let shown = place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(0)
        .stdout;
    assert!(
        shown.contains("a\u{fffd}a\u{fffd}") && shown.contains(EMOJI),
        "{shown:?}"
    );
    assert!(!shown.contains(UNSEEN), "{shown:?}");
    let json = place
        .host(&["run", "team.toml", "--storage", "again", "--json"])
        .expect(0)
        .stdout;
    assert!(!json.contains(UNSEEN), "{json:?}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["output"],
        text
    );
}
