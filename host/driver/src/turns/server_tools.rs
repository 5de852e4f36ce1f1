//! The tools of a role together with those of servers, as they were listed at the first turn of the
//! activation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use strata_core::record::id::RoleId;
use strata_core::record::server_tool::{ServerTool, ToolList};
use strata_core::record::turn::{CallEffect, CallTarget, ToolRef};
use strata_core::team::tools::{CallOrder, Tool, ToolLoop};
use strata_services::mcp::GrantedTools;
use strata_services::plugin::{CompiledSchema, pattern};
use strata_services::tools::code_description::signature_line;
use strata_services::tools::{ApprovalRule, Exposure, RoleTool, ToolOffer, ToolRole};

/// A tool of a server with its place among the tools of the role.
struct PlacedTool {
    place: usize,
    core: Tool,
    known: RoleTool,
}

/// The tools of a role, as the core and as the model knows them, with those of servers at their places among them. The
/// instructions of the servers follow those of the role.
#[derive(Debug)]
pub(crate) struct KnownTools {
    /// The tools as the core knows them.
    pub(crate) tools: ToolLoop,
    /// The tools as the model knows them, and how it is asked.
    pub(crate) settings: ToolRole,
    /// The lists of the servers, which the activation has, too.
    pub(super) lists: Arc<[ToolList]>,
}

/// How the models of the roles are asked that work with tools.
#[derive(Debug)]
pub(crate) struct ToolRoles {
    settings: BTreeMap<RoleId, Arc<ToolRole>>,
    /// What each role knew when it was last asked for: a list may have hundreds of tools, whose schemas are not compiled
    /// again at each turn.
    known: Mutex<BTreeMap<RoleId, Arc<KnownTools>>>,
}

impl ToolRoles {
    /// Returns those of a team, in which each role has these settings.
    pub(crate) fn new(settings: BTreeMap<RoleId, Arc<ToolRole>>) -> Self {
        Self {
            settings,
            known: Mutex::default(),
        }
    }

    /// Returns the settings of a role, without what servers add to them.
    pub(super) fn settings(&self, role: RoleId) -> Option<&Arc<ToolRole>> {
        self.settings.get(&role)
    }

    /// Returns the tools of a role, which are `tools` and those of these lists; `None` if it does not work with tools.
    pub(crate) fn known(
        &self,
        role: RoleId,
        tools: &ToolLoop,
        lists: Arc<[ToolList]>,
    ) -> Option<Arc<KnownTools>> {
        let settings = self.settings(role)?;
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&role).filter(|known| known.lists == lists) {
            return Some(Arc::clone(known));
        }
        let known = Arc::new(with_server_tools(tools, settings, lists));
        all.insert(role, Arc::clone(&known));
        Some(known)
    }
}

fn with_server_tools(tools: &ToolLoop, settings: &ToolRole, lists: Arc<[ToolList]>) -> KnownTools {
    let (mut all, mut known) = (tools.clone(), settings.clone());
    let mut placed = Vec::new();
    for grant in &settings.servers {
        placed.extend(tools_of(grant, settings, &lists));
    }
    add_signatures(&mut known, &placed);
    for (tool, added) in placed.into_iter().zip(0..) {
        let place = (tool.place + added).min(all.tools.len());
        all.tools.insert(place, tool.core);
        known.tools.insert(place, tool.known);
    }
    for list in &*lists {
        if let Some(instructions) = &list.instructions {
            let _ = write!(
                known.instructions,
                "\n\n{}: {}",
                list.server,
                instructions.trim()
            );
        }
    }
    known.choose_exposure();
    KnownTools {
        tools: all,
        settings: known,
        lists,
    }
}

/// Adds the tools of servers to the descriptions of the tools that run code which may call them.
fn add_signatures(settings: &mut ToolRole, placed: &[PlacedTool]) {
    for code in &settings.code {
        let Some(tool) = settings.tools.get_mut(code.tool) else {
            continue;
        };
        let description = tool.description.get_or_insert_default();
        for granted in placed {
            if pattern::matches_any(&code.granted, &granted.core.name) {
                description.push_str(&signature_line(&granted.core.name, &granted.known));
            }
        }
    }
}

