//! A real process of the host: its lines as they come, signals, its end. One that hangs is killed and fails its test.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::stream;

/// How long a process may take. The slowest build an interpreter, on machines that have much else to do.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running host.
pub struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What was read from stdout so far.
    read: String,
    stderr: JoinHandle<String>,
    /// Dropped when nobody has to watch for a hanging process any more.
    _watch: Sender<()>,
}

/// An ended host.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// All it wrote to stdout.
    pub stdout: String,
    /// All it wrote to stderr.
    pub stderr: String,
}

impl Process {
    /// Starts a process.
    pub fn spawn(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (watch, watched) = mpsc::channel();
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .expect("the process was just started");
        std::thread::spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a process hangs and is killed");
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        });
        Self {
            child,
            stdout,
            read: String::new(),
            stderr,
            _watch: watch,
        }
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of stdout, an event; none at its end.
    pub fn next(&mut self) -> Option<Value> {
        let begin = self.read.len();
        self.stdout
            .read_line(&mut self.read)
            .expect("stdout is text");
        let line = &self.read[begin..];
        (!line.is_empty()).then(|| stream::parse_line(line))
    }

    /// Reads until an event of this kind, of this role where one is named.
    pub fn until(&mut self, kind: &str, role: Option<&str>) -> Value {
        let wanted =
            |line: &Value| line["kind"] == kind && role.is_none_or(|role| line["role"] == role);
        while let Some(line) = self.next() {
            if wanted(&line) {
                return line;
            }
        }
        panic!("no `{kind}` came; this did:\n{}", self.read);
    }

    /// Reads until a line of stdout that holds this, where it is no events that are written there.
    pub fn until_said(&mut self, part: &str) -> String {
        loop {
            let begin = self.read.len();
            self.stdout
                .read_line(&mut self.read)
                .expect("stdout is text");
            let line = &self.read[begin..];
            assert!(
                !line.is_empty(),
                "`{part}` was not said; this was:\n{}",
                self.read
            );
            if line.contains(part) {
                return line.to_owned();
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal)
            .expect("the process was not waited for");
    }

    /// Kills it as `kill -9` does.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("the process was not waited for");
        self.end()
    }

    /// Waits for its end while nobody reads what it writes; its exit code.
    pub fn wait_without_reading(mut self) -> Option<i32> {
        self.child
            .wait()
            .expect("the process can be waited for")
            .code()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        self.stdout
            .read_to_string(&mut self.read)
            .expect("stdout is text");
        let status = self.child.wait().expect("the process can be waited for");
        let stderr = self.stderr.join().expect("stderr can be read");
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: self.read,
            stderr,
        }
    }
}

impl Ended {
    /// The events on stdout.
    pub fn events(&self) -> Vec<Value> {
        stream::parse(&self.stdout)
    }

    /// Fails unless it ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        let Self {
            stdout,
            stderr,
            signal,
            ..
        } = &self;
        let what = format!("signal {signal:?}\n-- stdout\n{stdout}\n-- stderr\n{stderr}");
        assert_eq!(self.code, Some(code), "{what}");
        self
    }
}
