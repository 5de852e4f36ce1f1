//! The tools that the host itself offers to the model of a role.

use std::ops::Range;

use serde_json::{Value, json};
use strata_core::record::turn::{CallEffect, CallTarget, HostTool, INNER_ARGUMENTS, ToolRef};
use strata_core::team::tools::{CallOrder, Tool};
use strata_services::mcp::GrantedTools;
use strata_services::plugin::CompiledSchema;
use strata_services::tools::{ApprovalRule, Deferral, Exposure, RoleTool, ToolOffer};

use super::checked_tool::CheckedTool;
use crate::authored::tools::AuthoredTools;

/// Returns the tools that search and call tools which are not sent, if any of `tools` or of those of the servers may be one.
pub(super) fn search_tools(
    tools: &[CheckedTool],
    servers: &[GrantedTools],
    role: &Range<usize>,
) -> Vec<CheckedTool> {
    let own = tools.iter().map(|tool| tool.settings.deferral);
    let mut all = own.chain(servers.iter().map(|granted| granted.deferral));
    if all.all(|deferral| deferral == Deferral::Never) {
        return Vec::new();
    }
    let find = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "Words that describe what the tool should do." },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let call = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "The name of a tool that `find_tools` returned." },
            INNER_ARGUMENTS: { "type": "object", "description": "Its arguments, which follow its schema." },
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    vec![
        host_tool(
            HostTool::FindTools,
            "Searches further tools by words in their names and descriptions. Returns up to 5 of them, with what they do \
             and the schemas of their arguments.",
            &find,
            role,
        ),
        host_tool(
            HostTool::CallTool,
            "Calls a tool that `find_tools` returned.",
            &call,
            role,
        ),
    ]
}

/// Returns the tools for the skills of a role, if it has any.
pub(super) fn skill_tools(authored: &AuthoredTools) -> Vec<CheckedTool> {
    let Some(span) = &authored.skills.span else {
        return Vec::new();
    };
    let names: Vec<&str> = authored
        .skills
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    let skill = json!({ "type": "string", "enum": names, "description": "The name of the skill." });
    // No document follows an empty `enum`. There are no names only while no files are read.
    let skill = if names.is_empty() {
        json!({ "type": "string" })
    } else {
        skill
    };
    let mut tools = Vec::new();
    for tool in HostTool::OF_SKILLS {
        let (about, schema) = match tool {
            HostTool::LoadSkill => (
                "Returns the instructions of a skill and the list of its files.",
                object(&json!({ "name": skill }), &["name"]),
            ),
            HostTool::ReadSkillFile => {
                let path = json!({ "type": "string", "description": "Its path in the skill." });
                (
                    "Returns a file of a skill.",
                    object(&json!({ "skill": skill, "path": path }), &["skill", "path"]),
                )
            }
            _ => (
                "Runs a script of a skill, `scripts/*.py` or `scripts/*.js`, in a sandbox, and returns what it prints.",
                object(
                    &json!({
                        "skill": skill,
                        "script": { "type": "string", "description": "Its path in the skill: `scripts/NAME.py`." },
                        "arguments": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "Its command line arguments.",
                        },
                        "stdin": { "type": "string", "description": "Its standard input." },
                    }),
                    &["skill", "script"],
                ),
            ),
        };
        let mut tool = host_tool(tool, about, &schema, span);
        let approved = authored.skill_rules.approve.iter();
        tool.settings.approval = approved
            .map(|name| name.value.as_str())
            .any(|name| name == tool.core.name)
            .then(ApprovalRule::default);
        tools.push(tool);
    }
    tools
}

/// Returns the schema of arguments with these properties.
fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns a tool of the host.
fn host_tool(tool: HostTool, about: &str, schema: &Value, role: &Range<usize>) -> CheckedTool {
    CheckedTool {
        core: Tool {
            name: tool.name().to_owned(),
            target: CallTarget {
                tool: ToolRef::Host(tool),
                effect: CallEffect::Continues,
            },
            faults: None,
            order: CallOrder::Parallel,
            max_calls: None,
        },
        settings: RoleTool {
            model_name: String::new(),
            description: Some(about.to_owned()),
            input_schema: CompiledSchema::compile(schema).ok(),
            approval: None,
            deferral: Deferral::Never,
            exposure: Exposure::Sent,
            offer: ToolOffer::Model,
        },
        span: role.clone(),
    }
}
