//! One attempt: what the sandbox is given, and what becomes of what it gives back.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::effect::Invocation;
use strata_core::event::{Finished, HostCall, HostCallKind, Journal, Work};
use strata_core::fault::{Fault, FaultKind};
use strata_core::file::FileChange;
use strata_core::host_call::{Begun, Known};
use strata_core::id::{ActionId, Part, RoleId, Slot};
use strata_core::stepper::slot;
use strata_core::team::{Candidate, Profile, Role};

use super::Driver;
use super::flights::{Batch, Flights};
use super::occurrence::{Occurrence, Occurrences, is_answered};
use crate::blob::Blobs;
use crate::gateway::{Answer, Ask, AttemptId, Gateway, HostError, HostErrorKind};
use crate::plugin::Plugin;
use crate::sandbox::{Call, Entry, Returned, Value};
use crate::services::llm::think;

/// How much of a request's digest is in the key of a write: enough to tell the writes of one call apart.
const KEY_DIGITS: usize = 16;

/// What the driver keeps of a running attempt.
pub(super) struct Attempt {
    id: AttemptId,
    call: Invocation,
    plugin: Option<Arc<Plugin>>,
    /// Recorded host calls that were not served yet.
    recorded: Vec<HostCall>,
    /// Calls that earlier attempts began and left without an answer, by their requests.
    orphans: Vec<String>,
    /// How many random draws it made.
    pub(super) draws: u32,
    /// How often it asked a person.
    pub(super) consulted: u32,
    /// The requests it has made.
    made: Occurrences,
    /// The calls that it waits for.
    pub(super) batch: Option<Batch>,
    pub(super) flights: Flights,
    /// How it ended, while answers of weight are still under way.
    pub(super) ended: Option<Result<Finished, Fault>>,
    /// What it did to files, and their bytes, if it succeeded.
    pub(super) files: Vec<FileChange>,
    pub(super) blobs: Blobs,
}

/// What came of an attempt that succeeded, and what it did to files.
type Succeeded = (Finished, (Vec<FileChange>, Blobs));

/// The end of an attempt.
pub(super) struct Ending {
    pub(super) attempt: AttemptId,
    pub(super) result: Result<Finished, Fault>,
    pub(super) files: (Vec<FileChange>, Blobs),
}

impl Attempt {
    fn new(
        id: AttemptId,
        mut call: Invocation,
        plugin: Option<Arc<Plugin>>,
        begun: &[Begun],
    ) -> Self {
        let orphans = begun
            .iter()
            .filter(|begun| call.journal == Journal::Keep && begun.result == Known::No);
        Self {
            id,
            orphans: orphans.map(|begun| begun.intent.request.clone()).collect(),
            recorded: std::mem::take(&mut call.recorded),
            call,
            plugin,
            draws: 0,
            consulted: 0,
            made: Occurrences::default(),
            batch: None,
            flights: Flights::new(),
            ended: None,
            files: Vec::new(),
            blobs: Blobs::new(),
        }
    }

    pub(super) fn id(&self) -> AttemptId {
        self.id
    }

    pub(super) fn role(&self) -> RoleId {
        self.call.role
    }

    pub(super) fn work(&self) -> Work {
        self.call.work
    }

    pub(super) fn number(&self) -> u32 {
        self.call.attempt
    }

    pub(super) fn key(&self) -> &str {
        &self.call.idempotency_key
    }

    pub(super) fn seed(&self) -> &str {
        &self.call.seed
    }

    pub(super) fn plugin(&self) -> Option<Arc<Plugin>> {
        self.plugin.clone()
    }

    /// The first recorded call that matches, once.
    pub(super) fn recall(&mut self, kind: HostCallKind, request: &str) -> Option<HostCall> {
        let fits =
            |call: &HostCall| call.kind == kind && call.request == request && is_answered(call);
        let at = self.recorded.iter().position(fits)?;
        Some(self.recorded.remove(at))
    }

