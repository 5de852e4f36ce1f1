//! Which tool a call is made to: the one that has its name, or the one that a call of `call_tool` names.

use std::borrow::Cow;

use serde_json::json;
use strata_base::text::excerpt::excerpt;
use strata_core::record::conversation::ToolCall;
use strata_core::record::json;
use strata_core::record::turn::{CallForm, HostTool, INNER_ARGUMENTS, ToolRef};
use strata_core::team::tools::{Tool, ToolLoop};
use strata_core::text::is_invisible;
use strata_services::tools::{Exposure, RoleTool, ToolOffer, ToolRole};

/// How much of the name of an unknown tool is kept, in characters.
const MAX_NAME_CHARS: usize = 200;
/// How many tools the model is reminded of when it calls one that does not exist.
const MAX_LISTED_TOOLS: usize = 50;

/// What replies are checked against.
#[derive(Clone, Copy)]
pub(super) struct ReplyRules<'a> {
    /// The tools, as the core knows them.
    pub(super) tools: &'a ToolLoop,
    /// The tools, as the model knows them.
    pub(super) settings: &'a ToolRole,
}

/// A call of a tool that exists.
pub(super) struct NamedCall<'a> {
    pub(super) tool: &'a Tool,
    pub(super) settings: &'a RoleTool,
    pub(super) form: CallForm,
    /// The arguments of the tool, as text.
    pub(super) arguments: Cow<'a, str>,
}

/// A call of something that does not exist.
pub(super) struct UnknownCall {
    pub(super) name: String,
    pub(super) form: CallForm,
    pub(super) reason: String,
}

/// Returns which tool a call is made to, and with which arguments.
pub(super) fn named_call<'a>(
    rules: ReplyRules<'a>,
    call: &'a ToolCall,
) -> Result<NamedCall<'a>, UnknownCall> {
    let mut tools = rules.tools.tools.iter().zip(&rules.settings.tools);
    let found = tools.find(|(_, tool)| tool.model_name == call.name && can_be_named(tool));
    match found {
        Some((tool, _)) if tool.target.tool == ToolRef::Host(HostTool::CallTool) => {
            inner_call(rules, call)
        }
        Some((tool, settings)) => Ok(NamedCall {
            tool,
            settings,
            form: CallForm::Direct,
            arguments: Cow::Borrowed(&call.arguments),
        }),
        None => {
            let name = shown_name(&call.name);
            Err(UnknownCall {
                form: CallForm::Direct,
                reason: unknown_tool(rules.settings, &name),
                name,
            })
        }
    }
}

/// Returns whether the model can name a tool.
fn can_be_named(tool: &RoleTool) -> bool {
    tool.exposure != Exposure::Withheld && tool.offer == ToolOffer::Model
}

/// Returns the name of an unknown tool as it is recorded.
pub(super) fn shown_name(name: &str) -> String {
    excerpt(&name.replace(is_invisible, " "), MAX_NAME_CHARS)
}

/// Returns the call of a tool that a call of `call_tool` stands for.
pub(super) fn inner_call<'a>(
    rules: ReplyRules<'a>,
    call: &ToolCall,
) -> Result<NamedCall<'a>, UnknownCall> {
    let form = CallForm::ByCallTool;
    let unnamed = |reason: String| UnknownCall {
        name: shown_name(&call.name),
        form,
        reason,
    };
    let sent = json::parse_untrusted(&call.arguments)
        .map_err(|error| unnamed(format!("the arguments are {error}")))?;
    let Some(name) = sent["name"].as_str() else {
        return Err(unnamed("`name` is not the name of a tool".into()));
    };
    let mut tools = rules.tools.tools.iter().zip(&rules.settings.tools);
    let found = tools.find(|(tool, settings)| {
        let can_be_called = !matches!(tool.target.tool, ToolRef::Host(_)) && can_be_named(settings);
        can_be_called && settings.model_name == name
    });
    let Some((tool, settings)) = found else {
        let name = shown_name(name);
        let reason = format!("there is no tool `{name}`; search with `find_tools`");
        return Err(UnknownCall { name, form, reason });
    };
    let arguments = sent
        .get(INNER_ARGUMENTS)
        .cloned()
        .unwrap_or_else(|| json!({}));
    Ok(NamedCall {
        tool,
        settings,
        form,
        arguments: Cow::Owned(arguments.to_string()),
    })
}

fn unknown_tool(settings: &ToolRole, name: &str) -> String {
    let mut known = Vec::new();
    for tool in settings.sent_tools().take(MAX_LISTED_TOOLS) {
        known.push(format!("`{}`", tool.model_name));
    }
    if known.is_empty() {
        return format!("there is no tool `{name}`, and no other");
    }
    format!("there is no tool `{name}`; there are {}", known.join(", "))
}
