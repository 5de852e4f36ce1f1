//! Processes that are killed while they append: what they have reported as saved is there
//! afterwards.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use strata_base::files::blob::Blobs;
use strata_core::machine::stepper::Stepper;
use strata_core::record::spending::Account;
use strata_core::state::environment::Environment;

use super::conformance::loaded_state;
use super::script::pseudorandom;
use super::script::{definition, scripted_run, team};
use crate::sqlite::rows::SqliteRows;
use crate::sqlite::shared;
use crate::sqlite_url::SqliteUrl;
use crate::{
    Durability, Lease, Record, RecordedRun, ReplacePolicy, StateSelector, StorageDirectory,
    StoreError, checkpoint_of,
};

/// The environment variable with the directory that the child process writes to.
const DIRECTORY_VARIABLE: &str = "STRATA_TEST_CRASH_DIRECTORY";
/// The seed and the length of the run that the child process records.
const RUN: (u64, usize) = (11, 4000);
/// How many runs it records at the same time in one file.
const RUNS: usize = 3;

/// Not a test by itself: the child process of one. Appends the run, one to three events at a time,
/// reports after each append how many are saved, and continues where an earlier child in the same
/// directory was killed.
#[test]
fn child_appends_until_it_is_killed() {
    let Ok(path) = std::env::var(DIRECTORY_VARIABLE) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    let directory = StorageDirectory::new(path);
    let mut store = directory.open().unwrap().lease;
    let saved = loaded_state(&store.load(&StateSelector::Head).unwrap());
    let mut stepper = Stepper::new(team(), saved);
    let mut at = store.records(0, usize::MAX).unwrap().len();
    while at < records.len() {
        let next = (at + 1 + at % 3).min(records.len());
        let durability = if at % 5 == 0 {
            Durability::Full
        } else {
            Durability::Process
        };
        store.append(&records[at..next], durability).unwrap();
        println!("saved {next}");
        for record in &records[at..next] {
            stepper.apply(&record.event).unwrap();
        }
        at = next;
        if at % 50 < 3 {
            store.save_snapshot(stepper.env()).unwrap();
            let fill: &crate::WriteContent<'_> = &|out| write!(out, "{{\"n\": {at}}}");
            let file = directory.projection();
            file.write(&mut store, fill, Durability::Full).unwrap();
        }
    }
}

/// Not a test by itself: the child process of one. Continues the run, a few events at a time, forks
/// the newest checkpoint after each append, prunes now and then, and reports the number of the last
/// fork.
#[test]
fn child_forks_and_prunes_until_it_is_killed() {
    let Ok(path) = std::env::var(DIRECTORY_VARIABLE) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    let mut store = StorageDirectory::new(path).open().unwrap().lease;
    let mut at = store.lineages().unwrap()[0].events as usize;
    while at < records.len() {
        let next = (at + 23).min(records.len());
        store
            .append(&records[at..next], Durability::Process)
            .unwrap();
        at = next;
        let from = store
            .checkpoints()
            .unwrap()
            .into_iter()
            .rev()
            .find(|row| row.lineage == "main")
            .unwrap()
            .id;
        let env = loaded_state(&store.load(&StateSelector::Checkpoint(from)).unwrap());
        let forks = store.lineages().unwrap().len();
        let account = Account {
            spent: store.spent().unwrap(),
            ..Account::default()
        };
        let event = Stepper::new(team(), env)
            .forked_event(format!("main.{forks}"), Vec::new(), account)
            .unwrap();
        let line = store.load(&StateSelector::Head).unwrap().next_line;
        store
            .append(
                &[Record {
                    line,
                    lines: 1,
                    time_ms: 0,
                    event,
                }],
                Durability::Full,
            )
            .unwrap();
        println!("saved {forks}");
        if forks.is_multiple_of(3) {
            store
                .prune(2, &mut |saved| Ok(loaded_state(&saved)))
                .unwrap();
        }
    }
}

