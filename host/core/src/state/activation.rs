//! Activations: a role working on the mail it took. How far it has come, and which call it makes
//! next.

mod call_list;
mod conversation;
mod host_calls;
mod kept_bytes;
mod made_calls;
mod memory;
mod message_refs;
mod nested;
mod restored;
mod tool_outcome;
mod turns;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::asking_call::{AskingCall, AskingProgress};
use crate::record::fault::Fault;
use crate::record::file::FileChange;
use crate::record::host_call::{ExternalWrite, HostCall};
use crate::record::human_request::HumanRequest;
use crate::record::id::ActionId;
use crate::record::memory::MemoryRequest;
use crate::record::rules::Thinker;
use crate::record::scope_write::Write;
use crate::record::server_tool::{ServerTool, ToolList};
use crate::record::spending::Reservation;
use crate::record::turn::ToolRef;
use crate::record::work::{Task, Work};
use crate::state::messages::MessageRef;
use crate::team::{React, Role};

pub use conversation::Conversation;
pub(crate) use made_calls::MadeCalls;
pub use memory::ConversationMemory;
pub(crate) use memory::MAX_TOKENS;
pub use message_refs::for_each_message_ref;
pub use nested::{NestedCall, is_made_in};
pub use restored::{has_possible_calls, put_right};
pub use tool_outcome::{Consent, ToolOutcome, ToolReturn};
pub use turns::{Turn, TurnCall};

/// A role working on the mail it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// The number of the step in which it began; part of the ids of its messages and of its
    /// idempotency keys.
    pub opened_in_step: u64,
    /// The messages it handles, oldest first.
    pub news: Vec<MessageRef>,
    /// How many actions come before the first of `done`. It is zero unless the state was read from
    /// a file that says which action a role was at, but not what it had done.
    pub skipped_actions: u16,
    /// The choices it made so far.
    pub choices: Vec<i32>,
    /// The tasks it planned.
    pub tasks: Vec<Task>,
    /// The calls it finished, in order.
    pub done: Vec<FinishedCall>,
    /// How many messages it made; part of their ids.
    pub message_count: u32,
    /// The progress of the call it is at.
    pub current_call: CallProgress,
    /// The phase of that call.
    pub phase: Phase,
    /// Calls that were reverted because of a conflict and have to be made again; and all choices,
    /// since these are not among the finished calls, and a choice after a reverted call has to be
    /// made again as well.
    pub reverted: Vec<RevertedCall>,
    /// The replies of the role's model and what became of them.
    pub turns: Conversation,
    /// What of the conversation is replaced in what the model is sent.
    pub memory: ConversationMemory,
    /// The tools of MCP servers that it works with; `None` until they are listed.
    pub server_tools: Option<Arc<[ToolList]>>,
}

/// A finished call that has to be made again, or may have to be. Its earlier attempts count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertedCall {
    /// The call.
    pub work: Work,
    /// How many calls were finished before it.
    pub position: u32,
    /// The progress it had made.
    pub progress: CallProgress,
}

/// A finished call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedCall {
    /// The call.
    pub work: Work,
    /// The message it returned.
    pub output: UncommittedMessage,
    /// The messages it published in addition.
    pub emissions: Vec<UncommittedMessage>,
    /// Its writes to scopes.
    pub writes: Vec<Write>,
    /// The progress it had made, in case it has to be made again.
    pub progress: CallProgress,
}

/// A message that is published when the step is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncommittedMessage {
    /// The message.
    pub message: MessageRef,
    /// Whether its sender named the recipients.
    pub addressing: Addressing,
}

/// Whether the sender of a message named its recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Addressing {
    /// The sender named recipients.
    Explicit,
    /// The environment decides.
    ByEnvironment,
}

