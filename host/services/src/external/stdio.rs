//! A program that exchanges messages over its standard streams, one per line.
//!
//! Two threads read and write, so that a program that does not read its input blocks nobody.

use std::future::pending;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc as sync};
use std::thread;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strata_base::process::children::{ChildProcess, spawn_external};
use strata_base::text::excerpt::excerpt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::{DeliveryRetries, ExternalEvent};

/// The maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// The maximum number of characters that are quoted of a line that is not UTF-8.
const MAX_QUOTED_CHARS: usize = 60;
/// The number of lines that wait to be routed. A program that writes more is blocked.
const QUEUED_LINES: usize = 64;
/// How long the input of a program stays open when there is nothing more to write. The program may
/// be about to respond.
const INPUT_GRACE: Duration = Duration::from_millis(500);
/// How long a program may run after its input was closed, and how long it may leave a line unread.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// The time after which a warning tells the operator what the run waits for.
const WARN_AFTER: Duration = Duration::from_secs(5);
/// The interval of polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The interval of checks whether a program that writes nothing has ended. Its end is noticed
/// immediately unless a process that it started keeps its output open.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How many times the output is polled after the program has ended, while a process that it started
/// keeps it open. Also counts polls that find something.
const MAX_POLLS_AFTER_EXIT: u32 = 100;

type WriteResultSender = oneshot::Sender<io::Result<()>>;

/// Returns the path of the program to start. A path with a slash is relative to the team file's
/// directory, which is absolute. A bare name is looked up in `PATH`.
pub(super) fn program_path(name: &str, dir: &Path) -> PathBuf {
    if name.contains('/') {
        dir.join(name)
    } else {
        PathBuf::from(name)
    }
}

/// A running program in a process group of its own, which does not receive the signals of the
/// terminal. Dropping it kills the group.
pub(super) struct ExternalProgram {
    child: Arc<Mutex<ChildProcess>>,
    /// `None` once its input was closed.
    outgoing: Option<sync::SyncSender<(String, WriteResultSender)>>,
    incoming: mpsc::Receiver<ExternalEvent>,
    /// The time at which the input is closed; after that, the time of the warning, and then the
    /// time at which the program is killed.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the warning was logged that the run waits for the program to end.
    has_warned: bool,
}

impl ExternalProgram {
    /// Starts a program in `dir`. `storage` is the directory in which the team's state is saved, if
    /// there is one.
    pub(super) fn start(
        command: &[String],
        dir: &Path,
        storage: Option<&Path>,
    ) -> Result<Self, String> {
        let Some((name, arguments)) = command.split_first() else {
            return Err("the command is empty".into());
        };
        let program = program_path(name, dir);
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let spawned = spawn_external(&mut command, storage);
        let mut child =
            spawned.map_err(|e| format!("cannot start `{}`: {e}", program.display()))?;
        let (stdin, stdout) = (child.stdin.take().map(Arc::new), child.stdout.take());
        let child = Arc::new(Mutex::new(child));
        let (outgoing, to_write) = sync::sync_channel(1);
        let (events, incoming) = mpsc::channel(QUEUED_LINES);
        let weak_stdin = stdin.as_ref().map(Arc::downgrade).unwrap_or_default();
        let output = stdout.map(|stdout| ProgramOutput {
            stdout,
            child: child.clone(),
            remains: None,
        });
        let threads = || {
            thread::Builder::new()
                .name("external stdin".into())
                .spawn(move || write_lines(stdin, &to_write))?;
            thread::Builder::new()
                .name("external stdout".into())
                .spawn(move || read_lines(output, &weak_stdin, &events))
        };
        threads().map_err(|e| format!("cannot start a thread: {e}"))?;
        Ok(Self {
            child,
            outgoing: Some(outgoing),
            incoming,
            deadline: None,
            has_warned: false,
        })
    }

