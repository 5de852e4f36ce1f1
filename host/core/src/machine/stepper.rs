//! The stepper: decides what a team does next, and applies what happened to its environment.
//!
//! `next` decides and changes nothing; `apply` changes and decides nothing. The stepper owns the state
//! and the indexes of it. The parts of both are functions of the submodules, one subject each, over
//! what they need of these: most need only the team with its environment (`team_state`).

mod apply;
mod call_limits;
mod calls;
mod commit;
mod conflict;
mod consent;
mod event_builders;
mod files;
mod fork;
mod host_calls;
mod human_requests;
mod joins;
mod kept_bytes;
mod memory;
mod memory_index;
mod nested_calls;
mod ready_index;
mod request_opening;
mod results;
mod role_calls;
mod team_state;
mod tool_calls;
mod turns;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::machine::effect::{Effect, Invocation};
use crate::record::event::{Event, RunEnded, Status, StepStarted};
use crate::record::fault::Fault;
use crate::record::host_call::{CallPolicy, RecordedCallUse};
use crate::record::id::{Digest, RoleId, Slot};
use crate::record::message::Message;
use crate::record::rules::Thinker;
use crate::record::spending::Amount;
use crate::record::turn::{HostTool, ToolRef};
use crate::record::work::{ActivationKey, CallKey, Work};
use crate::state::activation::{Activation, CallProgress, OpenCall, TurnCall};
use crate::state::budget::{BudgetScope, charged_slot};
use crate::state::environment::Environment;
use crate::state::environment::activations::called_key;
use crate::state::environment::routing::AddressBook;
use crate::state::kept_bytes::message_bytes;
use crate::team::tools::Summariser;
use crate::team::{OnFault, React, Role, Team};

use commit::step_committed_event;
pub use conflict::conflict_message;
use conflict::step_conflict;
pub use consent::derive_requests;
pub use event_builders::retry_policy;
pub use files::FILES_SCOPE;
use human_requests::due_event;
pub use human_requests::may_have_had_request;
use joins::join_released_event;
use kept_bytes::KeptBytes;
use memory_index::MemoryIndex;
pub use nested_calls::MAX_NESTED_CALLS;
use nested_calls::stalled_attempt_event;
use ready_index::{ReadyIndex, RoleStatus};
use role_calls::{begins_role, idempotency_prefix, is_role_busy};
pub use team_state::IllegalEvent;
use team_state::TeamState;
use tool_calls::{is_held_up, startable_tool_calls};
use turns::turn_limit_event;

/// A team with its environment.
#[derive(Clone, Debug)]
pub struct Stepper {
    /// The team as its file defines it now. The team of the state differs from it only while events
    /// are applied that were recorded under other rules.
    defined_team: Arc<Team>,
    state: TeamState,
    /// An index of the roles that take part, so that not every role has to be examined.
    ready_index: ReadyIndex,
    memory_index: MemoryIndex,
}

impl Stepper {
    /// Combines a team with its environment. The environment must fit: compare `Environment::shape`
    /// with `Shape::of(team)` first.
    pub fn new(team: Arc<Team>, env: Environment) -> Self {
        let under = env.rules.apply_to(&team);
        let ready_index = ReadyIndex::build(&under, &env);
        // What it contains is the same under all rules.
        let address_book = Arc::new(AddressBook::new(&team, env.own_messages));
        let kept = KeptBytes::count(&env);
        Self {
            defined_team: team,
            state: TeamState {
                team: under,
                env,
                address_book,
                kept,
            },
            ready_index,
            memory_index: MemoryIndex::default(),
        }
    }

    /// Returns a stepper of the same team with another state of its run.
    pub fn with_env(&self, env: Environment) -> Self {
        Self::new(self.defined_team.clone(), env)
    }

    /// Returns the environment.
    pub fn into_env(self) -> Environment {
        self.state.env
    }

    /// Returns the team under the rules with which the run was last started or resumed.
    pub fn team(&self) -> &Arc<Team> {
        &self.state.team
    }

    /// Returns the environment.
    pub fn env(&self) -> &Environment {
        &self.state.env
    }

    /// Returns about how many bytes of memory the run keeps: its messages, the values of its scopes, and
    /// the results that are not committed yet.
    pub fn kept_bytes(&self) -> u64 {
        self.state.kept_bytes()
    }

