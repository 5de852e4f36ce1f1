//! Loads a team's components: builds those given as source, loads them, and compares what they need
//! with what the team grants. No component is run.

mod config_check;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_base::advice::{Advice, Hint};
use strata_base::files::known_files::KnownFiles;
use strata_base::text::suggest::suggest;
use strata_core::record::id::{ActionId, Digest, RoleId, Slot, SlotKind};
use strata_core::team::React;
use strata_driver::HostServices;
use strata_manifest::interface::component;
use strata_manifest::submission::submitted_files;
use strata_manifest::trust::lock::{ComponentLock, LockMismatch, LockedName};
use strata_manifest::{
    Definition, Diagnostic, Diagnostics, grantable_capabilities, is_always_available, line_to_add,
    read_replies_file,
};
use strata_sandbox::{
    ComponentInfo, ComponentManifest, Directories, FunctionError, HiddenStorage, Metering,
    WasmSandbox, resolve_links,
};
use strata_services::external::{ExternalConnection, ExternalEndpoint};
use strata_services::http::HttpClient;
use strata_services::http::secrets::Secrets;
use strata_services::mcp::{LockedTools, McpServers};
use strata_services::models::Models;
use strata_services::models::config::ConfigError;
use strata_services::plugin::{Limits, Plugin};
use strata_services::tools::ToolRole;

use super::skill_lock;
use super::source::{self, ComponentFinder, ComponentSource, UnloadableComponent, known_digests};
use super::{LaunchError, Notice};
use crate::bundle::path_in_bundle;

/// A team's components, loaded and checked.
pub struct Components {
    loaded: BTreeMap<Slot, ComponentInfo>,
    tool_roles: BTreeMap<RoleId, Arc<ToolRole>>,
    /// The lock file, if there is one.
    lock: Option<ComponentLock>,
}

