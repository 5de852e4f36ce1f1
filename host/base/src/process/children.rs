//! Child processes that this process starts: the external program of a team, and the tools that
//! build components. They are killed when this process ends, whatever the reason.
//!
//! Each child is started in the process group of a watcher. The watcher is a second process of this
//! executable, which is started first and reads a pipe. When this process ends, even by SIGKILL,
//! the pipe is closed and the watcher kills its own group. A child that is just being started holds
//! a copy of the pipe until it executes its program, and is in the group by then, so that none is
//! missed.
//!
//! The watcher of an external program also holds a lock on the team's storage directory. A resume
//! waits for that lock before it starts the external program again.
//!
//! A program that embeds this library acts as the watcher if its `main` begins like this. Otherwise
//! external programs are killed when a run ends normally, but not after SIGKILL.
//!
//! ```no_run
//! use std::io::{stdin, stdout};
//! use strata_base::process::children;
//!
//! let mut arguments = std::env::args_os().skip(1);
//! if arguments.next().is_some_and(|first| first == children::WATCH_ARGUMENT) {
//!     children::run_watcher(arguments.next().map(Into::into), stdin(), stdout());
//!     return;
//! }
//! children::enable_watcher();
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process_group, waitid,
};

/// The argument that makes this executable act as a watcher. It is not a command for operators.
pub const WATCH_ARGUMENT: &str = "__watch-children";
/// The interval at which the lock of an earlier watcher is checked. All that watcher has to do is
/// kill processes, so it is done soon.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The number of checks after which waiting for an earlier watcher is given up.
const MAX_POLLS: u32 = 2_000;

/// Whether this executable can act as a watcher.
static CAN_WATCH: AtomicBool = AtomicBool::new(false);
/// The process groups of all children. The id of a group that is listed here has not been reused.
static PROCESS_GROUPS: Mutex<BTreeMap<u32, Purpose>> = Mutex::new(BTreeMap::new());

/// The purpose of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The external program of a team, or an MCP server. It ends when the run ends.
    External,
    /// A build tool. It is killed as soon as this process is interrupted.
    Build,
}

/// Declares that this executable calls [`run_watcher`] when it is started with the argument
/// [`WATCH_ARGUMENT`].
pub fn enable_watcher() {
    CAN_WATCH.store(true, Ordering::Relaxed);
}

/// A running child process. Dropping it stops watching its group and does not kill it.
#[derive(Debug)]
pub struct ChildProcess {
    child: Option<Child>,
    group: u32,
    watcher: Option<Watcher>,
}

impl ChildProcess {
    /// Waits for the process to exit and returns its output.
    pub fn output(mut self) -> io::Result<std::process::Output> {
        match self.child.take() {
            Some(child) => child.wait_with_output(),
            None => Err(io::Error::other("the program was waited for already")),
        }
    }

    /// Returns the exit status if the process has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut groups = lock_groups();
        let status = self.deref_mut().try_wait()?;
        // Without a watcher, the id of the group is that of the process, and can be reused now.
        if status.is_some() && self.watcher.is_none() {
            groups.remove(&self.group);
        }
        Ok(status)
    }

    /// Waits until the process has ended, without taking its exit status. Its process group keeps its id.
    pub fn wait_for_end(pid: u32) {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
    }

    /// Asks the process and all its descendants to end. Only if the exit status of the process was not
    /// taken before.
    pub fn terminate_group(&self) {
        signal_group(self.group, Signal::TERM);
    }

    /// Kills the process with all its descendants, also if the process has ended, and waits for it to
    /// exit. Only if its exit status was not taken before: otherwise the group may be another one.
    pub fn kill_group(&mut self) -> Option<ExitStatus> {
        let mut groups = lock_groups();
        kill_group(self.group);
        let status = self.deref_mut().wait().ok();
        groups.remove(&self.group);
        self.watcher = None;
        status
    }

    /// Kills the process with all its descendants and waits for it to exit. If it has ended, its
    /// descendants may continue.
    pub fn kill(&mut self) {
        let mut groups = lock_groups();
        if let Ok(None) = self.deref_mut().try_wait() {
            kill_group(self.group);
            let _ = self.deref_mut().wait();
        }
        groups.remove(&self.group);
        self.watcher = None;
    }
}

impl Deref for ChildProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.child
            .as_ref()
            .expect("only methods that consume this value take the child")
    }
}

