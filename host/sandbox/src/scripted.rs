//! A sandbox without WebAssembly that plays scripted results, to test the driver without guests.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use strata_base::files::blob::Blobs;
use strata_core::record::fault::Fault;
use strata_core::record::message::Draft;
use strata_core::team::THINK;
use strata_services::gateway::Gateway;

use super::{
    AttemptFuture, AttemptNotes, AttemptOutput, EntryPoint, ResourceUsage, ReturnValue, Sandbox,
    SandboxCall, SandboxOutcome,
};

/// Plays one attempt.
pub type AttemptScript = dyn Fn(SandboxCall, Gateway) -> AttemptFuture + Send + Sync;

/// Plays scripts by role and action. Without a script, an action returns `<action> ok`, a plan is
/// empty, and a choice is -1.
#[derive(Clone, Default)]
pub struct ScriptedSandbox {
    scripts: BTreeMap<(String, String), Arc<AttemptScript>>,
    calls: Arc<Mutex<Vec<SandboxCall>>>,
}

impl ScriptedSandbox {
    /// Creates a sandbox without scripts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scripts the outcomes of attempts: the n-th attempt has the n-th outcome, later ones the
    /// last. `action` is `think` for choices.
    pub fn with_outcomes(
        self,
        role: &str,
        action: &str,
        outcomes: Vec<Result<AttemptOutput, Fault>>,
    ) -> Self {
        self.with_script(role, action, move |call, _| {
            let nth = usize::try_from(call.attempt)
                .unwrap_or(usize::MAX)
                .saturating_sub(1);
            let outcome = outcomes.get(nth).or(outcomes.last()).cloned();
            let result = outcome.unwrap_or_else(|| Ok(default_output(&call.entry)));
            Box::pin(ready(outcome_without_usage(result)))
        })
    }

    /// Scripts attempts with a function, which may use the gateway and wait.
    pub fn with_script(
        mut self,
        role: &str,
        action: &str,
        script: impl Fn(SandboxCall, Gateway) -> AttemptFuture + Send + Sync + 'static,
    ) -> Self {
        let key = (role.to_owned(), action.to_owned());
        self.scripts.insert(key, Arc::new(script));
        self
    }

    /// Returns all calls so far, in the order in which they started.
    pub fn calls(&self) -> Vec<SandboxCall> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Sandbox for ScriptedSandbox {
    fn call(&self, call: SandboxCall, gateway: Gateway) -> AttemptFuture {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call.clone());
        let action = match &call.entry {
            EntryPoint::Run { action, .. } | EntryPoint::Plan { action, .. } => action.as_str(),
            EntryPoint::Choose { .. } => THINK,
        };
        let key = (call.role.name.clone(), action.to_owned());
        match self.scripts.get(&key) {
            Some(script) => script(call, gateway),
            None => Box::pin(ready(outcome_without_usage(Ok(default_output(
                &call.entry,
            ))))),
        }
    }
}

/// Returns the end of an attempt that used no resources.
pub fn outcome_without_usage(result: Result<AttemptOutput, Fault>) -> SandboxOutcome {
    SandboxOutcome {
        result,
        usage: ResourceUsage::default(),
        notes: AttemptNotes::default(),
    }
}

/// Returns the result of a successful attempt without effects.
pub fn output_without_effects(value: ReturnValue) -> AttemptOutput {
    AttemptOutput {
        value,
        emissions: Vec::new(),
        writes: Vec::new(),
        files: Vec::new(),
        blobs: Blobs::new(),
        memory: None,
    }
}

fn default_output(entry: &EntryPoint) -> AttemptOutput {
    output_without_effects(match entry {
        EntryPoint::Run { action, .. } => ReturnValue::Output(Draft {
            content: format!("{action} ok"),
            ..Draft::default()
        }),
        EntryPoint::Plan { .. } => ReturnValue::Tasks(Vec::new()),
        EntryPoint::Choose { .. } => ReturnValue::Choice(-1),
    })
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use strata_core::record::fault::FaultKind;
    use strata_core::record::id::{Digest, RoleId};
    use strata_core::team::RoleProfile;
    use strata_services::gateway::AttemptId;
    use strata_services::plugin::Plugin;

    use super::*;

    fn call(role: &str, action: &str, attempt: u32) -> SandboxCall {
        let role = RoleProfile {
            name: role.into(),
            ..RoleProfile::default()
        };
        SandboxCall {
            attempt,
            ..SandboxCall::first_attempt(Digest::from("d"), Plugin::new("a.wasm"), role, action)
        }
    }

    fn play(sandbox: &ScriptedSandbox, call: SandboxCall) -> Result<AttemptOutput, Fault> {
        let (questions, _) = tokio::sync::mpsc::channel(1);
        let calling =
            pin!(sandbox.call(call, Gateway::new(AttemptId::first(RoleId(0)), questions)));
        match calling.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => ended.result,
            Poll::Pending => panic!("these scripts do not wait"),
        }
    }

    #[test]
    fn each_attempt_has_its_outcome_and_what_is_not_scripted_succeeds() {
        let fault = Fault::new(FaultKind::Trap, "boom");
        let done = output_without_effects(ReturnValue::Choice(1));
        let outcomes = vec![Err(fault.clone()), Ok(done.clone())];
        let sandbox = ScriptedSandbox::new().with_outcomes("R", "A", outcomes);
        assert_eq!(play(&sandbox, call("R", "A", 1)), Err(fault));
        assert_eq!(play(&sandbox, call("R", "A", 2)), Ok(done.clone()));
        assert_eq!(play(&sandbox, call("R", "A", 9)), Ok(done));
        let ReturnValue::Output(draft) = play(&sandbox, call("R", "B", 1)).unwrap().value else {
            panic!("not an output");
        };
        assert_eq!(draft.content, "B ok");
        let attempts: Vec<u32> = sandbox.calls().iter().map(|call| call.attempt).collect();
        assert_eq!(attempts, [1, 2, 9, 1]);
    }
}
