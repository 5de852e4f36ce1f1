//! A server for tests: started once by each process of tests, in a directory of its own. It ends with the
//! process.

use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::storage::database_url::DatabaseUrl;

/// A variable with the URL of a server to use instead.
const URL_VARIABLE: &str = "STRATA_TEST_POSTGRES";

static SERVER: LazyLock<Option<TestServer>> = LazyLock::new(TestServer::start);

struct TestServer {
    url: String,
    /// The server ends when this is closed: with this process.
    _lifeline: Option<ChildStdin>,
}

/// Returns the URL of a run that does not exist yet, or `None` if no server can be started here.
pub(in crate::storage) fn fresh_run() -> Option<DatabaseUrl> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let Some(server) = &*SERVER else {
        // Written past the capture of the test's output, so that it is seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: PostgreSQL is not installed, and `{URL_VARIABLE}` names no server"
        );
        return None;
    };
    let n = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("run-{}-{n}", std::process::id());
    Some(DatabaseUrl::parse(&server.url).unwrap().with_run(&name))
}

impl TestServer {
    #[expect(
        clippy::zombie_processes,
        reason = "the server ends when this process does, and then nobody is left to wait for it"
    )]
    fn start() -> Option<Self> {
        if let Ok(url) = std::env::var(URL_VARIABLE) {
            return Some(Self {
                url,
                _lifeline: None,
            });
        }
        let directory = std::env::temp_dir().join(format!("strata-pg-{}", std::process::id()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/postgres-server");
        let mut child = Command::new(script)
            .arg(&directory)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        while !directory.join("ready").exists() {
            match child.try_wait().unwrap().map(|status| status.code()) {
                None => std::thread::sleep(Duration::from_millis(20)),
                Some(Some(2)) => return None,
                Some(_) => panic!("see the logs in {}", directory.display()),
            }
        }
        Some(Self {
            url: format!("postgres://strata@/postgres?host={}", directory.display()),
            _lifeline: child.stdin.take(),
        })
    }
}
