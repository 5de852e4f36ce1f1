//! Reads the keys of roles whose model works in a loop with tools, and those of their actions. How
//! they relate to each other is checked in `check::tools`.

mod guards;
mod other_tools;
mod turn_limits;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use strata_core::record::id::GuardMoment;
use strata_core::team::RetryPolicy;
use strata_core::team::tools::{CallOrder, ToolFaults};
use strata_services::plugin::CompiledSchema;
use strata_services::tools::{ApprovalRule, Deferral, HistoryUse, ToolOffer};

use self::guards::read_guards;
use self::other_tools::{OtherTool, read_other_tool};
use self::turn_limits::read_role_limits;
use super::action::{AuthoredAction, AuthoredToolAction, FAULT_WORDS, ToolKey};
use super::memory::{AuthoredMemory, read_memory};
use super::skills::{
    AuthoredSkillRules, AuthoredSkills, read_skill_rules, read_skills, skills_schema,
};
use super::slot::{AuthoredSlot, read_arguments_schema, read_schema};
use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlKey, TomlTable};

/// The default of `max_turns`: enough for most tasks, and soon reached by a model that repeats itself.
pub(crate) const DEFAULT_MAX_TURNS: u32 = 20;
/// The default of `max_calls`: five calls in each of the turns that are allowed by default.
pub(crate) const DEFAULT_MAX_CALLS: u32 = 100;
/// The default of `timeout` in `[role.limits]`.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) use self::other_tools::{AuthoredOtherTool, AuthoredToolKind};

/// How the model of a role works with tools.
pub(crate) struct AuthoredTools {
    /// The keys that are written.
    pub(crate) keys: Vec<ToolKey>,
    pub(crate) instructions: String,
    pub(crate) max_turns: u32,
    pub(crate) max_calls: u32,
    pub(crate) repeat: Option<u32>,
    /// The components that are asked about tool calls.
    pub(crate) guards: Vec<(GuardMoment, Located<AuthoredSlot>)>,
    pub(crate) skills: AuthoredSkills,
    pub(crate) skill_rules: AuthoredSkillRules,
    pub(crate) history: HistoryUse,
    /// A word, or the name of a tool.
    pub(crate) tool_choice: Option<Located<String>>,
    pub(crate) order: CallOrder,
    pub(crate) faults: ToolFaults,
    /// The names of the roles that it can hand over to.
    pub(crate) handoff: Vec<Located<String>>,
    /// The roles that it can call, and the servers whose tools it can call.
    pub(crate) others: Vec<AuthoredOtherTool>,
    /// The tools that run code. They follow the actions of the role.
    pub(crate) code: Vec<AuthoredAction>,
    pub(crate) limits: TurnLimits,
    pub(crate) memory: Option<AuthoredMemory>,
    pub(crate) output_schema: Option<(CompiledSchema, PathBuf)>,
}

/// `[role.limits]`: what bounds the model call of a turn.
#[derive(PartialEq, Eq)]
pub(crate) struct TurnLimits {
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
}

/// Reads keys, and remembers those that are written.
struct ToolKeyReader<'t, 'a> {
    table: &'t TomlTable<'a>,
    keys: Vec<ToolKey>,
}

impl<'t, 'a> ToolKeyReader<'t, 'a> {
    fn new(table: &'t TomlTable<'a>) -> Self {
        Self {
            table,
            keys: Vec::new(),
        }
    }

