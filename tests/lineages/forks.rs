//! `fork` and `diff`: forks of forks, comparisons of lineages, and errors.

use std::fs;

use serde_json::{Value, json};

use super::{bytes, checkpoints, copy, done, ids, printed, run_on, saved};
use crate::saved::essence_of_lineage;
use crate::workspace::Workspace;

#[test]
fn forks_can_be_forked_resumed_and_compared() {
    let place = done();
    place
        .host(&[
            "fork",
            "store",
            "--at",
            "main-1",
            "--set",
            "tracking/k=9",
            "--to",
            "nine",
        ])
        .expect(0);
    place
        .host(&[
            "fork",
            "store",
            "--at",
            "main-2",
            "--set",
            "role/bar/own=\"mine\"",
            "--to",
            "later",
        ])
        .expect(0);
    run_on(&place, &["--recover_path", "nine"]);
    let rows = checkpoints(&place, "nine");
    assert_eq!(
        (rows[0]["source"].clone(), rows[0]["parent"].clone()),
        (json!("fork"), Value::Null)
    );
    let second = ids(&place, "nine")[1].clone();
    let again = printed(&place.host(&["fork", "nine", "--at", &second]).expect(0));
    run_on(&place, &["--recover_path", "nine", "--checkpoint", &again]);
    assert_eq!(
        essence_of_lineage(saved(&place, "nine"))["strata"]["status"],
        "done"
    );
    check_differences(&place, &second, &again);
}

/// Compares the lineages that were forked from `store` into `nine` and `later`. `second` is a
/// checkpoint of `nine`, and `again` a fork of it.
fn check_differences(place: &Workspace, second: &str, again: &str) {
    let compare = |one: &str, other: &str| -> Value {
        let ended = place.host(&["diff", one, other, "--json"]).expect(0);
        place.host(&["diff", one, other]).expect(0);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let told = compare("store", "nine");
    assert_eq!(
        (&told["common"], &told["one"]["first"]),
        (&json!("main-1"), &json!("main-2"))
    );
    assert_eq!(told["other"]["first"], ids(place, "nine")[0]);
    let scopes = json!([{ "scope": "tracking", "name": "k", "one": 5, "other": 9 }]);
    assert_eq!(told["difference"]["scopes"], scopes);
    assert_eq!(compare("nine", "later")["common"], "main-1");
    let told = compare("store", "later");
    assert_eq!(told["common"], "main-2");
    assert_eq!(told["difference"]["scopes"][0]["scope"], "role/bar");
    assert!(
        told["difference"]["mailboxes"]
            .as_array()
            .is_some_and(|mail| mail.len() == 1),
        "{told}"
    );
    let told = compare(&format!("nine@{second}"), &format!("nine@{again}"));
    assert_eq!(
        (&told["common"], &told["one"]["first"]),
        (&json!(second), &Value::Null)
    );
    assert_eq!(told["other"]["first"], json!(again));
    assert_eq!(told["difference"], compare("store", "store")["difference"]);
    let shown = place.host(&["diff", "store", "nine"]).expect(0).stdout;
    for part in [
        "last in common  main-1",
        "tracking/k",
        "- 5",
        "+ 9",
        "published",
    ] {
        assert!(shown.contains(part), "`{part}`: {shown}");
    }
    assert!(
        place
            .host(&["diff", "store", "store"])
            .expect(0)
            .stdout
            .contains("the states are the same")
    );
}

#[test]
fn copies_of_a_storage_that_continued_separately_differ_from_that_point_on() {
    let place = Workspace::of("fan-in");
    place.run().expect(3);
    copy(&place, "store", "copy");
    place
        .host(&["send", "copy", "--cause", "note", "--to", "quux", "psst"])
        .expect(0);
    run_on(&place, &["--recover_path", "store"]);
    run_on(&place, &["--recover_path", "copy", "--trust"]);
    let told = place
        .host(&["diff", "store", "copy", "--json"])
        .expect(0)
        .stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["common"], &told["other"]["first"]),
        (&json!("main-3"), &json!("main-4"))
    );
}

#[test]
fn a_fork_can_be_written_elsewhere_while_the_team_runs() {
    let team = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/fan-in/team.toml"
    ))
    .unwrap();
    let place = Workspace::of("fan-in");
    place.write(
        "team.toml",
        team.replace(
            "{ fail = \"error\", attempts = [1] }",
            "{ sleep = \"60s\" }",
        ),
    );
    let mut running = place.start_run(&[]);
    while running.until("action-started", Some("qux"))["action"] != "q" {}
    place
        .host(&["fork", "store", "--at", "main-1", "--to", "branch"])
        .expect(0);
    let refused = place.host(&["fork", "store", "--at", "main-1"]).expect(9);
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
    // The process that runs the team deletes them.
    place.host(&["prune", "store", "--keep", "1"]).expect(0);
    assert_eq!(checkpoints(&place, "branch").len(), 1);
    running.kill();
    assert_eq!(saved(&place, "branch")["strata"]["parent"], "main-1");
}

