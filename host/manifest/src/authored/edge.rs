//! Reads `[[route]]`, `[[join]]` and `[env.external]`.

use std::ops::Range;

use serde_json::{Value, json};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_services::endpoint::{ServiceKind, parse_address};
use strata_services::external::ExternalEndpoint;

use super::read_deliver;
use super::slot::reject_unexpanded;
use crate::address::read_address;
use crate::names::check_legible;
use crate::schema::{conditional, forbidding, kind};
use crate::table::{Located, TomlItem, TomlTable};

/// `[[route]]`.
pub(crate) struct AuthoredRoute {
    pub(crate) from: Option<Located<String>>,
    pub(crate) label: String,
    pub(crate) arms: Vec<AuthoredArm>,
}

/// One arm of a route: an optional condition and the targets.
pub(crate) struct AuthoredArm {
    pub(crate) when: Option<Located<String>>,
    pub(crate) to: Vec<Located<String>>,
}

/// `[[join]]`.
pub(crate) struct AuthoredJoin {
    pub(crate) span: Range<usize>,
    pub(crate) id: Option<Located<String>>,
    pub(crate) from: Vec<Located<String>>,
    pub(crate) to: Option<Located<String>>,
    pub(crate) mode: Option<JoinMode>,
    pub(crate) deliver: Option<DeliveryMode>,
}

/// Reads all routes.
pub(super) fn read_routes(root: &TomlTable<'_>) -> Vec<AuthoredRoute> {
    root.key(
        "route",
        "The routes that messages take. Messages of a role without routes go to whoever watches their label.",
    )
    .tables("`[[route]]`", read_route)
}

/// The keys that say where the messages of a route go.
struct RouteTargets<'a> {
    to: Option<TomlItem<'a>>,
    when: Option<TomlItem<'a>>,
    case: Option<TomlItem<'a>>,
    default: Option<TomlItem<'a>>,
}

const TO: &str = "Where to: roles, aliases, groups, joins, `<all>`, `<self>`, or names outside of the team. `[]` is nobody.";

fn read_route(table: &TomlTable<'_>) -> AuthoredRoute {
    table.define_as("route");
    let from = table
        .key(
            "from",
            "The role (name or alias) whose messages go this way.",
        )
        .required()
        .text();
    let label = read_label(table);
    let targets = RouteTargets {
        to: table.key("to", TO).value(kind::unique_texts),
        when: table
            .key(
                "when",
                "Which messages go this way; without it, all. A CEL expression over the message: `content`, `data`, \
                 `cause_by`, `sent_from`, `meta_info`.",
            )
            .value(kind::text),
        case: table
            .key(
                "case",
                "Alternatives: the first whose condition holds is taken.",
            )
            .keyword("minItems", 1)
            .list_item(read_case),
        default: table
            .key(
                "default",
                "Where messages go for which no case holds; `[]` is nobody. Without it they are dropped, with a warning.",
            )
            .value(kind::unique_texts),
    };
    table.rule("oneOf", || {
        let needs = |key: &str, mut rule: Value| {
            rule["required"] = json!([key]);
            rule
        };
        json!([
            needs("to", forbidding(&["case", "default"])),
            needs("case", forbidding(&["to", "when"])),
        ])
    });
    let arms = match &targets.case {
        Some(case) => read_cases(table, &targets, case),
        None => vec![read_single_arm(table, &targets)],
    };
    AuthoredRoute { from, label, arms }
}

fn read_label(table: &TomlTable<'_>) -> String {
    let label = table
        .key("label", "A caption in drawings of the team.")
        .default("")
        .text();
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
    label.map(|label| label.value).unwrap_or_default()
}

/// Reads a route without `case`: `to`, with or without `when`.
fn read_single_arm(table: &TomlTable<'_>, targets: &RouteTargets<'_>) -> AuthoredArm {
    if let Some(default) = &targets.default {
        let problem = table
            .problems
            .at(&default.key_span, "`default` needs `case`");
        let hint = "a route without `case` names its targets in `to`";
        table.problems.add(problem.hint(hint));
    }
    if targets.to.is_some() || targets.when.is_some() {
        table.exclude(&["case", "default"]);
    }
    if targets.to.is_none() {
        table.report_missing_one_of(&["to"]);
    }
    AuthoredArm {
        when: targets.when.as_ref().and_then(TomlItem::text),
        to: targets
            .to
            .as_ref()
            .map(TomlItem::unique_strings)
            .unwrap_or_default(),
    }
}

/// Reads `case` with its arms, and `default`.
fn read_cases(
    table: &TomlTable<'_>,
    targets: &RouteTargets<'_>,
    case: &TomlItem<'_>,
) -> Vec<AuthoredArm> {
    table.exclude(&["to", "when"]);
    for item in [&targets.to, &targets.when].into_iter().flatten() {
        let message = format!("a route cannot have both `case` and `{}`", item.key);
        let problem = table.problems.at(&item.key_span, message);
        let hint = "put it into an arm of `case`, or into `default`";
        table.problems.add(problem.hint(hint));
    }
    let tables = case.tables("an arm of `case`");
    if case.is_empty_list() {
        let hint = "add `{ when = \"…\", to = [\"…\"] }`, or use `to` alone";
        case.reject("`case` has no arms", hint);
    }
    let mut arms: Vec<AuthoredArm> = tables.iter().map(read_case).collect();
    if let Some(default) = &targets.default {
        arms.push(AuthoredArm {
            when: None,
            to: default.unique_strings(),
        });
    }
    arms
}

