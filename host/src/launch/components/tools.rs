//! What components say of themselves as tools: completes the descriptions and the schemas of tools
//! for which the team file has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::id::{RoleId, Slot, SlotKind};
use strata_core::record::json;
use strata_core::record::turn::ToolRef;

use crate::launch::Notice;
use crate::manifest::Definition;
use crate::plugin::CompiledSchema;
use crate::sandbox::ComponentInfo;
use crate::tools::ToolRole;

/// Returns the roles that work with tools. `report` receives a warning for each component whose
/// schema cannot be used; its arguments are not checked.
pub(super) fn describe_tools(
    definition: &Definition,
    loaded: &BTreeMap<Slot, ComponentInfo>,
    report: &mut dyn FnMut(Notice<'_>),
) -> BTreeMap<RoleId, Arc<ToolRole>> {
    let mut roles = BTreeMap::new();
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
            if let (None, Some(text)) = (&tool.input_schema, &info.manifest.input_schema) {
                match compile(text) {
                    Ok(schema) => tool.input_schema = Some(schema),
                    Err(why) => {
                        let name = definition.team.slot_name(slot);
                        report(Notice::Warning(&format!(
                            "the arguments of `{name}` are not checked: the component's schema for them is none: {why}"
                        )));
                    }
                }
            }
        }
        roles.insert(*id, Arc::new(role));
    }
    roles
}

fn compile(text: &str) -> Result<CompiledSchema, String> {
    let schema = json::parse_untrusted(text).map_err(|error| error.to_string())?;
    CompiledSchema::compile_bounded(&schema)
}
