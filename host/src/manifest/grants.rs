//! `allow`: what a component may touch outside of its sandbox. Each kind of grant has its own file:
//! the keys, what an operator can bound of it, the intersection of the two, and how it is shown.
//! The values are in `plugin`; they are enforced in `sandbox` and `services`.
//!
//! If an intersection cannot be expressed as a grant, nothing is granted.

mod directory;
pub(super) mod http;
mod llm;
pub(super) mod variables;

use std::ops::Range;
use std::path::Path;

use strata_core::record::host_call::Grant;

use self::directory::DirBound;
pub(super) use self::llm::LlmBound;
use super::outward::OutwardScope;
use super::table::{Located, TomlTable};
use crate::plugin::Grants;
use crate::plugin::http::HttpGrant;

/// `[role.action.allow]`.
#[derive(Default)]
pub(super) struct AuthoredGrants {
    pub(super) span: Option<Range<usize>>,
    pub(super) grants: Grants,
    /// The names of secrets, where they are written.
    pub(super) secrets: Vec<Located<String>>,
}

/// What an operator allows. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GrantBounds {
    /// Language models.
    pub(super) llm: Option<LlmBound>,
    /// Directories, with everything below them.
    dirs: Vec<DirBound>,
    /// Names of environment variables; `*` matches any characters.
    env: Vec<String>,
    /// Hosts on the network.
    http: Vec<HttpGrant>,
    /// Names of secrets; `*` matches any characters.
    secrets: Vec<String>,
}

impl GrantBounds {
    /// Returns whether a component may name a secret, for itself or for some server.
    pub(super) fn allows_secret(&self, name: &str) -> bool {
        let endpoints = self.llm.iter().flat_map(|bound| &bound.endpoints);
        let servers = self.http.iter().chain(endpoints);
        let mut patterns = self
            .secrets
            .iter()
            .chain(servers.flat_map(|server| &server.secrets));
        patterns.any(|pattern| crate::plugin::pattern::matches(pattern, name))
    }
}

/// A grant as `check` shows it.
pub(super) struct GrantLine {
    /// What the component may do: `call`.
    pub(super) verb: &'static str,
    /// To what, and with what.
    pub(super) object: String,
}

/// Reads the grants of a component.
pub(super) fn read_grants(table: &TomlTable<'_>) -> AuthoredGrants {
    table.define_as("allow");
    let dirs = directory::read_grants(table);
    let mut secrets = variables::read_located(
        table,
        "secrets",
        "Secrets that may be named without being sent anywhere.",
    );
    let named = secrets.iter().map(|name| name.value.clone()).collect();
    let env = variables::read(table, "env", "Environment variables that may be read.");
    let http = http::read_grants(table, &mut secrets);
    AuthoredGrants {
        span: Some(table.span.clone()),
        grants: Grants {
            llm: llm::read_grant(table),
            dirs,
            env,
            http,
            secrets: named,
        },
        secrets,
    }
}

/// Reads what an operator allows.
pub(super) fn read_bounds(allow: &TomlTable<'_>) -> GrantBounds {
    GrantBounds {
        llm: llm::read_bound(allow),
        dirs: directory::read_bounds(allow),
        env: variables::read(
            allow,
            "env",
            "Environment variables; `*` stands for any run of characters.",
        ),
        http: http::read_grants(allow, &mut Vec::new()),
        secrets: variables::read(
            allow,
            "secrets",
            "Secrets; `*` stands for any run of characters.",
        ),
    }
}

/// Returns the part of these grants that the bounds allow.
pub(super) fn intersect(grants: &Grants, bounds: &GrantBounds) -> Grants {
    Grants {
        llm: llm::intersect(grants.llm.as_ref(), bounds.llm.as_ref()),
        dirs: directory::intersect(&grants.dirs, &bounds.dirs),
        env: variables::intersect(&grants.env, &bounds.env),
        http: http::intersect(&grants.http, &bounds.http),
        secrets: variables::intersect(&grants.secrets, &bounds.secrets),
    }
}

/// Returns the kinds of grants that were reduced.
pub(super) fn reduced(had: &Grants, left: &Grants) -> Vec<Grant> {
    let kinds = [
        (
            Grant::Llm,
            llm::is_reduced(had.llm.as_ref(), left.llm.as_ref()),
        ),
        (Grant::Dirs, directory::are_reduced(&had.dirs, &left.dirs)),
        (Grant::Env, had.env != left.env),
        (Grant::Http, had.http != left.http),
        (Grant::Secrets, had.secrets != left.secrets),
    ];
    kinds
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(kind, _)| kind)
        .collect()
}

/// Returns the grants as `check` shows them.
pub(super) fn lines(grants: &Grants) -> Vec<GrantLine> {
    let mut lines = Vec::new();
    lines.extend(grants.llm.as_ref().map(llm::line));
    lines.extend(grants.dirs.iter().map(directory::line));
    lines.extend(variables::line("see", "env", &grants.env));
    lines.extend(grants.http.iter().map(http::line));
    lines.extend(variables::line("name", "secrets", &grants.secrets));
    lines
}

/// Returns what a component may do outside of its sandbox, and outside of the directories that
/// `is_outside` excludes: "read the variable `LANG`". Language models are not included, because
/// asking them is the team's use.
pub(super) fn outward_uses(
    grants: &Grants,
    scope: OutwardScope,
    is_outside: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let dirs = grants.dirs.iter().filter(|grant| is_outside(&grant.host));
    let variables = grants.env.iter();
    let secrets = grants.secrets.iter();
    let servers = grants.http.iter();
    let servers = servers.filter(|grant| scope == OutwardScope::All || !http::is_public(grant));
    let mut uses: Vec<String> = servers.map(http::outward_use).collect();
    uses.extend(dirs.map(directory::outward_use));
    uses.extend(variables.map(|name| format!("read the variable `{name}`")));
    uses.extend(secrets.map(|name| format!("use the secret `{name}`")));
    uses
}
