//! Reads URLs and `allow.http`. What a grant covers is decided in `plugin::http`.

use std::cell::RefCell;

use reqwest::header::HeaderName;
use serde_json::json;

use super::authored::slot::read_located_variables;
use super::schema::kind;
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
    table: &TomlTable<'_>,
    secrets: &mut Vec<Located<String>>,
) -> Vec<HttpGrant> {
    let secrets = RefCell::new(secrets);
    let grants = table
        .key("http", "Hosts on the network.")
        .tables("`http`", |grant| {
            read_grant(grant, &mut secrets.borrow_mut())
        });
    grants.into_iter().flatten().collect()
}

/// Reads the model endpoints that an operator's policy allows. They are grants without `methods`.
pub(super) fn read_endpoints(llm: &TomlTable<'_>) -> Vec<HttpGrant> {
    let grants = llm
        .key(
            "endpoints",
            "The endpoints of models, with the secrets that may be sent there.",
        )
        .tables("`endpoints`", |endpoint| {
            read_target(endpoint, vec!["POST".into()], &mut Vec::new())
        });
    grants.into_iter().flatten().collect()
}

fn read_grant(table: &TomlTable<'_>, secrets: &mut Vec<Located<String>>) -> Option<HttpGrant> {
    let methods = table
        .key("methods", "Methods.")
        .keyword("default", DEFAULT_METHODS.as_slice())
        .value(|| {
            let method = kind::matching("^[A-Z]+$");
            json!({ "type": "array", "items": method, "minItems": 1, "uniqueItems": true })
        })
        .map(|item| read_methods(table, &item));
    let methods = methods.unwrap_or_else(|| DEFAULT_METHODS.map(String::from).into());
    let grant = read_target(table, methods, secrets);
    let headers = table
        .key(
            "headers",
            "Request headers that may be set although servers may take a request for another one because of them: \
             `x-http-method-override`, `x-original-url`, `x-forwarded-for` and their like. Others need no grant.",
        )
        .value(|| {
            let header = kind::matching("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$");
            json!({ "type": "array", "items": header, "uniqueItems": true })
        })
        .map(|item| read_headers(table, &item));
    Some(HttpGrant {
        headers: headers.unwrap_or_default(),
        ..grant?
    })
}

fn read_target(
    table: &TomlTable<'_>,
    methods: Vec<String>,
    secrets: &mut Vec<Located<String>>,
) -> Option<HttpGrant> {
    let host = table
        .key(
            "host",
            "`api.example.com`, `*.example.com` for the names below it, `*` for all public names; with `:PORT` where \
             that is not the scheme's own. Private addresses are granted literally.",
        )
        .required()
        .value(kind::non_empty_text)
        .and_then(|item| {
            let text = item.text()?.value;
            let read = HostPattern::parse(&text);
            read.map_err(|why| item.reject(format!("`{}` cannot be `{text}`", item.key), why))
                .ok()
        });
    let path = table
        .key("path", "Paths; `*` stands for any run of characters.")
        .default(DEFAULT_PATH)
        .matching("^/")
        .and_then(|item| read_path(&item));
    let named = read_located_variables(
        table,
        "secrets",
        "Secrets (environment variables of the host's) that may be sent there.",
    );
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

fn read_path(item: &TomlItem<'_>) -> Option<String> {
    let text = item.text()?.value;
    if !text.starts_with('/') {
        let expected = "expected a path that begins with `/`; `*` stands for any run of characters";
        item.reject(format!("`{}` cannot be `{text}`", item.key), expected);
    } else if text.contains(['?', '#']) {
        let hint = "queries are not looked at: leave out what begins with `?` or `#`";
        item.reject(
            format!("`{}` cannot be `{text}`, which is no path alone", item.key),
            hint,
        );
    }
    Some(text)
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
