//! Checks roles whose model works in a loop with tools, and builds what the core and the driver need
//! of them.

mod checked_tool;
mod host_tools;
mod tool_grants;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use strata_base::text::suggest::suggest;
use strata_core::record::conversation::ToolChoice;
use strata_core::record::id::{ActionId, GuardMoment};
use strata_core::record::turn::{CallEffect, CallTarget, ToolRef};
use strata_core::team::HANDOFF_PREFIX;
use strata_core::team::tools::{CallOrder, ServerLimit, Summariser, Tool, ToolLoop};
use strata_services::mcp::GrantedTools;
use strata_services::models::allows_forced_choice;
use strata_services::models::config::{DEFAULT_MODEL, table_name};
use strata_services::plugin::CompiledSchema;
use strata_services::plugin::script::{self, ScriptLanguage};
use strata_services::tool_name::{NameRule, model_names};
use strata_services::tools::{
    Deferral, Exposure, ModelTimeout, RoleMemory, RoleTool, ToolOffer, ToolRole,
};

use checked_tool::CheckedTool;
use tool_grants::{check_tool_grants, reject_tool_grants};

use crate::authored::action::AuthoredAction;
use crate::authored::limits::LimitsPatch;
use crate::authored::mcp::AuthoredServer;
use crate::authored::role::AuthoredRole;
use crate::authored::tools::{AuthoredToolKind, AuthoredTools};
use crate::check::role_calls::{LinkedRole, RoleLinks};
use crate::diagnostic::Problems;
use crate::models::AuthoredModels;
use crate::names::TeamNames;
use crate::table::Located;

/// The words of `tool_choice` that are not names of tools.
const CHOICES: [(&str, ToolChoice); 3] = [
    ("auto", ToolChoice::Auto),
    ("required", ToolChoice::Required),
    ("none", ToolChoice::None),
];

/// A role whose model works with tools.
pub(super) struct CheckedTools {
    pub(super) tool_loop: ToolLoop,
    pub(super) settings: ToolRole,
    /// The roles that it can call, and those that it can hand over to.
    pub(super) links: RoleLinks,
}

/// Reports the keys of tools of a role that does not work with them.
pub(super) fn reject_tool_keys(role: &AuthoredRole, problems: &Problems) {
    let of_actions = role.actions.iter().flat_map(|action| &action.tool.keys);
    let keys = role.tools.keys.iter().chain(of_actions);
    for key in keys.filter(|key| !key.is_default) {
        let message = format!("`{}` needs `react = \"tools\"`", key.name);
        let problem = problems.at(&key.span, message);
        problems.add(problem.hint("remove it, or change the role's `react`"));
    }
    let slots = role.actions.iter().map(|action| &action.slot);
    for slot in slots {
        reject_tool_grants(&slot.allow, problems);
    }
}

