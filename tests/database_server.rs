//! A PostgreSQL server of one test alone, which can be stopped and killed, and a proxy in front of it that
//! cuts connections, and stalls and slows them down in each direction.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::postgres_server::{ServerOptions, query, server_url, start_server};
use crate::skipped::skip;
use crate::workers::wait_until;

/// The name of PostgreSQL's socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";
/// How many bytes a slow direction of a connection passes on at once, and how long it waits before each time.
const SLOW_PIECE: usize = 200;
const SLOW_PAUSE: Duration = Duration::from_millis(3);

/// A server of one test alone.
pub struct Server {
    pub directory: PathBuf,
    child: Child,
    commands: Option<ChildStdin>,
    port: Option<u16>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Server {
    /// Starts a server that listens at a socket in its directory. Returns `None` if PostgreSQL is not
    /// installed.
    pub fn start() -> Option<Self> {
        Self::start_with(ServerOptions::default())
    }

    /// Starts a server with these options.
    pub fn start_with(options: ServerOptions<'_>) -> Option<Self> {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let n = SERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-server-{}-{n}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let port = options.port;
        let Some(mut child) = start_server(&directory, options) else {
            skip("PostgreSQL is not installed");
            return None;
        };
        Some(Self {
            commands: child.stdin.take(),
            directory,
            child,
            port,
        })
    }

    /// Returns its port, if it was started with one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the URL of its database.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("{}&port={port}", server_url(&self.directory)),
            None => server_url(&self.directory),
        }
    }

    /// Returns the URL of another of its databases.
    pub fn url_of(&self, database: &str) -> String {
        self.url().replace("/postgres?", &format!("/{database}?"))
    }

    /// Carries out statements with PostgreSQL's own program, and returns what it printed.
    pub fn sql(&self, statements: &str) -> String {
        self.sql_in("postgres", statements)
    }

    /// The same in another of its databases.
    pub fn sql_in(&self, database: &str, statements: &str) -> String {
        query(&self.url_of(database), statements)
    }

    /// Makes a standby that gets nothing more from now on, as one that follows asynchronously lags behind.
    pub fn make_lagging_standby(&mut self) {
        let commands = self.commands.as_mut().unwrap();
        writeln!(commands, "LAG").unwrap();
        let lagging = self.directory.join("lagging");
        wait_until(|| lagging.exists());
        std::fs::remove_file(&lagging).unwrap();
    }

    /// Ends the server with a signal and starts it again; with `PROMOTE`, the standby that lags takes its place, or
    /// else a synchronous one.
    pub fn restart(&mut self, signal: &str) {
        let ready = self.directory.join("ready");
        std::fs::remove_file(&ready).unwrap();
        let commands = self.commands.as_mut().unwrap();
        writeln!(commands, "{signal}").unwrap();
        wait_until(|| ready.exists());
    }

    /// Ends the server for good.
    pub fn stop(&mut self) {
        if self.commands.take().is_some() {
            let _ = self.child.wait();
        }
    }
}

/// Makes a file or a directory that of PostgreSQL's own user, which it has because it does not run as root.
pub fn give_to_server(path: &Path) {
    if is_root() {
        let given = Command::new("chown").arg("postgres").arg(path).status();
        assert!(given.unwrap().success());
    }
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a process connects to instead of a server.
pub struct Proxy {
    directory: tempfile::TempDir,
    open: Arc<Mutex<Vec<UnixStream>>>,
    /// What clients send.
    pub to_server: Arc<Flow>,
    /// What the server sends.
    pub from_server: Arc<Flow>,
}

impl Proxy {
    /// Starts a proxy of the server whose socket is in a directory.
    pub fn start(server: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let proxy = Self {
            directory,
            open: Arc::default(),
            to_server: Arc::default(),
            from_server: Arc::default(),
        };
        let open = Arc::clone(&proxy.open);
        let [to_server, from_server] = proxy.flows();
        let server = server.join(SOCKET);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = UnixStream::connect(&server) else {
                    continue;
                };
                let ends = [client, upstream];
                let copies = || ends.each_ref().map(|end| end.try_clone().unwrap());
                open.lock().unwrap().extend(copies());
                let ([from, to], flow) = (copies(), Arc::clone(&to_server));
                thread::spawn(move || flow.forward(from, to));
                let ([to, from], flow) = (copies(), Arc::clone(&from_server));
                thread::spawn(move || flow.forward(from, to));
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        server_url(self.directory.path())
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Ends all connections, and refuses new ones, as a server does that has ended; or goes on accepting them.
    pub fn refuse(&self, refuses: bool) {
        let socket = self.directory.path().join(SOCKET);
        let aside = self.directory.path().join("refused");
        if refuses {
            std::fs::rename(&socket, &aside).unwrap();
            self.cut();
        } else {
            std::fs::rename(&aside, &socket).unwrap();
        }
    }

    /// Returns both directions.
    pub fn flows(&self) -> [Arc<Flow>; 2] {
        [&self.to_server, &self.from_server].map(Arc::clone)
    }

    /// Passes nothing on any more in either direction, or goes on with that.
    pub fn stall(&self, is_stalled: bool) {
        for flow in self.flows() {
            flow.stall(is_stalled);
        }
    }
}

/// How one direction of all connections of a proxy is passed on.
#[derive(Default)]
pub struct Flow {
    is_stalled: AtomicBool,
    is_slow: AtomicBool,
}

impl Flow {
    /// Passes nothing on any more, or goes on with that. What came in the meantime arrives late.
    pub fn stall(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    /// Passes everything on in small pieces with pauses between them, or stops doing so.
    pub fn slow_down(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Passes on what comes from one end of a connection to the other.
    fn forward(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut bytes = [0; 8192];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && self.pass_on(&bytes[..count], &mut to).is_ok()
        {}
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    fn pass_on(&self, mut bytes: &[u8], to: &mut UnixStream) -> std::io::Result<()> {
        while !bytes.is_empty() {
            while self.is_stalled.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            let mut piece = bytes.len();
            if self.is_slow.load(Ordering::Relaxed) {
                thread::sleep(SLOW_PAUSE);
                piece = piece.min(SLOW_PIECE);
            }
            to.write_all(&bytes[..piece])?;
            bytes = &bytes[piece..];
        }
        Ok(())
    }
}
