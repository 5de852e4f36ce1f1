//! Child processes that this process starts: the external program of a team, and the tools that
//! build components. They are killed when this process ends, whatever the reason.
//!
//! Each child leads a process group of its own, which contains all its descendants. A second
//! process of this executable, the watcher, receives the ids of these groups over a pipe. When this
//! process ends, even by SIGKILL, the pipe is closed and the watcher kills the remaining groups.
//! Until then, the watcher holds a lock on the team's storage directory. A resume waits for that
//! lock before it starts the external program again.
//!
//! A program that embeds this library is another executable and cannot act as the watcher. There,
//! children are killed when a run ends normally, but not after SIGKILL.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process_group};

/// The argument that makes this executable act as the watcher. It is not a command for operators.
pub(crate) const WATCH: &str = "__watch-children";
/// The interval at which the lock of an earlier watcher is checked. All that watcher has to do is
/// kill processes, so it is done soon.
const GLANCE: Duration = Duration::from_millis(5);
/// The number of checks after which waiting for an earlier watcher is given up.
const GLANCES: u32 = 2_000;

/// Whether this executable can act as the watcher.
static CAN_WATCH: AtomicBool = AtomicBool::new(false);
/// The process groups of all children, and the watcher that kills them if this process cannot.
static GROUPS: Mutex<Groups> = Mutex::new(Groups {
    watcher: None,
    builds: BTreeSet::new(),
    taken_over: BTreeSet::new(),
});

struct Groups {
    watcher: Option<Watcher>,
    /// The process groups of running builds.
    builds: BTreeSet<u32>,
    /// The storage directories whose previous children this process has waited for.
    taken_over: BTreeSet<PathBuf>,
}

/// The pipes to the watcher. They are closed when this process ends.
struct Watcher {
    orders: ChildStdin,
    done: BufReader<ChildStdout>,
}

/// The purpose of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The external program of a team. It ends when the run ends.
    External,
    /// A build tool. It is killed as soon as this process is interrupted.
    Build,
}

/// Declares that this executable calls `watch` when it is started with the argument `WATCH`.
pub(crate) fn can_be_watched() {
    CAN_WATCH.store(true, Ordering::Relaxed);
}

/// A running child process. Dropping it removes its group from the watch list and does not kill it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    group: u32,
}

impl Running {
    /// Waits for the process to exit and returns its output.
    pub(crate) fn output(mut self) -> io::Result<Output> {
        match self.child.take() {
            Some(child) => child.wait_with_output(),
            None => Err(io::Error::other("the program was waited for already")),
        }
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.child
            .as_ref()
            .expect("it is taken by what consumes it only")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.child
            .as_mut()
            .expect("it is taken by what consumes it only")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut groups = groups();
        groups.builds.remove(&self.group);
        groups.order(&format!("-{}", self.group));
    }
}

/// Starts a child process.
pub(crate) fn spawn(command: &mut Command, purpose: Purpose) -> io::Result<Running> {
    let mut groups = groups();
    let is_watched = groups.is_watched();
    // Without a watcher, a build stays in the process group of this process, so that the signals of
    // a terminal reach it.
    if is_watched || purpose == Purpose::External {
        command.process_group(0);
    }
    let child = command.spawn()?;
    let group = child.id();
    if is_watched {
        groups.order(&format!("+{group}"));
        if purpose == Purpose::Build {
            groups.builds.insert(group);
        }
    }
    drop(groups);
    Ok(Running {
        child: Some(child),
        group,
    })
}

/// Kills all builds. Called when this process is interrupted, because builds in their own process
/// groups do not receive the signals of the terminal.
pub(crate) fn end_builds() {
    for group in &groups().builds {
        kill(*group);
    }
}

/// Waits until no child of an earlier process is left that worked for the team in a storage
/// directory, and lets the watcher lock that directory, so that the next process can wait in the
/// same way.
pub(crate) fn take_over(storage: &Path) {
    let Ok(directory) = File::open(storage) else {
        return;
    };
    // An earlier run of this process used it already: the watcher holds the lock until the process
    // ends.
    if !groups().taken_over.insert(storage.to_owned()) {
        return;
    }
    let is_held = || {
        flock(&directory, FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
    };
    for _ in 0..GLANCES {
        if !is_held() {
            break;
        }
        thread::sleep(GLANCE);
    }
    drop(directory);
    let mut groups = groups();
    if let (true, Some(path)) = (
        groups.is_watched(),
        storage.to_str().filter(|path| !path.contains('\n')),
    ) {
        groups.order(&format!("={path}"));
        // The watcher answers once it has tried to take the lock.
        if let Some(watcher) = &mut groups.watcher {
            let _ = watcher.done.read_line(&mut String::new());
        }
    }
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Groups {
    /// Returns whether there is a watcher. Starts it first if this executable can act as one.
    fn is_watched(&mut self) -> bool {
        if self.watcher.is_none() && CAN_WATCH.load(Ordering::Relaxed) {
            self.watcher = Watcher::start()
                .inspect_err(|error| {
                    tracing::warn!("programs that are started may outlive this one: {error}")
                })
                .ok();
        }
        self.watcher.is_some()
    }

    /// Sends an order to the watcher, if there is one. Errors are ignored: if somebody killed the
    /// watcher, nothing depends on it.
    fn order(&mut self, order: &str) {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.orders.write_all(format!("{order}\n").as_bytes());
        }
    }
}

impl Watcher {
    fn start() -> io::Result<Self> {
        // Started through /proc, so that it is this executable even if the file was replaced since.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("strata-host")
            .arg(WATCH)
            .current_dir("/")
            .process_group(0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(done)) => Ok(Self {
                orders,
                done: BufReader::new(done),
            }),
            _ => Err(io::Error::other("the watcher has no pipes")),
        }
    }
}

/// Runs the watcher: handles orders until the pipe is closed, then kills the remaining groups.
pub(crate) fn watch(orders: impl Read, mut done: impl Write) {
    let mut left = BTreeSet::new();
    let mut held = Vec::new();
    for order in BufReader::new(orders).lines().map_while(Result::ok) {
        let Some((what, about)) = order.split_at_checked(1) else {
            continue;
        };
        match (what, about.parse::<u32>()) {
            ("+", Ok(group)) => {
                left.insert(group);
            }
            ("-", Ok(group)) => {
                left.remove(&group);
            }
            ("=", _) => {
                if let Ok(directory) = File::open(about)
                    && flock(&directory, FlockOperation::NonBlockingLockShared).is_ok()
                {
                    held.push(directory);
                }
                let _ = done.write_all(b"\n").and_then(|()| done.flush());
            }
            _ => {}
        }
    }
    for group in left {
        kill(group);
    }
    drop(held);
}

fn kill(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
