//! The conformance suite of the Model Context Protocol, from npm, against components that are served over
//! HTTP. It needs a newer Node.js than many machines have, which npm has as well.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::observing::free_port;
use crate::probe::build;
use crate::process::Signal;
use crate::workspace::Workspace;

/// The suite.
const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
/// The program that runs it.
const NODE: &str = "node@22.23.3";

/// The scenarios that a server of tools passes. The others need resources, prompts, completion, sampling,
/// logging, subscriptions or tasks, which the server does not have, or tools that do what no component
/// does: results with images and sounds, questions without an idea.
const SCENARIOS: &[&str] = &[
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "http-header-validation",
];

/// The checks of a scenario for servers without sessions that have to succeed. Its others are about tools
/// of its own.
const STATELESS: &[&str] = &[
    "sep-2575-request-meta-invalid-missing-meta",
    "sep-2575-request-meta-client-info-optional",
    "sep-2575-server-implements-discover",
    "sep-2575-discover-capabilities-match-handlers",
    "sep-2575-server-unsupported-version-error",
    "sep-2575-http-server-unsupported-version-400",
    "sep-2575-http-server-header-mismatch-400",
    "sep-2575-http-server-method-not-found-404-initialize",
    "sep-2575-http-server-method-not-found-404",
    "sep-2575-http-server-error-jsonrpc-id",
];

/// Installs the suite, once for all tests. Returns the programs, or why there are none.
fn install() -> Result<(PathBuf, PathBuf), String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-conformance");
    let node = place.join("node_modules/node/bin/node");
    let suite = place.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    if !node.exists() || !suite.exists() {
        fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        fs::write(place.join("package.json"), "{}").map_err(|error| error.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", SUITE, NODE])
            .current_dir(&place);
        let output = npm.output().map_err(|error| error.to_string())?;
        if !output.status.success() || !node.exists() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    Ok((node, suite))
}

#[test]
fn the_conformance_suite_of_the_protocol_passes_as_far_as_it_is_about_tools() {
    let (node, suite) = match install() {
        Ok(programs) => programs,
        Err(why) => {
            eprintln!("SKIPPED: the conformance suite cannot be installed from npm: {why}");
            return;
        }
    };
    let place = Workspace::empty();
    let copy = |from: &Path, name: &str| fs::copy(from, place.path(name)).expect("copied");
    copy(&place.path("probe.wasm"), "test_simple_text.wasm");
    copy(&build("plugins/calculate"), "test_error_handling.wasm");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let args = [
        "mcp",
        "test_simple_text.wasm",
        "test_error_handling.wasm",
        "--listen",
        &listen,
    ];
    let server = place.start(&args);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not listen"
        );
        thread::sleep(Duration::from_millis(20));
    }
    let url = format!("http://127.0.0.1:{port}/mcp");
    let run = |scenario: &str| {
        let mut command = Command::new(&node);
        command
            .arg(&suite)
            .args(["server", "--url", &url, "--scenario", scenario]);
        let output = command
            .current_dir(place.path(""))
            .output()
            .expect("it runs");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), said.into_owned())
    };
    for scenario in SCENARIOS {
        let (passed, said) = run(scenario);
        assert!(
            passed && said.contains(", 0 failed,"),
            "{scenario}:\n{said}"
        );
    }
    let (_, said) = run("server-stateless");
    for check in STATELESS {
        let mut lines = said.lines();
        let line = lines.find(|line| {
            line.contains(&format!("[{check} ")) || line.contains(&format!("[{check}]"))
        });
        assert!(
            line.is_some_and(|line| line.contains("SUCCESS")),
            "{check}:\n{said}"
        );
    }
    server.signal(Signal::TERM);
    server.end().expect(0);
}
