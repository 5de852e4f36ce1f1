//! Runs attempts: prepares what the sandbox gets, and converts what it returns. The guests' requests
//! arrive in the channel that a runner was created with; whoever owns the receiver answers them.

mod guarded;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_base::files::blob::Blobs;
use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::file::FileChange;
use strata_core::record::id::{ActionId, GuardMoment, RoleId, SkillLanguage, Slot, SlotKind};
use strata_core::record::memory::MemoryRequest;
use strata_core::record::turn::{HostTool, SkillDigest, ToolRef};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::team::{Candidate, Role, SUMMARY};
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
use super::turns::host_tool::HostToolResult;
use super::turns::skills::SkillCall;
use super::turns::{
    ToolRoles, Turns, check_images, component_summary, handoff_result, role_result,
    server_tool_attempt, tells_model,
};

/// Runs attempts.
pub struct AttemptRunner {
    sandbox: Arc<dyn Sandbox>,
    turns: Turns,
    tool_roles: Arc<ToolRoles>,
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
    /// The skill whose text it gave to the model.
    pub loaded_skill: Option<SkillDigest>,
    pub notes: AttemptNotes,
}

/// The changes that an attempt made to files.
#[derive(Default)]
pub struct WrittenFiles {
    pub changes: Vec<FileChange>,
    /// The new contents that the changes name, and the bytes of the images
    /// and files that the attempt created.
    pub blobs: Blobs,
    /// What it asks to replace in the conversation of its role.
    pub memory: Option<MemoryRequest>,
}

/// An attempt that was not polled yet.
type AttemptResultFuture = BoxFuture<'static, (Result<AttemptSuccess, Fault>, AttemptNotes)>;

/// The result of an attempt that succeeded.
struct AttemptSuccess {
    finished: CallResult,
    files: WrittenFiles,
    loaded_skill: Option<SkillDigest>,
}

impl AttemptEnd {
    fn new(
        attempt: AttemptId,
        (result, notes): (Result<AttemptSuccess, Fault>, AttemptNotes),
    ) -> Self {
        let (result, files, loaded_skill) = match result {
            Ok(success) => (Ok(success.finished), success.files, success.loaded_skill),
            Err(fault) => (Err(fault), WrittenFiles::default(), None),
        };
        Self {
            attempt,
            result,
            files,
            loaded_skill,
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
        let tool_roles = Arc::new(ToolRoles::new(services.tool_roles.clone()));
        Self {
            sandbox: services.sandbox.clone(),
            turns: Turns::new(Arc::clone(&tool_roles)),
            tool_roles,
            plugins: services.plugins.clone(),
            descriptions: services.descriptions.clone(),
            choice_timeout: services.choice_timeout.clone(),
            requests,
            prepared: 0,
        }
    }

    /// Returns the roles whose models work with tools.
    pub(crate) fn tool_roles(&self) -> &ToolRoles {
        &self.tool_roles
    }

    /// Returns the plugin that makes a call of a role, if one does.
    pub(crate) fn plugin(&self, role: &Role, call: CallKey) -> Option<&Arc<Plugin>> {
        self.plugins
            .get(&component_slot(role, call.role, call.work)?)
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
        let context = (&gateway, view.clone());
        let nested = self.guarded_calls(plugin.as_deref(), call, stepper, context);
        let (own_gateway, nested) = nested.unzip();
        let own_gateway = own_gateway.unwrap_or_else(|| gateway.clone());
        let result = match slot {
            Some(_) if matches!(call.work, Work::Summary { .. }) => {
                let summary = plugin.clone();
                self.component_summary(call, stepper, summary, gateway.clone(), view.clone())
            }
            Some(_) => {
                let script = skill_language(call.work).and_then(|language| {
                    let tool = HostTool::RunSkillScript(language);
                    self.turns.skill_script(tool, call, stepper)
                });
                let made_by = (plugin.clone(), script);
                let view = view.clone();
                let attempt = self.component_attempt(call, role, made_by, own_gateway, view);
                if tells_model(role, call.work) {
                    with_checked_images(attempt)
                } else {
                    attempt
                }
            }
            None => self.host_attempt(call, stepper, gateway.clone(), view.clone()),
        };
        let result = match nested {
            Some(guarded) => guarded.decide_during(result),
            None => result,
        };
        let result = self.reviewed(result, plugin.as_deref(), call, stepper, (&gateway, view));
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
        (plugin, script): (Option<Arc<Plugin>>, Option<SkillCall>),
        gateway: Gateway,
        view: Arc<FileView>,
    ) -> AttemptResultFuture {
        let (Some(plugin), Some(digest)) = (plugin, &call.digest) else {
            let fault = match (script, skill_language(call.work)) {
                (Some(script), Some(language)) => script.without_interpreter(language),
                _ => {
                    let message = "the host was given no component for this call";
                    Fault::new(FaultKind::Host, message)
                }
            };
            return Box::pin(async move { (Err(fault), AttemptNotes::default()) });
        };
        let work = call.work;
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
            level: call.key().waiting_attempts(),
        };
        if let (Some(script), Some(language)) = (script, skill_language(work)) {
            let sandbox = self.sandbox.clone();
            return Box::pin(async move {
                let call = match with_script(&script, language, call) {
                    Ok(call) => call,
                    Err(fault) => return (Err(fault), AttemptNotes::default()),
                };
                let SandboxOutcome { result, notes, .. } = sandbox.call(call, gateway).await;
                (result.map(attempt_success), notes)
            });
        }
        let running = self.sandbox.call(call, gateway);
        Box::pin(async move {
            let SandboxOutcome { result, notes, .. } = running.await;
            (result.map(attempt_success), notes)
        })
    }

