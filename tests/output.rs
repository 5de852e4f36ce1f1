//! The output of commands: data on stdout, everything else on stderr.

use std::fs;

use serde_json::Value;

use crate::process::Process;
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// A team whose second action fails once.
pub const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "prints"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ emit = "aside", to = ["Nobody"] }] }
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }] }
"#;

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_run_prints_only_requested_data_to_stdout() {
    let place = Workspace::with(TEAM);
    let ended = place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("A.One"), "{}", ended.stderr);

    let ended = place
        .host(&["run", "--recover_path", "store", "--quiet"])
        .expect(0);
    assert_eq!(ended.stdout, "Two ok\n");
    let warning = "for `Nobody` reached nobody";
    assert!(
        ended.stderr.lines().all(|line| line.contains(warning)),
        "{}",
        ended.stderr
    );

    let ended = place
        .host(&["run", "team.toml", "--storage", "other", "--quiet"])
        .expect(3);
    assert!(
        ended
            .stderr
            .starts_with("fault: A action 1 `Two` attempt 1: error: "),
        "{}",
        ended.stderr
    );

    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "third",
            "--json",
            "--quiet",
        ])
        .expect(3);
    let summary = json(&ended.stdout);
    assert_eq!(summary["status"], "failed");
    assert_eq!(summary["storage"], "third");
    assert_eq!(summary["faults"][0]["role"], "A");
    assert_eq!(summary["faults"][0]["kind"], "error");
    let ended = place
        .host(&["run", "--recover_path", "third", "--json", "--quiet"])
        .expect(0);
    assert_eq!(json(&ended.stdout)["status"], "done");
    let ended = place
        .host(&["run", "--recover_path", "third", "--json", "--quiet"])
        .expect(0);
    assert_eq!(json(&ended.stdout)["status"], "done");
}

