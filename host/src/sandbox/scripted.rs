//! A sandbox without WebAssembly that plays scripted results, to test the driver without guests.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use strata_core::fault::Fault;
use strata_core::message::Draft;

use super::{Call, Calling, Ended, Entry, Returned, Sandbox, Usage, Value};
use crate::blob::Blobs;
use crate::gateway::Gateway;

/// The action name under which a role's choices are scripted.
pub const THINK: &str = "think";

/// Plays one attempt.
pub type Script = dyn Fn(Call, Gateway) -> Calling + Send + Sync;

/// Plays scripts by role and action. Without a script, an action returns `<action> ok`, a plan is
/// empty, and a choice is -1.
#[derive(Clone, Default)]
pub struct ScriptedSandbox {
    scripts: BTreeMap<(String, String), Arc<Script>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl ScriptedSandbox {
    /// Creates a sandbox without scripts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scripts the outcomes of attempts: the n-th attempt has the n-th outcome, later ones the
    /// last. `action` is `think` for choices.
    pub fn attempts(
        self,
        role: &str,
        action: &str,
        outcomes: Vec<Result<Returned, Fault>>,
    ) -> Self {
        self.with(role, action, move |call, _| {
            let nth = usize::try_from(call.attempt)
                .unwrap_or(usize::MAX)
                .saturating_sub(1);
            let outcome = outcomes.get(nth).or(outcomes.last()).cloned();
            let result = outcome.unwrap_or_else(|| Ok(fallback(&call.entry)));
            Box::pin(ready(ended(result)))
        })
    }

    /// Scripts attempts with a function, which may use the gateway and wait.
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

    /// Returns all calls so far, in the order in which they started.
    pub fn calls(&self) -> Vec<Call> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Sandbox for ScriptedSandbox {
    fn call(&self, call: Call, gateway: Gateway) -> Calling {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.clone());
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

/// Returns the end of an attempt that used no resources.
pub fn ended(result: Result<Returned, Fault>) -> Ended {
    let usage = Usage::default();
    Ended { result, usage }
}

/// Returns the result of a successful attempt without effects.
pub fn returned(value: Value) -> Returned {
    Returned {
        value,
        emissions: Vec::new(),
        writes: Vec::new(),
        files: Vec::new(),
        blobs: Blobs::new(),
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

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use strata_core::fault::FaultKind;
    use strata_core::id::{Digest, RoleId};
    use strata_core::team::Profile;

    use super::*;
    use crate::gateway::AttemptId;
    use crate::plugin::Plugin;

    fn call(role: &str, action: &str, attempt: u32) -> Call {
        let role = Profile {
            name: role.into(),
            ..Profile::default()
        };
        Call {
            attempt,
            ..Call::first(Digest::from("d"), Plugin::new("a.wasm"), role, action)
        }
    }

    fn play(sandbox: &ScriptedSandbox, call: Call) -> Result<Returned, Fault> {
        let (questions, _) = tokio::sync::mpsc::channel(1);
        let calling = pin!(sandbox.call(
            call,
            Gateway::new(
                AttemptId {
                    role: RoleId(0),
                    serial: 0
                },
                questions
            )
        ));
        match calling.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended.result,
            Poll::Pending => panic!("these scripts do not wait"),
        }
    }

    #[test]
    fn each_attempt_has_its_outcome_and_what_is_not_scripted_succeeds() {
        let fault = Fault::new(FaultKind::Trap, "boom");
        let done = returned(Value::Choice(1));
        let outcomes = vec![Err(fault.clone()), Ok(done.clone())];
        let sandbox = ScriptedSandbox::new().attempts("R", "A", outcomes);
        assert_eq!(play(&sandbox, call("R", "A", 1)), Err(fault));
        assert_eq!(play(&sandbox, call("R", "A", 2)), Ok(done.clone()));
        assert_eq!(play(&sandbox, call("R", "A", 9)), Ok(done));
        let Value::Output(draft) = play(&sandbox, call("R", "B", 1)).unwrap().value else {
            panic!("not an output");
        };
        assert_eq!(draft.content, "B ok");
        let attempts: Vec<u32> = sandbox.calls().iter().map(|call| call.attempt).collect();
        assert_eq!(attempts, [1, 2, 9, 1]);
    }
}
