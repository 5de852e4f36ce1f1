//! Going back: every checkpoint of a team is restored and run again; forks, forks of forks, and
//! comparisons.

mod forks;

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::process::Ended;
use crate::saved::essence_of_lineage;
use crate::stream::text;
use crate::workspace::Workspace;

/// The cost of the whole team: one call of a model.
const CALL: f64 = 0.2;

/// Creates a team that failed once, was resumed, and is done.
fn done() -> Workspace {
    let place = Workspace::of("fan-in");
    place.run().expect(3);
    place.resume().expect(0);
    place
}

fn checkpoints(place: &Workspace, path: &str) -> Vec<Value> {
    let listed = place.host(&["checkpoints", path, "--json"]).expect(0);
    serde_json::from_str::<Value>(&listed.stdout)
        .unwrap()
        .as_array()
        .unwrap()
        .clone()
}

fn ids(place: &Workspace, path: &str) -> Vec<String> {
    checkpoints(place, path)
        .iter()
        .map(|row| text(&row["id"]).to_owned())
        .collect()
}

/// Returns the files of a storage directory.
fn bytes(place: &Workspace, path: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(place.path(path))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries
        .map(|name| (name.clone(), place.read(&format!("{path}/{name}"))))
        .collect()
}

fn copy(place: &Workspace, from: &str, to: &str) {
    fs::create_dir(place.path(to)).unwrap();
    bytes(place, from)
        .into_iter()
        .for_each(|(name, bytes)| place.write(&format!("{to}/{name}"), bytes));
}

fn saved(place: &Workspace, path: &str) -> Value {
    serde_json::from_slice(&place.read(&format!("{path}/team.json"))).unwrap()
}

/// Returns the id that a command printed on stdout.
fn printed(ended: &Ended) -> String {
    let id = ended.stdout.strip_suffix('\n').unwrap();
    assert!(!id.is_empty() && !id.contains('\n'), "{id}");
    id.to_owned()
}

/// Resumes a run until it is done. Returns the finished actions, in order within each step.
fn run_on(place: &Workspace, args: &[&str]) -> Vec<String> {
    let mut finished = Vec::new();
    let mut args = [&["run", "--events", "-"], args].concat();
    for _ in 0..3 {
        let ended = place.host(&args);
        finished.extend(actions(&ended.events()));
        if ended.code == Some(0) {
            finished.sort();
            return finished;
        }
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        args.retain(|arg| *arg != "--checkpoint" && !arg.starts_with("main"));
    }
    panic!("it does not get done");
}

/// Returns the finished actions in order. Within a step they are sorted by name, because their
/// order is random.
fn actions(lines: &[Value]) -> Vec<String> {
    let finished = lines
        .iter()
        .filter(|line| line["kind"] == "action-finished");
    let name = |line: &Value| {
        format!(
            "{}:{}.{}",
            line["step"],
            text(&line["role"]),
            text(&line["action"])
        )
    };
    let mut names: Vec<String> = finished.map(name).collect();
    names.sort();
    names
}

/// Returns the actions that finished after a checkpoint.
fn after(lines: &[Value], checkpoint: &str) -> Vec<String> {
    let made = |line: &Value| line["checkpoint"] == checkpoint && line["kind"] != "run-resumed";
    match lines.iter().position(made) {
        Some(at) => actions(&lines[at..]),
        None => actions(lines),
    }
}

#[test]
fn every_checkpoint_can_be_restored_repeatedly_with_the_same_end_and_without_changes() {
    let place = done();
    let (lines, end, origin) = (
        place.recorded(),
        essence_of_lineage(place.team_json()),
        bytes(&place, "store"),
    );
    let all = ids(&place, "store");
    assert_eq!(all.len(), 6, "{all:?}");
    copy(&place, "store", "cold");
    fs::remove_file(place.path("cold/team.json")).unwrap();
    for (i, id) in all.iter().enumerate() {
        let left = after(&lines, id);
        assert_eq!(left.is_empty(), i == all.len() - 1, "{id}");
        for round in 0..3 {
            let from = if round == 1 { "cold" } else { "store" };
            let to = format!("fork-{i}-{round}");
            place
                .host(&["fork", from, "--at", id, "--to", &to])
                .expect(0);
            assert_eq!(bytes(&place, "store"), origin);
            assert_eq!(
                fs::read_dir(place.path(&to)).unwrap().count(),
                1,
                "`team.json` alone"
            );
            assert_eq!(
                run_on(&place, &["--recover_path", &to, "--trust"]),
                left,
                "{id}"
            );
            assert_eq!(essence_of_lineage(saved(&place, &to)), end, "{id}");
        }
        let warm = format!("warm-{i}");
        copy(&place, "store", &warm);
        assert_eq!(
            run_on(
                &place,
                &["--recover_path", &warm, "--checkpoint", id, "--trust"]
            ),
            left,
            "{id}"
        );
        assert_eq!(essence_of_lineage(saved(&place, &warm)), end, "{id}");
        assert_eq!(ids(&place, &warm)[..all.len()], all);
        let told = place
            .host(&["events", &warm, "--lineage", "main"])
            .expect(0)
            .events();
        assert_eq!(told, lines, "what was is told as it was");
        let told = place
            .host(&["events", &format!("{warm}@main")])
            .expect(0)
            .events();
        assert_eq!(told, lines, "the same by the name behind the path");
    }
}