    /// Numbers a request among its equals, and finds the record that answers it.
    pub(super) fn next_call(
        &mut self,
        kind: HostCallKind,
        digest: &str,
        is_write: bool,
    ) -> Occurrence {
        self.made.next((kind, digest), is_write, &mut self.recorded)
    }

    /// The key of a write: the same for the same occurrence of the same request in every attempt, and another one for
    /// every other, so that no service takes one request for a repetition of another.
    pub(super) fn write_key(&self, digest: &str, nth: u32) -> String {
        format!(
            "{}/{}/{nth}",
            self.key(),
            digest.get(..KEY_DIGITS).unwrap_or(digest)
        )
    }

    /// A write whose answer was lost is made again.
    pub(super) fn claim(&mut self, request: &str) {
        self.orphans.retain(|orphan| orphan != request);
    }

    /// Writes of earlier attempts that this one, which succeeds, did not make: their places among those begun.
    pub(super) fn unclaimed(&self, begun: &[Begun]) -> Vec<(u32, String)> {
        let mut left: Vec<&str> = self
            .recorded
            .iter()
            .filter(|call| is_answered(call))
            .map(|call| call.request.as_str())
            .collect();
        let mut orphans: Vec<&str> = self.orphans.iter().map(String::as_str).collect();
        let mut unclaimed = Vec::new();
        for (place, begun) in (0..).zip(begun) {
            let among = if begun.result == Known::Recorded {
                &mut left
            } else {
                &mut orphans
            };
            if let Some(at) = among
                .iter()
                .position(|request| *request == begun.intent.request)
            {
                among.remove(at);
                unclaimed.push((place, begun.intent.what.clone()));
            }
        }
        unclaimed
    }
}

impl Driver {
    /// Prepares an attempt. Nothing happens until the future is polled.
    pub(super) fn attempt(&mut self, call: Invocation) -> (Attempt, BoxFuture<'static, Ending>) {
        let attempt = AttemptId {
            role: call.role,
            serial: self.attempts_made,
        };
        self.attempts_made += 1;
        let id = call.role;
        let team = self.journal.stepper().team().clone();
        let role = team.role(id);
        let gateway = Gateway::new(attempt, self.ask.clone());
        let slot = slot(role, id, call.work);
        let result: BoxFuture<'static, Result<Succeeded, Fault>> = match slot {
            Some(place) => match (self.equipment.plugins.get(&place), call.digest.clone()) {
                (Some(plugin), Some(digest)) => {
                    let call = Call {
                        digest,
                        plugin: plugin.clone(),
                        attempt: call.attempt,
                        idempotency_key: call.idempotency_key.clone(),
                        seed: call.seed.clone(),
                        entry: self.entry(role, &call),
                        role: profile(role),
                        news: call.news.clone(),
                        outputs: call.outputs.clone(),
                        view: self.view(id),
                    };
                    let running = self.equipment.sandbox.call(call, gateway);
                    Box::pin(async move { running.await.result.map(succeeded) })
                }
                _ => {
                    let fault = Fault::new(
                        FaultKind::Host,
                        "the host was given no component for this call",
                    );
                    Box::pin(async move { Err(fault) })
                }
            },
            None => {
                let candidates = self.candidates(role, id);
                let request =
                    think::think_request(&profile(role), &candidates, &call.news, &call.outputs);
                let choice = choose(gateway, request, candidates.len());
                Box::pin(async move { Ok((choice.await?, (Vec::new(), Blobs::new()))) })
            }
        };
        let ending = Box::pin(async move {
            let (result, files) = match result.await {
                Ok((finished, files)) => (Ok(finished), files),
                Err(fault) => (Err(fault), Default::default()),
            };
            Ending {
                attempt,
                result,
                files,
            }
        });
        let plugin = slot.and_then(|place| self.equipment.plugins.get(&place).cloned());
        let activation = self.journal.env().role(id).activation.as_ref();
        let begun = activation.map_or(&[][..], |activation| &activation.current.begun);
        (Attempt::new(attempt, call, plugin, begun), ending)
    }

    fn entry(&self, role: &Role, call: &Invocation) -> Entry {
        let name = |action: ActionId| role.action(action).name.clone();
        match call.work {
            Work::Think { round } => Entry::Choose {
                round,
                candidates: self.candidates(role, call.role),
            },
            Work::Answer => unreachable!("no component answers for a person"),
            Work::Plan => Entry::Plan {
                action: name(ActionId(0)),
                index: 0,
            },
            Work::Act { action, .. } => Entry::Run {
                action: name(action),
                index: u32::from(action.0),
                task: call.task.clone(),
            },
        }
    }

    fn candidates(&self, role: &Role, id: RoleId) -> Vec<Candidate> {
        let candidate = |(index, action): (usize, &strata_core::team::Action)| {
            let slot = Slot {
                role: id,
                part: Part::Action(ActionId(index as u16)),
            };
            let description = self
                .equipment
                .descriptions
                .get(&slot)
                .cloned()
                .unwrap_or_default();
            Candidate {
                name: action.name.clone(),
                description,
            }
        };
        role.actions.iter().enumerate().map(candidate).collect()
    }
}

