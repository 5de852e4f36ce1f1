//! Slips of the pen, on the command line and in a team file: what was most likely meant; warnings that are refused; words
//! of suggested commands.

use std::fs;

use crate::output::TEAM;
use crate::place::Place;

#[test]
fn names_that_are_nearly_right_are_asked_about() {
    let place = Place::empty();
    fs::create_dir(place.path("respond")).unwrap();
    fs::write(place.path("replies.toml"), "").unwrap();
    for (from, to, meant) in [
        ("probe.wasm", "respnd", "did you mean `respond`?"),
        ("probe.wasm", "prob.wasm", "did you mean `probe.wasm`?"),
        ("probe.wasm", "probe.wsm", "did you mean `probe.wasm`?"),
        (
            "name = \"prints\"",
            "name = \"prints\"\non_fault = \"prak\"",
            "did you mean `park`? It is one of `stop`, `park`",
        ),
        (
            "[[role]]",
            "[limits]\nmemory = \"64mib\"\n[[role]]",
            "did you mean `64MiB`?",
        ),
        (
            "[[role]]",
            "[limits]\ntimeout = \"10sec\"\n[[role]]",
            "did you mean `10s`?",
        ),
        ("[[role]]", "[[rolle]]", "write `[[role]]`"),
    ] {
        place.write("team.toml", TEAM.replacen(from, to, 1));
        let refused = place.host(&["check", "team.toml"]).expect(2).stderr;
        assert!(refused.contains(meant), "{to}: {refused}");
    }
    place.write("team.toml", TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    let refused = place
        .host(&["run", "--recover_path", "stoer"])
        .expect(2)
        .stderr;
    assert!(refused.contains("did you mean `store`?"), "{refused}");
    let sent = place
        .host(&["send", "store", "--cause", "X", "--to", "Aa", "text"])
        .expect(0)
        .stderr;
    assert!(
        sent.contains("`Aa` takes no messages") && sent.contains("; did you mean `A`?"),
        "{sent}"
    );
}

#[test]
fn a_command_that_is_nearly_right_is_asked_about() {
    let place = Place::empty();
    for (words, meant) in [
        (&["rnu", "team.toml"][..], "run"),
        (&["-v", "rnu"], "run"),
        (&["help", "rnu"], "run"),
        (&["inspct", "store"], "inspect"),
        (&["skill", "lsit"], "list"),
        (&["run", "--evnets", "x"], "--events"),
        (&["run", "--calls", "rause"], "reuse"),
    ] {
        let refused = place.host(words).expect(2).stderr;
        let tip = refused.lines().find(|line| line.contains("tip: a similar"));
        assert!(
            tip.is_some_and(|tip| tip.contains(&format!("'{meant}'"))),
            "{words:?}: {refused}"
        );
    }
}

#[test]
fn warnings_are_refused_where_that_is_asked_for() {
    let place = Place::with(TEAM);
    place
        .host(&["check", "team.toml", "--deny-warnings"])
        .expect(0);
    place.write(
        "team.toml",
        TEAM.replace("UserRequirement", "UserRequirment"),
    );
    place.host(&["check", "team.toml"]).expect(0);
    let refused = place
        .host(&["check", "team.toml", "--deny-warnings"])
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("error: 1 warning, which `--deny-warnings` does not allow"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stdout.contains("A.One"),
        "what it found is shown all the same: {}",
        refused.stdout
    );
}

#[test]
fn a_bare_word_sets_a_text() {
    let place = Place::with(&format!("{TEAM}[env.scope.s]\n"));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place
        .host(&[
            "fork",
            "store",
            "--at",
            "main-0",
            "--set",
            "s/k=plain words",
            "--to",
            "branch",
        ])
        .expect(0);
    let json = place
        .host(&["inspect", "branch", "--json"])
        .expect(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["strata"]["state"]["env"]["s"]["k"], "plain words");
}

#[test]
fn a_suggested_command_can_be_copied_whatever_the_paths_are_called() {
    let place = Place::empty();
    place.write(
        "it's other/team.toml",
        TEAM.replace("probe.wasm", "../probe.wasm"),
    );
    place.write("team.toml", TEAM);
    let ended = place
        .host(&["run", "it's other/team.toml", "--storage", "st ore"])
        .expect(3)
        .stderr;
    assert!(
        ended.contains(r"run 'it'\''s other/team.toml' --recover_path 'st ore'"),
        "{ended}"
    );
    let resumed = place
        .host(&["run", "--recover_path", "st ore"])
        .expect(0)
        .stderr;
    let storage = fs::canonicalize(place.path("st ore")).unwrap();
    assert!(
        resumed.contains(&format!("--recover_path '{}'`", storage.display())),
        "{resumed}"
    );
}