fn read_case(arm: &TomlTable<'_>) -> AuthoredArm {
    let when = arm
        .key(
            "when",
            "A CEL expression over the message: `content`, `data`, `cause_by`, `sent_from`, `meta_info`.",
        )
        .required()
        .text();
    let to = arm.key("to", TO).required().value(kind::unique_texts);
    AuthoredArm {
        when,
        to: to
            .as_ref()
            .map(TomlItem::unique_strings)
            .unwrap_or_default(),
    }
}

/// Reads all joins.
pub(super) fn read_joins(root: &TomlTable<'_>) -> Vec<AuthoredJoin> {
    root.key(
        "join",
        "Where messages of several roles wait for each other.",
    )
    .tables("`[[join]]`", read_join)
}

fn read_join(table: &TomlTable<'_>) -> AuthoredJoin {
    table.define_as("join");
    let from = table
        .key(
            "from",
            "Whose messages it takes, in the order in which they are handed on.",
        )
        .required()
        .value(kind::non_empty_texts);
    if let Some(from) = from.as_ref().filter(|from| from.is_empty_list()) {
        from.reject("a join needs sources", "name the roles it waits for");
    }
    let id = table
        .key("id", "Its name, for routes to lead to.")
        .required()
        .name();
    let to = table
        .key("to", "A role, an alias, a group, or another join.")
        .required()
        .text();
    let mode = table
        .key(
            "mode",
            "When it hands on. `all`: with one message of each source. `any`: with every message. `active`: with what \
             came, once the team is quiet.",
        )
        .default(JoinMode::All.name())
        .choice(&[JoinMode::All, JoinMode::Any, JoinMode::Active].map(|mode| (mode.name(), mode)));
    let deliver = read_deliver(
        table,
        "How several messages are handled. `batch`: together, in one activation. `each`: in one of its own.",
    );
    AuthoredJoin {
        span: table.span.clone(),
        id,
        from: from.map(|item| item.unique_strings()).unwrap_or_default(),
        to,
        mode,
        deliver,
    }
}

/// Reads `[env.external]`.
pub(super) fn read_external(env: &TomlTable<'_>) -> Option<Located<ExternalEndpoint>> {
    env.key(
        "external",
        "Where messages go that are for nobody in the team.",
    )
    .table("`[env.external]`", read_endpoint)
    .flatten()
}

fn read_endpoint(table: &TomlTable<'_>) -> Option<Located<ExternalEndpoint>> {
    #[derive(Clone, Copy)]
    enum ExternalKind {
        Stdio,
        Http,
    }
    table.define_as("external");
    table.rule("allOf", || {
        json!([
            conditional("kind", "stdio", &["command"], &["url"]),
            conditional("kind", "http", &["url"], &["command"])
        ])
    });
    let kind = table
        .key(
            "kind",
            "`stdio`: a message a line, as JSON, to a program's standard input; messages of the same form from its \
             output. `http`: each is POSTed to a URL, which answers with a list of messages.",
        )
        .required()
        .choice(&[("stdio", ExternalKind::Stdio), ("http", ExternalKind::Http)]);
    let command = table
        .key("command", "The program and its arguments, for `stdio`.")
        .value(|| json!({ "type": "array", "items": kind::text(), "minItems": 1 }));
    let url = table
        .key("url", "The address, for `http`.")
        .value(kind::url);
    // An invalid `kind` is reported already. Which keys belong to it is unknown, so both are
    // accepted.
    match kind? {
        ExternalKind::Stdio => {
            reject_key_of_other_kind(table, "url", url.as_ref(), "http");
            read_command(table, &command)
        }
        ExternalKind::Http => {
            reject_key_of_other_kind(table, "command", command.as_ref(), "stdio");
            if url.is_none() {
                table.report_missing_one_of(&["url"]);
            }
            let parse = |text: &str| parse_address(text, ServiceKind::Messages);
            let address = read_address(&url?, parse)?;
            Some(Located {
                value: ExternalEndpoint::Http { url: address.url },
                span: address.text.span,
            })
        }
    }
}

fn read_command(
    table: &TomlTable<'_>,
    command: &Option<TomlItem<'_>>,
) -> Option<Located<ExternalEndpoint>> {
    let Some(item) = command else {
        table.report_missing_one_of(&["command"]);
        return None;
    };
    let command: Vec<String> = item.strings().into_iter().map(|word| word.value).collect();
    if item.is_empty_list() {
        item.reject("`command` is empty", "name a program and its arguments");
    }
    if let Some(program) = command.first() {
        reject_unexpanded(item, program);
    }
    Some(Located {
        value: ExternalEndpoint::Stdio {
            command,
            dir: item.base_dir().to_owned(),
        },
        span: item.span(),
    })
}

/// Reports a key that belongs to another `kind`.
fn reject_key_of_other_kind(
    table: &TomlTable<'_>,
    key: &'static str,
    item: Option<&TomlItem<'_>>,
    kind: &str,
) {
    table.exclude(&[key]);
    if let Some(item) = item {
        let problem = table.problems.at(
            &item.key_span,
            format!("`{key}` is for `kind = \"{kind}\"`"),
        );
        table
            .problems
            .add(problem.hint("remove it, or change `kind`"));
    }
}