/// The progress of a call: its attempts, what they recorded, and what is reserved for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProgress {
    /// How many attempts were started.
    pub attempts: u32,
    /// How many attempts failed in a row since the run was started or resumed. This is compared
    /// with `retries`.
    pub failures: u32,
    /// The host calls recorded so far.
    pub recorded_calls: Vec<HostCall>,
    /// Whether the next attempt is served the recorded host calls.
    pub keeps_calls: bool,
    /// Whether the last attempt was suspended, to wait for a human or for money, and can now
    /// continue. The next attempt is then served the recorded host calls, whatever the call policy
    /// says.
    pub was_suspended: bool,
    /// The reservations for host calls in progress.
    pub reservations: Vec<Reservation>,
    /// The external writes, in the order in which they were started.
    pub external_writes: Vec<ExternalWrite>,
    /// The changes it made to files, once it succeeded.
    pub files: Vec<FileChange>,
    /// What it asked to replace in the conversation of its role, once it succeeded.
    pub memory: Option<MemoryRequest>,
    /// The tools that it called. The number of a call is its index. They are encoded with the tool call
    /// of the model that led to them; see `call_list`.
    #[serde(skip)]
    pub nested: Vec<NestedCall>,
    /// The host call whose receiver asks humans, if there is one.
    pub asking: Option<AskingCall>,
}

/// The phase of the call that an activation is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It can be started.
    Ready,
    /// An attempt is in progress.
    Running,
    /// An attempt failed, and another one follows after a pause.
    BackingOff,
    /// It failed. A resume tries again.
    Failed(Fault),
    /// No call is left; the activation waits for the commit.
    Complete,
    /// It waits for a human to answer this request.
    WaitingForHuman(HumanRequest),
    /// It failed before the run was resumed, and can be started again.
    ReadyAfterFault(Fault),
    /// Tool calls of the activation are open. Each has a phase of its own. A tool call is in this phase
    /// if its attempt has ended because a call that it made waits for a human or for a role.
    CallingTools,
    /// A tool call waits for the activation of the role that it calls.
    CallingRole,
}

/// A call that an activation has open: its progress and its phase.
#[derive(Clone, Copy, Debug)]
pub struct OpenCall<'a> {
    /// The activation that makes it.
    pub activation: &'a Activation,
    /// Its progress.
    pub progress: &'a CallProgress,
    /// Its phase.
    pub phase: &'a Phase,
}

/// A call that an activation has open, to be changed.
#[derive(Debug)]
pub(crate) struct OpenCallMut<'a> {
    /// Its progress.
    pub progress: &'a mut CallProgress,
    /// Its phase.
    pub phase: &'a mut Phase,
}

impl OpenCallMut<'_> {
    /// Returns the requests that it waits for.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &HumanRequest> {
        open_requests_of_call(self.progress, self.phase)
    }

    /// Continues after a stop or a crash.
    fn resume(self) {
        if *self.phase == Phase::CallingTools && self.progress.waits_for_nested() {
            return;
        }
        if *self.phase == Phase::Running {
            // The process was killed; the attempt ends like one that was interrupted.
            self.progress.keeps_calls = true;
            *self.phase = self.progress.ready_or_in_doubt();
        }
        if let Some(asking) = &mut self.progress.asking
            && asking.progress == AskingProgress::Open
        {
            // Its receiver has lost the call.
            asking.progress = AskingProgress::Interrupted;
            if self.phase.is_ready() {
                *self.phase = self.progress.ready_or_in_doubt();
            }
        }
        let in_doubt =
            matches!(self.phase, Phase::Failed(_)) && self.progress.leaves_writes_in_doubt();
        if !matches!(self.phase, Phase::WaitingForHuman(_)) && !in_doubt {
            *self.phase = self
                .phase
                .fault()
                .cloned()
                .map_or(Phase::Ready, Phase::ReadyAfterFault);
        }
    }

    /// Prepares for another component that will make the call. It is served the recorded host calls
    /// whatever the failure was, and an open question of the old component is withdrawn, because
    /// the new one may ask something else.
    fn component_replaced(self) {
        self.progress.keeps_calls = true;
        self.progress.asking = None;
        if matches!(self.phase, Phase::WaitingForHuman(request) if request.proposed.is_none()) {
            *self.phase = self.progress.ready_or_in_doubt();
        }
    }
}

