//! Reads URLs and `allow.http`. What a grant covers is decided in `plugin::http`.

use reqwest::header::HeaderName;

use super::authored::slot::read_named;
use super::table::{At, Item, Table};
use crate::plugin::http::header::{HeaderEffect, effect, normalized};
use crate::plugin::http::{ANY_PATH, HostPattern, HttpGrant, READS};
use crate::services::endpoint::{self, Service, Unfit};

/// Reads the URL of a service.
pub(super) fn read_url(item: &Item<'_>, service: Service) -> Option<At<String>> {
    let text = item.text()?;
    match endpoint::read(&text.value, service) {
        Ok(_) => Some(text),
        Err(Unfit {
            shown,
            problem,
            hint,
        }) => {
            let message = format!("`{shown}` cannot be called: {problem}");
            if shown == text.value {
                item.refuse(message, hint)
            } else {
                item.refuse_unseen(message, hint)
            }
            None
        }
    }
}

/// Reads `allow.http`. The secrets that it names are added to `secrets`.
pub(super) fn read(item: &Item<'_>, secrets: &mut Vec<At<String>>) -> Vec<HttpGrant> {
    item.tables("`http`")
        .iter()
        .filter_map(|table| read_grant(table, secrets))
        .collect()
}

/// Reads the model endpoints that an operator's policy allows. They are grants without `methods`.
pub(super) fn read_endpoints(item: &Item<'_>) -> Vec<HttpGrant> {
    let mut sent = Vec::new();
    item.tables("`endpoints`")
        .iter()
        .filter_map(|table| read_place(table, vec!["POST".into()], &mut sent))
        .collect()
}

fn read_grant(table: &Table<'_>, secrets: &mut Vec<At<String>>) -> Option<HttpGrant> {
    let methods = table.item("methods").map(|item| read_methods(table, &item));
    let mut grant = read_place(
        table,
        methods.unwrap_or_else(|| READS.map(String::from).into()),
        secrets,
    )?;
    grant.headers = table
        .item("headers")
        .map(|item| read_headers(table, &item))
        .unwrap_or_default();
    Some(grant)
}

fn read_place(
    table: &Table<'_>,
    methods: Vec<String>,
    secrets: &mut Vec<At<String>>,
) -> Option<HttpGrant> {
    let host = table.required("host").and_then(|item| {
        let text = item.text()?.value;
        let read = HostPattern::parse(&text);
        read.map_err(|why| item.refuse(format!("`{}` cannot be `{text}`", item.key), why))
            .ok()
    });
    let path = table.item("path").and_then(|item| {
        let text = item.text()?.value;
        if !text.starts_with('/') {
            let expected =
                "expected a path that begins with `/`; `*` stands for any run of characters";
            item.refuse(format!("`{}` cannot be `{text}`", item.key), expected);
        } else if text.contains(['?', '#']) {
            let hint = "queries are not looked at: leave out what begins with `?` or `#`";
            item.refuse(
                format!("`{}` cannot be `{text}`, which is no path alone", item.key),
                hint,
            );
        }
        Some(text)
    });
    let named = read_named(table, "secrets");
    let names = named.iter().map(|name| name.value.clone()).collect();
    secrets.extend(named);
    Some(HttpGrant {
        host: host?,
        methods,
        path: path.unwrap_or_else(|| ANY_PATH.into()),
        secrets: names,
        headers: Vec::new(),
    })
}

fn read_headers(table: &Table<'_>, item: &Item<'_>) -> Vec<String> {
    let headers = item.texts();
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
        } else if effect(&header.value) == HeaderEffect::Connection {
            let hint = "it belongs to the connection, which is the host's part; remove it";
            refuse(
                format!("the header `{}` cannot be granted", header.value),
                hint,
            );
        }
    }
    headers
        .into_iter()
        .map(|header| normalized(&header.value))
        .collect()
}

fn read_methods(table: &Table<'_>, item: &Item<'_>) -> Vec<String> {
    let methods = item.texts();
    if item.is_empty_list() {
        item.refuse(
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
