//! A fault as a person is shown it: what failed, where and why, what the guest did last, and what
//! can be done about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_core::machine::stepper::{Stepper, component_slot, retry_policy};
use strata_core::record::conversation::reply_text;
use strata_core::record::fault::{Fault, FaultCause, FaultKind, Retryability};
use strata_core::record::host_call::{CallOutcome, Grant, HostCall, HostCallKind};
use strata_core::record::id::{Slot, SlotKind};
use strata_core::record::work::{CallKey, Work};

use strata_base::text::excerpt::excerpt;
use strata_core::state::activation::Phase;
use strata_services::models::ModelReply;
use strata_services::plugin::script;

use super::index_and_name_of_call;
use crate::provenance::{ComponentOrigin, Provenance};

/// Prefixes of the frames in which Rust panics. They do not help to find the cause.
const PANIC_FRAMES: [&str; 4] = [
    "__rustc::",
    "core::panicking::",
    "std::panicking::",
    "std::sys::backtrace::",
];
/// How many of the last host calls a fault has.
const MAX_CALLS: usize = 5;
/// The maximum number of characters of a response. `inspect --calls --json` has all of it.
const RESPONSE_CHARS: usize = 2000;

/// The fault of a role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultView {
    /// The name of the role.
    pub role: String,
    /// The index of the action in its role; `None` for `think` and `answer`, which are not actions.
    pub index: Option<u16>,
    /// The name of the action; `think` for a choice, `answer` for a person's answer.
    pub action: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How it failed.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_kind")]
    pub kind: FaultKind,
    /// Why it failed, as far as the host knows.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_cause")]
    pub cause: FaultCause,
    /// What was attempted and why it failed. The first line is the summary.
    pub message: String,
    /// The stack frames of the guest, innermost first.
    pub backtrace: Vec<String>,
    /// The last lines that the guest logged or wrote to its standard streams.
    pub log: Vec<String>,
    /// The tool call that failed, if it is one.
    pub tool_call: Option<FailedToolCall>,
    /// The last host calls of the attempt, oldest first.
    pub last_calls: Vec<HostCallView>,
    /// What to do about it.
    pub advice: FaultAdvice,
}

impl FaultView {
    /// Returns the fault of a call. Returns `None` if it has none, or if the operator interrupted
    /// it: that is not a fault of the action and needs no advice.
    pub fn from_call(stepper: &Stepper, call: CallKey, provenance: &Provenance) -> Option<Self> {
        let open = stepper.env().open_call(stepper.team(), call)?;
        let Phase::Failed(fault) = open.phase else {
            return None;
        };
        if fault.kind == FaultKind::Interrupted {
            return None;
        }
        let role = stepper.team().role(call.role);
        let (index, action) = index_and_name_of_call(stepper, call);
        let calls = &open.progress.recorded_calls;
        let last_calls = &calls[calls.len().saturating_sub(MAX_CALLS)..];
        let (component, slot) = match fault.kind {
            FaultKind::Guard(moment) => {
                let kind = SlotKind::Guard(moment);
                let slot = Slot {
                    role: call.role,
                    kind,
                };
                (moment.name(), Some(slot))
            }
            _ => (action, component_slot(role, call.role, call.work)),
        };
        let failed = FailedAction {
            name: format!("{}.{component}", role.name),
            retries: retry_policy(role, call.work).retries,
            origin: slot.and_then(|slot| provenance.component_origin(slot)),
        };
        Some(Self {
            role: role.name.clone(),
            index,
            action: action.to_owned(),
            attempt: open.progress.attempts,
            kind: fault.kind,
            cause: fault.cause,
            message: fault.message.clone(),
            backtrace: fault.backtrace.clone(),
            log: fault.log.clone(),
            tool_call: FailedToolCall::from_call(stepper, call),
            last_calls: last_calls.iter().map(HostCallView::from_call).collect(),
            advice: failed.advise(fault),
        })
    }

