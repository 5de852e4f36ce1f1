//! The names of a team. Roles, aliases, groups and joins share one namespace, so that each name has
//! one meaning.

use std::collections::BTreeMap;
use std::ops::Range;

use strata_base::text::suggest::suggest;
use strata_core::record::id::RoleId;
use strata_core::record::message::{IDEA_LABEL, TO_ALL, TO_NOBODY, TO_SELF};
use strata_core::text::find_unfit_for_name;
use toml::de::DeTable;

use super::authored::AuthoredTeam;
use super::diagnostic::Problems;
use super::schema::kind::MAX_NAME_CHARS;
use super::table::Located;

/// Returns the team's name from the text of a team file, whether or not the rest is valid.
pub fn team_name(text: &str) -> Option<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    let team = document.get_ref().get("team")?.get_ref().as_table()?;
    Some(team.get("name")?.get_ref().as_str()?.to_owned())
}

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameTarget {
    Role(RoleId),
    Alias(RoleId),
    Group,
    Join,
}

/// All names of a team.
pub(super) struct TeamNames {
    targets: BTreeMap<String, (NameTarget, Range<usize>)>,
    /// The names of the roles, in their order; empty where a name could not be read.
    roles: Vec<String>,
    /// Whether names may refer to something outside of the team, because it has an
    /// `[env.external]`.
    has_external: bool,
    /// Whether some name could not be read. In that case unknown names are not reported, because
    /// they may refer to it.
    incomplete: bool,
}

impl TeamNames {
    /// Collects the names and reports those that are invalid or taken.
    pub(super) fn collect(authored: &AuthoredTeam, problems: &Problems) -> Self {
        let mut names = Self {
            targets: BTreeMap::new(),
            roles: authored
                .roles
                .iter()
                .map(|role| role.name.as_ref().map_or("", |name| &name.value).into())
                .collect(),
            has_external: authored.env.external.is_some(),
            incomplete: authored.roles.iter().any(|role| role.name.is_none())
                || authored.joins.iter().any(|join| join.id.is_none())
                || !problems.are_read(&["", "role", "role.addresses", "join", "env", "env."]),
        };
        let roles = || authored.roles.iter().zip(0..).map(|(r, i)| (r, RoleId(i)));
        for (role, id) in roles() {
            if let Some(name) = &role.name {
                names.declare(name, NameTarget::Role(id), problems);
            }
        }
        // Aliases are declared after all roles, so that the alias is reported if it equals the name
        // of a role.
        for (role, id) in roles() {
            for alias in &role.addresses {
                names.declare(alias, NameTarget::Alias(id), problems);
            }
        }
        for (group, _) in &authored.env.groups {
            names.declare(group, NameTarget::Group, problems);
        }
        for join in &authored.joins {
            if let Some(id) = &join.id {
                names.declare(id, NameTarget::Join, problems);
            }
        }
        names
    }

    fn declare(&mut self, name: &Located<String>, named: NameTarget, problems: &Problems) {
        if !check_name(name, problems) {
            self.incomplete = true;
            return;
        }
        if let Some((_, first)) = self.targets.get(&name.value) {
            let message = format!("the name `{}` is taken", name.value);
            let problem = problems.at(&name.span, message);
            let hint = "roles, aliases, groups and joins share one space of names";
            problems.add(problem.also(first.clone(), "first used here").hint(hint));
            return;
        }
        let entry = (named, name.span.clone());
        self.targets.insert(name.value.clone(), entry);
    }

    /// Returns what a name refers to. Reports nothing.
    pub(super) fn lookup(&self, name: &str) -> Option<NameTarget> {
        self.targets.get(name).map(|(named, _)| *named)
    }

    /// Returns what a name refers to. Reports an unknown name.
    pub(super) fn resolve(
        &self,
        name: &Located<String>,
        problems: &Problems,
    ) -> Option<NameTarget> {
        self.lookup(&name.value)
            .or_else(|| self.report_unknown(name, |_| true, problems))
    }