    /// Writes a line, and waits until all of it is in the pipe: without limit if `retries` says so.
    /// The line is queued before the future is awaited. The returned list is always empty, because
    /// responses arrive through `incoming`.
    pub(super) fn write(
        &mut self,
        line: String,
        retries: DeliveryRetries,
    ) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let gone = "the program has ended";
        let (done, written) = oneshot::channel();
        self.stay_open();
        // Lines are written one after another, so the channel is empty unless the program did not
        // read a line of an earlier run.
        let sent = match self
            .outgoing
            .as_ref()
            .map(|outgoing| outgoing.try_send((line, done)))
        {
            Some(Ok(())) => Ok(()),
            Some(Err(sync::TrySendError::Full(_))) => {
                Err("the program does not take what it is told")
            }
            Some(Err(sync::TrySendError::Disconnected(_))) | None => Err(gone),
        };
        Box::pin(async move {
            sent?;
            let mut written = pin!(written);
            let mut delivery = tokio::time::timeout(WARN_AFTER, &mut written).await;
            if delivery.is_err() {
                tracing::warn!(
                    "the external program does not read what it is told; it is waited for"
                );
                let left = if retries == DeliveryRetries::Limited {
                    PROGRAM_TIMEOUT - WARN_AFTER
                } else {
                    Duration::MAX
                };
                delivery = tokio::time::timeout(left, written).await;
            }
            let Ok(delivery) = delivery else {
                return Err(format!(
                    "the program has not read what it was told within {} s",
                    PROGRAM_TIMEOUT.as_secs()
                ));
            };
            match delivery {
                Ok(Ok(())) => Ok(Vec::new()),
                Ok(Err(error)) => Err(format!("cannot write to the program: {error}")),
                Err(_) => Err(gone.into()),
            }
        })
    }

    /// Returns whether its input is open.
    pub(super) fn is_open(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Closes its input soon, unless the program writes something or is written to before.
    pub(super) fn close_input_soon(&mut self) {
        if self.deadline.is_none() {
            self.deadline = Some(Box::pin(tokio::time::sleep(INPUT_GRACE)));
        }
    }

    /// Cancels the closing of its input.
    fn stay_open(&mut self) {
        if self.is_open() {
            self.deadline = None;
        }
    }

    /// Returns the next event. Meanwhile, closes the input once the deadline has passed, and then
    /// warns. Returns that the program is closed if it has not ended in time; the caller drops it.
    pub(super) async fn next_event(&mut self) -> ExternalEvent {
        loop {
            let deadline = self.deadline.as_mut();
            let deadline_passed = async {
                deadline
                    .map_or_else(|| Either::Left(pending()), Either::Right)
                    .await
            };
            tokio::select! {
                biased;
                next = self.incoming.recv() => {
                    self.stay_open();
                    return next.unwrap_or_else(|| ExternalEvent::Closed { reason: "ended".into(), well: true });
                }
                () = deadline_passed => {}
            }
            let left = PROGRAM_TIMEOUT.saturating_sub(WARN_AFTER);
            let next = match (self.outgoing.take(), self.has_warned) {
                (Some(_), _) => WARN_AFTER,
                (None, false) => {
                    self.has_warned = true;
                    tracing::warn!(
                        "the external program goes on after the end of its input; it is killed if it does not end"
                    );
                    left
                }
                (None, true) => {
                    let how = format!(
                        "did not end within {} s of its input and is killed",
                        PROGRAM_TIMEOUT.as_secs()
                    );
                    return ExternalEvent::Closed {
                        reason: how,
                        well: false,
                    };
                }
            };
            self.deadline = Some(Box::pin(tokio::time::sleep(next)));
        }
    }
}

impl Drop for ExternalProgram {
    fn drop(&mut self) {
        lock_child(&self.child).kill();
    }
}

