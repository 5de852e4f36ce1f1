//! What is said where a database cannot be used, and what is kept: wrong passwords, databases of others
//! and of later programs, ones that cannot be written, full disks, servers that are gone. Without
//! PostgreSQL, these tests are skipped, and say so.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::database_server::{Proxy, Server, give_to_server};
use crate::live::GREETER;
use crate::postgres_server::ServerOptions;
use crate::process::{Ended, Signal};
use crate::skipped::skip;
use crate::web::Web;
use crate::workers::{greeter_after, wait_until};
use crate::workspace::Workspace;

/// Checks how a command ended and what it said.
#[track_caller]
fn check(ended: Ended, code: i32, expected: &str) {
    let ended = ended.expect(code);
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    let all = ended.stdout + &ended.stderr;
    assert!(!all.contains("s3cret"), "{all}");
}

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_refused() {
    let place = Workspace::with(GREETER);
    // Readable for the server, which has a user of its own.
    let rules = std::env::temp_dir().join(format!("strata-hba-{}", std::process::id()));
    std::fs::write(
        &rules,
        "local all locked scram-sha-256\nlocal all all trust\n",
    )
    .unwrap();
    std::fs::set_permissions(&rules, std::fs::Permissions::from_mode(0o644)).unwrap();
    let setting = format!("hba_file={}", rules.display());
    let options = ServerOptions {
        arguments: &["-c", &setting],
        port: None,
    };
    let Some(server) = Server::start_with(options) else {
        return;
    };
    server.sql("CREATE ROLE locked LOGIN PASSWORD 'r1ght'");
    server.sql("GRANT CREATE ON DATABASE postgres TO locked");
    let url = |account: &str| format!("{}&run=x", server.url().replace("strata@", account));
    let run = |account: &str| place.host(&["run", "team.toml", "--storage", &url(account)]);
    check(
        run("locked@"),
        2,
        "it asks for a password; set `PGPASSWORD`",
    );
    check(run("locked:s3cret@"), 2, "password authentication failed");
    check(run("nobody@"), 2, "role \"nobody\" does not exist");
    assert_eq!(run("locked:r1ght@").expect(0).stdout, "re: hello\n");
    std::fs::remove_file(&rules).unwrap();
}

#[test]
fn a_database_that_is_not_ours_or_cannot_be_written_is_left_as_it_is() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = Workspace::with(GREETER);
    let databases = ["foreign_one", "closed", "later", "reading"];
    for database in databases {
        server.sql(&format!("CREATE DATABASE {database}"));
    }
    let url = |database: &str| format!("{}&run=x", server.url_of(database));
    let run = |database: &str| place.host(&["run", "team.toml", "--storage", &url(database)]);

    server.sql_in(
        "foreign_one",
        "CREATE SCHEMA strata CREATE TABLE things (n int)",
    );
    check(run("foreign_one"), 2, "the tables of another program");

    server.sql("CREATE ROLE guest LOGIN");
    let guest = url("closed").replace("strata@", "guest@");
    let closed = place.host(&["run", "team.toml", "--storage", &guest]);
    check(closed, 2, "grant this user the right to create");

    run("later").expect(0);
    server.sql_in("later", "UPDATE strata.meta SET version = version + 90");
    let later = server.url_of("later");
    let worker = place.host(&["worker", "--database", &later]);
    let submit = ["submit", "team.toml", "--database", &later];
    for ended in [run("later"), worker, place.host(&submit)] {
        check(ended, 2, "newer");
    }
    check(place.host(&["inspect", &url("later")]), 2, "newer");
    server.sql_in("later", "UPDATE strata.meta SET version = version - 90");
    place.host(&["inspect", &url("later")]).expect(0);

    run("reading").expect(0);
    server.sql("ALTER DATABASE reading SET default_transaction_read_only = on");
    place.host(&["inspect", &url("reading")]).expect(0);
    check(run("reading"), 2, "name the primary server");
    let reading = server.url_of("reading");
    let worker = place.host(&["worker", "--database", &reading]);
    check(worker, 2, "name the primary server");
}

/// A small disk in memory, until it is dropped.
struct SmallDisk {
    path: PathBuf,
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
        let _ = std::fs::remove_dir(&self.path);
    }
}