    /// Returns the fault in one line: what failed, in which attempt, and why.
    pub fn headline(&self) -> String {
        let summary = self.message.lines().next().unwrap_or_default();
        let what = match self.index {
            Some(index) => format!("{} action {index} `{}`", self.role, self.action),
            None => format!("{} `{}`", self.role, self.action),
        };
        format!("{what} attempt {}: {}: {summary}", self.attempt, self.kind)
    }

    /// Returns the frames starting with the guest's own code, or all frames if there is no such
    /// frame.
    pub fn guest_frames(&self) -> &[String] {
        let is_of_panic =
            |frame: &&String| PANIC_FRAMES.iter().any(|start| frame.starts_with(start));
        let own = self.backtrace.iter().take_while(is_of_panic).count();
        if own < self.backtrace.len() {
            &self.backtrace[own..]
        } else {
            &self.backtrace
        }
    }
}

/// A call of a tool by a model, which failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedToolCall {
    /// The name of the model that asked for it; empty if nobody was asked, in a trial.
    pub model: String,
    /// The number of the model's reply that asked for it, from 0.
    pub turn: u32,
    /// Its position in the reply, from 0.
    pub tool_call: u32,
    /// The text of the reply; often empty.
    pub reply: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

impl FailedToolCall {
    /// Returns the tool call that `call` makes, or `None` if it makes none.
    fn from_call(stepper: &Stepper, call: CallKey) -> Option<Self> {
        let Work::ToolCall {
            turn,
            call: tool_call,
            ..
        } = call.work
        else {
            return None;
        };
        let activation = stepper.env().activation(call.activation())?;
        let asking_turn = activation.turns.get(turn as usize)?;
        let arguments = asking_turn.arguments(tool_call as usize)?;
        Some(Self {
            model: asking_turn.model.clone(),
            turn,
            tool_call,
            reply: reply_text(&asking_turn.message),
            arguments: arguments.as_str().to_owned(),
        })
    }
}

/// A recorded host call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostCallView {
    /// The kind of call.
    #[serde(serialize_with = "strata_driver::serialize_name::host_call_kind")]
    pub kind: HostCallKind,
    /// Its outcome.
    #[serde(serialize_with = "super::serialize_outcome")]
    pub outcome: CallOutcome,
    /// The beginning of the response, on one line.
    pub response: String,
}

impl HostCallView {
    /// Creates the view of a call.
    pub fn from_call(call: &HostCall) -> Self {
        Self {
            kind: call.kind,
            outcome: call.outcome,
            response: excerpt(&response_text(call), RESPONSE_CHARS),
        }
    }
}

/// Returns the response of a host call as text: the text of a model's reply or the tool calls that
/// it consists of, the body of an HTTP response, the message of an error; the JSON document
/// otherwise.
pub fn response_text(call: &HostCall) -> String {
    let text = response_document_text(call.kind.name(), &call.response.value());
    text.unwrap_or_else(|| call.response.as_str().to_owned())
}

/// Returns the response to a host call with a kind of this name as text; `None` if it has no better one than the document.
pub fn response_document_text(kind: &str, response: &Value) -> Option<String> {
    let reply = (kind == HostCallKind::Llm.name())
        .then(|| ModelReply::deserialize(response).ok())
        .flatten();
    match reply {
        Some(reply) => Some(reply.summary()),
        None if response["vectors"].is_array() => {
            let count = response["vectors"].as_array().map_or(0, Vec::len);
            Some(format!("{count} vectors"))
        }
        None => ["body", "message"]
            .iter()
            .find_map(|field| response[*field].as_str().map(str::to_owned)),
    }
}

