//! Reads `[[role]]` and `[[role.action]]`.

use std::ops::Range;

use strata_core::budget::Caps;

use super::limits::Subject;
use super::read_caps;
use super::slot::{self, Slot};
use crate::manifest::table::{At, Table};

/// The largest number of roles in a team and of actions in a role, which are numbered with 16 bits.
const MAX_NUMBERED: usize = u16::MAX as usize;

/// `[[role]]`.
pub(in crate::manifest) struct Role {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) name: Option<At<String>>,
    /// The span of `kind = "human"`, if the role is one.
    pub(in crate::manifest) human: Option<Range<usize>>,
    pub(in crate::manifest) profile: String,
    pub(in crate::manifest) goal: String,
    pub(in crate::manifest) constraints: String,
    pub(in crate::manifest) desc: String,
    pub(in crate::manifest) watch: Vec<At<String>>,
    pub(in crate::manifest) addresses: Vec<At<String>>,
    pub(in crate::manifest) react: Option<At<Mode>>,
    pub(in crate::manifest) max_react_loop: Option<At<u32>>,
    pub(in crate::manifest) think: Option<At<Slot>>,
    pub(in crate::manifest) actions: Vec<Action>,
    pub(in crate::manifest) caps: Caps,
}

/// The value of `react`: how a role goes from one action to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manifest) enum Mode {
    ByOrder,
    Choose,
    PlanAndAct,
}

/// `[[role.action]]`.
pub(in crate::manifest) struct Action {
    pub(in crate::manifest) name: Option<At<String>>,
    pub(in crate::manifest) slot: Slot,
    pub(in crate::manifest) caps: Caps,
}

/// Reads all roles.
pub(super) fn read_all(root: &Table<'_>) -> Vec<Role> {
    let Some(item) = root.required_as("role", "[[role]]") else {
        return Vec::new();
    };
    let roles = item.tables("`[[role]]`");
    if item.is_empty_list() {
        item.refuse("a team needs a role", "add a `[[role]]`");
    }
    if roles.len() > MAX_NUMBERED {
        item.refuse(
            "there are too many roles",
            format!("at most {MAX_NUMBERED}"),
        );
    }
    roles.iter().take(MAX_NUMBERED).map(read).collect()
}

/// The keys that a human role cannot have.
const OF_AGENTS: [&str; 4] = ["action", "think", "react", "max_react_loop"];

fn read(table: &Table<'_>) -> Role {
    let text = |key| {
        let text = table.item(key).and_then(|item| item.text());
        text.map(|text| text.value).unwrap_or_default()
    };
    let texts = |key| table.item(key).map(|item| item.texts()).unwrap_or_default();
    Role {
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
        caps: read_caps(table),
    }
}

fn read_human(table: &Table<'_>) -> Option<Range<usize>> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Agent,
        Human,
    }
    let words = [("agent", Kind::Agent), ("human", Kind::Human)];
    let item = table.item("kind")?;
    item.choice(&words).filter(|kind| *kind == Kind::Human)?;
    table.bar(&OF_AGENTS);
    Some(item.span())
}

fn read_react(table: &Table<'_>) -> Option<At<Mode>> {
    let words = [
        ("by_order", Mode::ByOrder),
        ("react", Mode::Choose),
        ("plan_and_act", Mode::PlanAndAct),
    ];
    let item = table.item("react")?;
    let span = item.span();
    item.choice(&words).map(|value| At { value, span })
}

fn read_max_react_loop(table: &Table<'_>) -> Option<At<u32>> {
    let item = table.item("max_react_loop")?;
    let number = item.whole(1..=u64::from(u32::MAX))?;
    Some(At {
        value: number as u32,
        span: item.key_span,
    })
}

fn read_think(table: &Table<'_>) -> Option<At<Slot>> {
    let item = table.item("think")?;
    let think = item.table("`think`")?;
    Some(At {
        value: slot::read(&think, Subject::Thinker),
        span: item.key_span,
    })
}

fn read_actions(table: &Table<'_>) -> Vec<Action> {
    let Some(item) = table.item("action") else {
        return Vec::new();
    };
    let actions = item.tables("`[[role.action]]`");
    if actions.len() > MAX_NUMBERED {
        item.refuse(
            "there are too many actions",
            format!("at most {MAX_NUMBERED}"),
        );
    }
    let actions = actions.iter().take(MAX_NUMBERED);
    let read = actions.map(|table| Action {
        name: table.required("name").and_then(|item| item.text()),
        slot: slot::read(table, Subject::Action),
        caps: read_caps(table),
    });
    read.collect()
}