/// Not a test by itself: the child process of one. Continues several runs in one file at the same time,
/// and reports after each append how many events of which run are saved.
#[test]
fn child_appends_to_the_runs_of_a_file_until_it_is_killed() {
    let Ok(path) = std::env::var(DIRECTORY_VARIABLE) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    let append = |run: usize| {
        let mut lease = shared::take_lease(&shared_run(Path::new(&path), run)).unwrap();
        let saved = loaded_state(&lease.load(&StateSelector::Head).unwrap());
        let mut stepper = Stepper::new(team(), saved);
        let mut at = lease.records(0, usize::MAX).unwrap().len();
        while at < records.len() {
            let next = (at + 1 + at % 3).min(records.len());
            let durability = if (at + run).is_multiple_of(5) {
                Durability::Full
            } else {
                Durability::Process
            };
            lease.append(&records[at..next], durability).unwrap();
            println!("saved {run} {next}");
            for record in &records[at..next] {
                stepper.apply(&record.event).unwrap();
            }
            at = next;
            if at % 50 < 3 {
                lease.save_snapshot(stepper.env()).unwrap();
            }
        }
    };
    let append = &append;
    std::thread::scope(|scope| {
        for run in 0..RUNS {
            scope.spawn(move || append(run));
        }
    });
}

/// Returns the URL of a run in the file of a directory.
fn shared_run(directory: &Path, run: usize) -> SqliteUrl {
    SqliteUrl {
        file: directory.join("runs.db"),
        run: Some(run.to_string()),
    }
}

/// Creates the runs in the file of a directory.
fn create_shared_runs(directory: &Path) {
    let base = Environment::new(&team());
    for run in 0..RUNS {
        let vacant = shared::vacate(&shared_run(directory, run), ReplacePolicy::Never).unwrap();
        drop(vacant.create(&base, &definition(), &Blobs::new()).unwrap());
    }
}

