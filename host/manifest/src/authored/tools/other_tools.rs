//! Reads `[[role.tool]]`: another role, tools of an MCP server, or a tool that runs code.

use serde_json::{Value, json};
use strata_services::tools::{ApprovalRule, Deferral};

use super::{
    APPROVE, ApprovalForms, ToolKeyReader, approval_schema, read_approve, read_deferral,
    read_own_max_calls,
};
use crate::authored::action::AuthoredAction;
use crate::authored::code_tool::read_code_tool;
use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlTable};

/// `[[role.tool]]`.
pub(crate) struct AuthoredOtherTool {
    pub(crate) kind: AuthoredToolKind,
    pub(crate) max_calls: Option<u32>,
    pub(crate) deferral: Deferral,
}

/// What `[[role.tool]]` names.
pub(crate) enum AuthoredToolKind {
    /// Another role as a tool.
    Role {
        /// The name of the role.
        role: Located<String>,
        approval: Option<ApprovalRule>,
    },
    /// Tools of an MCP server.
    Server {
        /// The name of the server.
        server: Located<String>,
        /// Patterns of the names of its tools.
        tools: Vec<String>,
        /// Patterns of the names of those whose calls a person approves.
        approve: Vec<String>,
    },
}

/// What a table `[[role.tool]]` stands for.
pub(super) enum OtherTool {
    Named(AuthoredOtherTool),
    Code(Box<AuthoredAction>),
}

/// The keys of which a table has exactly one.
const KINDS: [&str; 3] = ["role", "mcp", "code"];

/// The keys that only a tool that runs code has.
const CODE_KEYS: [&str; 4] = ["only", "on_fault", "limits", "allow"];

/// Excludes from suggestions the keys that a tool of the kind that is named does not have.
fn exclude_keys_of_others(table: &TomlTable<'_>) {
    if table.has("role") {
        table.exclude(&["mcp", "code", "tools"]);
    } else if table.has("mcp") {
        table.exclude(&["role", "code"]);
    } else if table.has("code") {
        table.exclude(&["role", "mcp", "defer"]);
    }
}

/// Returns the rule that a table has the keys of exactly one kind.
fn rule_of_kinds() -> Value {
    let rule = json!({ "not": { "type": "array" } });
    let mut of_role = json!({ "tools": false, "approve": rule });
    let mut of_server = json!({ "approve": { "type": "array" } });
    for key in CODE_KEYS {
        of_role[key] = false.into();
        of_server[key] = false.into();
    }
    let of_code = json!({ "approve": rule, "defer": { "const": false } });
    json!([
        { "required": ["role"], "properties": of_role },
        { "required": ["mcp", "tools"], "properties": of_server },
        { "required": ["code"], "properties": of_code },
    ])
}

/// Reports `defer` at a tool that runs code.
fn reject_deferred_code(table: &TomlTable<'_>, deferral: Deferral) {
    if deferral != Deferral::Never && table.has("code") {
        let message = "a tool that runs code is not left out of requests";
        let problem = table.problems.at(&table.span, message);
        table.problems.add(problem.hint("remove `defer`"));
    }
}

/// Reads a table.
pub(super) fn read_other_tool(table: &TomlTable<'_>) -> Option<OtherTool> {
    table.define_as("role-tool");
    table.rule("oneOf", rule_of_kinds);
    exclude_keys_of_others(table);
    let role = table
        .key(
            "role",
            "For another role as a tool: its name or an alias of it.",
        )
        .name();
    let server = table
        .key(
            "mcp",
            "For tools of an MCP server: its name, in `[mcp.NAME]`. Naming it here grants its tools to the role.",
        )
        .name();
    let tools = table
        .key(
            "tools",
            "For a server: its tools, by their names there. For code: the tools of the role that it may call: actions, \
             `SERVER/TOOL`, roles. `*` stands for any run of characters.",
        )
        .value(kind::unique_texts);
    let max_calls = read_own_max_calls(&mut ToolKeyReader::new(table));
    let deferral = read_deferral(table);
    let named = KINDS.iter().filter(|kind| table.has(kind)).count();
    let kind = match (role, server) {
        (Some(first), _) | (None, Some(first)) if named > 1 => {
            let message = "a tool is another role, or one of a server, or runs code";
            let problem = table.problems.at(&first.span, message);
            table
                .problems
                .add(problem.hint("keep one of `role`, `mcp` and `code`"));
            None
        }
        (Some(role), _) => {
            if let Some(tools) = &tools {
                tools.reject(
                    "`tools` are those of a server, or those of code",
                    "remove it, or name the server in `mcp`",
                );
            }
            let approval =
                read_approve(&mut ToolKeyReader::new(table), ApprovalForms::RuleOrTools).flatten();
            Some(AuthoredToolKind::Role { role, approval })
        }
        (None, Some(server)) => Some(AuthoredToolKind::Server {
            tools: read_server_tools(table, tools.as_ref()),
            approve: read_approved_tools(table),
            server,
        }),
        (None, None) => None,
    };
    if let Some(kind) = kind {
        return Some(OtherTool::Named(AuthoredOtherTool {
            kind,
            max_calls,
            deferral,
        }));
    }
    let approval =
        read_approve(&mut ToolKeyReader::new(table), ApprovalForms::RuleOrTools).flatten();
    reject_deferred_code(table, deferral);
    let code = read_code_tool(table, approval, max_calls, tools.as_ref());
    if named == 0 {
        table.report_missing_one_of(&KINDS);
    }
    Some(OtherTool::Code(Box::new(code.filter(|_| named == 1)?)))
}

/// Reads which tools of a server are granted.
fn read_server_tools(table: &TomlTable<'_>, tools: Option<&TomlItem<'_>>) -> Vec<String> {
    let Some(item) = tools else {
        table.report_missing_one_of(&["tools"]);
        return Vec::new();
    };
    if item.is_empty_list() {
        item.reject("`tools` grants no tool", "`[\"*\"]` grants all");
    }
    let tools = item.unique_strings().into_iter();
    tools.map(|tool| tool.value).collect()
}

/// Reads which tools of a server need approval.
fn read_approved_tools(table: &TomlTable<'_>) -> Vec<String> {
    let item = table
        .key("approve", APPROVE)
        .value(|| approval_schema(table, ApprovalForms::RuleOrTools));
    let patterns = item.map(|item| item.unique_strings()).unwrap_or_default();
    patterns.into_iter().map(|tool| tool.value).collect()
}