/// Returns the tools of a server that are granted now. The lists may be older than the grant.
fn tools_of(grant: &GrantedTools, settings: &ToolRole, lists: &[ToolList]) -> Vec<PlacedTool> {
    let mut tools = Vec::new();
    for (list, list_index) in lists.iter().zip(0..) {
        for (tool, index) in list.tools.iter().zip(0..) {
            let is_granted =
                list.server == grant.server && pattern::matches_any(&grant.tools, &tool.name);
            let name = list.full_name(tool);
            let offer = if pattern::matches_any(&settings.code_only, &name) {
                ToolOffer::CodeOnly
            } else {
                ToolOffer::Model
            };
            let Some(known) = known_tool(grant, tool, offer).filter(|_| is_granted) else {
                continue;
            };
            let target = ToolRef::Server {
                list: list_index,
                tool: index,
            };
            let core = Tool {
                name,
                target: CallTarget {
                    tool: target,
                    effect: CallEffect::Continues,
                },
                faults: None,
                order: CallOrder::Parallel,
                // The limit is one of all tools of the server: see `ToolLoop::server_limits`.
                max_calls: None,
            };
            let place = grant.position;
            tools.push(PlacedTool { place, core, known });
        }
    }
    tools
}

/// Returns a tool as the model knows it. Its schema was compiled when it was listed.
fn known_tool(grant: &GrantedTools, tool: &ServerTool, offer: ToolOffer) -> Option<RoleTool> {
    let is_approved = pattern::matches_any(&grant.approve, &tool.name);
    Some(RoleTool {
        model_name: tool.model_name.clone(),
        description: Some(tool.description.clone()),
        input_schema: Some(CompiledSchema::compile_bounded(&tool.input_schema.value()).ok()?),
        approval: is_approved.then(ApprovalRule::default),
        deferral: grant.deferral,
        exposure: Exposure::Sent,
        offer,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strata_core::record::json::Json;
    use strata_core::team::tools::ToolLoop;
    use strata_services::tools::{CodeTool, Deferral};

    use super::*;
    use crate::tests::fixture::empty_role;

    fn listed(name: &str) -> ServerTool {
        let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        ServerTool {
            name: name.into(),
            model_name: format!("files__{name}"),
            description: format!("It can {name}."),
            input_schema: Json::from(schema),
        }
    }

    #[test]
    fn tools_of_servers_stand_at_their_place_and_code_knows_those_that_it_may_call() {
        let (mut tools, mut settings): (ToolLoop, ToolRole) = empty_role();
        let own = |name: &str| PlacedTool {
            place: 0,
            core: Tool {
                name: name.into(),
                target: CallTarget {
                    tool: ToolRef::Action(strata_core::record::id::ActionId(0)),
                    effect: CallEffect::Continues,
                },
                faults: None,
                order: CallOrder::Parallel,
                max_calls: None,
            },
            known: RoleTool {
                model_name: name.into(),
                description: Some("Runs code.".into()),
                input_schema: None,
                approval: None,
                deferral: Deferral::Never,
                exposure: Exposure::Sent,
                offer: ToolOffer::Model,
            },
        };
        for name in ["run_code", "Other"] {
            let tool = own(name);
            tools.tools.push(tool.core);
            settings.tools.push(tool.known);
        }
        settings.servers.push(GrantedTools {
            server: "files".into(),
            tools: vec!["read".into(), "write".into()],
            approve: vec!["write".into()],
            deferral: Deferral::Never,
            position: 1,
        });
        settings.code_only = vec!["files/read".into()];
        settings.code = vec![CodeTool {
            tool: 0,
            granted: vec!["files/read".into()],
        }];
        let lists = [ToolList {
            server: "files".into(),
            instructions: Some("Be brief.".into()),
            tools: vec![listed("list"), listed("read"), listed("write")],
        }];
        let KnownTools {
            tools: all,
            settings: known,
            ..
        } = with_server_tools(&tools, &settings, lists.into());
        let names: Vec<&str> = all.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["run_code", "files/read", "files/write", "Other"]);
        let sent: Vec<&str> = known.sent_tools().map(|tool| &*tool.model_name).collect();
        assert_eq!(sent, ["run_code", "files__write", "Other"]);
        let code = known.tools[0].description.as_deref().unwrap_or_default();
        assert!(
            code.contains("- files/read(path?: string): It can read."),
            "{code}"
        );
        assert!(!code.contains("write"), "{code}");
        assert!(known.tools[2].approval.is_some() && known.tools[1].approval.is_none());
        assert!(known.instructions.ends_with("files: Be brief."));
    }
}
