//! A sandbox without WebAssembly: plays what a test wrote down, so that the driver can be tried without guests.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use strata_core::fault::Fault;
use strata_core::message::Draft;

use super::{Call, Calling, Ended, Entry, Returned, Sandbox, Usage, Value};
use crate::gateway::Gateway;

/// The name under which a role's choices are scripted.
pub const THINK: &str = "think";

/// Plays one attempt.
pub type Script = dyn Fn(Call, Gateway) -> Calling + Send + Sync;

/// Plays scripts by role and action. What has none answers `<action> ok`, plans nothing, chooses nothing.
#[derive(Clone, Default)]
pub struct ScriptedSandbox {
    scripts: BTreeMap<(String, String), Arc<Script>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl ScriptedSandbox {
    /// Without scripts.
    pub fn new() -> Self {
        Self::default()
    }

    /// The n-th attempt ends with the n-th outcome, later ones with the last. `action` is `think` for choices.
    pub fn attempts(self, role: &str, action: &str, outcomes: Vec<Result<Returned, Fault>>) -> Self {
        self.with(role, action, move |call, _| {
            let nth = usize::try_from(call.attempt).unwrap_or(usize::MAX).saturating_sub(1);
            let outcome = outcomes.get(nth).or(outcomes.last()).cloned();
            let result = outcome.unwrap_or_else(|| Ok(fallback(&call.entry)));
            Box::pin(ready(ended(result)))
        })
    }

    /// Each attempt is played by `script`, which may ask the gateway and take its time.
    pub fn with(
        mut self,
        role: &str,
        action: &str,
        script: impl Fn(Call, Gateway) -> Calling + Send + Sync + 'static,
    ) -> Self {
        let place = (role.to_owned(), action.to_owned());
        self.scripts.insert(place, Arc::new(script));
        self
    }

    /// All calls so far, in the order in which they began.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sandbox for ScriptedSandbox {
    fn call(&self, call: Call, gateway: Gateway) -> Calling {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        let action = match &call.entry {
            Entry::Run { action, .. } | Entry::Plan { action, .. } => action.as_str(),
            Entry::Choose { .. } => THINK,
        };
        let place = (call.role.name.clone(), action.to_owned());
        match self.scripts.get(&place) {
            Some(script) => script(call, gateway),
            None => Box::pin(ready(ended(Ok(fallback(&call.entry))))),
        }
    }
}

/// An attempt that used nothing up.
pub fn ended(result: Result<Returned, Fault>) -> Ended {
    let usage = Usage::default();
    Ended { result, usage }
}

/// A successful attempt that did nothing beside.
pub fn returned(value: Value) -> Returned {
    Returned {
        value,
        emissions: Vec::new(),
        writes: Vec::new(),
    }
}

fn fallback(entry: &Entry) -> Returned {
    returned(match entry {
        Entry::Run { action, .. } => Value::Output(Draft {
            content: format!("{action} ok"),
            ..Draft::default()
        }),
        Entry::Plan { .. } => Value::Tasks(Vec::new()),
        Entry::Choose { .. } => Value::Choice(-1),
    })
}
