//! Calls whose outcome is in doubt when a run is resumed: what the operator decides about them, and
//! what becomes of recorded writes.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::event::{AttemptEvent, ComponentChanged, DoubtSettled, Event};
use strata_core::record::host_call::{
    CallPolicy, DoubtResolution, HostCallKind, RecordedCallUse, WriteResult,
};
use strata_core::state::activation::OpenCall;

use strata_core::record::json;
use strata_core::record::work::CallKey;
use strata_manifest::Definition;
use strata_services::http::{HttpResponse, parse_operator_response};
use strata_services::mcp::config::DoubtDefault;
use strata_services::mcp::{operator_answer, skipped_answer, unknown_answer};

use strata_view::{CallInDoubt, action_name_of, calls_in_doubt};

use super::LaunchError;

/// What the operator decides about calls in doubt.
///
/// A program gives the call and the verdict apart. The command line gives them as one text, which is
/// kept until it is known which calls are in doubt: names and responses may contain `=`.
///
/// ```
/// use strata_host::launch::{DoubtDecision, DoubtVerdict};
///
/// let one = DoubtDecision::Call {
///     call: "Clerk.Order".into(),
///     verdict: DoubtVerdict::Skip,
/// };
/// let others = DoubtDecision::All(DoubtVerdict::Redo);
/// assert_eq!(one.to_string(), "Clerk.Order=skip");
/// assert_eq!(others.to_string(), DoubtDecision::from("redo").to_string());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoubtDecision {
    /// About all calls in doubt that no other decision is about. There may be one such decision.
    All(DoubtVerdict),
    /// About one call.
    Call {
        /// The name of the call: [`CallInDoubt::id`].
        call: String,
        /// What becomes of it.
        verdict: DoubtVerdict,
    },
    /// `redo`, `skip`, `unknown` or an answer in JSON, as text. If it is about one call, the name of the call
    /// and `=` precede it.
    Text(String),
}

/// What becomes of a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoubtVerdict {
    /// It is made again.
    Redo,
    /// It counts as answered by an empty response with the status 0.
    Skip,
    /// It counts as answered by this response.
    Response(HttpResponse),
    /// Its caller, a model, is told that the result is unknown.
    Unknown,
    /// It counts as answered by what this means for such a call: a response of a web server, or the result of
    /// a tool.
    Answer(Value),
}

impl DoubtDecision {
    /// Returns the name of the call that this is about; `None` if it is about all of them.
    fn call_name<'a>(&'a self, doubts: &[CallInDoubt]) -> Option<&'a str> {
        match self {
            Self::All(_) => None,
            Self::Call { call, .. } => Some(call),
            Self::Text(text) => {
                let is_named = |doubt: &&CallInDoubt| {
                    text.strip_prefix(&doubt.id)
                        .is_some_and(|rest| rest.starts_with('='))
                };
                // Names may contain equal signs. The longest matching name wins.
                let named = doubts
                    .iter()
                    .filter(is_named)
                    .max_by_key(|doubt| doubt.id.len())?;
                Some(&text[..named.id.len()])
            }
        }
    }

    /// Returns the verdict. Fails if it is a text that is none.
    fn verdict(&self, doubts: &[CallInDoubt]) -> Result<DoubtVerdict, LaunchError> {
        let text = match self {
            Self::All(verdict) | Self::Call { verdict, .. } => return Ok(verdict.clone()),
            Self::Text(text) => text,
        };
        let words = self.words(text, doubts);
        parse_verdict(words).map_err(|why| {
            LaunchError::InvalidInput(format!(
                "`--in-doubt {words}` is neither `redo`, `skip` nor `unknown`, nor an answer in JSON ({why}); in doubt \
                 is {}",
                list_names(doubts)
            ))
        })
    }

    /// Returns what becomes of a call that this is about.
    fn resolution(
        &self,
        about: &CallInDoubt,
        doubts: &[CallInDoubt],
    ) -> Result<DoubtResolution, LaunchError> {
        let verdict = self.verdict(doubts)?;
        verdict.resolution(about).map_err(|why| match self {
            Self::All(_) | Self::Call { .. } => {
                LaunchError::InvalidInput(format!("the response `{verdict}` is not valid: {why}"))
            }
            Self::Text(text) => LaunchError::InvalidInput(format!(
                "`--in-doubt {}` cannot decide `{}`: {why}",
                self.words(text, doubts),
                about.id
            )),
        })
    }

    /// Returns a text without the name of the call.
    fn words<'a>(&self, text: &'a str, doubts: &[CallInDoubt]) -> &'a str {
        match self.call_name(doubts) {
            Some(name) => &text[name.len() + 1..],
            None => text,
        }
    }
}