impl Components {
    /// Loads every component of a team. All problems are reported together.
    pub fn load(
        definition: &Definition,
        sandbox: &WasmSandbox,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Self, Diagnostics> {
        definition.check_ready()?;
        let lock = ComponentLock::read_in(&definition.source.base);
        let lock = lock.map_err(|error| {
            let problem = Diagnostic::new(error.to_string());
            Diagnostics::from(problem.with_optional_hint(error.advice()))
        })?;
        skill_lock::check_skills(definition, lock.as_ref())?;
        let mut loading = ComponentLoader {
            definition,
            sandbox,
            lock,
            known_digests: known_digests(),
            sources: BTreeMap::new(),
            loaded: BTreeMap::new(),
        };
        let mut loaded = BTreeMap::new();
        let mut problems: Vec<(Slot, Diagnostics)> = Vec::new();
        let mut unloadable: BTreeMap<UnloadableReason, Vec<Slot>> = BTreeMap::new();
        for (slot, plugin) in &definition.plugins {
            match loading.load(*slot, plugin, report) {
                Ok(component) => {
                    loaded.insert(*slot, component);
                }
                Err(LoadProblem::InSlot(problem)) => problems.push((*slot, problem)),
                Err(LoadProblem::Unloadable(why)) => unloadable.entry(why).or_default().push(*slot),
            }
        }
        problems.extend(
            unloadable
                .into_iter()
                .map(|(why, slots)| (slots[0], unloadable_in(definition, why, &slots))),
        );
        problems.sort_by_key(|(slot, _)| *slot);
        match problems
            .into_iter()
            .map(|(_, problem)| problem)
            .reduce(Diagnostics::and)
        {
            Some(problems) => Err(problems),
            None => Ok(Self {
                tool_roles: tools::describe_tools(
                    definition,
                    &loaded,
                    loading.lock.as_ref(),
                    report,
                )?,
                loaded,
                lock: loading.lock,
            }),
        }
    }

    /// Returns the digest of each slot's component.
    pub fn digests(&self) -> BTreeMap<Slot, Digest> {
        self.loaded
            .iter()
            .map(|(slot, component)| (*slot, component.digest.clone()))
            .collect()
    }

    /// Fails if a script has a syntax error, or exports nothing that can be called. A team can run nevertheless, until the
    /// script is called.
    pub fn check_scripts(&self, definition: &Definition) -> Result<(), Diagnostics> {
        let errors = self.loaded.iter().filter_map(|(slot, info)| {
            let path = &definition.plugins.get(slot)?.component;
            let error = source::unusable_script(path, info)?;
            Some(definition.component_problem(*slot, error))
        });
        errors.reduce(Diagnostics::and).map_or(Ok(()), Err)
    }

    /// Returns warnings about what components do not say of themselves.
    pub fn description_warnings(&self, definition: &Definition) -> Vec<String> {
        tools::description_warnings(definition, &self.loaded, &self.tool_roles)
    }

    /// Returns what the component in a slot says about itself.
    pub(super) fn manifest(&self, slot: Slot) -> Option<Arc<ComponentManifest>> {
        let info = self.loaded.get(&slot)?;
        Some(Arc::clone(&info.manifest))
    }

    /// Returns the schema that the component in a slot declares for its arguments as a tool.
    pub(super) fn input_schema(&self, slot: Slot) -> Option<&str> {
        self.loaded.get(&slot)?.manifest.input_schema.as_deref()
    }

    /// Returns what a driver needs to run the team. The files in `own` are hidden from guests.
    pub fn services(
        &self,
        definition: &Definition,
        sandbox: WasmSandbox,
        own: HiddenStorage,
    ) -> Result<HostServices, LaunchError> {
        let bridge =
            |external: &ExternalEndpoint| ExternalConnection::new(external.clone(), own.storage());
        let external = definition.external.as_ref().map(bridge);
        let http = Arc::new(HttpClient::new(read_secrets(definition)?)?);
        Ok(HostServices {
            models: load_models(definition)?.map(Arc::new),
            mcp: load_servers(definition, &http, self.lock.as_ref()),
            http,
            external,
            ..self.offline_services(definition, sandbox, own)?
        })
    }

    /// Returns what a driver needs to run the team without reaching anything: no models, no
    /// secrets, no external program.
    pub(super) fn offline_services(
        &self,
        definition: &Definition,
        sandbox: WasmSandbox,
        own: HiddenStorage,
    ) -> Result<HostServices, LaunchError> {
        let plugins: BTreeMap<Slot, Arc<Plugin>> = definition
            .plugins
            .iter()
            .map(|(slot, plugin)| (*slot, Arc::new(with_real_paths(plugin))))
            .collect();
        let description = |(slot, component): (&Slot, &ComponentInfo)| {
            (*slot, component.manifest.description.clone())
        };
        let dirs = plugins.values().flat_map(|plugin| &plugin.grants.dirs);
        let directories =
            Directories::new(&resolve_links(definition.directories_base()), dirs).hiding(own);
        Ok(HostServices {
            sandbox: Arc::new(sandbox),
            plugins,
            descriptions: self.loaded.iter().map(description).collect(),
            tool_roles: self.tool_roles.clone(),
            choice_timeout: definition.choice_timeout.clone(),
            models: None,
            http: Arc::new(HttpClient::new(Secrets::new(BTreeMap::new()))?),
            mcp: None,
            external: None,
            directories,
        })
    }
}

/// Returns the plugin with the real paths of its directories, so that a directory granted through a
/// symbolic link counts as the same directory.
fn with_real_paths(plugin: &Plugin) -> Plugin {
    let mut plugin = plugin.clone();
    for dir in &mut plugin.grants.dirs {
        dir.host = resolve_links(&dir.host);
    }
    plugin
}

/// Returns the team's language models, if it uses any.
fn load_models(definition: &Definition) -> Result<Option<Models>, LaunchError> {
    let Some(llm) = &definition.llm else {
        return Ok(None);
    };
    let read_replies = |file: &Path| Ok(read_replies_file(file)?);
    let models = Models::new(llm, &definition.variables, &read_replies);
    let models = models.map_err(|error| match error {
        ConfigError::ApiKey {
            model,
            name,
            problem,
        } => {
            let message =
                format!("the model's API key is read from the environment variable `{name}`, which {problem}");
            LaunchError::Definition(definition.api_key_problem(&model, &name, message))
        }
        ConfigError::Replies(problems) => match problems.downcast::<Diagnostics>() {
            Ok(problems) => LaunchError::Definition(*problems),
            Err(other) => LaunchError::Model(ConfigError::Replies(other)),
        },
        error => LaunchError::Model(error),
    });
    models.map(Some)
}

/// Returns the team's MCP servers, if it has any. None of them is started.
pub(super) fn load_servers(
    definition: &Definition,
    http: &Arc<HttpClient>,
    lock: Option<&ComponentLock>,
) -> Option<Arc<McpServers>> {
    if definition.mcp.is_empty() {
        return None;
    }
    let mut configs = definition.mcp.clone();
    if let Some(files) = submitted_files(definition) {
        // A submitted team has no directory but its workspace.
        for server in configs.values_mut() {
            server.move_into(&files.workspace);
        }
    }
    let granted = definition.granted_server_tools();
    for (name, server) in &mut configs {
        let tools = lock.and_then(|lock| lock.server_tools(name));
        server.locked = tools.map(|tools| LockedTools {
            granted: granted.get(name).cloned().unwrap_or_default(),
            tools: tools.clone(),
        });
    }
    let variables = definition.variables.clone();
    Some(Arc::new(McpServers::new(configs, http.clone(), variables)))
}

/// Reads the secrets that a team's grants name.
pub(super) fn read_secrets(definition: &Definition) -> Result<Secrets, Diagnostics> {
    let names = definition
        .plugins
        .values()
        .flat_map(|plugin| plugin.grants.secrets())
        .chain(definition.mcp.values().flat_map(|server| server.secrets()));
    Secrets::read(&definition.variables, names.map(String::as_str)).map_err(|missing| {
        let problems = missing
            .iter()
            .filter_map(|secret| definition.secret_problem(&secret.name, &secret.to_string()));
        // Every name comes from a grant, and every grant is written somewhere in the file.
        problems
            .reduce(Diagnostics::and)
            .expect("a secret is named somewhere")
    })
}

/// The components of a team while they are loaded. Several slots often share one.
struct ComponentLoader<'a> {
    definition: &'a Definition,
    sandbox: &'a WasmSandbox,
    lock: Option<ComponentLock>,
    known_digests: KnownFiles,
    sources: BTreeMap<SourceKey, Result<ComponentSource, UnloadableComponent>>,
    loaded: BTreeMap<LoadKey, Result<ComponentInfo, UnloadableComponent>>,
}

