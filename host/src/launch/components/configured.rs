//! Whether the `config` of an action is one that its component takes, as far as the component says what it takes. What it
//! says no word about, it finds out itself, when it is called.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use strata_core::id::{ActionId, Part, Slot};
use strata_core::team::React;

use crate::launch::Notice;
use crate::manifest::{Definition, Diagnostics};
use crate::plugin::{Plugin, Schema};
use crate::sandbox::Loaded;
use crate::suggest::suggest;

/// Holds an action's `config` against the schema that its component publishes. `report` is told if that is none.
pub(super) fn check(
    definition: &Definition,
    (slot, plugin): (Slot, &Plugin),
    component: &Loaded,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<(), Diagnostics> {
    // What it says is said of its action: a thinker or a planner of the same component may take another.
    let plans = definition.team.role(slot.role).react == React::PlanAndAct
        && slot.part == Part::Action(ActionId(0));
    let written = component
        .manifest
        .config_schema
        .as_ref()
        .filter(|_| slot.part != Part::Think && !plans);
    let Some(schema) = written.and_then(|text| strata_core::json::read(text).ok()) else {
        return Ok(());
    };
    let role = definition.team.role(slot.role);
    let (part, role) = (role.part_name(slot.part), &role.name);
    let compiled = match Schema::compile_bounded(&schema) {
        Ok(compiled) => compiled,
        // What is no schema says nothing, and nothing would come of refusing the component for it.
        Err(why) => {
            let unchecked =
                format!("`config` of `{part}` of role `{role}` is held against nothing");
            report(Notice::Warning(&format!(
                "{unchecked}: the component's schema for it is none: {why}"
            )));
            return Ok(());
        }
    };
    let mut config = plugin.config.value();
    // Nor does one that asks for more than could be looked at.
    if compiled.affords(&config).is_err() {
        return Ok(());
    }
    // SDKs take what is not written for a table in which all keys have their defaults.
    if config.is_null() && compiled.check(&config).is_err() {
        config = json!({});
    }
    let Err(why) = compiled.check(&config) else {
        return Ok(());
    };
    let message =
        format!("the `config` of `{part}` of role `{role}` is not valid for its component: {why}");
    Err(definition.at_config(slot, message, hint(&schema, &config)))
}

/// What may have been meant by a key that the schema does not have.
fn hint(schema: &Value, config: &Value) -> Option<String> {
    let known: BTreeSet<&str> = schema["properties"]
        .as_object()?
        .keys()
        .map(String::as_str)
        .collect();
    let written: BTreeSet<&str> = config.as_object()?.keys().map(String::as_str).collect();
    let unknown = written.iter().find(|key| !known.contains(*key))?;
    suggest(
        unknown,
        &known.difference(&written).copied().collect::<Vec<_>>(),
    )
}
