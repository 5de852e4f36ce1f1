//! The effective policy of each component (its limits and grants), the tools of MCP servers that models may call,
//! and how these servers are reached, as JSON and as text for people. It is enforced in `sandbox` and in
//! `services::mcp`.

mod servers;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strata_base::files::blob::digest_of;
use strata_base::files::open;
use strata_base::text::display_path::display_path;
use strata_base::text::units::{format_duration, format_size};
use strata_build::SourceUse;
use strata_core::record::id::{Digest, Slot, SlotKind};
use strata_core::team::RetryPolicy;
use strata_services::plugin::{Grants, Limits};

use super::Definition;
use super::grants::{self, GrantLine};

pub use servers::ServerPolicy;
pub use tools::{ApprovalPolicy, ModelPolicy, NamedToolPolicy, ServerToolsPolicy, ToolPolicy};

/// A part of the effective policy of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PolicyRow {
    /// What a component may do.
    Component(Box<ComponentPolicy>),
    /// What the model of a role may call besides the tools with a component, and how often.
    Model(ModelPolicy),
    /// How an MCP server is reached, and what it sees.
    Server(ServerPolicy),
}

/// The effective policy of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentPolicy {
    /// The role.
    pub role: String,
    /// The action; `None` for what the role thinks with.
    pub action: Option<String>,
    /// `ROLE.ACTION` or `ROLE.think`, as `--component` takes it.
    pub slot: String,
    /// The component's file.
    pub component: PathBuf,
    /// How the source in a directory is run: what becomes of it, and why. `None` for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The exported function that is called; `None` for the handler.
    pub function: Option<String>,
    /// Its SHA-256, where it is known.
    pub digest: Option<String>,
    /// The limits of a call.
    #[serde(flatten)]
    pub limits: Limits,
    /// What holds for the calls of a model; `None` if no model calls it as a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolPolicy>,
    /// How often a failed call is retried.
    pub retries: u32,
    /// The delay before the first retry.
    pub backoff_ms: u32,
    /// What it may touch outside of its sandbox.
    #[serde(flatten)]
    pub grants: Grants,
    /// What the operators' policies reduced or removed, and which policy did.
    pub bounded: Vec<String>,
}

/// Returns the effective policy of every component, in the order of the team, then that of the models that call
/// tools, then the servers. `digests` holds the digests that are known.
pub fn rows(definition: &Definition, digests: &BTreeMap<Slot, Digest>) -> Vec<PolicyRow> {
    let slots = definition.plugins.keys();
    let components = slots.map(|slot| component_policy(definition, *slot, digests.get(slot)));
    components
        .map(|component| PolicyRow::Component(Box::new(component)))
        .chain(tools::models(definition).map(PolicyRow::Model))
        .chain(servers::servers(definition).map(PolicyRow::Server))
        .collect()
}

fn component_policy(
    definition: &Definition,
    slot: Slot,
    digest: Option<&Digest>,
) -> ComponentPolicy {
    let team = &definition.team;
    let plugin = &definition.plugins[&slot];
    let role = team.role(slot.role);
    let action = match slot.kind {
        SlotKind::Think
        | SlotKind::Turn
        | SlotKind::Guard(_)
        | SlotKind::SkillScript(_)
        | SlotKind::Summary => None,
        SlotKind::Action(id) => Some(role.action(id)),
    };
    // What a role thinks with is not retried by itself.
    let never = RetryPolicy {
        retries: 0,
        backoff_ms: 0,
    };
    let retry = action.map_or(never, |action| action.retry);
    ComponentPolicy {
        role: role.name.clone(),
        action: action.map(|action| action.name.clone()),
        slot: team.slot_name(slot),
        component: plugin.component.clone(),
        source: describe_source(&plugin.component, digest),
        function: plugin.function.clone(),
        digest: digest.map(|digest| digest.0.clone()),
        limits: plugin.limits.clone(),
        tool: match slot.kind {
            SlotKind::Action(action) => tools::of_action(definition, slot.role, action),
            _ => None,
        },
        retries: retry.retries,
        backoff_ms: retry.backoff_ms,
        grants: plugin.grants.clone(),
        bounded: definition
            .policy_reductions
            .iter()
            .filter(|cut| cut.slot == Some(slot))
            .map(|cut| cut.text.clone())
            .collect(),
    }
}

