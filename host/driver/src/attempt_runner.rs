//! Runs attempts: prepares what the sandbox gets, and converts what it returns. The guests' requests
//! arrive in the channel that a runner was created with; whoever owns the receiver answers them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_base::files::blob::Blobs;
use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::file::FileChange;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{CallResult, Work};
use strata_core::team::{Candidate, Role};
use strata_sandbox::{
    AttemptNotes, AttemptOutput, EntryPoint, FileView, ReturnValue, Sandbox, SandboxCall,
    SandboxOutcome, ToolCallInput,
};
use strata_services::gateway::{AttemptId, Gateway, PendingGuestRequest};
use strata_services::models::action_choice;
use strata_services::plugin::{Limits, Plugin};
use strata_services::tools::ModelTimeout;
use tokio::sync::mpsc;

use super::HostServices;
use super::model_attempt::choose_action;
use super::turns::{Turns, handoff_result};

/// Runs attempts.
pub struct AttemptRunner {
    sandbox: Arc<dyn Sandbox>,
    turns: Turns,
    plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The descriptions that the components give of themselves.
    descriptions: BTreeMap<Slot, String>,
    /// How long a model may take to choose an action.
    choice_timeout: Option<ModelTimeout>,
    requests: mpsc::Sender<PendingGuestRequest>,
    /// How many attempts were prepared.
    prepared: u64,
}

/// An attempt that has not begun.
pub struct PreparedAttempt {
    /// The attempt.
    pub id: AttemptId,
    /// The plugin that makes it; `None` if the host itself does.
    pub plugin: Option<Arc<Plugin>>,
    /// The attempt. Dropping it ends the attempt.
    pub end: BoxFuture<'static, AttemptEnd>,
}

/// The end of an attempt.
pub struct AttemptEnd {
    pub attempt: AttemptId,
    pub result: Result<CallResult, Fault>,
    /// What it wrote to files, if it succeeded.
    pub files: WrittenFiles,
    pub notes: AttemptNotes,
}

/// The changes that an attempt made to files.
#[derive(Default)]
pub struct WrittenFiles {
    pub changes: Vec<FileChange>,
    /// The new contents that the changes name, and the bytes of the images
    /// and files that the attempt created.
    pub blobs: Blobs,
}

/// An attempt that was not polled yet.
type AttemptResultFuture = BoxFuture<'static, (Result<AttemptSuccess, Fault>, AttemptNotes)>;

/// The result of an attempt that succeeded.
struct AttemptSuccess {
    finished: CallResult,
    files: WrittenFiles,
}

impl AttemptEnd {
    fn new(
        attempt: AttemptId,
        (result, notes): (Result<AttemptSuccess, Fault>, AttemptNotes),
    ) -> Self {
        let (result, files) = match result {
            Ok(AttemptSuccess { finished, files }) => (Ok(finished), files),
            Err(fault) => (Err(fault), WrittenFiles::default()),
        };
        Self {
            attempt,
            result,
            files,
            notes,
        }
    }

    /// Returns the end of an attempt that failed without running a component.
    fn failed(attempt: AttemptId, fault: Fault) -> Self {
        Self::new(attempt, (Err(fault), AttemptNotes::default()))
    }
}

impl AttemptRunner {
    /// Creates a runner whose guests send their requests to `requests`.
    pub fn new(services: &HostServices, requests: mpsc::Sender<PendingGuestRequest>) -> Self {
        Self {
            sandbox: services.sandbox.clone(),
            turns: Turns::new(services.tool_roles.clone()),
            plugins: services.plugins.clone(),
            descriptions: services.descriptions.clone(),
            choice_timeout: services.choice_timeout.clone(),
            requests,
            prepared: 0,
        }
    }

