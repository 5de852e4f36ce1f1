//! A fault, told to the operator: what failed, where, why, what it did last, and how it can be mended.

use strata_core::activation::{Activation, Phase};
use strata_core::event::{HostCall, Outcome, Work};
use strata_core::fault::{Fault, FaultKind, Hope};
use strata_core::id::RoleId;
use strata_core::stepper::{Stepper, retry, slot};

use super::plain::plain;
use super::reporter::place;
use super::terminal::{BAD, note, painted};
use super::{preview, shown};
use crate::build::script;
use crate::driver::{NO_MODEL, NO_SCOPE, OWN_BUDGET};
use crate::launch::{Made, Makings};
use crate::plugin::RAISE;
use crate::sandbox::{KEEPING, LINKED, OWN, STAGING};
use crate::services::llm::{UNRECORDED, UNSCRIPTED};

/// What to think of besides the limit where computing took too long.
const LOOP: &str = "if the action loops without end, a higher limit does not help: fix the action";
/// How many frames of a guest's stack are shown.
const FRAMES: usize = 8;
/// Where Rust goes to panic: of no use to who looks for the place it came from.
const PANICKING: [&str; 4] = ["__rustc::", "core::panicking::", "std::panicking::", "std::sys::backtrace::"];
/// How many of the last calls of the host are shown.
const CALLS: usize = 5;
/// How much of what came back from one is shown.
const PREVIEW: usize = 60;
/// How many of the results that are kept are named.
const NAMED: usize = 6;

/// How the run goes on after a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// With another command.
    Resumed,
    /// By itself, once a file that is watched has changed.
    Watched,
}

/// What to do about a fault.
pub(super) struct Cure {
    /// The action, as `--component` names it; none where another component does not help.
    pub(super) component: Option<String>,
    /// Whether the team file is to be changed.
    pub(super) file: bool,
    /// It in words.
    words: Option<String>,
}

/// Tells of a role's fault, and says what can be done.
pub(super) fn tell(stepper: &Stepper, id: RoleId, makings: &Makings, then: Then) -> Option<Cure> {
    let activation = stepper.env().role(id).activation.as_ref()?;
    let Phase::Failed(fault) = &activation.phase else { return None };
    // Who stopped the run knows why, and the end of it says how to go on.
    if fault.kind == FaultKind::Interrupted {
        return None;
    }
    let role = stepper.team().role(id);
    let work = activation.work(role);
    let (index, action) = place(role, work);
    let kind = fault.kind;
    let message = plain(&fault.message);
    let cause = message.lines().next().unwrap_or_default();
    let attempt = activation.current.attempts;
    let head = painted(BAD, "fault:");
    let at = match index {
        0.. => format!("{} action {index} `{action}`", role.name),
        // Where no action is called, what is done names itself.
        _ => format!("{} `{action}`", role.name),
    };
    note(format_args!("{head} {at} attempt {attempt}: {kind}: {cause}"));
    message.lines().skip(1).for_each(|line| note(format_args!("    {line}")));
    section("stack of the guest, innermost first", frames(&fault.backtrace).iter().take(FRAMES).cloned(), on_stderr);
    section("what it logged last", fault.log.iter().cloned(), on_stderr);
    let calls = &activation.current.journal;
    section(
        "its last host calls and their results",
        calls[calls.len().saturating_sub(CALLS)..].iter().map(called),
        on_stderr,
    );
    let made = work.and_then(|work| slot(role, id, work)).and_then(|slot| makings.made(slot));
    let retries = work.map_or(0, |work| retry(role, work).retries);
    let cure = cure(fault, (&format!("{}.{action}", role.name), retries), made, then);
    section("how to fix it", cure.words.iter().cloned(), on_stderr);
    Some(cure)
}

