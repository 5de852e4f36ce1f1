//! The commands about runs, through a server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Runs, TestServer, wherever_runs_are};
use crate::caps::{asker, worker_place};
use crate::process::{Ended, Process, Signal};
use crate::web::Web;

/// What a command printed, if that is JSON: one document, or one a line.
fn printed(ended: &Ended) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(&ended.stdout).into_iter();
    let values: Result<Vec<Value>, _> = values.collect();
    values.unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Starts a command that prints JSON.
fn start(server: &TestServer, arguments: &[&str]) -> Process {
    let address = format!("http://127.0.0.1:{}", server.port);
    let arguments = [arguments, &["--json", "--server", &address]].concat();
    let mut command = server.place.command(&arguments);
    command.env("STRATA_TOKEN", &server.token);
    Process::spawn(command)
}

#[test]
fn commands_about_runs_work_through_a_server_and_print_nothing_but_json_if_that_is_asked_for() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let host = |arguments: &[&str], code: i32| {
            let ended = start(&server, arguments).end();
            printed(&ended.expect(code))
        };
        for name in ["one", "two"] {
            let submitted = host(&["submit", "team.toml", "--name", name], 0);
            assert_eq!(submitted[0]["name"], name, "{submitted:?}");
        }
        assert_eq!(host(&["wait", "one", "two"], 4).len(), 2);
        let answered = host(&["answer", "one", "ask-0-0-0-0=3"], 0);
        assert_eq!(answered[0]["role"], "A", "{answered:?}");
        let ended = host(&["wait", "one"], 0);
        assert_eq!(ended[0]["output"], "answer 3", "{ended:?}");
        let sent = host(&["send", "two", "--cause", "Nobody", "more"], 0);
        assert_eq!(sent[0]["known"], false, "{sent:?}");
        let waiting = server.until(&server.token, "/v1/runs/two", |run| {
            run["state"] == "resting"
        });
        assert_eq!(waiting["status"], "waiting");
        // By a filter; nothing is done yet.
        let dry = host(&["pause", "--status", "waiting", "--dry-run"], 0);
        assert_eq!(dry[0]["place"], "two", "{dry:?}");
        let listed = host(&["runs", "--status", "waiting"], 0);
        assert_eq!(listed[0]["name"], "two", "{listed:?}");
        let paused = host(&["pause", "--status", "waiting"], 0);
        assert_eq!(paused[0]["result"], "paused", "{paused:?}");
        host(&["resume", "two"], 0);
        assert_eq!(host(&["wait", "two"], 4)[0]["status"], "waiting");
        host(&["prune", "one", "--keep", "1", "--dry-run"], 0);
        let pruned = host(&["prune", "one", "--keep", "1"], 0);
        assert!(pruned[0]["checkpoints"].is_u64(), "{pruned:?}");
        assert_eq!(host(&["workers"], 0)[0]["runs"], 0);
        // Nobody has the label, so it waits until it is deleted.
        host(
            &["submit", "team.toml", "--name", "three", "--needs", "gpu"],
            0,
        );
        let mut waiting = start(&server, &["wait", "one", "three"]);
        assert_eq!(waiting.next().unwrap()["name"], "one");
        // It is cancelled first, which would be seen.
        waiting.signal(Signal::STOP);
        host(&["delete", "three", "--force"], 0);
        waiting.signal(Signal::CONT);
        assert_eq!(waiting.next().unwrap()["state"], "deleted");
        waiting.end().expect(2);
        host(&["cancel", "two", "missing"], 2);
        host(&["delete"], 2);
    });
}

/// Runs a command through a server, without `--json`.
pub fn host(server: &TestServer, arguments: &[&str], code: i32) -> Ended {
    let address = format!("http://127.0.0.1:{}", server.port);
    let mut command = server
        .place
        .command(&[arguments, &["--server", &address]].concat());
    command.env("STRATA_TOKEN", &server.token);
    Process::spawn(command).end().expect(code)
}

