//! The calls that an activation makes, and the results of successful attempts. How an attempt fails
//! is in `fault`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::id::{ActionId, RoleId};
use crate::record::message::Draft;
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
    /// A tool that the model called runs.
    ToolCall {
        /// The number of the reply, starting at 0.
        turn: u32,
        /// The index of the call in the reply.
        call: u32,
        /// The tool.
        tool: ToolRef,
    },
}

/// One call of a team: the role whose activation makes it, and which of its calls it is. It
/// identifies a call among all that are open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallKey {
    /// The role.
    pub role: RoleId,
    /// The call of its activation.
    pub work: Work,
}

impl CallKey {
    /// Returns the key of a call of a role's activation.
    pub fn new(role: RoleId, work: Work) -> Self {
        Self { role, work }
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
}
