//! The contents of a team file as they are written: every key is read, typed and given its default.
//! How the parts relate to each other (names, targets, modes) is checked in `check`.

pub(super) mod edge;
pub(super) mod limits;
pub(super) mod role;
pub(super) mod slot;

use std::collections::BTreeMap;

use strata_core::budget::Caps;
use strata_core::environment::scope::ROLE_SCOPE;
use strata_core::money::Usd;
use strata_core::team::{OnFault, Reducer};

use self::edge::{Join, Route};
use self::limits::Patch;
use self::role::Role;
use super::llm;
use super::table::{At, Table};
use super::{Durability, RunConfig};
use crate::services::external::External;
use crate::services::llm::config::Config;
use crate::trust::signature::{Key, Keys};

/// The version of the format that this program reads.
pub(super) const SCHEMA: &str = "strata.team/1";

/// The largest `max_parallel`: more concurrent calls than any machine has use for.
pub(super) const MAX_PARALLEL: usize = 1024;

/// The default of `max_parallel`: about the number of cores of a common machine.
pub(super) const DEFAULT_PARALLEL: usize = 8;

/// A team file.
pub(super) struct Authored {
    pub(super) name: Option<At<String>>,
    pub(super) idea: Option<String>,
    pub(super) caps: Caps,
    /// Whether `investment` is written, even if it is zero.
    pub(super) says_budget: bool,
    pub(super) on_fault: OnFault,
    pub(super) env: Env,
    pub(super) limits: Patch,
    pub(super) run: Run,
    pub(super) llm: Option<Config>,
    pub(super) trust: Keys,
    pub(super) roles: Vec<Role>,
    pub(super) routes: Vec<Route>,
    pub(super) joins: Vec<Join>,
}

/// `[env]`.
#[derive(Default)]
pub(super) struct Env {
    pub(super) desc: String,
    pub(super) groups: Vec<(At<String>, Vec<At<String>>)>,
    pub(super) scopes: BTreeMap<String, Option<Reducer>>,
    pub(super) external: Option<At<External>>,
}

/// `[run]`.
pub(super) struct Run {
    pub(super) max_steps: Option<u64>,
    pub(super) max_parallel: usize,
    pub(super) config: RunConfig,
}

/// Reads a document.
pub(super) fn read(root: Table<'_>) -> Authored {
    read_schema(&root);
    let team = root
        .required_as("team", "[team]")
        .and_then(|item| item.table("`[team]`"));
    let mut authored = Authored {
        name: None,
        idea: None,
        caps: Caps::default(),
        says_budget: false,
        on_fault: OnFault::Stop,
        env: read_env(&root),
        limits: Patch::default(),
        run: read_run(&root),
        llm: section(&root, "llm", "`[llm]`").and_then(|table| llm::read(&table)),
        trust: section(&root, "trust", "`[trust]`")
            .map(|table| read_trust(&table))
            .unwrap_or_default(),
        roles: role::read_all(&root),
        routes: edge::read_routes(&root),
        joins: edge::read_joins(&root),
    };
    if let Some(limits) = section(&root, "limits", "`[limits]`") {
        authored.limits = limits::read(&limits, limits::Subject::Action);
    }
    if let Some(team) = team {
        read_team(&team, &mut authored);
    }
    authored
}

/// Returns the table under an optional key.
pub(super) fn section<'a>(parent: &Table<'a>, key: &'static str, what: &str) -> Option<Table<'a>> {
    parent.item(key).and_then(|item| item.table(what))
}

fn read_schema(root: &Table<'_>) {
    let Some(item) = root.item("schema") else {
        let problem = root.problems.at(&(0..0), "a team file needs `schema`");
        let hint = format!("add `schema = \"{SCHEMA}\"` as the first line");
        root.problems.add(problem.hint(hint));
        return;
    };
    let schema = item.text();
    if let Some(schema) = schema.filter(|schema| schema.value != SCHEMA) {
        let message = format!("the schema `{}` is not supported", schema.value);
        item.refuse(message, format!("this version reads `{SCHEMA}`"));
    }
}