/// Describes how the source in a directory is run. `digest` is that of what was loaded, if that is known.
/// Returns `None` for a file.
fn describe_source(component: &Path, digest: Option<&Digest>) -> Option<String> {
    if !component.is_dir() {
        return None;
    }
    Some(match strata_build::source_use(component) {
        Ok(SourceUse::Interpreted { .. }) if is_built_component(component, digest) => {
            "built, because that component is pinned or locked, or components have to be signed"
                .into()
        }
        Ok(SourceUse::Interpreted { .. }) => "interpreted; needs no build".into(),
        Ok(SourceUse::Built {
            because: Some(because),
        }) => format!("built, because {because}"),
        Ok(SourceUse::Built { because: None }) | Err(_) => "built".into(),
    })
}

/// Returns whether a digest is that of the component which was built from the source in a directory.
fn is_built_component(directory: &Path, digest: Option<&Digest>) -> bool {
    let Some(digest) = digest else {
        return false;
    };
    let built = strata_build::up_to_date_component(directory).ok().flatten();
    let bytes = built.and_then(|file| open::read(&file).ok());
    bytes.is_some_and(|bytes| digest_of(&bytes) == *digest)
}

/// Renders the policy as text for people.
pub fn render(rows: &[PolicyRow]) -> String {
    let blocks: Vec<String> = rows.iter().map(render_row).collect();
    blocks.join("\n")
}

fn render_row(row: &PolicyRow) -> String {
    match row {
        PolicyRow::Component(component) => render_component(component),
        PolicyRow::Model(model) => model.render(),
        PolicyRow::Server(server) => server.render(),
    }
}

fn render_component(row: &ComponentPolicy) -> String {
    let mut text = format!("{}\n", row.slot);
    let mut line = |name: &str, value: String| servers::add_line(&mut text, name, &value);
    let limits = &row.limits;
    line("component", display_path(&row.component));
    if let Some(source) = &row.source {
        line("source", source.clone());
    }
    if let Some(function) = &row.function {
        line("function", function.clone());
    }
    if let Some(digest) = &row.digest {
        line("sha256", digest.clone());
    }
    line("memory", format_size(limits.memory_bytes));
    line("tables", format!("{} elements", limits.table_elements));
    line("cpu", format_duration(limits.cpu));
    line("timeout", format_duration(limits.timeout));
    line(
        "fuel",
        limits.fuel.map_or("off".into(), |fuel| fuel.to_string()),
    );
    line("output", format_size(limits.output_bytes));
    if row.tool.is_some() {
        line("result", format_size(limits.result_bytes));
    }
    line("log", format_size(limits.log_bytes));
    line(
        "host calls",
        format!(
            "{}, with {}",
            limits.host_calls,
            format_size(limits.host_bytes)
        ),
    );
    line(
        "to load",
        format!(
            "{}, compiled in {}",
            format_size(limits.component_bytes),
            format_duration(limits.compile)
        ),
    );
    line("retries", format_retries(row));
    let grants = grants::lines(&row.grants);
    let none = grants.is_empty();
    for GrantLine { verb, object } in grants {
        line(&format!("may {verb}"), object);
    }
    if none {
        line("may", "touch nothing outside".into());
    }
    if let Some(tool) = &row.tool {
        tool.add_lines(None, &mut text);
    }
    let mut line = |name: &str, value: String| servers::add_line(&mut text, name, &value);
    for reduction in &row.bounded {
        line("bounded", reduction.clone());
    }
    text
}

fn format_retries(row: &ComponentPolicy) -> String {
    if row.retries == 0 {
        return "none".into();
    }
    let backoff = std::time::Duration::from_millis(u64::from(row.backoff_ms));
    format!(
        "{}, the first after {}",
        row.retries,
        format_duration(backoff)
    )
}
