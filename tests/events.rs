//! Events as lines of JSON: the same on stdout, in a file and from the records.

use std::fs;

use crate::output::TEAM;
use crate::process::Signal;
use crate::stream;
use crate::workspace::Workspace;

#[test]
fn events_are_the_same_on_stdout_in_a_file_and_from_the_records() {
    let place = Workspace::with(TEAM);
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--events", "-"])
        .expect(3);
    let printed = ended.stdout.clone();
    let recorded = place.host(&["events", "store"]).expect(0).stdout;
    assert_eq!(printed, recorded);
    for line in recorded.lines() {
        assert!(line.starts_with("{\"n\":"), "{line}");
    }
    place
        .host(&["run", "--recover_path", "store", "--events", "lines"])
        .expect(0);
    let rest = String::from_utf8(place.read("lines")).unwrap();
    assert!(rest.contains("run-resumed"), "{rest}");
    let recorded = place.host(&["events", "store/team.json"]).expect(0).stdout;
    assert_eq!(printed + &rest, recorded);
    stream::assert_numbered(&stream::parse(&recorded));
}

#[test]
fn a_resume_appends_its_events_to_the_file_and_a_fresh_run_replaces_it() {
    let place = Workspace::with(TEAM);
    let lines = || String::from_utf8(place.read("lines")).unwrap();
    let recorded = |storage: &str| place.host(&["events", storage]).expect(0).stdout;
    place.write("lines", "of another run\n");
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
    assert_eq!(lines(), recorded("store"));
    place
        .host(&["run", "--recover_path", "store", "--events", "lines"])
        .expect(0);
    assert_eq!(lines(), recorded("store"));
    // A finished run writes no events.
    place
        .host(&["run", "--recover_path", "store", "--events", "lines"])
        .expect(0);
    assert_eq!(lines(), recorded("store"));

    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "other",
            "--events",
            "lines",
        ])
        .expect(3);
    let before = lines();
    assert_eq!(before, recorded("other"));
    // A partial line, as a full disk or a kill leaves it, is removed: each line is an event.
    place.write("lines", format!("{before}{{\"n\":"));
    place
        .host(&["run", "--recover_path", "other", "--events", "lines"])
        .expect(0);
    assert_eq!(lines(), recorded("other"));
}

#[test]
fn a_resume_adds_recorded_events_that_are_missing_in_the_file() {
    let place = Workspace::with(TEAM);
    let lines = || String::from_utf8(place.read("lines")).unwrap();
    let recorded = |storage: &str| place.host(&["events", storage]).expect(0).stdout;
    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "other",
            "--events",
            "lines",
        ])
        .expect(3);
    let before = lines();
    // Events that were recorded but not written, because the run was killed, are added.
    let first: String = before.split_inclusive('\n').take(3).collect();
    place
        .host(&["run", "team.toml", "--storage", "third"])
        .expect(3);
    place.write("lines", &first);
    place
        .host(&["run", "--recover_path", "third", "--events", "lines"])
        .expect(0);
    let told = recorded("third")
        .split_inclusive('\n')
        .skip(3)
        .collect::<String>();
    assert_eq!(lines(), first + &told);
    place
        .host(&["run", "team.toml", "--storage", "fourth"])
        .expect(3);
    place.write("lines", "");
    place
        .host(&["run", "--recover_path", "fourth", "--events", "lines"])
        .expect(0);
    assert_eq!(lines(), recorded("fourth"));
    // They are also added if the run was killed when everything was recorded, so that nothing is
    // left to run.
    let first: String = lines().split_inclusive('\n').take(5).collect();
    place.write("lines", format!("{first}{{\"n\":"));
    place
        .host(&["run", "--recover_path", "fourth", "--events", "lines"])
        .expect(0);
    assert_eq!(lines(), recorded("fourth"));
    assert_eq!(
        place
            .host(&["run", "--recover_path", "fourth", "--events", "new"])
            .expect(0)
            .stdout,
        "Two ok\n"
    );
    assert_eq!(place.read("new"), b"");
}

#[test]
fn a_run_that_is_refused_leaves_the_events_file_of_the_running_one_alone() {
    let place = Workspace::with(&TEAM.replace("fail = \"error\"", "sleep = \"90s\""));
    let args = [
        "run",
        "team.toml",
        "--storage",
        "store",
        "--events",
        "lines",
    ];
    let process = place.start(&args);
    let lines = || fs::read_to_string(place.path("lines")).unwrap_or_default();
    let told = |action: &str| {
        lines()
            .lines()
            .any(|line| line.contains("action-started") && line.contains(action))
    };
    while !told("Two") {
        std::thread::yield_now();
    }
    let before = lines();
    place.host(&args).expect(9);
    assert_eq!(lines(), before);
    process.signal(Signal::INT);
    process.end().expect(130);
    assert!(lines().starts_with(&before));
}

#[test]
fn events_of_a_running_team_are_those_reported_so_far() {
    let place = Workspace::with(&TEAM.replace("fail = \"error\"", "sleep = \"90s\""));
    let mut process = place.start_run(&[]);
    let mut told = Vec::new();
    loop {
        let line = process.next().unwrap();
        told.push(line.clone());
        if line["kind"] == "action-started" && line["action"] == "Two" {
            break;
        }
    }
    assert_eq!(place.recorded(), told);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    for part in ["running", "action 1 `Two`"] {
        assert!(shown.contains(part), "{shown}");
    }
    process.kill();
}

#[test]
fn events_are_followed_until_the_run_ends() {
    let place = Workspace::with(&TEAM.replace("fail = \"error\"", "sleep = \"90s\""));
    let mut process = place.start_run(&[]);
    while process.until("action-started", None)["action"] != "Two" {}
    let mut follower = place.start(&["events", "store", "--follow"]);
    while follower.until("action-started", None)["action"] != "Two" {}
    process.signal(Signal::INT);
    let told = process.end().expect(130);
    assert_eq!(follower.end().expect(0).events(), told.events());
    assert_eq!(
        place
            .host(&["events", "store", "--follow"])
            .expect(0)
            .events(),
        told.events()
    );
}
