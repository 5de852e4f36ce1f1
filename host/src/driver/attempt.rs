//! One attempt: prepares what the sandbox gets, and converts what it returns.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::component_slot;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::file::FileChange;
use strata_core::record::host_call::{
    ExternalWrite, HostCall, HostCallKind, RecordedCallUse, WriteResult,
};
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::team::{Candidate, Role, RoleProfile};

use super::Driver;
use super::in_flight::{CallBatch, InFlight};
use super::request_sequence::{NumberedRequest, RequestSequence, is_answered};
use crate::blob::Blobs;
use crate::gateway::{AttemptId, Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind};
use crate::plugin::Plugin;
use crate::sandbox::{AttemptOutput, EntryPoint, ReturnValue, SandboxCall};
use crate::services::models::action_choice;

/// How many digits of a request's digest are part of the key of a write: enough to distinguish the
/// writes of one call.
const WRITE_KEY_DIGITS: usize = 16;

/// What the driver knows about a running attempt.
pub(super) struct RunningAttempt {
    id: AttemptId,
    call: Invocation,
    plugin: Option<Arc<Plugin>>,
    /// Recorded host calls that have not been served to this attempt yet.
    recorded: Vec<HostCall>,
    /// The requests of calls that earlier attempts began and that have no recorded answer.
    unanswered_writes: Vec<String>,
    /// How many times the attempt has drawn random bytes.
    pub(super) random_draws: u32,
    /// How many times the attempt has asked a person.
    pub(super) human_questions: u32,
    /// Numbers the requests that this attempt makes.
    request_numbers: RequestSequence,
    /// The calls that the guest is waiting for.
    pub(super) batch: Option<CallBatch>,
    pub(super) in_flight: InFlight,
    /// The result of the attempt, if it has ended while calls that must be awaited are in flight.
    pub(super) result: Option<Result<CallResult, Fault>>,
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
struct AttemptSuccess {
    finished: CallResult,
    files: WrittenFiles,
}

/// The end of an attempt.
pub(super) struct AttemptEnd {
    pub(super) attempt: AttemptId,
    pub(super) result: Result<CallResult, Fault>,
    pub(super) files: WrittenFiles,
}

impl RunningAttempt {
    fn new(
        id: AttemptId,
        mut call: Invocation,
        plugin: Option<Arc<Plugin>>,
        begun: &[ExternalWrite],
    ) -> Self {
        let orphans = begun.iter().filter(|begun| {
            call.call_reuse == RecordedCallUse::Reuse && begun.result == WriteResult::Unknown
        });
        Self {
            id,
            unanswered_writes: orphans.map(|begun| begun.intent.request.clone()).collect(),
            recorded: std::mem::take(&mut call.recorded_calls),
            call,
            plugin,
            random_draws: 0,
            human_questions: 0,
            request_numbers: RequestSequence::default(),
            batch: None,
            in_flight: InFlight::new(),
            result: None,
            files: WrittenFiles::default(),
        }
    }

    pub(super) fn id(&self) -> AttemptId {
        self.id
    }

    /// Returns the call that is attempted.
    pub(super) fn key(&self) -> CallKey {
        self.id.call
    }

    pub(super) fn number(&self) -> u32 {
        self.call.attempt
    }

    pub(super) fn idempotency_key(&self) -> &str {
        &self.call.idempotency_key
    }

    pub(super) fn seed(&self) -> &str {
        &self.call.seed
    }

    pub(super) fn plugin(&self) -> Option<Arc<Plugin>> {
        self.plugin.clone()
    }

    /// Removes and returns the first recorded call of this kind and request.
    pub(super) fn take_recorded(&mut self, kind: HostCallKind, request: &str) -> Option<HostCall> {
        let fits =
            |call: &HostCall| call.kind == kind && call.request == request && is_answered(call);
        let at = self.recorded.iter().position(fits)?;
        Some(self.recorded.remove(at))
    }

    /// Numbers a request among equal ones, and takes the record that answers it, if there is one.
    pub(super) fn number_request(
        &mut self,
        kind: HostCallKind,
        digest: &str,
        is_write: bool,
    ) -> NumberedRequest {
        self.request_numbers
            .number_next(kind, digest, is_write, &mut self.recorded)
    }

    /// Returns the idempotency key of a write. It is the same for the same numbered request in
    /// every attempt, and different for all others, so that no service mistakes one request for a
    /// repetition of another.
    pub(super) fn write_key(&self, digest: &str, nth: u32) -> String {
        format!(
            "{}/{}/{nth}",
            self.idempotency_key(),
            digest.get(..WRITE_KEY_DIGITS).unwrap_or(digest)
        )
    }

    /// Notes that a write whose answer was lost is made again.
    pub(super) fn note_repeated_write(&mut self, request: &str) {
        self.unanswered_writes.retain(|orphan| orphan != request);
    }

