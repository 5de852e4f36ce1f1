//! `allow.tools`: tools of the role that an action may call. Which ones these are is checked in
//! `check::tools`.

use strata_core::record::host_call::Grant;
use strata_services::plugin::Grants;

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter, variables};
use crate::schema::kind;
use crate::table::TomlTable;

/// `allow.tools`.
pub(super) struct ToolsKind;

impl GrantKind for ToolsKind {
    fn grant(&self) -> Grant {
        Grant::Tools
    }

    fn example(&self) -> &'static str {
        "tools = [\"NAME\"]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        let key = self.grant().key();
        let tools = allow.key(
            key,
            "Tools of the role that the action may call: actions, `SERVER/TOOL`, roles; `*` stands for any run of \
             characters. Each call is an attempt of its own, with the grants of the tool.",
        );
        let tools = tools.value(kind::unique_texts);
        authored.tools = tools.map(|item| item.unique_strings()).unwrap_or_default();
        authored.grants.tools = authored
            .tools
            .iter()
            .map(|name| name.value.clone())
            .collect();
    }

    /// What a tool may do is bounded where it is granted to the tool.
    fn read_bound(&self, _: &TomlTable<'_>, _: &mut GrantBounds) {}

    fn intersect(&self, had: &Grants, _: &GrantBounds, left: &mut Grants) {
        left.tools.clone_from(&had.tools);
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.tools != left.tools
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        variables::line("call", "tools", &grants.tools)
            .into_iter()
            .collect()
    }

    fn outward_uses(&self, _: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        Vec::new()
    }
}
