//! `allow.env` and `allow.secrets`: names of environment variables that a component may read, and of
//! secrets, which are variables too, that it may refer to.

use strata_core::record::host_call::Grant;
use strata_services::plugin::{Grants, pattern};

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter};
use crate::names::check_legible;
use crate::schema::kind;
use crate::table::{Located, TomlTable};

/// `allow.env`.
pub(super) struct EnvKind;

impl GrantKind for EnvKind {
    fn grant(&self) -> Grant {
        Grant::Env
    }

    fn example(&self) -> &'static str {
        "env = [\"LANG\"]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        authored.grants.env = read(
            allow,
            self.grant().key(),
            "Environment variables that may be read.",
        );
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.env = read(
            allow,
            self.grant().key(),
            "Environment variables; `*` stands for any run of characters.",
        );
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.env = intersect(&had.env, &bounds.env);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.env != left.env
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        line("see", "env", &grants.env).into_iter().collect()
    }

    fn outward_uses(&self, grants: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        let names = grants.env.iter();
        names
            .map(|name| format!("read the variable `{name}`"))
            .collect()
    }
}

/// `allow.secrets`.
pub(super) struct SecretsKind;

impl GrantKind for SecretsKind {
    fn grant(&self) -> Grant {
        Grant::Secrets
    }

    fn example(&self) -> &'static str {
        "secrets = [\"TOKEN\"]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        let names = read_located(
            allow,
            self.grant().key(),
            "Secrets that may be named without being sent anywhere.",
        );
        authored.grants.secrets = names.iter().map(|name| name.value.clone()).collect();
        // A problem with a secret points to this list if it is named here and for a server.
        authored.secrets.splice(0..0, names);
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.secrets = read(
            allow,
            self.grant().key(),
            "Secrets; `*` stands for any run of characters.",
        );
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.secrets = intersect(&had.secrets, &bounds.secrets);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.secrets != left.secrets
    }

    /// Those that may be sent to some server are granted, too.
    fn is_granted(&self, grants: &Grants) -> bool {
        grants.secrets().next().is_some()
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        line("name", "secrets", &grants.secrets)
            .into_iter()
            .collect()
    }

    fn outward_uses(&self, grants: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        let names = grants.secrets.iter();
        names
            .map(|name| format!("use the secret `{name}`"))
            .collect()
    }
}

/// Reads a list of names.
fn read(table: &TomlTable<'_>, key: &'static str, about: &'static str) -> Vec<String> {
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

fn line(verb: &'static str, what: &str, names: &[String]) -> Option<GrantLine> {
    (!names.is_empty()).then(|| GrantLine {
        verb,
        object: format!("{what} {}", names.join(", ")),
    })
}