/// Runs an attempt on another thread; it ends when the returned future is dropped.
pub(super) fn elsewhere(
    attempt: &Attempt,
    ending: BoxFuture<'static, Ending>,
) -> BoxFuture<'static, Ending> {
    struct AbortOnDrop(tokio::task::JoinHandle<Ending>);
    impl Drop for AbortOnDrop {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let attempt = attempt.id();
    let mut task = AbortOnDrop(tokio::spawn(ending));
    Box::pin(async move {
        (&mut task.0).await.unwrap_or_else(|error| {
            // A panic is a bug of the host, and no failure of the action's: it ends the run, as where it shows on this
            // thread.
            let error = error
                .try_into_panic()
                .map_or_else(|error| error, |panic| std::panic::resume_unwind(panic));
            let fault = Fault::new(
                FaultKind::Host,
                format!("the host gave the action up: {error}"),
            );
            Ending {
                attempt,
                result: Err(fault),
                files: Default::default(),
            }
        })
    })
}

/// Lets the team's model choose the next action.
async fn choose(
    gateway: Gateway,
    request: crate::services::llm::Request,
    actions: usize,
) -> Result<Finished, Fault> {
    let reply = match gateway.ask(Ask::Complete(vec![request])).await {
        Some(Answer::Replies(mut replies)) => replies.pop(),
        _ => None,
    };
    let gone = || HostError::new(HostErrorKind::Upstream, "the host is stopping");
    let reply = reply.unwrap_or_else(|| Err(gone())).map_err(|error| {
        let kind = if error.kind == HostErrorKind::Denied {
            FaultKind::Denied
        } else {
            FaultKind::Host
        };
        Fault::new(kind, error.message).caused_by(error.cause.unwrap_or_default())
    })?;
    let choice =
        think::parse_choice(&reply, actions).map_err(|why| Fault::new(FaultKind::Think, why))?;
    Ok(Finished::Chosen(choice))
}

fn succeeded(returned: Returned) -> Succeeded {
    let Returned {
        value,
        emissions,
        writes,
        files,
        blobs,
    } = returned;
    let finished = match value {
        Value::Output(output) => Finished::Returned {
            output,
            emissions,
            writes,
        },
        Value::Tasks(tasks) => Finished::Planned {
            tasks,
            emissions,
            writes,
        },
        Value::Choice(choice) => Finished::Chosen(choice),
    };
    (finished, (files, blobs))
}

fn profile(role: &Role) -> Profile {
    Profile {
        name: role.name.clone(),
        profile: role.profile.clone(),
        goal: role.goal.clone(),
        constraints: role.constraints.clone(),
        desc: role.desc.clone(),
    }
}
