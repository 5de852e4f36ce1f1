//! A process of the host: reads its lines as they are written, sends signals, and waits for its
//! end. A process that hangs is killed, and the test fails.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::stream;

/// The time limit of a process. The slowest ones build an interpreter on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running process of the host.
pub struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The text that was read from stdout so far.
    read: String,
    stderr: JoinHandle<String>,
    _watch: Watch,
}

/// Kills a process when it is dropped, unless that has ended. A process that hangs is killed, too.
struct Watch {
    handle: Arc<OwnedFd>,
    _dropped: Sender<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Another thread might not come to it before all tests have ended.
        let _ = pidfd_send_signal(&*self.handle, Signal::KILL);
    }
}

/// A process of the host that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, or `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
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
        let (dropped, watched) = mpsc::channel();
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .expect("the process was just started");
        let handle = Arc::new(handle);
        let watch = Watch {
            handle: Arc::clone(&handle),
            _dropped: dropped,
        };
        std::thread::spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a process hangs and is killed");
                let _ = pidfd_send_signal(&*handle, Signal::KILL);
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

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line of stdout as an event, or `None` at the end.
    pub fn next(&mut self) -> Option<Value> {
        let begin = self.read.len();
        self.stdout
            .read_line(&mut self.read)
            .expect("stdout is text");
        let line = &self.read[begin..];
        (!line.is_empty()).then(|| stream::parse_line(line))
    }

    /// Reads events until one of this kind, and of this role if one is given.
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

    /// Reads lines of stdout until one contains a text, for commands that do not write events.
    pub fn until_line_contains(&mut self, part: &str) -> String {
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

    /// Whether the process has not ended yet.
    pub fn is_running(&mut self) -> bool {
        let ended = self.child.try_wait();
        ended.expect("the process can be waited for").is_none()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal)
            .expect("the process was not waited for");
    }

    /// Kills the process with `SIGKILL`.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("the process was not waited for");
        self.end()
    }

    /// Waits for the end without reading the output, and returns the exit code.
    pub fn wait_without_reading(mut self) -> Option<i32> {
        self.child
            .wait()
            .expect("the process can be waited for")
            .code()
    }

    /// Waits for the end.
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
    /// Returns the events on stdout.
    pub fn events(&self) -> Vec<Value> {
        stream::parse(&self.stdout)
    }

    /// Fails unless the process ended with this exit code.
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