/// What to do about a fault. It depends on the cause that the host recorded and, where the cause
/// says nothing, on the kind; never on the message, whose text a guest may choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultAdvice {
    /// What failed: `ROLE.ACTION`, or `ROLE.before` and `ROLE.after` for the guards of a role.
    pub action: String,
    /// The line of the team file that names its component: `team.toml:17`. `None` if it has no
    /// component.
    pub location: Option<String>,
    /// What to change; `None` if the host does not know more than the message says.
    pub remedy: Option<Remedy>,
    /// Whether the team file should be changed.
    pub edits_team_file: bool,
    /// The action, as `--component` names it; `None` if another component does not help or if the
    /// component is built from source.
    pub component: Option<String>,
}

/// What can remove the cause of a fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Remedy {
    /// Raise the limit that was reached, or let the action use less.
    RaiseLimit {
        /// Its key in the team file, for example `limits.cpu`. `None` if only the message names it.
        limit: Option<&'static str>,
        /// Whether the action may loop without end, so that no limit is high enough.
        may_loop: bool,
    },
    /// Add a grant to `[role.action.allow]` of the action.
    AddGrant {
        /// The grant.
        #[serde(serialize_with = "super::serialize_grant")]
        grant: Grant,
    },
    /// The team file has the grant, but a policy of the operator does not allow it.
    WithheldGrant {
        /// The grant.
        #[serde(serialize_with = "super::serialize_grant")]
        grant: Grant,
        /// What the policy says, and which policy it is.
        reason: String,
    },
    /// Check the service behind a host call.
    CheckService,
    /// Configure a model in the team file.
    ConfigureModel,
    /// Add a `[[reply]]` to the file of scripted replies, or change the prompt.
    AddScriptedReply,
    /// Record the run again, or restore the requests that it made.
    RecordAgain,
    /// Raise `investment` or `tokens` of the action.
    RaiseActionBudget,
    /// Declare the scope in the team file, or name one that is declared.
    DeclareScope,
    /// Remove a symbolic link, through which nothing is written.
    RemoveSymbolicLink,
    /// Grant a directory that does not contain the saved team, or save the team elsewhere.
    SeparateDirectory,
    /// Change `allow.dirs` of the action, which bounds what it does in its directories.
    ChangeDirectoryGrant,
    /// Make room in the directory for temporary files, or set `TMPDIR` to another one.
    FreeTemporarySpace,
    /// Shorten what the model is sent, or allow more.
    ShortenConversation,
    /// Try again: the action declared that this may help.
    Retry {
        /// How often it is retried automatically: `limits.retries`.
        retries: u32,
    },
    /// Correct the code of the action, or its configuration in the team file.
    ChangeCode {
        /// Where the code is.
        source: CodeSource,
    },
}

/// Where the code of an action comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "path", rename_all = "kebab-case")]
pub enum CodeSource {
    /// A compiled component, which can be replaced.
    Component,
    /// The newest message to the role. What wrote the message has to be corrected, and the run
    /// resumed from a checkpoint before it.
    Message,
    /// A script, which is read again by each run.
    Script(#[serde(serialize_with = "super::serialize_path")] PathBuf),
    /// A directory of source, which is rebuilt automatically.
    Directory(#[serde(serialize_with = "super::serialize_path")] PathBuf),
}

impl CodeSource {
    fn from_origin(origin: &ComponentOrigin) -> Self {
        if origin.is_compiled() {
            Self::Component
        } else if script::is_passed_script(&origin.from) {
            Self::Message
        } else if script::is_script(&origin.from) {
            Self::Script(origin.from.clone())
        } else {
            Self::Directory(origin.from.clone())
        }
    }
}

/// An action or a guard that failed, and what its advice depends on besides the fault.
struct FailedAction<'a> {
    /// `ROLE.ACTION`, or the role and the word for the guard.
    name: String,
    /// How often the action is retried automatically.
    retries: u32,
    /// Where its component comes from, if it has one.
    origin: Option<&'a ComponentOrigin>,
}

impl FailedAction<'_> {
    /// Returns what to do about a fault.
    fn advise(self, fault: &Fault) -> FaultAdvice {
        let remedy = self.remedy(fault);
        let is_interruption =
            fault.cause == FaultCause::Unspecified && fault.kind == FaultKind::Interrupted;
        // The team file is named even if a source is to be changed, since it holds the action's
        // configuration.
        let edits_team_file = match &remedy {
            Some(Remedy::ChangeCode { source }) => *source != CodeSource::Message,
            _ => !is_interruption,
        };
        let is_component_replaceable = match &remedy {
            Some(Remedy::RaiseLimit { .. }) => true,
            Some(Remedy::ChangeCode { source }) => *source == CodeSource::Component,
            _ => false,
        };
        let compiled = self.origin.filter(|origin| origin.is_compiled());
        FaultAdvice {
            location: self.origin.map(|origin| origin.line.clone()),
            remedy,
            edits_team_file,
            component: compiled
                .filter(|_| is_component_replaceable)
                .map(|_| self.name.clone()),
            action: self.name,
        }
    }

