//! The stepper: a team and its environment, and what happens next.
//!
//! `next` decides and changes nothing. `apply` changes and decides nothing. What an event does is in `apply`, what
//! a commit merges in `commit`, what joins let go in `join`, what becomes of calls in doubt in `doubt`, of files
//! in `files`, how another lineage begins in `fork`, how the outcome of an attempt becomes an event in `report`; what
//! events may name is in `names`; who takes part at all is known by `awake`, what roles remember by label by `recall`.

mod apply;
mod awake;
mod commit;
mod doubt;
mod files;
mod fork;
mod join;
mod names;
mod outside;
mod people;
mod recall;
mod report;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::activation::Activation;
use crate::budget::{Amount, Purse, spender};
use crate::effect::{Effect, Invocation};
use crate::environment::Environment;
use crate::environment::routing::AddressBook;
use crate::event::{CallPolicy, Event, Journal, Status, Work};
use crate::id::{Digest, RoleId, Slot};
use crate::team::{OnFault, React, Role, Team, Thinker};

pub use apply::Illegal;
use awake::{Awake, Stand};
pub use commit::conflict;
pub use files::FILES_SCOPE;
use recall::Recall;
pub use report::retry;

/// A team in motion.
#[derive(Clone, Debug)]
pub struct Stepper {
    /// The team as its file has it now.
    given: Arc<Team>,
    /// The team under the rules of the environment: the same, but while the past is read back.
    team: Arc<Team>,
    env: Environment,
    /// What is known of the two without looking at every role.
    awake: Awake,
    book: Arc<AddressBook>,
    recall: Recall,
}

impl Stepper {
    /// Puts a team and its environment together. The environment must fit: compare `Environment::shape` with
    /// `Shape::of(team)` before.
    pub fn new(team: Arc<Team>, env: Environment) -> Self {
        let under = env.rules.over(&team);
        let awake = Awake::of(&under, &env);
        // What roles watch and are called is the same under all rules.
        let book = Arc::new(AddressBook::of(&team, env.own_messages));
        Self {
            given: team,
            team: under,
            env,
            awake,
            book,
            recall: Recall::default(),
        }
    }

    /// The same team in another state of its run.
    pub fn at(&self, env: Environment) -> Self {
        Self::new(self.given.clone(), env)
    }

    /// The state alone.
    pub fn into_env(self) -> Environment {
        self.env
    }

    /// The team, under the rules that the run was last started or resumed with.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// The environment.
    pub fn env(&self) -> &Environment {
        &self.env
    }

    /// What is to be done next. Before the run is started, that is to wait for its start.
    pub fn next(&self) -> Effect {
        self.next_while(&|| true)
    }

    /// Returns what is to be done next. Deciding who receives what a step published can take seconds: it is given up once
    /// `goes_on` says no, and there is nothing to do but to wait until whoever said so ends the run.
    pub fn next_while(&self, goes_on: &dyn Fn() -> bool) -> Effect {
        if self.env.run.0.is_empty() {
            return Effect::Wait;
        }
        if self.env.status != Status::Running {
            return Effect::Halt(self.env.status);
        }
        if self.env.open {
            self.within_step(goes_on)
        } else {
            self.between_steps()
        }
    }

    fn between_steps(&self) -> Effect {
        if let Some(event) = self.release() {
            return Effect::Record(event);
        }
        let roles = self.due();
        if roles.is_empty() {
            return self.at_rest();
        }
        if self
            .team
            .policy
            .max_steps
            .is_some_and(|max| self.env.step >= max)
        {
            return Effect::Record(self.ended(Status::StepLimit));
        }
        Effect::Record(Event::StepStarted {
            step: self.env.step,
            roles,
        })
    }

    /// What happens when nobody can go on: what is on its way out is waited for, then the run ends. A fault outweighs a
    /// question: it needs mending, whatever the answer.
    fn at_rest(&self) -> Effect {
        let leaving = self.env.outbox.first();
        if leaving.is_some_and(|outbound| outbound.failed.is_none()) {
            return Effect::Wait;
        }
        let status = if self.env.failed().next().is_some() || leaving.is_some() {
            self.failure()
        } else if self.env.requests().next().is_some() {
            Status::Waiting
        } else if self.env.is_drained() {
            Status::Done
        } else {
            Status::Stalled
        };
        Effect::Record(self.ended(status))
    }

    /// Whether a run that ends like this could go on as soon as something comes from outside. At a fault it does if the
    /// others go on, unless what goes out is held up.
    pub fn can_be_woken(&self, status: Status) -> bool {
        match status {
            Status::Done | Status::Stalled | Status::Waiting => true,
            Status::Failed | Status::InDoubt => {
                self.team.policy.on_fault == OnFault::Park && self.env.outbox.is_empty()
            }
            _ => false,
        }
    }

    /// Who takes part in the next step: who has mail and no open work, and who can go on with open work.
    fn due(&self) -> Vec<RoleId> {
        // One that is complete here was ended by a lower limit: what it did is still to be committed.
        let due = |stand| {
            matches!(
                stand,
                Stand::Mail | Stand::Ready | Stand::Asking | Stand::Complete
            )
        };
        self.awake
            .all()
            .filter(|(_, stand)| due(*stand))
            .map(|(id, _)| id)
            .collect()
    }

