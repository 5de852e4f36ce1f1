//! Components: loads them from bytes until they can be called. A component is checked, compiled,
//! linked, and called once to describe itself.
//!
//! `load_error` has the errors, `linked` does the linking, and `attempt` runs calls.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::{Deserialize, Serialize};
use strata_base::files::blob::digest_of;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_services::gateway::Gateway;
use strata_services::plugin::Limits;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::attempt_slots::AttemptSlots;
use super::debug_info::DebugInfo;
use super::engine::cache::{CacheEntry, CompileCache, portable_key};
use super::engine::{Allocation, CacheHealth, Engines, Metering, SandboxUse};
use super::foreign_component::FunctionError;
use super::{AttemptFuture, Sandbox, SandboxCall, SandboxError, attempt};

pub use component_bytes::ComponentBytes;
pub(super) use linked::LinkedComponent;
pub use load_error::LoadError;
use registry::{LoadedComponent, SharedComponents, TeamComponents};
pub use script::{InterpreterComponent, ModuleFile, ScriptFile, ScriptModules, ScriptSource};
pub(super) use translation::LoadedScript;

mod compile;
mod component_bytes;
mod describe;
mod linked;
mod load_error;
mod part_count;
mod registry;
mod script;
mod translation;

/// The interface that all actions export.
const HANDLER: &str = "strata:action/handler@0.2.0";
/// The optional interface of components that choose.
const THINKER: &str = "strata:action/thinker@0.2.0";
/// The optional interface of components that plan.
const PLANNER: &str = "strata:action/planner@0.2.0";

/// Which of the host's interfaces a component exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exports {
    /// Whether it is an action. Functions of other components can be called too.
    pub handler: bool,
    /// Whether it can choose for a `react` role.
    pub thinker: bool,
    /// Whether it can plan for a `plan_and_act` role.
    pub planner: bool,
}

/// A component's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentManifest {
    /// A short name.
    pub name: String,
    /// A semantic version.
    pub version: String,
    /// What it does, and when to choose it.
    pub description: String,
    /// The JSON Schema of its `config`, as text.
    pub config_schema: Option<String>,
    /// The JSON Schema of the arguments that it takes as a tool, as text.
    pub input_schema: Option<String>,
    /// The JSON Schema of the `data` it returns, as text.
    pub output_schema: Option<String>,
    /// The capabilities it cannot work without.
    pub needs: Vec<String>,
}

/// What is known of a loaded component, which can be called by its digest.
#[derive(Clone, Debug)]
pub struct ComponentInfo {
    /// The SHA-256 of its bytes.
    pub digest: Digest,
    /// The interfaces it exports.
    pub exports: Exports,
    /// Its description of itself; empty for a component that does not use the host's interfaces.
    pub manifest: Arc<ComponentManifest>,
    /// Why a script does not describe itself completely.
    pub problem: Option<Arc<ScriptProblem>>,
}

/// Why a script does not describe itself completely. It can be called nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptProblem {
    /// It has a syntax error, or exports nothing that can be called, so each call fails.
    Unusable {
        /// The name of the script, or of a file of its directory.
        file: String,
        /// The line, from 1, if it is in one.
        line: Option<u32>,
        /// The column, from 1, if that is known.
        column: Option<u32>,
        /// What is wrong.
        message: String,
    },
    /// Its interpreter could not describe it, for this reason.
    Undescribed(String),
}

/// Runs the components of a team: those that this value or a clone of it has loaded. They stay
/// loaded as long as one of them exists.
#[derive(Clone)]
pub struct WasmSandbox {
    inner: Arc<SandboxInner>,
    team_components: Arc<TeamComponents>,
}

/// Shared by the teams of this process: a pool reserves terabytes of address space, and a few dozen
/// pools do not fit.
static SHARED: Mutex<Weak<SandboxInner>> = Mutex::new(Weak::new());

struct SandboxInner {
    engines: Engines,
    cache: CompileCache,
    /// Has at most as many entries as the teams of this process have components.
    shared_components: SharedComponents,
    attempt_slots: AttemptSlots,
    /// Held while a component describes itself. Only one does so at a time, so that it never takes
    /// the slot of an attempt.
    describing: Mutex<()>,
}

/// What is cached beside the code of a component.
#[derive(Serialize, Deserialize)]
struct CachedDescription {
    #[serde(flatten)]
    manifest: ComponentManifest,
    /// Whether its bytes contain debug information, which is not cached.
    has_debug_info: bool,
}

/// The purpose of loading a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadPurpose {
    /// To call its handler.
    Action,
    /// To call its other functions.
    Functions,
}

