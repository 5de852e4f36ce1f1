//! The main parts of the file, and the fields in them that are not understood. These are preserved.

use std::collections::BTreeMap;

use strata_core::record::json::Json;
use strata_core::team::{React, Role, Team};

use super::ImportError;
use super::decode::field_names;
use super::layout::{
    ActionJson, EnvJson, MemoryJson, RoleContextJson, RoleJson, StrataJson, TeamJson,
};
use super::located_value::{LocatedValue, child_pointer};

/// The main parts of the file.
#[derive(Clone, Copy)]
pub(super) struct FileParts<'a> {
    /// The complete document.
    pub document: LocatedValue<'a>,
    /// `/env`: the part in MetaGPT's format.
    pub env: LocatedValue<'a>,
    /// `/env/roles`.
    pub roles: LocatedValue<'a>,
    /// `/strata`: our own part, which files of other programs do not have.
    pub strata: Option<LocatedValue<'a>>,
}

/// The values of other programs' fields, by the JSON pointer where they are written back.
pub(super) type ForeignValues = BTreeMap<String, Json>;

/// The fields of MetaGPT's files that are understood, and not written.
const METAGPT_CONTEXT_FIELDS: &[&str] = &["news", "msg_buffer"];

/// Collects the fields that are not understood.
pub(super) fn collect_unknown_fields(
    team: &Team,
    file: &FileParts<'_>,
    places: &[&LocatedValue<'_>],
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    collect_unknown(&file.document, "", field_names::<TeamJson<'_>>(), foreign)?;
    collect_unknown(&file.env, "/env", field_names::<EnvJson<'_>>(), foreign)?;
    if let Some(strata) = &file.strata {
        collect_unknown(strata, "/strata", field_names::<StrataJson<'_>>(), foreign)?;
    }
    match file.env.get("history") {
        Some(history) if history.value().is_object() => {
            let known = field_names::<MemoryJson<'_>>();
            collect_unknown(&history, "/env/history", known, foreign)?
        }
        // Older files have the history as a string.
        Some(history)
            if history
                .value()
                .as_str()
                .is_some_and(|text| !text.is_empty()) =>
        {
            foreign.insert("/env/history/text".into(), history.json()?);
        }
        _ => {}
    }
    for (role, place) in team.roles.iter().zip(places) {
        let at = child_pointer("/env/roles", &role.name);
        collect_of_role(role, place, &at, foreign)?;
    }
    Ok(())
}

/// Collects the fields of a role's entry that are not understood.
fn collect_of_role(
    role: &Role,
    place: &LocatedValue<'_>,
    at: &str,
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    collect_unknown(place, at, field_names::<RoleJson<'_>>(), foreign)?;
    // Values that this program itself writes by default are not foreign.
    let human = if role.react == React::Human {
        "true"
    } else {
        "false"
    };
    let ours = [("is_human", human), ("role_id", "\"\"")];
    for (name, value) in ours {
        let at = format!("{at}/{name}");
        if foreign
            .get(&at)
            .is_some_and(|found| [value, "null"].contains(&found.as_str()))
        {
            foreign.remove(&at);
        }
    }
    if let Some(list) = place.get("actions") {
        for (i, action) in list.items()?.enumerate() {
            collect_unknown(
                &action,
                &format!("{at}/actions/{i}"),
                field_names::<ActionJson<'_>>(),
                foreign,
            )?;
        }
    }
    if let Some(rc) = place.get("rc") {
        let own = field_names::<RoleContextJson<'_>>();
        let known = [own, METAGPT_CONTEXT_FIELDS].concat();
        collect_unknown(&rc, &format!("{at}/rc"), &known, foreign)?;
        if let Some(memory) = rc.get("memory") {
            collect_unknown(
                &memory,
                &format!("{at}/rc/memory"),
                field_names::<MemoryJson<'_>>(),
                foreign,
            )?;
        }
    }
    Ok(())
}

/// Collects the fields of an object that are not known.
fn collect_unknown(
    place: &LocatedValue<'_>,
    pointer: &str,
    known: &[&str],
    foreign: &mut ForeignValues,
) -> Result<(), ImportError> {
    for (name, field) in place.fields()?.filter(|(name, _)| !known.contains(name)) {
        foreign.insert(child_pointer(pointer, name), field.json()?);
    }
    Ok(())
}
