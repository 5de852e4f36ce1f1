//! What is exported about runs, as a collector shows it that others wrote: Rotel, from PyPI.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::observing::free_port;
use crate::pypi::environment_with;
use crate::telemetry::{LOOP, LOOP_REPLIES, RUN, traced};
use crate::workspace::Workspace;

/// A collector that others wrote.
struct Rotel {
    child: Child,
    endpoint: String,
}

impl Rotel {
    /// Starts it, if it can be installed. It writes what it receives to a file.
    fn start(log: &Path) -> Option<Self> {
        let check = "import os, rotel; os.stat(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
        let environment = environment_with("rotel", check)?;
        let program = find(&environment.join("lib"), "rotel-agent")?;
        let (http, grpc) = (free_port(), free_port());
        let mut command = Command::new(program);
        command
            .args(["start", "--exporter", "blackhole"])
            .args(["--debug-log", "traces", "--debug-log", "metrics"])
            .args(["--debug-log-verbosity", "detailed"])
            .args(["--otlp-http-endpoint", &format!("127.0.0.1:{http}")])
            .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{grpc}")])
            .stdout(File::create(log).unwrap())
            .stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", http)).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it does not listen"
            );
            thread::sleep(Duration::from_millis(20));
        }
        let endpoint = format!("http://127.0.0.1:{http}");
        Some(Self { child, endpoint })
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the file with a name below a directory.
fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            find(&path, name)
        } else {
            (entry.file_name() == name).then_some(path)
        }
    })
}

#[test]
fn a_collector_that_others_wrote_shows_one_trace_over_two_resumes() {
    let place = Workspace::with(&LOOP.replace("fail = \"retryable\"", "ask = \"may I?\""));
    place.write("replies.toml", LOOP_REPLIES);
    let log = place.path("collector.log");
    let Some(rotel) = Rotel::start(&log) else {
        return;
    };
    let resume = ["run", "--recover_path", "store"];
    traced(&place, &rotel.endpoint, &RUN).end().expect(4);
    traced(&place, &rotel.endpoint, &resume).end().expect(4);
    let mut asked = place.recorded().into_iter();
    let asked = asked
        .rfind(|line| line["kind"] == "request-opened")
        .unwrap();
    let answer = format!("{}=\"yes\"", asked["request"].as_str().unwrap());
    place.host(&["answer", "store", &answer]).expect(0);
    traced(&place, &rotel.endpoint, &resume).end().expect(0);
    let count = |part: &str| fs::read_to_string(&log).unwrap().matches(part).count();
    let begun = Instant::now();
    while count(": invoke_workflow looker") < 3 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "they do not arrive"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let shown = fs::read_to_string(&log).unwrap();
    assert!(
        shown.contains("opentelemetry.io/schemas/gen-ai/0.1.0"),
        "{shown}"
    );
    let traces = shown.lines().filter(|line| line.contains("Trace ID"));
    let traces: BTreeSet<&str> = traces.collect();
    assert_eq!(traces.len(), 1, "{shown}");
    for (part, times) in [(": chat default", 2), (": execute_tool look", 2)] {
        assert!(count(part) >= times, "{part}: {shown}");
    }
    assert!(
        shown.contains("gen_ai.client.inference.usage.input_tokens"),
        "{shown}"
    );
}
