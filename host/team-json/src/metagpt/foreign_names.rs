//! The names of roles, actions and labels in a foreign file. In different places, MetaGPT writes
//! the path of a class, its last component, a name, a profile, or `NAME(PROFILE)`.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::message::IDEA_LABEL;
use strata_core::team::{React, Role, Team};

use super::super::ImportError;
use super::super::located_value::LocatedValue;
use super::super::saved_names::action_of_state;

/// The field with the path of the class of an entry.
const CLASS_FIELD: &str = "__module_class_name";

/// What each name stands for; `None` if it is ambiguous.
type Aliases = BTreeMap<String, Option<String>>;

/// The names in a foreign file. The default, for a file of ours, translates nothing.
#[derive(Default)]
pub(in super::super) struct ForeignNames {
    /// The team's own labels.
    known_labels: BTreeSet<String>,
    labels: Aliases,
    roles: Aliases,
    names_by_role: BTreeMap<String, BTreeSet<String>>,
}

impl ForeignNames {
    /// Collects the names in a file with these entries for the roles of a team.
    pub fn from_entries(
        team: &Team,
        entries: &BTreeMap<String, LocatedValue<'_>>,
    ) -> Result<Self, ImportError> {
        let mut names = Self::default();
        names.known_labels.insert(IDEA_LABEL.into());
        for role in &team.roles {
            names
                .known_labels
                .extend(role.actions.iter().map(|action| action.name.clone()));
            names.known_labels.extend(role.watch.iter().cloned());
        }
        for role in &team.roles {
            let entry = entries.get(&role.name);
            let mut own = entry.map(role_names).transpose()?.unwrap_or_default();
            own.extend([role.name.clone(), role.profile.clone(), role.speaker_name()]);
            own.extend(role.addresses.iter().cloned());
            own.retain(|name| !name.is_empty());
            for name in &own {
                add_alias(&mut names.roles, name, &role.name);
            }
            names.names_by_role.insert(role.name.clone(), own);
            let Some(entry) = entry else { continue };
            let actions = action_names(entry)?.unwrap_or_default();
            for (action, known_as) in role.actions[planner_offset(role, actions.len())..]
                .iter()
                .zip(&actions)
            {
                for name in known_as {
                    add_alias(&mut names.labels, name, &action.name);
                }
            }
        }
        Ok(names)
    }

    /// Returns the team's own name for a label: the label itself, the action with this name or
    /// class, or the last component of a path.
    pub fn translate_label(&self, label: &str) -> String {
        if self.known_labels.contains(label) {
            return label.into();
        }
        if let Some(Some(action)) = self.labels.get(label) {
            return action.clone();
        }
        let last = last_component(label);
        if self.known_labels.contains(last) {
            last.into()
        } else {
            label.into()
        }
    }

    /// Returns the role that sent a message. `speaker` decides between roles of one class.
    pub fn resolve_sender(&self, sent_from: &str, speaker: &str) -> String {
        let by = |name: &str| self.roles.get(name).cloned().flatten();
        let among = |name: String| self.is_role(&name, sent_from).then_some(name);
        by(sent_from)
            .or_else(|| by(speaker).and_then(among))
            .unwrap_or_else(|| sent_from.into())
    }

    /// Whether a name can stand for a role.
    pub fn is_role(&self, role: &str, name: &str) -> bool {
        role == name
            || self
                .names_by_role
                .get(role)
                .is_some_and(|names| names.contains(name))
    }
}

/// Adds a name. A name that is added for two things stands for neither.
fn add_alias(aliases: &mut Aliases, name: &str, stands_for: &str) {
    let entry = aliases
        .entry(name.into())
        .or_insert_with(|| Some(stands_for.into()));
    if entry.as_deref() != Some(stands_for) {
        *entry = None;
    }
}

/// Returns the names of a role's entry, besides its key.
pub(in super::super) fn role_names(
    place: &LocatedValue<'_>,
) -> Result<BTreeSet<String>, ImportError> {
    let (name, profile) = (place.get_text("name")?, place.get_text("profile")?);
    let class = place.get_text(CLASS_FIELD)?;
    let mut names: BTreeSet<String> = place
        .get_texts("addresses")?
        .unwrap_or_default()
        .into_iter()
        .collect();
    let paths: Vec<String> = names
        .iter()
        .map(|path| last_component(path).to_owned())
        .collect();
    names.extend(paths);
    names.extend([
        format!("{name}({profile})"),
        last_component(&class).into(),
        name,
        profile,
        class,
    ]);
    names.retain(|name| !name.is_empty());
    Ok(names)
}

/// Returns the names of each action of a role's entry, the usual one first; `None` if the entry
/// does not list its actions.
pub(in super::super) fn action_names(
    place: &LocatedValue<'_>,
) -> Result<Option<Vec<Vec<String>>>, ImportError> {
    let states = place.get_texts("states")?;
    let mut actions: Vec<Vec<String>> = states
        .iter()
        .flatten()
        .map(|state| vec![action_of_state(state).to_owned()])
        .collect();
    let entries = place.read_items("actions", |action| {
        action.object()?;
        let class = action.get_text(CLASS_FIELD)?;
        Ok([
            action.get_text("name")?,
            last_component(&class).into(),
            class,
        ])
    })?;
    if actions.is_empty() {
        if states.is_none() && place.get("actions").is_none() {
            return Ok(None);
        }
        actions = vec![Vec::new(); entries.len()];
    }
    for (action, names) in actions.iter_mut().zip(entries) {
        action.extend(names.into_iter().filter(|name| !name.is_empty()));
    }
    Ok(Some(actions))
}

/// Returns how many actions of a role come before those that MetaGPT saves, which does not count
/// the planner as an action.
pub(in super::super) fn planner_offset(role: &Role, saved: usize) -> usize {
    usize::from(role.react == React::PlanAndAct && saved + 1 == role.actions.len())
}

/// Returns the last component of the path of a class.
fn last_component(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
