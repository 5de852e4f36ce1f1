//! Machines whose clocks are wrong. The times at which workers take runs up are those of the server of the
//! database, from which each worker measures by its own clock how far away they are. Without PostgreSQL, the test
//! is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::process::Process;
use crate::workers::{Pool, stop_workers};
use crate::workspace::Workspace;

/// A library that changes what a program reads from the wall clock.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-clock.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wrong-clock/library.c");
    // Rust links with this compiler, so it is there.
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(compiler.arg(source).status().unwrap().success());
    library
});

/// Lets the wall clock of a program be ahead by so many seconds, or behind.
pub fn shift_clock(command: &mut Command, seconds: i64) {
    command.env("LD_PRELOAD", &*LIBRARY);
    command.env("STRATA_TEST_CLOCK_SHIFT", seconds.to_string());
}

/// A team whose question has a time limit.
const ASKER: &str = r#"
schema = "strata.team/1"
[team]
name = "asker"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "how many?", expires = "5s", default = "none" }, { say = "{reads}" }] }
"#;

#[test]
fn a_run_is_taken_up_when_its_time_has_come_by_a_worker_whose_clock_is_wrong() {
    for shift in [-3600, 3600] {
        let Some(pool) = Pool::new() else { return };
        let (place, elsewhere) = (Workspace::with(ASKER), Workspace::empty());
        let mut command = pool.worker_command(&elsewhere, &[]);
        shift_clock(&mut command, shift);
        let worker = Process::spawn(command);
        pool.submit(&place, "asker", &[]).end().expect(0);
        pool.until_event(&elsewhere, "asker", "\"status\":\"done\"");
        let events = ["events", &pool.run("asker")];
        let events = elsewhere.host(&events).expect(0).stdout;
        // It was not taken up again and again before that.
        assert!(events.matches("run-resumed").count() <= 2, "{events}");
        stop_workers([worker]);
    }
}