impl From<String> for DoubtDecision {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for DoubtDecision {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for DoubtDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(verdict) => verdict.fmt(f),
            Self::Call { call, verdict } => write!(f, "{call}={verdict}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl DoubtVerdict {
    /// Returns what is recorded about a call. Fails with a description if that cannot be its answer.
    fn resolution(&self, about: &CallInDoubt) -> Result<DoubtResolution, String> {
        if about.kind == HostCallKind::Mcp {
            return self.tool_resolution(about);
        }
        Ok(match self {
            Self::Redo => DoubtResolution::Redo,
            Self::Skip => DoubtResolution::Answer(HttpResponse::default().to_json()),
            Self::Response(response) => {
                let read = HttpResponse::from_json(&response.to_json())?;
                DoubtResolution::Answer(read.to_json())
            }
            Self::Answer(value) => {
                DoubtResolution::Answer(parse_operator_response(value)?.to_json())
            }
            Self::Unknown => return Err("only a model can be told that a result is unknown".into()),
        })
    }

    /// Returns what is recorded about a call of a tool of an MCP server.
    fn tool_resolution(&self, about: &CallInDoubt) -> Result<DoubtResolution, String> {
        let answer = match self {
            Self::Redo => return Ok(DoubtResolution::Redo),
            Self::Skip => skipped_answer(),
            Self::Response(response) => operator_answer(&response.to_json().value()),
            Self::Answer(value) => operator_answer(value),
            Self::Unknown if about.can_be_unknown() => unknown_answer(),
            Self::Unknown => return Err("only a model can be told that a result is unknown".into()),
        };
        Ok(DoubtResolution::Answer(answer))
    }
}

/// Parses what the command line gives: `redo`, `skip`, `unknown` or an answer in JSON.
fn parse_verdict(text: &str) -> Result<DoubtVerdict, String> {
    match text {
        "redo" => Ok(DoubtVerdict::Redo),
        "skip" => Ok(DoubtVerdict::Skip),
        "unknown" => Ok(DoubtVerdict::Unknown),
        _ => {
            let value = json::parse_decision(text).map_err(|error| format!("it is {error}"))?;
            Ok(DoubtVerdict::Answer(value))
        }
    }
}

impl fmt::Display for DoubtVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redo => f.write_str("redo"),
            Self::Skip => f.write_str("skip"),
            Self::Unknown => f.write_str("unknown"),
            Self::Response(response) => f.write_str(response.to_json().as_str()),
            Self::Answer(value) => value.fmt(f),
        }
    }
}

/// Decides the calls in doubt of a run that is resumed. The events are returned in an order in which
/// they can be applied.
pub(super) fn resolve_doubts(
    stepper: &Stepper,
    decisions: &[DoubtDecision],
    calls: CallPolicy,
    definition: &Definition,
) -> Result<Vec<Event>, LaunchError> {
    let reported = servers_with_unknown_results(definition);
    let doubts = calls_in_doubt(stepper);
    let mut decided = decide(&doubts, decisions)?;
    if calls == CallPolicy::Fresh
        && decided
            .iter()
            .any(|(_, resolution)| matches!(resolution, DoubtResolution::Answer(_)))
    {
        let why =
            "`--calls fresh` forgets all answers, also one given with `--in-doubt`; leave it out";
        return Err(LaunchError::InvalidInput(why.into()));
    }
    for doubt in doubts {
        let is_open = !decided.iter().any(|(other, _)| other.id == doubt.id);
        if is_open && is_reported_as_unknown(&doubt, &reported) {
            decided.push((doubt, DoubtResolution::Answer(unknown_answer())));
        }
    }
    // Sorted from the last to the first, so that an event does not change the places of the
    // following ones.
    decided.sort_by_key(|(doubt, _)| (doubt.call, std::cmp::Reverse(doubt.index)));
    Ok(decided
        .into_iter()
        .filter_map(|(doubt, resolution)| doubt_settled_event(doubt, resolution))
        .collect())
}

/// Returns the MCP servers of a team of whose lost answers models are told, as the team file says.
fn servers_with_unknown_results(definition: &Definition) -> BTreeSet<String> {
    let servers = definition.mcp.iter();
    let reported = servers.filter(|(_, server)| server.in_doubt == DoubtDefault::Unknown);
    reported.map(|(name, _)| name.clone()).collect()
}

/// Returns whether a model is told that the result of a call is unknown. `servers` are those for which that is
/// so.
fn is_reported_as_unknown(doubt: &CallInDoubt, servers: &BTreeSet<String>) -> bool {
    let server = doubt.description.split_once('/');
    doubt.call.work.calls_server() && server.is_some_and(|(server, _)| servers.contains(server))
}

