//! Unusable storage: absent, empty, foreign, read-only, full, damaged, newer. Every command reports
//! what is wrong, where, and what to do. Nothing is created or lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::process::Process;
use crate::stream;
use crate::workspace::Workspace;

/// The user `nobody`, if root runs the tests.
const NOBODY: u32 = 65534;

const FAILS: &str = r#"
schema = "strata.team/1"
[team]
name = "fails"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }] }
"#;

/// A function that makes a storage directory unusable.
type Make = fn(&Workspace);
/// A function that damages a file.
type Damage = fn(&mut Vec<u8>);

fn failed() -> Workspace {
    let place = Workspace::with(FAILS);
    place.run().expect(3);
    place
}

/// Returns all files and directories below a path, with their contents.
fn contents(path: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let is_dir = path.is_dir();
            found.insert(
                path.display().to_string(),
                (!is_dir).then(|| fs::read(&path).unwrap()),
            );
            if is_dir {
                open.push(path);
            }
        }
    }
    found
}

const RESUME: &[&str] = &["run", "--recover_path", "store"];
const RESUME_WITH_TEAM: &[&str] = &["run", "team.toml", "--recover_path", "store"];
const FRESH: &[&str] = &["run", "team.toml", "--storage", "store"];
const READERS: [&[&str]; 4] = [
    &["inspect", "store"],
    &["inspect", "store", "--json"],
    &["events", "store"],
    &["checkpoints", "store"],
];
const SEND: &[&str] = &["send", "store", "--cause", "Note", "hello"];

/// Runs commands on an unusable storage directory. Each must report the problem and change nothing.
#[track_caller]
fn check(place: &Workspace, commands: &[&[&str]], code: i32, parts: &[&str]) {
    let before = contents(&place.path(""));
    for args in commands {
        let ended = place.host(args);
        let what = format!("{args:?}: {ended:?}");
        assert_eq!(ended.code, Some(code), "{what}");
        assert_eq!(ended.stdout, "", "{what}");
        assert!(ended.stderr.starts_with("error: "), "{what}");
        parts
            .iter()
            .for_each(|part| assert!(ended.stderr.contains(part), "`{part}`: {what}"));
        let after = contents(&place.path(""));
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>(),
            "{what}"
        );
        assert!(before == after, "a file was changed: {what}");
    }
}

fn all_but_fresh() -> Vec<&'static [&'static str]> {
    [&[RESUME, RESUME_WITH_TEAM, SEND], &READERS[..]].concat()
}

#[test]
fn a_path_without_a_saved_team_is_reported_and_nothing_is_created() {
    let hint = "give a storage directory or its `team.json`";
    let cases: [(&str, Make, &str); 4] = [
        ("absent", |_| (), "nothing is there"),
        (
            "empty",
            |place| fs::create_dir(place.path("store")).unwrap(),
            "empty",
        ),
        (
            "foreign",
            |place| {
                fs::create_dir(place.path("store")).unwrap();
                place.write("store/notes.txt", "mine");
            },
            "neither `team.db` nor `team.json`",
        ),
        (
            "a file",
            |place| place.write("store", "mine"),
            "a file of another name",
        ),
    ];
    for (name, make, part) in cases {
        let place = Workspace::with(FAILS);
        make(&place);
        eprintln!("{name}");
        check(
            &place,
            &all_but_fresh(),
            2,
            &["no saved team at `store`", part, hint],
        );
    }
}

#[test]
fn foreign_files_with_the_names_of_the_storage_are_neither_read_nor_replaced() {
    let database = |place: &Workspace| {
        fs::create_dir(place.path("store")).unwrap();
        let conn = rusqlite::Connection::open(place.path("store/team.db")).unwrap();
        conn.execute_batch("CREATE TABLE mine (text TEXT); INSERT INTO mine VALUES ('precious');")
            .unwrap();
        conn.close().unwrap();
    };
    let text = |place: &Workspace| {
        fs::create_dir(place.path("store")).unwrap();
        place.write("store/team.db", "my notes on the team's database");
    };
    let force: &[&str] = &["run", "team.toml", "--storage", "store", "--force"];
    for make in [database, text] {
        let place = Workspace::with(FAILS);
        make(&place);
        let commands = [&all_but_fresh()[..], &[FRESH, force]].concat();
        check(
            &place,
            &commands,
            2,
            &[
                "`store/team.db`",
                "not written by strata-host",
                "move it away",
            ],
        );
    }
}