const REFUSED: [(&[&str], &str); 14] = [
    (
        &["fork", "store", "--at", "none", "--to", "x"],
        "there is no checkpoint `none`",
    ),
    (
        &["fork", "store", "--at", "none"],
        "there is no checkpoint `none`",
    ),
    (
        &["run", "--recover_path", "store", "--checkpoint", "none"],
        "there is no checkpoint `none`",
    ),
    (
        &["fork", "store", "--at", "main-1", "--to", "store"],
        "holds a team",
    ),
    (
        &[
            "fork",
            "store",
            "--at",
            "main-1",
            "--set",
            "nowhere/k=1",
            "--to",
            "x",
        ],
        "`tracking`, `role/foo`",
    ),
    (
        &["fork", "store", "--at", "main-1", "--set", "tracking/k={a"],
        "has to end as it",
    ),
    (
        &["events", "store", "--lineage", "none"],
        "there is no lineage `none`",
    ),
    (&["events", "store@none"], "there is no lineage `none`"),
    (
        &["diff", "store", "store@none"],
        "there is no checkpoint `none`",
    ),
    (
        &["fork", "store", "--at", "mian-1"],
        "there is no checkpoint `mian-1`; did you mean `main-1`? the newest is",
    ),
    (
        &["inspect", "store@main_1"],
        "there is no checkpoint `main_1`; did you mean `main-1`?",
    ),
    (
        &["run", "--recover_path", "store", "--checkpoint", "main-l"],
        "did you mean `main-",
    ),
    (
        &["fork", "store", "--at", "main-1", "--set", "trakcing/k=1"],
        "did you mean `tracking`?",
    ),
    (
        &["events", "store", "--lineage", "mian"],
        "there is no lineage `mian`; did you mean `main`?",
    ),
];

#[test]
fn invalid_forks_are_rejected_and_nothing_is_created() {
    let place = done();
    let before = bytes(&place, "store");
    for (args, part) in REFUSED {
        let ended = place.host(args).expect(2);
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
        assert!(!place.path("x").exists(), "{args:?}");
        assert_eq!(bytes(&place, "store"), before, "{args:?}");
    }
}

#[test]
fn a_team_json_alone_can_be_forked_at_its_checkpoint() {
    let place = Workspace::of("fan-in");
    place.run().expect(3);
    fs::remove_file(place.path("store/team.db")).unwrap();
    let alone = bytes(&place, "store");
    place.host(&["fork", "store", "--at", "main-1"]).expect(2);
    place
        .host(&["fork", "store", "--at", "main-3", "--to", "branch"])
        .expect(0);
    assert_eq!(bytes(&place, "store"), alone);
    assert_eq!(
        run_on(
            &place,
            &[
                "--recover_path",
                "branch",
                "--checkpoint",
                &ids(&place, "branch")[0]
            ]
        )
        .len(),
        2
    );
    let id = printed(
        &place
            .host(&["fork", "store", "--at", "main-3", "--set", "tracking/k=1"])
            .expect(0),
    );
    assert_eq!(place.read("store/team.json"), alone["team.json"]);
    assert_eq!(
        run_on(&place, &["--recover_path", "store", "--checkpoint", &id]).len(),
        2
    );
    assert_eq!(ids(&place, "store")[..2], ["main-3".to_owned(), id]);
}

#[test]
fn setting_a_value_that_a_finished_action_of_the_open_step_writes_causes_a_warning() {
    let place = Workspace::with(
        "schema = 'strata.team/1'\n[team]\nname = 't'\nidea = 'go'\n[env.scope.notes]\n\
         [[role]]\nname = 'A'\nwatch = ['UserRequirement']\n\
         [[role.action]]\nname = 'write'\ncomponent = 'probe.wasm'\n\
         config = { steps = [{ set = 'title', value = 'first', scope = 'notes' }, { set = 'own', value = 1 }] }\n\
         [[role.action]]\nname = 'fail'\ncomponent = 'probe.wasm'\nconfig = { steps = [{ fail = 'error' }] }\n",
    );
    place.run().expect(3);
    let last = ids(&place, "store").pop().unwrap();
    for (set, to, warned) in [
        (
            "notes/title=\"mine\"",
            "a",
            Some("`A.write` had finished in the open step and writes `notes/title` too"),
        ),
        (
            "role/A/own=2",
            "b",
            Some("`A.write` had finished in the open step and writes `role/A/own` too"),
        ),
        ("notes/other=1", "c", None),
    ] {
        let made = place
            .host(&["fork", "store", "--at", &last, "--set", set, "--to", to])
            .expect(0);
        assert_eq!(
            made.stderr.contains("warning:"),
            warned.is_some(),
            "{}",
            made.stderr
        );
        assert!(
            made.stderr.contains(warned.unwrap_or_default()),
            "{}",
            made.stderr
        );
    }
    // Nothing is pending in the state before that step.
    let made = place.host(&[
        "fork",
        "store",
        "--at",
        &ids(&place, "store")[0],
        "--set",
        "notes/title=1",
        "--to",
        "d",
    ]);
    assert!(!made.expect(0).stderr.contains("warning:"));
}
