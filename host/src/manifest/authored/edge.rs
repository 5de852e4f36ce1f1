//! Reads `[[route]]`, `[[join]]` and `[env.external]`.

use std::ops::Range;

use strata_core::team::{Deliver, Mode};

use super::section;
use crate::manifest::http;
use crate::manifest::names::is_legible;
use crate::manifest::table::{At, Table};
use crate::services::endpoint::Service;
use crate::services::external::External;

/// `[[route]]`.
pub(in crate::manifest) struct Route {
    pub(in crate::manifest) from: Option<At<String>>,
    pub(in crate::manifest) label: String,
    pub(in crate::manifest) arms: Vec<Arm>,
}

/// One arm of a route: an optional condition and the targets.
pub(in crate::manifest) struct Arm {
    pub(in crate::manifest) when: Option<At<String>>,
    pub(in crate::manifest) to: Vec<At<String>>,
}

/// `[[join]]`.
pub(in crate::manifest) struct Join {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) id: Option<At<String>>,
    pub(in crate::manifest) from: Vec<At<String>>,
    pub(in crate::manifest) to: Option<At<String>>,
    pub(in crate::manifest) mode: Option<Mode>,
    pub(in crate::manifest) deliver: Option<Deliver>,
}

/// Reads all routes.
pub(super) fn read_routes(root: &Table<'_>) -> Vec<Route> {
    let tables = root.item("route").map(|item| item.tables("`[[route]]`"));
    tables.iter().flatten().map(read_route).collect()
}

fn read_route(table: &Table<'_>) -> Route {
    let from = table.required("from").and_then(|item| item.text());
    let label = table.item("label").and_then(|item| item.text());
    // A label may have several lines.
    let lines = label
        .iter()
        .flat_map(|label| label.value.lines().map(|line| (line.trim(), &label.span)));
    for (line, span) in lines {
        is_legible(
            &At {
                value: line.to_owned(),
                span: span.clone(),
            },
            table.problems,
        );
    }
    let label = label.map(|label| label.value).unwrap_or_default();
    let arms = if table.has("case") {
        read_cases(table)
    } else {
        read_plain(table)
    };
    Route { from, label, arms }
}

/// Reads a route without `case`: `to`, with or without `when`.
fn read_plain(table: &Table<'_>) -> Vec<Arm> {
    if let Some(default) = table.item("default") {
        let problem = table
            .problems
            .at(&default.key_span, "`default` needs `case`");
        let hint = "a route without `case` names its targets in `to`";
        table.problems.add(problem.hint(hint));
    }
    // Looked up so that the table knows the key and can suggest it for a misspelt one.
    let _ = table.item("case");
    if table.has("to") || table.has("when") {
        table.bar(&["case", "default"]);
    }
    let to = read_to(table, "to");
    vec![Arm {
        when: table.item("when").and_then(|item| item.text()),
        to,
    }]
}

/// Reads `case` with its arms, and `default`.
fn read_cases(table: &Table<'_>) -> Vec<Arm> {
    table.bar(&["to", "when"]);
    for key in ["to", "when"] {
        if let Some(item) = table.item(key) {
            let message = format!("a route cannot have both `case` and `{key}`");
            let problem = table.problems.at(&item.key_span, message);
            let hint = "put it into an arm of `case`, or into `default`";
            table.problems.add(problem.hint(hint));
        }
    }
    let mut arms = Vec::new();
    if let Some(case) = table.item("case") {
        let tables = case.tables("an arm of `case`");
        if case.is_empty_list() {
            let hint = "add `{ when = \"…\", to = [\"…\"] }`, or use `to` alone";
            case.refuse("`case` has no arms", hint);
        }
        arms.extend(tables.iter().map(|arm| Arm {
            when: arm.required("when").and_then(|item| item.text()),
            to: read_to(arm, "to"),
        }));
    }
    if table.item("default").is_some() {
        arms.push(Arm {
            when: None,
            to: read_to(table, "default"),
        });
    }
    arms
}

fn read_to(table: &Table<'_>, key: &'static str) -> Vec<At<String>> {
    let Some(item) = table.required(key) else {
        return Vec::new();
    };
    let to = item.texts();
    if item.is_empty_list() {
        let hint = "name a role, an alias, a group or a join";
        item.refuse(format!("`{key}` leads nowhere"), hint);
    }
    to
}

/// Reads all joins.
pub(super) fn read_joins(root: &Table<'_>) -> Vec<Join> {
    let tables = root.item("join").map(|item| item.tables("`[[join]]`"));
    let read = |table: &Table<'_>| {
        let modes = [Mode::All, Mode::Any, Mode::Active].map(|mode| (mode.name(), mode));
        let ways = [Deliver::Batch, Deliver::Each].map(|way| (way.name(), way));
        let from = table.required("from");
        if let Some(from) = from.as_ref().filter(|from| from.is_empty_list()) {
            from.refuse("a join needs sources", "name the roles it waits for");
        }
        Join {
            span: table.span.clone(),
            id: table.required("id").and_then(|item| item.text()),
            from: from.map(|item| item.texts()).unwrap_or_default(),
            to: table.required("to").and_then(|item| item.text()),
            mode: table.item("mode").and_then(|item| item.choice(&modes)),
            deliver: table.item("deliver").and_then(|item| item.choice(&ways)),
        }
    };
    tables.iter().flatten().map(read).collect()
}

/// Reads `[env.external]`.
pub(super) fn read_external(env: &Table<'_>) -> Option<At<External>> {
    #[derive(Clone, Copy)]
    enum Kind {
        Stdio,
        Http,
    }
    let table = section(env, "external", "`[env.external]`")?;
    let words = [("stdio", Kind::Stdio), ("http", Kind::Http)];
    let kind = table.required("kind").and_then(|item| item.choice(&words));
    match kind {
        Some(Kind::Stdio) => {
            refuse(&table, "url", "http");
            let item = table.required("command")?;
            let command: Vec<String> = item.strings().into_iter().map(|word| word.value).collect();
            if item.is_empty_list() {
                item.refuse("`command` is empty", "name a program and its arguments");
            }
            Some(At {
                value: External::Stdio {
                    command,
                    dir: item.base().to_owned(),
                },
                span: item.span(),
            })
        }
        Some(Kind::Http) => {
            refuse(&table, "command", "stdio");
            let At { value, span } = http::read_url(&table.required("url")?, Service::Messages)?;
            // Cannot fail: `read_url` has checked the URL.
            let url = value.parse().ok()?;
            Some(At {
                value: External::Http { url },
                span,
            })
        }
        // The invalid `kind` is reported already. Which keys belong to it is unknown, so both are
        // accepted.
        None => {
            table.item("command");
            table.item("url");
            None
        }
    }
}

/// Reports a key that belongs to another `kind`.
fn refuse(table: &Table<'_>, key: &'static str, kind: &str) {
    table.bar(&[key]);
    if let Some(item) = table.item(key) {
        let problem = table.problems.at(
            &item.key_span,
            format!("`{key}` is for `kind = \"{kind}\"`"),
        );
        table
            .problems
            .add(problem.hint("remove it, or change `kind`"));
    }
}
