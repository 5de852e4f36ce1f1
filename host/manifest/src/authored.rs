//! The contents of a team file as they are written: every key is read, typed and given its default.
//! How the parts relate to each other (names, targets, modes) is checked in `check`.

mod code_tool;
pub(super) mod edge;
pub(super) mod limits;
pub(super) mod mcp;
pub(super) mod memory;
pub(super) mod role;
mod skills;
pub(super) mod slot;
mod telemetry;
pub(super) mod tools;

use std::collections::BTreeMap;

use serde_json::json;
use strata_base::files::durability::Durability;
use strata_core::record::money::Usd;
use strata_core::record::rules::Reducer;
use strata_core::record::scope_write::ROLE_SCOPE;
use strata_core::record::shape::DeliveryMode;
use strata_core::team::{BudgetLimits, DEFAULT_STATE_BYTES, OnFault};
use strata_services::external::ExternalEndpoint;
use strata_services::telemetry::TelemetrySettings;

use self::edge::{AuthoredJoin, AuthoredRoute};
use self::limits::LimitsPatch;
use self::mcp::AuthoredServer;
use self::role::AuthoredRole;
use super::RunConfig;
use super::models::{self, AuthoredModels};
use super::schema::{kind, map_schema};
use super::table::{Located, TomlTable};
use crate::trust::signature::{TrustedKey, TrustedKeys};

/// The version of the format that this program reads.
pub(super) const SCHEMA: &str = "strata.team/1";

/// The largest `max_parallel`: more concurrent calls than any machine has use for.
pub(super) const MAX_PARALLEL: usize = 1024;

/// The default of `max_parallel`: about the number of cores of a common machine.
pub(super) const DEFAULT_PARALLEL: usize = 8;

/// A team file.
pub(super) struct AuthoredTeam {
    pub(super) header: TeamHeader,
    pub(super) env: AuthoredEnv,
    pub(super) limits: LimitsPatch,
    pub(super) run: AuthoredRun,
    pub(super) models: AuthoredModels,
    /// The MCP servers, by name.
    pub(super) servers: BTreeMap<String, AuthoredServer>,
    pub(super) trust: TrustedKeys,
    pub(super) telemetry: TelemetrySettings,
    pub(super) roles: Vec<AuthoredRole>,
    pub(super) routes: Vec<AuthoredRoute>,
    pub(super) joins: Vec<AuthoredJoin>,
}

