//! Checks which tools of a role its actions may call: that there are such tools, and that none calls itself,
//! whatever other tools are between.

use std::ops::Range;

use strata_core::record::id::GuardMoment;
use strata_core::record::turn::ToolRef;
use strata_services::plugin::pattern;
use strata_services::tools::ToolOffer;

use super::checked_tool::CheckedTool;
use crate::authored::role::AuthoredRole;
use crate::diagnostic::Problems;
use crate::grants::AuthoredGrants;
use crate::table::Located;

/// Separates the name of a server from that of its tool. Which tools a server has is known once it runs.
const SERVER_SEPARATOR: char = '/';

/// A call that an action may make: the index of the tool, and where it is granted.
struct GrantedCall<'a> {
    tool: usize,
    span: &'a Range<usize>,
}

/// Reports tools that are granted to an action of a role that has none.
pub(super) fn reject_tool_grants(allow: &AuthoredGrants, problems: &Problems) {
    if let Some(first) = allow.tools.first() {
        let problem = problems.at(&first.span, "`allow.tools` needs `react = \"tools\"`");
        problems.add(problem.hint("remove it, or change the role's `react`"));
    }
}

/// Checks the tools that are granted to the actions of a role, and notes which tools only code is offered.
pub(super) fn check_tool_grants(
    role: &AuthoredRole,
    tools: &mut [CheckedTool],
    problems: &Problems,
) {
    for (moment, guard) in &role.tools.guards {
        reject_grants_of_guard(*moment, &guard.value.allow, problems);
    }
    let mut calls = Vec::with_capacity(role.actions.len());
    let mut hidden = Vec::new();
    for (action, index) in role.actions.iter().zip(0..) {
        let own = tools.iter().position(|tool| {
            matches!(tool.core.target.tool, ToolRef::Action(action) if usize::from(action.0) == index)
        });
        let mut granted = Vec::new();
        for pattern in &action.slot.allow.tools {
            let found = matching(tools, pattern);
            if found.is_empty() && !pattern.value.contains(SERVER_SEPARATOR) {
                report_unknown(tools, pattern, problems);
            }
            for tool in found {
                // A pattern leaves the tool itself out, its name does not.
                if Some(tool) != own || pattern.value == tools[tool].core.name {
                    let span = &pattern.span;
                    granted.push(GrantedCall { tool, span });
                }
            }
        }
        if action.tool.granted_tools == ToolOffer::CodeOnly {
            hidden.extend(granted.iter().map(|call| call.tool));
        }
        calls.push((own, granted));
    }
    report_circle(tools, &calls, problems);
    for tool in hidden {
        tools[tool].settings.offer = ToolOffer::CodeOnly;
    }
}

/// Returns the patterns of tools of servers that only code is offered.
pub(super) fn code_only_patterns(role: &AuthoredRole) -> Vec<String> {
    let only = role
        .actions
        .iter()
        .filter(|action| action.tool.granted_tools == ToolOffer::CodeOnly);
    let patterns = only.flat_map(|action| &action.slot.allow.tools);
    patterns.map(|pattern| pattern.value.clone()).collect()
}

/// Reports tools that are granted to a guard, which works for the calls of others and makes none.
fn reject_grants_of_guard(moment: GuardMoment, allow: &AuthoredGrants, problems: &Problems) {
    if let Some(first) = allow.tools.first() {
        let message = format!("the guard `{}` cannot call tools", moment.name());
        let problem = problems.at(&first.span, message);
        problems.add(problem.hint("remove it; only actions of the role call its tools"));
    }
}

/// Returns the tools that a pattern grants.
fn matching(tools: &[CheckedTool], pattern: &Located<String>) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        // Those of the host are about the conversation, and code does not hand over.
        let is_of_model = matches!(
            tool.core.target.tool,
            ToolRef::Handoff(_) | ToolRef::Host(_)
        );
        if !is_of_model && pattern::matches(&pattern.value, &tool.core.name) {
            found.push(index);
        }
    }
    found
}

fn report_unknown(tools: &[CheckedTool], pattern: &Located<String>, problems: &Problems) {
    let message = format!("the role has no tool `{}`", pattern.value);
    let known: Vec<&str> = tools.iter().map(|tool| tool.core.name.as_str()).collect();
    let hint = strata_base::text::suggest::suggest(&pattern.value, &known);
    let hint =
        hint.unwrap_or_else(|| "name an action, a role as a tool, or `SERVER/TOOL`".to_owned());
    let problem = problems.at(&pattern.span, message);
    problems.add(problem.hint(hint));
}

/// Reports the first tool that would call itself. `calls` has, for each action, its index among the tools
/// and the calls it may make.
fn report_circle(
    tools: &[CheckedTool],
    calls: &[(Option<usize>, Vec<GrantedCall<'_>>)],
    problems: &Problems,
) {
    let of_tool = |tool: usize| calls.iter().find(|(own, _)| *own == Some(tool));
    for (own, granted) in calls {
        let Some(own) = *own else { continue };
        for first in granted {
            let (mut seen, mut next) = (vec![false; tools.len()], vec![first.tool]);
            while let Some(tool) = next.pop() {
                if tool == own {
                    let name = &tools[own].core.name;
                    let message = if first.tool == own {
                        format!("`{name}` would call itself")
                    } else {
                        format!(
                            "`{name}` would call itself: it calls `{}`, from which calls lead back",
                            tools[first.tool].core.name
                        )
                    };
                    let problem = problems.at(first.span, message);
                    problems.add(problem.hint("grant it other tools"));
                    return;
                }
                if !std::mem::replace(&mut seen[tool], true)
                    && let Some((_, granted)) = of_tool(tool)
                {
                    next.extend(granted.iter().map(|call| call.tool));
                }
            }
        }
    }
}
