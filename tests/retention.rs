//! Old checkpoints: they are removed as the team file specifies, or by `prune`. The remaining ones
//! can be used.

use std::fs;

use serde_json::Value;

use crate::stream::text;
use crate::workspace::Workspace;

/// Returns a team of two roles that keep each other busy for a while, and change a large value in
/// each step.
fn team(more: &str) -> String {
    let value = "x".repeat(4000);
    let role = |name: &str, watch: &str, action: &str| {
        format!(
            "[[role]]\nname = \"{name}\"\nwatch = [{watch}]\n[[role.action]]\nname = \"{action}\"\n\
             component = \"probe.wasm\"\n\
             config = {{ steps = [{{ set = \"k\", value = \"{name}{value}\", scope = \"tracking\" }}] }}\n"
        )
    };
    let head =
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[env.scope.tracking]\n";
    let run = format!("[run]\nmax_steps = 40\n{more}\n");
    [
        head.into(),
        run,
        role("A", "\"UserRequirement\", \"b\"", "a"),
        role("B", "\"a\"", "b"),
    ]
    .concat()
}

const TEAM_THAT_ASKS: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[run]
KEPT
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "a"
component = "probe.wasm"
config = { steps = [{ ask = "go on?" }, { say = "{reads}" }] }
"#;

fn ids(place: &Workspace) -> Vec<String> {
    let listed = place.host(&["checkpoints", "store", "--json"]).expect(0);
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let known = |id: &Value| id.is_null() || rows.iter().any(|row| row["id"] == *id);
    assert!(rows.iter().all(|row| known(&row["parent"])));
    assert_eq!(rows.iter().filter(|row| row["parent"].is_null()).count(), 1);
    rows.iter().map(|row| text(&row["id"]).to_owned()).collect()
}

fn size(place: &Workspace) -> u64 {
    fs::metadata(place.path("store/team.db")).unwrap().len()
}

#[test]
fn a_pruned_storage_is_small_and_can_be_resumed_forked_and_listed() {
    let place = Workspace::with(&team(""));
    place.run().expect(7);
    let (before, all, json) = (
        size(&place),
        place.recorded(),
        place.read("store/team.json"),
    );
    assert_eq!(ids(&place).len(), 41);
    let ended = place
        .host(&["prune", "store", "--keep", "2", "--json"])
        .expect(0);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(told["checkpoints"], 38);
    assert!(size(&place) * 3 < before, "{} of {before}", size(&place));
    assert_eq!(told["bytes"], before - size(&place));
    assert_eq!(place.read("store/team.json"), json);
    assert_eq!(ids(&place), ["main-0", "main-39", "main-40"]);
    let again = place.host(&["prune", "store", "--keep", "2"]).expect(0);
    assert!(
        again
            .stderr
            .contains("pruned 0 checkpoints and 0 events; the newest 2"),
        "{}",
        again.stderr
    );

    let ended = place.host(&["events", "store"]).expect(0);
    let left = ended.events();
    assert!(
        left.len() < all.len() / 3 && left.iter().all(|line| all.contains(line)),
        "{}",
        left.len()
    );
    assert!(ended.stderr.contains("were pruned"), "{}", ended.stderr);
    for id in ids(&place) {
        place
            .host(&["inspect", "store", "--checkpoint", &id])
            .expect(0);
    }
    check_continuing(&place);
}

/// Resumes the newest state of a pruned storage, an old one, and a fork of it.
fn check_continuing(place: &Workspace) {
    place
        .host(&["fork", "store", "--at", "main-39", "--to", "branch"])
        .expect(0);
    let on = |args: &[&str]| {
        place
            .host(&[&["run", "--events", "-"], args].concat())
            .expect(7)
            .events()
    };
    let steps = |lines: &[Value]| {
        lines
            .iter()
            .filter(|line| line["kind"] == "step-committed")
            .count()
    };
    assert_eq!(
        steps(&on(&["--recover_path", "branch", "--max-steps", "42"])),
        3
    );
    assert_eq!(
        steps(&on(&["--recover_path", "store", "--max-steps", "42"])),
        2
    );
    assert_eq!(
        steps(&on(&[
            "--recover_path",
            "store",
            "--max-steps",
            "3",
            "--checkpoint",
            "main-0"
        ])),
        3
    );
    assert_eq!(place.team_json()["strata"]["lineage"], "main.1");
    place.host(&["prune", "store", "--keep", "1"]).expect(0);
    assert_eq!(ids(place), ["main-0", "main-42", "main.1-1", "main.1-4"]);
    assert_eq!(
        steps(&on(&[
            "--recover_path",
            "store",
            "--max-steps",
            "44",
            "--checkpoint",
            "main-42"
        ])),
        2
    );
}

