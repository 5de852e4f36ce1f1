//! Unusual machines and accounts: home directories that do not exist, and memory that cannot be
//! made executable.

use std::process::Command;

use crate::process::{Ended, Process};
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Act"
component = "probe.wasm"
config = { steps = [{ say = "done" }] }
"#;

/// The environment variables from which a process derives its directories.
const VARIABLES: [&str; 4] = ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

#[test]
fn a_home_that_is_not_a_directory_is_ignored() {
    let place = Workspace::with(TEAM);
    place.write("file", "");
    let file = place.path("file").display().to_string();
    let below = format!("{file}/home");
    let all = |value: &str| VARIABLES.map(|name| (name, value.to_owned())).to_vec();
    let homes = [
        vec![("HOME", "/dev/null".to_owned())],
        vec![("HOME", below)],
        all("/dev/null"),
        all(&file),
    ];
    for (n, home) in homes.into_iter().enumerate() {
        let run = |args: &[&str]| {
            let mut command = place.command(args);
            for name in VARIABLES {
                command.env_remove(name);
            }
            command.envs(home.clone());
            Process::spawn(command).end()
        };
        run(&["run", "team.toml", "--storage", &format!("store-{n}")]).expect(0);
        run(&["check", "team.toml"]).expect(0);
        let doctor = run(&["doctor"]).expect(0).stdout;
        assert!(doctor.contains("set XDG_CACHE_HOME or HOME"), "{doctor}");
        let skills = run(&["skill", "list"]).expect(2).stderr;
        assert!(
            skills.contains("neither XDG_DATA_HOME nor HOME names a directory"),
            "{skills}"
        );
    }
}

/// Runs the host where written memory cannot be made executable, as under systemd's
/// `MemoryDenyWriteExecute`. Returns `None` if the kernel does not support this.
fn without_executable_memory(place: &Workspace, args: &[&str]) -> Option<Ended> {
    const UNSUPPORTED: i32 = 77;
    let forbid = "import ctypes, os, sys\nif ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(77)\n\
        os.execv(sys.argv[1], sys.argv[1:])";
    let host = place.command(args);
    let mut command = Command::new("python3");
    command
        .args(["-c", forbid])
        .arg(host.get_program())
        .args(host.get_args())
        .current_dir(place.path(""));
    for (name, value) in host.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(Process::spawn(command).end()).filter(|ended| ended.code != Some(UNSUPPORTED))
}

#[test]
fn memory_that_cannot_be_made_executable_is_reported_as_a_problem_of_the_machine() {
    let place = Workspace::with(TEAM);
    let cases: [&[&str]; 5] = [
        &["run", "team.toml", "--storage", "store"],
        &["check", "team.toml"],
        &["describe", "probe.wasm"],
        &["skill", "add", "probe.wasm", "--shelf", "shelf"],
        &["doctor"],
    ];
    for args in cases {
        let Some(ended) = without_executable_memory(&place, args) else {
            return;
        };
        let ended = ended.expect(1);
        let told = ended.stdout + &ended.stderr;
        for part in [
            "this process may not make memory executable",
            "MemoryDenyWriteExecute=no",
            "execmem",
        ] {
            assert!(told.contains(part), "{args:?}: `{part}`: {told}");
        }
        assert!(!told.contains("not valid"), "{args:?}: {told}");
    }
}