    /// Prepares an attempt in the state of the stepper, whose role sees files as `view` says. Nothing
    /// happens until its end is polled.
    pub fn prepare(
        &mut self,
        call: &Invocation,
        stepper: &Stepper,
        view: Arc<FileView>,
    ) -> PreparedAttempt {
        let id = AttemptId {
            call: call.key(),
            serial: self.prepared,
        };
        self.prepared += 1;
        let gateway = Gateway::new(id, self.requests.clone());
        let role = stepper.team().role(call.role);
        let slot = component_slot(role, call.role, call.work);
        let plugin = slot.and_then(|slot| self.plugins.get(&slot).cloned());
        let result = match slot {
            Some(_) => self.component_attempt(call, role, plugin.clone(), gateway, view),
            None => self.host_attempt(call, stepper, gateway),
        };
        PreparedAttempt {
            id,
            plugin,
            end: Box::pin(async move { AttemptEnd::new(id, result.await) }),
        }
    }

    /// Returns an attempt that a component makes.
    fn component_attempt(
        &self,
        call: &Invocation,
        role: &Role,
        plugin: Option<Arc<Plugin>>,
        gateway: Gateway,
        view: Arc<FileView>,
    ) -> AttemptResultFuture {
        let (Some(plugin), Some(digest)) = (plugin, &call.digest) else {
            let message = "the host was given no component for this call";
            let fault = Fault::new(FaultKind::Host, message);
            return Box::pin(async move { (Err(fault), AttemptNotes::default()) });
        };
        let call = SandboxCall {
            digest: digest.clone(),
            plugin,
            attempt: call.attempt,
            idempotency_key: call.idempotency_key.clone(),
            seed: call.seed.clone(),
            entry: self.entry_point(role, call),
            role: role.to_profile(),
            news: call.news.clone(),
            outputs: call.outputs.clone(),
            view,
        };
        let running = self.sandbox.call(call, gateway);
        Box::pin(async move {
            let SandboxOutcome { result, notes, .. } = running.await;
            (result.map(attempt_success), notes)
        })
    }

    /// Returns an attempt that the host makes itself: the choice of an action or a turn by a model, or
    /// a call that hands over to another role.
    fn host_attempt(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        gateway: Gateway,
    ) -> AttemptResultFuture {
        let role = stepper.team().role(call.role);
        let attempt: BoxFuture<'static, Result<CallResult, Fault>> = match call.work {
            Work::Turn { .. } => {
                let result_bytes = |tool: ToolRef| self.result_bytes(call.role, tool);
                self.turns.attempt(call, stepper, gateway, result_bytes)
            }
            Work::ToolCall { .. } => {
                let result = handoff_result(call);
                Box::pin(async move { Ok(result) })
            }
            _ => {
                let candidates = self.candidates(role, call.role);
                let request = action_choice::think_request(
                    &role.to_profile(),
                    &candidates,
                    &call.news,
                    &call.outputs,
                );
                let timeout = self.choice_timeout.clone();
                Box::pin(choose_action(gateway, request, candidates.len(), timeout))
            }
        };
        Box::pin(async move {
            let success = attempt.await.map(|finished| AttemptSuccess {
                finished,
                files: WrittenFiles::default(),
            });
            (success, AttemptNotes::default())
        })
    }

    /// Returns how much a model is told of the result of a tool, in bytes.
    fn result_bytes(&self, role: RoleId, tool: ToolRef) -> u64 {
        let limit = match tool {
            ToolRef::Action(action) => {
                let kind = SlotKind::Action(action);
                let plugin = self.plugins.get(&Slot { role, kind });
                plugin.map(|plugin| plugin.limits.result_bytes)
            }
            // A call that hands over ends the activation.
            ToolRef::Handoff(_) => None,
            ToolRef::Role(_) => self.turns.role_result_bytes(role),
        };
        limit.unwrap_or_else(|| Limits::default().result_bytes)
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
    pub fn spawn(self) -> Self {
        let id = self.id;
        let task = AbortOnDrop::new(tokio::spawn(self.end));
        let end = Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                // A panic is a bug of the host and not a failure of the action. It ends the run, as
                // it does when the attempt runs on this thread.
                let error = error
                    .try_into_panic()
                    .map_or_else(|error| error, |panic| std::panic::resume_unwind(panic));
                let message = format!("the host gave the action up: {error}");
                AttemptEnd::failed(id, Fault::new(FaultKind::Host, message))
            })
        });
        Self { end, ..self }
    }
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
