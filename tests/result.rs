//! The result of a run: its last output on stdout, and where it is saved by default.

use std::fs;

use serde_json::Value;

use crate::terminal::Terminal;
use crate::workspace::Workspace;

/// Returns a team with a name and a last step. It also emits a message.
fn team(name: &str, said: &str) -> String {
    format!(
        r#"
schema = "strata.team/1"
[team]
name = {name:?}
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Early"
component = "probe.wasm"
config = {{ steps = [{{ say = "early" }}] }}
[[role]]
name = "B"
watch = ["Early"]
[[role.action]]
name = "Late"
component = "probe.wasm"
config = {{ steps = [{{ emit = "aside", cause = "Note" }}, {said}] }}
"#
    )
}

/// Returns a team whose last output is this text.
fn saying(text: &str) -> String {
    team("says", &format!("{{ say = {} }}", Value::from(text)))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_run_that_is_done_prints_its_last_output_whole_and_once() {
    let long = "0123456789".repeat(10_000);
    for (said, expected) in [
        ("short", "short\n"),
        ("two\nlines\n", "two\nlines\n"),
        ("", "\n"),
        (&long, &format!("{long}\n")),
    ] {
        let place = Workspace::with(&saying(said));
        for loud in [
            &["--storage", "loud"][..],
            &["--storage", "quiet", "--quiet"],
        ] {
            let ended = place
                .host(&[&["run", "team.toml"], loud].concat())
                .expect(0);
            assert_eq!(ended.stdout, expected, "{loud:?}");
        }
        let again = place.host(&["run", "--recover_path", "quiet"]).expect(0);
        assert_eq!(again.stdout, expected, "a team that is done says it again");
        let summary = json(
            &place
                .host(&["run", "team.toml", "--storage", "json", "--json"])
                .expect(0)
                .stdout,
        );
        assert_eq!(summary["output"], said);
    }
}

#[test]
fn the_output_is_escaped_at_the_terminal_and_exact_in_json() {
    let place = Workspace::with(&saying("red \u{1b}[31m\u{202e}\t!"));
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(0);
    assert_eq!(ended.stdout, "red \u{fffd}[31m\u{fffd}\t!\n");
    let summary = json(
        &place
            .host(&["run", "--recover_path", "store", "--json"])
            .expect(0)
            .stdout,
    );
    assert_eq!(summary["output"], "red \u{1b}[31m\u{202e}\t!");
    let shown = Terminal::open(&place, &["run", "--recover_path", "store"])
        .end()
        .1;
    assert!(
        shown.contains("red ") && shown.contains("[31m") && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
    assert!(!shown.contains("red \u{1b}"), "{shown:?}");
}

#[test]
fn only_events_are_written_to_stdout_with_events() {
    let place = Workspace::with(&saying("the end"));
    let ended = place.run().expect(0);
    assert_eq!(ended.events().last().unwrap()["kind"], "run-ended");
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "file",
            "--events",
            "events",
        ])
        .expect(0);
    assert_eq!(ended.stdout, "the end\n");
}

#[test]
fn a_run_that_is_not_done_prints_no_output() {
    let place = Workspace::with(&team("fails", "{ fail = \"error\", attempts = [1] }"));
    let ended = place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    assert_eq!(ended.stdout, "");
    let summary = json(
        &place
            .host(&["run", "team.toml", "--storage", "json", "--json"])
            .expect(3)
            .stdout,
    );
    assert_eq!(summary["output"], Value::Null);
    assert_eq!(
        place
            .host(&["run", "--recover_path", "store"])
            .expect(0)
            .stdout,
        "Late ok\n",
        "a resume that is done"
    );
}

#[test]
fn a_message_that_was_sent_is_not_an_output_whatever_its_sender() {
    let place = Workspace::with(&saying("ours"));
    place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(0);
    place
        .host(&["send", "store", "--cause", "Nothing", "theirs"])
        .expect(0);
    assert_eq!(
        place
            .host(&["run", "--recover_path", "store", "--quiet"])
            .expect(0)
            .stdout,
        "ours\n"
    );
}

#[test]
fn a_team_without_output_prints_nothing() {
    let place = Workspace::with(&saying("x").replace("UserRequirement", "Nothing"));
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--quiet"])
        .expect(0);
    assert_eq!(ended.stdout, "");
    let summary = json(
        &place
            .host(&["run", "--recover_path", "store", "--json"])
            .expect(0)
            .stdout,
    );
    assert_eq!(
        (&summary["output"], &summary["status"]),
        (&Value::Null, &"done".into())
    );
}

#[test]
fn inspect_names_the_last_output_and_the_command_that_shows_all_of_it() {
    let place = Workspace::with(&saying(&format!("{} the end", "long ".repeat(50))));
    place
        .host(&["run", "team.toml", "--storage", "a store", "--quiet"])
        .expect(0);
    let shown = place.host(&["inspect", "a store"]).expect(0).stdout;
    let line = shown
        .lines()
        .find(|line| line.starts_with("output "))
        .unwrap();
    assert!(!line.contains("the end"), "{line}");
    let id = line.split_whitespace().nth(1).unwrap();
    assert!(
        shown.contains("in full: strata-host inspect 'a store' --message ID"),
        "{shown}"
    );
    let whole = place
        .host(&["inspect", "a store", "--message", id])
        .expect(0)
        .stdout;
    assert!(whole.contains("the end"), "{whole}");
    let earlier = place.host(&["inspect", "a store@main-0"]).expect(0).stdout;
    assert!(
        earlier.contains("strata-host inspect 'a store@main-0' --message ID"),
        "{earlier}"
    );
    let near = place
        .host(&["inspect", "a store", "--message", &format!("{id}0")])
        .expect(2)
        .stderr;
    assert!(near.contains("did you mean `"), "{near}");
}