    /// Returns the writes of earlier attempts that this attempt, which succeeded, did not make:
    /// their index in `begun` and their descriptions.
    pub(super) fn unclaimed_writes(&self, begun: &[ExternalWrite]) -> Vec<(u32, String)> {
        let mut left: Vec<&str> = self
            .recorded
            .iter()
            .filter(|call| is_answered(call))
            .map(|call| call.request.as_str())
            .collect();
        let mut orphans: Vec<&str> = self.unanswered_writes.iter().map(String::as_str).collect();
        let mut unclaimed = Vec::new();
        for (index, begun) in (0..).zip(begun) {
            let among = if begun.result == WriteResult::Recorded {
                &mut left
            } else {
                &mut orphans
            };
            if let Some(at) = among
                .iter()
                .position(|request| *request == begun.intent.request)
            {
                among.remove(at);
                unclaimed.push((index, begun.intent.description.clone()));
            }
        }
        unclaimed
    }
}

impl AttemptEnd {
    fn new(attempt: AttemptId, result: Result<AttemptSuccess, Fault>) -> Self {
        let (result, files) = match result {
            Ok(AttemptSuccess { finished, files }) => (Ok(finished), files),
            Err(fault) => (Err(fault), WrittenFiles::default()),
        };
        Self {
            attempt,
            result,
            files,
        }
    }
}

impl Driver {
    /// Prepares an attempt. Nothing happens until the future is polled.
    pub(super) fn prepare_attempt(
        &mut self,
        call: Invocation,
    ) -> (RunningAttempt, BoxFuture<'static, AttemptEnd>) {
        let attempt = AttemptId {
            call: CallKey::new(call.role, call.work),
            serial: self.attempts_started,
        };
        self.attempts_started += 1;
        let id = call.role;
        let team = self.journal.stepper().team().clone();
        let role = team.role(id);
        let gateway = Gateway::new(attempt, self.guest_request_sender.clone());
        let slot = component_slot(role, id, call.work);
        let result: BoxFuture<'static, Result<AttemptSuccess, Fault>> = match slot {
            Some(slot) => match (self.services.plugins.get(&slot), call.digest.clone()) {
                (Some(plugin), Some(digest)) => {
                    let call = SandboxCall {
                        digest,
                        plugin: plugin.clone(),
                        attempt: call.attempt,
                        idempotency_key: call.idempotency_key.clone(),
                        seed: call.seed.clone(),
                        entry: self.entry_point(role, &call),
                        role: profile(role),
                        news: call.news.clone(),
                        outputs: call.outputs.clone(),
                        view: self.file_view(id),
                    };
                    let running = self.services.sandbox.call(call, gateway);
                    Box::pin(async move { running.await.result.map(attempt_success) })
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
                let request = action_choice::think_request(
                    &profile(role),
                    &candidates,
                    &call.news,
                    &call.outputs,
                );
                let choice = choose_action(gateway, request, candidates.len());
                Box::pin(async move {
                    Ok(AttemptSuccess {
                        finished: choice.await?,
                        files: WrittenFiles::default(),
                    })
                })
            }
        };
        let ending = Box::pin(async move { AttemptEnd::new(attempt, result.await) });
        let plugin = slot.and_then(|slot| self.services.plugins.get(&slot).cloned());
        let activation = self.journal.env().role(id).activation.as_ref();
        let begun = activation.map_or(&[][..], |activation| {
            &activation.current_call.external_writes
        });
        (RunningAttempt::new(attempt, call, plugin, begun), ending)
    }

    fn entry_point(&self, role: &Role, call: &Invocation) -> EntryPoint {
        let name = |action: ActionId| role.action(action).name.clone();
        match call.work {
            Work::Think { round } => EntryPoint::Choose {
                round,
                candidates: self.candidates(role, call.role),
            },
            Work::Answer => unreachable!("no component answers for a person"),
            Work::Plan => EntryPoint::Plan {
                action: name(ActionId(0)),
                index: 0,
            },
            Work::Act { action, .. } => EntryPoint::Run {
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
                kind: SlotKind::Action(ActionId(index as u16)),
            };
            let description = self
                .services
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
pub(super) fn spawn_attempt(
    attempt: &RunningAttempt,
    ending: BoxFuture<'static, AttemptEnd>,
) -> BoxFuture<'static, AttemptEnd> {
    struct AbortOnDrop(tokio::task::JoinHandle<AttemptEnd>);
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
            AttemptEnd {
                attempt,
                result: Err(fault),
                files: WrittenFiles::default(),
            }
        })
    })
}

/// Asks the team's model to choose the next action.
async fn choose_action(
    gateway: Gateway,
    request: crate::services::models::ModelRequest,
    actions: usize,
) -> Result<CallResult, Fault> {
    let reply = match gateway.request(GuestRequest::Complete(vec![request])).await {
        Some(HostAnswer::Replies(mut replies)) => replies.pop(),
        _ => None,
    };
    let gone = || HostError::new(HostErrorKind::Upstream, "the host is stopping");
    let reply = reply.unwrap_or_else(|| Err(gone())).map_err(|error| {
        let kind = if error.kind == HostErrorKind::Denied {
            FaultKind::Denied
        } else {
            FaultKind::Host
        };
        Fault::new(kind, error.message).with_cause(error.cause.unwrap_or_default())
    })?;
    let choice = action_choice::parse_choice(&reply, actions)
        .map_err(|why| Fault::new(FaultKind::Think, why))?;
    Ok(CallResult::Chosen(choice))
}

fn attempt_success(returned: AttemptOutput) -> AttemptSuccess {
    let AttemptOutput {
        value,
        emissions,
        writes,
        files,
        blobs,
    } = returned;
    let finished = match value {
        ReturnValue::Output(output) => CallResult::Returned {
            output,
            emissions,
            writes,
        },
        ReturnValue::Tasks(tasks) => CallResult::Planned {
            tasks,
            emissions,
            writes,
        },
        ReturnValue::Choice(choice) => CallResult::Chosen(choice),
    };
    AttemptSuccess {
        finished,
        files: WrittenFiles {
            changes: files,
            blobs,
        },
    }
}

fn profile(role: &Role) -> RoleProfile {
    RoleProfile {
        name: role.name.clone(),
        profile: role.profile.clone(),
        goal: role.goal.clone(),
        constraints: role.constraints.clone(),
        desc: role.desc.clone(),
    }
}