    /// Returns an attempt of a component at a summary. Its only news is the text of what it is to
    /// summarise.
    fn component_summary(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        plugin: Option<Arc<Plugin>>,
        gateway: Gateway,
        view: Arc<FileView>,
    ) -> AttemptResultFuture {
        let result_bytes = |tool: ToolRef| self.result_bytes(call.role, tool);
        let prepared = self.turns.component_summary(call, stepper, result_bytes);
        let Some((planned, news)) = prepared else {
            let fault = Fault::new(FaultKind::Host, "no summary is due");
            return Box::pin(async move { (Err(fault), AttemptNotes::default()) });
        };
        let role = stepper.team().role(call.role);
        let call = Invocation {
            news: vec![news],
            ..call.clone()
        };
        let running = self.component_attempt(&call, role, (plugin, None), gateway, view);
        Box::pin(async move {
            let (result, notes) = running.await;
            let summary = result.map(|success| match success.finished {
                // Its messages, writes and files have no effect.
                CallResult::Returned { output, .. } => AttemptSuccess {
                    finished: component_summary(&planned, output),
                    files: WrittenFiles::default(),
                    loaded_skill: None,
                },
                finished => AttemptSuccess {
                    finished,
                    ..success
                },
            });
            (summary, notes)
        })
    }

