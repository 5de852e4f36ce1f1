//! `allow.secrets`: names of secrets, which are environment variables, that a component may refer to.

use strata_core::record::host_call::Grant;
use strata_services::plugin::Grants;

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter, variables};
use crate::table::TomlTable;

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
        let names = variables::read_located(
            allow,
            self.grant().key(),
            "Secrets that may be named without being sent anywhere.",
        );
        authored.grants.secrets = names.iter().map(|name| name.value.clone()).collect();
        // A problem with a secret points to this list if it is named here and for a server.
        authored.secrets.splice(0..0, names);
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.secrets = variables::read(
            allow,
            self.grant().key(),
            "Secrets; `*` stands for any run of characters.",
        );
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        left.secrets = variables::intersect(&had.secrets, &bounds.secrets);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.secrets != left.secrets
    }

    /// Those that may be sent to some server are granted, too.
    fn is_granted(&self, grants: &Grants) -> bool {
        grants.secrets().next().is_some()
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        variables::line("name", "secrets", &grants.secrets)
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