impl DerefMut for ChildProcess {
    fn deref_mut(&mut self) -> &mut Child {
        self.child
            .as_mut()
            .expect("only methods that consume this value take the child")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        lock_groups().remove(&self.group);
        self.watcher = None;
    }
}

/// Starts a build tool.
pub fn spawn_build(command: &mut Command) -> io::Result<ChildProcess> {
    spawn(command, Purpose::Build, None)
}

/// Starts the external program of a team. `storage` is the team's storage directory.
pub fn spawn_external(command: &mut Command, storage: Option<&Path>) -> io::Result<ChildProcess> {
    spawn(command, Purpose::External, storage)
}

fn spawn(
    command: &mut Command,
    purpose: Purpose,
    storage: Option<&Path>,
) -> io::Result<ChildProcess> {
    let watcher = if CAN_WATCH.load(Ordering::Relaxed) {
        Watcher::start(storage)
            .inspect_err(|error| {
                tracing::warn!("programs that are started may outlive this one: {error}");
            })
            .ok()
    } else {
        None
    };
    // Locked until the group is listed, so that `kill_all` does not miss it.
    let mut groups = lock_groups();
    match (&watcher, purpose) {
        (Some(watcher), _) => drop(command.process_group(watcher.group())),
        (None, Purpose::External) => drop(command.process_group(0)),
        // Without a watcher, a build stays in the process group of this process, so that the
        // signals of a terminal reach it.
        (None, Purpose::Build) => {}
    }
    let child = command.spawn()?;
    let group = watcher
        .as_ref()
        .map_or(child.id(), |watcher| watcher.process.id());
    if watcher.is_some() || purpose == Purpose::External {
        groups.insert(group, purpose);
    }
    drop(groups);
    Ok(ChildProcess {
        child: Some(child),
        group,
        watcher,
    })
}

/// Kills all children with this purpose and their descendants. Called for builds when this process
/// is interrupted, because they do not receive the signals of the terminal, and for external
/// programs when this process exits without running destructors.
pub fn kill_all(purpose: Purpose) {
    for (group, of) in lock_groups().iter() {
        if *of == purpose {
            kill_group(*group);
        }
    }
}

/// Waits until no external program of an earlier process is left that worked for the team in a
/// storage directory.
pub fn wait_for_previous_children(storage: &Path) {
    let Ok(directory) = File::open(storage) else {
        return;
    };
    for _ in 0..MAX_POLLS {
        let locked = flock(&directory, FlockOperation::NonBlockingLockExclusive);
        if locked != Err(rustix::io::Errno::WOULDBLOCK) {
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn lock_groups() -> MutexGuard<'static, BTreeMap<u32, Purpose>> {
    PROCESS_GROUPS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn kill_group(group: u32) {
    signal_group(group, Signal::KILL);
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

/// The process that kills a child if this process cannot. It leads the child's process group.
/// Dropping it ends it without killing the group.
#[derive(Debug)]
struct Watcher {
    /// The process. Its standard input is the pipe that it reads.
    process: Child,
}

impl Watcher {
    fn start(storage: Option<&Path>) -> io::Result<Self> {
        let storage = storage.map(std::path::absolute).transpose()?;
        // Started through /proc, so that it is this executable even if the file was replaced since.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("strata-host")
            .arg(WATCH_ARGUMENT)
            .args(&storage)
            .current_dir("/")
            .process_group(0);
        let process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut watcher = Self { process };
        if storage.is_some()
            && let Some(mut ready) = watcher.process.stdout.take()
        {
            // The watcher writes a byte once it has tried to take the lock.
            let _ = ready.read(&mut [0]);
        }
        Ok(watcher)
    }

    /// Returns the id of the process group.
    fn group(&self) -> i32 {
        self.process.id().cast_signed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Killed before its input is closed, because it would kill its group then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a watcher: locks the storage directory, if there is one, and reports that; waits until its
/// input is closed; and kills its process group, including itself.
pub fn run_watcher(storage: Option<PathBuf>, mut input: impl Read, mut output: impl Write) {
    let locked_directory = storage.and_then(|storage| File::open(storage).ok());
    if let Some(directory) = &locked_directory {
        let _ = flock(directory, FlockOperation::NonBlockingLockShared);
    }
    let _ = output.write_all(b"\n").and_then(|()| output.flush());
    let _ = io::copy(&mut input, &mut io::sink());
    // Checked because a user may have started this by hand, in a group with other processes.
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    }
    drop(locked_directory);
}