    fn within_step(&self, goes_on: &dyn Fn() -> bool) -> Effect {
        if let Some(question) = self.person_asked() {
            return Effect::Record(question);
        }
        let count = |stand| self.awake.count(stand);
        let affords =
            |(id, activation): &(RoleId, &Activation)| self.purse(*id, activation).is_none();
        if let Some((id, activation)) = self.ready().find(affords) {
            // Who rests before another try holds nobody up.
            if count(Stand::Running) >= self.team.policy.max_parallel.max(1) {
                return Effect::Wait;
            }
            return Effect::Call(self.invocation(id, activation));
        }
        if count(Stand::Running) + count(Stand::Resting) > 0 {
            return Effect::Wait;
        }
        // A fault outweighs a want of money: it needs mending, whatever is paid.
        if count(Stand::Failed) > 0 && self.team.policy.on_fault == OnFault::Stop {
            return Effect::Record(self.ended(self.failure()));
        }
        if count(Stand::Ready) > 0 {
            return Effect::Record(self.ended(Status::OutOfBudget));
        }
        if self.waits_for_people() {
            return self.at_rest();
        }
        self.conflict()
            .or_else(|| self.commit(goes_on))
            .map_or(Effect::Wait, Effect::Record)
    }

    /// What a run that is stopped by faults is called: a call in doubt is the more pressing of its troubles.
    fn failure(&self) -> Status {
        if self.env.doubts().next().is_some() {
            Status::InDoubt
        } else {
            Status::Failed
        }
    }

    /// Who can make a call, if there is something to spend.
    fn ready(&self) -> impl Iterator<Item = (RoleId, &Activation)> {
        self.awake
            .ready()
            .filter_map(|id| Some((id, self.env.role(id).activation.as_ref()?)))
    }

    /// What the next attempt of an activation does with the recorded host calls of earlier ones.
    pub fn journal(&self, activation: &Activation) -> Journal {
        match self.env.calls {
            _ if activation.current.answered => Journal::Keep,
            CallPolicy::Reuse => Journal::Keep,
            CallPolicy::Fresh => Journal::Fresh,
            CallPolicy::Auto if activation.current.keep => Journal::Keep,
            CallPolicy::Auto => Journal::Fresh,
        }
    }

    /// Whose budget does not allow an activation to go on.
    fn purse(&self, id: RoleId, activation: &Activation) -> Option<Purse> {
        let work = activation.work(self.team.role(id))?;
        let purse = self.env.exhausted(&self.team, (id, work), Amount::NONE);
        // An action whose own budget is used up may have something to do that costs nothing.
        purse.filter(|purse| !matches!(purse, Purse::Action(_)))
    }

    /// Whose budgets keep open work from going on.
    pub fn purses(&self) -> impl Iterator<Item = Purse> {
        let ready = self
            .env
            .activations()
            .filter(|(_, activation)| activation.phase.is_ready());
        ready.filter_map(|(id, activation)| self.purse(id, activation))
    }

    /// The attempt that a role makes next, if it can make one.
    pub fn invocation_of(&self, id: RoleId) -> Option<Invocation> {
        let ready = |activation: &&Activation| activation.phase.is_ready();
        let activation = self.env.role(id).activation.as_ref().filter(ready)?;
        Some(self.invocation(id, activation))
    }

    fn invocation(&self, id: RoleId, activation: &Activation) -> Invocation {
        let role = self.team.role(id);
        // A ready activation always has work: `Activation::proceed` made it ready because of it.
        let work = activation.work(role).unwrap_or(Work::Plan);
        let journal = self.journal(activation);
        let task = match work {
            Work::Act {
                task: Some(task), ..
            } => activation.tasks.get(task as usize).cloned(),
            _ => None,
        };
        Invocation {
            role: id,
            work,
            task,
            attempt: activation.current.attempts + 1,
            digest: self.component(id, work).cloned(),
            journal,
            recorded: if journal == Journal::Keep {
                activation.current.journal.clone()
            } else {
                Vec::new()
            },
            idempotency_key: activation.key(
                &self.env.lineage.key(&self.env.run.0),
                &role.name,
                work,
            ),
            seed: activation.key(&self.env.run.0, &role.name, work),
            news: self.env.resolve(&activation.news),
            outputs: activation
                .done
                .iter()
                .map(|done| self.env.message(done.output.message).clone())
                .collect(),
        }
    }

    /// The component that does some work, if one does.
    pub fn component(&self, id: RoleId, work: Work) -> Option<&Digest> {
        self.env
            .components
            .get(&slot(self.team.role(id), id, work)?)
    }

    /// The end of the run with this status.
    pub fn ended(&self, status: Status) -> Event {
        // Between steps the state is that of the last checkpoint.
        let checkpoint = self.env.open.then(|| self.env.next_checkpoint());
        let parent = self.env.checkpoint.clone();
        Event::RunEnded {
            status,
            checkpoint,
            parent,
        }
    }
}

/// The step in which an activation is at fault: the open one, to which it belongs whenever it began; but where faults are
/// parked others have gone on since, and only its beginning is known.
pub fn step_of_fault(team: &Team, env: &Environment, activation: &Activation) -> u64 {
    match team.policy.on_fault {
        OnFault::Stop => env.step,
        OnFault::Park => activation.opened,
    }
}

/// Where the component of some work stands; none when the host itself thinks, or a person does.
pub fn slot(role: &Role, id: RoleId, work: Work) -> Option<Slot> {
    let by_model = matches!(
        role.react,
        React::Choose {
            thinker: Thinker::Model | Thinker::OnlyAction,
            ..
        }
    );
    let by_none = work == Work::Answer || (by_model && matches!(work, Work::Think { .. }));
    (!by_none).then(|| spender(id, work))
}