#[test]
fn links_to_files_elsewhere_are_neither_followed_nor_replaced() {
    for name in ["team.db", "team.db-wal", "team.json", "team.lock"] {
        let place = failed();
        let precious = place.path("precious");
        fs::write(&precious, "mine").unwrap();
        let _ = fs::remove_file(place.path(&format!("store/{name}")));
        std::os::unix::fs::symlink(&precious, place.path(&format!("store/{name}"))).unwrap();
        let ended = place.host(RESUME).expect(2);
        let told = ended.stderr.contains(&format!("store/{name}`"))
            && ended.stderr.contains("it is a symbolic link");
        assert!(told, "{name}: {}", ended.stderr);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine", "{name}");
    }
}

#[test]
fn an_invalid_team_json_is_reported_with_the_error() {
    let cases = [
        ("{\"a\": 1}", RESUME, "`/env` is missing"),
        ("{\"a\": 1}", RESUME_WITH_TEAM, "`/env` is missing"),
        ("{\"env\": {", RESUME, "line 1 column 9"),
        ("{\"env\": {", RESUME_WITH_TEAM, "not a JSON document"),
        ("", RESUME, "not a JSON document"),
        (
            "[]",
            RESUME_WITH_TEAM,
            "holds no saved team: it is a list, where a saved team is an object",
        ),
        ("null", RESUME, "it is `null`, where"),
        ("null", &["inspect", "store"], "it is `null`, where"),
        ("[]", &["inspect", "store"], "it is a list, where"),
        ("3", &["inspect", "store"], "it is a number, where"),
        ("{}", &["inspect", "store"], "`/env` is missing"),
        ("3", &["checkpoints", "store"], "it is a number, where"),
        ("3", &["report", "store"], "it is a number, where"),
        ("3", SEND, "it is a number, where"),
        (
            "{\"env\":{\"roles\":{}},\"strata\":{\"schema\":\"strata.state/99\"}}",
            RESUME_WITH_TEAM,
            "newer",
        ),
    ];
    for (text, command, part) in cases {
        let place = Workspace::with(FAILS);
        fs::create_dir(place.path("store")).unwrap();
        place.write("store/team.json", text);
        check(&place, &[command], 2, &["`store/team.json`", part]);
    }
}

#[test]
fn the_state_of_another_team_in_a_team_json_alone_does_not_fit_either() {
    let place = failed();
    fs::remove_file(place.path("store/team.db")).unwrap();
    place.write(
        "team.toml",
        FAILS.replace("name = \"Two\"", "name = \"Deux\""),
    );
    check(
        &place,
        &[RESUME_WITH_TEAM],
        8,
        &["does not fit", "`Two`", "`Deux`"],
    );
}

#[test]
fn a_fresh_run_replaces_an_unfinished_team_only_with_force_and_keeps_a_copy() {
    let place = failed();
    check(
        &place,
        &[FRESH],
        2,
        &[
            "`store` holds an unfinished team (of `team.toml`)",
            "run --recover_path store",
            "--force",
        ],
    );
    let before = place.read("store/team.db");
    let ended = place.host(&[FRESH, &["--force"]].concat()).expect(3);
    assert!(ended.stderr.contains("`store/old-1`"), "{}", ended.stderr);
    assert_eq!(place.read("store/old-1/team.db"), before);
    place
        .host(&["run", "--recover_path", "store/old-1"])
        .expect(0);
    place.host(&["run", "--recover_path", "store"]).expect(0);
}

#[test]
fn a_database_of_a_newer_version_is_rejected_and_not_changed() {
    let place = failed();
    let conn = rusqlite::Connection::open(place.path("store/team.db")).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    conn.close().unwrap();
    let commands = [&all_but_fresh()[..], &[FRESH]].concat();
    check(
        &place,
        &commands,
        2,
        &["`store/team.db`", "schema version 99", "newer strata-host"],
    );
}