#[test]
fn a_lineage_that_was_left_is_kept_until_it_is_resumed() {
    let place = Workspace::of("fan-in");
    place.run().expect(3);
    let (failed, json) = (ids(&place, "store"), place.read("store/team.json"));
    let made = place
        .host(&["fork", "store", "--at", "main-1", "--set", "tracking/k=9"])
        .expect(0);
    let id = printed(&made);
    assert_eq!(id, "main.1-2");
    assert!(
        made.stderr
            .contains("run --recover_path store --checkpoint main.1-2"),
        "{}",
        made.stderr
    );
    assert_eq!(place.read("store/team.json"), json);
    let row = checkpoints(&place, "store").pop().unwrap();
    let expected = json!({
        "id": id, "lineage": "main.1", "newest": false, "parent": "main-1", "source": "fork", "step": 0, "status": "running",
        "time": row["time"],
    });
    assert_eq!(row, expected);
    // The run that failed is still the one that is continued.
    place.resume().expect(0);
    assert_eq!(place.team_json()["strata"]["lineage"], "main");
    let ended = place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--checkpoint",
            &id,
            "--events",
            "-",
        ])
        .expect(3);
    assert_eq!(actions(&ended.events()), ["1:bar.r", "1:baz.z", "2:qux.p"]);
    let ended = place.resume().expect(0);
    assert_eq!(actions(&ended.events()), ["2:qux.q", "3:quux.u"]);
    let (other, main) = (
        place.team_json(),
        place.host(&["inspect", "store", "--checkpoint", "main-5", "--json"]),
    );
    let main: Value = serde_json::from_str(&main.expect(0).stdout).unwrap();
    let last = |team: &Value| {
        text(
            &team["env"]["history"]["storage"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()["content"],
        )
        .to_owned()
    };
    assert_eq!(last(&other).replace("q 9", "q 5"), last(&main));
    assert_ne!(last(&other), last(&main));
    assert_eq!(other["strata"]["lineage"], "main.1");
    assert_eq!(other["strata"]["forks"], json!(["main-1"]));
    assert_eq!(ids(&place, "store")[..failed.len()], failed);
    let table = place.host(&["checkpoints", "store"]).expect(0).stdout;
    let marked: Vec<&str> = table.lines().filter(|line| line.starts_with('*')).collect();
    assert_eq!(marked.len(), 1);
    assert!(marked[0].starts_with("* main.1-"), "{table}");
    let numbers: Vec<u64> = place
        .recorded()
        .iter()
        .map(|line| line["n"].as_u64().unwrap())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn going_back_does_not_refund_the_budget() {
    let spent = |team: Value| (team["strata"]["budget"]["total"].as_f64().unwrap() / CALL).round();
    let place = Workspace::of("fan-in");
    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--investment",
            "0.4",
        ])
        .expect(3);
    place.resume().expect(0);
    assert_eq!(spent(place.team_json()), 1.0);
    place
        .host(&["run", "--recover_path", "store", "--checkpoint", "main-1"])
        .expect(5);
    assert_eq!(spent(place.team_json()), 2.0);
    // Nothing of the budget is left, wherever the run is continued.
    place
        .host(&["fork", "store", "--at", "main-1", "--to", "branch"])
        .expect(0);
    assert_eq!(spent(saved(&place, "branch")), 2.0);
    place.host(&["run", "--recover_path", "branch"]).expect(5);
    place
        .host(&["run", "--recover_path", "store", "--checkpoint", "main-0"])
        .expect(5);
    let ended = place.host(&["run", "--recover_path", "store", "--investment", "1"]);
    assert_eq!(ended.expect(3).stdout, "");
    assert_eq!(spent(place.team_json()), 3.0);
}

#[test]
fn missing_events_are_added_to_the_file_before_the_run_goes_back() {
    let place = Workspace::of("fan-in");
    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--events",
            "lines",
        ])
        .expect(3);
    let all = String::from_utf8(place.read("lines")).unwrap();
    let told = all.lines().count() / 2;
    // The state after a kill: all events are recorded, and half of them are written.
    place.write(
        "lines",
        all.split_inclusive('\n').take(told).collect::<String>(),
    );
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--checkpoint",
            "main-0",
            "--events",
            "lines",
        ])
        .expect(3);
    let lines = String::from_utf8(place.read("lines")).unwrap();
    assert!(lines.starts_with(&all), "{lines}");
    crate::stream::assert_numbered(&crate::stream::parse(&lines));
}

#[test]
fn team_json_is_current_although_a_run_that_went_back_was_killed_at_its_end() {
    let place = done();
    let mut process = place.start(&[
        "run",
        "--recover_path",
        "store",
        "--checkpoint",
        "main-1",
        "--events",
        "-",
    ]);
    process.until("run-ended", None);
    process.kill();
    for _ in 0..3 {
        place.host(&["run", "--recover_path", "store"]);
    }
    let (file, newest) = (saved(&place, "store"), ids(&place, "store").pop().unwrap());
    assert_eq!(file["strata"]["status"], "done");
    assert_eq!(file["strata"]["checkpoint"], json!(newest));
}
