//! An operator's policy, `policy.toml`, which restricts every team, whatever its file contains. It
//! is read with the same checks as a team file. How it restricts a team is in `bind`; where
//! policies are found is in `search`.

mod bind;
mod search;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use strata_core::budget::Caps;

use super::authored::limits::read_limits;
use super::authored::slot::{self, read_names};
use super::authored::{read_caps, section};
use super::diagnostic::{Diagnostic, Diagnostics, Problems, Source};
use super::http;
use super::table::{At, Table};
use crate::plugin::{Access, Bounds, DirBound, Limit};

pub(super) use bind::Cut;
pub use search::{files, in_force};

/// The version of the format that this program reads.
const SCHEMA: &str = "strata.policy/1";

/// An operator's policy.
#[derive(Clone, Debug)]
pub struct Operator {
    source: Arc<Source>,
    /// The upper bound of each limit.
    limits: BTreeMap<Limit, At<u64>>,
    /// What may be granted; `None` if the policy does not restrict grants.
    bounds: Option<Bounds>,
    /// Whether a team may have an `[env.external]`.
    external: Permission,
    /// Whether components may be built from source directories. Building runs code from the
    /// directory.
    build: Permission,
    /// The largest budget of a team.
    caps: Caps,
}

/// Whether an operator allows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Allowed,
    Forbidden,
}

impl Operator {
    /// Reads a policy file.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Self::parse(super::read_source(path, "policy")?)
    }

    /// Returns whether components may be built from source directories. Building runs code from the
    /// directory.
    pub fn allows_builds(&self) -> bool {
        self.build == Permission::Allowed
    }

    fn parse(source: Source) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let problems = Problems::new(Arc::clone(&source));
        let document = super::document(&source)?;
        let operator = read(
            Table::root_of("a policy file", document.get_ref(), &problems),
            Arc::clone(&source),
        );
        problems.finish()?;
        Ok(operator)
    }
}

fn read(root: Table<'_>, source: Arc<Source>) -> Operator {
    if let Some(item) = root.required_as("schema", &format!("schema = \"{SCHEMA}\""))
        && item.text().is_some_and(|schema| schema.value != SCHEMA)
    {
        item.refuse(
            "this schema of policies is not supported",
            format!("this version reads `{SCHEMA}`"),
        );
    }
    let mut operator = Operator {
        source,
        limits: BTreeMap::new(),
        bounds: None,
        external: Permission::Allowed,
        build: Permission::Allowed,
        caps: Caps::default(),
    };
    if let Some(limits) = section(&root, "limits", "`[limits]`") {
        operator.limits = read_limits(&limits);
    }
    if let Some(budget) = section(&root, "budget", "`[budget]`") {
        operator.caps = read_caps(&budget);
    }
    if let Some(allow) = section(&root, "allow", "`[allow]`") {
        operator.bounds = Some(read_bounds(&allow));
        let permission = |key| match allow.item(key).and_then(|item| item.flag()) {
            Some(true) => Permission::Allowed,
            Some(false) | None => Permission::Forbidden,
        };
        (operator.external, operator.build) = (permission("external"), permission("build"));
    }
    operator
}

fn read_bounds(allow: &Table<'_>) -> Bounds {
    let mut sent = Vec::new();
    let dirs = allow
        .item("dirs")
        .map(|dirs| dirs.tables("`dirs`"))
        .unwrap_or_default();
    let llm = section(allow, "llm", "`llm`");
    let endpoints = llm.as_ref().and_then(|llm| llm.item("endpoints"));
    Bounds {
        endpoints: endpoints
            .map(|item| http::read_endpoints(&item))
            .unwrap_or_default(),
        llm: llm.and_then(|llm| slot::read_llm(&llm)),
        dirs: dirs.iter().filter_map(read_dir).collect(),
        env: read_names(allow, "env"),
        http: allow
            .item("http")
            .map(|item| http::read(&item, &mut sent))
            .unwrap_or_default(),
        secrets: read_names(allow, "secrets"),
    }
}

fn read_dir(table: &Table<'_>) -> Option<DirBound> {
    let host = table.required("host").and_then(|item| slot::path(&item));
    let write = table.item("write").and_then(|item| item.flag());
    let access = if write == Some(true) {
        Access::Write
    } else {
        Access::Read
    };
    let max_bytes = slot::read_max_size(table, access);
    Some(DirBound {
        host: host?.value,
        access,
        max_bytes,
    })
}

impl From<Diagnostics> for super::OverrideError {
    fn from(problems: Diagnostics) -> Self {
        Self::Policy(problems)
    }
}

/// Returns a refusal that names the policy file.
fn refuse(operator: &Operator, message: String) -> Diagnostics {
    let name = &operator.source.name;
    Diagnostic::new(message)
        .hint(format!("see `[allow]` of the operator's policy `{name}`"))
        .into()
}
