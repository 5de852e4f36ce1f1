//! `allow.http`: the hosts on the network that a component may send requests to. What a grant covers
//! is decided in `plugin::http`.

use std::cell::RefCell;

use reqwest::header::HeaderName;
use serde_json::json;
use strata_core::record::host_call::Grant;
use strata_services::http::is_private;
use strata_services::models::config::Price;
use strata_services::plugin::http::header::{HeaderEffect, effect_of, normalize};
use strata_services::plugin::http::{DEFAULT_METHODS, DEFAULT_PATH, HostPattern, HttpGrant};
use strata_services::plugin::{Grants, pattern};

use super::{
    AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter, OutwardScope, variables,
};
use crate::models::read_price;
use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlTable};

/// `allow.http`.
pub(super) struct HttpKind;

impl GrantKind for HttpKind {
    fn grant(&self) -> Grant {
        Grant::Http
    }

    fn example(&self) -> &'static str {
        "http = [{ host = \"api.example.com\", methods = [\"GET\"], path = \"/*\" }]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        authored.grants.http = read_grants(allow, &mut authored.secrets);
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.http = read_grants(allow, &mut Vec::new());
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.http = intersect(&had.http, &bounds.http);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.http != left.http
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        grants.http.iter().map(line).collect()
    }

    fn outward_uses(&self, grants: &Grants, filter: &OutwardFilter<'_>) -> Vec<String> {
        let servers = grants.http.iter();
        servers
            .filter(|grant| filter.scope == OutwardScope::All || !is_public(grant))
            .map(outward_use)
            .collect()
    }
}

/// Reads the grants. The secrets that they name are added to `secrets`.
fn read_grants(table: &TomlTable<'_>, secrets: &mut Vec<Located<String>>) -> Vec<HttpGrant> {
    let secrets = RefCell::new(secrets);
    let grants = table
        .key(Grant::Http.key(), "Hosts on the network.")
        .tables("`http`", |grant| {
            read_grant(grant, &mut secrets.borrow_mut())
        });
    grants.into_iter().flatten().collect()
}

/// Whether a grant names no secret, and nothing but public addresses.
fn is_public(grant: &HttpGrant) -> bool {
    grant.secrets.is_empty() && !grant.host.single_host().is_some_and(is_private)
}

/// A model endpoint that an operator's policy allows, and what its models cost, if the policy says it.
pub(super) struct AllowedEndpoint {
    /// The endpoint, as a grant.
    pub(super) grant: HttpGrant,
    pub(super) price: Option<Price>,
}

/// Reads the model endpoints that an operator's policy allows. They are grants without `methods`.
pub(super) fn read_endpoints(llm: &TomlTable<'_>) -> Vec<AllowedEndpoint> {
    let grants = llm
        .key(
            "endpoints",
            "The endpoints of models, with the secrets that may be sent there, and what their models cost.",
        )
        .tables("`endpoints`", |endpoint| {
            let grant = read_target(endpoint, vec!["POST".into()], &mut Vec::new());
            let price = endpoint
                .key(
                    "price",
                    "What a million tokens cost there, in USD, whatever a team file says.",
                )
                .table("`price`", read_price);
            Some(AllowedEndpoint {
                grant: grant?,
                price,
            })
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
    let named = variables::read_located(
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

fn intersect(grants: &[HttpGrant], bounds: &[HttpGrant]) -> Vec<HttpGrant> {
    let pairs = grants
        .iter()
        .flat_map(|grant| bounds.iter().map(move |bound| (grant, bound)));
    pairs
        .filter_map(|(grant, bound)| intersect_one(grant, bound))
        .collect()
}

fn intersect_one(grant: &HttpGrant, bound: &HttpGrant) -> Option<HttpGrant> {
    let common = |granted: &[String], allowed: &[String]| -> Vec<String> {
        let common = granted.iter().filter(|name| allowed.contains(name));
        common.cloned().collect()
    };
    let methods = common(&grant.methods, &bound.methods);
    if methods.is_empty() {
        return None;
    }
    Some(HttpGrant {
        host: HostPattern::intersect(&grant.host, &bound.host)?,
        methods,
        path: pattern::intersect(&grant.path, &bound.path)?.to_owned(),
        secrets: variables::intersect(&grant.secrets, &bound.secrets),
        headers: common(&grant.headers, &bound.headers),
    })
}

fn line(grant: &HttpGrant) -> GrantLine {
    let HttpGrant { host, path, .. } = grant;
    let named = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!(" with {what} {}", names.join(", ")),
    };
    let with = named("secrets", &grant.secrets) + &named("headers", &grant.headers);
    GrantLine {
        verb: "call",
        object: format!("{} {host}{path}{with}", grant.methods.join(", ")),
    }
}

fn outward_use(grant: &HttpGrant) -> String {
    let HttpGrant { host, path, .. } = grant;
    let secrets = match grant.secrets.as_slice() {
        [] => String::new(),
        secrets => format!(" with the secrets {}", secrets.join(", ")),
    };
    let methods = grant.methods.join(", ");
    format!("make requests: {methods} {host}{path}{secrets}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_what_both_name() {
        let grant = |host: &str, methods: &[&str], path: &str, secrets: &[&str]| HttpGrant {
            host: HostPattern::parse(host).expect("a host"),
            methods: methods.iter().map(ToString::to_string).collect(),
            path: path.into(),
            secrets: secrets.iter().map(ToString::to_string).collect(),
            headers: Vec::new(),
        };
        let check = |team: HttpGrant, allowed: HttpGrant, expected: Vec<HttpGrant>| {
            assert_eq!(intersect(&[team], &[allowed]), expected);
        };
        let all = || grant("*.example.com", &["GET", "POST"], "/*", &["A", "B"]);
        check(
            all(),
            grant("a.example.com", &["GET"], "/v1/*", &["A"]),
            vec![grant("a.example.com", &["GET"], "/v1/*", &["A"])],
        );
        check(
            grant("*", &["GET"], "/x", &[]),
            all(),
            vec![grant("*.example.com", &["GET"], "/x", &[])],
        );
        check(
            grant("*.a.example.com", &["GET"], "/x", &[]),
            all(),
            vec![grant("*.a.example.com", &["GET"], "/x", &[])],
        );
        let with = |headers: &[&str]| HttpGrant {
            headers: headers.iter().map(ToString::to_string).collect(),
            ..grant("a.example.com", &["GET"], "/x", &[])
        };
        check(
            with(&["via", "x-real-ip"]),
            with(&["via", "forwarded"]),
            vec![with(&["via"])],
        );
        check(with(&["via"]), with(&[]), vec![with(&[])]);
        check(
            grant("127.0.0.1:80", &["GET"], "/x", &[]),
            grant("*", &["GET"], "/*", &[]),
            vec![],
        );
        check(
            grant("localhost", &["GET"], "/x", &[]),
            grant("*", &["GET"], "/*", &[]),
            vec![],
        );
        check(grant("a.org", &["GET"], "/x", &[]), all(), vec![]);
        check(
            grant("a.example.com:8443", &["GET"], "/x", &[]),
            all(),
            vec![],
        );
        check(grant("a.example.com", &["PUT"], "/x", &[]), all(), vec![]);
    }
}
