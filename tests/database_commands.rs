//! Databases as a whole: several that share the runs, closed for new runs, backed up and restored. Without
//! PostgreSQL, these tests are skipped, and say so.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::live::GREETER;
use crate::postgres_server::{create_database, query};
use crate::process::Signal;
use crate::workers::{Pool, slow_greeter, stop_workers, wait_until};
use crate::workspace::Workspace;

/// Creates a database of this test alone, and returns its URL. `None` if there is no server.
pub fn new_database() -> Option<String> {
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let n = DATABASES.fetch_add(1, Ordering::Relaxed);
    create_database(&format!("program_{}_{n}", std::process::id()))
}

/// Submits a team to all of these databases, and returns the URL of its run.
fn submit(place: &Workspace, databases: &[&str], more: &[&str]) -> String {
    let mut args = vec!["submit", "team.toml"];
    for database in databases {
        args.extend(["--database", database]);
    }
    args.extend(more);
    let submitted = place.host(&args).expect(0);
    submitted.stdout.trim().to_owned()
}

fn names(url: &str) -> Vec<String> {
    let names = query(url, "SELECT name FROM strata.run ORDER BY name");
    names.lines().map(str::to_owned).collect()
}

#[test]
fn runs_are_distributed_over_databases_that_are_open_and_found_by_their_names() {
    let (Some(one), Some(two)) = (new_database(), new_database()) else {
        return;
    };
    let (one, two) = (&*one, &*two);
    let place = Workspace::with(GREETER);
    // All of them are in one database once in a million times.
    const RUNS: usize = 20;
    for n in 0..RUNS {
        submit(&place, &[one, two], &["--name", &format!("run-{n}")]);
    }
    let counts = [names(one).len(), names(two).len()];
    assert_eq!(counts[0] + counts[1], RUNS);
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
    // Its name selects the same one in any order, so it exists once.
    for databases in [[one, two], [two, one]] {
        let [first, second] = databases;
        let again = ["submit", "team.toml", "--name", "run-7"];
        let again = [&again[..], &["--database", first, "--database", second]].concat();
        let refused = place.host(&again).expect(2);
        assert!(
            refused.stderr.contains("run of the name `run-7`"),
            "{}",
            refused.stderr
        );
        let found = place
            .host(&["database", "find", "run-7", first, second])
            .expect(0);
        place.host(&["inspect", found.stdout.trim()]).expect(0);
    }
    let none = place
        .host(&["database", "find", "run-99", one, two])
        .expect(2);
    assert!(
        none.stderr.contains("none of these databases"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_database_that_is_closed_keeps_its_runs_and_gets_no_others_in_any_way() {
    let (Some(one), Some(two)) = (new_database(), new_database()) else {
        return;
    };
    let (one, two) = (&*one, &*two);
    let place = Workspace::with(GREETER);
    submit(&place, &[one], &[]);
    place.host(&["database", "close", one]).expect(0);
    let kept = names(one);
    for n in 0..6 {
        submit(&place, &[one, two], &["--name", &format!("run-{n}")]);
    }
    let url = format!("{one}&run=direct");
    for args in [
        &["submit", "team.toml", "--database", one][..],
        &["run", "team.toml", "--storage", &url],
    ] {
        let refused = place.host(args).expect(2);
        assert!(
            refused.stderr.contains("closed for new runs"),
            "{}",
            refused.stderr
        );
    }
    let taken = [
        "submit",
        "team.toml",
        "--database",
        two,
        "--database",
        one,
        "--name",
        &kept[0],
    ];
    place.host(&taken).expect(2);
    assert_eq!(names(one), kept);
    let doctor = place.host(&["doctor", "--database", one]).stdout;
    assert!(
        doctor.contains("closed for new runs, incarnation "),
        "{doctor}"
    );
    place.host(&["database", "open", one]).expect(0);
    place
        .host(&["run", "team.toml", "--storage", &url])
        .expect(0);
}

#[test]
fn a_url_that_names_a_run_is_refused_where_a_database_is_meant() {
    let place = Workspace::with(GREETER);
    let one = "sqlite:runs.db?run=one";
    let commands: [&[&str]; 5] = [
        &["submit", "team.toml", "--database", one],
        &["adopt", "store", "--to", one],
        &["worker", "--database", one],
        &["database", "close", one],
        &["serve", "--database", one],
    ];
    for command in commands {
        let told = place.host(command).expect(2).stderr;
        assert!(told.contains("it names the run `one`"), "{told}");
        assert!(!place.path("runs.db").exists(), "{command:?}");
    }
}

#[test]
fn nothing_is_created_where_a_setting_is_meant_for_another_file() {
    let place = Workspace::with(GREETER);
    let settings: [&[&str]; 6] = [
        &["close"],
        &["open"],
        &["fence"],
        &["cap", "--set", "5"],
        &["retention", "--keep", "done=1d"],
        &["retention"],
    ];
    for setting in settings {
        let (name, more) = setting.split_first().expect("a command");
        let refused = place.host(&[&["database", name, "sqlite:typo.db"], more].concat());
        let told = refused.expect(2).stderr;
        assert!(
            told.contains("a file of many runs is created with its first run"),
            "{told}"
        );
        assert!(!place.path("typo.db").exists(), "{setting:?}");
    }
}

#[test]
fn databases_that_have_the_same_run_or_are_the_same_are_refused() {
    let (Some(one), Some(two)) = (new_database(), new_database()) else {
        return;
    };
    let (one, two) = (&*one, &*two);
    let place = Workspace::with(GREETER);
    for database in [one, two] {
        let url = format!("{database}&run=direct");
        place
            .host(&["run", "team.toml", "--storage", &url])
            .expect(0);
    }
    let both = place
        .host(&["database", "find", "direct", one, two])
        .expect(2);
    assert!(
        both.stderr.contains("both have the run `direct`"),
        "{}",
        both.stderr
    );
    let same = ["submit", "team.toml", "--database", one, "--database", one];
    let same = place.host(&same).expect(2);
    assert!(
        same.stderr.contains("are the same database"),
        "{}",
        same.stderr
    );
    let same = place
        .host(&["worker", "--database", one, "--database", one])
        .expect(2);
    assert!(
        same.stderr.contains("are the same database"),
        "{}",
        same.stderr
    );
}

#[test]
fn a_database_that_cannot_be_asked_is_left_out_unless_it_may_have_a_run_of_that_name() {
    let Some(url) = new_database() else { return };
    let place = Workspace::with(GREETER);
    let nowhere = "postgres:///teams?host=/nonexistent";
    let first = [
        "submit",
        "team.toml",
        "--database",
        nowhere,
        "--database",
        &url,
    ];
    let submitted = place.host(&first).expect(0);
    assert!(
        submitted.stderr.contains("was left out"),
        "{}",
        submitted.stderr
    );
    let named = [&first[..], &["--name", "given"]].concat();
    let refused = place.host(&named).expect(1);
    assert!(
        refused.stderr.contains("cannot reach"),
        "{}",
        refused.stderr
    );
    let name = &names(&url)[0];
    place
        .host(&["database", "find", name, nowhere, &url])
        .expect(0);
    place
        .host(&["database", "find", "given", nowhere, &url])
        .expect(1);
}

/// A team that asks, and then says what it was told.
const ASKER: &str = r#"
schema = "strata.team/1"
[team]
name = "asker"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Before"
component = "probe.wasm"
config = { steps = [{ say = "before" }] }
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "how many?" }, { say = "{reads}" }] }
"#;