/// Checks a role whose model works with tools. `limits` are those of the team. What is built is
/// complete only if no problem was found.
pub(super) fn check_tools(
    role: &AuthoredRole,
    roles: &[AuthoredRole],
    names: &TeamNames,
    limits: &LimitsPatch,
    problems: &Problems,
) -> CheckedTools {
    reject_name_of_role(role, problems);
    let mut tools = action_tools(role);
    tools.extend(role_tools(&role.tools, roles, names, problems));
    tools.extend(host_tools::skill_tools(&role.tools));
    let servers = granted_servers(role);
    tools.extend(host_tools::search_tools(&tools, &servers, &role.span));
    tools.extend(handoff_tools(&role.tools, names, problems));
    reject_equal_names(&tools, problems);
    name_for_model(&mut tools);
    check_tool_grants(role, &mut tools, problems);
    let tool_choice = check_tool_choice(&role.tools, &tools, problems);
    let links = links_of(&tools);
    let (core, settings): (Vec<Tool>, Vec<RoleTool>) = tools
        .into_iter()
        .map(|tool| (tool.core, tool.settings))
        .unzip();
    let authored = &role.tools;
    let mut checked = CheckedTools {
        tool_loop: ToolLoop {
            max_turns: authored.max_turns,
            max_calls: authored.max_calls,
            repeat: authored.repeat,
            order: authored.order,
            faults: authored.faults,
            retry: authored.limits.retry,
            summariser: if summarised_by_component(authored) {
                Summariser::Component
            } else {
                Summariser::Model
            },
            reviews_results: has_guard(authored, GuardMoment::After),
            tools: core,
            server_limits: server_limits(role),
        },
        settings: ToolRole {
            instructions: authored.instructions.clone(),
            history: authored.history,
            tool_choice,
            output_schema: authored
                .output_schema
                .as_ref()
                .map(|(schema, _)| schema.clone()),
            timeout: ModelTimeout::new(authored.limits.timeout),
            role_result_bytes: limits.limits().result_bytes,
            tools: settings,
            skills: authored.skills.skills.clone(),
            memory: authored.memory.as_ref().map(|memory| RoleMemory {
                bounds: memory.bounds,
                model: memory.model.as_ref().map(|model| model.value.clone()),
                instructions: memory.instructions.clone(),
            }),
            servers,
            code_only: tool_grants::code_only_patterns(role),
            code: Vec::new(),
        },
        links,
    };
    checked.settings.choose_exposure();
    checked
}

/// Returns the roles that a role names as tools.
fn links_of(tools: &[CheckedTool]) -> RoleLinks {
    let mut links = RoleLinks::default();
    for tool in tools {
        let (to, role) = match tool.core.target.tool {
            ToolRef::Role(role) => (&mut links.called, role),
            ToolRef::Handoff(role) => (&mut links.handoffs, role),
            ToolRef::Action(_) | ToolRef::Host(_) | ToolRef::Server { .. } => continue,
        };
        let span = tool.span.clone();
        to.push(LinkedRole { role, span });
    }
    links
}

fn has_guard(tools: &AuthoredTools, moment: GuardMoment) -> bool {
    tools.guards.iter().any(|(at, _)| *at == moment)
}

fn summarised_by_component(tools: &AuthoredTools) -> bool {
    let memory = tools.memory.as_ref();
    memory.is_some_and(|memory| memory.component.is_some())
}

fn action_tools(role: &AuthoredRole) -> Vec<CheckedTool> {
    let mut tools = Vec::new();
    for (action, index) in role.actions.iter().zip(0..) {
        let Some(Located { value: name, span }) = &action.name else {
            continue;
        };
        let effect = if action.tool.is_final {
            CallEffect::Ends
        } else {
            CallEffect::Continues
        };
        tools.push(CheckedTool {
            core: Tool {
                name: name.clone(),
                target: CallTarget {
                    tool: ToolRef::Action(ActionId(index)),
                    effect,
                },
                faults: action.tool.faults,
                order: action.tool.order,
                max_calls: action.tool.max_calls,
            },
            settings: RoleTool {
                // Depends on the other tools: see `name_for_model`.
                model_name: String::new(),
                description: action.tool.description.clone(),
                input_schema: action
                    .tool
                    .input_schema
                    .as_ref()
                    .map(|(schema, _)| schema.clone())
                    .or_else(|| script_arguments(action)),
                approval: action.tool.approval,
                deferral: Deferral::Never,
                exposure: Exposure::Sent,
                offer: ToolOffer::Model,
            },
            span: span.clone(),
        });
    }
    tools
}

/// Returns the schema of the arguments of an action that runs the code in one of them. Returns `None`
/// for other actions.
fn script_arguments(action: &AuthoredAction) -> Option<CompiledSchema> {
    let script = &action.slot.component.as_ref()?.value;
    let argument = script::script_argument(script)?;
    let language = ScriptLanguage::from_path(script)?;
    let description = format!("The code that is run, in {}.", language.name());
    let schema = json!({
        "type": "object",
        "properties": { argument: { "type": "string", "description": description } },
        "required": [argument],
    });
    CompiledSchema::compile(&schema).ok()
}