    /// Fails if the run would keep more than it may with a message from outside.
    pub fn check_room_for(&self, message: &Message) -> Result<(), Fault> {
        self.state.check_kept_bytes(message_bytes(message))
    }

    /// Returns what is to be done next. Before the run is started, that is to wait for its start.
    pub fn next(&self) -> Effect {
        self.next_while(&|| true)
    }

    /// Returns what is to be done next. Deciding who receives the messages of a step can take
    /// seconds; once `goes_on` returns false this is given up and `Effect::Wait` is returned. The
    /// caller is then expected to end the run.
    pub fn next_while(&self, goes_on: &dyn Fn() -> bool) -> Effect {
        if self.state.env.run.0.is_empty() {
            return Effect::Wait;
        }
        if self.state.env.status != Status::Running {
            return Effect::Halt(self.state.env.status);
        }
        if self.state.env.is_step_open {
            self.next_within_step(goes_on)
        } else {
            self.next_between_steps()
        }
    }

    fn next_between_steps(&self) -> Effect {
        if let Some(event) = join_released_event(&self.state, &self.ready_index) {
            return Effect::Record(event);
        }
        let roles = self.due_roles();
        if roles.is_empty() {
            return self.wait_or_end();
        }
        if self
            .state
            .team
            .policy
            .max_steps
            .is_some_and(|max| self.state.env.step >= max)
        {
            return Effect::Record(self.run_ended_event(Status::StepLimit));
        }
        Effect::Record(Event::StepStarted(StepStarted {
            step: self.state.env.step,
            roles,
        }))
    }

    /// Returns what is done when no role can continue: wait for the outbox, otherwise end the run.
    /// A fault takes precedence over an open request, because it must be fixed whatever the answer
    /// is.
    fn wait_or_end(&self) -> Effect {
        let leaving = self.state.env.outbox.first();
        if leaving.is_some_and(|outbound| outbound.failed.is_none()) {
            return Effect::Wait;
        }
        let status = if self
            .state
            .env
            .failed_calls(&self.state.team)
            .next()
            .is_some()
            || leaving.is_some()
        {
            self.failure_status()
        } else if self.state.env.open_requests().next().is_some() {
            Status::Waiting
        } else if self.state.env.is_drained() {
            Status::Done
        } else {
            Status::Stalled
        };
        Effect::Record(self.run_ended_event(status))
    }

    /// Returns whether a run that ended with this status could continue as soon as something
    /// arrives from outside. After a fault that is the case if the other roles go on, unless the
    /// outbox is blocked.
    pub fn can_be_reactivated(&self, status: Status) -> bool {
        match status {
            Status::Done | Status::Stalled | Status::Waiting => true,
            Status::Failed | Status::InDoubt => {
                self.state.team.policy.on_fault == OnFault::Park && self.state.env.outbox.is_empty()
            }
            _ => false,
        }
    }

    /// Returns the roles that take part in the next step: those that have mail and no open
    /// activation, and those that can continue an open one.
    fn due_roles(&self) -> Vec<RoleId> {
        // An activation that is complete here was ended by a lower loop limit; its results are not
        // committed yet.
        self.ready_index
            .iter()
            .filter(|(_, status)| {
                matches!(
                    status,
                    RoleStatus::HasMail
                        | RoleStatus::Ready
                        | RoleStatus::EventDue
                        | RoleStatus::Complete
                )
            })
            .map(|(id, _)| id)
            .collect()
    }