#[test]
fn a_restored_database_is_fenced_and_its_runs_continue_from_the_backup() {
    let (Some(url), Some(copy)) = (new_database(), new_database()) else {
        return;
    };
    let (place, elsewhere) = (Workspace::with(ASKER), Workspace::empty());
    let pool = Pool::in_database(&url);
    let worker = pool.worker(&elsewhere, &[]);
    pool.submit(&place, "asker", &["--wait"]).end().expect(4);
    let dump = place.path("backup.sql");
    let dumped = Command::new("pg_dump")
        .arg("-f")
        .arg(&dump)
        .arg(&url)
        .status();
    assert!(dumped.unwrap().success());
    // What happens after the backup is lost.
    elsewhere
        .host(&["answer", &pool.run("asker"), "ask-0-0-1-0=3"])
        .expect(0);
    pool.until_event(&elsewhere, "asker", "\"status\":\"done\"");
    let mut client = Command::new("psql");
    client.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"]);
    let restored = client
        .arg(&dump)
        .arg(&copy)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(restored.unwrap().success());
    let name = pool.name("asker");
    let both = ["database", "find", &name, &url, &copy];
    let both = elsewhere.host(&both).expect(2);
    assert!(both.stderr.contains("both have the run"), "{}", both.stderr);
    let fenced = elsewhere.host(&["database", "fence", &copy]).expect(0);
    assert!(fenced.stderr.contains("it has 1 run"), "{}", fenced.stderr);
    let restored = Pool {
        label: pool.label.clone(),
        ..Pool::in_database(&copy)
    };
    let second = restored.worker(&elsewhere, &[]);
    elsewhere
        .host(&["answer", &restored.run("asker"), "ask-0-0-1-0=4"])
        .expect(0);
    restored.until_event(&elsewhere, "asker", "\"status\":\"done\"");
    let events = elsewhere
        .host(&["events", &restored.run("asker")])
        .expect(0)
        .stdout;
    assert_eq!(events.matches("\"action-started\"").count(), 3, "{events}");
    stop_workers([worker, second]);
}