fn role_tools(
    authored: &AuthoredTools,
    roles: &[AuthoredRole],
    names: &TeamNames,
    problems: &Problems,
) -> Vec<CheckedTool> {
    let mut tools = Vec::new();
    for tool in &authored.others {
        let AuthoredToolKind::Role { role: to, approval } = &tool.kind else {
            continue;
        };
        let Some(id) = names.resolve_role(to, problems) else {
            continue;
        };
        let name = names.canonical(to);
        tools.push(CheckedTool {
            settings: RoleTool {
                model_name: String::new(),
                description: Some(describe_called_role(&name, roles.get(id.index()))),
                input_schema: CompiledSchema::compile(&role_arguments()).ok(),
                approval: *approval,
                deferral: tool.deferral,
                exposure: Exposure::Sent,
                offer: ToolOffer::Model,
            },
            core: Tool {
                name,
                target: CallTarget {
                    tool: ToolRef::Role(id),
                    effect: CallEffect::Continues,
                },
                faults: None,
                order: CallOrder::Parallel,
                max_calls: tool.max_calls,
            },
            span: to.span.clone(),
        });
    }
    tools
}

/// Returns the tools of servers that a role is granted. They are listed at their place among the other
/// tools: after the actions, in the order of the file.
fn granted_servers(role: &AuthoredRole) -> Vec<GrantedTools> {
    let mut position = role.actions.len();
    let mut granted = Vec::new();
    for tool in &role.tools.others {
        match &tool.kind {
            AuthoredToolKind::Role { .. } => position += 1,
            AuthoredToolKind::Server {
                server,
                tools,
                approve,
            } => granted.push(GrantedTools {
                server: server.value.clone(),
                tools: tools.clone(),
                approve: approve.clone(),
                deferral: tool.deferral,
                position,
            }),
        }
    }
    granted
}

/// Returns how many calls of the tools of servers one activation may make.
fn server_limits(role: &AuthoredRole) -> Vec<ServerLimit> {
    let limits = role.tools.others.iter().filter_map(|tool| {
        let AuthoredToolKind::Server { server, .. } = &tool.kind else {
            return None;
        };
        Some(ServerLimit {
            server: server.value.clone(),
            max_calls: tool.max_calls?,
        })
    });
    limits.collect()
}

/// Reports servers that a role names and that the team does not have, and those that it names twice.
pub(super) fn check_servers(
    role: &AuthoredRole,
    servers: &BTreeMap<String, AuthoredServer>,
    problems: &Problems,
) {
    let mut named: BTreeMap<&str, &Located<String>> = BTreeMap::new();
    for tool in &role.tools.others {
        let AuthoredToolKind::Server { server, .. } = &tool.kind else {
            continue;
        };
        check_server(server, servers, problems);
        if let Some(first) = named.insert(&server.value, server) {
            let message = format!("the tools of `{}` are named twice", server.value);
            let problem = problems.at(&server.span, message);
            let problem = problem.also(first.span.clone(), "already here");
            problems.add(problem.hint("put all names into one list"));
        }
    }
    for server in role
        .actions
        .iter()
        .flat_map(|action| &action.slot.allow.servers)
    {
        check_server(server, servers, problems);
    }
}

fn check_server(
    server: &Located<String>,
    servers: &BTreeMap<String, AuthoredServer>,
    problems: &Problems,
) {
    if servers.contains_key(&server.value) || !problems.are_read(&["", "mcp", "mcp.*"]) {
        return;
    }
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    let hint = suggest(&server.value, &names);
    let hint = hint.unwrap_or_else(|| format!("add `[mcp.{}]`", server.value));
    let message = format!("there is no MCP server `{}`", server.value);
    problems.add(problems.at(&server.span, message).hint(hint));
}

/// Returns the schema of the arguments of a call of a role.
fn role_arguments() -> Value {
    json!({
        "type": "object",
        "properties": {
            "message": { "type": "string", "description": "All that the role is told." },
        },
        "required": ["message"],
        "additionalProperties": false,
    })
}