impl Phase {
    /// Returns whether the call can be started.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::ReadyAfterFault(_))
    }

    /// Returns why it failed, unless it was started again since.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Failed(fault) | Self::ReadyAfterFault(fault) => Some(fault),
            _ => None,
        }
    }
}

impl Activation {
    /// Returns a new activation that starts in this step.
    pub fn new(step: u64, news: Vec<MessageRef>, role: &Role) -> Self {
        let mut activation = Self {
            opened_in_step: step,
            news,
            skipped_actions: 0,
            choices: Vec::new(),
            tasks: Vec::new(),
            done: Vec::new(),
            message_count: 0,
            current_call: CallProgress::default(),
            phase: Phase::Ready,
            reverted: Vec::new(),
            turns: Conversation::default(),
            memory: ConversationMemory::default(),
            server_tools: None,
        };
        activation.proceed(role);
        activation
    }

    /// Returns the call it is at; `None` if none is left. A failed call is still the one it is at.
    pub fn current_work(&self, role: &Role) -> Option<Work> {
        match &role.react {
            React::ByOrder => {
                let next = usize::from(self.skipped_actions) + self.done.len();
                (next < role.actions.len()).then_some(Work::Act {
                    action: ActionId(next as u16),
                    task: None,
                })
            }
            React::Choose { max_loop, .. } => {
                let only = self.only_action(&role.react);
                if let Some(choice) = self.choices.get(self.done.len()).copied().or(only) {
                    let action = u16::try_from(choice).ok()?;
                    return Some(Work::Act {
                        action: ActionId(action),
                        task: None,
                    });
                }
                (self.done.len() < *max_loop as usize).then_some(Work::Think {
                    round: self.choices.len() as u32,
                })
            }
            React::PlanAndAct => {
                let Some(next) = self.done.len().checked_sub(1) else {
                    return (!role.actions.is_empty()).then_some(Work::Plan);
                };
                let action = worker_for(role, self.tasks.get(next)?, next)?;
                Some(Work::Act {
                    action,
                    task: Some(next as u32),
                })
            }
            React::Human => self.done.is_empty().then_some(Work::Answer),
            React::Tools(_) => self.next_turn(),
        }
    }