/// What helps against a fault. A limit that was reached is named by the fault itself, whatever its kind.
fn cure(fault: &Fault, (name, retries): (&str, u32), made: Option<&Made>, then: Then) -> Cure {
    let place = made.map(|made| format!(" ({})", made.place)).unwrap_or_default();
    let in_file = |words: Option<String>| Cure { component: None, file: true, words };
    let of_limit = |words| Cure { component: component(name, made), ..in_file(words) };
    match fault.kind {
        FaultKind::Fuel | FaultKind::Cpu => of_limit(Some(LOOP.to_owned())),
        _ if fault.message.contains(RAISE) => of_limit(None),
        FaultKind::Timeout | FaultKind::Memory | FaultKind::OutputLimit => of_limit(None),
        FaultKind::Host | FaultKind::Error if fault.message.contains(UNSCRIPTED) => {
            in_file(Some("add a `[[reply]]` to the file of replies, or change the prompt".to_owned()))
        }
        FaultKind::Host | FaultKind::Error if fault.message.contains(UNRECORDED) => {
            in_file(Some("record the run again (`--record`), or let its requests be what they were".to_owned()))
        }
        FaultKind::Denied => in_file(Some(match withheld(&fault.message, made) {
            Some(withheld) => format!("its operator does not allow it: {withheld}"),
            None if fault.message.contains(LINKED) => "nothing is written through a link: take it away".to_owned(),
            None if fault.message.contains(OWN) => {
                format!("grant another directory to {name}{place}, or save the team elsewhere (`--storage`)")
            }
            None => format!("grant it in `[role.action.allow]` of {name}{place}"),
        })),
        // It says so itself.
        FaultKind::StateConflict => in_file(None),
        FaultKind::Host if fault.message.contains(OWN_BUDGET) => {
            in_file(Some(format!("raise `investment` or `tokens` of {name}{place}")))
        }
        FaultKind::Host if fault.message.contains(NO_MODEL) => {
            in_file(Some("say in the team file which model there is".to_owned()))
        }
        FaultKind::Host if [STAGING, KEEPING].iter().any(|begin| fault.message.starts_with(*begin)) => {
            in_file(Some(format!("what {name} does in its directories is bounded: see `allow.dirs`{place}")))
        }
        FaultKind::Host => in_file(Some(
            "check that the service it calls is up; recorded calls are reused, and not paid for again".to_owned(),
        )),
        FaultKind::Interrupted => Cure { component: None, file: false, words: None },
        FaultKind::Error if is_of_config(&fault.message) => {
            in_file(Some(format!("fix `config` of {name} in the team file{place}")))
        }
        FaultKind::Error if fault.message.contains(NO_SCOPE) => {
            in_file(Some("declare the scope in the team file, or name one that is there".to_owned()))
        }
        FaultKind::Error if fault.hope == Hope::Retryable => in_file(Some(of_retries(retries, name, &place))),
        FaultKind::Trap | FaultKind::Error | FaultKind::Stack | FaultKind::OutputInvalid | FaultKind::Think => {
            of_code((name, &place), made, then)
        }
    }
}

/// What helps where the code of an action is at fault.
fn of_code((name, place): (&str, &str), made: Option<&Made>, then: Then) -> Cure {
    let component = component(name, made);
    // Also where the source is to be changed: what it is called with stands in the team file.
    let file = !made.is_some_and(|made| script::is_newest(&made.from));
    let words = made.map(|made| match &component {
        Some(_) if then == Then::Watched => {
            format!("replace the component, or name another in the team file{place}")
        }
        Some(_) => format!("use another component, with `--component` or in the team file{place}"),
        None if script::is_newest(&made.from) => {
            "its code came with a message: fix what wrote it, and resume from a checkpoint before it \
             (`--checkpoint`)"
                .to_owned()
        }
        None if script::is_script(&made.from) && then == Then::Watched => {
            format!("edit `{}`", shown(&made.from))
        }
        None if script::is_script(&made.from) => format!("edit `{}`, then resume", shown(&made.from)),
        None => format!("change its source, `{}`; it is rebuilt automatically", shown(&made.from)),
    });
    Cure { component, file, words }
}

/// What helps where an action says that it may succeed another time.
fn of_retries(retries: u32, name: &str, place: &str) -> String {
    match retries {
        0 => format!("it may succeed next time; set `limits.retries` of {name} to retry it automatically{place}"),
        retries => format!(
            "it was tried {} times, as `limits.retries` of {name} says{place}; a resume allows as many tries again",
            retries + 1
        ),
    }
}

/// Whether an action could not read its `config`: so the SDKs say it.
fn is_of_config(message: &str) -> bool {
    message.starts_with("config: ")
        || message.starts_with("config.")
        || message.starts_with("config[")
        || message.contains("the action's `config`")
        || message.contains("reading the config")
}

/// What the operator took away of the grant that a fault names.
fn withheld<'a>(message: &str, made: Option<&'a Made>) -> Option<&'a String> {
    let is_named =
        |line: &&String| line.split(' ').next().is_some_and(|grant| message.contains(grant.trim_matches('`')));
    made?.withheld.iter().find(is_named)
}

/// The action, as `--component` names it, where it is no source that is built by itself.
fn component(name: &str, made: Option<&Made>) -> Option<String> {
    made.filter(|made| made.from.extension().is_some_and(|kind| kind == "wasm")).map(|_| name.to_owned())
}

