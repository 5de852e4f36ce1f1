//! The conformance suite of the Model Context Protocol, from npm: against components that are served over HTTP, and
//! against teams that call the tools of the suite's servers. It needs a newer Node.js than many machines have, which npm
//! has as well.
//!
//! What a revision of the protocol requires is the suite's list. What the product does not pass is in the files of
//! `fixtures/mcp`, each entry with the reason. The suite fails if an entry that is not there fails, and if one that is
//! there passes, so the lists can only get shorter.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::observing::free_port;
use crate::probe::{build, project};
use crate::process::{Process, Signal};
use crate::skipped::skip;
use crate::workspace::Workspace;

/// The suite.
const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
/// The program that runs it.
const NODE: &str = "node@22.23.3";
/// The revisions whose requirements are tested: the newest, and the newest with a handshake.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Only one test installs the suite.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The suite, and the program that runs it.
struct Suite {
    node: PathBuf,
    script: PathBuf,
}

/// How the suite ended.
struct Verdict {
    has_passed: bool,
    said: String,
}

impl Suite {
    /// Returns the suite, which is installed once for all tests, or says why the test is skipped.
    fn get() -> Option<Self> {
        let _alone = INSTALLING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match Self::install() {
            Ok(suite) => Some(suite),
            Err(why) => {
                skip(format_args!(
                    "the conformance suite of MCP cannot be installed from npm: {why}"
                ));
                None
            }
        }
    }

    fn install() -> Result<Self, String> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-conformance");
        let suite = Self {
            node: place.join("node_modules/node/bin/node"),
            script: place.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"),
        };
        if !suite.node.exists() || !suite.script.exists() {
            fs::create_dir_all(&place).map_err(|error| error.to_string())?;
            fs::write(place.join("package.json"), "{}").map_err(|error| error.to_string())?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", SUITE, NODE])
                .current_dir(&place);
            let output = npm.output().map_err(|error| error.to_string())?;
            if !output.status.success() || !suite.node.exists() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        Ok(suite)
    }

    /// Runs the suite with these arguments, in the environment in which a workspace runs the host.
    fn run(&self, place: &Workspace, args: &[&str]) -> Verdict {
        let mut command = Command::new(&self.node);
        command
            .arg(&self.script)
            .args(args)
            .current_dir(place.path(""));
        for (name, value) in place.command(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().expect("it runs");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        Verdict {
            has_passed: output.status.success(),
            said: said.into_owned(),
        }
    }
}

impl Suite {
    /// Runs what each revision requires, and checks that it passes but for what is expected to fail.
    fn check(&self, place: &Workspace, args: &[&str]) {
        let mut failed = String::new();
        for revision in REVISIONS {
            let expected = expected_failures(revision).display().to_string();
            let of_revision = ["--requirements", revision, "--expected-failures", &expected];
            let verdict = self.run(place, &[args, &of_revision].concat());
            if !verdict.has_passed {
                failed += &format!("{revision}:\n{}\n", verdict.said);
            }
        }
        assert!(failed.is_empty(), "{failed}");
    }
}

/// Returns the list of what is expected to fail in a revision.
fn expected_failures(revision: &str) -> PathBuf {
    project().join(format!(
        "tests/fixtures/mcp/expected-failures-{revision}.yaml"
    ))
}

/// Two components as the tools that the suite calls.
struct ServedComponents {
    place: Workspace,
    process: Process,
    url: String,
}

impl ServedComponents {
    fn start() -> Self {
        let place = Workspace::empty();
        let copy = |from: &Path, name: &str| fs::copy(from, place.path(name)).expect("copied");
        copy(&place.path("probe.wasm"), "test_simple_text.wasm");
        copy(&build("plugins/calculate"), "test_error_handling.wasm");
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let components = ["test_simple_text.wasm", "test_error_handling.wasm"];
        let args = [&["mcp"], &components[..], &["--listen", &listen]].concat();
        let process = place.start(&args);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "it does not listen"
            );
            thread::sleep(Duration::from_millis(20));
        }
        Self {
            place,
            process,
            url: format!("http://127.0.0.1:{port}/mcp"),
        }
    }

    fn end(self) {
        self.process.signal(Signal::TERM);
        self.process.end().expect(0);
    }
}

#[test]
fn the_server_passes_what_each_revision_requires_but_for_the_expected_failures() {
    let Some(suite) = Suite::get() else { return };
    let served = ServedComponents::start();
    suite.check(&served.place, &["server", "--url", &served.url]);
    served.end();
}

#[test]
fn the_client_passes_what_each_revision_requires_but_for_the_expected_failures() {
    let Some(suite) = Suite::get() else { return };
    let place = Workspace::empty();
    let client = project().join("tests/fixtures/mcp/conformance_client.py");
    let host = place.command(&[]).get_program().to_owned();
    let command = format!("python3 {} {}", client.display(), host.display());
    suite.check(&place, &["client", "--command", &command]);
}

#[test]
fn an_expected_failure_that_passes_is_a_failure() {
    let Some(suite) = Suite::get() else { return };
    let served = ServedComponents::start();
    served.place.write("none.yaml", "server: []\n");
    served.place.write("stale.yaml", "server:\n  - ping\n");
    for (list, passes) in [("none.yaml", true), ("stale.yaml", false)] {
        let args = ["server", "--url", &served.url, "--scenario", "ping"];
        let args = [&args[..], &["--expected-failures", list]].concat();
        let verdict = suite.run(&served.place, &args);
        assert_eq!(verdict.has_passed, passes, "{list}: {}", verdict.said);
    }
    served.end();
}

#[test]
fn each_expected_failure_has_a_reason() {
    for revision in REVISIONS {
        let text = fs::read_to_string(expected_failures(revision)).expect("a list");
        let entries = text
            .lines()
            .filter(|line| line.trim_start().starts_with("- "));
        for entry in entries {
            let reason = entry.split_once(" # ").map(|(_, reason)| reason.trim());
            assert!(
                reason.is_some_and(|reason| reason.split(' ').count() > 2),
                "{revision}: {entry}"
            );
        }
    }
}
