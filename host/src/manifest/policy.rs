//! What each component may use up and touch, for people and for scripts to read. Enforced in `sandbox`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use strata_core::id::{Digest, Part, Slot};
use strata_core::team::Retry;

use super::Definition;
use super::units::{show_duration, show_size};
use crate::plugin::http::HttpGrant;
use crate::plugin::{Access, Limits};
use crate::tidy::tidy;

/// The effective policy of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// The role.
    pub role: String,
    /// The action; none for what the role thinks with.
    pub action: Option<String>,
    /// `ROLE.ACTION` or `ROLE.think`, as `--component` takes it.
    pub slot: String,
    /// The component's file.
    pub component: PathBuf,
    /// The function that is called of it; none for the handler.
    pub function: Option<String>,
    /// Its SHA-256, where it is known.
    pub digest: Option<String>,
    /// What a call may use up.
    #[serde(flatten)]
    pub limits: Limits,
    /// Further tries of a failed call.
    pub retries: u32,
    /// The wait before the first of them.
    pub backoff_ms: u32,
    /// Language models; none for none.
    pub llm: Option<LlmPolicy>,
    /// Directories.
    pub dirs: Vec<DirPolicy>,
    /// Environment variables.
    pub env: Vec<String>,
    /// Hosts on the network.
    pub http: Vec<HttpPolicy>,
    /// Secrets that may be referred to.
    pub secrets: Vec<String>,
    /// What the operators' policies took away, by which.
    pub bounded: Vec<String>,
}

/// The use of language models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LlmPolicy {
    /// Names of models; `*` stands for any run of characters.
    pub models: Vec<String>,
    /// Calls per attempt; none for no limit of its own.
    pub calls: Option<u32>,
}

/// The use of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirPolicy {
    /// Where it is on the host.
    pub host: PathBuf,
    /// What the guest calls it.
    pub guest: String,
    /// Whether the guest may write there.
    pub write: bool,
    /// How large the directory may become by that; none for no limit of its own.
    pub max_bytes: Option<u64>,
}

/// The use of hosts on the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpPolicy {
    /// The hosts, at the scheme's own port where none is named.
    pub host: String,
    /// The methods.
    pub methods: Vec<String>,
    /// The paths; `*` stands for any run of characters.
    pub path: String,
    /// Secrets that may be sent there.
    pub secrets: Vec<String>,
    /// Headers that may be set although servers may take a request for another one because of them.
    pub headers: Vec<String>,
}

/// The effective policy of every component, in the order of the team. Digests are filled in where they are known.
pub fn rows(definition: &Definition, digests: &BTreeMap<Slot, Digest>) -> Vec<PolicyRow> {
    let slots = definition.plugins.keys();
    slots
        .map(|slot| row(definition, *slot, digests.get(slot)))
        .collect()
}

fn row(definition: &Definition, slot: Slot, digest: Option<&Digest>) -> PolicyRow {
    let team = &definition.team;
    let plugin = &definition.plugins[&slot];
    let grants = &plugin.grants;
    let role = team.role(slot.role);
    let action = match slot.part {
        Part::Think => None,
        Part::Action(id) => Some(role.action(id)),
    };
    // What a role thinks with is not tried again by itself.
    let never = Retry {
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
        dirs: grants.dirs.iter().map(dir).collect(),
        env: grants.env.clone(),
        http: grants.http.iter().map(http).collect(),
        secrets: grants.secrets.clone(),
        bounded: definition
            .cuts
            .iter()
            .filter(|cut| cut.slot == Some(slot))
            .map(|cut| cut.text.clone())
            .collect(),
    }
}

fn http(grant: &HttpGrant) -> HttpPolicy {
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

fn dir(grant: &crate::plugin::DirGrant) -> DirPolicy {
    DirPolicy {
        host: grant.host.clone(),
        guest: grant.guest.clone(),
        write: grant.access == Access::Write,
        max_bytes: grant.max_bytes,
    }
}

/// The policy as text for people.
pub fn render(rows: &[PolicyRow]) -> String {
    let blocks: Vec<String> = rows.iter().map(block).collect();
    blocks.join("\n")
}

fn block(row: &PolicyRow) -> String {
    let mut text = format!("{}\n", row.slot);
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<11}{value}");
    };
    let limits = &row.limits;
    line("component", tidy(&row.component));
    if let Some(function) = &row.function {
        line("function", function.clone());
    }
    if let Some(digest) = &row.digest {
        line("sha256", digest.clone());
    }
    line("memory", show_size(limits.memory_bytes));
    line("tables", format!("{} elements", limits.table_elements));
    line("cpu", show_duration(limits.cpu));
    line("timeout", show_duration(limits.timeout));
    line(
        "fuel",
        limits.fuel.map_or("off".into(), |fuel| fuel.to_string()),
    );
    line("output", show_size(limits.output_bytes));
    line("log", show_size(limits.log_bytes));
    line(
        "host calls",
        format!(
            "{}, with {}",
            limits.host_calls,
            show_size(limits.host_bytes)
        ),
    );
    line(
        "to load",
        format!(
            "{}, compiled in {}",
            show_size(limits.component_bytes),
            show_duration(limits.compile)
        ),
    );
    line("retries", retries(row));
    let grants = grants(row);
    let none = grants.is_empty();
    for (kind, grant) in grants {
        line(&format!("may {kind}"), grant);
    }
    if none {
        line("may", "touch nothing outside".into());
    }
    row.bounded
        .iter()
        .for_each(|cut| line("bounded", cut.clone()));
    text
}

fn retries(row: &PolicyRow) -> String {
    if row.retries == 0 {
        return "none".into();
    }
    let backoff = std::time::Duration::from_millis(u64::from(row.backoff_ms));
    format!(
        "{}, the first after {}",
        row.retries,
        show_duration(backoff)
    )
}

fn grants(row: &PolicyRow) -> Vec<(&'static str, String)> {
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
            .map(|bytes| format!(", up to {}", show_size(bytes)))
            .unwrap_or_default();
        grants.push((verb, format!("{} = {}{most}", dir.guest, tidy(&dir.host))));
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
