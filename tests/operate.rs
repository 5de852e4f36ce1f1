//! Operating many runs: who did what, hand-over, retention, metrics, and what travels with a run wherever it goes.
//! Without PostgreSQL, most of these tests are skipped, and say so.

mod beside_worker;
mod journeys;
mod places;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::database_server::Server;
use crate::observing::free_port;
use crate::process::{Ended, Process};
use crate::stream;
use crate::workers::{Pool, stop_workers, wait_until};
use crate::workspace::Workspace;

/// A team that reads a file, fails once, asks, and says what it read and was told.
const BAKER: &str = r#"
schema = "strata.team/1"
[team]
name = "baker"
idea = "bread"
[[role]]
name = "Baker"
watch = ["UserRequirement"]
[[role.action]]
name = "Bake"
component = "probe.wasm"
config = { steps = [{ read = "/in/flour.txt" }, { write = "/in/log.txt", text = "baked" }, { fail = "trap", attempts = [1] }, { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in", write = true }]
[[role]]
name = "Eater"
watch = ["Bake"]
[[role.action]]
name = "Eat"
component = "probe.wasm"
config = { steps = [{ ask = "good?" }, { read = "/in/log.txt" }, { say = "TASTE {inputs} {reads}" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in" }]
"#;

fn bakery() -> Workspace {
    let place = Workspace::with(BAKER);
    place.write("in/flour.txt", "rye");
    place
}

/// Returns the last event of a kind of a run.
fn last_of_kind(place: &Workspace, run: &str, kind: &str) -> Value {
    let events = place.host(&["events", run]).expect(0).events();
    let found = stream::of_kind(&events, kind);
    (*found.last().unwrap_or_else(|| panic!("no {kind}"))).clone()
}

fn status(place: &Workspace, run: &str) -> String {
    let shown = place.host(&["inspect", run, "--json"]);
    let document: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    document["run"]["status"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn assert_says(ended: &Ended, part: &str) {
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(all.contains(part), "{part}\n{all}");
}

#[test]
fn whoever_cancels_pauses_or_resumes_a_run_is_recorded_in_the_event() {
    let place = bakery();
    place
        .host(&["run", "team.toml", "--storage", "store", "-q"])
        .expect(3);
    place
        .host(&["run", "--recover_path", "store", "--by", "Anna", "-q"])
        .expect(4);
    assert_eq!(last_of_kind(&place, "store", "run-resumed")["by"], "Anna");
    assert_eq!(
        last_of_kind(&place, "store", "run-ended")["by"],
        Value::Null
    );
    place.host(&["pause", "store", "--by", "Bert"]).expect(0);
    assert_eq!(last_of_kind(&place, "store", "run-ended")["by"], "Bert");
    place.host(&["cancel", "store"]).expect(0);
    let by = last_of_kind(&place, "store", "run-ended")["by"].clone();
    assert!(by.as_str().is_some_and(|by| by.contains('@')), "{by}");
    place.host(&["cancel", "store", "--by", ""]).expect(2);
}

#[test]
fn the_owner_of_a_run_prunes_it_and_goes_on() {
    let Some(pool) = Pool::new() else { return };
    for storage in [
        "store".to_owned(),
        "sqlite:runs.db?run=a".into(),
        pool.run("pruned"),
    ] {
        let place = Workspace::with(crate::live::GREETER);
        let running = place.start(&[
            "run",
            "team.toml",
            "--storage",
            &storage,
            "--keep-alive",
            "-q",
        ]);
        wait_until(|| {
            place
                .host(&["checkpoints", &storage])
                .stdout
                .lines()
                .count()
                > 1
        });
        let pruned = place
            .host(&["prune", &storage, "--keep", "1", "--json"])
            .expect(0);
        let document: Value = serde_json::from_str(&pruned.stdout).unwrap();
        assert_eq!(document["keep"], 1, "{document}");
        place
            .host(&["send", &storage, "--cause", "UserRequirement", "again"])
            .expect(0);
        wait_until(|| {
            place
                .host(&["events", &storage])
                .stdout
                .matches("step-committed")
                .count()
                > 1
        });
        place.host(&["cancel", &storage]).expect(0);
        running.end();
        place.host(&["inspect", &storage]).expect(0);
    }
}

#[test]
fn a_run_in_a_file_of_many_is_deleted_and_the_others_stay() {
    let place = bakery();
    for run in ["a", "b"] {
        let url = format!("sqlite:runs.db?run={run}");
        place
            .host(&["run", "team.toml", "--storage", &url, "-q"])
            .expect(3);
    }
    let deleted = place
        .host(&["delete", "sqlite:runs.db?run=a", "--json"])
        .expect(0);
    assert_says(&deleted, "\"result\":\"deleted\"");
    let listed = place.host(&["runs", "sqlite:runs.db", "--json"]).expect(0);
    let names: Vec<Value> = listed.events();
    assert_eq!(names.len(), 1, "{listed:?}");
    assert_eq!(names[0]["name"], "b");
    let url = "sqlite:runs.db?run=b";
    place.host(&["run", "--recover_path", url, "-q"]).expect(4);
    // The name is free again.
    place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "sqlite:runs.db?run=a",
            "-q",
        ])
        .expect(3);
}

#[test]
fn who_deleted_a_storage_directory_is_said_when_somebody_looks_for_it() {
    let place = bakery();
    let run = ["run", "team.toml", "--storage", "runs/desk", "-q"];
    place.host(&run).expect(3);
    place
        .host(&["delete", "runs/desk", "--by", "Anna"])
        .expect(0);
    for command in ["inspect", "delete", "runs", "wait"] {
        let gone = place.host(&[command, "runs/desk"]).expect(2);
        assert_says(&gone, "no run `desk` at `runs`: Anna deleted it at ");
    }
    // The name is free again.
    place.host(&run).expect(3);
    place.host(&["inspect", "runs/desk"]).expect(0);
}

#[test]
fn runs_that_are_kept_no_longer_are_deleted_by_workers_and_open_ones_never() {
    let Some(server) = Server::start() else {
        return;
    };
    let url = server.url();
    let (place, elsewhere) = (bakery(), Workspace::empty());
    let quick = BAKER
        .replace("{ fail = \"trap\", attempts = [1] }, ", "")
        .replace("{ ask = \"good?\" }, ", "");
    place.write("quick.toml", quick);
    let submit = |team: &str, name: &str, code: i32| {
        let arguments = [
            "submit",
            team,
            "--database",
            &url,
            "--name",
            name,
            "--wait",
            "-q",
        ];
        place.host(&arguments).expect(code);
    };
    let worker = Process::spawn(elsewhere.command(&["worker", "--database", &url]));
    submit("quick.toml", "old", 0);
    submit("team.toml", "failed", 3);
    let waiting = BAKER.replace("{ fail = \"trap\", attempts = [1] }, ", "");
    place.write("waiting.toml", waiting);
    submit("waiting.toml", "asked", 4);
    let refused = place.host(&["database", "retention", &url, "--keep", "waiting=0s"]);
    assert_eq!(refused.code, Some(2));
    place
        .host(&["database", "retention", &url, "--keep", "done=0s"])
        .expect(0);
    let names = || {
        let listed = place.host(&["runs", &url, "--json"]).expect(0).events();
        let mut names: Vec<String> = listed
            .iter()
            .map(|run| run["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    };
    wait_until(|| names() == ["asked", "failed"]);
    // Nothing is left of it.
    let left = "SELECT count(*) FROM strata.event WHERE run NOT IN (SELECT id FROM strata.run)";
    wait_until(|| crate::postgres_server::query(&url, left) == "0");
    wait_until(|| {
        crate::postgres_server::query(&url, "SELECT count(*) FROM strata.removal") == "0"
    });
    stop_workers([worker]);
}

#[test]
fn a_file_of_many_runs_is_a_queue_too() {
    let place = bakery();
    let quick = BAKER
        .replace("{ fail = \"trap\", attempts = [1] }, ", "")
        .replace("{ ask = \"good?\" }, ", "");
    place.write("quick.toml", quick);
    let url = "sqlite:queue.db";
    for (team, storage, code) in [("quick.toml", "old", 0), ("team.toml", "failed", 3)] {
        let run = ["run", team, "--storage", storage, "-q"];
        place.host(&run).expect(code);
        place.host(&["adopt", storage, "--to", url]).expect(0);
        let left = place.host(&["inspect", storage]);
        assert_eq!(left.code, Some(2), "{}", left.stdout);
    }
    place
        .host(&["database", "retention", url, "--keep", "done=0s"])
        .expect(0);
    let run = "sqlite:queue.db?run=failed";
    place.host(&["resume", run, "--by", "Anna"]).expect(0);
    let port = free_port();
    let metrics = port.to_string();
    let worker = ["worker", "--database", url, "--metrics", &metrics];
    let worker = Process::spawn(place.command(&worker));
    wait_until(|| status(&place, run) == "waiting");
    assert_eq!(last_of_kind(&place, run, "run-resumed")["by"], "Anna");
    wait_until(|| {
        let shown = get(port, "/metrics").1;
        let lines = [
            "strata_worker_deleted_runs_total 1",
            "strata_runs{database=\"sqlite:queue.db\",status=\"waiting\"} 1",
            "strata_requests_open{database=\"sqlite:queue.db\"} 1",
            "strata_heartbeat_age_seconds{database=\"sqlite:queue.db\"} 0",
        ];
        lines
            .iter()
            .all(|line| shown.lines().any(|shown| shown == *line))
    });
    let listed = place.host(&["runs", url, "--json"]).expect(0).events();
    assert_eq!(listed.len(), 1, "{listed:?}");
    stop_workers([worker]);
}

/// Requests a path from a local port, and returns the status line and the body.
fn get(port: u16, path: &str) -> (String, String) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return Default::default();
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut text).is_err() {
        return Default::default();
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.lines().next().unwrap_or_default().into(), body.into())
}

#[test]
fn a_worker_serves_metrics_and_says_whether_it_is_ready_also_while_its_database_is_away() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let url = server.url();
    let (place, elsewhere) = (bakery(), Workspace::empty());
    let port = free_port();
    let arguments = [
        "worker",
        "--database",
        &url,
        "--metrics",
        &port.to_string(),
        "--log",
        "json",
    ];
    let worker = Process::spawn(elsewhere.command(&arguments));
    wait_until(|| get(port, "/ready").0.contains("200"));
    let wait = [
        "submit",
        "team.toml",
        "--database",
        &url,
        "--name",
        "one",
        "--wait",
        "-q",
    ];
    place.host(&wait).expect(3);
    let needy = [
        "submit",
        "team.toml",
        "--database",
        &url,
        "--name",
        "two",
        "--needs",
        "gpu",
    ];
    place.host(&needy).expect(0);
    let shown = || get(port, "/metrics").1;
    wait_until(|| shown().contains("labels=\"gpu\"} 1"));
    let text = shown();
    for part in [
        "strata_worker_room 8",
        "strata_worker_claims_total 1",
        "strata_database_up{",
        "status=\"failed\"} 1",
        "strata_ended_runs_total{status=\"failed\"} 1",
        "strata_heartbeat_age_seconds{",
        "strata_append_duration_seconds_count",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    server.stop();
    wait_until(|| get(port, "/ready").0.contains("503"));
    assert!(get(port, "/health").0.contains("200"));
    // What is said of the database is kept for half a minute.
    assert!(shown().contains("strata_worker_room 8"));
    stop_workers_with_log(worker);
}

/// Stops a worker, and checks that each line of its log has the same members.
fn stop_workers_with_log(worker: Process) {
    worker.signal(crate::process::Signal::TERM);
    let ended = worker.end();
    let mut has_run = false;
    for line in ended.stderr.lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for member in ["time", "level", "worker", "run", "message"] {
            assert!(line.get(member).is_some(), "{member}: {line}");
        }
        has_run |= line["run"] == "one" && line["worker"].is_string();
    }
    assert!(has_run, "{}", ended.stderr);
}

#[test]
fn runs_of_a_worker_wait_for_a_database_that_is_away_for_as_long_as_its_patience_says() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let url = server.url();
    let (place, elsewhere) = (bakery(), Workspace::empty());
    // It writes to the database again and again.
    let busy = BAKER.replace("{ fail = \"trap\", attempts = [1] }", "{ sleep = \"2s\" }");
    place.write("team.toml", busy);
    let ports = [free_port(), free_port()];
    let [hasty, patient] = ports.map(|port| port.to_string());
    let worker = |label: &str, port: &str, more: &[&str]| {
        let first = [
            "worker",
            "--database",
            &url,
            "--label",
            label,
            "--metrics",
            port,
        ];
        Process::spawn(elsewhere.command(&[&first, more].concat()))
    };
    let workers = [
        worker("hasty", &hasty, &["--patience", "3s", "--workspaces", "a"]),
        worker("patient", &patient, &["--workspaces", "b"]),
    ];
    for label in ["hasty", "patient"] {
        let submit = ["submit", "team.toml", "--database", &url, "--name", label];
        place
            .host(&[&submit[..], &["--needs", label]].concat())
            .expect(0);
        let run = format!("{url}&run={label}");
        wait_until(|| {
            place
                .host(&["events", &run])
                .stdout
                .contains("action-started")
        });
    }
    let begun = Instant::now();
    server.stop();
    let lost = |n: usize, count: u32| {
        let shown = get(ports[n], "/metrics").1;
        shown.contains(&format!("strata_worker_lost_runs_total {count}\n"))
    };
    wait_until(|| lost(0, 1));
    assert!(begun.elapsed() >= Duration::from_secs(3));
    assert!(lost(1, 0));
    for worker in workers {
        worker.kill();
    }
}

#[test]
fn the_alerts_and_the_dashboard_name_metrics_that_are_served() {
    let metrics = strata_host::operate::ProcessMetrics::new(&[], 1).to_text();
    let name = regex::Regex::new("strata_[a-z_]+").unwrap();
    for file in ["alerts.yaml", "grafana-dashboard.json"] {
        let path = crate::probe::project().join("docs/deploy").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        for found in name.find_iter(&text) {
            let metric = found.as_str().trim_end_matches("_bucket");
            assert!(
                metrics.contains(&format!("# TYPE {metric} ")),
                "{file}: {metric}"
            );
        }
    }
    let dashboard = crate::probe::project().join("docs/deploy/grafana-dashboard.json");
    let document: Value = serde_json::from_slice(&std::fs::read(dashboard).unwrap()).unwrap();
    assert!(
        document["panels"]
            .as_array()
            .is_some_and(|panels| !panels.is_empty())
    );
    let alerts = crate::containers::documents("alerts.yaml");
    let rules = alerts[0]["groups"][0]["rules"].as_vec().unwrap();
    assert_eq!(rules.len(), 10);
    let page = crate::probe::project().join("docs/src/day-two.md");
    let page = std::fs::read_to_string(page).unwrap();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(page.contains(&format!("`{name}`")), "{name}");
        assert!(rule["expr"].as_str().is_some(), "{name}");
        assert!(rule["annotations"]["summary"].as_str().is_some(), "{name}");
    }
}

/// Returns the program that checks what Prometheus loads, if it is installed. Debian has it in the package `prometheus`.
fn promtool() -> Option<std::process::Command> {
    let asked = std::process::Command::new("promtool")
        .arg("--version")
        .output();
    if asked.is_err() {
        // Written past the capture of the test's output, so that it is seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: the alerts are not checked, because `promtool` is not installed (Debian: `apt install prometheus`)"
        );
        return None;
    }
    Some(std::process::Command::new("promtool"))
}

#[test]
fn prometheus_loads_the_alerts_and_each_fires_when_it_should() {
    let Some(mut check) = promtool() else { return };
    let project = crate::probe::project();
    check.args(["check", "rules"]);
    let checked = check.arg(project.join("docs/deploy/alerts.yaml")).output();
    let checked = checked.unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{checked:?}");
    assert!(said.contains("10 rules found"), "{said}");
    let mut test = promtool().unwrap();
    test.args(["test", "rules", "alerts.test.yaml"]);
    let tested = test.current_dir(project.join("tests/operate")).output();
    let tested = tested.unwrap();
    assert!(tested.status.success(), "{tested:?}");
}
