//! Reads `[[role.tool]]` with `code`: a tool that runs code which the model writes. It is an action like any
//! other, whose component is the interpreter of scripts and whose code is an argument.

use std::ops::Range;

use serde_json::Value;
use strata_core::team::BudgetLimits;
use strata_core::team::tools::CallOrder;
use strata_services::plugin::script::ScriptLanguage;
use strata_services::tools::{ApprovalRule, ToolOffer};

use super::action::{AuthoredAction, AuthoredToolAction, FAULT_WORDS};
use super::limits::{self, ComponentKind, LimitsPatch};
use super::slot::AuthoredSlot;
use crate::grants;
use crate::table::{Located, TomlItem, TomlTable};

/// The name of the tool.
const RUN_CODE: &str = "run_code";
/// The languages, as they are written, and the scripts that stand for the code in the argument `code`.
const LANGUAGES: [(&str, ScriptLanguage); 2] = [
    ("python", ScriptLanguage::Python),
    ("js", ScriptLanguage::JavaScript),
];

/// Returns the name of the script that stands for the code in the argument `code`.
fn passed_script(language: ScriptLanguage) -> &'static str {
    match language {
        ScriptLanguage::Python => "<arguments.code>.py",
        ScriptLanguage::JavaScript => "<arguments.code>.js",
    }
}

/// Reads a tool that runs code. Returns `None` if the table is of another tool. `approval` is how its calls are
/// approved, `max_calls` how many of them an activation makes, and `tools` which tools the code may call.
pub(super) fn read_code_tool(
    table: &TomlTable<'_>,
    approval: Option<ApprovalRule>,
    max_calls: Option<u32>,
    tools: Option<&TomlItem<'_>>,
) -> Option<AuthoredAction> {
    let language = table
        .key(
            "code",
            "For a tool that runs code: the language in which its model writes code for the tool `run_code`, which runs it in the sandbox. The \
             code can call `tools`.",
        )
        .one_of(&LANGUAGES);
    let only = table
        .key(
            "only",
            "For code: whether its model is not offered these tools besides, so that it reaches them by code alone.",
        )
        .boolean(false);
    let faults = table
        .key(
            "on_fault",
            "For code: what becomes of its faults, in place of the `tool_faults` of the role.",
        )
        .one_of(&FAULT_WORDS[1..]);
    let limits = read_limits(table);
    let allow = table
        .key(
            "allow",
            "For code: what a script may touch besides its tools.",
        )
        .table("`allow`", grants::read_grants);
    let language = language?;
    let span = language.span();
    let chosen = language.choice(&LANGUAGES)?;
    let mut allow = allow.unwrap_or_default();
    let tools = tools.map(|item| item.unique_strings()).unwrap_or_default();
    allow
        .grants
        .tools
        .extend(tools.iter().map(|tool| tool.value.clone()));
    allow.tools.extend(tools);
    Some(AuthoredAction {
        name: Some(Located {
            value: RUN_CODE.to_owned(),
            span: span.clone(),
        }),
        slot: AuthoredSlot {
            limits,
            allow,
            ..interpreter_slot(table, chosen, span)
        },
        tool: AuthoredToolAction {
            keys: Vec::new(),
            description: None,
            input_schema: None,
            approval,
            faults: faults.and_then(|item| item.choice(&FAULT_WORDS[1..])),
            order: CallOrder::Parallel,
            max_calls,
            is_final: false,
            granted_tools: if only {
                ToolOffer::CodeOnly
            } else {
                ToolOffer::Model
            },
        },
        budget_limits: BudgetLimits::default(),
    })
}

/// Reads what a script may use up.
fn read_limits(table: &TomlTable<'_>) -> LimitsPatch {
    table
        .key(
            "limits",
            "For code: what a script may use up. What is not written is that of the team.",
        )
        .table("`limits`", |limits| {
            limits::read_limits_patch(limits, ComponentKind::Action)
        })
        .unwrap_or_default()
}

/// Returns the slot of the interpreter that runs the code. It has no limits and no grants yet.
fn interpreter_slot(
    table: &TomlTable<'_>,
    language: ScriptLanguage,
    span: Range<usize>,
) -> AuthoredSlot {
    let script = passed_script(language);
    AuthoredSlot {
        span: table.span.clone(),
        component: Some(Located {
            value: table.problems.source.base.join(script),
            span,
        }),
        pin: None,
        skill: None,
        function: None,
        config: Value::Null,
        config_span: None,
        output_schema: None,
        limits: Default::default(),
        allow: Default::default(),
    }
}
