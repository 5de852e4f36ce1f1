//! Calls whose outcome is in doubt when a run is resumed: what the operator decides about them, and
//! what becomes of recorded writes.

use strata_core::activation::Activation;
use strata_core::event::{CallPolicy, Event, Journal};
use strata_core::host_call::{Known, Verdict};
use strata_core::id::RoleId;
use strata_core::json;
use strata_core::stepper::{Stepper, slot};

use super::LaunchError;
use crate::services::http::{Response, operators};

/// A call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The name that the operator uses: `ROLE.ACTION`, followed by `:2` and so on if the action has
    /// several.
    pub id: String,
    /// The call, for example `POST https://example.com/orders`.
    pub what: String,
    role: RoleId,
    place: usize,
}

/// Returns the calls in doubt.
pub fn doubts(stepper: &Stepper) -> Vec<Doubt> {
    let mut doubts: Vec<Doubt> = Vec::new();
    for (role, place, begun) in stepper.env().doubts() {
        let name = name(stepper, role);
        let nth = 1 + doubts.iter().filter(|doubt| doubt.role == role).count();
        let id = if nth == 1 {
            name
        } else {
            format!("{name}:{nth}")
        };
        doubts.push(Doubt {
            id,
            what: begun.intent.what.clone(),
            role,
            place,
        });
    }
    doubts
}

/// Returns `ROLE.ACTION` for the current work of a role.
fn name(stepper: &Stepper, id: RoleId) -> String {
    let role = stepper.team().role(id);
    let work = stepper
        .env()
        .role(id)
        .activation
        .as_ref()
        .and_then(|activation| activation.work(role));
    let slot = work.and_then(|work| slot(role, id, work));
    slot.map_or_else(|| role.name.clone(), |slot| stepper.team().slot_name(slot))
}

/// Decides the calls in doubt of a run that is resumed. Each element of `given` is `redo`, `skip`
/// or a response; it applies to all calls, or to one if its name and `=` precede it. The events are
/// returned in an order in which they can be applied.
pub(super) fn settle(
    stepper: &Stepper,
    given: &[String],
    calls: CallPolicy,
) -> Result<Vec<Event>, LaunchError> {
    let mut open = doubts(stepper);
    let mut settled: Vec<(Doubt, Verdict)> = Vec::new();
    // A decision about one call takes precedence over one about all.
    let (named, general) = given
        .iter()
        .partition::<Vec<&String>, _>(|words| one(&open, words).is_some());
    for words in named {
        let Some((at, verdict)) = one(&open, words) else {
            return Err(LaunchError::Missing(format!(
                "`{words}`: that call was settled before"
            )));
        };
        settled.push((open.remove(at), read(verdict, stepper)?));
    }
    for words in general {
        let verdict = read(words, stepper)?;
        settled.extend(open.drain(..).map(|doubt| (doubt, verdict.clone())));
    }
    if calls == CallPolicy::Fresh
        && settled
            .iter()
            .any(|(_, verdict)| matches!(verdict, Verdict::Answer(_)))
    {
        let why =
            "`--calls fresh` forgets all answers, also one given with `--in-doubt`; leave it out";
        return Err(LaunchError::Missing(why.into()));
    }
    // Sorted from the last to the first, so that an event does not change the places of the
    // following ones.
    settled.sort_by_key(|(doubt, _)| (doubt.role, std::cmp::Reverse(doubt.place)));
    Ok(settled
        .into_iter()
        .filter_map(|(doubt, verdict)| event(stepper, doubt, verdict))
        .collect())
}

fn event(stepper: &Stepper, doubt: Doubt, verdict: Verdict) -> Option<Event> {
    let Doubt {
        role, place, what, ..
    } = doubt;
    let activation = stepper.env().role(role).activation.as_ref()?;
    let work = activation.work(stepper.team().role(role))?;
    Some(Event::DoubtSettled {
        role,
        work,
        place: u32::try_from(place).ok()?,
        what,
        verdict,
    })
}

/// Returns the call that a decision is about, and the rest of its text.
fn one<'a>(open: &[Doubt], words: &'a str) -> Option<(usize, &'a str)> {
    let about = |doubt: &Doubt| words.strip_prefix(&doubt.id)?.strip_prefix('=');
    open.iter()
        .enumerate()
        .find_map(|(at, doubt)| about(doubt).map(|verdict| (at, verdict)))
}

fn read(words: &str, stepper: &Stepper) -> Result<Verdict, LaunchError> {
    let answer = |response: Response| Verdict::Answer(response.to_json());
    match words {
        "redo" => Ok(Verdict::Redo),
        "skip" => Ok(answer(Response::default())),
        _ => {
            let response = json::read(words).map_err(|error| format!("it is {error}"));
            response.and_then(|value| operators(&value)).map(answer).map_err(|why| {
                let names: Vec<String> = doubts(stepper).into_iter().map(|doubt| format!("`{}`", doubt.id)).collect();
                let known = if names.is_empty() { "nothing".into() } else { names.join(", ") };
                LaunchError::Missing(format!(
                    "`--in-doubt {words}` is neither `redo` nor `skip` nor a response in JSON ({why}); in doubt is {known}"
                ))
            })
        }
    }
}

/// Returns what the operator should know about recorded writes before the run continues. If records
/// are discarded, that is reported when it happens.
pub(super) fn recorded_writes(stepper: &Stepper, changed: &[Event]) -> Vec<String> {
    let note_for = |(id, activation): (RoleId, &Activation)| {
        let role = stepper.team().role(id);
        let at = activation.work(role).and_then(|work| slot(role, id, work));
        let recorded = activation
            .current
            .begun
            .iter()
            .filter(|begun| begun.result == Known::Recorded);
        let writes: Vec<String> = recorded
            .map(|begun| format!("`{}`", begun.intent.what))
            .collect();
        if writes.is_empty() || !activation.phase.is_ready() {
            return None;
        }
        let (name, writes) = (name(stepper, id), writes.join(", "));
        let replaced = |event: &Event| matches!(event, Event::ComponentChanged { slot, .. } if Some(*slot) == at);
        let served = stepper.journal(activation) == Journal::Keep && changed.iter().any(replaced);
        served.then(|| format!("writes are recorded for {name}, and served if its new component makes them: {writes}"))
    };
    stepper.env().activations().filter_map(note_for).collect()
}
