//! Checks the `config` of an action against the schema that its component publishes. What the
//! schema does not describe, the component checks itself when it is called.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use strata_base::text::suggest::suggest;
use strata_core::record::id::{ActionId, Slot, SlotKind};
use strata_core::team::React;
use strata_manifest::{Definition, Diagnostics};
use strata_sandbox::ComponentInfo;
use strata_services::plugin::{CompiledSchema, Plugin};

use crate::launch::Notice;

/// Checks an action's `config` against the schema that its component publishes. `report` receives a
/// warning if that is not a valid schema.
pub(super) fn check_config(
    definition: &Definition,
    slot: Slot,
    plugin: &Plugin,
    component: &ComponentInfo,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<(), Diagnostics> {
    // The schema describes the config of the action. A thinker or a planner in the same component
    // may accept another one.
    let plans = definition.team.role(slot.role).react == React::PlanAndAct
        && slot.kind == SlotKind::Action(ActionId(0));
    let written = component
        .manifest
        .config_schema
        .as_ref()
        .filter(|_| slot.kind != SlotKind::Think && !plans);
    let Some(schema) =
        written.and_then(|text| strata_core::record::json::parse_untrusted(text).ok())
    else {
        return Ok(());
    };
    let role = definition.team.role(slot.role);
    let (part, role) = (role.component_name(slot.kind), &role.name);
    let compiled = match CompiledSchema::compile_bounded(&schema) {
        Ok(compiled) => compiled,
        // An invalid schema describes nothing. Refusing the component for it would help nobody.
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
    // A config that is too expensive to check is accepted without a check.
    if compiled.check_cost(&config).is_err() {
        return Ok(());
    }
    // SDKs treat a missing config as a table in which every key has its default.
    if config.is_null() && compiled.check(&config).is_err() {
        config = json!({});
    }
    let Err(why) = compiled.check(&config) else {
        return Ok(());
    };
    let message =
        format!("the `config` of `{part}` of role `{role}` is not valid for its component: {why}");
    Err(definition.config_problem(slot, message, suggest_key(&schema, &config)))
}

/// Returns a suggestion for a key that the schema does not have.
fn suggest_key(schema: &Value, config: &Value) -> Option<String> {
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
