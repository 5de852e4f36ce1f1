//! An activation: a role at work on the mail it took. Where it stands, and what it does next.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::budget::Reserved;
use crate::environment::MessageRef;
use crate::environment::scope::Write;
use crate::event::{HostCall, Work};
use crate::fault::Fault;
use crate::file::FileChange;
use crate::host_call::Begun;
use crate::id::ActionId;
use crate::request::Request;
use crate::team::{React, Role, Task, Thinker};

/// A role at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// The step in which it began; part of its messages' ids and of its idempotency keys.
    pub opened: u64,
    /// The mail it took, oldest first.
    pub news: Vec<MessageRef>,
    /// How many actions lie before the first of `done`: more than none only after reading a file that says where
    /// a role stood and not what it had done.
    pub skipped: u16,
    /// What it chose so far.
    pub choices: Vec<i32>,
    /// What it planned.
    pub tasks: Vec<Task>,
    /// What it finished, in order.
    pub done: Vec<Done>,
    /// How many messages it made; part of their ids.
    pub made: u32,
    /// The call it is at.
    pub current: Current,
    /// How that call stands.
    pub phase: Phase,
    /// What was taken back because of a conflict and has to be made again, and all choices: they are not among what is
    /// done, and one that follows a call that is taken back has to be made again, too.
    pub undone: Vec<Undone>,
}

/// A finished call that has to be made again, or may have to be. Its tries count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// What it was.
    pub work: Work,
    /// How many calls were finished before it.
    pub place: u32,
    /// The tries it took.
    pub tried: Current,
}

/// A finished call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What it was.
    pub work: Work,
    /// What it returned.
    pub output: Outgoing,
    /// What it published beside.
    pub emissions: Vec<Outgoing>,
    /// What it wrote.
    pub writes: Vec<Write>,
    /// The tries it took, for the case that it has to be made again.
    pub tried: Current,
}

/// A message that waits for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The message.
    pub message: MessageRef,
    /// Whether its sender said who gets it.
    pub addressed: Addressed,
}

/// Whether a sender said who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Addressed {
    /// It named recipients.
    Named,
    /// It left the choice to the environment.
    Open,
}

/// The tries of the call an activation is at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// How many were started.
    pub attempts: u32,
    /// How many failed in a row since the run was started or resumed: what `retries` is held against.
    pub failures: u32,
    /// The host calls recorded so far.
    pub journal: Vec<HostCall>,
    /// Whether the next attempt is served what is recorded.
    pub keep: bool,
    /// Whether the last attempt ended to wait, for a person or for money, and now can go on. Then the next one is served
    /// what is recorded, whatever the operator says.
    pub answered: bool,
    /// What is held back for calls that are under way.
    pub reserved: Vec<Reserved>,
    /// The calls that may have changed the world, in the order in which they were begun.
    pub begun: Vec<Begun>,
    /// What it did to files, once it succeeded.
    pub files: Vec<FileChange>,
}

/// How the call an activation is at stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It can be started.
    Ready,
    /// An attempt is under way.
    Running,
    /// An attempt failed, and another follows after a pause.
    Resting,
    /// It failed; a resume tries again.
    Failed(Fault),
    /// There is nothing left to do: it waits for the commit.
    Complete,
    /// It asked a person.
    Waiting(Request),
    /// It failed before the run was resumed, and can be started.
    Again(Fault),
}

impl Phase {
    /// Whether it can be started.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Again(_))
    }

    /// Why it failed, as long as it was not tried since.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Failed(fault) | Self::Again(fault) => Some(fault),
            _ => None,
        }
    }
}

impl Activation {
    /// A new activation.
    pub fn open(step: u64, news: Vec<MessageRef>, role: &Role) -> Self {
        let mut activation = Self {
            opened: step,
            news,
            skipped: 0,
            choices: Vec::new(),
            tasks: Vec::new(),
            done: Vec::new(),
            made: 0,
            current: Current::default(),
            phase: Phase::Ready,
            undone: Vec::new(),
        };
        activation.proceed(role);
        activation
    }

    /// What it does now; none when nothing is left. A failed call is still the one it is at.
    pub fn work(&self, role: &Role) -> Option<Work> {
        match role.react {
            React::ByOrder => {
                let next = usize::from(self.skipped) + self.done.len();
                (next < role.actions.len()).then_some(Work::Act {
                    action: ActionId(next as u16),
                    task: None,
                })
            }
            React::Choose { max_loop, .. } => {
                let only = self.only_action(role.react);
                if let Some(choice) = self.choices.get(self.done.len()).copied().or(only) {
                    let action = u16::try_from(choice).ok()?;
                    return Some(Work::Act {
                        action: ActionId(action),
                        task: None,
                    });
                }
                (self.done.len() < max_loop as usize).then_some(Work::Think {
                    round: self.choices.len() as u32,
                })
            }
            React::PlanAndAct => {
                let Some(next) = self.done.len().checked_sub(1) else {
                    return (!role.actions.is_empty()).then_some(Work::Plan);
                };
                let action = worker(role, self.tasks.get(next)?, next)?;
                Some(Work::Act {
                    action,
                    task: Some(next as u32),
                })
            }
            React::Human => self.done.is_empty().then_some(Work::Answer),
        }
    }