#[test]
fn what_inspect_suggests_for_a_run_at_a_server_names_the_run_and_the_server() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    let option = format!("--server http://127.0.0.1:{}/", server.port);
    host(
        &server,
        &["submit", "team.toml", "--name", "one", "--wait"],
        4,
    );
    let shown = host(&server, &["inspect", "one"], 0).stdout;
    for command in [
        format!("strata-host inspect one --message ID {option}"),
        format!("strata-host answer one 'ask-0-0-0-0=ANSWER' {option}"),
    ] {
        assert!(shown.contains(&command), "{command}\n{shown}");
    }
    let send = [
        "send",
        "one",
        "--cause",
        "UserRequirement",
        "--to",
        "Nope",
        "hi",
    ];
    let sent = host(&server, &send, 0).stderr;
    assert!(sent.contains("`Nope` takes no messages"), "{sent}");
    assert!(!sent.contains("nobody watches"), "{sent}");
    // The answer continues it.
    assert!(!shown.contains("resume with"), "{shown}");
    let earlier = host(&server, &["inspect", "one@main-0"], 0).stdout;
    let command = format!("strata-host inspect one@main-0 --message ID {option}");
    assert!(earlier.contains(&command), "{earlier}");
    // Nothing was cut off there, and it is not what a server would resume.
    assert!(earlier.contains("status      running"), "{earlier}");
    assert!(!earlier.contains("resume with"), "{earlier}");
}

