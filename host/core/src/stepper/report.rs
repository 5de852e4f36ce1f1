//! Builds events from what happened outside. This changes nothing; recording and applying the
//! events is the task of the driver.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Stepper;
use crate::activation::{Addressed, Phase};
use crate::condition::WorkBudget;
use crate::effect::Invocation;
use crate::environment::routing::{Parcel, route};
use crate::event::{CallPolicy, Event, Finished, HostCall, Journal, Outcome, Work};
use crate::fault::{Fault, FaultKind, Hope};
use crate::host_call::Known;
use crate::id::{Digest, MessageId, RoleId, RunId, Slot};
use crate::message::{IDEA_LABEL, IDEMPOTENCY_KEY, Message, TO_ALL};
use crate::money::Usd;
use crate::rules::Rules;
use crate::team::{Retry, Role, Task};

/// The limit up to which pauses before retries are doubled, in milliseconds. A configured pause
/// that is longer stays as it is.
const MAX_BACKOFF_MS: u32 = 60_000;

impl Stepper {
    /// Returns the event that starts a run: its idea goes to all roles that watch for it.
    pub fn started(&self, run: RunId, idea: String, components: BTreeMap<Slot, Digest>) -> Event {
        let message = Message::of_user("idea".into(), idea.clone(), IDEA_LABEL.into());
        Event::RunStarted {
            run,
            idea,
            budget: self.team.policy.budget,
            components,
            routed: self.route_in(&message),
            checkpoint: self.env.next_checkpoint(),
            rules: Rules::of(&self.given),
        }
    }

    /// Returns the event that resumes a run. It lists the finished calls of open activations.
    pub fn resumed(&self, budget: Option<Usd>, calls: CallPolicy) -> Event {
        self.resumed_with(self.env.spent, budget, calls)
    }

    /// Returns the event that resumes a run when other lineages have spent money as well. `spent`
    /// is the total.
    pub fn resumed_with(&self, spent: Usd, budget: Option<Usd>, calls: CallPolicy) -> Event {
        let mut kept = Vec::new();
        for (id, activation) in self.env.activations() {
            kept.extend(activation.done.iter().map(|done| (id, done.work)));
        }
        Event::RunResumed {
            checkpoint: self.env.checkpoint.clone(),
            step: self.env.step,
            budget,
            calls,
            kept,
            rules: Rules::of(&self.given),
            spent: spent.max(self.env.spent),
        }
    }

    /// Returns the earlier message from outside that has the same idempotency key as this one, if
    /// it has a key.
    pub fn came_before(&mut self, message: &Message) -> Option<&MessageId> {
        // A key that is `null` or empty counts as none.
        let key = message
            .meta
            .get(IDEMPOTENCY_KEY)
            .filter(|key| !matches!(key.as_str(), "null" | "\"\""))?;
        let known = self.recall.under(&self.env, key.as_str())?;
        Some(&self.env.message(known).id)
    }

    /// Returns the event of a message from outside, e.g. from the operator. It gets its id here,
    /// and has no sender in the team, whatever it claims.
    pub fn sent(&self, mut message: Message) -> Event {
        message.id = self.env.next_sent();
        message.set_claims_aside();
        if message.send_to.is_empty() {
            message.send_to.push(TO_ALL.into());
        }
        let routed = self.route_in(&message);
        Event::MessageSent { message, routed }
    }

    fn route_in(&self, message: &Message) -> crate::event::Routed {
        let addressed = if message.send_to == [TO_ALL] {
            Addressed::Open
        } else {
            Addressed::Named
        };
        let parcel = Parcel {
            message,
            from: None,
            addressed,
            itinerary: message.route.clone(),
        };
        // Only senders in the team have routes, so no condition is evaluated.
        route(&self.team, &self.book, parcel, &mut WorkBudget::default())
    }

    /// Returns the event that starts an attempt.
    pub fn call_started(&self, call: &Invocation) -> Event {
        Event::CallStarted {
            role: call.role,
            work: call.work,
            attempt: call.attempt,
            digest: call.digest.clone(),
            journal: call.journal,
            forgotten: self.forgotten(call),
        }
    }

    /// Returns descriptions of the external writes that an attempt may repeat because it starts
    /// without the recorded host calls.
    fn forgotten(&self, call: &Invocation) -> Vec<String> {
        let activation = self
            .env
            .role(call.role)
            .activation
            .as_ref()
            .filter(|_| call.journal == Journal::Fresh);
        let begun = activation.map_or(&[][..], |activation| &activation.current.begun);
        let recorded = begun.iter().filter(|begun| begun.result == Known::Recorded);
        recorded.map(|begun| begun.intent.what.clone()).collect()
    }