    /// Looks up a key with `look_up`, and reads its value with `read`.
    fn value<T>(
        &mut self,
        name: &'static str,
        about: &'static str,
        look_up: impl FnOnce(TomlKey<'t, 'a>) -> Option<TomlItem<'a>>,
        read: impl FnOnce(&TomlItem<'a>) -> Option<T>,
    ) -> Option<T> {
        let item = look_up(self.table.key(name, about))?;
        self.keys.push(ToolKey {
            name: name.to_owned(),
            span: item.key_span.clone(),
            is_default: false,
        });
        read(&item)
    }

    /// Notes whether the key that was read last has its default.
    fn note_default(&mut self, name: &str, is_default: bool) {
        let last = self.keys.last_mut().filter(|key| key.name == name);
        if let Some(key) = last {
            key.is_default = is_default;
        }
    }

    /// Reads a boolean.
    fn flag(&mut self, name: &'static str, about: &'static str, default: bool) -> bool {
        let look_up = |key: TomlKey<'t, 'a>| key.value(|| kind::boolean(default));
        let flag = self.value(name, about, look_up, TomlItem::boolean);
        self.note_default(name, flag == Some(default));
        flag.unwrap_or(default)
    }

    /// Reads a positive number.
    fn count(&mut self, name: &'static str, about: &'static str, default: u32) -> u32 {
        let range = 1..=u64::from(u32::MAX);
        let number = self.value(
            name,
            about,
            |key| key.default(default).value(|| kind::integer(range.clone())),
            |item| item.integer(range.clone()),
        );
        let number = number.map(|number| number as u32);
        self.note_default(name, number == Some(default));
        number.unwrap_or(default)
    }

    /// Reads a positive number that has no default.
    fn limit(&mut self, name: &'static str, about: &'static str) -> Option<u32> {
        let range = 1..=u64::from(u32::MAX);
        let number = self.value(
            name,
            about,
            |key| key.value(|| kind::integer(range.clone())),
            |item| item.integer(range.clone()),
        );
        number.map(|number| number as u32)
    }

    /// Reads one of a few words, the first of which is the default.
    fn choice<T: Copy + PartialEq>(
        &mut self,
        name: &'static str,
        about: &'static str,
        words: &[(&'static str, T)],
    ) -> T {
        let (word, default) = words[0];
        let choice = self.value(
            name,
            about,
            |key| key.default(word).one_of(words),
            |item| item.choice(words),
        );
        self.note_default(name, choice == Some(default));
        choice.unwrap_or(default)
    }

    /// Reads a JSON Schema from the file that a key names.
    fn schema(
        &mut self,
        name: &'static str,
        about: &'static str,
    ) -> Option<(CompiledSchema, PathBuf)> {
        self.value(name, about, |key| key.value(kind::path), read_schema)
    }
}

/// Reads the keys of a role.
pub(super) fn read_tools(table: &TomlTable<'_>) -> AuthoredTools {
    let mut reader = ToolKeyReader::new(table);
    let instructions = reader.value(
        "instructions",
        "What its model is to do, in addition to the texts above, for `react = \"tools\"`.",
        |key| key.value(kind::text),
        TomlItem::text,
    );
    let max_turns = reader.count(
        "max_turns",
        "How many replies of its model one activation takes at most.",
        DEFAULT_MAX_TURNS,
    );
    let max_calls = reader.count(
        "max_calls",
        "How many tool calls one activation makes at most; further calls are rejected.",
        DEFAULT_MAX_CALLS,
    );
    let repeat = read_repeat(&mut reader);
    let history = reader.choice(
        "history",
        "What its model is told of the past. `role`: the messages that the role handled before, and its answers. \
         `none`: nothing.",
        &[("role", HistoryUse::Role), ("none", HistoryUse::None)],
    );
    let tool_choice = read_tool_choice(&mut reader);
    let is_parallel = reader.flag(
        "parallel",
        "Whether the calls of a turn run at the same time. Otherwise they run one after another.",
        true,
    );
    let faults = reader.choice(
        "tool_faults",
        "What becomes of faults of tools. `return`: the model is told. `stop`: they are faults of the run. `auto`: \
         the kind decides.",
        &FAULT_WORDS,
    );
    let handoff = read_handoff(&mut reader);
    let (others, code) = read_other_tools(&mut reader).unwrap_or_default();
    let guards = read_guards(&mut reader);
    let skills = read_role_skills(&mut reader);
    let skill_rules = read_role_skill_rules(&mut reader);
    let limits = read_role_limits(&mut reader);
    let memory = read_role_memory(&mut reader);
    let output_schema = reader.schema(
        OUTPUT_SCHEMA,
        "A file with a JSON Schema that the final answer has to follow, for `react = \"tools\"`, or that the answer of \
         the person has to follow, for `kind = \"human\"`.",
    );
    AuthoredTools {
        keys: reader.keys,
        instructions: instructions.map_or_else(String::new, |text| text.value),
        max_turns,
        max_calls,
        repeat,
        guards,
        skills: skills.unwrap_or_default(),
        skill_rules: skill_rules.unwrap_or_default(),
        history,
        tool_choice,
        order: if is_parallel {
            CallOrder::Parallel
        } else {
            CallOrder::Exclusive
        },
        faults,
        handoff: handoff.unwrap_or_default(),
        others,
        code,
        limits,
        memory,
        output_schema,
    }
}

/// Reads the roles to which a role can hand over.
fn read_handoff(reader: &mut ToolKeyReader<'_, '_>) -> Option<Vec<Located<String>>> {
    reader.value(
        "handoff",
        "Roles to which it can hand over: its model gets a tool `transfer_to_NAME` for each, which ends its work.",
        |key| key.value(kind::unique_texts),
        |item| Some(item.unique_strings()),
    )
}

fn read_role_memory(reader: &mut ToolKeyReader<'_, '_>) -> Option<AuthoredMemory> {
    reader.value(
        "memory",
        "What bounds its conversations, for `react = \"tools\"`. Without this table, all of them is sent.",
        |key| key.table_item(read_memory),
        |item| item.table("`[role.memory]`").map(|table| read_memory(&table)),
    )
}

/// Reads the roles and the tools of servers that a role can call, and its tools that run code.
fn read_other_tools(
    reader: &mut ToolKeyReader<'_, '_>,
) -> Option<(Vec<AuthoredOtherTool>, Vec<AuthoredAction>)> {
    reader.value(
        "tool",
        "Further tools of its model: other roles, each of which works on the message of a call and whose output is the \
         result, tools of MCP servers, and tools that run code.",
        |key| key.list_item(read_other_tool),
        |item| {
            let (mut others, mut code) = (Vec::new(), Vec::new());
            for table in &item.tables("`[[role.tool]]`") {
                match read_other_tool(table) {
                    Some(OtherTool::Named(tool)) => others.push(tool),
                    Some(OtherTool::Code(tool)) => code.push(*tool),
                    None => {}
                }
            }
            Some((others, code))
        },
    )
}

/// Reads how often a call may be repeated.
fn read_repeat(reader: &mut ToolKeyReader<'_, '_>) -> Option<u32> {
    reader.limit(
        "repeat",
        "How many calls in a row may be equal and have the same result. The next one is rejected; if the model repeats \
         it once more, its turn fails. Without it, there is no such limit.",
    )
}

/// Reads which directories are skills.
fn read_role_skills(reader: &mut ToolKeyReader<'_, '_>) -> Option<AuthoredSkills> {
    reader.value(
        "skills",
        "Directories with a `SKILL.md` in the Agent Skills format, relative to this file; the last part may contain \
         `*`. Its model is told their names and descriptions, and loads them when it needs them.",
        |key| key.value(skills_schema),
        |item| Some(read_skills(item)),
    )
}

/// Reads what holds for the use of skills.
fn read_role_skill_rules(reader: &mut ToolKeyReader<'_, '_>) -> Option<AuthoredSkillRules> {
    reader.value(
        "skill",
        "What holds for the use of its skills.",
        |key| key.table_item(read_skill_rules),
        |item| Some(read_skill_rules(&item.table("`[role.skill]`")?)),
    )
}

/// The key that names the schema of what a role answers.
pub(crate) const OUTPUT_SCHEMA: &str = "output_schema";

/// The default of `tool_choice`.
const AUTO: &str = "auto";

fn read_tool_choice(reader: &mut ToolKeyReader<'_, '_>) -> Option<Located<String>> {
    let tool_choice = reader.value(
        "tool_choice",
        "Whether its model has to call a tool. `auto`: it decides. `required`: in each turn. `none`: it must not. \
         The name of a tool: that one, in the first turn.",
        |key| key.default(AUTO).value(kind::non_empty_text),
        TomlItem::legible_text,
    );
    let is_auto = tool_choice
        .as_ref()
        .is_some_and(|choice| choice.value == AUTO);
    reader.note_default("tool_choice", is_auto);
    tool_choice
}

/// What `approve` is for.
const APPROVE: &str = "Whether a person decides on each call of the tool: `true`, or how long is waited and what then \
                       holds. For tools of a server: the names of those, as the server has them; `*` stands for any run \
                       of characters.";

/// Reads how many calls of a tool one activation makes.
fn read_own_max_calls(reader: &mut ToolKeyReader<'_, '_>) -> Option<u32> {
    reader.limit(
        "max_calls",
        "How many calls of it one activation makes at most; further calls are rejected. Without it, only the \
         `max_calls` of the role applies.",
    )
}

/// Reads whether a tool is sent.
fn read_deferral(table: &TomlTable<'_>) -> Deferral {
    let item = table
        .key(
            "defer",
            "For a role or a server: whether its tools are left out of requests: the model finds them with `find_tools` \
             and calls them with `call_tool`. `\"auto\"`: if the role's tools are more than 12,000 tokens.",
        )
        .default(false)
        .value(|| json!({ "enum": [false, true, DEFER_WHEN_MANY] }));
    let Some(item) = item else {
        return Deferral::Never;
    };
    if item.is_text() {
        let words = [(DEFER_WHEN_MANY, Deferral::WhenMany)];
        return item.choice(&words).unwrap_or_default();
    }
    match item.boolean() {
        Some(true) => Deferral::Always,
        _ => Deferral::Never,
    }
}

/// The value of `defer` that leaves a tool out if there are many.
const DEFER_WHEN_MANY: &str = "auto";

/// Reads whether and how the calls of a tool are approved. Returns `None` if that is not said.
fn read_approve(
    reader: &mut ToolKeyReader<'_, '_>,
    forms: ApprovalForms,
) -> Option<Option<ApprovalRule>> {
    let table = reader.table;
    let approval = reader.value(
        "approve",
        APPROVE,
        |key| key.value(|| approval_schema(table, forms)),
        read_approval,
    );
    reader.note_default("approve", approval == Some(None));
    approval
}

/// Reads the keys of an action.
pub(super) fn read_tool_action(table: &TomlTable<'_>) -> AuthoredToolAction {
    let mut reader = ToolKeyReader::new(table);
    let description = reader.value(
        "description",
        "What it does, for the model that calls it as a tool. Without it, what its component says of itself.",
        |key| key.value(kind::text),
        TomlItem::text,
    );
    let input_schema = reader.value(
        "input_schema",
        "A file with a JSON Schema that the arguments of a tool call have to follow. Without it, that of its component.",
        |key| key.value(kind::path),
        read_arguments_schema,
    );
    let approval = read_approve(&mut reader, ApprovalForms::Rule);
    let faults = reader.value(
        "on_fault",
        "What becomes of its faults, in place of the `tool_faults` of the role. `return`: the model is told. `stop`: \
         they are faults of the run.",
        |key| key.one_of(&FAULT_WORDS[1..]),
        |item| item.choice(&FAULT_WORDS[1..]),
    );
    let is_exclusive = reader.flag(
        "exclusive",
        "Whether it never runs at the same time as another call of the turn.",
        false,
    );
    let max_calls = read_own_max_calls(&mut reader);
    let is_final = reader.flag(
        "final",
        "Whether its result is the role's answer, which ends the activation.",
        false,
    );
    AuthoredToolAction {
        keys: reader.keys,
        description: description.map(|text| text.value),
        input_schema,
        approval: approval.flatten(),
        faults,
        order: if is_exclusive {
            CallOrder::Exclusive
        } else {
            CallOrder::Parallel
        },
        max_calls,
        is_final,
        granted_tools: ToolOffer::Model,
    }
}

/// How `approve` can be written.
#[derive(Clone, Copy)]
enum ApprovalForms {
    /// As a boolean or a rule.
    Rule,
    /// Also as a list of tools of a server.
    RuleOrTools,
}

fn approval_schema(table: &TomlTable<'_>, forms: ApprovalForms) -> serde_json::Value {
    let rule = table.describe_nested(read_approval_rule);
    match forms {
        ApprovalForms::Rule => json!({ "anyOf": [kind::boolean(false), rule] }),
        ApprovalForms::RuleOrTools => {
            json!({ "anyOf": [kind::boolean(false), rule, kind::unique_texts()] })
        }
    }
}

/// Reads whether and how calls are approved. Returns `None` if the value is not valid.
fn read_approval(item: &TomlItem<'_>) -> Option<Option<ApprovalRule>> {
    if item.is_table() {
        let table = item.table("`approve`")?;
        return Some(Some(read_approval_rule(&table)));
    }
    Some(item.boolean()?.then(ApprovalRule::default))
}

fn read_approval_rule(table: &TomlTable<'_>) -> ApprovalRule {
    let expires = table
        .key(
            "expires",
            "How long an answer is waited for. Without it, for ever.",
        )
        .duration();
    let default = table
        .key(
            "default",
            "Whether the call is approved if nobody answers in time.",
        )
        .boolean(false);
    ApprovalRule {
        expires,
        default: table.has("default").then_some(default),
    }
}
