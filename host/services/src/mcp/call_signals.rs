//! Which call something is about that a server says while it works on calls. The protocol does not say that of
//! questions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exchange::Signal;

/// The calls that a server works on.
#[derive(Default)]
pub(super) struct CallSignals(BTreeMap<u64, SignalledCall>);

struct SignalledCall {
    signals: mpsc::Sender<Signal>,
    /// The id of the question that it was passed and that is not answered yet.
    question: Option<Value>,
}

impl CallSignals {
    /// Adds a call with this id, which is its progress token, too.
    pub(super) fn insert(&mut self, id: u64, signals: mpsc::Sender<Signal>) {
        let call = SignalledCall {
            signals,
            question: None,
        };
        self.0.insert(id, call);
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Notes the progress of a call. Returns whether there is such a call.
    pub(super) fn note_progress(&self, params: &Value) -> bool {
        let token = params.get("progressToken").and_then(Value::as_u64);
        let Some(call) = token.and_then(|token| self.0.get(&token)) else {
            return false;
        };
        // Full of signals that say the same.
        let _ = call.signals.try_send(Signal::Progress);
        true
    }

    /// Passes a question on to the call that it is probably about: the oldest without an open question, or else the
    /// oldest. Returns whether there is a call.
    pub(super) fn ask(&mut self, id: &Value, params: Value) -> bool {
        let asks_nothing = self.0.iter().find(|(_, call)| call.question.is_none());
        let about = asks_nothing.or_else(|| self.0.iter().next());
        let Some(about) = about.map(|(about, _)| *about) else {
            return false;
        };
        let Some(call) = self.0.get_mut(&about) else {
            return false;
        };
        call.question = Some(id.clone());
        let question = Signal::Question(json!({ "id": id, "params": params }));
        call.signals.try_send(question).is_ok()
    }

    /// Notes that a question is answered.
    pub(super) fn note_answer(&mut self, id: &Value) {
        for call in self.0.values_mut() {
            call.question.take_if(|open| open == id);
        }
    }

    /// Tells the oldest call that the server sent a request with this method, which is not answered.
    pub(super) fn note_unexpected(&self, method: &str) {
        if let Some(call) = self.0.values().next() {
            let _ = call.signals.try_send(Signal::Unexpected(method.to_owned()));
        }
    }
}