impl SmallDisk {
    /// Returns `None` if this user may not mount one.
    fn mount() -> Option<Self> {
        let path = std::env::temp_dir().join(format!("strata-disk-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m,mode=777", "none"])
            .arg(&path)
            .output();
        let disk = Self { path };
        if mounted.is_ok_and(|done| done.status.success()) {
            give_to_server(&disk.path);
            return Some(disk);
        }
        skip("no disk can be mounted");
        None
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[test]
fn a_full_disk_ends_a_run_which_goes_on_when_there_is_space_again() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let Some(mut server) = Server::start() else {
        return;
    };
    let place = Workspace::with(GREETER);
    let location = disk.path().display();
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{location}'"));
    server.sql("CREATE DATABASE small TABLESPACE small");
    let url = format!("{}&run=x", server.url_of("small"));
    let owner = place.start_resting_in(&url);
    let send = |text: &str| {
        let cause = ["send", &url, "--cause", "UserRequirement"];
        place.host(&[&cause[..], &[text]].concat())
    };
    // There is space for another request, but not for what it becomes.
    send("small").expect(0);
    let table = "CREATE TABLE filler (text text) WITH (autovacuum_enabled = off); \
                 ALTER TABLE filler ALTER text SET STORAGE PLAIN";
    server.sql_in("small", table);
    for rows in [20, 1] {
        // What was written stays in the file when the statement fails.
        let fill = format!(
            "DO $$ BEGIN LOOP INSERT INTO filler SELECT repeat('x', 7000) FROM generate_series(1, {rows}); END LOOP; \
             EXCEPTION WHEN disk_full THEN NULL; END $$"
        );
        server.sql_in("small", &fill);
    }
    assert_ne!(send(&"y".repeat(100_000)).code, Some(0));
    let ended = owner.end().expect(1);
    assert!(
        ended.stderr.contains("no space is left"),
        "{}",
        ended.stderr
    );
    server.sql_in("small", "DROP TABLE filler");
    place.host(&["run", "--recover_path", &url]).expect(0);
    let events = place.host(&["events", &url]).expect(0).stdout;
    assert!(events.contains("small") && !events.contains("yyyy"));
    server.stop();
}

#[test]
fn a_run_whose_server_is_gone_waits_for_it_and_ends() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let place = Workspace::with(GREETER);
    let proxy = Proxy::start(&server.directory);
    let url = format!("{}&run=x", proxy.url());
    let owner = place.start_resting_in(&url);
    let worker = place.start(&["worker", "--database", &proxy.url()]);
    // A server that is killed loses what it has not written yet and need not keep.
    thread::sleep(Duration::from_secs(2));
    server.restart("KILL");
    // What was acknowledged is there, and the owner goes on.
    let send = ["send", &url, "--cause", "UserRequirement", "more"];
    place.host(&send).expect(0);
    // One that has something to record waits for the server, and ends.
    place.write("team.toml", greeter_after("sleep = \"3s\""));
    let slow = format!("{}&run=slow", proxy.url());
    let args = ["run", "team.toml", "--storage", &slow, "--events", "-"];
    let mut slow = place.start(&[&args[..], &["--patience", "5s"]].concat());
    slow.until("action-started", None);
    server.stop();
    check(place.host(&["inspect", &url]), 1, "cannot reach");
    check(place.host(&send), 1, "cannot reach");
    check(slow.end(), 1, "cannot reach");
    worker.signal(Signal::TERM);
    worker.end().expect(0);
    owner.kill();
}

#[test]
fn an_idle_owner_that_was_suspended_for_too_long_ends_by_itself() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = Workspace::with(GREETER);
    let url = format!("{}&run=x", server.url());
    let owner = place.start_resting_in(&url);
    owner.signal(Signal::STOP);
    place.host(&["run", "--recover_path", &url]).expect(0);
    let before = place.host(&["events", &url]).expect(0).stdout;
    owner.signal(Signal::CONT);
    check(owner.end(), 9, "was taken over");
    assert_eq!(place.host(&["events", &url]).expect(0).stdout, before);
}

#[test]
fn a_standby_that_lacks_the_last_commits_gets_them_from_the_owners_of_runs() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let place = Workspace::with(GREETER);
    let url = format!("{}&run=x", server.url());
    let owner = place.start_resting_in(&url);
    let send = |content: &str| {
        let send = ["send", &url, "--cause", "UserRequirement", content];
        place.host(&send).expect(0);
    };
    send("before");
    server.make_lagging_standby();
    for n in 0..5 {
        send(&format!("lost-{n}"));
    }
    let before = place.host(&["events", &url]).expect(0).stdout;
    assert!(before.contains("lost-4"));
    server.restart("PROMOTE");
    // The owner has nothing to append, but it connects again.
    wait_until(|| place.host(&["events", &url]).stdout == before);
    // One that it takes up before it noticed is not taken up twice.
    send("after");
    let events = place.host(&["events", &url]).expect(0).stdout;
    assert!(events.starts_with(&before) && events.contains("after"));
    owner.kill();
}

/// A team that asks a model after 12 seconds.
const LATE: &str = r#"
schema = "strata.team/1"
[team]
name = "late"
idea = "go"
[llm]
provider = "openai"
base_url = "http://127.0.0.1:PORT/v1"
model = "m"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ sleep = "12s" }, { llm = "q" }, { say = "{reads}" }] }
[role.action.allow]
llm = { models = ["*"] }
"#;

#[test]
fn an_owner_that_is_not_answered_starts_no_paid_call_until_it_is() {
    let Some(server) = Server::start() else {
        return;
    };
    let web = Web::new();
    let place = Workspace::with(&LATE.replace("PORT", &web.port().to_string()));
    let proxy = Proxy::start(&server.directory);
    let url = format!("{}&run=x", proxy.url());
    let mut owner = place.start(&["run", "team.toml", "--storage", &url, "--events", "-"]);
    owner.until("action-started", None);
    proxy.stall(true);
    thread::sleep(Duration::from_secs(18));
    assert_eq!(web.requests().len(), 0, "the owner may count as dead");
    proxy.stall(false);
    owner.end().expect(0);
    assert_eq!(web.requests().len(), 1);
}
