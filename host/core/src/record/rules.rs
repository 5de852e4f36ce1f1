//! The rules: those properties of a team that may change from one resume to the next although the
//! meaning of recorded events depends on them. They are recorded with every start and resume, so
//! that older events are applied under the rules that held when they were recorded. Properties that
//! may not change at all are in `shape`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::human_request::AnswerForm;
use crate::record::shape::DeliveryMode;

/// The properties of a team that recorded events depend on and that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The rules of each role, in the order of the team.
    pub roles: Vec<RoleRules>,
    /// The shared scopes, each with the reducer of concurrent writes.
    pub scopes: BTreeMap<String, Option<Reducer>>,
}

/// The properties of a role that recorded events depend on and that may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRules {
    /// Its job title, which its messages contain.
    pub profile: String,
    /// How many actions one activation may run, if the role chooses its actions.
    pub max_loop: Option<u32>,
    /// What chooses the actions.
    pub thinker: Option<Thinker>,
    /// How it handles the messages in its mailbox.
    pub deliver: DeliveryMode,
    /// What its answers must be like, if a human answers for it.
    pub answer_form: AnswerForm,
}

/// What chooses the next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thinker {
    /// A component.
    Component,
    /// The team's language model.
    Model,
    /// Nothing: the role has one action, which is run without asking, as often as the loop limit
    /// allows.
    OnlyAction,
}

/// How the values that several roles write to one key in one step are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reducer {
    /// As a list, in the order of the roles.
    Append,
    /// The sum.
    Add,
    /// The maximum.
    Max,
    /// One object with the keys of all.
    Merge,
    /// The last, in the order of the roles.
    Last,
}
