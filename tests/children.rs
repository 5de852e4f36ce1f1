//! The programs that the host starts end with it, also when it is killed.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use crate::workspace::Workspace;

/// The time that a busy machine may need to end a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that writes its own id and that of a child into a file, and continues when its input
/// is closed.
const BRIDGE: &str = r#"sleep 600 &
echo "$$ $!" >> ids
wait
"#;

const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[env.external]
kind = "stdio"
command = ["sh", "bridge.sh"]
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Act"
component = "probe.wasm"
config = { steps = [{ say = "news", to = ["world"] }] }
"#;

/// Returns whether a process lives.
pub fn is_there(id: i32) -> bool {
    // A process that has ended but was not waited for is a zombie.
    let is_dead = |stat: String| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    };
    let is_zombie = fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(is_dead);
    test_kill_process(Pid::from_raw(id).unwrap()).is_ok() && !is_zombie
}

/// Waits until a file has this many lines, and returns the process ids in it.
fn ids(place: &Workspace, name: &str, lines: usize) -> Vec<i32> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(place.path(name)).unwrap_or_default();
        if text.lines().count() >= lines && text.ends_with('\n') {
            return text
                .split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect();
        }
        assert!(begun.elapsed() < PATIENCE, "`{name}` has {text:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until_gone(ids: &[i32]) {
    let begun = Instant::now();
    while ids.iter().any(|id| is_there(*id)) {
        assert!(begun.elapsed() < PATIENCE, "still there: {ids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_external_program_of_a_killed_host_ends_before_a_resume_starts_it_again() {
    let place = Workspace::with(TEAM);
    // The program records which earlier processes exist when it begins, and whether it leads its
    // own process group: if it did, nobody could know its id before it runs.
    let notes = "for id in $(cat ids 2>/dev/null); do kill -0 $id 2>/dev/null && grep -q '^State:.[^Z]' /proc/$id/status \
                 && echo $id >> outlived; done\n\
                 read -r _ _ _ _ group _ < /proc/$$/stat; [ $group != $$ ] || echo \"$$ is not watched\" >> outlived\n";
    place.write("bridge.sh", format!("{notes}{BRIDGE}"));
    let args = [
        "run",
        "team.toml",
        "--storage",
        "store",
        "--keep-alive",
        "--quiet",
    ];
    let mut host = place.start(&args);
    for round in 1..=3 {
        let first = ids(&place, "ids", round);
        assert!(
            first[first.len() - 2..].iter().all(|id| is_there(*id)),
            "{first:?}"
        );
        host.kill();
        host = place.start(&["run", "--recover_path", "store", "--keep-alive", "--quiet"]);
    }
    let all = ids(&place, "ids", 4);
    wait_until_gone(&all[..6]);
    host.kill();
    wait_until_gone(&all);
    assert!(
        !place.path("outlived").exists(),
        "{:?}",
        fs::read_to_string(place.path("outlived"))
    );
}

#[test]
fn a_build_ends_with_a_host_that_is_killed() {
    let place = Workspace::empty();
    // A slow program instead of the compiler.
    place.write(
        "bin/cargo",
        format!("#!/bin/sh\ncd '{}'\n{BRIDGE}", place.path("").display()),
    );
    let cargo = place.path("bin/cargo");
    fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.write(
        "src/Cargo.toml",
        "[package]\nname = \"x\"\nversion = \"0.1.0\"\n",
    );
    let mut command = place.command(&["build", "src"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", place.path("bin").display()));
    let host = crate::process::Process::spawn(command);
    let started = ids(&place, "ids", 1);
    assert!(started.iter().all(|id| is_there(*id)), "{started:?}");
    host.kill();
    wait_until_gone(&started);
}
