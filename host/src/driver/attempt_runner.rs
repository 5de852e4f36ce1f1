//! Runs attempts: prepares what the sandbox gets, and converts what it returns. The guests' requests
//! arrive in the channel that a runner was created with; whoever owns the receiver answers them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::component_slot;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::file::FileChange;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{CallResult, Work};
use strata_core::team::{Candidate, Role, RoleProfile};
use tokio::sync::mpsc;

use super::HostServices;
use crate::blob::Blobs;
use crate::gateway::{
    AttemptId, Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind, PendingGuestRequest,
};
use crate::plugin::Plugin;
use crate::sandbox::{
    AttemptOutput, EntryPoint, FileView, ReturnValue, Sandbox, SandboxCall, ToolCallInput,
};
use crate::services::models::{ModelRequest, action_choice};

/// Runs attempts.
pub(crate) struct AttemptRunner {
    sandbox: Arc<dyn Sandbox>,
    plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The descriptions that the components give of themselves.
    descriptions: BTreeMap<Slot, String>,
    requests: mpsc::Sender<PendingGuestRequest>,
    /// How many attempts were prepared.
    prepared: u64,
}

/// An attempt that has not begun.
pub(crate) struct PreparedAttempt {
    pub(crate) id: AttemptId,
    /// The plugin that makes it; `None` if the host itself does.
    pub(crate) plugin: Option<Arc<Plugin>>,
    /// The attempt. Dropping it ends the attempt.
    pub(crate) end: BoxFuture<'static, AttemptEnd>,
}

/// The end of an attempt.
pub(crate) struct AttemptEnd {
    pub(crate) attempt: AttemptId,
    pub(crate) result: Result<CallResult, Fault>,
    /// What it wrote to files, if it succeeded.
    pub(crate) files: WrittenFiles,
}

/// The changes that an attempt made to files.
#[derive(Default)]
pub(crate) struct WrittenFiles {
    pub(crate) changes: Vec<FileChange>,
    /// The new contents that the changes name, and the bytes of the images
    /// and files that the attempt created.
    pub(crate) blobs: Blobs,
}

/// The result of an attempt that succeeded.
struct AttemptSuccess {
    finished: CallResult,
    files: WrittenFiles,
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

impl AttemptRunner {
    /// Creates a runner whose guests send their requests to `requests`.
    pub(crate) fn new(
        services: &HostServices,
        requests: mpsc::Sender<PendingGuestRequest>,
    ) -> Self {
        Self {
            sandbox: services.sandbox.clone(),
            plugins: services.plugins.clone(),
            descriptions: services.descriptions.clone(),
            requests,
            prepared: 0,
        }
    }

    /// Prepares an attempt of a role that sees files as `view` says. Nothing happens until its end
    /// is polled.
    pub(crate) fn prepare(
        &mut self,
        call: &Invocation,
        role: &Role,
        view: Arc<FileView>,
    ) -> PreparedAttempt {
        let id = AttemptId {
            call: call.key(),
            serial: self.prepared,
        };
        self.prepared += 1;
        let gateway = Gateway::new(id, self.requests.clone());
        let slot = component_slot(role, call.role, call.work);
        let plugin = slot.and_then(|slot| self.plugins.get(&slot).cloned());
        let result: BoxFuture<'static, Result<AttemptSuccess, Fault>> = match slot {
            Some(_) => match (&plugin, &call.digest) {
                (Some(plugin), Some(digest)) => {
                    let call = SandboxCall {
                        digest: digest.clone(),
                        plugin: plugin.clone(),
                        attempt: call.attempt,
                        idempotency_key: call.idempotency_key.clone(),
                        seed: call.seed.clone(),
                        entry: self.entry_point(role, call),
                        role: profile(role),
                        news: call.news.clone(),
                        outputs: call.outputs.clone(),
                        view,
                    };
                    let running = self.sandbox.call(call, gateway);
                    Box::pin(async move { running.await.result.map(attempt_success) })
                }
                _ => {
                    let message = "the host was given no component for this call";
                    let fault = Fault::new(FaultKind::Host, message);
                    Box::pin(async move { Err(fault) })
                }
            },
            None => {
                let candidates = self.candidates(role, call.role);
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
        PreparedAttempt {
            id,
            plugin,
            end: Box::pin(async move { AttemptEnd::new(id, result.await) }),
        }
    }

    fn entry_point(&self, role: &Role, call: &Invocation) -> EntryPoint {
        let name = |action: ActionId| role.action(action).name.clone();
        match call.work {
            Work::Think { round } => EntryPoint::Choose {
                round,
                candidates: self.candidates(role, call.role),
            },
            Work::Answer => unreachable!("no component answers for a person"),
            Work::Turn { .. } => unreachable!("no component replies for a model"),
            Work::ToolCall {
                turn,
                call: position,
                tool,
            } => match tool {
                ToolRef::Action(action) => EntryPoint::Run {
                    action: name(action),
                    index: u32::from(action.0),
                    task: None,
                    tool_call: call.arguments.clone().map(|arguments| ToolCallInput {
                        arguments,
                        turn,
                        call: position,
                    }),
                },
                ToolRef::Handoff(_) => unreachable!("no component hands over"),
                ToolRef::Role(_) => unreachable!("no attempt is made at a call of a role"),
            },
            Work::Plan => EntryPoint::Plan {
                action: name(ActionId(0)),
                index: 0,
            },
            Work::Act { action, .. } => EntryPoint::Run {
                action: name(action),
                index: u32::from(action.0),
                task: call.task.clone(),
                tool_call: None,
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
            candidates.push(Candidate {
                name: action.name.clone(),
                description: self.descriptions.get(&slot).cloned().unwrap_or_default(),
            });
        }
        candidates
    }
}

impl PreparedAttempt {
    /// Spawns the attempt as a task of its own. The task is aborted when the end is dropped.
    pub(crate) fn spawn(self) -> Self {
        struct AbortOnDrop(tokio::task::JoinHandle<AttemptEnd>);
        impl Drop for AbortOnDrop {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let id = self.id;
        let mut task = AbortOnDrop(tokio::spawn(self.end));
        let end = Box::pin(async move {
            (&mut task.0).await.unwrap_or_else(|error| {
                // A panic is a bug of the host and not a failure of the action. It ends the run, as
                // it does when the attempt runs on this thread.
                let error = error
                    .try_into_panic()
                    .map_or_else(|error| error, |panic| std::panic::resume_unwind(panic));
                let message = format!("the host gave the action up: {error}");
                AttemptEnd::new(id, Err(Fault::new(FaultKind::Host, message)))
            })
        });
        Self { end, ..self }
    }
}

/// Asks the team's model to choose the next action.
async fn choose_action(
    gateway: Gateway,
    request: ModelRequest,
    actions: usize,
) -> Result<CallResult, Fault> {
    let complete = GuestRequest::Complete {
        requests: vec![request],
        blobs: Blobs::new(),
    };
    let reply = match gateway.request(complete).await {
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
