//! The time to start a run: the whole program, from its start to its end, with a team of one
//! action. Cold: the component has never been compiled on this machine. Warm: its code is in the
//! cache. Prints medians, and their ratios to the bare start of the program (`--version`) in the
//! same run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use strata_host::build;

/// The number of cold runs per component. They take seconds for a large one.
const COLD: usize = 3;
/// The number of warm runs.
const WARM: usize = 15;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "start"
idea = "go"
[limits]
memory = "128MiB"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Act"
component = "action.wasm"
"#;

/// Returns the duration of a command.
fn took(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let took = start.elapsed();
    assert!(
        status.expect("the program starts").success(),
        "{command:?} failed"
    );
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns a command of the host with a cache of this benchmark.
fn host(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata-host"));
    command.env("XDG_CACHE_HOME", cache);
    command
}

/// Runs the team in a new storage directory.
fn run(folder: &Path, cache: &Path) -> Duration {
    let storage = tempfile::tempdir().expect("a temporary directory");
    let mut command = host(cache);
    command
        .current_dir(folder)
        .args(["run", "team.toml", "--quiet", "--storage"])
        .arg(storage.path().join("store"));
    took(&mut command)
}

fn measure(name: &str, component: &Path, bare: Duration) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("team.toml"), TEAM).expect("a file");
    let bytes = fs::copy(component, folder.path().join("action.wasm")).expect("a component");
    let cold = |_| {
        let cache = tempfile::tempdir().expect("a temporary directory");
        run(folder.path(), cache.path())
    };
    let cold = median((0..COLD).map(cold).collect());
    let cache = tempfile::tempdir().expect("a temporary directory");
    run(folder.path(), cache.path());
    let warm = median(
        (0..WARM)
            .map(|_| run(folder.path(), cache.path()))
            .collect(),
    );
    let ratio = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    println!(
        "{name}, {megabytes:.1} MB: cold {cold:.1?} ({:.1} x bare), warm {warm:.1?} ({:.1} x bare), cold/warm {:.1}",
        ratio(cold),
        ratio(warm),
        cold.as_secs_f64() / warm.as_secs_f64(),
    );
}

/// Builds the component of a directory of the project.
fn built(dir: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(dir);
    build::build(&dir, &mut |line| eprintln!("{line}"))
        .expect("it builds")
        .component
}

fn main() {
    let probes = [
        ("rust", "plugins/probe"),
        ("c", "plugins/probe-c"),
        ("python", "plugins/probe-python"),
    ];
    let components = probes.map(|(name, dir)| (name, built(dir)));
    let cache = tempfile::tempdir().expect("a temporary directory");
    let bare = median(
        (0..WARM)
            .map(|_| took(host(cache.path()).arg("--version")))
            .collect(),
    );
    println!("bare start of the program: {bare:.1?}");
    for (name, component) in components {
        measure(name, &component, bare);
    }
}
