//! The calls that an activation makes, and the results of successful attempts. How an attempt fails
//! is in `fault`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::{ActionId, RoleId};
use crate::record::memory::{MemoryReplacement, PlannedReplacement};
use crate::record::message::Draft;
use crate::record::nested_path::NestedPath;
use crate::record::role_call::{RoleCall, RoleCallPath};
use crate::record::scope_write::Write;
use crate::record::turn::{ToolRef, TurnReply};

/// One call that an activation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Work {
    /// The role chooses its next action.
    Think {
        /// How many choices it made before.
        round: u32,
    },
    /// The role plans.
    Plan,
    /// The role runs an action.
    Act {
        /// The action.
        action: ActionId,
        /// The index of the planned task it carries out.
        task: Option<u32>,
    },
    /// A human answers for the role. This is the only work of human roles.
    Answer,
    /// The model of a tools role replies.
    Turn {
        /// How many replies it gave before.
        turn: u32,
    },
    /// A tool runs that the model called, or that code called which the model called.
    ToolCall {
        /// The number of the reply, starting at 0.
        turn: u32,
        /// The index of the call in the reply.
        call: u32,
        /// The calls of code that lead from the model's call to this one.
        nested: NestedPath,
        /// The tool.
        tool: ToolRef,
    },
    /// What is replaced in the conversation of a tools role is summarised.
    Summary {
        /// The turn that is requested next.
        turn: u32,
    },
}

impl Work {
    /// Returns the calls of code that lead from a model's call to this one, if there are any.
    pub fn nested(&self) -> Option<NestedPath> {
        match self {
            Self::ToolCall { nested, .. } => Some(*nested).filter(|path| !path.is_empty()),
            _ => None,
        }
    }

    /// Returns whether this is a call of a tool of an MCP server, and of nothing else.
    pub fn calls_server(&self) -> bool {
        matches!(
            self,
            Self::ToolCall {
                tool: ToolRef::Server { .. },
                ..
            }
        )
    }
}

/// One activation of a team among all that are open at the same time: that of a role which handles
/// mail, or one that answers a tool call of another role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActivationKey {
    /// The role.
    pub role: RoleId,
    /// The calls of roles that led to it.
    pub via: RoleCallPath,
}

impl ActivationKey {
    /// Returns the key of the activation in which a role handles its mail.
    pub fn of_mail(role: RoleId) -> Self {
        Self {
            role,
            via: RoleCallPath::EMPTY,
        }
    }

    /// Returns the role that handles mail and whose activation includes this one.
    pub fn root(&self) -> RoleId {
        self.via.calls().first().map_or(self.role, |call| call.role)
    }

    /// Returns the key of the activation of `role` that a tool call of this one leads to, or `None`
    /// if there would be too many calls.
    pub fn called(&self, role: RoleId, turn: u32, call: u32, nested: NestedPath) -> Option<Self> {
        let via = self.via.with(RoleCall {
            role: self.role,
            turn,
            call,
            nested,
        })?;
        Some(Self { role, via })
    }

    /// Returns the key of the activation that called this one, or `None` if it handles mail.
    pub fn caller(&self) -> Option<Self> {
        Some(Self {
            role: self.via.last()?.role,
            via: self.via.parent(),
        })
    }

    /// Returns whether calls of roles lead from `other` to this activation, or it is `other` itself.
    pub fn continues(&self, other: &Self) -> bool {
        let mut key = Some(*self);
        while let Some(at) = key.filter(|at| at != other) {
            key = at.caller();
        }
        key.is_some()
    }

    /// Returns the calls that led to it, each with the role that was called.
    pub fn steps(&self) -> impl Iterator<Item = (RoleCall, RoleId)> + '_ {
        let calls = self.via.calls();
        let next = calls.iter().skip(1).map(|next| next.role);
        calls.iter().copied().zip(next.chain([self.role]))
    }

    /// Returns whether a role is at work on the calls that led here, or is the role of this
    /// activation.
    pub fn involves(&self, role: RoleId) -> bool {
        self.role == role || self.via.calls().iter().any(|call| call.role == role)
    }
}

/// One call of a team: the activation that makes it, and which of its calls it is. It identifies a
/// call among all that are open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The role.
    pub role: RoleId,
    /// The calls of roles that led to its activation.
    pub via: RoleCallPath,
    /// The call of its activation.
    pub work: Work,
}

impl CallKey {
    /// Returns the key of a call of the activation in which a role handles its mail.
    pub fn new(role: RoleId, work: Work) -> Self {
        Self::in_activation(ActivationKey::of_mail(role), work)
    }

    /// Returns the key of a call of an activation.
    pub fn in_activation(activation: ActivationKey, work: Work) -> Self {
        let ActivationKey { role, via } = activation;
        Self { role, via, work }
    }

    /// Returns how many attempts wait for the call: those of the code that led to it.
    pub fn waiting_attempts(&self) -> usize {
        let via = self.via.calls().iter().map(|call| call.nested);
        let nested = via.chain(self.work.nested());
        nested.map(|path| path.numbers().len()).sum()
    }

    /// Returns the activation that makes the call.
    pub fn activation(&self) -> ActivationKey {
        ActivationKey {
            role: self.role,
            via: self.via,
        }
    }
}

/// A planned task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What is to be done.
    pub text: String,
    /// The name of the action that is to carry it out.
    pub action: Option<String>,
}

/// The result of a successful attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallResult {
    /// A choice: the index of an action, or -1 to end the activation.
    Chosen(i32),
    /// A plan.
    Planned {
        /// The planned tasks.
        tasks: Vec<Task>,
        /// Messages published in addition.
        emissions: Vec<Draft>,
        /// The writes to scopes.
        writes: Vec<Write>,
    },
    /// An output.
    Returned {
        /// The output.
        output: Draft,
        /// Messages published in addition.
        emissions: Vec<Draft>,
        /// The writes to scopes.
        writes: Vec<Write>,
    },
    /// A reply of the model of a tools role.
    Replied(TurnReply),
    /// The next turn needs a summary of a part of the conversation.
    SummaryDue(PlannedReplacement),
    /// A part of the conversation is replaced in what the model is sent.
    Replaced(MemoryReplacement),
    /// The result of a tool that says that the call failed.
    Reported {
        /// What it says.
        output: Draft,
    },
}