/// Returns what becomes of each call in doubt that a decision is about.
fn decide(
    doubts: &[CallInDoubt],
    decisions: &[DoubtDecision],
) -> Result<Vec<(CallInDoubt, DoubtResolution)>, LaunchError> {
    let mut open = doubts.to_vec();
    let mut decided = Vec::new();
    // A decision about one call takes precedence over one about all.
    for decision in decisions {
        let Some(name) = decision.call_name(doubts) else {
            continue;
        };
        let Some(at) = open.iter().position(|doubt| doubt.id == name) else {
            let is_known = doubts.iter().any(|doubt| doubt.id == name);
            return Err(LaunchError::InvalidInput(if is_known {
                format!("`{decision}`: that call was settled before")
            } else {
                format!(
                    "`{name}` is not in doubt; in doubt is {}",
                    list_names(doubts)
                )
            }));
        };
        let doubt = open.remove(at);
        let resolution = decision.resolution(&doubt, doubts)?;
        decided.push((doubt, resolution));
    }
    let mut about_all: Option<&DoubtDecision> = None;
    for decision in decisions {
        if decision.call_name(doubts).is_some() {
            continue;
        }
        decision.verdict(doubts)?;
        if let Some(first) = about_all.replace(decision) {
            return Err(LaunchError::InvalidInput(format!(
                "`{first}` and `{decision}` are both about all calls in doubt; give one of them, or name the call"
            )));
        }
        for doubt in open.drain(..) {
            let resolution = decision.resolution(&doubt, doubts)?;
            decided.push((doubt, resolution));
        }
    }
    Ok(decided)
}

/// Lists the names of calls in doubt.
fn list_names(doubts: &[CallInDoubt]) -> String {
    if doubts.is_empty() {
        return "nothing".into();
    }
    let names: Vec<String> = doubts
        .iter()
        .map(|doubt| format!("`{}`", doubt.id))
        .collect();
    names.join(", ")
}

fn doubt_settled_event(doubt: CallInDoubt, resolution: DoubtResolution) -> Option<Event> {
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
            resolution,
        }),
    ))
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
            .filter(|write| write.result == WriteResult::Recorded);
        let writes: Vec<String> = recorded
            .map(|write| format!("`{}`", write.intent.description))
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

#[cfg(test)]
mod tests {
    use strata_core::record::id::RoleId;
    use strata_core::record::work::Work;

    use super::*;

    fn doubts() -> Vec<CallInDoubt> {
        let doubt = |id: &str, index| CallInDoubt {
            id: id.into(),
            description: "POST http://a/x".into(),
            call: CallKey::new(RoleId(0), Work::Plan),
            kind: HostCallKind::Http,
            index,
        };
        vec![
            doubt("A.p", 0),
            doubt("A.p:2", 1),
            doubt("A.q", 2),
            doubt("A.q=x", 3),
        ]
    }

    fn check(decisions: &[DoubtDecision], expected: Result<&[(&str, &str)], &str>) {
        let shown = |(doubt, resolution): (CallInDoubt, DoubtResolution)| match resolution {
            DoubtResolution::Redo => (doubt.id, "redo".to_owned()),
            DoubtResolution::Answer(answer) => (doubt.id, answer.value()["status"].to_string()),
        };
        match (decide(&doubts(), decisions), expected) {
            (Ok(decided), Ok(expected)) => {
                let decided: Vec<(String, String)> = decided.into_iter().map(shown).collect();
                let expected: Vec<(String, String)> = expected
                    .iter()
                    .map(|(id, what)| ((*id).into(), (*what).into()))
                    .collect();
                assert_eq!(decided, expected, "{decisions:?}");
            }
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{decisions:?}: {error}");
            }
            (found, expected) => panic!("{decisions:?}: {found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_decision_about_one_call_precedes_one_about_all() {
        let one = |call: &str, verdict| DoubtDecision::Call {
            call: call.into(),
            verdict,
        };
        let all = [
            ("A.q=x", "0"),
            ("A.p", "redo"),
            ("A.p:2", "redo"),
            ("A.q", "redo"),
        ];
        check(&["redo".into(), "A.q=x=skip".into()], Ok(&all));
        check(
            &[
                DoubtDecision::All(DoubtVerdict::Redo),
                one("A.q=x", DoubtVerdict::Skip),
            ],
            Ok(&all),
        );
        let response = HttpResponse {
            status: 201,
            ..HttpResponse::default()
        };
        check(
            &[one("A.p", DoubtVerdict::Response(response))],
            Ok(&[("A.p", "201")]),
        );
        check(&["A.p:2={\"status\":201}".into()], Ok(&[("A.p:2", "201")]));
        check(&["A.q=skip".into()], Ok(&[("A.q", "0")]));
        check(&[], Ok(&[]));
    }

    #[test]
    fn an_invalid_decision_is_refused_with_what_is_in_doubt() {
        let names = "in doubt is `A.p`, `A.p:2`, `A.q`, `A.q=x`";
        check(&["again".into()], Err(names));
        check(&["A.p=again".into()], Err("`--in-doubt again` is neither"));
        check(
            &["A.p=redo".into(), "A.p=skip".into()],
            Err("`A.p=skip`: that call was settled before"),
        );
        let unknown = DoubtDecision::Call {
            call: "B.p".into(),
            verdict: DoubtVerdict::Redo,
        };
        check(&[unknown], Err("`B.p` is not in doubt; in doubt is `A.p`"));
        check(
            &["redo".into(), DoubtDecision::All(DoubtVerdict::Skip)],
            Err("`redo` and `skip` are both about all calls in doubt"),
        );
        let no_status = HttpResponse {
            status: 1000,
            ..HttpResponse::default()
        };
        check(
            &[DoubtDecision::All(DoubtVerdict::Response(no_status))],
            Err("is not valid: `1000` is no status"),
        );
    }
}
