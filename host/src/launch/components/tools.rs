//! What components say of themselves as tools: completes the descriptions and the schemas of tools
//! for which the team file has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
#[cfg(test)]
use serde_json::json;
use strata_base::text::ordered_json::OrderedJson;
use strata_core::record::id::{RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_manifest::trust::lock::ComponentLock;
use strata_manifest::{Definition, Diagnostics};
use strata_sandbox::{ComponentInfo, ScriptProblem};
use strata_services::models::arguments_schema;
use strata_services::plugin::script::script_argument;
use strata_services::plugin::{CompiledSchema, Plugin, pattern};
use strata_services::tools::{CodeTool, ToolRole, code_description};

use crate::launch::Notice;
use crate::launch::skill_lock::locked_digest;

/// Returns the roles that work with tools. `report` receives a warning for each component whose
/// schema cannot be used; its arguments are not checked. Fails if a schema cannot be that of
/// arguments, which no provider accepts.
pub(super) fn describe_tools(
    definition: &Definition,
    loaded: &BTreeMap<Slot, ComponentInfo>,
    lock: Option<&ComponentLock>,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<BTreeMap<RoleId, Arc<ToolRole>>, Diagnostics> {
    let mut roles = BTreeMap::new();
    let mut problems = Vec::new();
    for (id, role) in &definition.tool_roles {
        let mut role = role.clone();
        let tools = definition.team.role(*id).tool_loop();
        let known = tools.map_or(&[][..], |tools| &tools.tools);
        for (tool, known) in role.tools.iter_mut().zip(known) {
            let ToolRef::Action(action) = known.target.tool else {
                continue;
            };
            let slot = Slot {
                role: *id,
                kind: SlotKind::Action(action),
            };
            let Some(info) = loaded.get(&slot) else {
                continue;
            };
            if tool.description.is_none() {
                tool.description = Some(info.manifest.description.clone());
            }
            let (None, Some(text)) = (&tool.input_schema, &info.manifest.input_schema) else {
                continue;
            };
            let name = definition.team.slot_name(slot);
            match compile(text, definition.plugins.get(&slot)) {
                Ok(schema) => {
                    if let Err(why) = arguments_schema(schema.ordered()) {
                        let message = format!(
                            "`{name}` cannot be a tool: the component's schema for its arguments cannot be used: {why}; give \
                             the action an `input_schema`"
                        );
                        problems.push(definition.component_problem(slot, message));
                    }
                    tool.input_schema = Some(schema);
                }
                Err(why) => report(Notice::Warning(&format!(
                    "the arguments of `{name}` are not checked: the component's schema for them is none: {why}"
                ))),
            }
        }
        describe_code_tools(definition, *id, &mut role);
        for skill in &mut role.skills {
            skill.pin = locked_digest(definition, skill, lock);
        }
        role.choose_exposure();
        roles.insert(*id, Arc::new(role));
    }
    match problems.into_iter().reduce(Diagnostics::and) {
        Some(problems) => Err(problems),
        None => Ok(roles),
    }
}

/// Adds the signatures of the tools that code can call to the descriptions of tools that run code.
fn describe_code_tools(definition: &Definition, id: RoleId, role: &mut ToolRole) {
    let tools = definition.team.role(id).tool_loop();
    let known = tools.map_or(&[][..], |tools| &tools.tools);
    let mut described = Vec::new();
    for (index, tool) in known.iter().enumerate() {
        let ToolRef::Action(action) = tool.target.tool else {
            continue;
        };
        let kind = SlotKind::Action(action);
        let plugin = definition.plugins.get(&Slot { role: id, kind });
        let Some(plugin) = plugin.filter(|plugin| !plugin.grants.tools.is_empty()) else {
            continue;
        };
        if script_argument(&plugin.component).is_none() {
            continue;
        }
        let granted = known.iter().zip(&role.tools).enumerate();
        let granted = granted.filter(|(other, (tool, _))| {
            *other != index
                && !matches!(tool.target.tool, ToolRef::Handoff(_) | ToolRef::Host(_))
                && pattern::matches_any(&plugin.grants.tools, &tool.name)
        });
        let granted = granted.map(|(_, (tool, settings))| (tool.name.as_str(), settings));
        let own = role.tools[index].description.as_deref();
        let description = code_description::describe(own, &plugin.component, granted);
        described.push((index, description));
        role.code.push(CodeTool {
            tool: index,
            granted: plugin.grants.tools.clone(),
        });
    }
    for (index, description) in described {
        role.tools[index].description = Some(description);
    }
}

/// Returns warnings about tools of which a model is told too little, and about scripts that cannot be
/// described, for which the team file has to say more.
pub(super) fn description_warnings(
    definition: &Definition,
    loaded: &BTreeMap<Slot, ComponentInfo>,
    roles: &BTreeMap<RoleId, Arc<ToolRole>>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (slot, info) in loaded {
        if let Some(ScriptProblem::Undescribed(problem)) = info.problem.as_deref() {
            let name = definition.team.slot_name(*slot);
            warnings.push(format!(
                "the script of `{name}` cannot be described completely, so its `config` and its arguments are not \
                 checked: {problem}"
            ));
        }
    }
    for (id, role) in roles {
        let tools = definition.team.role(*id).tool_loop();
        let known = tools.map_or(&[][..], |tools| &tools.tools);
        for (tool, known) in role.tools.iter().zip(known) {
            let ToolRef::Action(action) = known.target.tool else {
                continue;
            };
            let slot = Slot {
                role: *id,
                kind: SlotKind::Action(action),
            };
            let name = definition.team.slot_name(slot);
            if tool
                .description
                .as_deref()
                .is_none_or(|text| text.trim().is_empty())
            {
                warnings.push(format!(
                    "the tool `{name}` has no description, so a model knows only its name; add a docstring or a comment \
                     to its source, or `description`"
                ));
            }
            if tool.input_schema.is_none() {
                warnings.push(format!(
                    "the tool `{name}` declares no arguments, so a model does not know which there are; declare their \
                     types in its source, or name a schema with `input_schema`"
                ));
            }
        }
    }
    warnings
}

fn compile(text: &str, plugin: Option<&Plugin>) -> Result<CompiledSchema, String> {
    let mut schema = OrderedJson::parse(text).map_err(|error| error.to_string())?;
    if let Some(plugin) = plugin.filter(|plugin| plugin.function.is_some()) {
        leave_out_bound(&mut schema, &plugin.config.value());
    }
    CompiledSchema::compile_bounded_ordered(schema)
}

/// Changes the schema of a function's parameters to that of the arguments which a call can give:
/// without those that the `config` of the action sets (`args`), and with those for which it has a
/// default (`defaults`) as optional.
fn leave_out_bound(schema: &mut OrderedJson, config: &Value) {
    let OrderedJson::Object(fields) = schema else {
        return;
    };
    let is_in = |table: &str, name: &str| config[table].get(name).is_some();
    if let Some(OrderedJson::Object(properties)) = fields.get_mut("properties") {
        properties.retain(|name, _| !is_in("args", name));
    }
    if let Some(OrderedJson::List(required)) = fields.get_mut("required") {
        required.retain(|name| {
            let name = name.as_str().unwrap_or_default();
            !is_in("args", name) && !is_in("defaults", name)
        });
    }
}

#[test]
fn arguments_that_the_team_file_sets_are_not_asked_for() {
    let schema =
        r#"{"properties":{"text":{},"head":{},"count":{}},"required":["text","head","count"]}"#;
    let mut schema = OrderedJson::parse(schema).expect("a schema");
    let config = json!({ "args": { "text": "To be!" }, "defaults": { "head": "Hamlet" } });
    leave_out_bound(&mut schema, &config);
    let expected = r#"{"properties":{"head":{},"count":{}},"required":["count"]}"#;
    assert_eq!(schema.to_string(), expected);
    leave_out_bound(&mut schema, &Value::Null);
    assert_eq!(schema.to_string(), expected);
}
