//! Turns of a role whose model calls tools: what a reply says, which tools there are, and what
//! becomes of each call that the model asks for.
//!
//! A reply is recorded as the host checked it. Whatever depends on the definition of the team (which
//! calls are made, which ones a human is asked about, which ones end the activation) is part of the
//! record, so that it means the same when the definition has changed.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::conversation::AssistantPart;
use crate::record::host_call::{CallOutcome, FinishReason, HostCall};
use crate::record::id::{ActionId, Digest, RoleId, SkillLanguage};
use crate::record::json::Json;
use crate::record::message::Draft;
use crate::record::money::Usd;

/// What a tool of a role stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ToolRef {
    /// An action of the role.
    Action(ActionId),
    /// Handing over to another role.
    Handoff(RoleId),
    /// An activation of another role.
    Role(RoleId),
    /// Something that the host itself does.
    Host(HostTool),
    /// A tool of an MCP server, by its place in the lists that the activation works with.
    Server {
        /// The index of the list.
        list: u16,
        /// The index of the tool in the list.
        tool: u16,
    },
}

/// A tool that the host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostTool {
    /// It searches the tools that the model was not told about.
    FindTools,
    /// It calls one of these. A call of it is planned as a call of the other tool, so no call has
    /// this as its target.
    CallTool,
    /// It returns the text of a skill.
    LoadSkill,
    /// It returns a file of a skill.
    ReadSkillFile,
    /// It runs a script of a skill, which is in this language. The component for the language makes
    /// the call.
    RunSkillScript(SkillLanguage),
}

impl HostTool {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::FindTools,
        Self::CallTool,
        Self::LoadSkill,
        Self::ReadSkillFile,
        Self::RunSkillScript(SkillLanguage::Python),
        Self::RunSkillScript(SkillLanguage::JavaScript),
    ];
    /// Those that a role with skills has.
    pub const OF_SKILLS: [Self; 3] = [
        Self::LoadSkill,
        Self::ReadSkillFile,
        Self::RunSkillScript(SkillLanguage::Python),
    ];

    /// Returns its name, by which models and events know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FindTools => "find_tools",
            Self::CallTool => "call_tool",
            Self::LoadSkill => "load_skill",
            Self::ReadSkillFile => "read_skill_file",
            Self::RunSkillScript(_) => "run_skill_script",
        }
    }

    /// Returns the name by which it is saved, which also says the language of a script.
    pub fn saved_name(self) -> &'static str {
        match self {
            Self::RunSkillScript(language) => language.component_name(),
            tool => tool.name(),
        }
    }

    /// Returns the tool that is saved by this name.
    pub fn from_saved_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.saved_name() == name)
    }
}

impl ToolRef {
    /// Returns the tool by which it is defined. The scripts of all languages are run by one tool.
    pub fn definition(self) -> Self {
        match self {
            Self::Host(HostTool::RunSkillScript(_)) => {
                Self::Host(HostTool::RunSkillScript(SkillLanguage::Python))
            }
            tool => tool,
        }
    }
}

/// The digest of a skill at the first turn of an activation. Its files are used as they were then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillDigest {
    /// The name of the skill.
    pub skill: String,
    /// The digest of all its files.
    pub digest: Digest,
}

/// The argument of `call_tool` with the arguments of the tool that is called.
pub const INNER_ARGUMENTS: &str = "arguments";

/// How a model called a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallForm {
    /// By its name.
    #[default]
    Direct,
    /// By `call_tool`, so the arguments are in its argument `arguments`.
    ByCallTool,
}

impl CallForm {
    /// Returns the arguments of the tool, given the text that the model sent. Returns `None` if that
    /// is not JSON.
    pub fn arguments(self, text: &str) -> Option<Json> {
        let sent = Json::parse(text).ok()?;
        match self {
            Self::Direct => Some(sent),
            Self::ByCallTool => Some(
                sent.field(INNER_ARGUMENTS)
                    .unwrap_or_else(|| Json::from(serde_json::json!({}))),
            ),
        }
    }
}