/// The frames from where the guest's own code is, where it is on the stack at all.
fn frames(backtrace: &[String]) -> &[String] {
    let of_panic = |frame: &&String| PANICKING.iter().any(|start| frame.starts_with(start));
    let own = backtrace.iter().take_while(of_panic).count();
    if own < backtrace.len() { &backtrace[own..] } else { backtrace }
}

fn on_stderr(line: &str) {
    note(line);
}

/// A call of the host, and what came back.
pub(super) fn called(call: &HostCall) -> String {
    format!("{:<6} {}", call.kind.name(), preview(&answer(call), PREVIEW))
}

/// What came back from a call, in words.
pub(super) fn answer(call: &HostCall) -> String {
    let response = call.response.value();
    let told = ["text", "body", "message"].iter().find_map(|field| response[*field].as_str().map(str::to_owned));
    let told = told.unwrap_or_else(|| call.response.as_str().to_owned());
    if call.outcome == Outcome::Answered { told } else { format!("failed: {told}") }
}

/// Tells what is finished in the open step, and not made again.
pub(super) fn tell_kept(stepper: &Stepper) {
    let (team, env) = (stepper.team(), stepper.env());
    let done = |id: RoleId| env.role(id).activation.iter().flat_map(move |activation| names(stepper, id, activation));
    let names: Vec<String> = team.role_ids().flat_map(done).collect();
    if names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = names[..names.len().min(NAMED)].join(", ");
    note(format_args!("finished, and not run again: {named}{more}"));
}

/// The actions that an activation has finished.
fn names(stepper: &Stepper, id: RoleId, activation: &Activation) -> Vec<String> {
    let role = stepper.team().role(id);
    let acts = activation.done.iter().filter(|done| matches!(done.work, Work::Act { .. } | Work::Plan));
    acts.map(|done| format!("{}.{}", role.name, place(role, Some(done.work)).1)).collect()
}

/// Tells some lines below a title, where there are any.
pub(super) fn section(title: &str, lines: impl Iterator<Item = String>, tell: impl Fn(&str)) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        tell(&format!("  {title}:"));
        lines.for_each(|line| plain(&line).split('\n').for_each(|line| tell(&format!("    {line}"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_mended_where_it_comes_from() {
        let cure_of = |from: &str, message: &str| {
            let made = Made { from: from.into(), place: "team.toml:9".into(), withheld: Vec::new() };
            let cure = cure(&Fault::new(FaultKind::Error, message), ("A.One", 0), Some(&made), Then::Resumed);
            (cure.words.unwrap_or_default(), cure.file, cure.component.is_some())
        };
        let in_file = ("fix `config` of A.One in the team file (team.toml:9)".to_owned(), true, false);
        assert_eq!(cure_of("greet", "config: unknown key `langage`; known are language"), in_file);
        assert_eq!(cure_of("a.wasm", "reading the action's `config` in the team file: missing field `to`"), in_file);
        let (words, file, _) = cure_of("greet", "the model was silent");
        assert!(words.starts_with("change its source, `greet`") && file, "{words}");
        assert_eq!(cure_of("greet", "reading the config: `instruction` is missing"), in_file);
        let (words, file, _) = cure_of("/teams/<newest>.py", "division by zero");
        assert!(words.contains("came with a message") && !words.contains("newest") && !file, "{words}");
        assert!(cure_of("a.wasm", "boom").2);
        assert_eq!(cure_of("x.py", "boom"), ("edit `x.py`, then resume".to_owned(), true, false));
        let unscripted = cure_of("greet", "asking: no scripted reply to `sing`: no `match` fits; add a `[[reply]]`");
        assert_eq!(unscripted.0, "add a `[[reply]]` to the file of replies, or change the prompt");
    }

    #[test]
    fn a_stack_is_shown_from_where_the_guest_s_own_code_is() {
        let check = |stack: &[&str], shown: &[&str]| {
            let stack: Vec<String> = stack.iter().map(|&frame| frame.to_owned()).collect();
            assert_eq!(frames(&stack), shown, "{stack:?}");
        };
        check(&["probe::act (probe.wasm+0x1)", "probe::run"], &["probe::act (probe.wasm+0x1)", "probe::run"]);
        let panic = ["__rustc::rust_panic", "std::panicking::begin_panic_handler", "core::panicking::panic_fmt"];
        check(&[panic.as_slice(), &["boom::run", "core::panicking::x"]].concat(), &["boom::run", "core::panicking::x"]);
        // One that is nothing else is better than none.
        check(&panic, &panic);
        check(&[], &[]);
    }
}