/// The values that determine which component is found: its path, the maximum size, and the digest that
/// it must have.
type SourceKey = (PathBuf, u64, Option<Digest>);

/// The reason why a component cannot be used in a slot.
enum LoadProblem {
    /// It cannot be used in this slot.
    InSlot(Diagnostics),
    /// It cannot be loaded at all.
    Unloadable(UnloadableReason),
}

/// Why a component cannot be loaded at all.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnloadableReason {
    message: String,
    advice: Option<Advice>,
}

impl From<Diagnostics> for LoadProblem {
    fn from(problem: Diagnostics) -> Self {
        Self::InSlot(problem)
    }
}

/// Returns the problem of a component that cannot be loaded. It is reported once for all its slots,
/// because the output of a compiler is long.
fn unloadable_in(definition: &Definition, why: UnloadableReason, slots: &[Slot]) -> Diagnostics {
    let name = |slot: &Slot| {
        format!(
            "`{}` ({})",
            definition.team.slot_name(*slot),
            definition.location(*slot)
        )
    };
    let problem = match slots.first() {
        Some(first) => definition.component_diagnostic(*first, why.message),
        None => Diagnostic::new(why.message),
    };
    let problem = problem.with_optional_hint(why.advice);
    match slots.get(1..) {
        None | Some([]) => problem.into(),
        Some(others) => {
            let others: Vec<String> = others.iter().map(name).collect();
            let hint = format!("the same applies to {}", others.join(", "));
            problem.hint(hint).into()
        }
    }
}

