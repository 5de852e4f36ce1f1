//! A team's components: sources are built, components loaded and held against what the team grants them. Nothing
//! of the team is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_core::id::{ActionId, Digest, Part, Slot};
use strata_core::team::React;

use super::LaunchError;
use crate::build;
use crate::driver::Equipment;
use crate::manifest::{Definition, Diagnostics};
use crate::plugin::Plugin;
use crate::sandbox::{Loaded, Metering, WasmSandbox};
use crate::services::http::Http;
use crate::services::http::secret::Secrets;
use crate::services::llm::Models;

/// The largest component that is loaded; the largest real ones (interpreters) have about 30 MB.
const MAX_COMPONENT_BYTES: u64 = 256 << 20;

/// A team's components, loaded and checked.
pub struct Components {
    loaded: BTreeMap<Slot, Loaded>,
}

impl Components {
    /// Loads every component of a team. All problems are reported at once.
    pub fn load(
        definition: &Definition,
        sandbox: &WasmSandbox,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, Diagnostics> {
        definition.check_ready()?;
        // Several places often share one component.
        let mut files: BTreeMap<(PathBuf, bool), Result<Loaded, String>> = BTreeMap::new();
        let mut loaded = BTreeMap::new();
        let mut problems: Vec<Diagnostics> = Vec::new();
        for (slot, plugin) in &definition.plugins {
            let file = files.entry((plugin.component.clone(), plugin.limits.fuel.is_some()));
            let file = file.or_insert_with(|| load(plugin, sandbox, report));
            let checked = match file {
                Ok(component) => fits(definition, *slot, plugin, component).map(|()| component.clone()),
                Err(why) => Err(definition.at_component(*slot, why.as_str())),
            };
            match checked {
                Ok(component) => drop(loaded.insert(*slot, component)),
                Err(problem) => problems.push(problem),
            }
        }
        match problems.into_iter().reduce(Diagnostics::and) {
            Some(problems) => Err(problems),
            None => Ok(Self { loaded }),
        }
    }

    /// The digests, by place.
    pub fn digests(&self) -> BTreeMap<Slot, Digest> {
        self.loaded.iter().map(|(slot, component)| (*slot, component.digest.clone())).collect()
    }

    /// What a driver needs to run the team.
    pub fn equip(&self, definition: &Definition, sandbox: WasmSandbox) -> Result<Equipment, LaunchError> {
        let plugins = definition.plugins.iter().map(|(slot, plugin)| (*slot, Arc::new(plugin.clone()))).collect();
        let description = |(slot, component): (&Slot, &Loaded)| (*slot, component.manifest.description.clone());
        let models = definition.llm.as_ref().map(Models::new).transpose()?;
        Ok(Equipment {
            sandbox: Arc::new(sandbox),
            plugins,
            descriptions: self.loaded.iter().map(description).collect(),
            models: models.map(Arc::new),
            http: Arc::new(Http::new(secrets(definition)?)?),
            external: definition.external.clone(),
        })
    }
}

/// The secrets that a team's grants name.
fn secrets(definition: &Definition) -> Result<Secrets, Diagnostics> {
    let names = definition.plugins.values().flat_map(|plugin| plugin.grants.secrets());
    Secrets::from_env(names.map(String::as_str)).map_err(|missing| {
        let shown = missing.iter().filter_map(|secret| definition.at_secret(&secret.name, &secret.to_string()));
        // Every name comes from a grant, and every grant from a place in the file.
        shown.reduce(Diagnostics::and).expect("a secret is named somewhere")
    })
}

fn load(plugin: &Plugin, sandbox: &WasmSandbox, report: &mut dyn FnMut(&str)) -> Result<Loaded, String> {
    let (file, bytes) = read(&plugin.component, report)?;
    let metering = if plugin.limits.fuel.is_some() { Metering::Fuel } else { Metering::Plain };
    sandbox.load(&bytes, metering).map_err(|error| format!("cannot load the component `{}`: {error}", file.display()))
}

/// A component's file and its bytes. A directory of source is built first.
pub fn read(path: &Path, report: &mut dyn FnMut(&str)) -> Result<(PathBuf, Vec<u8>), String> {
    let file = if path.is_dir() {
        build::build(path, report).map_err(|error| error.to_string())?.component
    } else {
        path.to_owned()
    };
    let unreadable = |error: std::io::Error| format!("cannot read the component `{}`: {error}", file.display());
    let bytes = std::fs::metadata(&file).map_err(unreadable)?.len();
    if bytes > MAX_COMPONENT_BYTES {
        let file = file.display();
        return Err(format!("the component `{file}` has {bytes} bytes; at most {MAX_COMPONENT_BYTES} are loaded"));
    }
    let bytes = std::fs::read(&file).map_err(unreadable)?;
    Ok((file, bytes))
}

/// Whether a component may stand in its place.
fn fits(definition: &Definition, slot: Slot, plugin: &Plugin, component: &Loaded) -> Result<(), Diagnostics> {
    if let Some(pin) = plugin.pin.as_ref().filter(|pin| **pin != component.digest.0) {
        let message = format!("the component's sha256 is `{}`, pinned is `{pin}`", component.digest);
        return Err(definition.at_pin(slot, message));
    }
    let role = definition.team.role(slot.role);
    let missing = match slot.part {
        Part::Think if !component.exports.thinker => Some("thinks, so its component must export `thinker`"),
        Part::Action(ActionId(0)) if role.react == React::PlanAndAct && !component.exports.planner => {
            Some("plans, so its component must export `planner`")
        }
        _ => None,
    };
    if let Some(missing) = missing {
        let (name, part) = (&role.name, part_name(definition, slot));
        return Err(definition.at_component(slot, format!("`{part}` of role `{name}` {missing}")));
    }
    let needs = component.manifest.needs.iter().map(|need| (need, line_to_add(plugin, need)));
    let refuse = |(need, line): (&String, Option<&str>)| {
        let (name, part) = (&role.name, part_name(definition, slot));
        line.map(|line| {
            let message = format!("`{part}` of role `{name}` needs `{need}`, which it is not granted");
            definition.at_allow(slot, message, line)
        })
    };
    needs.filter_map(refuse).reduce(Diagnostics::and).map_or(Ok(()), Err)
}

/// The line that grants a capability, where it is not granted.
fn line_to_add(plugin: &Plugin, need: &str) -> Option<&'static str> {
    match need {
        "llm" if plugin.grants.llm.is_none() => Some("llm = { models = [\"*\"] }"),
        "http" if plugin.grants.http.is_empty() => {
            Some("http = [{ host = \"api.example.com\", methods = [\"GET\"], path = \"/*\" }]")
        }
        "files" if plugin.grants.dirs.is_empty() => Some("dirs = [{ host = \"out\", guest = \"/out\", write = true }]"),
        _ => None,
    }
}

/// `think`, or the action's name.
pub fn part_name(definition: &Definition, slot: Slot) -> &str {
    match slot.part {
        Part::Think => "think",
        Part::Action(action) => &definition.team.role(slot.role).action(action).name,
    }
}
