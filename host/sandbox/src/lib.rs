//! The sandbox: calls components, each attempt in a fresh store, and returns every outcome as a
//! value.
//!
//! No other crate uses wasmtime. Whatever an attempt requests from outside goes through its
//! `Gateway`.
//!
//! ```no_run
//! use strata_sandbox::{Metering, WasmSandbox};
//! use strata_services::plugin::Limits;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = WasmSandbox::new()?;
//! let component = std::fs::read("write.wasm")?;
//! let loaded = sandbox.load(&component, Metering::for_limits(&Limits::default()))?;
//! println!("{}", loaded.digest.0);
//! # Ok(())
//! # }
//! ```
//!
//! This crate touches the directories that a plugin grants, and the cache of compiled code. A guest that traps, loops
//! or takes too much memory yields a [`Fault`] and never an error of the host.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_core::record::event::Logged;
use strata_core::record::fault::Fault;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::record::memory::MemoryRequest;
use strata_core::record::message::{Draft, Message};
use strata_core::record::scope_write::Write;
use strata_core::record::work::Task;
use strata_core::team::{Candidate, RoleProfile};

use strata_services::gateway::Gateway;
use strata_services::plugin::Plugin;

pub use capability::files::{
    Directories, HiddenStorage, PlaceError, PlacementOutcome, is_visible_in, resolve_links,
};
pub use component::{
    ComponentBytes, ComponentInfo, ComponentManifest, Exports, InterpreterComponent, LoadError,
    ModuleFile, ScriptFile, ScriptModules, ScriptProblem, ScriptSource, WasmSandbox,
};
pub use convert::MAX_PARTS;
pub use engine::{Allocation, CacheHealth, Metering};
pub use foreign_component::{FunctionError, is_toolchain_function};
pub use log::{HeldLines, hold_lines};
pub use scripted::{AttemptScript, ScriptedSandbox, outcome_without_usage, output_without_effects};

mod attempt;
mod attempt_slots;
mod bindings;
mod capability;
mod component;
mod convert;
mod ctx;
mod debug_info;
mod denied_lookups;
mod engine;
mod fault;
mod foreign_component;
pub mod host_wit;
mod interfaces;
mod limits;
mod log;
mod media;
mod scripted;

/// Why the sandbox cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Components are compiled to machine code, which this process is not allowed to execute.
    #[error("{NO_EXECUTABLE_MEMORY}; {EXECUTABLE_ADVICE}")]
    NoExecutableMemory,
    /// Some other resource is missing.
    #[error("{0}")]
    Machine(String),
}

/// The problem if memory cannot be made executable.
const NO_EXECUTABLE_MEMORY: &str =
    "this process may not make memory executable, and no component runs without that";
/// The advice if memory cannot be made executable.
const EXECUTABLE_ADVICE: &str =
    "set `MemoryDenyWriteExecute=no` in its systemd unit, or allow it `execmem` under SELinux";

impl SandboxError {
    /// Returns the problem without the advice.
    pub fn reason(&self) -> &str {
        match self {
            Self::NoExecutableMemory => NO_EXECUTABLE_MEMORY,
            Self::Machine(reason) => reason,
        }
    }

    /// Returns the advice.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoExecutableMemory => EXECUTABLE_ADVICE,
            Self::Machine(_) => "try with more memory or address space",
        }
    }
}

/// An attempt in progress.
pub type AttemptFuture = Pin<Box<dyn Future<Output = SandboxOutcome> + Send>>;

/// Calls plugins. One implementation runs components, the other plays scripts for tests.
pub trait Sandbox: Send + Sync {
    /// Runs one attempt to its end. Dropping the future aborts the attempt at once.
    fn call(&self, call: SandboxCall, gateway: Gateway) -> AttemptFuture;
}

