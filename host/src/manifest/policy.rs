//! The effective policy of each component (its limits and grants), as JSON and as text for people.
//! It is enforced in `sandbox`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use strata_core::record::id::{Digest, Slot, SlotKind};
use strata_core::team::RetryPolicy;

use super::Definition;
use super::units::{format_duration, format_size};
use crate::display_path::display_path;
use crate::plugin::http::HttpGrant;
use crate::plugin::{Access, Limits};

/// The effective policy of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The role.
    pub role: String,
    /// The action; `None` for what the role thinks with.
    pub action: Option<String>,
    /// `ROLE.ACTION` or `ROLE.think`, as `--component` takes it.
    pub slot: String,
    /// The component's file.
    pub component: PathBuf,
    /// The exported function that is called; `None` for the handler.
    pub function: Option<String>,
    /// Its SHA-256, where it is known.
    pub digest: Option<String>,
    /// The limits of a call.
    #[serde(flatten)]
    pub limits: Limits,
    /// How often a failed call is retried.
    pub retries: u32,
    /// The delay before the first retry.
    pub backoff_ms: u32,
    /// Access to language models, if any.
    pub llm: Option<LlmPolicy>,
    /// The directories that it may access.
    pub dirs: Vec<DirPolicy>,
    /// The environment variables that it may read.
    pub env: Vec<String>,
    /// The hosts that it may send requests to.
    pub http: Vec<HttpPolicy>,
    /// The secrets that it may refer to.
    pub secrets: Vec<String>,
    /// What the operators' policies reduced or removed, and which policy did.
    pub bounded: Vec<String>,
}

/// Access to language models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LlmPolicy {
    /// Names of models; `*` matches any sequence of characters.
    pub models: Vec<String>,
    /// The largest number of calls per attempt; `None` for no separate limit.
    pub calls: Option<u32>,
}

/// Access to a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirPolicy {
    /// The path on the host.
    pub host: PathBuf,
    /// The path in the guest.
    pub guest: String,
    /// Whether the guest may write there.
    pub write: bool,
    /// How large the directory may become by the guest's writes; `None` for no separate limit.
    pub max_bytes: Option<u64>,
}

/// Access to hosts on the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpPolicy {
    /// The hosts. Without a port, the scheme's default port is meant.
    pub host: String,
    /// The HTTP methods.
    pub methods: Vec<String>,
    /// The paths; `*` matches any sequence of characters.
    pub path: String,
    /// Secrets that may be sent there.
    pub secrets: Vec<String>,
    /// The headers that may be set although some servers interpret a request differently because of
    /// them, such as `x-http-method-override`.
    pub headers: Vec<String>,
}

/// Returns the effective policy of every component, in the order of the team. `digests` holds the
/// digests that are known.
pub fn rows(definition: &Definition, digests: &BTreeMap<Slot, Digest>) -> Vec<PolicyRow> {
    let slots = definition.plugins.keys();
    slots
        .map(|slot| policy_row(definition, *slot, digests.get(slot)))
        .collect()
}

fn policy_row(definition: &Definition, slot: Slot, digest: Option<&Digest>) -> PolicyRow {
    let team = &definition.team;
    let plugin = &definition.plugins[&slot];
    let grants = &plugin.grants;
    let role = team.role(slot.role);
    let action = match slot.kind {
        SlotKind::Think => None,
        SlotKind::Action(id) => Some(role.action(id)),
    };
    // What a role thinks with is not retried by itself.
    let never = RetryPolicy {
        retries: 0,
        backoff_ms: 0,
    };
    let retry = action.map_or(never, |action| action.retry);
    PolicyRow {
        role: role.name.clone(),
        action: action.map(|action| action.name.clone()),
        slot: team.slot_name(slot),
        component: plugin.component.clone(),
        function: plugin.function.clone(),
        digest: digest.map(|digest| digest.0.clone()),
        limits: plugin.limits.clone(),
        retries: retry.retries,
        backoff_ms: retry.backoff_ms,
        llm: grants.llm.as_ref().map(|llm| LlmPolicy {
            models: llm.models.clone(),
            calls: llm.calls,
        }),
        dirs: grants.dirs.iter().map(dir_policy).collect(),
        env: grants.env.clone(),
        http: grants.http.iter().map(http_policy).collect(),
        secrets: grants.secrets.clone(),
        bounded: definition
            .policy_reductions
            .iter()
            .filter(|cut| cut.slot == Some(slot))
            .map(|cut| cut.text.clone())
            .collect(),
    }
}

fn http_policy(grant: &HttpGrant) -> HttpPolicy {
    let HttpGrant {
        host,
        methods,
        path,
        secrets,
        headers,
    } = grant.clone();
    HttpPolicy {
        host: host.to_string(),
        methods,
        path,
        secrets,
        headers,
    }
}

fn dir_policy(grant: &crate::plugin::DirGrant) -> DirPolicy {
    DirPolicy {
        host: grant.host.clone(),
        guest: grant.guest.clone(),
        write: grant.access == Access::Write,
        max_bytes: grant.max_bytes,
    }
}

/// Renders the policy as text for people.
pub fn render(rows: &[PolicyRow]) -> String {
    let blocks: Vec<String> = rows.iter().map(render_row).collect();
    blocks.join("\n")
}

fn render_row(row: &PolicyRow) -> String {
    let mut text = format!("{}\n", row.slot);
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<11}{value}");
    };
    let limits = &row.limits;
    line("component", display_path(&row.component));
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
    let grants = grant_lines(row);
    let none = grants.is_empty();
    for (kind, grant) in grants {
        line(&format!("may {kind}"), grant);
    }
    if none {
        line("may", "touch nothing outside".into());
    }
    for reduction in &row.bounded {
        line("bounded", reduction.clone());
    }
    text
}

fn format_retries(row: &PolicyRow) -> String {
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

fn grant_lines(row: &PolicyRow) -> Vec<(&'static str, String)> {
    let mut grants = Vec::new();
    if let Some(llm) = &row.llm {
        let calls = match llm.calls {
            Some(1) => ", at most 1 call".to_owned(),
            Some(calls) => format!(", at most {calls} calls"),
            None => String::new(),
        };
        grants.push(("ask", format!("models {}{calls}", llm.models.join(", "))));
    }
    for dir in &row.dirs {
        let verb = if dir.write { "write" } else { "read" };
        let most = dir
            .max_bytes
            .map(|bytes| format!(", up to {}", format_size(bytes)))
            .unwrap_or_default();
        grants.push((
            verb,
            format!("{} = {}{most}", dir.guest, display_path(&dir.host)),
        ));
    }
    if !row.env.is_empty() {
        grants.push(("see", format!("env {}", row.env.join(", "))));
    }
    for HttpPolicy {
        host,
        methods,
        path,
        secrets,
        headers,
    } in &row.http
    {
        let named = |what: &str, names: &[String]| match names {
            [] => String::new(),
            names => format!(" with {what} {}", names.join(", ")),
        };
        let with = named("secrets", secrets) + &named("headers", headers);
        grants.push(("call", format!("{} {host}{path}{with}", methods.join(", "))));
    }
    if !row.secrets.is_empty() {
        grants.push(("name", format!("secrets {}", row.secrets.join(", "))));
    }
    grants
}
