//! The sandbox: calls components, each attempt in a fresh store, and turns whatever happens into a value.
//!
//! Nothing outside this module sees wasmtime. What an attempt asks of the world goes through its `Gateway`.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use strata_core::environment::scope::Write;
use strata_core::fault::Fault;
use strata_core::file::{Content, FileChange};
use strata_core::id::Digest;
use strata_core::message::{Draft, Message};
use strata_core::team::{Candidate, Profile, Task};

use crate::blob::Blobs;
use crate::gateway::Gateway;
use crate::plugin::Plugin;

pub(crate) use capability::files::is_seen_from;
pub use capability::files::{Directories, Own, PlaceError, Placed, real_path};
pub use component::{Exports, LoadError, Loaded, Manifest, ScriptFile, WasmSandbox};
pub use engine::{Allocation, CacheHealth, Metering};
pub(crate) use limits::bytes;
pub use plain::{FunctionError, is_of_tools};
pub use scripted::{Script, ScriptedSandbox, THINK, ended, returned};

mod attempt;
mod bindings;
mod capability;
mod component;
mod convert;
mod ctx;
mod engine;
mod fault;
mod limits;
mod log;
mod people;
mod plain;
mod scripted;
mod source;

/// The sandbox cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Components are compiled to machine code, which this process may not run.
    #[error("{NO_EXECUTABLE_MEMORY}; {EXECUTABLE_ADVICE}")]
    NoExecutableMemory,
    /// Something else is missing.
    #[error("{0}")]
    Machine(String),
}

/// What is wrong where memory cannot be made executable.
const NO_EXECUTABLE_MEMORY: &str =
    "this process may not make memory executable, and no component runs without that";
/// What to do where memory cannot be made executable.
const EXECUTABLE_ADVICE: &str =
    "set `MemoryDenyWriteExecute=no` in its systemd unit, or allow it `execmem` under SELinux";

impl SandboxError {
    /// Returns what is wrong, without what to do about it.
    pub fn reason(&self) -> &str {
        match self {
            Self::NoExecutableMemory => NO_EXECUTABLE_MEMORY,
            Self::Machine(reason) => reason,
        }
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoExecutableMemory => EXECUTABLE_ADVICE,
            Self::Machine(_) => "try with more memory or address space",
        }
    }
}

/// An attempt under way.
pub type Calling = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Calls plugins. One implementation runs components, one plays scripts for tests.
pub trait Sandbox: Send + Sync {
    /// Runs one attempt to its end. Dropping the future ends the attempt at once.
    fn call(&self, call: Call, gateway: Gateway) -> Calling;
}

/// One attempt of one call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The component, by the digest under which it was loaded.
    pub digest: Digest,
    /// Its configuration, limits and grants.
    pub plugin: Arc<Plugin>,
    /// Counts attempts from 1.
    pub attempt: u32,
    /// Stable over all attempts.
    pub idempotency_key: String,
    /// What its random numbers follow from: stable over all attempts, and the same in every lineage.
    pub seed: String,
    /// Which of the component's functions is called, and with what.
    pub entry: Entry,
    /// The acting role.
    pub role: Profile,
    /// The messages the activation handles.
    pub news: Vec<Arc<Message>>,
    /// What earlier calls of the activation returned.
    pub outputs: Vec<Arc<Message>>,
    /// How it sees files.
    pub view: Arc<View>,
}

impl Call {
    /// The first attempt at the first action of a role that has no news and sees no files.
    pub fn first(digest: Digest, plugin: Plugin, role: Profile, action: &str) -> Self {
        let key = format!("run/0/{}/0", role.name);
        Self {
            digest,
            plugin: Arc::new(plugin),
            attempt: 1,
            idempotency_key: key.clone(),
            seed: key,
            entry: Entry::Run {
                action: action.into(),
                index: 0,
                task: None,
            },
            role,
            news: Vec::new(),
            outputs: Vec::new(),
            view: Arc::default(),
        }
    }
}

/// How an attempt sees files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The directory of the team file; names in the records start from it.
    pub base: PathBuf,
    /// What is to be seen instead of what lies on the disk, by name in the records.
    pub files: BTreeMap<String, Content>,
    /// What the host itself saves, which is not seen.
    pub own: Own,
}

/// A function of a component.
#[derive(Clone, Debug)]
pub enum Entry {
    /// `handler.run`.
    Run {
        /// The action's name.
        action: String,
        /// Its index.
        index: u32,
        /// The planned task it carries out.
        task: Option<Task>,
    },
    /// `planner.plan`.
    Plan {
        /// The action's name.
        action: String,
        /// Its index.
        index: u32,
    },
    /// `thinker.choose`.
    Choose {
        /// How many choices were made before.
        round: u32,
        /// What there is to choose from.
        candidates: Vec<Candidate>,
    },
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it returned, or how it failed.
    pub result: Result<Returned, Fault>,
    /// What it used up.
    pub usage: Usage,
}

/// What a successful attempt leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The value of the function that was called.
    pub value: Value,
    /// What it published beside, in order.
    pub emissions: Vec<Draft>,
    /// What it wrote, in order.
    pub writes: Vec<Write>,
    /// What it did to files, by path.
    pub files: Vec<FileChange>,
    /// The bytes of those files, before and after.
    pub blobs: Blobs,
}

/// The value of one of a component's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of `handler.run`.
    Output(Draft),
    /// Of `planner.plan`.
    Tasks(Vec<Task>),
    /// Of `thinker.choose`: an index, or -1.
    Choice(i32),
}

/// What an attempt used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time inside the guest, in microseconds.
    pub cpu_us: u64,
    /// The most memory it had, in bytes.
    pub peak_memory_bytes: u64,
    /// Calls of host functions.
    pub host_calls: u32,
}
