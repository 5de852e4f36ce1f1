//! An operator's policy, `policy.toml`, which restricts every team, whatever its file contains. It
//! is read with the same checks as a team file. How it restricts a team is in `bind`; where
//! policies are found is in `search`.

mod limits;
mod models;
mod reduction;
mod restrict;
mod search;
mod servers;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use strata_core::team::BudgetLimits;

use self::limits::LimitBounds;
use super::authored::{BudgetKeys, read_budget_limits};
use super::diagnostic::{Diagnostic, Diagnostics, Problems, ReferencedFiles, SourceText};
use super::grants::{self, GrantBounds};
use super::schema::FileKind;
use super::table::TomlTable;

pub(super) use reduction::PolicyReduction;
pub use search::{in_force, policy_files};

/// The version of the format that this program reads.
const SCHEMA: &str = "strata.policy/1";

/// An operator's policy.
#[derive(Clone, Debug)]
pub struct OperatorPolicy {
    source: Arc<SourceText>,
    limits: LimitBounds,
    allowed: PolicyAllowance,
    budget: BudgetBound,
}

/// What a policy says about the budget of a team.
#[derive(Clone, Debug, Default)]
struct BudgetBound {
    /// The largest budget.
    limits: BudgetLimits,
    /// Whether models need a price, without which their costs are not counted.
    needs_prices: bool,
}

/// What a policy allows.
#[derive(Clone, Debug)]
struct PolicyAllowance {
    /// What may be granted; `None` if the policy does not restrict grants.
    bounds: Option<GrantBounds>,
    /// Whether a team may have an `[env.external]`.
    external: Permission,
    /// Whether components may be built from source directories. Building runs code from the
    /// directory.
    build: Permission,
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
        Self::parse(super::read_source(path, FileKind::Policy)?)
    }

    /// Returns whether components may be built from source directories. Building runs code from the
    /// directory.
    pub fn allows_builds(&self) -> bool {
        self.allowed.build == Permission::Allowed
    }

    /// Returns whether the policy says what teams may be granted.
    pub fn bounds_grants(&self) -> bool {
        self.allowed.bounds.is_some()
    }

    /// Returns whether a team may name a secret.
    pub fn allows_secret(&self, name: &str) -> bool {
        let bounds = self.allowed.bounds.as_ref();
        bounds.is_some_and(|bounds| bounds.allows_secret(name))
    }

    fn parse(source: SourceText) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let file = FileKind::Policy;
        let problems = Problems::new(Arc::clone(&source), file, ReferencedFiles::Checked);
        let document = super::parse_document(&source, file)?;
        let operator = read_policy(
            &TomlTable::root(document.get_ref(), &problems),
            Arc::clone(&source),
        );
        problems.into_result()?;
        Ok(operator)
    }
}

pub(super) fn read_policy(root: &TomlTable<'_>, source: Arc<SourceText>) -> OperatorPolicy {
    let schema = root
        .key("schema", "The version of the format.")
        .required_with_line(&format!("schema = \"{SCHEMA}\""))
        .value(|| json!({ "type": "string", "const": SCHEMA }));
    if let Some(item) = schema
        && item.text().is_some_and(|schema| schema.value != SCHEMA)
    {
        item.reject(
            "this schema of policies is not supported",
            format!("this version reads `{SCHEMA}`"),
        );
    }
    let limits = root
        .key("limits", "The most that a team can set, for each limit.")
        .table("`[limits]`", |table| LimitBounds::read(table, &source));
    let budget = root
        .key("budget", "What a team may spend at most.")
        .table("`[budget]`", read_budget);
    let allow = root
        .key(
            "allow",
            "What may be granted. If this table is present, nothing else can be.",
        )
        .table("`[allow]`", read_allow);
    let allowed = allow.unwrap_or(PolicyAllowance {
        bounds: None,
        external: Permission::Allowed,
        build: Permission::Allowed,
    });
    OperatorPolicy {
        source,
        limits: limits.unwrap_or_default(),
        allowed,
        budget: budget.unwrap_or_default(),
    }
}

const BUDGET: BudgetKeys = BudgetKeys {
    investment: "In USD; 0 for no bound.",
    tokens: "In tokens; 0 for no bound.",
};

fn read_budget(table: &TomlTable<'_>) -> BudgetBound {
    BudgetBound {
        limits: read_budget_limits(table, &BUDGET),
        needs_prices: table
            .key(
                "needs_prices",
                "Whether models need a `price`, without which their costs are not counted: if there is an `[allow]`, all \
                 models with an endpoint, and in its `endpoints`; otherwise hosted models, in the team file.",
            )
            .boolean(false),
    }
}

fn read_allow(allow: &TomlTable<'_>) -> PolicyAllowance {
    let permission = |key, about| {
        if allow.key(key, about).boolean(false) {
            Permission::Allowed
        } else {
            Permission::Forbidden
        }
    };
    PolicyAllowance {
        external: permission("external", "Whether a team may have an `[env.external]`."),
        build: permission(
            "build",
            "Whether components may be built from directories of source, which runs code of their authors.",
        ),
        bounds: Some(grants::read_bounds(allow)),
    }
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
