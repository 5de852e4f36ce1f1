//! Reads `[[route]]`, `[[join]]` and `[env.external]`.

use std::ops::Range;

use strata_core::record::shape::{DeliveryMode, JoinMode};

use super::optional_table;
use crate::manifest::http;
use crate::manifest::names::check_legible;
use crate::manifest::table::{Located, TomlTable};
use crate::services::endpoint::ServiceKind;
use crate::services::external::ExternalEndpoint;

/// `[[route]]`.
pub(in crate::manifest) struct AuthoredRoute {
    pub(in crate::manifest) from: Option<Located<String>>,
    pub(in crate::manifest) label: String,
    pub(in crate::manifest) arms: Vec<AuthoredArm>,
}

/// One arm of a route: an optional condition and the targets.
pub(in crate::manifest) struct AuthoredArm {
    pub(in crate::manifest) when: Option<Located<String>>,
    pub(in crate::manifest) to: Vec<Located<String>>,
}

/// `[[join]]`.
pub(in crate::manifest) struct AuthoredJoin {
    pub(in crate::manifest) span: Range<usize>,
    pub(in crate::manifest) id: Option<Located<String>>,
    pub(in crate::manifest) from: Vec<Located<String>>,
    pub(in crate::manifest) to: Option<Located<String>>,
    pub(in crate::manifest) mode: Option<JoinMode>,
    pub(in crate::manifest) deliver: Option<DeliveryMode>,
}

/// Reads all routes.
pub(super) fn read_routes(root: &TomlTable<'_>) -> Vec<AuthoredRoute> {
    let tables = root.item("route").map(|item| item.tables("`[[route]]`"));
    tables.iter().flatten().map(read_route).collect()
}

fn read_route(table: &TomlTable<'_>) -> AuthoredRoute {
    let from = table.required("from").and_then(|item| item.text());
    let label = table.item("label").and_then(|item| item.text());
    // A label may have several lines.
    let lines = label
        .iter()
        .flat_map(|label| label.value.lines().map(|line| (line.trim(), &label.span)));
    for (line, span) in lines {
        check_legible(
            &Located {
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
        read_single_arm(table)
    };
    AuthoredRoute { from, label, arms }
}

/// Reads a route without `case`: `to`, with or without `when`.
fn read_single_arm(table: &TomlTable<'_>) -> Vec<AuthoredArm> {
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
        table.exclude(&["case", "default"]);
    }
    let to = read_to(table, "to");
    vec![AuthoredArm {
        when: table.item("when").and_then(|item| item.text()),
        to,
    }]
}

/// Reads `case` with its arms, and `default`.
fn read_cases(table: &TomlTable<'_>) -> Vec<AuthoredArm> {
    table.exclude(&["to", "when"]);
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
            case.reject("`case` has no arms", hint);
        }
        arms.extend(tables.iter().map(|arm| AuthoredArm {
            when: arm.required("when").and_then(|item| item.text()),
            to: read_to(arm, "to"),
        }));
    }
    if table.item("default").is_some() {
        arms.push(AuthoredArm {
            when: None,
            to: read_to(table, "default"),
        });
    }
    arms
}

fn read_to(table: &TomlTable<'_>, key: &'static str) -> Vec<Located<String>> {
    let Some(item) = table.required(key) else {
        return Vec::new();
    };
    let to = item.unique_strings();
    if item.is_empty_list() {
        let hint = "name a role, an alias, a group or a join";
        item.reject(format!("`{key}` leads nowhere"), hint);
    }
    to
}

/// Reads all joins.
pub(super) fn read_joins(root: &TomlTable<'_>) -> Vec<AuthoredJoin> {
    let tables = root.item("join").map(|item| item.tables("`[[join]]`"));
    let read = |table: &TomlTable<'_>| {
        let modes =
            [JoinMode::All, JoinMode::Any, JoinMode::Active].map(|mode| (mode.name(), mode));
        let ways = [DeliveryMode::Batch, DeliveryMode::Each].map(|way| (way.name(), way));
        let from = table.required("from");
        if let Some(from) = from.as_ref().filter(|from| from.is_empty_list()) {
            from.reject("a join needs sources", "name the roles it waits for");
        }
        AuthoredJoin {
            span: table.span.clone(),
            id: table.required("id").and_then(|item| item.text()),
            from: from.map(|item| item.unique_strings()).unwrap_or_default(),
            to: table.required("to").and_then(|item| item.text()),
            mode: table.item("mode").and_then(|item| item.choice(&modes)),
            deliver: table.item("deliver").and_then(|item| item.choice(&ways)),
        }
    };
    tables.iter().flatten().map(read).collect()
}

/// Reads `[env.external]`.
pub(super) fn read_external(env: &TomlTable<'_>) -> Option<Located<ExternalEndpoint>> {
    #[derive(Clone, Copy)]
    enum ExternalKind {
        Stdio,
        Http,
    }
    let table = optional_table(env, "external", "`[env.external]`")?;
    let words = [("stdio", ExternalKind::Stdio), ("http", ExternalKind::Http)];
    let kind = table.required("kind").and_then(|item| item.choice(&words));
    match kind {
        Some(ExternalKind::Stdio) => {
            reject_key_of_other_kind(&table, "url", "http");
            let item = table.required("command")?;
            let command: Vec<String> = item.strings().into_iter().map(|word| word.value).collect();
            if item.is_empty_list() {
                item.reject("`command` is empty", "name a program and its arguments");
            }
            Some(Located {
                value: ExternalEndpoint::Stdio {
                    command,
                    dir: item.base_dir().to_owned(),
                },
                span: item.span(),
            })
        }
        Some(ExternalKind::Http) => {
            reject_key_of_other_kind(&table, "command", "stdio");
            let Located { value, span } =
                http::read_url(&table.required("url")?, ServiceKind::Messages)?;
            // Cannot fail: `read_url` has checked the URL.
            let url = value.parse().ok()?;
            Some(Located {
                value: ExternalEndpoint::Http { url },
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
fn reject_key_of_other_kind(table: &TomlTable<'_>, key: &'static str, kind: &str) {
    table.exclude(&[key]);
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