/// `[team]`.
#[derive(Default)]
pub(super) struct TeamHeader {
    pub(super) name: Option<Located<String>>,
    pub(super) idea: Option<String>,
    pub(super) budget_limits: BudgetLimits,
    /// Whether `investment` is written, even if it is zero.
    pub(super) declares_budget: bool,
    pub(super) on_fault: Option<OnFault>,
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
#[derive(Default)]
pub(super) struct AuthoredRun {
    pub(super) state_bytes: Option<u64>,
    pub(super) max_steps: Option<u64>,
    pub(super) max_parallel: Option<usize>,
    pub(super) config: RunConfig,
}

/// Reads a document.
pub(super) fn read_team_file(root: &TomlTable<'_>) -> AuthoredTeam {
    read_schema(root);
    let header = root
        .key("team", "The team as a whole.")
        .required_with_line("[team]")
        .table("`[team]`", read_header);
    let env = root
        .key("env", "What all roles share.")
        .table("`[env]`", read_env);
    let limits = root
        .key(
            "limits",
            "What each action may use up, where it says nothing itself.",
        )
        .table("`[limits]`", |limits| {
            limits::read_limits_patch(limits, limits::ComponentKind::Action)
        });
    let run = root
        .key("run", "How the team is run.")
        .table("`[run]`", read_run);
    let trust = root
        .key("trust", "Whose components may be loaded.")
        .table("`[trust]`", read_trust);
    let models = models::read_models(root);
    let servers = mcp::read_servers(root);
    AuthoredTeam {
        header: header.unwrap_or_default(),
        env: env.unwrap_or_default(),
        limits: limits.unwrap_or_default(),
        run: run.unwrap_or_default(),
        models,
        servers,
        trust: trust.unwrap_or_default(),
        telemetry: telemetry::read_telemetry(root),
        roles: role::read_roles(root),
        routes: edge::read_routes(root),
        joins: edge::read_joins(root),
    }
}

fn read_schema(root: &TomlTable<'_>) {
    let item = root
        .key("schema", "The version of the format.")
        .described_as_required()
        .value(|| json!({ "type": "string", "const": SCHEMA }));
    let Some(item) = item else {
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

fn read_header(team: &TomlTable<'_>) -> TeamHeader {
    let name = team.key("name", "The team's name.").required().name();
    let idea = team
        .key(
            "idea",
            "What the team is asked to do, where the command line says nothing.",
        )
        .text();
    let on_fault = team
        .key(
            "on_fault",
            "What a fault stops. `stop`: the others of the step finish, then the run stops. `park`: all others go \
             on until nothing is left to do.",
        )
        .default("stop")
        .choice(&[("stop", OnFault::Stop), ("park", OnFault::Park)]);
    TeamHeader {
        name,
        idea: idea.map(|idea| idea.value).filter(|idea| !idea.is_empty()),
        budget_limits: read_budget_limits(team, &TEAM_BUDGET),
        declares_budget: team.has("investment"),
        on_fault,
    }
}

/// What the keys of a budget are for.
pub(super) struct BudgetKeys {
    pub(super) investment: &'static str,
    pub(super) tokens: &'static str,
}

const TEAM_BUDGET: BudgetKeys = BudgetKeys {
    investment: "What may be spent in all, in USD, over resumes and forks; 0 for no cap. The call that crosses the \
                 line is still made, so the last calls may exceed it.",
    tokens: "How many tokens may be used in all; 0 for no cap.",
};

/// Reads `deliver`, which a join and a role can have. `about` describes it.
fn read_deliver(table: &TomlTable<'_>, about: &'static str) -> Option<DeliveryMode> {
    table
        .key("deliver", about)
        .default(DeliveryMode::Batch.name())
        .choice(&[DeliveryMode::Batch, DeliveryMode::Each].map(|mode| (mode.name(), mode)))
}

/// Reads `investment` and `tokens`. Zero means no limit, and so does an absent key.
pub(super) fn read_budget_limits(table: &TomlTable<'_>, about: &BudgetKeys) -> BudgetLimits {
    let investment = table
        .key("investment", about.investment)
        .default(0)
        .amount();
    let tokens = table
        .key("tokens", about.tokens)
        .default(0)
        .integer(0..=u64::MAX);
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

fn read_env(table: &TomlTable<'_>) -> AuthoredEnv {
    let desc = table
        .key("desc", "What the environment is, in words.")
        .text();
    AuthoredEnv {
        desc: desc.map(|desc| desc.value).unwrap_or_default(),
        groups: read_groups(table),
        scopes: read_scopes(table),
        external: edge::read_external(table),
    }
}

fn read_groups(env: &TomlTable<'_>) -> Vec<(Located<String>, Vec<Located<String>>)> {
    let groups = env
        .key("groups", "Names that stand for several roles.")
        .value(|| map_schema(kind::non_empty_texts()))
        .and_then(|item| item.table("`[env.groups]`"));
    let mut read = Vec::new();
    for group in groups.iter().flat_map(TomlTable::entries) {
        if group.is_empty_list() {
            let message = format!("the group `{}` is empty", group.key);
            group.reject(message, "list the roles that belong to it");
        }
        read.push((group.key_name(), group.unique_strings()));
    }
    read
}

fn read_scopes(env: &TomlTable<'_>) -> BTreeMap<String, Option<Reducer>> {
    let scopes = env
        .key("scope", "State that roles share, by its name.")
        .map_item(read_reducer)
        .and_then(|item| item.table("`[env.scope]`"));
    let mut read = BTreeMap::new();
    for scope in scopes.iter().flat_map(TomlTable::entries) {
        let name = scope.key_name();
        super::names::check_name(&name, env.problems);
        if name.value == ROLE_SCOPE {
            let message = format!("a shared scope cannot be called `{ROLE_SCOPE}`");
            scope.reject(
                message,
                "that is the scope that each role has for itself; choose another name",
            );
        }
        let what = format!("`[env.scope.{}]`", name.value);
        let reducer = scope.table(what).and_then(|table| read_reducer(&table));
        read.insert(name.value, reducer);
    }
    read
}

fn read_reducer(scope: &TomlTable<'_>) -> Option<Reducer> {
    scope
        .key(
            "reducer",
            "How values become one that several roles write to a key in one step. Without it that is a fault, \
             `state-conflict`.",
        )
        .choice(&[
            ("append", Reducer::Append),
            ("add", Reducer::Add),
            ("max", Reducer::Max),
            ("merge", Reducer::Merge),
            ("last", Reducer::Last),
        ])
}

fn read_run(table: &TomlTable<'_>) -> AuthoredRun {
    let max_steps = table
        .key(
            "max_steps",
            "A safety stop after so many steps, over resumes; 0 for none.",
        )
        .default(0)
        .integer(0..=u64::MAX);
    let max_parallel = table
        .key(
            "max_parallel",
            "How many actions run at once. All teams of a process together run at most 128.",
        )
        .default(DEFAULT_PARALLEL)
        .integer(1..=MAX_PARALLEL as u64);
    let checkpoints = table
        .key(
            "checkpoints",
            "How many checkpoints are kept of each lineage; 0 for all.",
        )
        .default(0)
        .integer(0..=u64::from(u32::MAX));
    let durability = table
        .key(
            "durability",
            "What saved work survives. `full`: a loss of power. `process`: the end of the process, however sudden; \
             steps are cheaper.",
        )
        .default("full")
        .choice(&[("full", Durability::Full), ("process", Durability::Process)]);
    let state = table
        .key(
            "state",
            "How much memory the messages, the values of scopes and the results of a run may take together.",
        )
        .default(kind::written_size(DEFAULT_STATE_BYTES))
        .value(|| kind::size(1))
        .and_then(|item| {
            let state = item.size()?;
            if state == 0 {
                item.reject(
                    "`state` cannot be zero",
                    "nothing could run; leave the key out for the default",
                );
            }
            Some(state)
        });
    AuthoredRun {
        state_bytes: state,
        max_steps: max_steps.filter(|steps| *steps > 0),
        max_parallel: max_parallel.map(|parallel| parallel as usize),
        config: RunConfig {
            durability: durability.unwrap_or_default(),
            checkpoints_kept: checkpoints
                .map(|count| count as u32)
                .filter(|count| *count > 0),
        },
    }
}

/// Reads `[trust]`: the keys with which components must be signed. Signatures are checked in
/// `trust::signature`.
fn read_trust(table: &TomlTable<'_>) -> TrustedKeys {
    let item = table
        .key(
            "keys",
            "Public keys of minisign, `RW…`: each component has to be signed with one of them, in a file of its name \
             and `.minisig` beside it.",
        )
        .required()
        .value(kind::non_empty_texts);
    let Some(item) = item else {
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