fn read_team(team: &Table<'_>, authored: &mut Authored) {
    authored.name = team.required("name").and_then(|item| item.text());
    let idea = team.item("idea").and_then(|item| item.text());
    authored.idea = idea.map(|idea| idea.value).filter(|idea| !idea.is_empty());
    authored.caps = read_caps(team);
    authored.says_budget = team.item("investment").is_some();
    let words = [("stop", OnFault::Stop), ("park", OnFault::Park)];
    if let Some(on_fault) = team.item("on_fault").and_then(|item| item.choice(&words)) {
        authored.on_fault = on_fault;
    }
}

/// Reads `investment` and `tokens`. Zero means no limit, and so does an absent key.
pub(super) fn read_caps(table: &Table<'_>) -> Caps {
    let investment = table.item("investment").and_then(|item| item.amount());
    let tokens = table
        .item("tokens")
        .and_then(|item| item.whole(0..=u64::MAX));
    Caps {
        usd: budget(investment.unwrap_or(0.0)),
        tokens: tokens.filter(|tokens| *tokens > 0),
    }
}

/// Converts a budget in USD; zero means no limit.
pub(super) fn budget(dollars: f64) -> Option<Usd> {
    // An amount that rounds to zero must not become a budget without a limit.
    (dollars > 0.0).then(|| Usd::from_dollars(dollars).max(Usd(1)))
}

fn read_env(root: &Table<'_>) -> Env {
    let Some(table) = section(root, "env", "`[env]`") else {
        return Env::default();
    };
    let desc = table.item("desc").and_then(|item| item.text());
    let mut env = Env {
        desc: desc.map(|desc| desc.value).unwrap_or_default(),
        external: edge::read_external(&table),
        ..Env::default()
    };
    if let Some(groups) = section(&table, "groups", "`[env.groups]`") {
        for group in groups.entries() {
            if group.is_empty_list() {
                let message = format!("the group `{}` is empty", group.key);
                group.refuse(message, "list the roles that belong to it");
            }
            env.groups.push((group.name(), group.texts()));
        }
    }
    if let Some(scopes) = section(&table, "scope", "`[env.scope]`") {
        for scope in scopes.entries() {
            let name = scope.name();
            super::names::valid(&name, root.problems);
            if name.value == ROLE_SCOPE {
                let message = format!("a shared scope cannot be called `{ROLE_SCOPE}`");
                scope.refuse(
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

fn read_reducer(scope: &Table<'_>) -> Option<Reducer> {
    let words = [
        ("append", Reducer::Append),
        ("add", Reducer::Add),
        ("max", Reducer::Max),
        ("merge", Reducer::Merge),
        ("last", Reducer::Last),
    ];
    scope.item("reducer").and_then(|item| item.choice(&words))
}

fn read_run(root: &Table<'_>) -> Run {
    let mut run = Run {
        max_steps: None,
        max_parallel: DEFAULT_PARALLEL,
        config: RunConfig::default(),
    };
    let Some(table) = section(root, "run", "`[run]`") else {
        return run;
    };
    let whole = |key, range| table.item(key).and_then(|item| item.whole(range));
    run.max_steps = whole("max_steps", 0..=u64::MAX).filter(|steps| *steps > 0);
    if let Some(parallel) = whole("max_parallel", 1..=MAX_PARALLEL as u64) {
        run.max_parallel = parallel as usize;
    }
    let kept = whole("checkpoints", 0..=u64::from(u32::MAX));
    run.config.checkpoints_kept = kept.map(|kept| kept as u32).filter(|kept| *kept > 0);
    let words = [("full", Durability::Full), ("process", Durability::Process)];
    let durability = table.item("durability").and_then(|i| i.choice(&words));
    run.config.durability = durability.unwrap_or_default();
    run
}

/// Reads `[trust]`: the keys with which components must be signed. Signatures are checked in
/// `trust::signature`.
fn read_trust(table: &Table<'_>) -> Keys {
    let Some(item) = table.required("keys") else {
        return Keys::default();
    };
    if item.is_empty_list() {
        item.refuse(
            "the list of trusted keys is empty",
            "name a key, or leave `[trust]` out and trust everybody",
        );
        return Keys::default();
    }
    let mut keys = Vec::new();
    for text in item.texts() {
        match Key::parse(&text.value) {
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
    Keys(keys)
}