    /// Returns an attempt that the host makes itself: the choice of an action or a turn by a model, or
    /// a call that hands over to another role.
    fn host_attempt(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        gateway: Gateway,
        view: Arc<FileView>,
    ) -> AttemptResultFuture {
        if let Work::ToolCall {
            tool: tool @ ToolRef::Server { .. },
            ..
        } = call.work
        {
            let attempt = server_tool_attempt(call, tool, stepper, gateway);
            return Box::pin(async move {
                let success = attempt.await.map(|(finished, blobs)| AttemptSuccess {
                    finished,
                    loaded_skill: None,
                    files: WrittenFiles {
                        changes: Vec::new(),
                        blobs,
                        memory: None,
                    },
                });
                (success, AttemptNotes::default())
            });
        }
        let role = stepper.team().role(call.role);
        let attempt: BoxFuture<'static, Result<CallResult, Fault>> = match call.work {
            Work::Turn { .. } => {
                let result_bytes = |tool: ToolRef| self.result_bytes(call.role, tool);
                let guard = self.guard(GuardMoment::Before, call, stepper, (&gateway, view));
                let attempt = (guard, result_bytes);
                self.turns.attempt(call, stepper, gateway, attempt)
            }
            Work::ToolCall {
                tool: ToolRef::Host(tool),
                ..
            } => return host_tool_attempt(self.turns.host_tool(tool, call, stepper)),
            Work::Summary { .. } => {
                let result_bytes = |tool: ToolRef| self.result_bytes(call.role, tool);
                self.turns
                    .summary_attempt(call, stepper, gateway, result_bytes)
            }
            Work::ToolCall {
                tool: ToolRef::Role(_),
                ..
            } => {
                let result = role_result(call, stepper);
                Box::pin(async move { result })
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
                loaded_skill: None,
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
            ToolRef::Role(_) | ToolRef::Host(_) | ToolRef::Server { .. } => {
                self.turns.role_result_bytes(role)
            }
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
            Work::Summary { .. } => EntryPoint::Run {
                action: SUMMARY.to_owned(),
                index: 0,
                task: None,
                tool_call: None,
            },
            Work::ToolCall {
                turn,
                call: position,
                tool,
                ..
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
                // The driver completes the arguments with the script.
                ToolRef::Host(tool) => EntryPoint::Run {
                    action: tool.name().to_owned(),
                    index: 0,
                    task: None,
                    tool_call: call.arguments.clone().map(|arguments| ToolCallInput {
                        arguments,
                        turn,
                        call: position,
                    }),
                },
                ToolRef::Role(_) => unreachable!("no component calls a role for a model"),
                ToolRef::Server { .. } => unreachable!("no component calls a server for a model"),
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

/// Returns the language of the script of a skill that a call runs. Returns `None` for other calls.
fn skill_language(work: Work) -> Option<SkillLanguage> {
    match work {
        Work::ToolCall {
            tool: ToolRef::Host(HostTool::RunSkillScript(language)),
            ..
        } => Some(language),
        _ => None,
    }
}

/// Returns the call of the interpreter that runs a script of a skill.
fn with_script(
    script: &SkillCall,
    language: SkillLanguage,
    mut call: SandboxCall,
) -> Result<SandboxCall, Fault> {
    let (plugin, code) = script.script(language, &call.plugin)?;
    call.plugin = Arc::new(plugin);
    if let EntryPoint::Run {
        tool_call: Some(tool_call),
        ..
    } = &mut call.entry
    {
        tool_call.arguments = code;
    }
    Ok(call)
}

/// Returns an attempt at a call that the host carries out.
fn host_tool_attempt(
    attempt: BoxFuture<'static, Result<HostToolResult, Fault>>,
) -> AttemptResultFuture {
    Box::pin(async move {
        let success = attempt.await.map(|result| AttemptSuccess {
            finished: result.finished,
            files: WrittenFiles {
                blobs: result.blobs,
                ..WrittenFiles::default()
            },
            loaded_skill: result.loaded,
        });
        (success, AttemptNotes::default())
    })
}

/// Returns an attempt whose result contains only images that a model can be shown.
fn with_checked_images(attempt: AttemptResultFuture) -> AttemptResultFuture {
    Box::pin(async move {
        let (mut result, notes) = attempt.await;
        if let Ok(AttemptSuccess {
            finished: CallResult::Returned { output, .. },
            files,
            ..
        }) = &mut result
        {
            check_images(output, &files.blobs);
        }
        (result, notes)
    })
}

fn attempt_success(returned: AttemptOutput) -> AttemptSuccess {
    let AttemptOutput {
        value,
        emissions,
        writes,
        files,
        blobs,
        memory,
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
            memory,
        },
        loaded_skill: None,
    }
}