    /// Returns the calls that are not finished. A failed call is one of them.
    pub fn open_calls<'a>(
        &'a self,
        role: &Role,
    ) -> impl Iterator<Item = (Work, OpenCall<'a>)> + use<'a> {
        self.current_work(role)
            .map(|work| (work, self.current_open_call()))
            .into_iter()
            .chain(self.open_tool_calls())
    }

    /// Returns a call if it is open.
    pub fn open_call(&self, role: &Role, work: Work) -> Option<OpenCall<'_>> {
        if matches!(work, Work::ToolCall { .. }) {
            return self.open_tool_call(work);
        }
        (self.current_work(role) == Some(work)).then(|| self.current_open_call())
    }

    fn current_open_call(&self) -> OpenCall<'_> {
        OpenCall {
            activation: self,
            progress: &self.current_call,
            phase: &self.phase,
        }
    }

    /// Returns a call if it is open, to be changed.
    pub(crate) fn open_call_mut(&mut self, role: &Role, work: Work) -> Option<OpenCallMut<'_>> {
        if matches!(work, Work::ToolCall { .. }) {
            return self.open_tool_call_mut(work);
        }
        (self.current_work(role) == Some(work)).then_some(OpenCallMut {
            progress: &mut self.current_call,
            phase: &mut self.phase,
        })
    }

    /// Returns the choice of a role that has a single action and nothing to ask.
    fn only_action(&self, react: &React) -> Option<i32> {
        match react {
            React::Choose {
                max_loop,
                thinker: Thinker::OnlyAction,
            } => (self.done.len() < *max_loop as usize).then_some(0),
            _ => None,
        }
    }

    /// Moves on to the next call, or completes the activation. A call that was reverted may have
    /// left a write in doubt although it succeeded; then it is not made again unless the operator
    /// decides so.
    pub fn proceed(&mut self, role: &Role) {
        if self.choices.len() == self.done.len() {
            self.choices.extend(self.only_action(&role.react));
        }
        let work = self.current_work(role);
        self.current_call = work
            .map(|work| self.earlier_progress(work))
            .unwrap_or_default();
        self.phase = if work.is_some() {
            self.current_call.ready_or_in_doubt()
        } else if self.has_open_tool_calls() {
            Phase::CallingTools
        } else {
            Phase::Complete
        };
    }

    /// Continues after a stop or a crash. Activations of called roles are resumed by themselves.
    pub(crate) fn resume(&mut self, role: &Role) {
        for call in self.turns.reopen_all().flat_map(|turn| &mut turn.calls) {
            if call.outcome.is_none() {
                // What a call waits for is known once those within it were resumed.
                call.progress.for_each_nested_mut(&mut TurnCall::resume);
            }
            call.resume();
        }
        self.current_call.failures = 0;
        if matches!(self.phase, Phase::Complete | Phase::CallingTools) {
            return;
        }
        // A lower loop limit may leave nothing more to do.
        if self.current_work(role).is_none() {
            self.phase = Phase::Complete;
        } else {
            OpenCallMut {
                progress: &mut self.current_call,
                phase: &mut self.phase,
            }
            .resume();
        }
    }

    /// Records a choice and moves on. Its progress is kept until the commit, like that of other
    /// calls.
    pub(crate) fn record_choice(&mut self, work: Work, choice: i32) {
        let tried = CallProgress {
            keeps_calls: true,
            ..core::mem::take(&mut self.current_call)
        };
        let index = self.done.len() as u32;
        self.reverted
            .retain(|undone| (undone.work, undone.position) != (work, index));
        self.reverted.push(RevertedCall {
            work,
            position: index,
            progress: tried,
        });
        self.choices.push(choice);
    }

    /// Reverts all finished calls from this index on. They will be made again as further attempts,
    /// served what they recorded if the kind of fault allows that.
    pub fn revert_to(&mut self, done: usize, fault: Fault) {
        // All of these calls are reverted without a failure of their own, including those after the
        // one that conflicts.
        let keep = fault.keeps_recorded_calls();
        let undone = self.done.drain(done..).zip(done as u32..);
        let undone = undone.map(|(call, place)| RevertedCall {
            work: call.work,
            position: place,
            progress: CallProgress {
                files: Vec::new(),
                memory: None,
                keeps_calls: keep,
                ..call.progress
            },
        });
        let mut undone: Vec<RevertedCall> = undone.collect();
        // A call that is reverted now replaces an entry of the same call that was reverted earlier.
        self.reverted.retain(|old| {
            let is_same = |new: &RevertedCall| (new.work, new.position) == (old.work, old.position);
            !undone.iter().any(is_same)
        });
        undone.append(&mut self.reverted);
        self.reverted = undone;
        self.choices.truncate(done + 1);
        if done == 0 {
            self.tasks.clear();
        }
        let first = self.reverted.first().map(|undone| undone.work);
        let tried = first
            .map(|work| self.earlier_progress(work))
            .unwrap_or_default();
        self.current_call = CallProgress {
            keeps_calls: keep,
            ..tried
        };
        self.phase = Phase::Failed(fault);
    }

    /// Prepares for another component that will make an open call.
    pub(crate) fn component_replaced(&mut self, role: &Role, work: Work) {
        if let Some(open) = self.open_call_mut(role, work) {
            open.component_replaced();
        }
    }

    /// Returns the progress of the call that comes next: empty unless it was made before and
    /// reverted.
    fn earlier_progress(&self, work: Work) -> CallProgress {
        let index = self.done.len() as u32;
        let before = self
            .reverted
            .iter()
            .find(|undone| undone.work == work && undone.position == index);
        before
            .map(|undone| undone.progress.clone())
            .unwrap_or_default()
    }

    /// Returns the idempotency key of a call: that of the activation, followed by the index of the
    /// action and what distinguishes repeated calls of it.
    pub fn idempotency_key(&self, base: &str, work: Work) -> String {
        match work {
            Work::Think { round } => alloc::format!("{base}/think/{round}"),
            Work::Plan => alloc::format!("{base}/0"),
            Work::Answer => alloc::format!("{base}/answer"),
            Work::Turn { turn } => alloc::format!("{base}/turn/{turn}"),
            Work::Summary { turn } => alloc::format!("{base}/summary/{turn}"),
            Work::ToolCall {
                turn, call, nested, ..
            } => alloc::format!("{base}/{turn}/{call}{nested}"),
            Work::Act {
                action,
                task: Some(task),
            } => alloc::format!("{base}/{}/{task}", action.0),
            Work::Act { action, task: None } if self.choices.is_empty() => {
                alloc::format!("{base}/{}", action.0)
            }
            Work::Act { action, task: None } => {
                alloc::format!("{base}/{}/{}", action.0, self.done.len())
            }
        }
    }

    /// Returns the requests that it waits for.
    pub fn open_requests(&self) -> impl Iterator<Item = &HumanRequest> {
        let tool_calls = self.unsettled_tool_calls();
        let tool_calls = tool_calls.map(|(_, call)| (&call.progress, &call.phase));
        let own = core::iter::once((&self.current_call, &self.phase));
        let calls = own.chain(tool_calls);
        calls.flat_map(|(progress, phase)| open_requests_of_call(progress, phase))
    }

    /// Returns a tool of a server, with the list that it is in; `None` for other tools.
    pub fn server_tool(&self, tool: ToolRef) -> Option<(&ToolList, &ServerTool)> {
        let ToolRef::Server { list, tool } = tool else {
            return None;
        };
        let list = self.server_tools.as_ref()?.get(usize::from(list))?;
        Some((list, list.tools.get(usize::from(tool))?))
    }

    /// Returns the last output, which is the one that the activation publishes.
    pub fn output(&self) -> Option<UncommittedMessage> {
        self.done.last().map(|done| done.output)
    }
}

