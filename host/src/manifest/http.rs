//! Reads URLs and `allow.http`. What a grant covers is decided in `plugin::http`.

use reqwest::header::HeaderName;

use super::authored::slot::read_located_variables;
use super::table::{Located, TomlItem, TomlTable};
use crate::plugin::http::header::{HeaderEffect, effect_of, normalize};
use crate::plugin::http::{DEFAULT_METHODS, DEFAULT_PATH, HostPattern, HttpGrant};
use crate::services::endpoint::{self, InvalidAddress, ServiceKind};

/// Reads the URL of a service.
pub(super) fn read_url(item: &TomlItem<'_>, service: ServiceKind) -> Option<Located<String>> {
    let text = item.text()?;
    match endpoint::parse_address(&text.value, service) {
        Ok(_) => Some(text),
        Err(InvalidAddress {
            display_text: shown,
            problem,
            hint,
        }) => {
            let message = format!("`{shown}` cannot be called: {problem}");
            if shown == text.value {
                item.reject(message, hint)
            } else {
                item.reject_secret(message, hint)
            }
            None
        }
    }
}

/// Reads `allow.http`. The secrets that it names are added to `secrets`.
pub(super) fn read_grants(
    item: &TomlItem<'_>,
    secrets: &mut Vec<Located<String>>,
) -> Vec<HttpGrant> {
    item.tables("`http`")
        .iter()
        .filter_map(|table| read_grant(table, secrets))
        .collect()
}

/// Reads the model endpoints that an operator's policy allows. They are grants without `methods`.
pub(super) fn read_endpoints(item: &TomlItem<'_>) -> Vec<HttpGrant> {
    let mut sent = Vec::new();
    item.tables("`endpoints`")
        .iter()
        .filter_map(|table| read_target(table, vec!["POST".into()], &mut sent))
        .collect()
}

fn read_grant(table: &TomlTable<'_>, secrets: &mut Vec<Located<String>>) -> Option<HttpGrant> {
    let methods = table.item("methods").map(|item| read_methods(table, &item));
    let mut grant = read_target(
        table,
        methods.unwrap_or_else(|| DEFAULT_METHODS.map(String::from).into()),
        secrets,
    )?;
    grant.headers = table
        .item("headers")
        .map(|item| read_headers(table, &item))
        .unwrap_or_default();
    Some(grant)
}

fn read_target(
    table: &TomlTable<'_>,
    methods: Vec<String>,
    secrets: &mut Vec<Located<String>>,
) -> Option<HttpGrant> {
    let host = table.required("host").and_then(|item| {
        let text = item.text()?.value;
        let read = HostPattern::parse(&text);
        read.map_err(|why| item.reject(format!("`{}` cannot be `{text}`", item.key), why))
            .ok()
    });
    let path = table.item("path").and_then(|item| {
        let text = item.text()?.value;
        if !text.starts_with('/') {
            let expected =
                "expected a path that begins with `/`; `*` stands for any run of characters";
            item.reject(format!("`{}` cannot be `{text}`", item.key), expected);
        } else if text.contains(['?', '#']) {
            let hint = "queries are not looked at: leave out what begins with `?` or `#`";
            item.reject(
                format!("`{}` cannot be `{text}`, which is no path alone", item.key),
                hint,
            );
        }
        Some(text)
    });
    let named = read_located_variables(table, "secrets");
    let names = named.iter().map(|name| name.value.clone()).collect();
    secrets.extend(named);
    Some(HttpGrant {
        host: host?,
        methods,
        path: path.unwrap_or_else(|| DEFAULT_PATH.into()),
        secrets: names,
        headers: Vec::new(),
    })
}

fn read_headers(table: &TomlTable<'_>, item: &TomlItem<'_>) -> Vec<String> {
    let headers = item.unique_strings();
    for header in &headers {
        let refuse = |message: String, hint: &str| {
            table
                .problems
                .add(table.problems.at(&header.span, message).hint(hint))
        };
        if HeaderName::from_bytes(header.value.as_bytes()).is_err() {
            refuse(
                format!("`{}` is not the name of a header", header.value),
                "names are like `x-forwarded-for`",
            );
        } else if effect_of(&header.value) == HeaderEffect::Connection {
            let hint = "it belongs to the connection, which is the host's part; remove it";
            refuse(
                format!("the header `{}` cannot be granted", header.value),
                hint,
            );
        }
    }
    headers
        .into_iter()
        .map(|header| normalize(&header.value))
        .collect()
}

fn read_methods(table: &TomlTable<'_>, item: &TomlItem<'_>) -> Vec<String> {
    let methods = item.unique_strings();
    if item.is_empty_list() {
        item.reject(
            "`methods` grants no method",
            "leave it out for `GET` and `HEAD`",
        );
    }
    for method in &methods {
        let known =
            !method.value.is_empty() && method.value.bytes().all(|b| b.is_ascii_uppercase());
        if !known {
            let message = format!("`{}` is not an HTTP method", method.value);
            let problem = table.problems.at(&method.span, message);
            table
                .problems
                .add(problem.hint("methods are upper case: `GET`"));
        }
    }
    methods.into_iter().map(|method| method.value).collect()
}
