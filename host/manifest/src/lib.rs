//! Reads and checks a team file (`team.toml`), and turns it into a [`Definition`]: the team and its
//! plugins. Nothing is run here, and no component is opened.
//!
//! There are three stages, each in its own module: `authored` reads every key with its type,
//! default and position; `check` resolves names and checks targets, modes and conditions; the
//! result is a `Definition`. All problems of a file are reported at once.
//!
//! ```
//! use std::path::Path;
//!
//! use strata_manifest::Definition;
//!
//! let text = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n[[role]]\nname = \"A\"\nwatch = [\"x\"]\n";
//! let problems = Definition::parse_without_files(text, "team.toml", Path::new("/")).unwrap_err();
//! assert!(problems.to_string().contains("team.toml:4"));
//! ```
//!
//! It reads files, and starts neither components nor runs. Beside team files it knows the policies that bind them
//! ([`operator`]), which components are trusted ([`trust`]), components as JSON Schema ([`interface`]), and the
//! shelf ([`skills`]).

mod address;
mod advice;
mod authored;
mod check;
mod component_location;
mod condition;
pub mod diagnostic;
pub mod edited;
mod grants;
pub mod interface;
mod json;
mod models;
mod names;
pub mod operator;
mod outward;
pub mod overrides;
pub mod policy;
mod replies;
pub mod schema;
mod similar_path;
mod skill;
pub mod skills;
mod source;
pub mod submission;
mod table;
pub mod trust;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::advice::Hint;
use strata_base::files::durability::Durability;
use strata_base::text::display_path::display_path;
use strata_core::record::id::{GuardMoment, RoleId, Slot, SlotKind};
use strata_core::record::money::Usd;
use strata_core::record::rules::Thinker;
use strata_core::team::{React, Team};
use strata_services::external::ExternalEndpoint;
use strata_services::mcp::config::ServerConfig;
use strata_services::models::config::{DEFAULT_MODEL, ModelsConfig, ProviderConfig};
use strata_services::plugin::{Plugin, script};
use strata_services::telemetry::TelemetrySettings;
use strata_services::tools::{ModelTimeout, ToolRole};
use strata_services::variables::Variables;

use self::component_location::{ComponentLocation, ComponentOverride};
pub use self::diagnostic::{Diagnostic, Diagnostics, Paint, SourceText};
use self::diagnostic::{Problems, ReferencedFiles};
pub use self::grants::{grantable_capabilities, is_always_available, line_to_add};
pub use self::names::team_name;
use self::operator::PolicyReduction;
pub use self::outward::{
    OutwardUse, is_confined, outward_uses, referenced_files, referenced_files_in_text,
};
pub use self::overrides::{OverrideError, Overrides};
pub use self::replies::read_replies_file;
use self::schema::FileKind;
pub use self::similar_path::{did_you_mean_path, similar_path};
pub use self::source::find_team_file;
use self::source::{parse_document, read_source};
use self::table::TomlTable;
pub use self::warnings::{unwatched_idea, warnings};
use crate::trust::signature::TrustedKeys;