impl ToolRef {
    /// Returns whether its results stay in the conversation when the turns are replaced in which they
    /// were returned.
    pub fn keeps_results(self) -> bool {
        match self {
            Self::Host(HostTool::LoadSkill) => true,
            Self::Action(_)
            | Self::Handoff(_)
            | Self::Role(_)
            | Self::Host(_)
            | Self::Server { .. } => false,
        }
    }
}

/// A reply of the model of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReply {
    /// The name of the model that replied.
    pub model: String,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// What the reply cost.
    pub cost: Usd,
    /// The reply, exactly as it was received. It is sent back in the turns that follow.
    pub message: ReplyMessage,
    /// What follows from it.
    pub outcome: TurnOutcome,
    /// The calls of tools of MCP servers that are not any more what the model was told. They are rejected.
    pub changed_tools: Vec<ChangedTool>,
    /// The role's skills. Empty but for the first turn of an activation.
    pub skills: Vec<SkillDigest>,
}

/// A call of a tool that is not any more what the model was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTool {
    /// The index of the call in the reply.
    pub call: u32,
    /// What has changed, for the model.
    pub reason: String,
}

/// The parts of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyMessage {
    /// These parts.
    Parts(Vec<AssistantPart>),
    /// The answer to the last model call that the attempt recorded. It is not stored again.
    OfLastCall,
}

impl ReplyMessage {
    /// Returns the parts. `calls` are the recorded host calls of the attempt. Returns `None` if they
    /// contain no reply.
    pub fn resolve<'a>(&'a self, calls: &[HostCall]) -> Option<Cow<'a, [AssistantPart]>> {
        match self {
            Self::Parts(parts) => Some(Cow::Borrowed(parts)),
            Self::OfLastCall => last_model_call(calls)?.reply_parts().map(Cow::Owned),
        }
    }
}

/// Returns the last call of a model that was answered.
pub(crate) fn last_model_call(calls: &[HostCall]) -> Option<&HostCall> {
    let mut newest_first = calls.iter().rev();
    newest_first.find(|call| call.outcome == CallOutcome::Answered && call.model.is_some())
}

/// What follows from a reply of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// The model calls tools. There is one plan for each of its calls, in its order.
    Calls(Vec<CallPlan>),
    /// The model answers, which ends the activation.
    Answer(Draft),
    /// The model answers something that does not match the schema of the answer. It is told this
    /// reason in the next turn.
    Misfit(String),
}

/// What is to become of a call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPlan {
    /// The provider's id of the call.
    pub id: String,
    /// The name of the tool in the team; if there is no such tool, the name that the model used.
    pub tool: String,
    /// How the model called it.
    pub form: CallForm,
    /// The decision.
    pub decision: CallDecision,
}

/// The decision about a call that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallDecision {
    /// It is made.
    Make(CallTarget),
    /// It is made if a human approves.
    AskFirst(CallTarget, Approval),
    /// It is not made, and the model is told this reason.
    Reject(String),
}

/// A later decision about a tool call that has not ended, because its tool has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallRevision {
    /// It is made only if a human approves.
    AskFirst(Approval),
    /// It is not made, and the model is told this reason.
    Reject(String),
}

/// What a call is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTarget {
    /// The tool.
    pub tool: ToolRef,
    /// What follows from the success of the call.
    pub effect: CallEffect,
}

/// What follows from the success of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallEffect {
    /// The model is told the result.
    Continues,
    /// The activation ends, and its output is made of the result.
    Ends,
}

/// How a human is asked to approve a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The JSON Schema of the tool's arguments, which arguments that a human sets must conform to.
    pub input_schema: Option<Json>,
    /// The answer that is used if nobody answers in time.
    pub default: Option<Json>,
    /// The deadline, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}
