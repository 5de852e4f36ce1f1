//! Calls whose outcome is in doubt when a run is resumed: what the operator decides about them, and
//! what becomes of recorded writes.

use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::event::{AttemptEvent, ComponentChanged, DoubtSettled, Event};
use strata_core::record::host_call::{CallPolicy, DoubtResolution, RecordedCallUse, WriteResult};
use strata_core::state::activation::OpenCall;

use strata_core::record::json;
use strata_core::record::work::CallKey;

use super::LaunchError;
use crate::services::http::{HttpResponse, parse_operator_response};

/// A call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInDoubt {
    /// The name that the operator uses: `ROLE.ACTION`, followed by `:2` and so on if the action has
    /// several.
    pub id: String,
    /// The call, for example `POST https://example.com/orders`.
    pub description: String,
    call: CallKey,
    index: usize,
}

/// Returns the calls in doubt.
pub fn calls_in_doubt(stepper: &Stepper) -> Vec<CallInDoubt> {
    let mut doubts: Vec<CallInDoubt> = Vec::new();
    for (call, index, begun) in stepper.env().writes_in_doubt(stepper.team()) {
        let name = action_name_of(stepper, call);
        // Calls of one action may be open in several activations, and several times in one.
        let nth = 1 + doubts
            .iter()
            .filter(|doubt| action_name_of(stepper, doubt.call) == name)
            .count();
        let id = if nth == 1 {
            name
        } else {
            format!("{name}:{nth}")
        };
        doubts.push(CallInDoubt {
            id,
            description: begun.intent.description.clone(),
            call,
            index,
        });
    }
    doubts
}

/// Returns `ROLE.ACTION` for a call.
fn action_name_of(stepper: &Stepper, call: CallKey) -> String {
    let role = stepper.team().role(call.role);
    let slot = component_slot(role, call.role, call.work);
    slot.map_or_else(|| role.name.clone(), |slot| stepper.team().slot_name(slot))
}

/// Decides the calls in doubt of a run that is resumed. Each element of `given` is `redo`, `skip`
/// or a response; it applies to all calls, or to one if its name and `=` precede it. The events are
/// returned in an order in which they can be applied.
pub(super) fn resolve_doubts(
    stepper: &Stepper,
    arguments: &[String],
    calls: CallPolicy,
) -> Result<Vec<Event>, LaunchError> {
    let mut open = calls_in_doubt(stepper);
    let mut settled: Vec<(CallInDoubt, DoubtResolution)> = Vec::new();
    // A decision about one call takes precedence over one about all.
    let (named, general) = arguments
        .iter()
        .partition::<Vec<&String>, _>(|words| split_call_name(&open, words).is_some());
    for words in named {
        let Some((at, verdict)) = split_call_name(&open, words) else {
            return Err(LaunchError::InvalidInput(format!(
                "`{words}`: that call was settled before"
            )));
        };
        settled.push((open.remove(at), parse_verdict(verdict, stepper)?));
    }
    for words in general {
        let verdict = parse_verdict(words, stepper)?;
        settled.extend(open.drain(..).map(|doubt| (doubt, verdict.clone())));
    }
    if calls == CallPolicy::Fresh
        && settled
            .iter()
            .any(|(_, verdict)| matches!(verdict, DoubtResolution::Answer(_)))
    {
        let why =
            "`--calls fresh` forgets all answers, also one given with `--in-doubt`; leave it out";
        return Err(LaunchError::InvalidInput(why.into()));
    }
    // Sorted from the last to the first, so that an event does not change the places of the
    // following ones.
    settled.sort_by_key(|(doubt, _)| (doubt.call, std::cmp::Reverse(doubt.index)));
    Ok(settled
        .into_iter()
        .filter_map(|(doubt, verdict)| doubt_settled_event(doubt, verdict))
        .collect())
}

fn doubt_settled_event(doubt: CallInDoubt, verdict: DoubtResolution) -> Option<Event> {
    let CallInDoubt {
        call,
        index,
        description,
        ..
    } = doubt;
    Some(Event::Attempt(
        call,
        AttemptEvent::DoubtSettled(DoubtSettled {
            index: u32::try_from(index).ok()?,
            description,
            resolution: verdict,
        }),
    ))
}

/// Returns the call that a decision is about, and the rest of its text.
fn split_call_name<'a>(open: &[CallInDoubt], words: &'a str) -> Option<(usize, &'a str)> {
    let about = |doubt: &CallInDoubt| words.strip_prefix(&doubt.id)?.strip_prefix('=');
    open.iter()
        .enumerate()
        .find_map(|(at, doubt)| about(doubt).map(|verdict| (at, verdict)))
}

fn parse_verdict(words: &str, stepper: &Stepper) -> Result<DoubtResolution, LaunchError> {
    let answer = |response: HttpResponse| DoubtResolution::Answer(response.to_json());
    match words {
        "redo" => Ok(DoubtResolution::Redo),
        "skip" => Ok(answer(HttpResponse::default())),
        _ => {
            let response = json::parse_untrusted(words).map_err(|error| format!("it is {error}"));
            response.and_then(|value| parse_operator_response(&value)).map(answer).map_err(|why| {
                let names: Vec<String> = calls_in_doubt(stepper).into_iter().map(|doubt| format!("`{}`", doubt.id)).collect();
                let known = if names.is_empty() { "nothing".into() } else { names.join(", ") };
                LaunchError::InvalidInput(format!(
                    "`--in-doubt {words}` is neither `redo` nor `skip` nor a response in JSON ({why}); in doubt is {known}"
                ))
            })
        }
    }
}

/// Returns what the operator should know about recorded writes before the run continues. If records
/// are discarded, that is reported when it happens.
pub(super) fn recorded_writes(stepper: &Stepper, changed: &[Event]) -> Vec<String> {
    let team = stepper.team();
    let note_for = |(call, open): (CallKey, OpenCall<'_>)| {
        let at = component_slot(team.role(call.role), call.role, call.work);
        let recorded = open
            .progress
            .external_writes
            .iter()
            .filter(|begun| begun.result == WriteResult::Recorded);
        let writes: Vec<String> = recorded
            .map(|begun| format!("`{}`", begun.intent.description))
            .collect();
        if writes.is_empty() || !open.phase.is_ready() {
            return None;
        }
        let (name, writes) = (action_name_of(stepper, call), writes.join(", "));
        let replaced = |event: &Event| matches!(event, Event::ComponentChanged(ComponentChanged { slot, .. }) if Some(*slot) == at);
        let served = stepper.call_reuse(open.progress) == RecordedCallUse::Reuse
            && changed.iter().any(replaced);
        served.then(|| format!("writes are recorded for {name}, and served if its new component makes them: {writes}"))
    };
    stepper
        .env()
        .open_calls(team)
        .filter_map(note_for)
        .collect()
}