#[test]
fn a_damaged_database_is_reported_and_not_changed() {
    let cases: [(&str, Damage); 5] = [
        ("half of it is gone", |bytes| {
            bytes.truncate(bytes.len() / 2)
        }),
        ("its end is gone", |bytes| {
            bytes.truncate(bytes.len() - 4096)
        }),
        ("all is gone", Vec::clear),
        ("the pages are zeroed", |bytes| bytes[4096..].fill(0)),
        ("the schema is scrambled", |bytes| {
            bytes[100..4096].iter_mut().for_each(|byte| *byte ^= 0x5a)
        }),
    ];
    for (name, damage) in cases {
        let place = failed();
        let mut bytes = place.read("store/team.db");
        damage(&mut bytes);
        place.write("store/team.db", bytes);
        eprintln!("{name}");
        check(
            &place,
            &[RESUME, SEND],
            1,
            &["`store/team.db` is damaged", "move it away", "backup"],
        );
        // The suggested command works.
        fs::remove_file(place.path("store/team.db")).unwrap();
        place.resume().expect(0);
    }
}

#[test]
fn a_flipped_byte_is_found_or_does_no_harm() {
    let place = failed();
    let whole = place.read("store/team.db");
    let json = place.read("store/team.json");
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x81;
        place.write("store/team.db", bytes);
        place.write("store/team.json", &json);
        let ended = place.resume();
        match ended.code {
            Some(0) => assert_eq!(
                stream::actions(&ended.events(), "action-started"),
                ["A.Two"],
                "byte {at}"
            ),
            Some(1 | 2) => assert!(
                ended.stderr.contains("`store/team.db`"),
                "byte {at}: {}",
                ended.stderr
            ),
            _ => panic!("byte {at}: {ended:?}"),
        }
        for name in ["store/team.db-wal", "store/team.db-shm"] {
            let _ = fs::remove_file(place.path(name));
        }
    }
}

#[test]
fn read_only_storage_is_reported_and_can_be_read() {
    let place = failed();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let host = |args: &[&str]| {
        let mut command = place.command(args);
        // The cache of compiled code is not part of this test.
        command.env("XDG_CACHE_HOME", place.path("no-cache"));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        } else {
            for (name, mode) in [
                ("store", 0o555),
                ("store/team.db", 0o444),
                ("store/team.json", 0o444),
            ] {
                fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        command
    };
    if let Err(error) = host(&["--version"]).output() {
        eprintln!("skipped: nobody else may run the binary: {error}");
        return;
    }
    let before = contents(&place.path("store"));
    for args in [
        RESUME,
        SEND,
        &["run", "team.toml", "--storage", "store", "--force"],
        &["run", "team.toml", "--storage", "store/new"],
    ] {
        let ended = Process::spawn(host(args)).end().expect(1);
        for part in ["`store/", "ermission denied", "write access"] {
            assert!(
                ended.stderr.contains(part),
                "{args:?}: `{part}`: {}",
                ended.stderr
            );
        }
        assert!(
            contents(&place.path("store")) == before,
            "{args:?} changed something"
        );
    }
    for args in READERS {
        let ended = Process::spawn(host(args)).end().expect(0);
        assert!(!ended.stdout.is_empty(), "{args:?}");
        assert!(
            contents(&place.path("store")) == before,
            "{args:?} changed something"
        );
    }
    fs::set_permissions(place.path("store"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A team that runs forever and writes much data.
const GROWS: &str = r#"
schema = "strata.team/1"
[team]
name = "grows"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement", "Grow"]
[[role.action]]
name = "Grow"
component = "probe.wasm"
config = { steps = [{ say = "{inputs} and TEXT" }] }
"#;

fn growing() -> Workspace {
    Workspace::with(&GROWS.replace("TEXT", &"x".repeat(2000)))
}

/// Checks the state after the disk was full: every reported event is saved, and the run continues
/// when there is space.
fn assert_nothing_is_lost(place: &Workspace, storage: &str, told: &str) {
    let told = stream::actions(&stream::parse(told), "action-finished").len();
    assert!(told > 0, "the disk was full before anything happened");
    let events = place.host(&["events", storage]).expect(0);
    let saved = stream::parse(&events.stdout);
    stream::assert_numbered(&saved);
    assert!(stream::actions(&saved, "action-finished").len() >= told);
    let steps = (told + 3).to_string();
    let args = ["run", "--recover_path", storage, "--max-steps", &steps];
    place.host(&args).expect(7);
    let saved = stream::parse(&place.host(&["events", storage]).expect(0).stdout);
    stream::assert_numbered(&saved);
    stream::assert_attempts_are_numbered(&saved);
}

#[test]
fn a_full_disk_stops_the_run_with_a_hint_and_nothing_that_was_saved_is_lost() {
    let place = growing();
    fs::create_dir(place.path("disk")).unwrap();
    let disk = place.path("disk");
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&disk)
            .output()
            .is_ok_and(|out| out.status.success())
    };
    if !mount("size=512k") {
        eprintln!("skipped: mounting a small file system is not allowed here");
        return;
    }
    let _unmount = Unmount(&disk);
    let args = [
        "run",
        "team.toml",
        "--storage",
        "disk/store",
        "--events",
        "-",
        "--max-steps",
        "200",
    ];
    let ended = place.host(&args).expect(1);
    for part in [
        "`disk/store/team.db`",
        "no space is left",
        "is intact",
        "resume",
    ] {
        assert!(ended.stderr.contains(part), "`{part}`: {}", ended.stderr);
    }
    place
        .host(&["run", "--recover_path", "disk/store"])
        .expect(1);
    assert!(
        mount("remount,size=64m"),
        "the file system cannot be made larger"
    );
    assert_nothing_is_lost(&place, "disk/store", &ended.stdout);
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_file_that_may_not_grow_stops_the_run_and_nothing_that_was_saved_is_lost() {
    let place = growing();
    let host = place.command(&[
        "run",
        "team.toml",
        "--storage",
        "store",
        "--events",
        "-",
        "--max-steps",
        "200",
    ]);
    // Otherwise the system would end the process with a signal.
    let mut shell = place.command(&[]);
    let program = host.get_program().to_owned();
    let envs: Vec<_> = shell
        .get_envs()
        .map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned)))
        .collect();
    shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -f 600; exec \"$0\" \"$@\""])
        .arg(program)
        .args(host.get_args());
    shell
        .current_dir(place.path(""))
        .envs(envs.into_iter().filter_map(|(k, v)| Some((k, v?))));
    let ended = Process::spawn(shell).end().expect(1);
    assert!(
        ended.stderr.contains("cannot write `store/team.db`"),
        "{}",
        ended.stderr
    );
    assert_nothing_is_lost(&place, "store", &ended.stdout);
}