    /// Returns the event that ends the current attempt of a role, or `None` if there is none. An
    /// invalid result becomes a fault.
    pub fn call_ended(&self, id: RoleId, result: Result<Finished, Fault>) -> Option<Event> {
        let activation = self.env.role(id).activation.as_ref()?;
        let role = self.team.role(id);
        let work = activation.work(role)?;
        if activation.phase != Phase::Running {
            return None;
        }
        let attempt = activation.current.attempts;
        let fault = match result.and_then(|finished| sensible(role, finished)) {
            Ok(result) => {
                return Some(Event::CallFinished {
                    role: id,
                    work,
                    attempt,
                    result,
                });
            }
            Err(fault) => with_flawed_reply(fault, &activation.current.journal),
        };
        let digest = self.component(id, work).cloned();
        // A call in doubt is not retried automatically.
        let retry_ms = if activation.leaves_doubts() {
            None
        } else {
            pause(&fault, retry(role, work), activation.current.failures)
        };
        Some(Event::CallFailed {
            role: id,
            work,
            attempt,
            digest,
            fault,
            retry_ms,
        })
    }
}

/// Adds to a failure that the component caused itself that a reply of a model was truncated or
/// refused, since that may be the reason. Host calls that failed for that reason say so themselves.
fn with_flawed_reply(mut fault: Fault, calls: &[HostCall]) -> Fault {
    let answered = calls
        .iter()
        .rev()
        .filter(|call| call.outcome == Outcome::Answered);
    let flaw = answered.filter_map(|call| call.finish?.flaw()).next();
    if let Some(flaw) = flaw.filter(|_| !fault.kind.keeps_calls()) {
        let summary = fault.message.lines().next().map_or(0, str::len);
        fault.message.insert_str(
            summary,
            &format!("; a reply of the model {}", flaw.described()),
        );
    }
    fault
}

/// Refuses choices and plans that name something that does not exist.
fn sensible(role: &Role, finished: Finished) -> Result<Finished, Fault> {
    match &finished {
        Finished::Chosen(choice) if *choice < -1 || *choice >= role.actions.len() as i32 => {
            let count = role.actions.len();
            let message =
                format!("chose action {choice} of {count}; indices count from 0, and -1 stops");
            Err(Fault::new(FaultKind::Think, message))
        }
        Finished::Planned { tasks, .. } => match idle_task(role, tasks) {
            Some(task) => {
                let who = task
                    .action
                    .as_deref()
                    .map_or("nobody".into(), |name| format!("`{}`", beginning(name)));
                let task = beginning(&task.text);
                let message = format!(
                    "planned the task `{task}` for {who}; workers are all actions but the first"
                );
                Err(Fault::new(FaultKind::OutputInvalid, message))
            }
            None => Ok(finished),
        },
        _ => Ok(finished),
    }
}

/// Returns the beginning of a guest's text, enough to recognise it in a message.
fn beginning(text: &str) -> String {
    const CHARS: usize = 200;
    text.chars().take(CHARS).collect()
}

/// Returns the first task that no worker of the role can carry out.
pub(super) fn idle_task<'a>(role: &Role, tasks: &'a [Task]) -> Option<&'a Task> {
    let workers = || role.actions.iter().skip(1);
    let done = |task: &Task| match &task.action {
        Some(name) => workers().any(|action| action.name == *name),
        None => workers().next().is_some(),
    };
    tasks.iter().find(|task| !done(task))
}

/// Returns how often the calls of a role are retried.
pub fn retry(role: &Role, work: Work) -> Retry {
    match work {
        Work::Think { .. } | Work::Answer => Retry {
            retries: 0,
            backoff_ms: 0,
        },
        Work::Plan => role.actions[0].retry,
        Work::Act { action, .. } => role.action(action).retry,
    }
}

/// Returns the pause before the next attempt in milliseconds, doubled with each failure, or `None`
/// if there is no further attempt.
fn pause(fault: &Fault, retry: Retry, failures: u32) -> Option<u32> {
    let again = fault.hope == Hope::Retryable && failures < retry.retries;
    again.then(|| {
        retry
            .backoff_ms
            .saturating_mul(1 << failures.min(16))
            .min(MAX_BACKOFF_MS.max(retry.backoff_ms))
    })
}
