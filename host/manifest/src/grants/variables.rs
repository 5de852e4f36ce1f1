//! Names of environment variables and of secrets, which are variables, too: how they are read, checked,
//! bounded and shown.

use strata_services::plugin::pattern;

use super::GrantLine;
use crate::names::check_legible;
use crate::schema::kind;
use crate::table::{Located, TomlTable};

/// Reads a list of names.
pub(super) fn read(table: &TomlTable<'_>, key: &'static str, about: &'static str) -> Vec<String> {
    read_located(table, key, about)
        .into_iter()
        .map(|name| name.value)
        .collect()
}

/// Reads a list of names, with their positions.
pub(super) fn read_located(
    table: &TomlTable<'_>,
    key: &'static str,
    about: &'static str,
) -> Vec<Located<String>> {
    let names = table
        .key(key, about)
        .value(kind::variables)
        .map(|item| item.unique_strings())
        .unwrap_or_default();
    for name in &names {
        check_name(table, name);
    }
    names
}

/// Reports a name that no environment variable can have.
pub(crate) fn check_name(table: &TomlTable<'_>, name: &Located<String>) {
    if !check_legible(name, table.problems) {
        return;
    }
    if name.value.is_empty() || name.value.contains('=') {
        let message = format!(
            "`{}` is not the name of an environment variable",
            name.value
        );
        table.problems.add(table.problems.at(&name.span, message));
    }
}

/// Returns the names that match one of the patterns.
pub(super) fn intersect(names: &[String], allowed: &[String]) -> Vec<String> {
    names
        .iter()
        .filter(|name| pattern::matches_any(allowed, name))
        .cloned()
        .collect()
}

/// Returns a line that shows names, if there are any.
pub(super) fn line(verb: &'static str, what: &str, names: &[String]) -> Option<GrantLine> {
    (!names.is_empty()).then(|| GrantLine {
        verb,
        object: format!("{what} {}", names.join(", ")),
    })
}