#[test]
fn whoever_used_a_database_before_it_was_fenced_stops_and_changes_nothing() {
    let Some(url) = new_database() else { return };
    let (place, elsewhere) = (Workspace::with(&slow_greeter()), Workspace::empty());
    let pool = Pool::in_database(&url);
    let worker = pool.worker(&elsewhere, &[]);
    pool.submit(&place, "slow", &[]).end().expect(0);
    pool.until_event(&elsewhere, "slow", "action-started");
    let owned = pool.run("owned");
    let mut owner = elsewhere.start(&[
        "run",
        &place.path("team.toml").display().to_string(),
        "--storage",
        &owned,
        "--events",
        "-",
    ]);
    owner.until("action-started", None);
    elsewhere.host(&["database", "fence", &url]).expect(0);
    let stopped = worker.end().expect(11);
    assert!(
        stopped.stderr.contains("was restored from a backup"),
        "{}",
        stopped.stderr
    );
    owner.end().expect(9);
    for run in ["slow", "owned"] {
        let events = elsewhere.host(&["events", &pool.run(run)]).expect(0).stdout;
        assert!(!events.contains("run-ended"), "{events}");
    }
    let next = pool.worker(&elsewhere, &[]);
    pool.until_event(&elsewhere, "slow", "\"status\":\"done\"");
    next.signal(Signal::TERM);
    next.end().expect(0);
    let mine = elsewhere
        .host(&["run", "--recover_path", &owned, "--trust"])
        .expect(0);
    assert_eq!(mine.stdout, "re: hello\n");
}

#[test]
fn tables_are_created_by_one_user_and_used_by_another() {
    let Some(url) = new_database() else { return };
    let role = format!("serving_{}", std::process::id());
    let place = Workspace::with(GREETER);
    let database = url.split('/').nth(3).unwrap().split('?').next().unwrap();
    query(
        &url,
        &format!("CREATE ROLE {role} LOGIN; REVOKE CREATE ON DATABASE {database} FROM PUBLIC"),
    );
    let serving = url.replacen("strata@", &format!("{role}@"), 1);
    let run = format!("{serving}&run=one");
    let refused = place
        .host(&["run", "team.toml", "--storage", &run])
        .expect(2);
    assert!(
        refused.stderr.contains("grant this user the right"),
        "{}",
        refused.stderr
    );
    place.host(&["database", "migrate", &url]).expect(0);
    query(
        &url,
        &format!(
            "GRANT USAGE ON SCHEMA strata TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA strata TO {role}"
        ),
    );
    place
        .host(&["run", "team.toml", "--storage", &run])
        .expect(0);
    let submitted = submit(&place, &[&serving], &[]);
    let mut worker = place.start(&["worker", "--database", &serving]);
    wait_until(|| {
        place
            .host(&["events", &submitted])
            .stdout
            .contains("run-ended")
    });
    worker.signal(Signal::TERM);
    assert_eq!(worker.next(), None);
    worker.end().expect(0);
}

/// Returns what a message says is to be granted, as statements.
fn granted_in(message: &str) -> &str {
    let from = message
        .find("`GRANT")
        .unwrap_or_else(|| panic!("{message}"));
    message[from + 1..].split('`').next().unwrap()
}

#[test]
fn a_user_who_may_not_do_something_is_told_what_to_grant_and_that_suffices() {
    let Some(url) = new_database() else { return };
    let place = Workspace::with(GREETER);
    place.host(&["database", "migrate", &url]).expect(0);
    let role = format!("Guest {}", std::process::id());
    let database = url.split('/').nth(3).unwrap().split('?').next().unwrap();
    query(
        &url,
        &format!(
            "CREATE ROLE \"{role}\" LOGIN; REVOKE CREATE ON DATABASE \"{database}\" FROM PUBLIC"
        ),
    );
    let guest = url.replacen("strata@", &format!("{}@", role.replace(' ', "%20")), 1);
    let submit = ["submit", "team.toml", "--database", &guest];
    // Neither the schema nor its tables.
    let refused = place.host(&["runs", &guest]).expect(2);
    query(&url, granted_in(&refused.stderr));
    place.host(&submit).expect(0);
    // Not one of the tables.
    query(
        &url,
        &format!("REVOKE INSERT ON strata.run FROM \"{role}\""),
    );
    let refused = place.host(&submit).expect(2);
    assert!(
        refused.stderr.contains("permission denied"),
        "{}",
        refused.stderr
    );
    let shown = place.host(&["doctor", "--database", &guest]);
    assert!(shown.stdout.contains("may only read"), "{}", shown.stdout);
    query(&url, granted_in(&refused.stderr));
    place.host(&submit).expect(0);
    // No slot for a connection.
    query(&url, &format!("ALTER ROLE \"{role}\" CONNECTION LIMIT 0"));
    let refused = place.host(&submit).expect(1);
    assert!(
        refused.stderr.contains("its connections are used up"),
        "{}",
        refused.stderr
    );
}

#[test]
fn only_a_run_of_the_same_name_is_taken_for_one() {
    let Some(url) = new_database() else { return };
    let place = Workspace::with(GREETER);
    submit(&place, &[&url], &["--name", "first"]);
    let named = ["submit", "team.toml", "--database", &url, "--name"];
    let taken = place.host(&[&named[..], &["first"]].concat()).expect(2);
    assert!(
        taken.stderr.contains("a run of the name `first` already"),
        "{}",
        taken.stderr
    );
    query(&url, "CREATE UNIQUE INDEX only_one ON strata.run ((1))");
    let other = place.host(&[&named[..], &["second"]].concat()).expect(1);
    assert!(
        other.stderr.contains("only_one") && !other.stderr.contains("already; give"),
        "{}",
        other.stderr
    );
}