    /// Returns what can remove the cause of a fault. A limit that was reached is named in the
    /// fault's message.
    fn remedy(&self, fault: &Fault) -> Option<Remedy> {
        let of_limit = |limit, may_loop| Remedy::RaiseLimit { limit, may_loop };
        let remedy = match fault.cause {
            FaultCause::CpuLimit => of_limit(Some("limits.cpu"), true),
            FaultCause::FuelLimit => of_limit(Some("limits.fuel"), true),
            FaultCause::TimeLimit => of_limit(Some("limits.timeout"), false),
            FaultCause::Limit => of_limit(None, false),
            FaultCause::NotGranted(grant) => self.grant_remedy(grant),
            FaultCause::Service => Remedy::CheckService,
            FaultCause::NoModel => Remedy::ConfigureModel,
            FaultCause::NoScriptedReply => Remedy::AddScriptedReply,
            FaultCause::NoRecordedReply => Remedy::RecordAgain,
            FaultCause::OwnBudget => Remedy::RaiseActionBudget,
            FaultCause::NoScope => Remedy::DeclareScope,
            FaultCause::SymbolicLink => Remedy::RemoveSymbolicLink,
            FaultCause::StorageDirectory => Remedy::SeparateDirectory,
            FaultCause::Staging | FaultCause::Keeping | FaultCause::DirectoryOverflow => {
                Remedy::ChangeDirectoryGrant
            }
            FaultCause::TemporaryFiles => Remedy::FreeTemporarySpace,
            FaultCause::ContextTooLong => Remedy::ShortenConversation,
            FaultCause::NestedCall if matches!(fault.kind, FaultKind::Guard(_)) => {
                return self.code_remedy();
            }
            // The message names the tool that failed.
            FaultCause::NestedCall => return None,
            FaultCause::Declared
                if fault.kind == FaultKind::Error
                    && fault.retryability == Retryability::Retryable =>
            {
                Remedy::Retry {
                    retries: self.retries,
                }
            }
            FaultCause::Declared => return self.code_remedy(),
            FaultCause::Unspecified => match fault.kind {
                FaultKind::StateConflict | FaultKind::Interrupted => return None,
                _ => return self.code_remedy(),
            },
        };
        Some(remedy)
    }

    /// Returns what to do about a grant that is missing.
    fn grant_remedy(&self, grant: Grant) -> Remedy {
        let withheld = self.origin.and_then(|origin| {
            let mut withheld = origin.withheld.iter();
            withheld.find(|(withheld, _)| *withheld == grant)
        });
        match withheld {
            Some((_, reason)) => Remedy::WithheldGrant {
                grant,
                reason: reason.clone(),
            },
            None => Remedy::AddGrant { grant },
        }
    }

    /// Returns what to do if the code of the action is wrong; `None` if the host runs it itself.
    fn code_remedy(&self) -> Option<Remedy> {
        let source = CodeSource::from_origin(self.origin?);
        Some(Remedy::ChangeCode { source })
    }
}

#[cfg(test)]
mod tests;
