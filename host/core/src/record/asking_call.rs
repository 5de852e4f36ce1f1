//! Host calls whose receivers ask humans before they answer.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::host_call::HostCallKind;
use crate::record::human_request::{HumanAnswer, HumanRequest};
use crate::record::id::RequestId;
use crate::record::json::Json;

/// A host call whose receiver asks humans before it answers. It is continued when all have answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingCall {
    /// The kind of call.
    pub kind: HostCallKind,
    /// The name of the request in the record.
    pub request: String,
    /// What the service needs to continue the call.
    pub state: Json,
    /// Whether the receiver still works on the call.
    pub progress: AskingProgress,
    /// The questions.
    pub questions: Vec<CallQuestion>,
}

/// Whether the receiver of a call still works on it while it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskingProgress {
    /// It has ended, and is called again with the answers.
    Ended,
    /// It was interrupted in its work, which may have had an effect.
    Interrupted,
    /// It goes on with its work when it has the answers, as long as this process of the host lives.
    Open,
}

/// A question of the receiver of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallQuestion {
    /// The name that the receiver knows it by.
    pub name: String,
    /// The request.
    pub request: HumanRequest,
    /// The answer, once there is one.
    pub answer: Option<HumanAnswer>,
}

impl AskingCall {
    /// Returns the requests that are open.
    pub fn open_requests(&self) -> impl Iterator<Item = &HumanRequest> {
        let open = self
            .questions
            .iter()
            .filter(|question| question.answer.is_none());
        open.map(|question| &question.request)
    }

    /// Returns an open question.
    pub(crate) fn open_question_mut(&mut self, id: &RequestId) -> Option<&mut CallQuestion> {
        let mut questions = self.questions.iter_mut();
        questions.find(|question| question.request.id == *id && question.answer.is_none())
    }
}
