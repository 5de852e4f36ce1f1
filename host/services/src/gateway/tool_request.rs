//! Requests of a guest to the tools of its role, and what a guard decides about them.

use std::borrow::Cow;

use strata_base::files::sha256::sha256;
use strata_core::record::host_call::{HostCall, HostCallKind};
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;
use strata_core::record::turn::{Approval, CallDecision};

use super::WASI_CLOCK_START;
use super::size::ITEM_BYTES;
use crate::human::HumanQuestion;

/// Separates the name of a request in the record from the number of the call that it is about.
const ABOUT_SEPARATOR: char = '@';

/// A call of a tool that a guest makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRequest {
    /// The name of the tool, as the team file has it or as models see it.
    pub name: String,
    /// The arguments.
    pub arguments: Json,
    /// What the guard of the role has decided; `Allow` if it has none.
    pub decision: GuardDecision,
}

/// What a guard decides about a call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GuardDecision {
    /// It is made, if nothing else is against it.
    #[default]
    Allow,
    /// It is rejected, for this reason.
    Deny(String),
    /// A human is asked.
    Ask,
}

impl GuardDecision {
    /// Returns what becomes of a call about which the host has decided this. A guard can only narrow what
    /// a call may do. `input_schema` returns that of the tool.
    pub fn narrow(
        self,
        decision: CallDecision,
        input_schema: impl FnOnce() -> Option<Json>,
    ) -> CallDecision {
        match (self, decision) {
            (Self::Deny(reason), CallDecision::Make(_) | CallDecision::AskFirst(..)) => {
                CallDecision::Reject(reason)
            }
            (Self::Ask, CallDecision::Make(target)) => {
                let approval = Approval {
                    input_schema: input_schema(),
                    ..Approval::default()
                };
                CallDecision::AskFirst(target, approval)
            }
            (_, decision) => decision,
        }
    }
}

/// A call of code about which a guard has to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedCall {
    /// The name of the tool in the team file.
    pub tool: String,
    /// The number that the call gets within the outer one.
    pub number: u16,
}

/// Returns the name in the record of a request, which a guard makes if it is about a call. The guard is not
/// asked again about a call that is recorded, so its requests are not counted with others.
pub fn name_about<'a>(about: Option<&GuardedCall>, request: &'a str) -> Cow<'a, str> {
    match about {
        Some(call) => format!("{request}{ABOUT_SEPARATOR}{}", call.number).into(),
        None => request.into(),
    }
}

/// Returns a question as it is asked. A guard's says which call it is about, so that no two calls have the
/// same question.
pub fn question_about(about: Option<&GuardedCall>, question: HumanQuestion) -> HumanQuestion {
    let Some(GuardedCall { tool, number }) = about else {
        return question;
    };
    HumanQuestion {
        text: format!("{}\n(about call {number}, of `{tool}`)", question.text),
        ..question
    }
}

/// Returns whether a call only records when a component began. No guest asked for it.
pub fn records_start(call: &HostCall) -> bool {
    let name = call.request.split(ABOUT_SEPARATOR).next();
    call.kind == HostCallKind::Clock && name == Some(WASI_CLOCK_START)
}

impl ToolRequest {
    /// Returns the digest by which a call of this tool is recognised in the record. `tool` is its name in
    /// the team file.
    pub fn digest(&self, tool: &str) -> String {
        let arguments = self.arguments.as_str();
        to_hex(&sha256(format!("{}\n{tool}\n{arguments}", tool.len())))
    }

    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.arguments.as_str().len() + ITEM_BYTES
    }
}

/// A tool that a guest may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDescription {
    /// Its name in the team file.
    pub name: String,
    /// What it does; empty if that is not known.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Json,
}

impl ToolDescription {
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.input_schema.as_str().len() + ITEM_BYTES
    }
}