    /// The choice of a role that has one action and nobody to ask.
    fn only_action(&self, react: React) -> Option<i32> {
        match react {
            React::Choose {
                max_loop,
                thinker: Thinker::OnlyAction,
            } => (self.done.len() < max_loop as usize).then_some(0),
            _ => None,
        }
    }

    /// Goes on to the next call, or to the end. One that was taken back may have left a write in doubt when it succeeded:
    /// to make it again is for the operator to say.
    pub fn proceed(&mut self, role: &Role) {
        if self.choices.len() == self.done.len() {
            self.choices.extend(self.only_action(role.react));
        }
        let work = self.work(role);
        self.current = work.map(|work| self.tried(work)).unwrap_or_default();
        self.phase = if work.is_some() {
            self.ready()
        } else {
            Phase::Complete
        };
    }

    /// Goes on after a stop or a crash.
    pub(crate) fn resume(&mut self, role: &Role) {
        self.current.failures = 0;
        if self.phase == Phase::Complete {
            return;
        }
        if self.phase == Phase::Running {
            // It was killed: it ends like one that was interrupted.
            self.current.keep = true;
            self.phase = self.ready();
        }
        // A lower limit may leave it with nothing more to do.
        if self.work(role).is_none() {
            self.phase = Phase::Complete;
        } else if !matches!(self.phase, Phase::Waiting(_)) && self.doubts().next().is_none() {
            self.phase = self
                .phase
                .fault()
                .cloned()
                .map_or(Phase::Ready, Phase::Again);
        }
    }

    /// Whether the next attempt at what it is at has this number. What choices took was not always kept: in older records
    /// one that is made again begins anew.
    pub(crate) fn goes_on_with(&self, work: Work, attempt: u32) -> bool {
        self.current.attempts + 1 == attempt || (attempt == 1 && matches!(work, Work::Think { .. }))
    }

    /// Goes on from a choice. What it took is kept until the commit, as that of all calls.
    pub(crate) fn choose(&mut self, work: Work, choice: i32) {
        let tried = Current {
            keep: true,
            ..core::mem::take(&mut self.current)
        };
        let place = self.done.len() as u32;
        self.undone
            .retain(|undone| (undone.work, undone.place) != (work, place));
        self.undone.push(Undone { work, place, tried });
        self.choices.push(choice);
    }

    /// Goes back to before a finished call, which will be made again: as the next attempt, with what it recorded.
    pub fn rewind(&mut self, done: usize, fault: Fault) {
        // None of them failed by itself, also those after the one at fault.
        let keep = fault.kind.keeps_calls();
        let undone = self.done.drain(done..).zip(done as u32..);
        let undone = undone.map(|(call, place)| Undone {
            work: call.work,
            place,
            tried: Current {
                files: Vec::new(),
                keep,
                ..call.tried
            },
        });
        let mut undone: Vec<Undone> = undone.collect();
        // Later takings back come first, and take the place of earlier ones of the same call.
        let is_again = |old: &Undone| {
            undone
                .iter()
                .any(|new| (new.work, new.place) == (old.work, old.place))
        };
        self.undone.retain(|old| !is_again(old));
        undone.append(&mut self.undone);
        self.undone = undone;
        self.choices.truncate(done + 1);
        if done == 0 {
            self.tasks.clear();
        }
        let first = self.undone.first().map(|undone| undone.work);
        let tried = first.map(|work| self.tried(work)).unwrap_or_default();
        self.current = Current { keep, ..tried };
        self.phase = Phase::Failed(fault);
    }

    /// Another component is to make the call it is at: what is recorded is worth serving to it, whatever the failure
    /// was, and what the old one asked a person is withdrawn: the new one may ask something else.
    pub fn reconsider(&mut self) {
        self.current.keep = true;
        if matches!(self.phase, Phase::Waiting(_)) {
            self.phase = self.ready();
        }
    }

    /// The tries of a call that comes next: none, where it was not made before and taken back.
    fn tried(&self, work: Work) -> Current {
        let place = self.done.len() as u32;
        let before = self
            .undone
            .iter()
            .find(|undone| undone.work == work && undone.place == place);
        before
            .map(|undone| undone.tried.clone())
            .unwrap_or_default()
    }

    /// The idempotency key of the call it is at: `run/step/role/index`, with what tells repeated calls of one
    /// action apart behind it. A `/` in the role's name, and a `%`, are escaped as in addresses: else it could be
    /// another role's.
    pub fn key(&self, run: &str, role: &str, work: Work) -> String {
        let role = role.replace('%', "%25").replace('/', "%2F");
        let base = alloc::format!("{run}/{}/{role}", self.opened);
        match work {
            Work::Think { round } => alloc::format!("{base}/think/{round}"),
            Work::Plan => alloc::format!("{base}/0"),
            Work::Answer => alloc::format!("{base}/answer"),
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

    /// The last output: what it publishes.
    pub fn output(&self) -> Option<Outgoing> {
        self.done.last().map(|done| done.output)
    }
}

/// Who carries out a task: the action it names, else the workers in turn; none where there are no workers. A name
/// that is no worker's is refused when the plan is made.
fn worker(role: &Role, task: &Task, turn: usize) -> Option<ActionId> {
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