/// Returns what a model is told about a role that it can call.
fn describe_called_role(name: &str, role: Option<&AuthoredRole>) -> String {
    let mut text = format!("Lets `{name}` work on a message, and returns its answer.");
    let Some(role) = role else { return text };
    for (what, about) in [
        ("Profile", &role.profile),
        ("Goal", &role.goal),
        ("Description", &role.desc),
    ] {
        if !about.trim().is_empty() {
            text += &format!(" {what}: {}.", about.trim().trim_end_matches('.'));
        }
    }
    text
}

fn handoff_tools(
    authored: &AuthoredTools,
    names: &TeamNames,
    problems: &Problems,
) -> Vec<CheckedTool> {
    let mut tools = Vec::new();
    for to in &authored.handoff {
        let Some(id) = names.resolve_role(to, problems) else {
            continue;
        };
        let role = names.canonical(to);
        let name = format!("{HANDOFF_PREFIX}{role}");
        tools.push(CheckedTool {
            settings: RoleTool {
                model_name: String::new(),
                description: Some(format!(
                    "Hands over to `{role}` and ends your work on this. Use `message` to tell it what to do."
                )),
                input_schema: None,
                approval: None,
                deferral: Deferral::Never,
                exposure: Exposure::Sent,
                offer: ToolOffer::Model,
            },
            core: Tool {
                name,
                target: CallTarget {
                    tool: ToolRef::Handoff(id),
                    effect: CallEffect::Ends,
                },
                faults: None,
                order: CallOrder::Parallel,
                max_calls: None,
            },
            span: to.span.clone(),
        });
    }
    tools
}

/// Reports an action that has the name of its role. The role's answers have that name as their label.
fn reject_name_of_role(role: &AuthoredRole, problems: &Problems) {
    let Some(of) = &role.name else { return };
    let names = role
        .actions
        .iter()
        .filter_map(|action| action.name.as_ref());
    for name in names.filter(|name| name.value == of.value) {
        let message = format!("an action cannot have the name of its role, `{}`", of.value);
        let problem = problems
            .at(&name.span, message)
            .also(of.span.clone(), "the role");
        problems.add(problem.hint("rename it: the answers of the role have that name as label"));
    }
}

/// Reports tools that nobody could tell apart: a role or a handoff that has the name of another
/// tool. Two actions with the same name are reported as such.
fn reject_equal_names(tools: &[CheckedTool], problems: &Problems) {
    let is_action = |tool: &CheckedTool| matches!(tool.core.target.tool, ToolRef::Action(_));
    let mut tools_by_name: BTreeMap<&str, &CheckedTool> = BTreeMap::new();
    for tool in tools {
        let name = tool.core.name.as_str();
        let Some(first) = tools_by_name.insert(name, tool) else {
            continue;
        };
        if is_action(first) && is_action(tool) {
            continue;
        }
        let message = format!("the model would know two tools as `{name}`");
        let problem = problems
            .at(&tool.span, message)
            .also(first.span.clone(), "also known so");
        problems.add(problem.hint("rename one of them, or leave it out"));
    }
}

/// Gives each tool the name that the model uses.
fn name_for_model(tools: &mut [CheckedTool]) {
    let names = tools.iter().map(|tool| tool.core.name.as_str());
    let names = model_names(names, NameRule::Common);
    for (tool, name) in tools.iter_mut().zip(names) {
        tool.settings.model_name = name;
    }
}

