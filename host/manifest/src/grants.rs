//! `allow`: what a component may touch outside of its sandbox. Each kind of grant has its own file,
//! which contains all that is particular to it here: its keys, what an operator can bound of it, the
//! intersection of the two, and how it is shown. `KINDS` lists them. The values are in `plugin`;
//! they are enforced in `sandbox` and `services`.
//!
//! If an intersection cannot be expressed as a grant, nothing is granted.

mod dirs;
mod env;
mod http;
mod llm;
pub(super) mod mcp;
mod secrets;
mod tools;
pub(super) mod variables;

use std::ops::Range;
use std::path::{Path, PathBuf};

use strata_core::record::host_call::Grant;
use strata_sandbox::host_wit::host_interface_names;
use strata_services::plugin::Grants;
use strata_services::plugin::http::HttpGrant;

use self::dirs::DirBound;
pub(super) use self::llm::LlmBound;
use self::mcp::McpBound;
use super::table::{Located, TomlTable};

/// The kinds of grants, in the order in which they are shown.
const KINDS: [&dyn GrantKind; 7] = [
    &llm::LlmKind,
    &dirs::DirsKind,
    &env::EnvKind,
    &http::HttpKind,
    &secrets::SecretsKind,
    &tools::ToolsKind,
    &mcp::McpKind,
];

/// A kind of grant.
trait GrantKind {
    /// Returns what is granted. Its key in `allow` follows from it.
    fn grant(&self) -> Grant;

    /// Returns the name by which components declare that they need it.
    fn capability(&self) -> &'static str {
        self.grant().key()
    }

    /// Returns a line of `allow` that grants it, to be suggested where it is missing.
    fn example(&self) -> &'static str;

    /// Reads it from `[role.action.allow]`.
    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants);

    /// Reads what an operator allows of it.
    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds);

    /// Grants in `left` the part of what was granted that the bounds allow.
    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants);

    /// Returns whether less of it is granted than before.
    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool;

    /// Returns whether any of it is granted.
    fn is_granted(&self, grants: &Grants) -> bool {
        !self.lines(grants).is_empty()
    }

    /// Returns what is granted as `check` shows it.
    fn lines(&self, grants: &Grants) -> Vec<GrantLine>;

    /// Returns what a component may do with it outside of its sandbox, as far as the filter includes
    /// it: "read the variable `LANG`".
    fn outward_uses(&self, grants: &Grants, filter: &OutwardFilter<'_>) -> Vec<String>;
}

/// `[role.action.allow]`.
#[derive(Clone, Default)]
pub(super) struct AuthoredGrants {
    pub(super) span: Option<Range<usize>>,
    pub(super) grants: Grants,
    /// The names of secrets, where they are written.
    pub(super) secrets: Vec<Located<String>>,
    /// The names of tools, where they are written.
    pub(super) tools: Vec<Located<String>>,
    /// The names of MCP servers, where they are written.
    pub(super) servers: Vec<Located<String>>,
}

/// What an operator allows. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GrantBounds {
    /// Language models.
    pub(super) llm: Option<LlmBound>,
    /// Directories, with everything below them.
    dirs: Vec<DirBound>,
    /// The workspace of a submitted team, which it may use unless `dirs` says otherwise.
    workspace: Option<PathBuf>,
    /// Names of environment variables; `*` matches any characters.
    env: Vec<String>,
    /// Hosts on the network.
    http: Vec<HttpGrant>,
    /// Names of secrets; `*` matches any characters.
    secrets: Vec<String>,
    /// MCP servers.
    pub(super) mcp: Vec<McpBound>,
}

impl GrantBounds {
    /// Returns these bounds for a team that has a workspace of its own, if it was submitted.
    pub(super) fn with_workspace(&self, workspace: Option<&Path>) -> Self {
        Self {
            workspace: workspace.map(Path::to_owned),
            ..self.clone()
        }
    }

    /// Returns whether a component may name a secret, for itself or for some server.
    pub(super) fn allows_secret(&self, name: &str) -> bool {
        let endpoints = self.llm.iter().flat_map(LlmBound::endpoints);
        let servers = self.http.iter().chain(endpoints);
        let mut patterns = self
            .secrets
            .iter()
            .chain(servers.flat_map(|server| &server.secrets));
        patterns.any(|pattern| strata_services::plugin::pattern::matches(pattern, name))
    }
}

/// A grant as `check` shows it.
pub(super) struct GrantLine {
    /// What the component may do: `call`.
    pub(super) verb: &'static str,
    /// What it may do this to, and with what: `GET api.example.com with the secrets TOKEN`.
    pub(super) object: String,
}

/// Selects the uses of what is outside the sandbox that are listed.
#[derive(Clone, Copy)]
pub(super) struct OutwardFilter<'a> {
    /// Whether all uses are listed or only some.
    pub(super) scope: OutwardScope,
    /// Whether a path is outside.
    pub(super) is_outside: &'a dyn Fn(&Path) -> bool,
}