    /// Reports an unknown name, with similar names that would be valid in its place.
    fn report_unknown(
        &self,
        name: &Located<String>,
        would_do: fn(NameTarget) -> bool,
        problems: &Problems,
    ) -> Option<NameTarget> {
        if !self.incomplete && check_legible(name, problems) {
            let problem = problems.at(&name.span, format!("there is no `{}`", name.value));
            let candidates = self
                .targets
                .iter()
                .filter(|(_, (named, _))| would_do(*named));
            let candidates = candidates.map(|(name, _)| name.as_str());
            let hint = if problems.has_many() {
                None
            } else {
                suggest(&name.value, &candidates.collect::<Vec<_>>())
            };
            problems.add(problem.hint(
                hint.unwrap_or_else(|| "declare it, or write the name of what is there".into()),
            ));
        }
        None
    }

    /// Returns the role that a name or an alias refers to. Anything else is reported.
    pub(super) fn resolve_role(
        &self,
        name: &Located<String>,
        problems: &Problems,
    ) -> Option<RoleId> {
        let is_role = |named| matches!(named, NameTarget::Role(_) | NameTarget::Alias(_));
        let what = match self
            .lookup(&name.value)
            .or_else(|| self.report_unknown(name, is_role, problems))?
        {
            NameTarget::Role(id) | NameTarget::Alias(id) => return Some(id),
            NameTarget::Group => "a group",
            NameTarget::Join => "a join",
        };
        let problem = problems.at(&name.span, format!("`{}` is {what}", name.value));
        problems.add(problem.hint("a role or an alias is needed here"));
        None
    }

    /// Returns the role that a name or an alias refers to. Reports nothing.
    pub(super) fn lookup_role(&self, name: &str) -> Option<RoleId> {
        match self.lookup(name)? {
            NameTarget::Role(id) | NameTarget::Alias(id) => Some(id),
            NameTarget::Group | NameTarget::Join => None,
        }
    }

    /// Checks a target of a route.
    pub(super) fn check_target(&self, name: &Located<String>, problems: &Problems) {
        // With an `[env.external]`, every legible name that is not empty may exist outside.
        if !is_reserved(&name.value) && (!self.has_external || name.value.is_empty()) {
            self.resolve(name, problems);
        } else {
            check_legible(name, problems);
        }
    }

    /// Returns a name as it is saved: that of the role for an alias. Otherwise a saved team would
    /// still seem to fit a team file in which the alias belongs to another role.
    pub(super) fn canonical(&self, name: &Located<String>) -> String {
        match self.lookup(&name.value) {
            Some(NameTarget::Alias(id)) => self.roles[id.index()].clone(),
            _ => name.value.clone(),
        }
    }
}

/// Returns whether a name is reserved: `<all>`, `<self>` or `<nobody>`.
fn is_reserved(name: &str) -> bool {
    [TO_ALL, TO_SELF, TO_NOBODY].contains(&name)
}

/// Returns whether a name is valid, and reports it if it is not.
pub(super) fn check_name(name: &Located<String>, problems: &Problems) -> bool {
    if !check_legible(name, problems) {
        return false;
    }
    let reason = if name.value.is_empty() {
        "a name cannot be empty"
    } else if name.value.trim() != name.value {
        "a name cannot begin or end with a space"
    } else if name.value.chars().count() > MAX_NAME_CHARS {
        "a name cannot be longer than 200 characters"
    } else if is_reserved(&name.value) {
        "`<all>`, `<self>` and `<nobody>` have a meaning of their own"
    } else {
        return true;
    };
    let problem = problems.at(&name.span, reason);
    problems.add(problem.hint("choose another name"));
    false
}

/// Returns whether a name, or a reference to one, is free of invisible characters, and reports it
/// if it is not. With such characters two different names could look the same.
pub(super) fn check_legible(name: &Located<String>, problems: &Problems) -> bool {
    let Some(unfit) = find_unfit_for_name(&name.value) else {
        return true;
    };
    let message = format!(
        "a name cannot hold U+{:04X}, a character that is not seen",
        u32::from(unfit)
    );
    problems.add(
        problems
            .at(&name.span, message)
            .hint("write the name without it"),
    );
    false
}

/// Returns whether an action can have this name, and reports it if it cannot.
pub(super) fn check_action_name(name: &Located<String>, problems: &Problems) -> bool {
    if name.value == IDEA_LABEL {
        let message = format!("an action cannot be named `{IDEA_LABEL}`");
        let problem = problems.at(&name.span, message);
        problems.add(problem.hint("that is the label of the idea"));
        return false;
    }
    check_name(name, problems)
}
