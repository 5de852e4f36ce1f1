//! One attempt: prepares what the sandbox gets, and converts what it returns.

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

/// How many digits of a request's digest are part of the key of a write: enough to distinguish the
/// writes of one call.
const KEY_DIGITS: usize = 16;

/// What the driver knows about a running attempt.
pub(super) struct Attempt {
    id: AttemptId,
    call: Invocation,
    plugin: Option<Arc<Plugin>>,
    /// Recorded host calls that have not been served to this attempt yet.
    recorded: Vec<HostCall>,
    /// The requests of calls that earlier attempts began and that have no recorded answer.
    orphans: Vec<String>,
    /// How many times the attempt has drawn random bytes.
    pub(super) draws: u32,
    /// How many times the attempt has asked a person.
    pub(super) consulted: u32,
    /// Numbers the requests that this attempt makes.
    made: Occurrences,
    /// The calls that the guest is waiting for.
    pub(super) batch: Option<Batch>,
    pub(super) flights: Flights,
    /// The result of the attempt, if it has ended while calls that must be awaited are in flight.
    pub(super) ended: Option<Result<Finished, Fault>>,
    /// What it wrote to files, if it succeeded.
    pub(super) files: WrittenFiles,
}

/// The changes that an attempt made to files.
#[derive(Default)]
pub(super) struct WrittenFiles {
    pub(super) changes: Vec<FileChange>,
    /// The new contents that the changes name.
    pub(super) blobs: Blobs,
}

/// The result of an attempt that succeeded.
struct Succeeded {
    finished: Finished,
    files: WrittenFiles,
}

/// The end of an attempt.
pub(super) struct Ending {
    pub(super) attempt: AttemptId,
    pub(super) result: Result<Finished, Fault>,
    pub(super) files: WrittenFiles,
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
            files: WrittenFiles::default(),
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

    /// Removes and returns the first recorded call of this kind and request.
    pub(super) fn recall(&mut self, kind: HostCallKind, request: &str) -> Option<HostCall> {
        let fits =
            |call: &HostCall| call.kind == kind && call.request == request && is_answered(call);
        let at = self.recorded.iter().position(fits)?;
        Some(self.recorded.remove(at))
    }

    /// Numbers a request among equal ones, and takes the record that answers it, if there is one.
    pub(super) fn next_call(
        &mut self,
        kind: HostCallKind,
        digest: &str,
        is_write: bool,
    ) -> Occurrence {
        self.made.next(kind, digest, is_write, &mut self.recorded)
    }

    /// Returns the idempotency key of a write. It is the same for the same numbered request in
    /// every attempt, and different for all others, so that no service mistakes one request for a
    /// repetition of another.
    pub(super) fn write_key(&self, digest: &str, nth: u32) -> String {
        format!(
            "{}/{}/{nth}",
            self.key(),
            digest.get(..KEY_DIGITS).unwrap_or(digest)
        )
    }

    /// Notes that a write whose answer was lost is made again.
    pub(super) fn claim(&mut self, request: &str) {
        self.orphans.retain(|orphan| orphan != request);
    }

    /// Returns the writes of earlier attempts that this attempt, which succeeded, did not make:
    /// their index in `begun` and their descriptions.
    pub(super) fn unclaimed(&self, begun: &[Begun]) -> Vec<(u32, String)> {
        let mut left: Vec<&str> = self
            .recorded
            .iter()
            .filter(|call| is_answered(call))
            .map(|call| call.request.as_str())
            .collect();
        let mut orphans: Vec<&str> = self.orphans.iter().map(String::as_str).collect();
        let mut unclaimed = Vec::new();
        for (index, begun) in (0..).zip(begun) {
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
                unclaimed.push((index, begun.intent.what.clone()));
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
            Some(slot) => match (self.equipment.plugins.get(&slot), call.digest.clone()) {
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
                Box::pin(async move {
                    Ok(Succeeded {
                        finished: choice.await?,
                        files: WrittenFiles::default(),
                    })
                })
            }
        };
        let ending = Box::pin(async move {
            let (result, files) = match result.await {
                Ok(Succeeded { finished, files }) => (Ok(finished), files),
                Err(fault) => (Err(fault), WrittenFiles::default()),
            };
            Ending {
                attempt,
                result,
                files,
            }
        });
        let plugin = slot.and_then(|slot| self.equipment.plugins.get(&slot).cloned());
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
        let mut candidates = Vec::new();
        for (index, action) in role.actions.iter().enumerate() {
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
            candidates.push(Candidate {
                name: action.name.clone(),
                description,
            });
        }
        candidates
    }
}

/// Spawns an attempt as a task of its own. The task is aborted when the returned future is dropped.
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
            // A panic is a bug of the host and not a failure of the action. It ends the run, as it
            // does when the attempt runs on this thread.
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
                files: WrittenFiles::default(),
            }
        })
    })
}

/// Asks the team's model to choose the next action.
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
    Succeeded {
        finished,
        files: WrittenFiles {
            changes: files,
            blobs,
        },
    }
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
