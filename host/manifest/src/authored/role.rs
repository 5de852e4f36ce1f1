//! Reads `[[role]]` and `[[role.action]]`.

use std::ops::Range;

use serde_json::json;
use strata_core::record::shape::DeliveryMode;
use strata_core::team::BudgetLimits;

use super::action::AuthoredAction;
use super::limits::ComponentKind;
use super::slot::{self, AuthoredSlot};
use super::tools::{self, AuthoredTools};
use super::{BudgetKeys, read_budget_limits, read_deliver};
use crate::schema::{conditional, kind};
use crate::table::{Located, TomlTable};

/// The largest number of roles in a team and of actions in a role, which are numbered with 16 bits.
const MAX_NUMBERED: usize = u16::MAX as usize;

/// `[[role]]`.
pub(crate) struct AuthoredRole {
    pub(crate) span: Range<usize>,
    pub(crate) name: Option<Located<String>>,
    /// The span of `kind = "human"`, if the role is one.
    pub(crate) human: Option<Range<usize>>,
    pub(crate) profile: String,
    pub(crate) goal: String,
    pub(crate) constraints: String,
    pub(crate) desc: String,
    pub(crate) watch: Vec<Located<String>>,
    pub(crate) addresses: Vec<Located<String>>,
    pub(crate) deliver: Option<DeliveryMode>,
    pub(crate) model: Option<Located<String>>,
    pub(crate) react: Option<Located<ReactMode>>,
    pub(crate) max_react_loop: Option<Located<u32>>,
    pub(crate) think: Option<Located<AuthoredSlot>>,
    pub(crate) tools: AuthoredTools,
    pub(crate) actions: Vec<AuthoredAction>,
    /// The answers that it may give, if it is a human role.
    pub(crate) choices: Vec<Located<String>>,
    pub(crate) budget_limits: BudgetLimits,
}

/// The value of `react`: how a role goes from one action to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReactMode {
    ByOrder,
    Choose,
    PlanAndAct,
    Tools,
}

/// Reads all roles.
pub(super) fn read_roles(root: &TomlTable<'_>) -> Vec<AuthoredRole> {
    let item = root
        .key(
            "role",
            "The roles, in the order in which their results take effect.",
        )
        .required_with_line("[[role]]")
        .keyword("minItems", 1)
        .list_item(read_role);
    let Some(item) = item else { return Vec::new() };
    let roles = item.tables("`[[role]]`");
    if item.is_empty_list() {
        item.reject("a team needs a role", "add a `[[role]]`");
    }
    if roles.len() > MAX_NUMBERED {
        item.reject(
            "there are too many roles",
            format!("at most {MAX_NUMBERED}"),
        );
    }
    roles.iter().take(MAX_NUMBERED).map(read_role).collect()
}

/// The keys that a human role cannot have.
const AGENT_ONLY_KEYS: [&str; 21] = [
    "action",
    "think",
    "react",
    "max_react_loop",
    "model",
    "instructions",
    "max_turns",
    "max_calls",
    "repeat",
    "skills",
    "skill",
    "before",
    "after",
    "history",
    "tool_choice",
    "parallel",
    "tool_faults",
    "handoff",
    "tool",
    "limits",
    "memory",
];

/// What the keys of the budget of a role or an action are for.
const OWN_BUDGET: BudgetKeys = BudgetKeys {
    investment: "What it may spend in all, in USD; 0 for no cap of its own. The call that crosses the line is still \
                 made, so the last calls may exceed it.",
    tokens: "How many tokens it may use in all; 0 for no cap of its own.",
};

fn read_role(table: &TomlTable<'_>) -> AuthoredRole {
    table.define_as("role");
    let text = |key, about| {
        let text = table.key(key, about).text();
        text.map(|text| text.value).unwrap_or_default()
    };
    describe_rules(table);
    let mut tools = tools::read_tools(table);
    let mut actions = read_actions(table);
    actions.append(&mut tools.code);
    AuthoredRole {
        span: table.span.clone(),
        name: table
            .key("name", "Its name, for routes and messages.")
            .required()
            .name(),
        human: read_human(table),
        profile: text("profile", "Its job, for prompts."),
        goal: text("goal", "What it is to achieve, for prompts."),
        constraints: text("constraints", "What it has to respect, for prompts."),
        desc: text("desc", "Anything else about it, for prompts."),
        watch: table
            .key(
                "watch",
                "The labels it hears of: names of actions, or `UserRequirement`, the idea.",
            )
            .unique_texts(),
        addresses: table
            .key("addresses", "Further names for it.")
            .unique_texts(),
        deliver: read_deliver(
            table,
            "How it takes its mail. `batch`: all that has arrived in one activation. `each`: each message in an \
             activation of its own, in the order of arrival, one step after another.",
        ),
        model: table
            .key(
                "model",
                "The model that is asked where its actions, or what chooses the next one, name none: the NAME of a \
                 `[model.NAME]`. Without it, that of `[llm]`.",
            )
            .value(kind::name)
            .and_then(|item| item.legible_text()),
        react: read_react(table),
        max_react_loop: read_max_react_loop(table),
        think: read_think(table),
        tools,
        actions,
        choices: table
            .key(
                "choices",
                "The answers that may be given, for `kind = \"human\"`. Without it, any answer may be given that \
                 follows `output_schema`.",
            )
            .unique_texts(),
        budget_limits: read_budget_limits(table, &OWN_BUDGET),
    }
}

