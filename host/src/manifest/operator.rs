//! An operator's policy, `policy.toml`, which restricts every team, whatever its file contains. It
//! is read with the same checks as a team file. How it restricts a team is in `bind`; where
//! policies are found is in `search`.

mod restrict;
mod search;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use strata_core::team::BudgetLimits;

use super::authored::limits::read_limits;
use super::authored::slot::{self, read_variable_names};
use super::authored::{optional_table, read_budget_limits};
use super::diagnostic::{Diagnostic, Diagnostics, Problems, SourceText};
use super::http;
use super::table::{Located, TomlTable};
use crate::plugin::{Access, DirBound, GrantBounds, Limit};

pub(super) use restrict::PolicyReduction;
pub use search::{in_force, policy_files};

/// The version of the format that this program reads.
const SCHEMA: &str = "strata.policy/1";

/// An operator's policy.
#[derive(Clone, Debug)]
pub struct OperatorPolicy {
    source: Arc<SourceText>,
    /// The upper bound of each limit.
    limits: BTreeMap<Limit, Located<u64>>,
    /// What may be granted; `None` if the policy does not restrict grants.
    bounds: Option<GrantBounds>,
    /// Whether a team may have an `[env.external]`.
    external: Permission,
    /// Whether components may be built from source directories. Building runs code from the
    /// directory.
    build: Permission,
    /// The largest budget of a team.
    budget_limits: BudgetLimits,
}

/// Whether an operator allows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Allowed,
    Forbidden,
}

impl OperatorPolicy {
    /// Reads a policy file.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Self::parse(super::read_source(path, "policy")?)
    }

    /// Returns whether components may be built from source directories. Building runs code from the
    /// directory.
    pub fn allows_builds(&self) -> bool {
        self.build == Permission::Allowed
    }

    fn parse(source: SourceText) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let problems = Problems::new(Arc::clone(&source));
        let document = super::parse_document(&source)?;
        let operator = read_policy(
            TomlTable::root_of_other_file("a policy file", document.get_ref(), &problems),
            Arc::clone(&source),
        );
        problems.into_result()?;
        Ok(operator)
    }
}

fn read_policy(root: TomlTable<'_>, source: Arc<SourceText>) -> OperatorPolicy {
    if let Some(item) = root.required_with_line("schema", &format!("schema = \"{SCHEMA}\""))
        && item.text().is_some_and(|schema| schema.value != SCHEMA)
    {
        item.reject(
            "this schema of policies is not supported",
            format!("this version reads `{SCHEMA}`"),
        );
    }
    let mut operator = OperatorPolicy {
        source,
        limits: BTreeMap::new(),
        bounds: None,
        external: Permission::Allowed,
        build: Permission::Allowed,
        budget_limits: BudgetLimits::default(),
    };
    if let Some(limits) = optional_table(&root, "limits", "`[limits]`") {
        operator.limits = read_limits(&limits);
    }
    if let Some(budget) = optional_table(&root, "budget", "`[budget]`") {
        operator.budget_limits = read_budget_limits(&budget);
    }
    if let Some(allow) = optional_table(&root, "allow", "`[allow]`") {
        operator.bounds = Some(read_bounds(&allow));
        let permission = |key| match allow.item(key).and_then(|item| item.boolean()) {
            Some(true) => Permission::Allowed,
            Some(false) | None => Permission::Forbidden,
        };
        (operator.external, operator.build) = (permission("external"), permission("build"));
    }
    operator
}

fn read_bounds(allow: &TomlTable<'_>) -> GrantBounds {
    let mut sent = Vec::new();
    let dirs = allow
        .item("dirs")
        .map(|dirs| dirs.tables("`dirs`"))
        .unwrap_or_default();
    let llm = optional_table(allow, "llm", "`llm`");
    let endpoints = llm.as_ref().and_then(|llm| llm.item("endpoints"));
    GrantBounds {
        endpoints: endpoints
            .map(|item| http::read_endpoints(&item))
            .unwrap_or_default(),
        llm: llm.and_then(|llm| slot::read_llm(&llm)),
        dirs: dirs.iter().filter_map(read_dir).collect(),
        env: read_variable_names(allow, "env"),
        http: allow
            .item("http")
            .map(|item| http::read_grants(&item, &mut sent))
            .unwrap_or_default(),
        secrets: read_variable_names(allow, "secrets"),
    }
}

fn read_dir(table: &TomlTable<'_>) -> Option<DirBound> {
    let host = table
        .required("host")
        .and_then(|item| slot::read_path(&item));
    let write = table.item("write").and_then(|item| item.boolean());
    let access = if write == Some(true) {
        Access::Write
    } else {
        Access::Read
    };
    let max_bytes = slot::read_max_bytes(table, access);
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
fn refusal(operator: &OperatorPolicy, message: String) -> Diagnostics {
    let name = &operator.source.name;
    Diagnostic::new(message)
        .hint(format!("see `[allow]` of the operator's policy `{name}`"))
        .into()
}
