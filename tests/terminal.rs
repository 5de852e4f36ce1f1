//! The host at a terminal of its own (`script` of util-linux): what it shows, and input of the
//! user. `vt100` interprets the output.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::workspace::Workspace;

/// The time limit of a terminal.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size of the screen, which is small.
pub const ROWS: u16 = 24;
pub const COLUMNS: u16 = 72;

/// A terminal in which the host runs.
pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    shown: String,
    /// The number of bytes of the output that have been searched.
    seen: usize,
    /// Dropped to stop the thread that kills a terminal that hangs.
    _watch: Sender<()>,
}

impl Terminal {
    /// Runs the host in a directory at a terminal without capabilities.
    pub fn open(place: &Workspace, args: &[&str]) -> Self {
        Self::of_kind("dumb", place, args)
    }

    /// Runs the host in a directory at a terminal of this type, of `ROWS` and `COLUMNS`.
    pub fn of_kind(kind: &str, place: &Workspace, args: &[&str]) -> Self {
        let host = place.command(args);
        let words = std::iter::once(host.get_program()).chain(host.get_args());
        let quoted: Vec<String> = words
            .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
            .collect();
        let mut command = Command::new("script");
        let line = format!("stty rows {ROWS} columns {COLUMNS}; {}", quoted.join(" "));
        command
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .current_dir(place.path(""));
        command.env("TERM", kind).env("SHELL", "/bin/sh");
        for (name, value) in host.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("`script` of util-linux is there");
        let (watch, watched) = mpsc::channel();
        let handle =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("it was just started");
        std::thread::spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        });
        let keyboard = child.stdin.take().expect("a pipe");
        let screen = child.stdout.take().expect("a pipe");
        Self {
            child,
            keyboard,
            screen,
            shown: String::new(),
            seen: 0,
            _watch: watch,
        }
    }

    /// Waits until a text is shown after the previous one, and returns the output up to it.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> &str {
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                let from = self.seen;
                self.seen += at + text.len();
                return &self.shown[from..self.seen];
            }
            let mut bytes = [0; 4096];
            let count = self
                .screen
                .read(&mut bytes)
                .expect("the screen can be read");
            assert!(
                count > 0,
                "`{text}` was not shown; this was:\n{}",
                self.shown
            );
            self.shown
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Returns the current content of the screen.
    pub fn screen_content(&self) -> String {
        screen(&self.shown)
    }

    /// Sends input.
    pub fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.keyboard
            .write_all(keys.as_ref())
            .and_then(|()| self.keyboard.flush())
            .expect("somebody reads");
    }

    /// Waits for the end, and returns the exit code and the whole output.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        let _ = self.screen.read_to_end(&mut rest);
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        (
            self.child.wait().expect("it can be waited for").code(),
            self.shown,
        )
    }
}

/// Returns the screen that a terminal shows after these bytes.
pub fn screen(shown: &str) -> String {
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    parser.process(shown.as_bytes());
    let rows: Vec<String> = parser.screen().rows(0, COLUMNS).collect();
    rows.join("\n").trim_end().to_owned()
}