#[test]
fn an_impossible_path_is_an_error_of_the_command_line() {
    let place = Workspace::with(FAILS);
    place.write("file", "mine");
    std::os::unix::fs::symlink("loop", place.path("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    let in_the_way = [
        ("file", "it is a file"),
        ("file/store", "`file` is a file"),
        ("file/a/b", "`file` is a file"),
        ("dangling", "it is a link that leads nowhere"),
    ];
    place.host(&["run", "team.toml", "--storage", "there"]);
    for (storage, what) in in_the_way {
        for args in [
            &["run", "team.toml", "--storage", storage][..],
            &["dev", "team.toml", "--until-done", "--storage", storage],
            &["fork", "there", "--at", "main-0", "--to", storage],
            &["doctor", "--storage", storage],
        ] {
            let ended = place.host(args);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            let expected = format!("{what}, where a directory has to be; name another directory");
            assert!(
                ended.code != Some(0) && said.contains(&expected),
                "{args:?}: {said}"
            );
        }
    }
    assert_eq!(place.read("file"), b"mine");
    let long = "x".repeat(300);
    for storage in ["file", "file/store", "dangling", "loop", &long] {
        let run = place
            .host(&["run", "team.toml", "--storage", storage])
            .expect(2);
        assert!(run.stderr.contains(storage), "{}", run.stderr);
        place.host(&["run", "--recover_path", storage]).expect(2);
        place.host(&["inspect", storage]).expect(2);
    }
    for args in [
        &["--max-steps", "-1"][..],
        &["--investment", "-1"],
        &["--max-parallel", "-1"],
    ] {
        let run = place
            .host(&[&["run", "team.toml"], args].concat())
            .expect(2);
        assert!(!run.stderr.contains("tip:"), "{}", run.stderr);
    }
}