    fn next_within_step(&self, goes_on: &dyn Fn() -> bool) -> Effect {
        if let Some(event) = due_event(&self.state, &self.ready_index) {
            return Effect::Record(event);
        }

        let affords = |(call, _): &(CallKey, OpenCall<'_>)| self.exhausted_budget(*call).is_none();
        if let Some((call, open)) = self.ready_calls().find(affords) {
            // A role that waits before a retry does not hold up the others.
            if let Some(event) = turn_limit_event(&self.state.team, call, open) {
                return Effect::Record(event);
            }
            if begins_role(&self.state.env, call) {
                let started = self.call_started_event(&self.build_invocation(call, open));
                return Effect::Record(started);
            }
            if self.ready_index.running_calls() >= self.state.team.policy.max_parallel.max(1) {
                return Effect::Wait;
            }
            return Effect::Call(self.build_invocation(call, open));
        }
        if self.ready_index.has_calls_in_progress() {
            return Effect::Wait;
        }
        if let Some(event) = stalled_attempt_event(&self.state) {
            return Effect::Record(event);
        }
        // A fault takes precedence over a used-up budget, because it must be fixed whatever is
        // paid.
        if self.ready_index.has_failed_calls() && self.state.team.policy.on_fault == OnFault::Stop {
            return Effect::Record(self.run_ended_event(self.failure_status()));
        }
        if self.ready_index.count(RoleStatus::Ready) > 0 {
            return Effect::Record(self.run_ended_event(Status::OutOfBudget));
        }
        if self.ready_index.waits_for_humans() {
            return self.wait_or_end();
        }
        step_conflict(&self.state, &self.ready_index)
            .map(Event::StepConflicted)
            .or_else(|| step_committed_event(&self.state, &self.ready_index, goes_on))
            .map_or(Effect::Wait, Effect::Record)
    }

    /// Returns the status of a run that is stopped by faults. A call in doubt takes precedence.
    fn failure_status(&self) -> Status {
        if self
            .state
            .env
            .writes_in_doubt(&self.state.team)
            .next()
            .is_some()
        {
            Status::InDoubt
        } else {
            Status::Failed
        }
    }

    /// Returns the calls that can be made, if their budgets allow them.
    fn ready_calls(&self) -> impl Iterator<Item = (CallKey, OpenCall<'_>)> {
        let activations = self
            .ready_index
            .ready()
            .flat_map(|id| self.state.env.activations_of(id));
        activations.flat_map(move |(key, activation)| {
            let role = self.state.team.role(key.role);
            let current = activation
                .current_work(role)
                .filter(|work| *work != Work::Answer);
            let tools = role.tool_loop().filter(|_| current.is_none());
            let tool_calls = tools
                .into_iter()
                .flat_map(|tools| startable_tool_calls(tools, activation));
            current
                .into_iter()
                .chain(tool_calls)
                .filter_map(move |work| {
                    let open = activation.open_call(role, work)?;
                    let call = CallKey::in_activation(key, work);
                    let is_ready = open.phase.is_ready() && !self.waits_for_role(key, open, work);
                    is_ready.then_some((call, open))
                })
        })
    }

    /// Returns whether a call has to wait for a role that works on a call of another activation.
    fn waits_for_role(&self, key: ActivationKey, open: OpenCall<'_>, work: Work) -> bool {
        let (team, env) = (&self.state.team, &self.state.env);
        let has_to_wait = |work: Work, _: &TurnCall| {
            let call = CallKey::in_activation(key, work);
            let to = called_key(key, work).filter(|_| begins_role(env, call));
            to.is_some_and(|to| is_role_busy(team, env, to.role))
        };
        let call = open.activation.tool_call(work);
        call.is_some_and(|call| is_held_up(work, call, &has_to_wait))
    }

    /// Returns what the next attempt of a call does with the recorded host calls of earlier ones.
    pub fn call_reuse(&self, progress: &CallProgress) -> RecordedCallUse {
        match self.state.env.call_policy {
            _ if progress.was_suspended => RecordedCallUse::Reuse,
            CallPolicy::Reuse => RecordedCallUse::Reuse,
            CallPolicy::Fresh => RecordedCallUse::Fresh,
            CallPolicy::Auto if progress.keeps_calls => RecordedCallUse::Reuse,
            CallPolicy::Auto => RecordedCallUse::Fresh,
        }
    }

    /// Returns whose budget, if any, does not allow a call to be made.
    fn exhausted_budget(&self, call: CallKey) -> Option<BudgetScope> {
        let exhausted =
            self.state
                .env
                .exhausted_budget(&self.state.team, call.role, call.work, Amount::ZERO);
        // An action whose own budget is used up may still do something that costs nothing.
        exhausted.filter(|scope| !matches!(scope, BudgetScope::Action(_)))
    }

    /// Returns whose budgets do not allow open activations to continue.
    pub fn exhausted_budgets(&self) -> impl Iterator<Item = BudgetScope> {
        let ready = self
            .state
            .env
            .open_calls(&self.state.team)
            .filter(|(_, open)| open.phase.is_ready());
        ready.filter_map(|(call, _)| self.exhausted_budget(call))
    }

    /// Returns the next attempt of a call, if it can be made.
    pub fn next_invocation(&self, call: CallKey) -> Option<Invocation> {
        let open = self.state.env.open_call(&self.state.team, call)?;
        open.phase
            .is_ready()
            .then(|| self.build_invocation(call, open))
    }

    fn build_invocation(&self, call: CallKey, open: OpenCall<'_>) -> Invocation {
        let CallKey {
            role: id,
            via,
            work,
        } = call;
        let activation = open.activation;
        let call_reuse = self.call_reuse(open.progress);
        let task = match work {
            Work::Act {
                task: Some(task), ..
            } => activation.tasks.get(task as usize).cloned(),
            _ => None,
        };
        let idempotency_key = |run: &str| {
            let base =
                idempotency_prefix(&self.state.team, &self.state.env, run, call.activation());
            activation.idempotency_key(&base, work)
        };
        let run = &self.state.env.run.0;
        let seed = idempotency_key(run);
        let key_prefix = self.state.env.lineage.idempotency_run(run);
        Invocation {
            role: id,
            via,
            work,
            task,
            attempt: open.progress.attempts + 1,
            digest: self.component(id, work).cloned(),
            call_reuse,
            recorded_calls: if call_reuse == RecordedCallUse::Reuse {
                open.progress.recorded_calls.clone()
            } else {
                Vec::new()
            },
            idempotency_key: if key_prefix == *run {
                seed.clone()
            } else {
                idempotency_key(&key_prefix)
            },
            seed,
            arguments: activation.arguments(work),
            news: self.state.env.resolve(&activation.news),
            outputs: activation
                .done
                .iter()
                .map(|done| self.state.env.message(done.output.message).clone())
                .collect(),
        }
    }

    /// Returns the component that makes a call, if one does.
    pub fn component(&self, id: RoleId, work: Work) -> Option<&Digest> {
        self.state.component(id, work)
    }

    /// Fails if the event refers to a role, an action or a slot that the team does not have.
    pub fn ensure_names_exist(&self, event: &Event) -> Result<(), IllegalEvent> {
        self.state.ensure_names_exist(event)
    }

    /// Returns the newest messages in the memory of an activation's role, oldest first; if `label` is given, only those with
    /// it. The cost does not grow with the memory.
    pub fn recent_memory(
        &mut self,
        key: ActivationKey,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        self.memory_index
            .recent_memory(&self.state.env, key, label, limit)
    }

    /// Returns the event that ends the run with this status.
    pub fn run_ended_event(&self, status: Status) -> Event {
        // Between steps the state is that of the last checkpoint.
        let checkpoint = self
            .state
            .env
            .is_step_open
            .then(|| self.state.env.next_checkpoint_id());
        let parent = self.state.env.checkpoint.clone();
        Event::RunEnded(RunEnded {
            status,
            checkpoint,
            parent,
            by: None,
        })
    }
}

/// Returns the step in which an activation failed. It belongs to the open step, whenever it began.
/// If faults are parked, other roles have continued since, and only the step in which it began is
/// known.
pub fn step_of_fault(team: &Team, env: &Environment, activation: &Activation) -> u64 {
    match team.policy.on_fault {
        OnFault::Stop => env.step,
        OnFault::Park => activation.opened_in_step,
    }
}

fn is_summarised_by_component(role: &Role) -> bool {
    let tools = role.tool_loop();
    tools.is_some_and(|tools| tools.summariser == Summariser::Component)
}

/// Returns the slot of the component that makes a call; `None` if the host itself or a human does.
pub fn component_slot(role: &Role, id: RoleId, work: Work) -> Option<Slot> {
    let by_model = matches!(
        role.react,
        React::Choose {
            thinker: Thinker::Model | Thinker::OnlyAction,
            ..
        }
    );
    let by_none = match work {
        Work::Answer | Work::Turn { .. } => true,
        Work::Summary { .. } => !is_summarised_by_component(role),
        Work::ToolCall { tool, .. } => !matches!(
            tool,
            ToolRef::Action(_) | ToolRef::Host(HostTool::RunSkillScript(_))
        ),
        Work::Think { .. } => by_model,
        Work::Plan | Work::Act { .. } => false,
    };
    (!by_none).then(|| charged_slot(id, work))
}