/// One attempt of one call.
#[derive(Clone, Debug)]
pub struct SandboxCall {
    /// The digest under which the component was loaded.
    pub digest: Digest,
    /// The configuration, limits and grants.
    pub plugin: Arc<Plugin>,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The idempotency key, which is the same for all attempts.
    pub idempotency_key: String,
    /// The seed of the attempt's random numbers. It is the same for all attempts and in every
    /// lineage.
    pub seed: String,
    /// The function of the component to call, with its arguments.
    pub entry: EntryPoint,
    /// The acting role.
    pub role: RoleProfile,
    /// The messages that the activation handles.
    pub news: Vec<Arc<Message>>,
    /// The results of earlier calls of the activation.
    pub outputs: Vec<Arc<Message>>,
    /// How the attempt sees files.
    pub view: Arc<FileView>,
    /// How many other attempts wait for it.
    pub level: usize,
}

impl SandboxCall {
    /// Returns the first attempt at the first action of a role that has no news and sees no files.
    pub fn first_attempt(digest: Digest, plugin: Plugin, role: RoleProfile, action: &str) -> Self {
        let key = format!("run/0/{}/0", role.name);
        Self {
            digest,
            plugin: Arc::new(plugin),
            attempt: 1,
            idempotency_key: key.clone(),
            seed: key,
            entry: EntryPoint::Run {
                action: action.into(),
                index: 0,
                task: None,
                tool_call: None,
            },
            role,
            news: Vec::new(),
            outputs: Vec::new(),
            view: Arc::default(),
            level: 0,
        }
    }
}

/// How an attempt sees files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileView {
    /// The directory of the team file. Recorded paths are relative to it.
    pub base: PathBuf,
    /// File contents that the attempt sees instead of those on disk, by recorded path.
    pub files: BTreeMap<String, PathContent>,
    /// The files that the host itself saves; the attempt does not see them.
    pub hidden: HiddenStorage,
}

/// A function of a component.
#[derive(Clone, Debug)]
pub enum EntryPoint {
    /// `handler.run`.
    Run {
        /// The action's name.
        action: String,
        /// The action's index.
        index: u32,
        /// The planned task that it carries out.
        task: Option<Task>,
        /// What makes it a tool call; `None` if it is none.
        tool_call: Option<ToolCallInput>,
    },
    /// `planner.plan`.
    Plan {
        /// The action's name.
        action: String,
        /// The action's index.
        index: u32,
    },
    /// `thinker.choose`.
    Choose {
        /// How many choices were made before.
        round: u32,
        /// The actions to choose from.
        candidates: Vec<Candidate>,
    },
}

/// What an action is told about the tool call that it carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallInput {
    /// The arguments: a JSON object that follows the input schema of the tool.
    pub arguments: Json,
    /// The number of the model's reply that asks for the call, counted from 0 in each activation.
    pub turn: u32,
    /// The position of the call in that reply, counted from 0.
    pub call: u32,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct SandboxOutcome {
    /// What it returned, or its fault.
    pub result: Result<AttemptOutput, Fault>,
    /// The resources it used.
    pub usage: ResourceUsage,
    /// What people may want to know of it.
    pub notes: AttemptNotes,
}

/// What people may want to know of an attempt besides its result. Nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptNotes {
    /// What it logged or wrote to its standard streams; `None` if nothing. A fault has these lines, too.
    pub logged: Option<Logged>,
    /// The paths outside of the granted directories that it looked for, without duplicates.
    pub denied_lookups: Vec<String>,
}

/// The results of a successful attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOutput {
    /// The return value of the function.
    pub value: ReturnValue,
    /// The messages that it emitted, in order.
    pub emissions: Vec<Draft>,
    /// The writes to its state, in order.
    pub writes: Vec<Write>,
    /// The changes to files, by path.
    pub files: Vec<FileChange>,
    /// The contents of those files, before and after, and the bytes of the images and files that it
    /// created for its messages.
    pub blobs: Blobs,
    /// What it asks to replace in the conversation of its role.
    pub memory: Option<MemoryRequest>,
}

/// The return value of one of a component's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReturnValue {
    /// The result of `handler.run`.
    Output(Draft),
    /// The result of `planner.plan`.
    Tasks(Vec<Task>),
    /// The result of `thinker.choose`: an index, or -1.
    Choice(i32),
}

/// The resources that an attempt used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Time inside the guest, in microseconds.
    pub cpu_us: u64,
    /// The peak of its memory, in bytes.
    pub peak_memory_bytes: u64,
    /// The number of host functions it called.
    pub host_calls: u32,
}