fn lock_child(child: &Mutex<ChildProcess>) -> MutexGuard<'_, ChildProcess> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines until the channel is closed. Then keeps the pipe open until everything was read,
/// because the amount of unread data can be queried only while it is open. To the program, whose
/// input ends only after that, this makes no difference.
fn write_lines(
    stdin: Option<Arc<ChildStdin>>,
    lines: &sync::Receiver<(String, WriteResultSender)>,
) {
    let Some(stdin) = stdin else { return };
    for (line, done) in lines {
        let written = (&*stdin).write_all((line + "\n").as_bytes());
        // The receiver may have stopped waiting. That is no error.
        let _ = done.send(written);
    }
    let reader_is_alive = || Arc::weak_count(&stdin) > 0;
    while reader_is_alive() && has_unread_data(&stdin) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns whether the pipe contains data that was not read yet.
fn has_unread_data(stdin: &ChildStdin) -> bool {
    rustix::io::ioctl_fionread(stdin).is_ok_and(|bytes| bytes > 0)
}

/// The output of a program. It ends when the program does, even if a process that the program
/// started keeps the pipe open.
struct ProgramOutput {
    stdout: ChildStdout,
    child: Arc<Mutex<ChildProcess>>,
    /// What is still to be read. `None` while the program runs.
    remains: Option<RemainingOutput>,
}

/// The part of the output that is still to be read after the program has ended.
struct RemainingOutput {
    /// The number of bytes that were in the pipe when the end was noticed. The program may have
    /// written all of them.
    bytes: u64,
    /// The number of times that more may still be waited for.
    polls_left: u32,
}

impl ProgramOutput {
    /// Waits until there is output or the pipe is closed. Returns false if the program has ended and
    /// its output was read, but the pipe is still open and nothing arrived for a while.
    fn wait_for_output(&mut self) -> io::Result<bool> {
        loop {
            if self.remains.is_none() && matches!(lock_child(&self.child).try_wait(), Ok(Some(_))) {
                self.remains = Some(RemainingOutput {
                    bytes: rustix::io::ioctl_fionread(&self.stdout)?,
                    polls_left: MAX_POLLS_AFTER_EXIT,
                });
            }
            let wait = match &mut self.remains {
                None => EXIT_POLL_INTERVAL,
                Some(RemainingOutput { bytes: 1.., .. }) => return Ok(true),
                Some(RemainingOutput { polls_left: 0, .. }) => return Ok(false),
                Some(RemainingOutput { polls_left, .. }) => {
                    *polls_left -= 1;
                    POLL_INTERVAL
                }
            };
            let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
            let mut polled = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut polled, Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for ProgramOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.wait_for_output()? {
            tracing::warn!(
                "the external program has ended, and a process that it started holds its output \
                 open; what that process writes is not read"
            );
            return Ok(0);
        }
        let length = self.stdout.read(buffer)?;
        if let Some(remains) = &mut self.remains {
            remains.bytes = remains.bytes.saturating_sub(length as u64);
        }
        Ok(length)
    }
}

/// Reads lines until there are no more, then waits for the program to end.
fn read_lines(
    output: Option<ProgramOutput>,
    stdin: &Weak<ChildStdin>,
    events: &mpsc::Sender<ExternalEvent>,
) {
    let Some(output) = output else { return };
    let child = output.child.clone();
    let mut lines = BufReader::new(output);
    let problem = loop {
        let mut line = Vec::new();
        match lines
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
        {
            Ok(0) => break None,
            Ok(_) if line.len() as u64 == MAX_LINE_BYTES => {
                break Some(format!("wrote a line of {MAX_LINE_BYTES} bytes or more"));
            }
            Ok(_) => {}
            Err(error) => break Some(format!("wrote what cannot be read: {error}")),
        }
        match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                if events.blocking_send(ExternalEvent::Message(line)).is_err() {
                    return;
                }
            }
            Err(error) => {
                let line = String::from_utf8_lossy(error.as_bytes()).into_owned();
                tracing::warn!(
                    "the external program wrote a line that is no UTF-8: `{}`",
                    excerpt(&line, MAX_QUOTED_CHARS)
                );
            }
        }
    };
    if let Some(reason) = problem {
        // Nobody reads its output any more, so it may never end on its own.
        let _ = events.blocking_send(ExternalEvent::Closed {
            reason,
            well: false,
        });
        return;
    }
    let max_polls = PROGRAM_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
    let ended = (0..max_polls).find_map(|_| {
        let status = lock_child(&child).try_wait();
        status.ok()?.or_else(|| {
            thread::sleep(POLL_INTERVAL);
            None
        })
    });
    let has_read_all = !stdin.upgrade().is_some_and(|stdin| has_unread_data(&stdin));
    let well = has_read_all && ended.is_some_and(|status| status.success());
    let how = ended.map_or_else(
        || "does not end".into(),
        |status| format!("ended with {status}"),
    );
    let _ = events.blocking_send(ExternalEvent::Closed { reason: how, well });
}
