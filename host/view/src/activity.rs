//! What a role is doing.

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultKind;
use strata_core::record::id::RoleId;
use strata_core::record::work::{ActivationKey, CallKey, Work};
use strata_core::state::activation::{Activation, Phase};

use super::index_and_name_of_call;

/// What a role that has an activation is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RoleActivity {
    /// It works on its mail.
    Working {
        /// The kind of work.
        work: WorkKind,
        /// The index of the action in its role; `None` for a choice and for a person's answer.
        index: Option<u16>,
        /// The name of the action; `think` for a choice, `answer` for a person's answer.
        action: String,
        /// What has become of the work.
        state: WorkState,
        /// How many attempts were made at it.
        attempts: u32,
    },
    /// Tool calls of its model are open.
    CallingTools {
        /// The number of the turn that asked for them, from 0.
        turn: u32,
        /// How many of them have not ended.
        open: usize,
    },
    /// It has finished, and the step is not committed yet.
    Finished,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// It chooses its next action.
    Choice {
        /// How many choices it made before in this activation.
        round: u32,
    },
    /// A person answers its mail.
    Answer,
    /// Its first action makes a plan.
    Planning,
    /// An action, or another tool.
    Action,
    /// Its model replies.
    Turn,
    /// What is replaced in the conversation of its model is summarised.
    Summary,
}

/// What has become of some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkState {
    /// It is next.
    Next,
    /// It is running.
    Running,
    /// It was running when the host ended.
    CutOff,
    /// It waits for another try.
    BackingOff,
    /// The operator interrupted it, which is not a fault of the action.
    Interrupted,
    /// It has failed.
    Failed,
    /// It is finished.
    Finished,
    /// It waits for a person.
    WaitingForPerson,
}

impl RoleActivity {
    /// Returns what a role is doing: about its mail, or else for another role that called it. Returns
    /// `None` if it does nothing. `is_cut_off` says whether the state is that of a host that ended
    /// without saving the end of the run.
    pub fn from_role(stepper: &Stepper, id: RoleId, is_cut_off: bool) -> Option<Self> {
        let (role, env) = (stepper.team().role(id), stepper.env());
        let of_mail = ActivationKey::of_mail(id);
        let is_at_work = |(key, activation): &(ActivationKey, &Activation)| {
            key.role == id && activation.phase != Phase::Complete
        };
        let (key, activation) = match env.activation(of_mail) {
            Some(activation) => (of_mail, activation),
            None => env.activations().find(is_at_work)?,
        };
        if activation.phase == Phase::CallingTools {
            return Some(Self::CallingTools {
                turn: activation.turns.len().saturating_sub(1) as u32,
                open: activation.open_calls(role).count(),
            });
        }
        match activation.current_work(role) {
            Some(work) => {
                let call = CallKey::in_activation(key, work);
                Self::from_call(stepper, call, is_cut_off)
            }
            None => Some(Self::Finished),
        }
    }

    /// Returns what has become of a call; `None` if it is not open. `is_cut_off` says whether the
    /// state is that of a host that ended without saving the end of the run.
    pub fn from_call(stepper: &Stepper, call: CallKey, is_cut_off: bool) -> Option<Self> {
        let open = stepper.env().open_call(stepper.team(), call)?;
        let work = match call.work {
            Work::Think { round } => WorkKind::Choice { round },
            Work::Answer => WorkKind::Answer,
            Work::Plan => WorkKind::Planning,
            Work::Act { .. } | Work::ToolCall { .. } => WorkKind::Action,
            Work::Turn { .. } => WorkKind::Turn,
            Work::Summary { .. } => WorkKind::Summary,
        };
        let state = match open.phase {
            Phase::Ready | Phase::ReadyAfterFault(_) => WorkState::Next,
            Phase::Running if is_cut_off => WorkState::CutOff,
            Phase::Running => WorkState::Running,
            Phase::BackingOff => WorkState::BackingOff,
            Phase::Failed(fault) if fault.kind == FaultKind::Interrupted => WorkState::Interrupted,
            Phase::Failed(_) => WorkState::Failed,
            Phase::Complete => WorkState::Finished,
            Phase::WaitingForHuman(_) => WorkState::WaitingForPerson,
            Phase::CallingTools | Phase::CallingRole => WorkState::Running,
        };
        let (index, action) = index_and_name_of_call(stepper, call);
        Some(Self::Working {
            work,
            index,
            action: action.to_owned(),
            state,
            attempts: open.progress.attempts,
        })
    }
}
