//! The contents of a team file as they are written: every key is read, typed and given its default.
//! How the parts relate to each other (names, targets, modes) is checked in `check`.

pub(super) mod edge;
pub(super) mod limits;
pub(super) mod role;
pub(super) mod slot;

use std::collections::BTreeMap;

use strata_core::record::money::Usd;
use strata_core::record::rules::Reducer;
use strata_core::record::scope_write::ROLE_SCOPE;
use strata_core::team::{BudgetLimits, OnFault};

use self::edge::{AuthoredJoin, AuthoredRoute};
use self::limits::LimitsPatch;
use self::role::AuthoredRole;
use super::llm;
use super::table::{Located, TomlTable};
use super::{Durability, RunConfig};
use crate::services::external::ExternalEndpoint;
use crate::services::models::config::ModelsConfig;
use crate::trust::signature::{TrustedKey, TrustedKeys};

/// The version of the format that this program reads.
pub(super) const SCHEMA: &str = "strata.team/1";

/// The largest `max_parallel`: more concurrent calls than any machine has use for.
pub(super) const MAX_PARALLEL: usize = 1024;

/// The default of `max_parallel`: about the number of cores of a common machine.
pub(super) const DEFAULT_PARALLEL: usize = 8;

/// A team file.
pub(super) struct AuthoredTeam {
    pub(super) name: Option<Located<String>>,
    pub(super) idea: Option<String>,
    pub(super) budget_limits: BudgetLimits,
    /// Whether `investment` is written, even if it is zero.
    pub(super) declares_budget: bool,
    pub(super) on_fault: OnFault,
    pub(super) env: AuthoredEnv,
    pub(super) limits: LimitsPatch,
    pub(super) run: AuthoredRun,
    pub(super) llm: Option<ModelsConfig>,
    pub(super) trust: TrustedKeys,
    pub(super) roles: Vec<AuthoredRole>,
    pub(super) routes: Vec<AuthoredRoute>,
    pub(super) joins: Vec<AuthoredJoin>,
}

/// `[env]`.
#[derive(Default)]
pub(super) struct AuthoredEnv {
    pub(super) desc: String,
    pub(super) groups: Vec<(Located<String>, Vec<Located<String>>)>,
    pub(super) scopes: BTreeMap<String, Option<Reducer>>,
    pub(super) external: Option<Located<ExternalEndpoint>>,
}

/// `[run]`.
pub(super) struct AuthoredRun {
    pub(super) max_steps: Option<u64>,
    pub(super) max_parallel: usize,
    pub(super) config: RunConfig,
}

/// Reads a document.
pub(super) fn read_team_file(root: TomlTable<'_>) -> AuthoredTeam {
    read_schema(&root);
    let team = root
        .required_with_line("team", "[team]")
        .and_then(|item| item.table("`[team]`"));
    let mut authored = AuthoredTeam {
        name: None,
        idea: None,
        budget_limits: BudgetLimits::default(),
        declares_budget: false,
        on_fault: OnFault::Stop,
        env: read_env(&root),
        limits: LimitsPatch::default(),
        run: read_run(&root),
        llm: optional_table(&root, "llm", "`[llm]`").and_then(|table| llm::read_llm(&table)),
        trust: optional_table(&root, "trust", "`[trust]`")
            .map(|table| read_trust(&table))
            .unwrap_or_default(),
        roles: role::read_roles(&root),
        routes: edge::read_routes(&root),
        joins: edge::read_joins(&root),
    };
    if let Some(limits) = optional_table(&root, "limits", "`[limits]`") {
        authored.limits = limits::read_limits_patch(&limits, limits::ComponentKind::Action);
    }
    if let Some(team) = team {
        read_team(&team, &mut authored);
    }
    authored
}

/// Returns the table under an optional key.
pub(super) fn optional_table<'a>(
    parent: &TomlTable<'a>,
    key: &'static str,
    what: &str,
) -> Option<TomlTable<'a>> {
    parent.item(key).and_then(|item| item.table(what))
}

fn read_schema(root: &TomlTable<'_>) {
    let Some(item) = root.item("schema") else {
        let problem = root.problems.at(&(0..0), "a team file needs `schema`");
        let hint = format!("add `schema = \"{SCHEMA}\"` as the first line");
        root.problems.add(problem.hint(hint));
        return;
    };
    let schema = item.text();
    if let Some(schema) = schema.filter(|schema| schema.value != SCHEMA) {
        let message = format!("the schema `{}` is not supported", schema.value);
        item.reject(message, format!("this version reads `{SCHEMA}`"));
    }
}

fn read_team(team: &TomlTable<'_>, authored: &mut AuthoredTeam) {
    authored.name = team.required("name").and_then(|item| item.text());
    let idea = team.item("idea").and_then(|item| item.text());
    authored.idea = idea.map(|idea| idea.value).filter(|idea| !idea.is_empty());
    authored.budget_limits = read_budget_limits(team);
    authored.declares_budget = team.item("investment").is_some();
    let words = [("stop", OnFault::Stop), ("park", OnFault::Park)];
    if let Some(on_fault) = team.item("on_fault").and_then(|item| item.choice(&words)) {
        authored.on_fault = on_fault;
    }
}