/// Describes which keys human roles cannot have and other roles need. It is checked in `check`.
fn describe_rules(role: &TomlTable<'_>) {
    let human = || conditional("kind", "human", &[], &AGENT_ONLY_KEYS);
    role.rule("if", || human()["if"].take());
    role.rule("then", || human()["then"].take());
    role.rule("else", || {
        let mut without = conditional("react", "tools", &[], &[]);
        without["else"] =
            json!({ "required": ["action"], "properties": { "action": { "minItems": 1 } } });
        without
    });
}

fn read_human(table: &TomlTable<'_>) -> Option<Range<usize>> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum RoleKind {
        Agent,
        Human,
    }
    let words = [("agent", RoleKind::Agent), ("human", RoleKind::Human)];
    let item = table
        .key(
            "kind",
            "Who plays it: components, or a person who is asked.",
        )
        .default("agent")
        .one_of(&words)?;
    item.choice(&words)
        .filter(|kind| *kind == RoleKind::Human)?;
    table.exclude(&AGENT_ONLY_KEYS);
    Some(item.span())
}

fn read_react(table: &TomlTable<'_>) -> Option<Located<ReactMode>> {
    let words = [
        ("by_order", ReactMode::ByOrder),
        ("react", ReactMode::Choose),
        ("plan_and_act", ReactMode::PlanAndAct),
        ("tools", ReactMode::Tools),
    ];
    let item = table
        .key(
            "react",
            "How it goes from one action to the next. `by_order`: all, in order. `react`: something chooses the \
             next. `plan_and_act`: the first plans, the others carry out the plan. `tools`: its model calls them as \
             tools, as often as it likes, and then answers.",
        )
        .default("by_order")
        .one_of(&words)?;
    let span = item.span();
    item.choice(&words).map(|value| Located { value, span })
}

fn read_max_react_loop(table: &TomlTable<'_>) -> Option<Located<u32>> {
    let range = 1..=u64::from(u32::MAX);
    let item = table
        .key(
            "max_react_loop",
            "How many actions one activation makes at most, for `react`.",
        )
        .default(1)
        .value(|| kind::integer(range.clone()))?;
    let number = item.integer(range)?;
    Some(Located {
        value: number as u32,
        span: item.key_span,
    })
}

fn read_think(table: &TomlTable<'_>) -> Option<Located<AuthoredSlot>> {
    let item = table
        .key(
            "think",
            "What chooses the next action, for `react`. Without it, the team's model; a single action needs neither.",
        )
        .table_item(read_thinker)?;
    let think = item.table("`think`")?;
    Some(Located {
        value: read_thinker(&think),
        span: item.key_span,
    })
}

fn read_thinker(table: &TomlTable<'_>) -> AuthoredSlot {
    table.define_as("think");
    slot::read_slot(table, ComponentKind::Thinker)
}

fn read_actions(table: &TomlTable<'_>) -> Vec<AuthoredAction> {
    let item = table
        .key("action", "Its actions, in order.")
        .list_item(read_action);
    let Some(item) = item else { return Vec::new() };
    let actions = item.tables("`[[role.action]]`");
    if actions.len() > MAX_NUMBERED {
        item.reject(
            "there are too many actions",
            format!("at most {MAX_NUMBERED}"),
        );
    }
    actions.iter().take(MAX_NUMBERED).map(read_action).collect()
}

fn read_action(table: &TomlTable<'_>) -> AuthoredAction {
    table.define_as("action");
    AuthoredAction {
        name: table
            .key("name", "Its name, which is also the label of its messages.")
            .required()
            .name(),
        slot: slot::read_slot(table, ComponentKind::Action),
        tool: tools::read_tool_action(table),
        budget_limits: read_budget_limits(table, &OWN_BUDGET),
    }
}
