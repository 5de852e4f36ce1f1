//! A PostgreSQL server for tests: started once by each process of tests, in a directory of its own. It
//! ends with the process. The unit tests of the host use this file, too.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

/// A variable with the URL of a database to use instead: `postgres://USER@/postgres?host=DIRECTORY`.
const URL_VARIABLE: &str = "STRATA_TEST_POSTGRES";

static SERVER: LazyLock<Option<TestServer>> = LazyLock::new(TestServer::start);

struct TestServer {
    url: String,
    /// The server ends when this is closed: with this process.
    _lifeline: Option<ChildStdin>,
}

/// Returns the URL of a database, or `None` if no server can be started here.
pub fn database_url() -> Option<&'static str> {
    let Some(server) = &*SERVER else {
        // Written past the capture of the test's output, so that it is seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: PostgreSQL is not installed, and `{URL_VARIABLE}` names no server"
        );
        return None;
    };
    Some(&server.url)
}

/// Creates a database without tables of runs on the server, and returns its URL. `None` if no server can
/// be started here.
#[allow(
    dead_code,
    reason = "only some of the programs that use this file need it"
)]
pub fn create_database(name: &str) -> Option<String> {
    let url = database_url()?;
    query(url, &format!("CREATE DATABASE \"{name}\""));
    let (before, after) = url.split_once("/postgres?").expect("the URL of the server");
    Some(format!("{before}/{name}?{after}"))
}

/// Carries out a statement with PostgreSQL's own client, and returns what it prints.
#[allow(
    dead_code,
    reason = "only some of the programs that use this file need it"
)]
pub fn query(url: &str, sql: &str) -> String {
    let mut client = Command::new("psql");
    client.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        sql,
        url,
    ]);
    let output = client.output().expect("psql is installed with the server");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl TestServer {
    fn start() -> Option<Self> {
        if let Ok(url) = std::env::var(URL_VARIABLE) {
            return Some(Self {
                url,
                _lifeline: None,
            });
        }
        let directory = std::env::temp_dir().join(format!("strata-pg-{}", std::process::id()));
        let mut server = start_server(&directory, ServerOptions::default())?;
        Some(Self {
            url: server_url(&directory),
            _lifeline: server.stdin.take(),
        })
    }
}

/// How a server is started.
#[derive(Clone, Copy, Default)]
pub struct ServerOptions<'a> {
    /// Options of PostgreSQL.
    pub arguments: &'a [&'a str],
    /// Its port, if it is not the usual one.
    pub port: Option<u16>,
}

/// Starts a server in a directory, which ends when the standard input of the process is closed. Returns
/// `None` if PostgreSQL is not installed.
pub fn start_server(directory: &Path, options: ServerOptions<'_>) -> Option<Child> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = package
        .ancestors()
        .map(|directory| directory.join("tests/postgres-server"))
        .find(|script| script.exists())
        .expect("the package is in the project");
    let mut command = Command::new(script);
    if let Some(port) = options.port {
        command.env("PGPORT", port.to_string());
    }
    let mut child = command
        .arg(directory)
        .args(options.arguments)
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
    Some(child)
}

/// Returns the URL of the database of a server.
pub fn server_url(directory: &Path) -> String {
    format!("postgres://strata@/postgres?host={}", directory.display())
}