/// The values that determine whether and how a component can be loaded.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LoadKey {
    path: PathBuf,
    counts_fuel: bool,
    /// Whether it exports the action interface, rather than plain functions.
    is_action: bool,
    bytes: u64,
    compile: Duration,
}

impl LoadKey {
    fn from_plugin(plugin: &Plugin) -> Self {
        let Limits {
            fuel,
            component_bytes,
            compile,
            ..
        } = plugin.limits;
        Self {
            path: plugin.component.clone(),
            counts_fuel: fuel.is_some(),
            is_action: plugin.function.is_none(),
            bytes: component_bytes,
            compile,
        }
    }
}

impl ComponentLoader<'_> {
    /// Loads the component of a slot. It is compiled only if it may be loaded.
    fn load(
        &mut self,
        slot: Slot,
        plugin: &Plugin,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<ComponentInfo, LoadProblem> {
        let (definition, sandbox, path) = (self.definition, self.sandbox, &plugin.component);
        let refuse = |why: &UnloadableComponent| {
            LoadProblem::Unloadable(UnloadableReason {
                message: why.message_for(plugin),
                advice: why.advice.clone(),
            })
        };
        let demanded = demanded_digest(definition, slot, plugin, self.lock.as_ref());
        let finder = ComponentFinder {
            limit: plugin.limits.component_bytes,
            trusted: &definition.trust,
            known: &self.known_digests,
            demanded: demanded.clone(),
        };
        let source = self
            .sources
            .entry((path.clone(), finder.limit, demanded))
            .or_insert_with(|| {
                let found = finder.find(path, &mut |line| report(Notice::Busy(line)))?;
                if let Some(warning) = &found.warning {
                    report(Notice::Warning(warning));
                }
                Ok(found)
            });
        let source = source.as_ref().map_err(refuse)?;
        check_trust(definition, slot, plugin, source, self.lock.as_ref())?;
        let load = || {
            if let Some(line) = source.compile_notice(sandbox, plugin) {
                report(Notice::Busy(&line));
            }
            source.load(sandbox, plugin)
        };
        let loaded = self
            .loaded
            .entry(LoadKey::from_plugin(plugin))
            .or_insert_with(load);
        let mut info = loaded.as_ref().map_err(refuse)?.clone();
        if let Some(function) = &plugin.function {
            let checked = sandbox.check_function(
                &info.digest,
                Metering::for_limits(&plugin.limits),
                function,
                &plugin.config,
            );
            checked.map_err(|error| uncallable_function(definition, slot, &error))?;
            // A plain component has no manifest. The documentation of its function is used instead.
            let bytes = source.bytes().map_err(|why| refuse(&why))?;
            info.manifest = Arc::new(component::function_manifest(bytes, function));
        }
        check_exports_and_grants(definition, slot, plugin, &info)?;
        if plugin.function.is_none() {
            config_check::check_config(definition, slot, plugin, &info, report)?;
        }
        Ok(info)
    }
}

/// The name of a component in the lock file.
struct LockedComponentName {
    name: LockedName,
    /// Whether it was submitted. The lock of a submitted team is about what was submitted.
    is_submitted: bool,
    /// Whether the lock is about it. A component given on the command line is not bound by the lock,
    /// which is about the one it replaces.
    is_bound: bool,
}

impl LockedComponentName {
    fn of(definition: &Definition, slot: Slot, plugin: &Plugin) -> Self {
        let base = &definition.source.base;
        let submitted = if definition.is_submitted() {
            path_in_bundle(&plugin.component, base)
        } else {
            None
        };
        Self {
            is_submitted: submitted.is_some(),
            is_bound: submitted.is_some() || !definition.is_overridden(slot),
            name: match &submitted {
                Some(path) => LockedName::of_submitted(path),
                None => {
                    LockedName::for_component(&plugin.component, definition.skill_name(slot), base)
                }
            },
        }
    }
}