/// A team with everything that is needed to run it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The text that the team was read from.
    pub source: Arc<SourceText>,
    /// The team.
    pub team: Team,
    /// The idea, that is, the task that the team is given, if the file contains one.
    pub idea: Option<String>,
    /// The plugins by their slot. Each action has one, and so does each role whose `think` is a
    /// component.
    pub plugins: BTreeMap<Slot, Plugin>,
    /// How the models of roles that work with tools are asked, by role.
    pub tool_roles: BTreeMap<RoleId, ToolRole>,
    /// How long a model may take to choose the next action of a role; `None` for as long as its own
    /// settings say.
    pub choice_timeout: Option<ModelTimeout>,
    /// The team's language model.
    pub llm: Option<ModelsConfig>,
    /// The MCP servers of the team, by name.
    pub mcp: BTreeMap<String, ServerConfig>,
    /// Where messages go that are addressed to names outside of the team.
    pub external: Option<ExternalEndpoint>,
    /// The keys with which components must be signed. Empty if any component may be loaded.
    pub trust: TrustedKeys,
    /// What is told to a collector about the run.
    pub telemetry: TelemetrySettings,
    /// How the run is persisted.
    pub run: RunConfig,
    /// Where the environment variables that the file names are looked up.
    pub variables: Variables,
    /// Whether the file sets `investment`, even if it is zero, which means no limit.
    pub declares_budget: bool,
    locations: BTreeMap<Slot, ComponentLocation>,
    react_spans: Vec<Range<usize>>,
    /// What is unusual about the skills of roles.
    skill_warnings: Vec<String>,
    /// The secrets that MCP servers name.
    server_secrets: Vec<table::Located<String>>,
    /// The span of `[env.external]`.
    external_span: Option<Range<usize>>,
    component_overrides: BTreeMap<Slot, ComponentOverride>,
    /// Where the directories of a submitted team are, instead of beside its file.
    workspace: Option<PathBuf>,
    /// The files that are read together with the team file: schemas and scripted model replies.
    /// Components are not among them.
    files: BTreeSet<PathBuf>,
    /// What the operators' policies reduced or removed.
    policy_reductions: Vec<PolicyReduction>,
    /// The lowest budget that those policies allow, and the name of the policy that sets it.
    budget_ceiling: Option<(Usd, String)>,
}

/// How a run is persisted. The other keys of `[run]` are in the team's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunConfig {
    /// What saved work survives.
    pub durability: Durability,
    /// How many checkpoints are kept; `None` keeps all of them.
    pub checkpoints_kept: Option<u32>,
}