#[test]
fn a_pruned_storage_can_be_replayed_and_reported_and_kept_checkpoints_survive_a_long_run() {
    let place = Workspace::with(&team(""));
    place.run().expect(7);
    place.host(&["prune", "store", "--keep", "2"]).expect(0);
    let gone = place.host(&["inspect", "store@main-20"]).expect(2);
    assert!(
        gone.stderr
            .contains("there is no checkpoint `main-20` any more: it was pruned"),
        "{}",
        gone.stderr
    );
    let other = place.host(&["checkpoints", "store@main-39"]).expect(2);
    assert!(
        other
            .stderr
            .contains("`store` is there, and this command takes no `@`"),
        "{}",
        other.stderr
    );
    place
        .host(&["report", "store", "-o", "report.html"])
        .expect(0);
    place.host(&["fork", "store", "--at", "main-39"]).expect(0);
    place
        .host(&["run", "--recover_path", "store", "--max-steps", "42"])
        .expect(7);
    let ended = place.host(&["replay", "store", "--verify"]).expect(0);
    assert!(
        ended
            .stderr
            .contains("were pruned; what they tell of is not made again"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("equal: 2, different: 0"),
        "{}",
        ended.stdout
    );
    // Long enough for snapshots to be thinned out.
    place
        .host(&["run", "--recover_path", "store", "--max-steps", "600"])
        .expect(7);
    for id in ["main-0", "main-39", "main-40"] {
        place
            .host(&["inspect", "store", "--checkpoint", id])
            .expect(0);
    }
    place
        .host(&["report", "store", "-o", "report.html"])
        .expect(0);
}

#[test]
fn automatic_pruning_keeps_forks_and_their_origins() {
    let place = Workspace::with(&team("checkpoints = 3"));
    place.run().expect(7);
    assert_eq!(ids(&place), ["main-0", "main-38", "main-39", "main-40"]);
    place.host(&["fork", "store", "--at", "main-38"]).expect(0);
    place
        .host(&["run", "--recover_path", "store", "--max-steps", "50"])
        .expect(7);
    assert_eq!(
        ids(&place),
        [
            "main-0",
            "main-38",
            "main.1-39",
            "main-48",
            "main-49",
            "main-50"
        ]
    );
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--max-steps",
            "50",
            "--checkpoint",
            "main.1-39",
        ])
        .expect(7);
    let kept = [
        "main-0",
        "main-38",
        "main.1-39",
        "main-48",
        "main-49",
        "main-50",
        "main.1-49",
        "main.1-50",
        "main.1-51",
    ];
    assert_eq!(ids(&place), kept);
    // `prune` keeps the same number.
    place.host(&["prune", "store"]).expect(0);
    assert_eq!(ids(&place), kept);
    place
        .host(&["run", "--recover_path", "store", "--max-steps", "52"])
        .expect(7);
}

#[test]
fn resumes_without_work_leave_nothing_that_is_kept_forever() {
    let place = Workspace::with(&TEAM_THAT_ASKS.replace("KEPT", "checkpoints = 2"));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(4);
    let waits = ids(&place).pop().unwrap();
    for _ in 0..6 {
        place.resume().expect(4);
    }
    let kept = ids(&place);
    assert!(kept.len() <= 5 && kept.contains(&waits), "{kept:?}");
    place.host(&["prune", "store", "--keep", "1"]).expect(0);
    assert_eq!(
        ids(&place).len(),
        3,
        "the first, where it began to wait, and the newest: {:?}",
        ids(&place)
    );
    let id = place.team_json()["strata"]["requests"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--answer",
            &format!("{id}=\"yes\""),
        ])
        .expect(0);
}
