//! Compiled components across processes: they are compiled once, stored safely, and not needed if
//! they cannot be stored.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::process::{Ended, Process};
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "one"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
"#;

/// Returns the command `check` with a cache of this test. It loads the component and reports
/// whether it compiles it.
fn command(place: &Workspace) -> Command {
    let mut command = place.command(&["check", "team.toml", "-v"]);
    command.env("XDG_CACHE_HOME", place.path("cache"));
    command
}

fn load(place: &Workspace) -> Ended {
    Process::spawn(command(place)).end().expect(0)
}

fn compiled(ended: &Ended) -> usize {
    ended.stderr.matches("compiling component").count()
}

/// Returns the path of the file with the compiled code.
fn kept(place: &Workspace) -> PathBuf {
    let files = fs::read_dir(place.path("cache/strata-host/compiled")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let holds_code = |file: &fs::Metadata| file.is_file() && file.len() > 0;
    let mut files: Vec<_> = files
        .filter(|file| holds_code(&fs::metadata(file).unwrap()))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn a_component_is_compiled_once_however_many_processes_want_it() {
    let place = Workspace::with(TEAM);
    let processes: Vec<Process> = (0..4).map(|_| Process::spawn(command(&place))).collect();
    let ended: Vec<Ended> = processes
        .into_iter()
        .map(|process| process.end().expect(0))
        .collect();
    assert_eq!(ended.iter().map(compiled).sum::<usize>(), 1);
    assert_eq!(compiled(&load(&place)), 0);
}

#[test]
fn a_flipped_bit_in_compiled_code_is_detected_and_the_component_compiled_again() {
    let place = Workspace::with(TEAM);
    load(&place);
    let file = kept(&place);
    let whole = fs::read(&file).unwrap();
    for at in [0, whole.len() / 3, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&file, flipped).unwrap();
        let ended = load(&place);
        assert_eq!(compiled(&ended), 1, "{at}");
        assert!(
            ended.stderr.contains("is damaged; compiling again"),
            "{}",
            ended.stderr
        );
        assert_eq!(compiled(&load(&place)), 0, "{at}");
    }
}

#[test]
fn compiled_code_that_others_could_have_put_there_is_not_loaded() {
    let place = Workspace::with(TEAM);
    load(&place);
    let (file, dir) = (kept(&place), place.path("cache/strata-host/compiled"));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    let ended = load(&place);
    assert_eq!(compiled(&ended), 1);
    assert!(
        ended.stderr.contains("others than you can enter"),
        "{}",
        ended.stderr
    );
}

#[test]
fn tools_of_builds_are_not_stored_where_others_could_change_them() {
    let place = Workspace::empty();
    let dir = place.path("cache/strata-host");
    fs::create_dir_all(&dir).unwrap();
    let unpack = || {
        let mut command = place.command(&["sdk", "wit"]);
        command.env("XDG_CACHE_HOME", place.path("cache"));
        Process::spawn(command).end()
    };
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = unpack().expect(2).stderr;
    let parts = [
        dir.to_str().unwrap(),
        "others than you can enter it",
        "`chmod 700` it",
        "set XDG_CACHE_HOME",
    ];
    parts
        .iter()
        .for_each(|part| assert!(refused.contains(part), "{refused}"));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    // Another directory may have more space.
    fs::rename(&dir, place.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere"), &dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    unpack().expect(0);
    assert!(place.path("elsewhere/sdk").is_dir());
}

#[test]
fn a_team_runs_without_address_space_for_a_pool() {
    let place = Workspace::with(TEAM);
    let host = place.command(&["run", "team.toml", "--storage", "store"]);
    let mut shell = Command::new("sh");
    // 8 GB: enough to run, but not enough to reserve address space for many memories of 4 GB each.
    shell
        .args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\""])
        .arg(host.get_program())
        .args(host.get_args());
    shell.current_dir(place.path(""));
    let envs = host.get_envs();
    shell.envs(envs.filter_map(|(name, value)| Some((name, value?))));
    Process::spawn(shell).end().expect(0);
}
