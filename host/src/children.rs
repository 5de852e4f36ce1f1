//! The programs that this process starts: the one outside of a team, and those that build components. They end with this
//! process, however that ends.
//!
//! Each leads a process group of its own, which has all that it starts. A second process of this executable, the watcher,
//! is told of these groups over a pipe. When this process is gone, by SIGKILL too, the pipe ends, and the watcher kills
//! the groups that are left. Until it has done so it holds a lock on the storage directory of the team, for which a resume
//! waits before it starts the program again.
//!
//! A program that embeds this library is another executable, which cannot be the watcher: there programs are killed when
//! a run ends in order, and not after SIGKILL.

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

/// What this executable is called with to be the watcher. No command of an operator's.
pub(crate) const WATCH: &str = "__watch-children";
/// How often it is looked whether a former watcher is done, and how often at most: it has nothing to do but kill.
const GLANCE: Duration = Duration::from_millis(5);
const GLANCES: u32 = 2_000;

/// Whether this executable can be the watcher.
static CAN_WATCH: AtomicBool = AtomicBool::new(false);
/// The groups that have to end, and who kills them if this process cannot.
static GROUPS: Mutex<Groups> = Mutex::new(Groups {
    watcher: None,
    builds: BTreeSet::new(),
    taken_over: BTreeSet::new(),
});

struct Groups {
    watcher: Option<Watcher>,
    /// The leaders of those that build.
    builds: BTreeSet<u32>,
    /// The storage directories that this process has waited for.
    taken_over: BTreeSet<PathBuf>,
}

/// The way to the watcher. It ends with this process.
struct Watcher {
    orders: ChildStdin,
    done: BufReader<ChildStdout>,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is the world outside of a team, and ends when the run does.
    External,
    /// It builds a component. What interrupts this process ends it at once.
    Build,
}

/// Says that this executable calls `watch` when it is called with `WATCH`.
pub(crate) fn can_be_watched() {
    CAN_WATCH.store(true, Ordering::Relaxed);
}

/// A program that runs. It is forgotten, not killed, when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    group: u32,
}

impl Running {
    /// Waits for its end, and gives what it wrote.
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

/// Starts a program.
pub(crate) fn spawn(command: &mut Command, purpose: Purpose) -> io::Result<Running> {
    let mut groups = groups();
    let is_watched = groups.is_watched();
    // Where nobody watches, a build belongs to the group of this process, so that a terminal reaches it.
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

/// Ends all builds: this process was interrupted, and what a terminal sends does not reach them.
pub(crate) fn end_builds() {
    for group in &groups().builds {
        kill(*group);
    }
}

/// Waits until no program of an earlier process is left that worked for the team in a storage directory, and lets the next
/// process wait in the same way.
pub(crate) fn take_over(storage: &Path) {
    let Ok(directory) = File::open(storage) else {
        return;
    };
    // An earlier run of this process had it: its watcher holds the lock until the process ends.
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
        // From now on it holds the lock, if it can.
        if let Some(watcher) = &mut groups.watcher {
            let _ = watcher.done.read_line(&mut String::new());
        }
    }
}

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Groups {
    /// Whether there is a watcher, which is started if there can be one.
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

    /// Tells the watcher, if there is one. One that is gone was killed by somebody; nothing depends on it.
    fn order(&mut self, order: &str) {
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.orders.write_all(format!("{order}\n").as_bytes());
        }
    }
}

impl Watcher {
    fn start() -> io::Result<Self> {
        // Under its name, and also where the file was replaced meanwhile.
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

/// What the watcher does: it takes orders until there are no more, and kills the groups that are left.
pub(crate) fn watch(orders: impl Read, mut done: impl Write) {
    let mut left = BTreeSet::new();
    let mut held = Vec::new();
    for order in BufReader::new(orders).lines().map_while(Result::ok) {
        let Some((what, about)) = order.split_at_checked(1) else {
            continue;
        };
        match (what, about.parse::<u32>()) {
            ("+", Ok(group)) => drop(left.insert(group)),
            ("-", Ok(group)) => drop(left.remove(&group)),
            ("=", _) => {
                let directory = File::open(about).ok();
                held.extend(
                    directory
                        .filter(|dir| flock(dir, FlockOperation::NonBlockingLockShared).is_ok()),
                );
                let _ = done.write_all(b"\n").and_then(|()| done.flush());
            }
            _ => {}
        }
    }
    left.into_iter().for_each(kill);
    drop(held);
}

fn kill(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
