//! `allow.env`: names of environment variables that a component may read.

use strata_core::record::host_call::Grant;
use strata_services::plugin::Grants;

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter, variables};
use crate::table::TomlTable;

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
        authored.grants.env = variables::read(
            allow,
            self.grant().key(),
            "Environment variables that may be read.",
        );
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.env = variables::read(
            allow,
            self.grant().key(),
            "Environment variables; `*` stands for any run of characters.",
        );
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.env = variables::intersect(&had.env, &bounds.env);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.env != left.env
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        variables::line("see", "env", &grants.env)
            .into_iter()
            .collect()
    }

    fn outward_uses(&self, grants: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        let names = grants.env.iter();
        names
            .map(|name| format!("read the variable `{name}`"))
            .collect()
    }
}