impl WasmSandbox {
    /// Sets up the engine, with compiled code cached in the user's cache directory if there is one.
    /// All teams of a process share it as long as one of them exists, and a component that several
    /// of them load is compiled once.
    pub fn new() -> Result<Self, SandboxError> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = shared.upgrade() {
            return Ok(Self::from_inner(inner));
        }
        let sandbox = Self::with_cache(CompileCache::user_cache(), SandboxUse::Teams)?;
        *shared = Arc::downgrade(&sandbox.inner);
        Ok(sandbox)
    }

    /// Sets up a separate engine for a few calls, one after another. It has a small pool and uses
    /// the same compiled code.
    pub fn one_shot() -> Result<Self, SandboxError> {
        Self::with_cache(CompileCache::user_cache(), SandboxUse::OneShot)
    }

    /// Sets up the engine, with compiled code cached in this directory, which is created if it is
    /// missing. A directory that other users can enter is not used.
    pub fn caching_in(dir: &Path) -> Result<Self, SandboxError> {
        Self::with_cache(CompileCache::in_directory(dir), SandboxUse::Teams)
    }

    /// Sets up the engine without a cache: each component is compiled anew.
    pub fn uncached() -> Result<Self, SandboxError> {
        Self::with_cache(CompileCache::disabled(), SandboxUse::Teams)
    }

    /// Sets up an engine that writes the code of each component that is loaded into a directory, from where
    /// it is installed with the program. The code runs on every processor of this architecture.
    pub fn portable(dir: &Path) -> Result<Self, SandboxError> {
        Self::with_cache(CompileCache::portable(dir), SandboxUse::Portable)
    }

    /// Returns the name of the file with the code of a component that [`portable`](Self::portable) writes.
    pub fn portable_code_name(digest: &Digest) -> String {
        portable_key(digest)
    }

    /// Returns whether compiled code of a component is cached or installed, so that loading it takes no time.
    pub fn is_compiled(&self, digest: &Digest, metering: Metering) -> bool {
        let engine = self.inner.engines.get(metering);
        engine.is_ok_and(|engine| {
            let cache = &self.inner.cache;
            let is_installed = metering == Metering::Plain && cache.has_installed(digest);
            is_installed || cache.contains(&cache.key(digest, engine))
        })
    }

    /// Returns whether the code of components that are compiled is kept for later processes.
    pub fn keeps_compiled(&self) -> bool {
        self.inner.cache.is_enabled()
    }

    fn with_cache(cache: CompileCache, work: SandboxUse) -> Result<Self, SandboxError> {
        Ok(Self::from_inner(Arc::new(SandboxInner {
            engines: Engines::new(work)?,
            cache,
            shared_components: SharedComponents::default(),
            attempt_slots: AttemptSlots::new(work.max_attempts() as usize),
            describing: Mutex::default(),
        })))
    }

    /// Creates a sandbox with nothing loaded.
    fn from_inner(inner: Arc<SandboxInner>) -> Self {
        Self {
            inner,
            team_components: Arc::default(),
        }
    }

    /// Returns where attempts get their memory.
    pub fn allocation(&self) -> Allocation {
        self.inner.engines.allocation
    }

    /// Returns the state of the cache of compiled code.
    pub fn cache_health(&self) -> CacheHealth {
        self.inner.cache.health()
    }

    /// Loads a component. Loading it again only computes its digest.
    ///
    /// Calls with a fuel limit need a component that was loaded with `Metering::Fuel`, others with
    /// `Metering::Plain`. Compiling takes a few milliseconds for a small component and seconds for
    /// a language runtime.
    pub fn load(&self, bytes: &[u8], metering: Metering) -> Result<ComponentInfo, LoadError> {
        self.load_within(bytes, metering, &Limits::default())
    }

    /// Loads a component within its own limits on its size, the time to compile it, and the resources
    /// to describe itself if it has not done so before.
    pub fn load_within(
        &self,
        bytes: &[u8],
        metering: Metering,
        limits: &Limits,
    ) -> Result<ComponentInfo, LoadError> {
        self.load_with_digest(digest_of(bytes), &bytes, metering, limits)
    }

    /// Loads a component whose digest is known already. The bytes are only read if they are needed.
    pub fn load_with_digest(
        &self,
        digest: Digest,
        bytes: &dyn ComponentBytes,
        metering: Metering,
        limits: &Limits,
    ) -> Result<ComponentInfo, LoadError> {
        self.load_for(LoadPurpose::Action, digest, bytes, metering, limits)
    }

    /// Loads a component that need not export the handler of actions, because only its functions are
    /// called.
    pub fn load_without_handler(
        &self,
        digest: Digest,
        bytes: &dyn ComponentBytes,
        metering: Metering,
        limits: &Limits,
    ) -> Result<ComponentInfo, LoadError> {
        self.load_for(LoadPurpose::Functions, digest, bytes, metering, limits)
    }

    /// Checks that a function of a loaded component can be called as an action with this
    /// configuration.
    pub fn check_function(
        &self,
        digest: &Digest,
        metering: Metering,
        function: &str,
        config: &Json,
    ) -> Result<(), FunctionError> {
        let component = self.team_components.get(digest, metering);
        let component = component
            .expect("a component is loaded, with its metering, before a function of it is checked");
        component.linked.functions().check(function, config)
    }

    fn load_for(
        &self,
        wanted: LoadPurpose,
        digest: Digest,
        bytes: &dyn ComponentBytes,
        metering: Metering,
        limits: &Limits,
    ) -> Result<ComponentInfo, LoadError> {
        compile::check_size(bytes.size(), limits)?;
        let component = match self.find_loaded(&digest, metering) {
            Some(component) => component,
            None => self.register(
                metering,
                self.compile_or_load_cached(bytes, &digest, metering, limits)?,
            ),
        };
        match wanted {
            LoadPurpose::Action => component.linked.check_handler()?,
            LoadPurpose::Functions => {}
        }
        Ok(component.info.clone())
    }

    /// Waits until no component of this process describes itself.
    fn describe_alone(&self) -> MutexGuard<'_, ()> {
        let describing = self.inner.describing.lock();
        describing.unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, metering: Metering, component: LoadedComponent) -> Arc<LoadedComponent> {
        let component = self
            .inner
            .shared_components
            .get_or_insert(metering, component);
        self.team_components.insert(metering, &component);
        component
    }

    /// Returns a component that this team or another one has loaded.
    fn find_loaded(&self, digest: &Digest, metering: Metering) -> Option<Arc<LoadedComponent>> {
        self.team_components.get(digest, metering).or_else(|| {
            let component = self.inner.shared_components.get(digest, metering)?;
            self.team_components.insert(metering, &component);
            Some(component)
        })
    }

    fn compile_or_load_cached(
        &self,
        bytes: &dyn ComponentBytes,
        digest: &Digest,
        metering: Metering,
        limits: &Limits,
    ) -> Result<LoadedComponent, LoadError> {
        let engine = self.inner.engines.get(metering)?;
        let ticker = self.inner.engines.ticker();
        let key = self.inner.cache.key(digest, engine);
        let load_from_cache = || -> Result<Option<LoadedComponent>, LoadError> {
            let cached = Self::load_cached(engine, self.inner.cache.get(&key));
            let cached = cached.or_else(|| match metering {
                Metering::Plain => {
                    Self::load_cached(engine, self.inner.cache.get_installed(digest))
                }
                Metering::Fuel => None,
            });
            let Some((component, description)) = cached else {
                return Ok(None);
            };
            let debug_info = if description.has_debug_info {
                DebugInfo::collect(bytes.read()?)
            } else {
                DebugInfo::default()
            };
            let linked = LinkedComponent::new(&component, debug_info, metering, ticker)?;
            Ok(Some(loaded_component(linked, digest, description.manifest)))
        };
        if let Some(loaded) = load_from_cache()? {
            return Ok(loaded);
        }
        // If another process is compiling the component, this waits for it and then finds it in the
        // cache.
        let _turn = self.inner.cache.lock_for_compiling(digest);
        if let Some(loaded) = load_from_cache()? {
            return Ok(loaded);
        }
        let bytes = bytes.read()?;
        load_error::check_header(bytes)?;
        // The digest of a file may be remembered from an earlier run.
        if digest_of(bytes) != *digest {
            return Err(LoadError::OtherBytes);
        }
        tracing::debug!("compiling component {digest}");
        let component = compile::compile(engine, bytes, limits)?;
        let debug_info = DebugInfo::collect(bytes);
        let has_debug_info = !debug_info.is_empty();
        let linked = LinkedComponent::new(&component, debug_info, metering, ticker)?;
        let manifest = {
            let _alone = self.describe_alone();
            if linked.exports().handler {
                describe::describe_component(&linked, limits)?
            } else {
                ComponentManifest::default()
            }
        };
        let description = CachedDescription {
            manifest,
            has_debug_info,
        };
        if let (Ok(code), Ok(text)) = (component.serialize(), serde_json::to_vec(&description)) {
            self.inner.cache.put(&key, &text, &code);
        }
        Ok(loaded_component(linked, digest, description.manifest))
    }

    /// Returns the cached component. Any defect of the cached data counts as its absence.
    fn load_cached(
        engine: &Engine,
        entry: Option<CacheEntry>,
    ) -> Option<(Component, CachedDescription)> {
        let entry = entry?;
        let description = serde_json::from_slice(entry.manifest()).ok()?;
        Some((entry.component(engine)?, description))
    }
}

impl Sandbox for WasmSandbox {
    fn call(&self, call: SandboxCall, gateway: Gateway) -> AttemptFuture {
        let metering = match call.plugin.limits.fuel {
            None => Metering::Plain,
            Some(_) => Metering::Fuel,
        };
        let component = self.team_components.get(&call.digest, metering);
        let component =
            component.expect("a component is loaded, with its metering, before it is called");
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            // Waiting for a slot does not count against the guest's time.
            let _slot = inner.attempt_slots.acquire(call.level).await;
            attempt::run(&component.linked, component.script.as_ref(), call, gateway).await
        })
    }
}

fn loaded_component(
    linked: LinkedComponent,
    digest: &Digest,
    manifest: ComponentManifest,
) -> LoadedComponent {
    let info = ComponentInfo {
        digest: digest.clone(),
        exports: linked.exports(),
        manifest: Arc::new(manifest),
        problem: None,
    };
    LoadedComponent {
        linked: Arc::new(linked),
        info,
        script: None,
    }
}
