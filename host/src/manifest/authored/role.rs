//! Reads `[[role]]` and `[[role.action]]`.

use std::ops::Range;

use strata_core::team::BudgetLimits;

use super::limits::ComponentKind;
use super::read_budget_limits;
use super::slot::{self, AuthoredSlot};
use crate::manifest::table::{Located, TomlTable};

/// The largest number of roles in a team and of actions in a role, which are numbered with 16 bits.
const MAX_NUMBERED: usize = u16::MAX as usize;

/// `[[role]]`.
pub(in crate::manifest) struct AuthoredRole {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) name: Option<Located<String>>,
    /// The span of `kind = "human"`, if the role is one.
    pub(in crate::manifest) human: Option<Range<usize>>,
    pub(in crate::manifest) profile: String,
    pub(in crate::manifest) goal: String,
    pub(in crate::manifest) constraints: String,
    pub(in crate::manifest) desc: String,
    pub(in crate::manifest) watch: Vec<Located<String>>,
    pub(in crate::manifest) addresses: Vec<Located<String>>,
    pub(in crate::manifest) react: Option<Located<ReactMode>>,
    pub(in crate::manifest) max_react_loop: Option<Located<u32>>,
    pub(in crate::manifest) think: Option<Located<AuthoredSlot>>,
    pub(in crate::manifest) actions: Vec<AuthoredAction>,
    pub(in crate::manifest) budget_limits: BudgetLimits,
}

/// The value of `react`: how a role goes from one action to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manifest) enum ReactMode {
    ByOrder,
    Choose,
    PlanAndAct,
}

/// `[[role.action]]`.
pub(in crate::manifest) struct AuthoredAction {
    pub(in crate::manifest) name: Option<Located<String>>,
    pub(in crate::manifest) slot: AuthoredSlot,
    pub(in crate::manifest) budget_limits: BudgetLimits,
}

/// Reads all roles.
pub(super) fn read_roles(root: &TomlTable<'_>) -> Vec<AuthoredRole> {
    let Some(item) = root.required_with_line("role", "[[role]]") else {
        return Vec::new();
    };
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
const AGENT_ONLY_KEYS: [&str; 4] = ["action", "think", "react", "max_react_loop"];

fn read_role(table: &TomlTable<'_>) -> AuthoredRole {
    let text = |key| {
        let text = table.item(key).and_then(|item| item.text());
        text.map(|text| text.value).unwrap_or_default()
    };
    let texts = |key| {
        table
            .item(key)
            .map(|item| item.unique_strings())
            .unwrap_or_default()
    };
    AuthoredRole {
        span: table.span.clone(),
        name: table.required("name").and_then(|item| item.text()),
        human: read_human(table),
        profile: text("profile"),
        goal: text("goal"),
        constraints: text("constraints"),
        desc: text("desc"),
        watch: texts("watch"),
        addresses: texts("addresses"),
        react: read_react(table),
        max_react_loop: read_max_react_loop(table),
        think: read_think(table),
        actions: read_actions(table),
        budget_limits: read_budget_limits(table),
    }
}

fn read_human(table: &TomlTable<'_>) -> Option<Range<usize>> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum RoleKind {
        Agent,
        Human,
    }
    let words = [("agent", RoleKind::Agent), ("human", RoleKind::Human)];
    let item = table.item("kind")?;
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
    ];
    let item = table.item("react")?;
    let span = item.span();
    item.choice(&words).map(|value| Located { value, span })
}

fn read_max_react_loop(table: &TomlTable<'_>) -> Option<Located<u32>> {
    let item = table.item("max_react_loop")?;
    let number = item.integer(1..=u64::from(u32::MAX))?;
    Some(Located {
        value: number as u32,
        span: item.key_span,
    })
}

fn read_think(table: &TomlTable<'_>) -> Option<Located<AuthoredSlot>> {
    let item = table.item("think")?;
    let think = item.table("`think`")?;
    Some(Located {
        value: slot::read_slot(&think, ComponentKind::Thinker),
        span: item.key_span,
    })
}

fn read_actions(table: &TomlTable<'_>) -> Vec<AuthoredAction> {
    let Some(item) = table.item("action") else {
        return Vec::new();
    };
    let actions = item.tables("`[[role.action]]`");
    if actions.len() > MAX_NUMBERED {
        item.reject(
            "there are too many actions",
            format!("at most {MAX_NUMBERED}"),
        );
    }
    let actions = actions.iter().take(MAX_NUMBERED);
    let read = actions.map(|table| AuthoredAction {
        name: table.required("name").and_then(|item| item.text()),
        slot: slot::read_slot(table, ComponentKind::Action),
        budget_limits: read_budget_limits(table),
    });
    read.collect()
}