#[test]
fn a_run_that_a_server_works_on_is_shown_as_running_and_a_fault_with_commands_that_work() {
    let team = |step: &str| {
        let asking = r#"{ ask = "how many?", schema = { type = "integer" } }"#;
        assert!(ASKING.contains(asking));
        ASKING.replace(asking, step)
    };
    let server = TestServer::start_at(&Runs::InFile, &team(r#"{ sleep = "60s" }"#));
    let option = format!("--server http://127.0.0.1:{}/", server.port);
    host(&server, &["submit", "team.toml", "--name", "slow"], 0);
    server.until(&server.token, "/v1/runs/slow", |run| {
        run["at_work"][0] == "A"
    });
    let shown = host(&server, &["inspect", "slow"], 0).stdout;
    for line in [
        "status      running",
        "state       running",
        "running (attempts 1)",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("cut off"), "{shown}");
    assert!(!shown.contains("resume with"), "{shown}");
    host(&server, &["cancel", "slow"], 0);

    server
        .place
        .write("failing.toml", team(r#"{ fail = "trap" }"#));
    let failed = host(
        &server,
        &["submit", "failing.toml", "--name", "bad", "--wait"],
        3,
    );
    assert!(
        failed.stderr.contains("a server takes no changed files"),
        "{failed:?}"
    );
    let shown = host(&server, &["inspect", "bad"], 0).stdout;
    for command in [
        format!("strata-host inspect bad --action A.p {option}"),
        format!("strata-host resume bad {option}"),
    ] {
        assert!(shown.contains(&command), "{command}\n{shown}");
    }
}

#[test]
fn whoever_makes_a_token_beside_a_server_learns_which_request_makes_it() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    for (what, more) in [("create", &["--rights", "view"][..]), ("revoke", &[])] {
        let arguments = [&["token", what, "ann", "--storage", "served"], more].concat();
        let ended = server.place.host(&arguments).expect(9);
        assert!(ended.stderr.contains("`POST /v1/tokens`"), "{ended:?}");
    }
}

#[test]
fn commands_print_through_a_server_what_they_print_about_its_storage() {
    let writing = r#"{ write = "/out/a", text = "hello" }, { say = "done" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]"#;
    let asking =
        r#"{ ask = "how many?", schema = { type = "integer" } }, { say = "answer {reads}" }] }"#;
    assert!(ASKING.contains(asking));
    let server = TestServer::start_at(&Runs::InFile, &ASKING.replace(asking, writing));
    for name in ["one", "two"] {
        let arguments = ["submit", "team.toml", "--name", name, "--wait"];
        host(&server, &arguments, 0);
    }
    let url = |name: &str| {
        let file = server.place.path("served/runs.db");
        format!("sqlite:{}?run={name}", file.display())
    };
    let (one, two) = (url("one"), url("two"));
    let pairs: [(&[&str], &[&str]); 4] = [
        (&["diff", "one", "two"], &["diff", &one, &two]),
        (&["files", "one"], &["files", &one]),
        (&["checkpoints", "one"], &["checkpoints", &one]),
        (&["prune", "one"], &["prune", &one]),
    ];
    for (through, local) in pairs {
        let through = host(&server, through, 0);
        let local = server.place.host(local).expect(0);
        let named = |text: &str| text.replace(&one, "one").replace(&two, "two");
        assert_eq!(through.stdout, named(&local.stdout), "{through:?}");
        assert_eq!(through.stderr, named(&local.stderr), "{through:?}");
    }
    let listed = host(&server, &["runs", "--name", "one"], 0).stdout;
    let row: Vec<&str> = listed.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(
        row[..6],
        ["one", "t", "ended", "done", "1", "$0.0000"],
        "{listed}"
    );
}

#[test]
fn recorded_calls_and_lists_have_through_a_server_what_they_have_of_its_storage() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    let submit = ["submit", "team.toml", "--name", "one", "--wait"];
    host(&server, &submit, 4);
    host(&server, &["answer", "one", "ask-0-0-0-0=3"], 0);
    host(&server, &["wait", "one"], 0);
    let file = server.place.path("served/runs.db");
    let database = format!("sqlite:{}", file.display());
    let one = format!("{database}?run=one");
    let rows = |shown: &str| {
        let (rows, in_full) = shown.trim_end().rsplit_once('\n').expect("some lines");
        (rows.to_owned(), in_full.to_owned())
    };
    for more in [&[][..], &["--action", "A.p"]] {
        let of_run = [&["inspect", "one", "--calls"], more].concat();
        let of_storage = [&["inspect", &one, "--calls"], more].concat();
        let (through, in_full) = rows(&host(&server, &of_run, 0).stdout);
        let (local, _) = rows(&server.place.host(&of_storage).expect(0).stdout);
        assert!(local.contains(" human "), "{local}");
        assert_eq!(through, local);
        let server = format!("--json --server http://127.0.0.1:{}/", server.port);
        assert!(in_full.ends_with(&server), "{in_full}");
    }
    let none = ["inspect", "one", "--calls", "--action", "A.other", "--json"];
    assert_eq!(host(&server, &none, 0).stdout, "");
    let keys = |listed: Vec<Value>| {
        let document = listed[0].as_object().expect("an object");
        document.keys().cloned().collect::<BTreeSet<_>>()
    };
    let local = server.place.host(&["runs", &database, "--json"]).expect(0);
    let through = printed(&host(&server, &["runs", "--json"], 0));
    let (local, through) = (keys(printed(&local)), keys(through));
    assert_eq!(local.difference(&through).next(), None, "{through:?}");
}

#[test]
fn a_name_that_cannot_be_one_or_is_taken_is_refused_before_a_run_is_made() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    host(
        &server,
        &["submit", "team.toml", "--name", "one", "--wait"],
        4,
    );
    let taken = "the server has a run of the name `one` already; give this one another name";
    let cases: [(&[&str], &str); 5] = [
        (&["submit", "team.toml", "--name", "one"], taken),
        (
            &["submit", "team.toml", "--name=-one"],
            "without a `-` at the beginning",
        ),
        (&["fork", "one", "--at", "main-0", "--to", "one"], taken),
        (
            &["submit", "team.toml", "--name", "a b"],
            "`a b` cannot be the name of a run",
        ),
        (
            &["fork", "one", "--at", "main-0", "--to", "a b"],
            "`a b` cannot be the name of a run",
        ),
    ];
    for (arguments, expected) in cases {
        let refused = host(&server, arguments, 2);
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    let listed = host(&server, &["runs"], 0).stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

/// Returns the names of the runs that `runs` lists, in an order of their own.
fn listed_names(listed: &Ended) -> BTreeSet<String> {
    let name = |run: &Value| run["name"].as_str().expect("a name").to_owned();
    printed(listed).iter().map(name).collect()
}

#[test]
fn a_filter_selects_through_a_server_what_it_selects_in_its_database() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    for (name, more) in [
        ("job1", &["--label", "shop=one", "--wait"][..]),
        ("job10", &["--label", "shop=two", "--wait"]),
        ("job1-keep", &["--label", "shop=one", "--needs", "gpu"]),
        ("a-q0", &["--wait"]),
    ] {
        let submit = [&["submit", "team.toml", "--name", name], more].concat();
        let code = if more.contains(&"--wait") { 4 } else { 0 };
        host(&server, &submit, code);
    }
    let database = format!("sqlite:{}", server.place.path("served/runs.db").display());
    let filters: [(&[&str], usize); 15] = [
        (&["--name", "job1"], 1),
        (&["--name", "job1*"], 3),
        (&["--name", "*q0"], 1),
        (&["--name", "j?b1*p"], 1),
        (&["--name", "*"], 4),
        (&["--name", ""], 0),
        (&["--label", "shop=one"], 2),
        (&["--label", "shop=one", "--label", "shop=two"], 0),
        (&["--status", "queued"], 1),
        (&["--status", "waiting,queued"], 4),
        (&["--state", "resting"], 3),
        (&["--team", "t"], 4),
        (&["--team", "other"], 0),
        (&["--since", "1h"], 4),
        (&["--until", "1h"], 0),
    ];
    for (filter, count) in filters {
        let through = host(&server, &[&["runs", "--json"], filter].concat(), 0);
        let local = [&["runs", &database, "--json"], filter].concat();
        let local = listed_names(&server.place.host(&local).expect(0));
        assert_eq!(listed_names(&through), local, "{filter:?}");
        assert_eq!(local.len(), count, "{filter:?}");
    }
    for refused in [&["runs", "job1"][..], &["runs", "--scope", "red"]] {
        host(&server, refused, 2);
    }
    // The one that changed last first.
    host(&server, &["cancel", "job10"], 0);
    let first = ["runs", "--json", "--limit", "1"];
    assert_eq!(printed(&host(&server, &first, 0))[0]["name"], "job10");
    let deleted = host(&server, &["delete", "--name", "job1", "--force"], 0);
    assert_eq!(deleted.stdout, "job1: deleted\n");
}

#[test]
fn commands_about_several_runs_reach_those_of_other_tenants_by_the_names_that_runs_shows() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    let red = server.new_token("ann", Some("red"), &["submit", "view", "operate"]);
    for token in [&red, &server.token] {
        server.submit(token, json!({ "name": "one" }));
        server.until(token, "/v1/runs/one", |run| run["state"] == "resting");
    }
    let with_token = |token: &str, arguments: &[&str], code: i32| {
        let address = format!("http://127.0.0.1:{}", server.port);
        let arguments = [arguments, &["--server", &address]].concat();
        let mut command = server.place.command(&arguments);
        command.env("STRATA_TOKEN", token);
        Process::spawn(command).end().expect(code).stdout
    };
    let as_all = |arguments: &[&str]| with_token(&server.token, arguments, 0);
    let as_red = |arguments: &[&str]| with_token(&red, arguments, 0);
    let places = |listed: String| -> Vec<String> {
        let rows = serde_json::Deserializer::from_str(&listed).into_iter();
        let place = |row: Value| row["place"].as_str().expect("a place").to_owned();
        let mut places: Vec<String> = rows.map(|row| place(row.expect("a row"))).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places(as_all(&["runs", "--json"])), ["one", "red/one"]);
    assert_eq!(places(as_red(&["runs", "--json"])), ["one"]);
    let by_red = ["runs", "--json", "--name", "red/o*"];
    assert_eq!(places(as_all(&by_red)), ["red/one"]);
    // The other run is the only one that is found, so only the token tells whose it is.
    assert!(as_all(&["runs", "--name", "red/one"]).contains("red/one"));
    assert!(!as_red(&["runs"]).contains("red/one"));
    let dry = as_all(&["pause", "--name", "*one", "--dry-run"]);
    assert_eq!(dry.lines().count(), 2, "{dry}");
    assert_eq!(as_all(&["pause", "--name", "one"]), "one: paused\n");
    let status = |path: &str| server.get(&server.token, path).json()["status"].clone();
    assert_eq!(status("/v1/runs/red%2Fone"), "waiting");
    let rest = as_all(&["cancel", "--status", "waiting"]);
    assert_eq!(rest, "red/one: cancelled\n");
    let rest = as_red(&["delete", "--name", "one", "--force"]);
    assert_eq!(rest, "one: deleted\n");
    assert_eq!(status("/v1/runs/one"), "paused");
    with_token(&server.token, &["inspect", "red/one"], 2);
}

#[test]
fn only_a_run_that_has_ended_is_deleted_through_a_server_unless_that_is_forced() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    for name in ["one", "two"] {
        host(
            &server,
            &["submit", "team.toml", "--name", name, "--wait"],
            4,
        );
    }
    host(&server, &["answer", "two", "ask-0-0-0-0=3"], 0);
    host(&server, &["wait", "two"], 0);
    let refused = host(&server, &["delete", "one"], 2);
    let expected = format!(
        "error: `one` is resting; only a run that has ended is deleted; `strata-host delete one --force --server \
         http://127.0.0.1:{}/` cancels it first\n",
        server.port
    );
    assert_eq!(refused.stderr, expected);
    let deleted = host(&server, &["delete", "--name", "*"], 2).stdout;
    assert!(deleted.contains("two: deleted\n"), "{deleted}");
    assert!(deleted.contains("one: `one` is resting"), "{deleted}");
    host(&server, &["delete", "one", "--force"], 0);
    assert_eq!(host(&server, &["runs", "--json"], 0).stdout, "");
}