/// Returns whether the model has to call a tool, which is named as the model knows it.
fn check_tool_choice(
    authored: &AuthoredTools,
    tools: &[CheckedTool],
    problems: &Problems,
) -> ToolChoice {
    let Some(written) = &authored.tool_choice else {
        return ToolChoice::Auto;
    };
    let word = CHOICES.iter().find(|(word, _)| *word == written.value);
    if let Some((_, choice)) = word {
        let ends = |tool: &CheckedTool| tool.core.target.effect == CallEffect::Ends;
        if *choice == ToolChoice::Required && !tools.iter().any(ends) {
            let message = "with `tool_choice = \"required\"` the model can never answer";
            let problem = problems.at(&written.span, message);
            problems.add(problem.hint("give an action `final = true`, or the role a `handoff`"));
        }
        return choice.clone();
    }
    let found = tools.iter().find(|tool| tool.core.name == written.value);
    let Some(tool) = found else {
        let message = format!("the role has no tool `{}`", written.value);
        let words: Vec<&str> = CHOICES.iter().map(|(word, _)| *word).collect();
        let names = tools.iter().map(|tool| tool.core.name.as_str());
        let known: Vec<&str> = words.into_iter().chain(names).collect();
        let hint = suggest(&written.value, &known);
        let problem = problems.at(&written.span, message);
        problems.add(problem.hint(hint.unwrap_or_else(|| {
            "one of `auto`, `required`, `none`, or the name of a tool".to_owned()
        })));
        return ToolChoice::Auto;
    };
    ToolChoice::Tool(tool.settings.model_name.clone())
}

/// Reports a choice that forces a role's model to call a tool although its options, or those of one of
/// its fallbacks, exclude that.
pub(super) fn check_forced_choice(
    role: &AuthoredRole,
    choice: &ToolChoice,
    models: &AuthoredModels,
    problems: &Problems,
) {
    let name = role.model.as_ref().map(|model| model.value.as_str());
    let name = name.unwrap_or(DEFAULT_MODEL);
    let is_forced = matches!(choice, ToolChoice::Required | ToolChoice::Tool(_));
    let Some(written) = role.tools.tool_choice.as_ref().filter(|_| is_forced) else {
        return;
    };
    for model in models.with_fallbacks(name) {
        if models.get(model).is_none_or(allows_forced_choice) {
            continue;
        }
        let mut message =
            "a model of `anthropic` that thinks cannot be forced to call a tool".to_owned();
        if model != name {
            message.push_str(&format!(
                ", and `{model}` is a fallback of the role's model `{name}`"
            ));
        }
        let problem = problems.at(&written.span, message);
        problems.add(problem.hint(format!(
            "write `tool_choice = \"auto\"`, or remove `thinking` from the `options` of `[{}]`",
            table_name(model)
        )));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use strata_core::record::id::RoleId;

    use super::*;
    use crate::Definition;

    /// Returns the settings of a role with these actions.
    fn role_with(actions: &str) -> ToolRole {
        let text = format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"team\"\n\
             [llm]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
             [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\n\
             {actions}"
        );
        let parsed = Definition::parse_without_files(&text, "team.toml", Path::new("/teams"));
        let mut definition = parsed.unwrap_or_else(|error| panic!("{error}"));
        let role = definition.tool_roles.remove(&RoleId(0));
        role.expect("a role that works with tools")
    }

    #[test]
    fn names_that_models_could_not_tell_apart_are_told_apart() {
        let role = role_with(
            "[[role.action]]\nname = \"look up\"\ncomponent = \"a.wasm\"\n\
             [[role.action]]\nname = \"look_up\"\ncomponent = \"a.wasm\"\n\
             [[role.action]]\nname = \"other one\"\ncomponent = \"a.wasm\"\n",
        );
        let names: Vec<&str> = role.tools.iter().map(|tool| &*tool.model_name).collect();
        assert!(names[0].starts_with("look_up_"), "{names:?}");
        assert_eq!(names[1..], ["look_up", "other_one"]);
    }

    #[test]
    fn an_action_that_runs_an_argument_asks_for_it() {
        let check = |script: &str, expected: Option<Value>| {
            let action = format!("[[role.action]]\nname = \"run\"\nscript = \"{script}\"\n");
            let role = role_with(&action);
            let schema = &role.tools[0].input_schema;
            let document = schema.as_ref().map(CompiledSchema::document);
            assert_eq!(document, expected.as_ref(), "{script}");
        };
        let code = json!({
            "type": "object",
            "properties": {
                "code": { "type": "string", "description": "The code that is run, in Python." },
            },
            "required": ["code"],
        });
        check("<arguments.code>.py", Some(code));
        check("<newest>.py", None);
        check("code.py", None);
    }
}