impl Definition {
    /// Reads a team file.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Self::from_source(read_source(path, FileKind::Team)?, ReferencedFiles::Checked)
    }

    /// Reads a team file that is only inspected, not run: the files that it names need not exist.
    pub fn read_without_files(path: &Path) -> Result<Self, Diagnostics> {
        Self::from_source(read_source(path, FileKind::Team)?, ReferencedFiles::Ignored)
    }

    /// Parses the text of a team file. `name` is used in diagnostics; relative paths are relative
    /// to `base`.
    pub fn parse(text: &str, name: &str, base: &Path) -> Result<Self, Diagnostics> {
        Self::from_source(
            SourceText::new(text.to_owned(), name.to_owned(), base.to_owned()),
            ReferencedFiles::Checked,
        )
    }

    /// Parses the text of a team file that is only inspected, not run: the files that it names need
    /// not exist.
    pub fn parse_without_files(text: &str, name: &str, base: &Path) -> Result<Self, Diagnostics> {
        Self::from_source(
            SourceText::new(text.to_owned(), name.to_owned(), base.to_owned()),
            ReferencedFiles::Ignored,
        )
    }

    /// Returns the text of a team file, whether or not it describes a valid team. Returns `None` if
    /// the file cannot be read.
    pub fn read_text(path: &Path) -> Option<String> {
        read_source(path, FileKind::Team)
            .ok()
            .map(|source| source.text)
    }

    fn from_source(source: SourceText, beside: ReferencedFiles) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let file = FileKind::Team;
        let problems = Problems::new(Arc::clone(&source), file, beside);
        let document = parse_document(&source, file)?;
        let authored = authored::read_team_file(&TomlTable::root(document.get_ref(), &problems));
        let checked = check::check_team(&authored, &problems);
        let files = outward::auxiliary_files(&problems, &checked.plugins);
        problems.into_result()?;
        let mut definition = Self {
            source,
            team: checked.team,
            idea: authored.header.idea,
            plugins: checked.plugins,
            tool_roles: checked.tool_roles,
            choice_timeout: None,
            llm: authored.models.config(),
            server_secrets: authored
                .servers
                .values()
                .flat_map(|server| server.secrets.iter().cloned())
                .collect(),
            mcp: authored
                .servers
                .into_iter()
                .filter_map(|(name, server)| Some((name, server.config?)))
                .collect(),
            external_span: authored
                .env
                .external
                .as_ref()
                .map(|external| external.span.clone()),
            external: authored.env.external.map(|external| external.value),
            trust: authored.trust,
            telemetry: authored.telemetry,
            run: authored.run.config,
            variables: Variables::default(),
            declares_budget: authored.header.declares_budget,
            locations: checked.locations,
            react_spans: checked.react_spans,
            skill_warnings: checked.skill_warnings,
            component_overrides: BTreeMap::new(),
            workspace: None,
            files,
            policy_reductions: Vec::new(),
            budget_ceiling: None,
        };
        definition.link_models();
        Ok(definition)
    }

    /// Records in each grant of models which models the team has, and which of them answers requests
    /// that name none.
    fn link_models(&mut self) {
        let none = BTreeMap::new();
        let models = self.llm.as_ref().map_or(&none, |llm| &llm.models);
        for (slot, plugin) in &mut self.plugins {
            let Some(grant) = &mut plugin.grants.llm else {
                continue;
            };
            let role_model = self.team.role(slot.role).model.as_ref();
            let name = role_model.map_or(DEFAULT_MODEL, String::as_str);
            let id = models.get(name).map(|model| model.model.clone());
            grant.names = models.keys().cloned().collect();
            grant.default = match (role_model, id) {
                // The model in `[llm]` needs no name to be granted by, and a team without models
                // has none.
                (None, Some(None)) => Vec::new(),
                (None, None) if models.is_empty() => Vec::new(),
                (_, id) => std::iter::once(name.to_owned())
                    .chain(id.flatten())
                    .collect(),
            };
        }
    }

    /// Fails if something is missing without which the team cannot run: a component, or the model
    /// that chooses a role's next action.
    ///
    /// Call this after `apply`, which may replace components, and after the team has been compared
    /// with a saved one, because a difference between the two tells the user more than a missing
    /// file does.
    pub fn check_ready(&self) -> Result<(), Diagnostics> {
        let missing = self.plugins.iter().filter_map(|(slot, plugin)| {
            let named = self
                .locations
                .get(slot)
                .and_then(|place| place.skill.as_ref());
            if let Some(chosen) = named.filter(|_| !self.component_overrides.contains_key(slot)) {
                let error = skill::skill_problem(&chosen.wanted)?;
                let problem = self.component_diagnostic(*slot, error.to_string());
                return Some(problem.with_optional_hint(error.advice()).into());
            }
            if !plugin.needs_file() {
                return None;
            }
            let error = std::fs::metadata(&plugin.component).err()?;
            let path = display_path(&plugin.component);
            let (what, hint) = if script::is_script(&plugin.component) {
                (
                    "script",
                    "give a script that is there; paths are relative to the team file",
                )
            } else {
                (
                    "component",
                    "give a component, a directory with the source of one, or a script",
                )
            };
            let near =
                similar_path(&plugin.component).map(|near| self.source.relative_to_base(&near));
            let hint =
                near.map_or_else(|| hint.to_owned(), |near| format!("did you mean `{near}`?"));
            let message = format!("cannot find the {what} `{path}`: {error}");
            let problem = self.problem_at(*slot, message, |place| place.component.clone());
            Some(Diagnostics::from(problem.hint(hint)))
        });
        let undecided = self.team.role_ids().filter_map(|id| {
            let (message, hint) = match self.team.role(id).react {
                React::Choose {
                    thinker: Thinker::Model,
                    ..
                } => (
                    "nothing chooses the role's next action",
                    "add `think = { component = \"…\" }`, or an `[llm]` for the team",
                ),
                React::Tools(_) => (
                    "the role works with tools, and there is no model for it",
                    "add an `[llm]` for the team",
                ),
                _ => return None,
            };
            let span = self
                .react_spans
                .get(id.index())
                .filter(|_| !self.has_model(id))?;
            let (message, hint) = match self.removed_model(self.model_name(id)) {
                Some(removed) => (
                    format!("{message}: {removed}"),
                    "let the policy allow the model, or use one that it allows",
                ),
                None => (message.to_owned(), hint),
            };
            let problem = Diagnostic::at(&self.source, span.clone(), message);
            Some(Diagnostics::from(problem.hint(hint)))
        });
        let all = missing.chain(undecided).reduce(Diagnostics::and);
        all.map_or(Ok(()), Err)
    }

    /// Returns whether the team was submitted for a worker, and its files are unpacked.
    pub fn is_submitted(&self) -> bool {
        self.workspace.is_some()
    }

    /// Returns the directory in which the directories of the team's actions are.
    pub fn directories_base(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(&self.source.base)
    }

    /// Returns the files that are read together with the team file: schemas and scripted replies.
    pub fn read_files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Returns the names of all secrets, of grants and of models.
    pub fn secret_names(&self) -> Vec<String> {
        let granted = self.plugins.values();
        let granted = granted.flat_map(|plugin| plugin.grants.secrets().cloned());
        let models = self.llm.iter().flat_map(|llm| llm.models.values());
        let keys = models.filter_map(|model| match &model.provider {
            ProviderConfig::Endpoint(endpoint) => endpoint.api_key_env.clone(),
            ProviderConfig::Scripted { .. } | ProviderConfig::Recorded { .. } => None,
        });
        let servers = self.mcp.values();
        let servers = servers.flat_map(|server| server.secrets().iter().cloned());
        let names: BTreeSet<String> = granted.chain(keys).chain(servers).collect();
        names.into_iter().collect()
    }

    /// Returns the patterns of the tools of MCP servers that are granted to anybody, by server.
    pub fn granted_server_tools(&self) -> BTreeMap<String, Vec<String>> {
        let actions = self.plugins.values().flat_map(|plugin| &plugin.grants.mcp);
        let actions = actions.map(|grant| (&grant.server, &grant.tools));
        let roles = self.tool_roles.values().flat_map(|role| &role.servers);
        let roles = roles.map(|grant| (&grant.server, &grant.tools));
        let mut granted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (server, tools) in actions.chain(roles) {
            let known = granted.entry(server.clone()).or_default();
            known.extend(tools.iter().cloned());
        }
        granted
    }

    /// Returns the names of the hosted models without a price, whose costs are not counted.
    fn unpriced_models(&self) -> impl Iterator<Item = &str> {
        let models = self.llm.iter().flat_map(|llm| &llm.models);
        models
            .filter(|(_, model)| model.is_unpriced())
            .map(|(name, _)| name.as_str())
    }

    /// Returns whether a model answers the requests of a role that name none.
    fn has_model(&self, role: RoleId) -> bool {
        self.llm
            .as_ref()
            .is_some_and(|llm| llm.models.contains_key(self.model_name(role)))
    }

    /// Returns the name of the model that answers those requests, if it is there.
    fn model_name(&self, role: RoleId) -> &str {
        let name = self.team.role(role).model.as_deref();
        name.unwrap_or(DEFAULT_MODEL)
    }

    /// Returns a problem with a component, located where the component is named.
    pub fn component_problem(&self, slot: Slot, message: impl Into<String>) -> Diagnostics {
        self.component_diagnostic(slot, message).into()
    }

    /// Returns a problem with a component to which hints can be added, located where the component
    /// is named.
    pub fn component_diagnostic(&self, slot: Slot, message: impl Into<String>) -> Diagnostic {
        self.problem_at(slot, message.into(), |place| place.component.clone())
    }

    /// Returns the refusal of a component that must not be used, located where the component is
    /// named, with a hint.
    pub fn component_refusal(
        &self,
        slot: Slot,
        message: String,
        hint: impl Into<Hint>,
    ) -> Diagnostics {
        self.problem_at(slot, message, |place| place.component.clone())
            .hint(hint)
            .into()
    }

    /// Returns the name and version (`NAME@VERSION`) of the skill in a slot, if the slot names one.
    pub fn skill_name(&self, slot: Slot) -> Option<&str> {
        let place = self
            .locations
            .get(&slot)
            .filter(|_| !self.is_overridden(slot))?;
        place.skill.as_ref()?.found.as_deref()
    }

    /// Returns whether the command line replaced the component of a slot.
    pub fn is_overridden(&self, slot: Slot) -> bool {
        self.component_overrides.contains_key(&slot)
    }

    /// Returns a problem with a component's pinned digest, located where the digest is written.
    pub fn pin_problem(&self, slot: Slot, message: impl Into<String>) -> Diagnostics {
        let pin = |place: &ComponentLocation| place.pin.clone().unwrap_or(place.component.clone());
        self.problem_at(slot, message.into(), pin).into()
    }

    /// Returns a problem with a component's configuration, located where the configuration is
    /// written.
    pub fn config_problem(
        &self,
        slot: Slot,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostics {
        let config =
            |place: &ComponentLocation| place.config.clone().unwrap_or(place.entry.clone());
        self.problem_at(slot, message.into(), config)
            .with_optional_hint(hint)
            .into()
    }

    /// Returns a problem with the function that is called in a component, located where the
    /// function is named.
    pub fn function_problem(
        &self,
        slot: Slot,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostics {
        let function =
            |place: &ComponentLocation| place.function.clone().unwrap_or(place.component.clone());
        self.problem_at(slot, message.into(), function)
            .with_optional_hint(hint)
            .into()
    }

    /// Returns a problem with a grant that a component needs and does not have, with the line that
    /// would grant it.
    pub fn missing_grant(&self, slot: Slot, message: impl Into<String>, line: &str) -> Diagnostics {
        let allow = |place: &ComponentLocation| place.allow.clone().unwrap_or(place.entry.clone());
        let table = match slot.kind {
            SlotKind::Think | SlotKind::Turn => "`allow` of `think`",
            SlotKind::Guard(GuardMoment::Before) => "`allow` of `before`",
            SlotKind::Guard(GuardMoment::After) => "`allow` of `after`",
            SlotKind::SkillScript(_) => "`[role.skill.allow]`",
            SlotKind::Summary => "`allow` of `summarise`",
            SlotKind::Action(_) => "`[role.action.allow]`",
        };
        self.problem_at(slot, message.into(), allow)
            .hint(format!("add to {table}: `{line}`"))
            .into()
    }

    /// Returns a problem with a secret, located at the first place that names it. Returns `None` if
    /// the team file does not name it.
    pub fn secret_problem(&self, name: &str, message: &str) -> Option<Diagnostics> {
        let named = self
            .locations
            .values()
            .flat_map(|place| &place.secrets)
            .chain(&self.server_secrets)
            .filter(|secret| secret.value == name);
        let problem = |secret: &table::Located<String>| {
            let problem = Diagnostic::at(&self.source, secret.span.clone(), message);
            Diagnostics::from(problem.hint(format!(
                "set it where the host is started: `export {name}=…`"
            )))
        };
        named.map(problem).next()
    }

    /// Returns a problem with the model's API key, located where its variable is named.
    pub fn api_key_problem(&self, model: &str, variable: &str, message: String) -> Diagnostics {
        let hint = format!(
            "set it where the host is started: `export {variable}=…`, or name another variable"
        );
        let problem = match models::api_key_span(&self.source, model) {
            Some(span) => Diagnostic::at(&self.source, span, message),
            None => Diagnostic::new(message),
        };
        problem.hint(hint).into()
    }

    /// Returns where a component is written, in a form for people: `team.toml:17`.
    pub fn location(&self, slot: Slot) -> String {
        match self.locations.get(&slot) {
            Some(place) => self.source.format_location(&place.entry),
            None => self.source.name.clone(),
        }
    }

    /// Returns where `[env.external]` is written, if it is: `team.toml:17`.
    pub fn external_location(&self) -> Option<String> {
        self.external_span
            .as_ref()
            .map(|span| self.source.format_location(span))
    }

    fn problem_at(
        &self,
        slot: Slot,
        message: String,
        span: impl Fn(&ComponentLocation) -> Range<usize>,
    ) -> Diagnostic {
        match (
            self.component_overrides.get(&slot),
            self.locations.get(&slot),
        ) {
            (Some(replacement), _) => replacement.problem(message),
            (None, Some(place)) => Diagnostic::at(&self.source, span(place), message),
            (None, None) => Diagnostic::new(message),
        }
    }
}