/// Returns the idea of the team that is saved in a directory.
fn saved(place: &Workspace, storage: &str) -> Value {
    json(&String::from_utf8(place.read(&format!("workspace/storage/{storage}/team.json"))).unwrap())
        ["idea"]
        .clone()
}

/// Runs a team with this name and idea to its end, and returns its stderr.
fn run_named(place: &Workspace, name: &str, idea: &str) -> String {
    place.write("named.toml", team(name, "{ say = \"x\" }"));
    place.host(&["run", "named.toml", idea]).expect(0).stderr
}

#[test]
fn each_team_has_a_directory_with_its_name_and_a_link_points_to_the_last_one() {
    let place = Workspace::empty();
    let told = run_named(&place, "one", "of one");
    assert!(told.contains("saved in `workspace/storage/one`"), "{told}");
    run_named(&place, "two", "of two");
    assert_eq!(
        (
            saved(&place, "one"),
            saved(&place, "two"),
            saved(&place, "team")
        ),
        ("of one".into(), "of two".into(), "of two".into())
    );
    let link = fs::read_link(place.path("workspace/storage/team")).unwrap();
    assert_eq!(
        link.to_str(),
        Some("two"),
        "it is relative: the folder may be moved"
    );
    run_named(&place, "one", "of one again");
    assert_eq!(saved(&place, "team"), "of one again");
    assert!(!place.path("workspace/storage/two/old-1").exists());
}

#[test]
fn every_command_accepts_the_link_and_suggests_its_target() {
    let place = Workspace::with(&team("real", "{ fail = \"error\" }"));
    place.host(&["run", "team.toml"]).expect(3);
    for path in [
        "workspace/storage/team",
        "./workspace/storage/team/",
        "workspace/storage/team/team.json",
    ] {
        for args in [
            &["inspect"][..],
            &["checkpoints"],
            &["events"],
            &["report"],
            &["files"],
            &["prune"],
        ] {
            place.host(&[args, &[path]].concat()).expect(0);
        }
        let shown = place.host(&["inspect", path]).expect(0).stdout;
        assert!(
            shown.contains("--recover_path ") && !shown.contains("storage/team "),
            "{path}: {shown}"
        );
        let resumed = place
            .host(&["run", "--recover_path", path])
            .expect(3)
            .stderr;
        assert!(
            resumed.contains("storage/real") && !resumed.contains("storage/team"),
            "{path}: {resumed}"
        );
    }
    let at = place
        .host(&["inspect", "workspace/storage/team@main-0"])
        .expect(0)
        .stdout;
    assert!(
        at.contains("inspect workspace/storage/real@main-0 --message"),
        "{at}"
    );
    place
        .host(&[
            "diff",
            "workspace/storage/team@main-0",
            "workspace/storage/real",
        ])
        .expect(0);
    let told = place
        .host(&["fork", "workspace/storage/team", "--at", "main-0"])
        .expect(0)
        .stderr;
    assert!(
        told.contains("--recover_path workspace/storage/real --checkpoint"),
        "{told}"
    );
    let refused = place.host(&["run", "team.toml"]).expect(2).stderr;
    assert!(
        refused.contains("--recover_path workspace/storage/real`"),
        "{refused}"
    );
}

#[test]
fn a_directory_with_the_name_of_the_link_is_not_changed() {
    let place = Workspace::empty();
    place.write("workspace/storage/team/mine", "mine");
    run_named(&place, "one", "of one");
    assert_eq!(place.read("workspace/storage/team/mine"), b"mine");
    assert!(!place.path("workspace/storage/team/team.json").exists());
    let place = Workspace::empty();
    place.write("workspace/storage/team", "a file");
    run_named(&place, "one", "of one");
    assert_eq!(place.read("workspace/storage/team"), b"a file");
    // A run with `--storage` does not move the link.
    let place = Workspace::with(&saying("x"));
    place
        .host(&["run", "team.toml", "--storage", "workspace/storage/other"])
        .expect(0);
    assert!(!place.path("workspace/storage/team").exists());
}

#[test]
fn teams_whose_names_give_the_same_directory_do_not_overwrite_each_other() {
    let place = Workspace::empty();
    let names = ["a b", "a?b", "a/b", "team", "team_", ".", ".."];
    for name in names {
        run_named(&place, name, name);
        assert_eq!(saved(&place, "team"), name);
    }
    // Each team uses its own directory again.
    for name in names {
        let told = run_named(&place, name, name);
        assert!(
            told.contains("the team that was saved there is now in `workspace/storage/"),
            "{name}: {told}"
        );
    }
    let directories = fs::read_dir(place.path("workspace/storage")).unwrap();
    let directories =
        directories.filter(|entry| !entry.as_ref().unwrap().file_type().unwrap().is_symlink());
    assert_eq!(directories.count(), names.len());
    assert_eq!(
        (saved(&place, "a_b"), saved(&place, "team_")),
        ("a b".into(), "team".into())
    );
}

#[test]
fn an_unfinished_team_of_the_same_name_is_not_overwritten() {
    let place = Workspace::with(&team("one", "{ fail = \"error\" }"));
    place.host(&["run", "team.toml"]).expect(3);
    let refused = place.host(&["run", "team.toml"]).expect(2).stderr;
    assert!(
        refused.contains("`workspace/storage/one` holds an unfinished team"),
        "{refused}"
    );
    run_named(&place, "two", "of two");
    let told = place
        .host(&["run", "team.toml", "--force"])
        .expect(3)
        .stderr;
    assert!(told.contains("`workspace/storage/one/old-1`"), "{told}");
    assert_eq!(saved(&place, "team"), "go");
}