/// Returns the requests that a call waits for: that of its phase, and the other open questions of the
/// receiver of a host call.
fn open_requests_of_call<'a>(
    progress: &'a CallProgress,
    phase: &'a Phase,
) -> impl Iterator<Item = &'a HumanRequest> {
    let first = match phase {
        Phase::WaitingForHuman(request) => Some(request),
        _ => None,
    };
    let asking = progress.asking.iter().filter(move |_| first.is_some());
    let others = asking.flat_map(AskingCall::open_requests);
    let others = others.filter(move |other| first.is_some_and(|first| first.id != other.id));
    first.into_iter().chain(others)
}

impl<'a> OpenCall<'a> {
    /// Returns the requests that it waits for.
    pub fn requests(self) -> impl Iterator<Item = &'a HumanRequest> {
        open_requests_of_call(self.progress, self.phase)
    }
}

/// Returns the beginning of the idempotency keys of an activation in which a role handles mail:
/// `run/step/role`.
pub fn idempotency_base(run: &str, step: u64, role: &str) -> String {
    alloc::format!("{run}/{step}/{}", escape_in_key(role))
}

/// Returns the name of a role as a part of an idempotency key. `/` and `%` are escaped as in URLs;
/// otherwise the key could equal that of another role.
pub(crate) fn escape_in_key(role: &str) -> Cow<'_, str> {
    if role.contains(['%', '/']) {
        role.replace('%', "%25").replace('/', "%2F").into()
    } else {
        role.into()
    }
}

/// Returns the action that carries out a task: the one it names, otherwise the workers in turn;
/// `None` if there are no workers. A plan that names an action which is not a worker is refused
/// when it is made.
fn worker_for(role: &Role, task: &Task, turn: usize) -> Option<ActionId> {
    let workers = role
        .actions
        .get(1..)
        .filter(|workers| !workers.is_empty())?;
    let named = task
        .action
        .as_deref()
        .and_then(|name| workers.iter().position(|action| action.name == name));
    Some(ActionId((1 + named.unwrap_or(turn % workers.len())) as u16))
}