fn spawn(directory: &Path, test: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("tests::crash::{test}"), "--nocapture"]);
    command
        .env(DIRECTORY_VARIABLE, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until a child process has reported something and then for `pause`, and kills it. Returns
/// its reports.
fn kill_after(mut child: Child, pause: Duration) -> Vec<String> {
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    // On the first line, the test harness prints something before the report.
    let report = |line: String| Some(line.rsplit_once("saved ")?.1.to_owned());
    let mut reports = lines.filter_map(report);
    let mut reported: Vec<String> = reports.by_ref().take(1).collect();
    let start = Instant::now();
    while start.elapsed() < pause {
        match reports.next() {
            Some(report) => reported.push(report),
            None => break,
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reported.extend(reports);
    reported
}

/// Returns the number in the last report.
fn last_number(reports: &[String]) -> usize {
    reports.last().map_or(0, |report| report.parse().unwrap())
}

#[test]
fn what_a_killed_process_saved_is_there() {
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    assert_eq!(records.len(), RUN.1);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path());
    drop(
        directory
            .create(
                ReplacePolicy::Never,
                &Environment::new(&team()),
                &definition(),
            )
            .unwrap(),
    );
    for round in 0..12u64 {
        let child = spawn(directory.path(), "child_appends_until_it_is_killed");
        let pause = Duration::from_micros(700 * (round * round % 29));
        let said = last_number(&kill_after(child, pause));
        // A reader sees the files as they are, before anything is repaired.
        let read = SqliteRows::open(&directory)
            .unwrap()
            .load(&StateSelector::Head)
            .unwrap();
        let opened = directory.open().unwrap();
        assert!(
            !opened.team_json_differs,
            "the team.json beside it is one of ours"
        );
        let kept = opened.lease.records(0, usize::MAX).unwrap();
        assert!(kept.len() >= said, "{} of {said} are left", kept.len());
        assert_eq!(kept, records[..kept.len()]);
        let mut expected = Stepper::new(team(), Environment::new(&team()));
        for record in &kept {
            expected.apply(&record.event).unwrap();
        }
        let now = loaded_state(&opened.lease.load(&StateSelector::Head).unwrap());
        assert_eq!(
            (&now, &loaded_state(&read)),
            (expected.env(), expected.env())
        );
    }
}

#[test]
fn what_a_killed_process_saved_of_each_run_of_a_file_is_there() {
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    let temp = tempfile::tempdir().unwrap();
    create_shared_runs(temp.path());
    for round in 0..12u64 {
        let child = spawn(
            temp.path(),
            "child_appends_to_the_runs_of_a_file_until_it_is_killed",
        );
        let reports = kill_after(child, Duration::from_micros(900 * (round * round % 29)));
        for run in 0..RUNS {
            let url = shared_run(temp.path(), run);
            let own = format!("{run} ");
            let reported = reports
                .iter()
                .filter_map(|one| one.strip_prefix(&own))
                .next_back();
            let said = reported.map_or(0, |n| n.parse().unwrap());
            // A reader sees the files as they are, before anything is repaired.
            let read = shared::open_reader(&url).unwrap();
            let read = loaded_state(&read.load(&StateSelector::Head).unwrap());
            let lease = shared::take_lease(&url).unwrap();
            let kept = lease.records(0, usize::MAX).unwrap();
            assert!(kept.len() >= said, "{} of {said} are left", kept.len());
            assert_eq!(kept, records[..kept.len()]);
            let now = loaded_state(&lease.load(&StateSelector::Head).unwrap());
            assert_eq!((&now, &now), (&read, &super::conformance::replay(&kept)));
        }
    }
}

#[test]
fn a_file_with_runs_is_locked_while_a_process_works_on_it_and_can_be_read() {
    let temp = tempfile::tempdir().unwrap();
    create_shared_runs(temp.path());
    let mut child = spawn(
        temp.path(),
        "child_appends_to_the_runs_of_a_file_until_it_is_killed",
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    lines.by_ref().find(|line| line.contains("saved")).unwrap();
    let url = shared_run(temp.path(), 0);
    match shared::take_lease(&url) {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(child.id())),
        other => panic!("{other:?}"),
    }
    shared::open_reader(&url).unwrap().checkpoints().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    shared::take_lease(&url).unwrap();
}

#[test]
fn what_a_process_that_was_killed_while_it_forked_or_pruned_saved_is_there() {
    let (records, _) = scripted_run(&pseudorandom(RUN.0, 8 * RUN.1), RUN.1);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path());
    drop(
        directory
            .create(
                ReplacePolicy::Never,
                &Environment::new(&team()),
                &definition(),
            )
            .unwrap(),
    );
    let mut states = std::collections::BTreeMap::new();
    let mut stepper = Stepper::new(team(), Environment::new(&team()));
    for record in &records {
        stepper.apply(&record.event).unwrap();
        states.extend(checkpoint_of(&record.event).map(|id| (id.clone(), stepper.env().clone())));
    }
    for round in 0..12u64 {
        let child = spawn(
            directory.path(),
            "child_forks_and_prunes_until_it_is_killed",
        );
        let pause = Duration::from_micros(1900 * (round * round % 29));
        let said = last_number(&kill_after(child, pause));
        let store = directory.open().unwrap().lease;
        let lineages = store.lineages().unwrap();
        assert!(
            lineages.len() > said && lineages[0].current,
            "{} of {said} are left",
            lineages.len()
        );
        let rows = store.checkpoints().unwrap();
        assert_eq!(rows.iter().filter(|row| row.parent.is_none()).count(), 1);
        for row in &rows {
            let found = loaded_state(
                &store
                    .load(&StateSelector::Checkpoint(row.id.clone()))
                    .unwrap(),
            );
            match states.get(&row.id) {
                Some(expected) => assert_eq!(found, *expected),
                None => {
                    let from = &states[row.parent.as_ref().unwrap()];
                    assert_eq!(
                        (found.roles, found.shared_scopes, found.step),
                        (from.roles.clone(), from.shared_scopes.clone(), from.step)
                    );
                }
            }
        }
        assert_eq!(
            rows.iter().filter(|row| row.lineage != "main").count() + 1,
            lineages.len()
        );
        let head = loaded_state(&store.load(&StateSelector::Head).unwrap());
        assert_eq!(
            head,
            super::conformance::replay(&records[..lineages[0].events as usize])
        );
    }
}

#[test]
fn a_directory_is_locked_while_a_process_works_on_it_and_no_longer() {
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path());
    drop(
        directory
            .create(
                ReplacePolicy::Never,
                &Environment::new(&team()),
                &definition(),
            )
            .unwrap(),
    );
    let mut child = spawn(directory.path(), "child_appends_until_it_is_killed");
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    lines.by_ref().find(|line| line.contains("saved")).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::STOP,
    )
    .unwrap();
    match directory.open() {
        Err(e @ StoreError::Locked { pid, .. }) => {
            assert_eq!(pid, Some(child.id()));
            assert!(
                e.to_string()
                    .contains(&format!("in use by process {}", child.id())),
                "{e}"
            );
        }
        other => panic!("{other:?}"),
    }
    SqliteRows::open(&directory).unwrap().checkpoints().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(temp.path().join("team.lock").exists());
    directory.open().unwrap();
    assert!(!temp.path().join("team.lock").exists());
}
