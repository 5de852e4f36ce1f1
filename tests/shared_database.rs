//! Runs in one database file, given as `sqlite:PATH?run=NAME`: what commands do with one, and teams of one
//! process that share a file, which is killed.

use std::process::Command;

use strata_host::manifest::Overrides;
use strata_host::{LiveEnvironment, Start, StorageLocation, WhenIdle};

use crate::databases::{check_forks, check_like_in_a_directory};
use crate::live::{GREETER, in_runtime, said};
use crate::process::Process;
use crate::stream;
use crate::workspace::Workspace;

/// The environment variable with the directory in which the child process runs teams.
const DIRECTORY_VARIABLE: &str = "STRATA_TEST_SHARED_DATABASE";
/// The names of its runs.
const RUNS: [&str; 2] = ["one", "two"];

#[test]
fn a_run_in_a_database_file_is_like_one_in_a_directory() {
    check_like_in_a_directory("sqlite:made/runs.db?run=clerk", "clerk");
}

#[test]
fn a_run_is_forked_from_a_directory_into_a_database_file_and_back() {
    check_forks("sqlite:runs.db?run=greeter");
}

/// Not a test by itself: the child process of one. Runs teams that share a file, says when they have
/// nothing to do, and waits to be killed.
#[test]
fn child_runs_teams_in_one_file_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY_VARIABLE) else {
        return;
    };
    in_runtime(async {
        let create = |name: &str| {
            let url = format!("sqlite:{directory}/runs.db?run={name}");
            let team = format!("{directory}/team.toml");
            let storage = StorageLocation::new(url);
            let start = Start::new(team, storage, Overrides::default());
            let mut environment = LiveEnvironment::create(start).unwrap();
            environment.start(WhenIdle::Stay).unwrap();
            environment
        };
        let environments = RUNS.map(create);
        for n in 0..5 {
            let sent = environments
                .iter()
                .map(|one| one.send(said(&n.to_string())));
            futures_util::future::try_join_all(sent).await.unwrap();
        }
        for environment in &environments {
            environment.idle().await;
        }
        println!("nothing is left to do");
        std::future::pending::<()>().await;
    });
}

/// Returns how many actions have finished, according to a command that prints events.
fn finished(place: &Workspace, args: &[&str]) -> usize {
    let events = place.host(args).expect(0).events();
    stream::of_kind(&events, "action-finished").len()
}

#[test]
fn teams_that_share_a_file_are_looked_at_sent_messages_killed_and_resumed_by_their_names() {
    let place = Workspace::with(GREETER);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "shared_database::child_runs_teams_in_one_file_until_it_is_killed";
    command.args(["--exact", test, "--nocapture"]);
    command.env(DIRECTORY_VARIABLE, place.path(""));
    let mut owner = Process::spawn(command);
    owner.until_line_contains("nothing is left to do");
    let urls = RUNS.map(|name| format!("sqlite:runs.db?run={name}"));

    for url in &urls {
        assert_eq!(finished(&place, &["events", url]), 6);
        place.host(&["inspect", url]).expect(0);
        place.host(&["report", url]).expect(0);
        let send = ["send", url, "--cause", "UserRequirement", "meanwhile"];
        place.host(&send).expect(0);
        let refused = place.host(&["run", "--recover_path", url]).expect(9);
        let holder = format!("process {}", owner.pid());
        assert!(refused.stderr.contains(&holder), "{}", refused.stderr);
    }
    let unnamed = place.host(&["inspect", "sqlite:runs.db"]).expect(2);
    assert!(
        unnamed.stderr.contains("in it are: two, one"),
        "{}",
        unnamed.stderr
    );

    owner.kill();
    for url in &urls {
        let send = ["send", url, "--cause", "UserRequirement", "later"];
        place.host(&send).expect(0);
        let before = finished(&place, &["events", url]);
        let resume = ["run", "--recover_path", url, "--events", "-"];
        assert_eq!(before + finished(&place, &resume), 8);
        assert_eq!(finished(&place, &["events", url]), 8);
    }
    let left = std::fs::read_dir(place.path("")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| name.starts_with("runs.db")).collect();
    assert_eq!(files, ["runs.db"]);
}

#[test]
fn guests_do_not_reach_the_files_of_the_database_in_their_directory() {
    let team = GREETER.replace(
        "config = {",
        "allow = { dirs = [{ host = \".\", guest = \"/w\", write = true }] }\nconfig = {",
    );
    for (step, expected) in [
        ("{ read = \"/w/runs.db\" }", 3),
        ("{ write = \"/w/runs.db-wal\", text = \"x\" }", 3),
        ("{ write = \"/w/runs.db2\", text = \"x\" }", 0),
    ] {
        let team = team.replace("{ say = \"re: {inputs}\" }", step);
        let place = Workspace::with(&team);
        let run = ["run", "team.toml", "--storage", "sqlite:runs.db?run=one"];
        place.host(&run).expect(expected);
        place.host(&["inspect", run[3]]).expect(0);
        assert_eq!(place.path("runs.db2").exists(), expected == 0);
    }
}
