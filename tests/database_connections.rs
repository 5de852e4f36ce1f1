//! Connections to a database: encrypted, with a certificate that is checked, and through PgBouncer. What
//! is not installed is skipped, which is said.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::database_server::{Server, give_to_server, is_root};
use crate::live::GREETER;
use crate::observing::free_port;
use crate::postgres_server::ServerOptions;
use crate::process::Signal;
use crate::skipped::skip;
use crate::workers::wait_until;
use crate::workspace::Workspace;

/// Certificates that were made for a test.
struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    /// Makes an authority, a certificate of it for `localhost`, and another authority. Returns `None`
    /// without OpenSSL.
    fn make() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let permissions = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), permissions).unwrap();
        let made = Self { directory };
        if Command::new("openssl").arg("version").output().is_err() {
            skip("OpenSSL is not installed");
            return None;
        }
        for authority in ["authority", "other"] {
            let (key, file) = (format!("{authority}.key"), format!("{authority}.pem"));
            made.make_key(authority, &["-x509", "-keyout", &key, "-out", &file]);
        }
        made.make_key("server", &["-keyout", "server.key", "-out", "server.csr"]);
        std::fs::write(made.path("names"), "subjectAltName = DNS:localhost\n").unwrap();
        let sign = [
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "authority.pem",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
            "-extfile",
            "names",
            "-days",
            "3650",
            "-out",
            "server.pem",
        ];
        made.run(&sign);
        give_to_server(&made.path("server.key"));
        Some(made)
    }

    /// Makes a key and a request for a certificate, or a certificate, for a name.
    fn make_key(&self, name: &str, more: &[&str]) {
        let subject = format!("/CN={name}");
        let key = [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "3650",
            "-subj",
            &subject,
        ];
        self.run(&[&key, more].concat());
    }

    fn run(&self, arguments: &[&str]) {
        let done = Command::new("openssl")
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {errors}");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }
}

#[test]
fn an_encrypted_connection_is_made_only_to_a_server_whose_certificate_is_right() {
    let Some(certificates) = Certificates::make() else {
        return;
    };
    let setting = |name: &str, file: &str| format!("{name}={}", certificates.path(file).display());
    let (certificate, key) = (
        setting("ssl_cert_file", "server.pem"),
        setting("ssl_key_file", "server.key"),
    );
    let port = free_port();
    let options = ServerOptions {
        arguments: &[
            "-c",
            "listen_addresses=localhost",
            "-c",
            "ssl=on",
            "-c",
            &certificate,
            "-c",
            &key,
        ],
        port: Some(port),
    };
    let Some(server) = Server::start_with(options) else {
        return;
    };
    let place = Workspace::with(GREETER);
    let url = |host: &str, parameters: &str| {
        format!("postgres://strata@{host}:{port}/postgres?{parameters}&run=encrypted")
    };
    let root = |file: &str| format!("sslrootcert={}", certificates.path(file).display());
    let verified =
        |host: &str, file: &str| url(host, &format!("sslmode=verify-full&{}", root(file)));

    let right = verified("localhost", "authority.pem");
    let run = ["run", "team.toml", "--storage", &right];
    assert_eq!(place.host(&run).expect(0).stdout, "re: hello\n");
    place
        .host(&["inspect", &url("localhost", "sslmode=require")])
        .expect(0);
    let refused = |url: &str, expected: &str| {
        let ended = place.host(&["inspect", url]).expect(2);
        assert!(ended.stderr.contains(expected), "{url}: {}", ended.stderr);
    };
    refused(
        &verified("localhost", "other.pem"),
        "certificate was issued by none of the authorities",
    );
    refused(
        &verified("127.0.0.1", "authority.pem"),
        "certificate is for another host",
    );
    refused(
        &url("localhost", "sslmode=verify-full"),
        "certificate was issued by none of the authorities",
    );
    refused(&verified("localhost", "none.pem"), "none.pem");
    refused(&verified("localhost", "server.key"), "there are none");

    // A server that does not encrypt is not talked to in the clear.
    drop(server);
    let options = ServerOptions {
        arguments: &["-c", "listen_addresses=localhost"],
        port: Some(port),
    };
    let Some(_plain) = Server::start_with(options) else {
        return;
    };
    let ended = place.host(&["inspect", &right]).expect(1);
    assert!(ended.stderr.contains("TLS"), "{}", ended.stderr);
}

/// PgBouncer in front of a server, which runs each transaction on another connection.
struct Pooler {
    directory: tempfile::TempDir,
    child: Child,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pooler {
    const PORT: u16 = 6432;

    /// Returns `None` if it is not installed.
    fn start(server: &Server) -> Option<Self> {
        let programs = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
        let Some(program) = programs.iter().find(|path| Path::new(path).exists()) else {
            skip("PgBouncer is not installed");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let (place, port) = (directory.path().display(), Self::PORT);
        let settings = format!(
            "[databases]\n\
             postgres = host={} dbname=postgres user=strata\n\
             [pgbouncer]\n\
             unix_socket_dir = {place}\n\
             listen_port = {port}\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             logfile = {place}/log\n",
            server.directory.display()
        );
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        give_to_server(directory.path());
        // It ends with the thread that started it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        let child = command
            .args([program, "-q"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let socket = directory.path().join(format!(".s.PGSQL.{port}"));
        wait_until(|| socket.exists());
        Some(Self { directory, child })
    }

    /// Returns the URL of the database through it.
    fn url(&self) -> String {
        let (place, port) = (self.directory.path().display(), Self::PORT);
        format!("postgres://strata@/postgres?host={place}&port={port}&prepare=off")
    }
}

/// A team with a question.
const CLERK: &str = r#"
schema = "strata.team/1"
[team]
name = "clerk"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "how many?" }, { say = "{reads}" }] }
"#;

#[test]
fn runs_and_workers_use_a_pooler_that_runs_each_transaction_on_another_connection() {
    let Some(server) = Server::start() else {
        return;
    };
    let Some(pooler) = Pooler::start(&server) else {
        return;
    };
    let (place, database) = (Workspace::with(CLERK), pooler.url());
    let url = format!("{database}&run=alone");
    let run = ["run", "team.toml", "--storage", &url];
    place.host(&run).expect(4);
    place.host(&["answer", &url, "ask-0-0-0-0=3"]).expect(0);
    let resumed = place.host(&["run", "--recover_path", &url]);
    assert_eq!(resumed.expect(0).stdout, "3\n");
    place.host(&["events", &url]).expect(0);

    let worker = place.start(&["worker", "--database", &database]);
    let submit = ["submit", "team.toml", "--database", &database, "--wait"];
    let named = [&submit[..], &["--name", "submitted"]].concat();
    place.host(&named).expect(4);
    let url = format!("{database}&run=submitted");
    place.host(&["answer", &url, "ask-0-0-0-0=7"]).expect(0);
    wait_until(|| {
        let events = place.host(&["events", &url]).stdout;
        events.contains("\"status\":\"done\"")
    });
    // A message reaches an owner that is not notified.
    place.write("team.toml", GREETER);
    let live = format!("{database}&run=live");
    let mut owner = place.start_resting_in(&live);
    let send = ["send", &live, "--cause", "UserRequirement", "more"];
    place.host(&send).expect(0);
    owner.until("step-committed", None);
    for process in [owner, worker] {
        process.signal(Signal::TERM);
        process.end();
    }
}