#[test]
fn a_run_that_is_worked_on_is_cancelled_and_deleted_through_a_server_if_that_is_forced() {
    let asking = r#"{ ask = "how many?", schema = { type = "integer" } }"#;
    assert!(ASKING.contains(asking));
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, &ASKING.replace(asking, r#"{ sleep = "60s" }"#));
        for name in ["one", "two"] {
            host(&server, &["submit", "team.toml", "--name", name], 0);
            let path = format!("/v1/runs/{name}");
            server.until(&server.token, &path, |run| run["at_work"][0] == "A");
        }
        let refused = host(&server, &["delete", "one"], 2).stderr;
        assert!(refused.contains("`one` is running"), "{refused}");
        host(&server, &["delete", "one", "--force"], 0);
        let deleted = host(&server, &["delete", "--name", "*", "--force"], 0);
        assert_eq!(deleted.stdout, "two: deleted\n");
    });
}

#[test]
fn a_dry_run_through_a_server_says_what_cannot_be_done() {
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    for name in ["asks", "done"] {
        host(
            &server,
            &["submit", "team.toml", "--name", name, "--wait"],
            4,
        );
    }
    host(&server, &["answer", "done", "ask-0-0-0-0=3"], 0);
    host(&server, &["wait", "done"], 0);
    let database = format!("sqlite:{}", server.place.path("served/runs.db").display());
    for (command, more) in [
        ("cancel", &[][..]),
        ("pause", &[]),
        ("resume", &[]),
        ("prune", &[]),
        ("delete", &[]),
        ("delete", &["--force"]),
    ] {
        let dry = [&[command, "--name", "*", "--dry-run"], more].concat();
        let of_database = [&[command, &database, "--name", "*", "--dry-run"], more].concat();
        let local = server.place.host(&of_database);
        let through = host(&server, &dry, local.code.expect("a code"));
        let named = |text: &str| {
            let text = text
                .replace(&format!("{database}?run="), "")
                .replace('\'', "");
            let text = text.replace(&format!(" --server http://127.0.0.1:{}/", server.port), "");
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        assert_eq!(named(&through.stdout), named(&local.stdout), "{dry:?}");
    }
    let one = host(&server, &["cancel", "done", "--dry-run"], 2).stdout;
    assert!(one.contains("there is nothing to end"), "{one}");
    let missing = host(&server, &["prune", "missing", "--dry-run"], 2).stdout;
    assert!(
        missing.starts_with("missing: there is no such run"),
        "{missing}"
    );
}

#[test]
fn whoever_waits_through_a_server_goes_on_after_it_was_started_again() {
    let mut server = TestServer::start_at(&Runs::InFile, ASKING);
    host(
        &server,
        &["submit", "team.toml", "--name", "one", "--needs", "gpu"],
        0,
    );
    let commands: [&[&str]; 3] = [
        &["wait", "one"],
        &["events", "one", "--follow"],
        &[
            "submit",
            "team.toml",
            "--name",
            "two",
            "--needs",
            "gpu",
            "--wait",
        ],
    ];
    let address = format!("http://127.0.0.1:{}", server.port);
    let start = |arguments: &&[&str]| {
        let arguments = [*arguments, &["--server", &address]].concat();
        let mut command = server.place.command(&arguments);
        command.env("STRATA_TOKEN", &server.token);
        Process::spawn(command)
    };
    let waiting: Vec<Process> = commands.iter().map(start).collect();
    server.until(&server.token, "/v1/runs", |runs| {
        runs["items"].as_array().is_some_and(|runs| runs.len() == 2)
    });
    server.kill();
    // Each has looked for the server meanwhile.
    std::thread::sleep(std::time::Duration::from_secs(2));
    server.start_again();
    host(&server, &["cancel", "one", "two"], 0);
    let codes: Vec<Option<i32>> = waiting.into_iter().map(|one| one.end().code).collect();
    assert_eq!(codes, [Some(12), Some(0), Some(12)]);
    // An address at which there is no server is wrong.
    server.kill();
    let refused = host(&server, &["wait", "one"], 1).stderr;
    assert!(refused.contains("cannot reach the server"), "{refused}");
}

#[test]
fn whoever_waits_through_a_server_learns_which_cap_is_used_up() {
    let mut databases = vec!["sqlite:capped.db".to_owned()];
    if let Some(Runs::InDatabase(url)) = Runs::in_new_database() {
        databases.push(url);
    }
    for url in databases {
        let web = Web::new();
        let place = worker_place(&web);
        place.write("team.toml", asker(&web, 0));
        place.host(&["database", "migrate", &url]).expect(0);
        let cap = ["database", "cap", &url, "--set", "1"];
        place.host(&cap).expect(0);
        let server = TestServer::start_in(place, &["--policy", "policy.toml", "--database", &url]);
        let submit = ["submit", "team.toml", "--name", "one", "--wait"];
        let waited = ["wait", "one"];
        for arguments in [&submit[..], &waited] {
            let ended = host(&server, arguments, 5).stderr;
            let expected = "out of budget: the cap of $1.0000 for all runs is used up";
            assert!(ended.contains(expected), "{url}: {ended}");
            assert!(
                ended.contains("database cap URL --scope all --set USD"),
                "{ended}"
            );
        }
        let shown = host(&server, &["inspect", "one"], 0).stdout;
        let expected = "# after `strata-host database cap URL --scope all --set USD`";
        assert!(shown.contains(expected), "{url}: {shown}");
    }
}

#[test]
fn a_run_that_no_worker_can_take_says_through_a_server_what_it_waits_for() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let submit = ["submit", "team.toml", "--name", "one", "--needs", "gpu"];
        host(&server, &submit, 0);
        let run = server.get(&server.token, "/v1/runs/one").json();
        assert_eq!(run["needs"], json!(["gpu"]));
        let missing = json!({ "kind": "labels", "names": ["gpu"] });
        assert_eq!(run["waits_for"], missing);
        let shown = host(&server, &["inspect", "one"], 0).stdout;
        let expected = "waits for   no worker is there that has the label `gpu`";
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.contains("needs       gpu"), "{shown}");
        let id = run["id"].as_str().expect("an id");
        assert!(shown.contains(&format!("run         {id} ")), "{shown}");
    });
}