#[test]
fn an_idea_that_no_role_watches_is_reported() {
    let place = Workspace::with(&TEAM.replace("UserRequirement", "UserRequirements"));
    let ended = place.run().expect(0);
    assert!(
        ended.stderr.contains("warning: the idea reached nobody"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("`UserRequirement`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn warnings_are_shown_with_quiet_too() {
    let place = Workspace::with(
        &TEAM
            .replace("[1]", "[9]")
            .replace("UserRequirement\"]", "UserRequirement\", \"two\"]"),
    );
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(0);
    assert!(
        ended.stderr.starts_with("warning: `A` watches `two`"),
        "{}",
        ended.stderr
    );
    let mut coloured = place.command(&["run", "team.toml", "--storage", "other", "--quiet"]);
    coloured.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    let ended = Process::spawn(coloured).end().expect(0);
    assert!(
        ended
            .stderr
            .starts_with("\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m `A` watches"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_argument_that_is_not_utf8_is_rejected() {
    use std::os::unix::ffi::OsStrExt;
    let place = Workspace::empty();
    for before in [&[][..], &["run"], &["--quiet"]] {
        let mut command = place.command(before);
        command.arg(std::ffi::OsStr::from_bytes(b"\xff"));
        Process::spawn(command).end().expect(2);
    }
}

#[test]
fn team_files_and_storage_are_not_overwritten() {
    let place = Workspace::with(TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    let database = place.read("store/team.db");
    let saved = "store/../store/team.db";
    fs::create_dir(place.path("empty")).unwrap();
    for args in [
        &[
            "run",
            "team.toml",
            "--storage",
            "other",
            "--events",
            "./team.toml",
        ][..],
        &[
            "dev",
            "team.toml",
            "--storage",
            "other",
            "--events",
            "./team.toml",
        ],
        &["run", "--recover_path", "store", "--events", saved],
        &[
            "run",
            "--recover_path",
            "store/team.json",
            "--events",
            saved,
        ],
        &[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--force",
            "--events",
            saved,
        ],
        &[
            "run",
            "team.toml",
            "--storage",
            "empty",
            "--events",
            "empty/team.json",
        ],
        &["report", "store", "--output", saved],
    ] {
        let refused = place.host(args).expect(2);
        assert!(
            refused.stderr.contains("another name"),
            "{args:?}: {}",
            refused.stderr
        );
    }
    assert_eq!(place.read("team.toml"), TEAM.as_bytes());
    assert_eq!(place.read("store/team.db"), database);
    assert!(fs::read_dir(place.path("empty")).unwrap().next().is_none());
}

#[test]
fn only_some_of_very_many_unknown_names_are_shown() {
    let nobody: Vec<String> = (0..50).map(|n| format!("\"nobody-{n}\"")).collect();
    let place = Workspace::with(&TEAM.replace(
        r#"to = ["Nobody"]"#,
        &format!("to = [{}]", nobody.join(", ")),
    ));
    place.run().expect(3);
    let ended = place.resume().expect(0);
    assert_eq!(
        ended.stderr.matches("reached nobody").count(),
        8,
        "{}",
        ended.stderr
    );
    assert_eq!(
        ended.stderr.matches("is for more that are nobody").count(),
        1,
        "{}",
        ended.stderr
    );
    let all = place.recorded();
    assert_eq!(stream::of_kind(&all, "dead-letter").len(), 50);
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_run() {
    for closed in ["| true", "2>&1 >/dev/null | true"] {
        let place = Workspace::with(TEAM);
        let mut shell = std::process::Command::new("sh");
        let host = place.command(&["run", "team.toml", "--storage", "store", "--events", "-"]);
        // By the time the host writes, nobody reads any more.
        shell.args([
            "-c",
            &format!("{{ sleep 0.2; \"$0\" \"$@\"; echo $? > code; }} {closed}"),
        ]);
        shell
            .arg(host.get_program())
            .args(host.get_args())
            .current_dir(place.path(""));
        shell.envs(
            host.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let ended = Process::spawn(shell).end();
        assert_eq!(
            String::from_utf8(place.read("code")).unwrap(),
            "3\n",
            "{closed}: {}",
            ended.stderr
        );
        assert_eq!(place.team_json()["strata"]["status"], "failed");
    }
}

#[test]
fn send_prints_the_result_for_scripts() {
    let place = Workspace::with(TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(3);
    let send = |more: &[&str]| {
        let sent = place
            .host(&[&["send", "store", "--json", "--cause", "x", "text"], more].concat())
            .expect(0);
        serde_json::from_str::<Value>(&sent.stdout).unwrap()
    };
    let to = ["--to", "A", "--to", "Nobody", "--idempotency-key", "k"];
    let expected =
        serde_json::json!({ "id": "sent-0", "to": ["A"], "dead": ["Nobody"], "known": false });
    assert_eq!(send(&to), expected);
    assert_eq!(send(&to)["known"], true);
    assert_eq!(send(&[])["to"], serde_json::json!([]));
}

#[test]
fn failing_to_write_data_is_an_error_unless_the_pipe_is_closed() {
    let place = Workspace::with(TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(3);
    let into = |to: &str, args: &[&str], code: &str| {
        let host = place.command(args);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{{ \"$0\" \"$@\"; echo $? >code; }} {to}")]);
        shell
            .arg(host.get_program())
            .args(host.get_args())
            .current_dir(place.path(""));
        shell.envs(
            host.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let stderr = Process::spawn(shell).end().stderr;
        assert_eq!(
            String::from_utf8(place.read("code")).unwrap().trim(),
            code,
            "{args:?} {to}: {stderr}"
        );
        stderr
    };
    let commands = [
        &["events", "store"] as &[&str],
        &["inspect", "store"],
        &["inspect", "store", "--json"],
        &["checkpoints", "store"],
        &["report", "store"],
        &["schema"],
        &["graph", "team.toml"],
        &["check", "team.toml"],
        &["run", "--recover_path", "store", "--json", "--quiet"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ];
    for args in commands {
        let stderr = into(">/dev/full", args, "1");
        let told: Vec<&str> = stderr
            .lines()
            .filter(|line| !line.starts_with("warning:"))
            .collect();
        let [error] = told.as_slice() else {
            panic!("{args:?}: {stderr}")
        };
        assert!(
            error.starts_with("error: cannot write to stdout: No space left"),
            "{args:?}: {stderr}"
        );
        let stderr = into("| true", args, "0");
        assert!(!stderr.contains("error"), "{args:?}: {stderr}");
    }
}

#[test]
fn inspect_shows_the_saved_state_and_prints_team_json_as_json() {
    let place = Workspace::with(TEAM);
    place.run().expect(3);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    for part in [
        "failed",
        "A",
        "action 1 `Two`",
        "error: the probe was told to fail",
        "UserRequirement",
        "go",
    ] {
        assert!(shown.contains(part), "`{part}`: {shown}");
    }
    let ended = place.host(&["inspect", "store", "--json"]).expect(0);
    let mut printed = json(&ended.stdout);
    let run = printed.as_object_mut().unwrap().remove("run").unwrap();
    assert_eq!(run["state"], "ended");
    assert_eq!(printed, place.team_json());
    assert_eq!(ended.stderr, "");
    let entry = place
        .host(&["inspect", "store", "--checkpoint", "main-0", "--json"])
        .expect(0);
    let entry = json(&entry.stdout);
    assert_eq!(entry["strata"]["status"], "running");
    assert_eq!(entry["env"]["roles"]["A"]["rc"]["state"], -1);
    assert_eq!(entry["strata"]["buffers"]["A"], serde_json::json!(["idea"]));
}

#[test]
fn checkpoints_are_listed_oldest_first_each_with_its_parent() {
    let place = Workspace::with(TEAM);
    place.run().expect(3);
    place.resume().expect(0);
    let ended = place.host(&["checkpoints", "store", "--json"]).expect(0);
    let rows = json(&ended.stdout);
    let rows = rows.as_array().unwrap();
    let sources: Vec<&str> = rows
        .iter()
        .map(|row| stream::text(&row["source"]))
        .collect();
    assert_eq!(sources, ["entry", "fault", "step"]);
    assert!(rows[0]["parent"].is_null());
    // The parent of the first step is the entry state, although the step was interrupted once.
    assert_eq!(
        [&rows[1]["parent"], &rows[2]["parent"]],
        [&rows[0]["id"], &rows[0]["id"]]
    );
    assert_eq!(rows.last().unwrap()["status"], "done");
    let table = place.host(&["checkpoints", "store"]).expect(0).stdout;
    assert_eq!(table.lines().count(), rows.len() + 1);
    for row in rows {
        assert!(table.contains(stream::text(&row["id"])), "{table}");
    }
}

#[test]
fn an_unknown_checkpoint_is_refused_with_the_newest_there_is() {
    let place = Workspace::with(TEAM);
    place.run().expect(3);
    let ended = place
        .host(&["inspect", "store", "--checkpoint", "main-77"])
        .expect(2);
    assert_eq!(ended.stdout, "");
    for part in ["`main-77`", "`main-1`", "`checkpoints`"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}

#[test]
fn check_prints_the_policy_and_runs_nothing() {
    // If the action were run or described, it would not end.
    let place =
        Workspace::with(&TEAM.replace("fail = \"error\", attempts = [1]", "fail = \"spin\""));
    let before = fs::read_dir(place.path("")).unwrap().count();
    let ended = place.host(&["check", "team.toml"]).expect(0);
    for part in [
        "A.One",
        "A.Two",
        "probe.wasm",
        "sha256",
        "64 MiB",
        "10 s",
        "touch nothing outside",
    ] {
        assert!(ended.stdout.contains(part), "`{part}`: {}", ended.stdout);
    }
    assert_eq!(ended.stderr, "");
    let rows = json(
        &place
            .host(&["check", "team.toml", "--json"])
            .expect(0)
            .stdout,
    );
    let slots: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| stream::text(&row["slot"]))
        .collect();
    assert_eq!(slots, ["A.One", "A.Two"]);
    assert_eq!(rows[0]["memory_bytes"], 64 << 20);
    assert_eq!(
        fs::read_dir(place.path("")).unwrap().count(),
        before,
        "check created something"
    );
}

#[test]
fn streamed_replies_are_shown_with_verbose() {
    let web = Web::new();
    let place = Workspace::empty();
    let role = |name: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"Ask\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{{ llm = \"{name}\\none\\u0007two\" }}] }}\n\
             [role.action.allow]\nllm = {{ models = [\"*\"] }}\n"
        )
    };
    let shown = |way: &str, flags: &[&str]| {
        let llm = format!(
            "base_url = \"http://127.0.0.1:{}/v1/{way}\"\nmodel = \"m\"\n",
            web.port()
        );
        let head = format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[llm]\nprovider = \"openai\"\n{llm}"
        );
        place.write("team.toml", head + &role("A") + &role("B"));
        let ended = place
            .host(
                &[
                    &["run", "team.toml", "--storage", "store", "--force"],
                    flags,
                ]
                .concat(),
            )
            .expect(0);
        ended
            .stderr
            .lines()
            .filter(|line| line.contains("> "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for way in ["drip", "whole"] {
        let mut lines = shown(way, &["-v"]);
        lines.sort();
        assert_eq!(
            lines,
            [
                "  A> one\u{fffd}two",
                "  A> re: A",
                "  B> one\u{fffd}two",
                "  B> re: B"
            ],
            "{way}"
        );
        for flags in [&[][..], &["-v", "--quiet"], &["-v", "--json"]] {
            assert_eq!(shown(way, flags), [""; 0], "{way} {flags:?}");
        }
    }
    let asked = web.requests();
    let streamed = asked
        .iter()
        .filter(|request| request.text.contains("\"stream\":true"))
        .count();
    assert_eq!(
        (streamed, asked.len()),
        (4, 16),
        "asked to stream only where somebody listens"
    );
}
