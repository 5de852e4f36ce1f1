//! What a team file says of the network: URLs, and `allow.http`, which is checked here and run by nothing yet.

use std::ops::Range;

use reqwest::Url;

use super::authored::slot::read_names;
use super::table::{At, Item, Table};

/// An `http` or `https` URL of a service, without credentials, query or fragment.
pub(super) fn read_url(item: &Item<'_>) -> Option<At<String>> {
    let text = item.text()?;
    match check_url(&text.value) {
        Ok(()) => Some(text),
        Err(reason) => {
            let message = format!("`{}` is not a URL to call: {reason}", text.value);
            item.refuse(message, "for example `http://127.0.0.1:8080/v1`");
            None
        }
    }
}

fn check_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its scheme is `{}`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds credentials".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it holds a query or a fragment".into());
    }
    Ok(())
}

/// Checks `allow.http` and says where it is, if it grants anything.
pub(super) fn read(item: &Item<'_>) -> Option<Range<usize>> {
    let grants = item.tables("`http`");
    grants.iter().for_each(read_grant);
    (!grants.is_empty()).then(|| item.key_span.clone())
}

fn read_grant(table: &Table<'_>) {
    if let Some(item) = table.required("host") {
        check(&item, is_host, "a host, with its port where it is not the scheme's own: `127.0.0.1:8080`");
    }
    if let Some(item) = table.item("methods") {
        for method in item.texts() {
            let known = !method.value.is_empty() && method.value.bytes().all(|b| b.is_ascii_uppercase());
            if !known {
                let message = format!("`{}` is not an HTTP method", method.value);
                let problem = table.problems.at(&method.span, message);
                table.problems.add(problem.hint("methods are upper case: `GET`"));
            }
        }
    }
    if let Some(item) = table.item("path") {
        check(&item, |path| path.starts_with('/'), "a path that begins with `/`; `*` stands for any run of characters");
    }
    read_names(table, "secrets");
}

fn check(item: &Item<'_>, valid: fn(&str) -> bool, expected: &str) {
    if let Some(text) = item.text().filter(|text| !valid(&text.value)) {
        let message = format!("`{}` cannot be `{}`", item.key, text.value);
        item.refuse(message, format!("expected {expected}"));
    }
}

fn is_host(host: &str) -> bool {
    let url = Url::parse(&format!("http://{host}/"));
    !host.is_empty() && !host.contains(['/', '@', '?', '#', '\\']) && url.is_ok_and(|url| url.has_host())
}