/// Which uses are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutwardScope {
    /// All of them.
    All,
    /// All but requests to public servers that name no secret.
    BeyondPublic,
}

/// Reads the grants of a component.
pub(super) fn read_grants(table: &TomlTable<'_>) -> AuthoredGrants {
    table.define_as("allow");
    let mut authored = AuthoredGrants {
        span: Some(table.span.clone()),
        ..AuthoredGrants::default()
    };
    for kind in KINDS {
        kind.read(table, &mut authored);
    }
    authored
}

/// Reads what an operator allows.
pub(super) fn read_bounds(allow: &TomlTable<'_>) -> GrantBounds {
    let mut bounds = GrantBounds::default();
    for kind in KINDS {
        kind.read_bound(allow, &mut bounds);
    }
    bounds
}

/// Returns the part of these grants that the bounds allow.
pub(super) fn intersect(grants: &Grants, bounds: &GrantBounds) -> Grants {
    let mut left = Grants::default();
    for kind in KINDS {
        kind.intersect(grants, bounds, &mut left);
    }
    left
}

/// Returns the kinds of grants that were reduced.
pub(super) fn reduced(had: &Grants, left: &Grants) -> Vec<Grant> {
    KINDS
        .iter()
        .filter(|kind| kind.is_reduced(had, left))
        .map(|kind| kind.grant())
        .collect()
}

/// Returns the grants as `check` shows them.
pub(super) fn lines(grants: &Grants) -> Vec<GrantLine> {
    KINDS.iter().flat_map(|kind| kind.lines(grants)).collect()
}

/// Returns what a component may do outside of its sandbox, as far as the filter includes it.
pub(super) fn outward_uses(grants: &Grants, filter: &OutwardFilter<'_>) -> Vec<String> {
    KINDS
        .iter()
        .flat_map(|kind| kind.outward_uses(grants, filter))
        .collect()
}

/// Returns the names of the capabilities that have to be granted, sorted.
pub fn grantable_capabilities() -> Vec<&'static str> {
    let mut names = KINDS.map(|kind| kind.capability());
    names.sort_unstable();
    names.to_vec()
}

/// Returns whether every component has a capability without a grant: an interface of the host that
/// has functions and is not granted in `allow`.
pub fn is_always_available(capability: &str) -> bool {
    /// The interface that only defines types for the others.
    const TYPES: &str = "types";
    // Most needs are granted. The host's interfaces are not parsed for them.
    find_kind(capability).is_none()
        && capability != TYPES
        && host_interface_names().contains(capability)
}

/// Returns the kind of grant that a capability needs, if it needs one.
fn find_kind(capability: &str) -> Option<&'static dyn GrantKind> {
    KINDS
        .into_iter()
        .find(|kind| kind.capability() == capability)
}

/// Returns the line of `allow` that grants a capability, unless it is granted already or needs no
/// grant.
pub fn line_to_add(grants: &Grants, capability: &str) -> Option<&'static str> {
    let kind = find_kind(capability)?;
    (!kind.is_granted(grants)).then(|| kind.example())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Definition;

    #[test]
    fn each_grant_has_a_kind_whose_example_grants_it_alone() {
        let mut listed = KINDS.map(|kind| kind.grant());
        listed.sort_unstable();
        assert_eq!(listed, Grant::ALL);
        for kind in KINDS {
            let example = kind.example();
            // The second action is the tool that the example of `tools` grants.
            let text = format!(
                "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n\
                 [llm]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
                 [[role]]\nname = \"A\"\nreact = \"tools\"\n\
                 [[role.action]]\nname = \"p\"\ncomponent = \"p.wasm\"\n\
                 [role.action.allow]\n{example}\n\
                 [[role.action]]\nname = \"NAME\"\ncomponent = \"p.wasm\"\n"
            );
            let definition = Definition::parse_without_files(&text, "team.toml", Path::new("/"))
                .unwrap_or_else(|error| panic!("{example}: {error}"));
            let plugin = definition.plugins.values().next().unwrap();
            let granted: Vec<Grant> = KINDS
                .into_iter()
                .filter(|kind| kind.is_granted(&plugin.grants))
                .map(|kind| kind.grant())
                .collect();
            assert_eq!(granted, [kind.grant()], "{example}");
            assert_eq!(line_to_add(&plugin.grants, kind.capability()), None);
        }
        let nothing = Grants::default();
        assert_eq!(
            line_to_add(&nothing, "files"),
            Some(dirs::DirsKind.example())
        );
        assert_eq!(line_to_add(&nothing, "clock"), None);
    }

    #[test]
    fn each_interface_of_the_host_is_granted_or_always_available() {
        let always = host_interface_names()
            .iter()
            .filter(|name| is_always_available(name));
        let always: Vec<&str> = always.map(String::as_str).collect();
        assert_eq!(
            always,
            [
                "clock",
                "environment",
                "human",
                "log",
                "media",
                "memory",
                "random",
                "state"
            ]
        );
        for name in ["files", "http", "types", "handler", "telepathy"] {
            assert!(!is_always_available(name), "{name}");
        }
    }
}