/// Reads `investment` and `tokens`. Zero means no limit, and so does an absent key.
pub(super) fn read_budget_limits(table: &TomlTable<'_>) -> BudgetLimits {
    let investment = table.item("investment").and_then(|item| item.amount());
    let tokens = table
        .item("tokens")
        .and_then(|item| item.integer(0..=u64::MAX));
    BudgetLimits {
        usd: budget_from_dollars(investment.unwrap_or(0.0)),
        tokens: tokens.filter(|tokens| *tokens > 0),
    }
}

/// Converts a budget in USD; zero means no limit.
pub(super) fn budget_from_dollars(dollars: f64) -> Option<Usd> {
    // An amount that rounds to zero must not become a budget without a limit.
    (dollars > 0.0).then(|| Usd::from_dollars(dollars).max(Usd(1)))
}

fn read_env(root: &TomlTable<'_>) -> AuthoredEnv {
    let Some(table) = optional_table(root, "env", "`[env]`") else {
        return AuthoredEnv::default();
    };
    let desc = table.item("desc").and_then(|item| item.text());
    let mut env = AuthoredEnv {
        desc: desc.map(|desc| desc.value).unwrap_or_default(),
        external: edge::read_external(&table),
        ..AuthoredEnv::default()
    };
    if let Some(groups) = optional_table(&table, "groups", "`[env.groups]`") {
        for group in groups.entries() {
            if group.is_empty_list() {
                let message = format!("the group `{}` is empty", group.key);
                group.reject(message, "list the roles that belong to it");
            }
            env.groups.push((group.key_name(), group.unique_strings()));
        }
    }
    if let Some(scopes) = optional_table(&table, "scope", "`[env.scope]`") {
        for scope in scopes.entries() {
            let name = scope.key_name();
            super::names::check_name(&name, root.problems);
            if name.value == ROLE_SCOPE {
                let message = format!("a shared scope cannot be called `{ROLE_SCOPE}`");
                scope.reject(
                    message,
                    "that is the scope that each role has for itself; choose another name",
                );
            }
            let what = format!("`[env.scope.{}]`", name.value);
            let reducer = scope.table(what).and_then(|table| read_reducer(&table));
            env.scopes.insert(name.value, reducer);
        }
    }
    env
}

fn read_reducer(scope: &TomlTable<'_>) -> Option<Reducer> {
    let words = [
        ("append", Reducer::Append),
        ("add", Reducer::Add),
        ("max", Reducer::Max),
        ("merge", Reducer::Merge),
        ("last", Reducer::Last),
    ];
    scope.item("reducer").and_then(|item| item.choice(&words))
}

fn read_run(root: &TomlTable<'_>) -> AuthoredRun {
    let mut run = AuthoredRun {
        max_steps: None,
        max_parallel: DEFAULT_PARALLEL,
        config: RunConfig::default(),
    };
    let Some(table) = optional_table(root, "run", "`[run]`") else {
        return run;
    };
    let whole = |key, range| table.item(key).and_then(|item| item.integer(range));
    run.max_steps = whole("max_steps", 0..=u64::MAX).filter(|steps| *steps > 0);
    if let Some(parallel) = whole("max_parallel", 1..=MAX_PARALLEL as u64) {
        run.max_parallel = parallel as usize;
    }
    let checkpoints = whole("checkpoints", 0..=u64::from(u32::MAX));
    run.config.checkpoints_kept = checkpoints
        .map(|count| count as u32)
        .filter(|count| *count > 0);
    let words = [("full", Durability::Full), ("process", Durability::Process)];
    let durability = table.item("durability").and_then(|i| i.choice(&words));
    run.config.durability = durability.unwrap_or_default();
    run
}

/// Reads `[trust]`: the keys with which components must be signed. Signatures are checked in
/// `trust::signature`.
fn read_trust(table: &TomlTable<'_>) -> TrustedKeys {
    let Some(item) = table.required("keys") else {
        return TrustedKeys::default();
    };
    if item.is_empty_list() {
        item.reject(
            "the list of trusted keys is empty",
            "name a key, or leave `[trust]` out and trust everybody",
        );
        return TrustedKeys::default();
    }
    let mut keys = Vec::new();
    for text in item.unique_strings() {
        match TrustedKey::parse(&text.value) {
            Ok(key) => keys.push(key),
            Err(why) => {
                let problem = table
                    .problems
                    .at(&text.span, format!("`{}` is not a key: {why}", text.value));
                table.problems.add(
                    problem.hint("a key is the second line of a `.pub` file of minisign's: `RW…`"),
                );
            }
        }
    }
    TrustedKeys(keys)
}