/// Returns the digest that a component must have according to the team file or the lock.
pub(super) fn demanded_digest(
    definition: &Definition,
    slot: Slot,
    plugin: &Plugin,
    lock: Option<&ComponentLock>,
) -> Option<Digest> {
    if let Some(pin) = &plugin.pin {
        return Some(Digest(pin.clone()));
    }
    let locked = LockedComponentName::of(definition, slot, plugin);
    let lock = lock.filter(|_| locked.is_bound)?;
    Some(lock.get(&locked.name)?.sha256.clone())
}

/// Checks whether a component may be loaded: that its digest is the pinned and the locked one, and
/// that it is signed as required.
fn check_trust(
    definition: &Definition,
    slot: Slot,
    plugin: &Plugin,
    source: &ComponentSource,
    lock: Option<&ComponentLock>,
) -> Result<(), Diagnostics> {
    if let Some(pin) = plugin.pin.as_ref().filter(|pin| **pin != source.digest.0) {
        let message = format!(
            "the component's sha256 is `{}`, but the team file pins `{pin}`",
            source.digest
        );
        return Err(definition.pin_problem(slot, message));
    }
    let locked = LockedComponentName::of(definition, slot, plugin);
    let lock = lock.filter(|_| locked.is_bound);
    if let Some(mismatch) =
        lock.and_then(|lock| lock.check(&locked.name, source.lock_entry()).err())
    {
        let team_file = PathBuf::from(&definition.source.name);
        let hint = match mismatch {
            _ if locked.is_submitted => {
                "it is not the one that was submitted; submit the team again".into()
            }
            LockMismatch::Changed { .. } => Hint::Advice(Advice::RestoreOrLock { team_file }),
            // No component was ever locked under this name.
            LockMismatch::Unlocked { .. } => Hint::Advice(Advice::LockComponent { team_file }),
        };
        return Err(definition.component_refusal(slot, mismatch.to_string(), hint));
    }
    let signed = source.signed.as_ref();
    signed.map_or_else(
        |why| Err(definition.component_refusal(slot, why.to_string(), why.hint())),
        |()| Ok(()),
    )
}

/// Returns the problem of a function that cannot be called, located where the team file names it.
fn uncallable_function(definition: &Definition, slot: Slot, error: &FunctionError) -> Diagnostics {
    let hint = match error {
        FunctionError::Unknown { function, known } => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            suggest(function, &known)
        }
        FunctionError::NotJson { .. } | FunctionError::Config { .. } => None,
    };
    definition.function_problem(slot, error.to_string(), hint)
}

/// Checks whether a component exports what its slot requires, and whether everything it needs is
/// granted.
fn check_exports_and_grants(
    definition: &Definition,
    slot: Slot,
    plugin: &Plugin,
    component: &ComponentInfo,
) -> Result<(), Diagnostics> {
    let role = definition.team.role(slot.role);
    let missing = match slot.kind {
        SlotKind::Think if !component.exports.thinker => {
            Some("thinks, so its component must export `thinker`")
        }
        SlotKind::Action(ActionId(0))
            if role.react == React::PlanAndAct && !component.exports.planner =>
        {
            Some("plans, so its component must export `planner`")
        }
        _ => None,
    };
    if let Some(missing) = missing {
        let (name, part) = (&role.name, role.component_name(slot.kind));
        return Err(
            definition.component_problem(slot, format!("`{part}` of role `{name}` {missing}"))
        );
    }
    let refuse = |need: &String| {
        let needs = format!(
            "`{}` of role `{}` needs `{need}`",
            role.component_name(slot.kind),
            role.name
        );
        if is_always_available(need) {
            return None;
        }
        let grantable = grantable_capabilities();
        if !grantable.contains(&need.as_str()) {
            let known = grantable.join("`, `");
            let message = format!("{needs}, which this host does not have; it can grant `{known}`");
            return Some(definition.component_problem(slot, message));
        }
        let line = line_to_add(&plugin.grants, need)?;
        Some(definition.missing_grant(slot, format!("{needs}, which it is not granted"), line))
    };
    component
        .manifest
        .needs
        .iter()
        .filter_map(refuse)
        .reduce(Diagnostics::and)
        .map_or(Ok(()), Err)
}
