//! Describes a fault to the operator: what failed, where and why, what it did last, and how it can
//! be fixed.

use strata_core::activation::{Activation, Phase};
use strata_core::event::{HostCall, Outcome, Work};
use strata_core::fault::{Fault, FaultCause, FaultKind, Grant, Hope};
use strata_core::id::RoleId;
use strata_core::stepper::{Stepper, retry, slot};

use super::plain::plain;
use super::reporter::place;
use super::terminal::{BAD, note, painted};
use super::{preview, shown};
use crate::build::script;
use crate::launch::{Made, Makings};

/// The advice for attempts that computed too long, in addition to the limit.
const LOOP: &str = "if the action loops without end, a higher limit does not help: fix the action";
/// The maximum number of stack frames shown.
const FRAMES: usize = 8;
/// Prefixes of the frames in which Rust panics. They do not help to find the cause.
const PANICKING: [&str; 4] = [
    "__rustc::",
    "core::panicking::",
    "std::panicking::",
    "std::sys::backtrace::",
];
/// How many of the last host calls are shown.
const CALLS: usize = 5;
/// The maximum number of characters shown of a response.
const PREVIEW: usize = 60;
/// The maximum number of kept results that are named.
const NAMED: usize = 6;

/// What continues the run after a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Another command.
    Resumed,
    /// `dev`, once a watched file has changed.
    Watched,
}

/// What to do about a fault.
pub(super) struct Cure {
    /// The action, as `--component` names it; `None` if another component does not help.
    pub(super) component: Option<String>,
    /// Whether the team file should be changed.
    pub(super) file: bool,
    /// The advice as text.
    words: Option<String>,
}

/// Writes a role's fault to stderr and returns what can be done about it. Returns `None` if the
/// role has no fault.
pub(super) fn tell(stepper: &Stepper, id: RoleId, makings: &Makings, then: Then) -> Option<Cure> {
    let activation = stepper.env().role(id).activation.as_ref()?;
    let Phase::Failed(fault) = &activation.phase else {
        return None;
    };
    // An interruption needs no advice: the operator caused it, and the end of the run says how to
    // continue.
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
        // `think` and `answer` are not actions and have no index.
        _ => format!("{} `{action}`", role.name),
    };
    note(format_args!(
        "{head} {at} attempt {attempt}: {kind}: {cause}"
    ));
    for line in message.lines().skip(1) {
        note(format_args!("    {line}"));
    }
    section(
        "stack of the guest, innermost first",
        frames(&fault.backtrace).iter().take(FRAMES).cloned(),
        on_stderr,
    );
    section("what it logged last", fault.log.iter().cloned(), on_stderr);
    let calls = &activation.current.journal;
    section(
        "its last host calls and their results",
        calls[calls.len().saturating_sub(CALLS)..]
            .iter()
            .map(called),
        on_stderr,
    );
    let made = work
        .and_then(|work| slot(role, id, work))
        .and_then(|slot| makings.made(slot));
    let retries = work.map_or(0, |work| retry(role, work).retries);
    let failed = FailedAction {
        name: &format!("{}.{action}", role.name),
        retries,
        made,
        then,
    };
    let cure = failed.cure(fault);
    section("how to fix it", cure.words.iter().cloned(), on_stderr);
    Some(cure)
}

/// An action that failed, and what its advice depends on besides the fault.
struct FailedAction<'a> {
    /// `ROLE.ACTION`.
    name: &'a str,
    /// How often the action is retried automatically.
    retries: u32,
    /// Where its component comes from, if it has one.
    made: Option<&'a Made>,
    then: Then,
}

impl FailedAction<'_> {
    /// Returns what to do about a fault. A limit that was reached is named in the fault's message.
    ///
    /// The result depends on the cause that the host recorded, and never on the message, whose text
    /// a guest may choose.
    fn cure(&self, fault: &Fault) -> Cure {
        let Self { name, retries, .. } = *self;
        let place = self.place();
        let in_file = |words: Option<String>| Cure {
            component: None,
            file: true,
            words,
        };
        let of_limit = |words| Cure {
            component: self.component(),
            ..in_file(words)
        };
        let say = |words: &str| in_file(Some(words.to_owned()));
        match fault.cause {
            FaultCause::CpuLimit | FaultCause::FuelLimit => of_limit(Some(LOOP.to_owned())),
            FaultCause::TimeLimit | FaultCause::Limit => of_limit(None),
            FaultCause::NotGranted(grant) => in_file(Some(self.of_grant(grant))),
            FaultCause::Service => say(
                "check that the service it calls is up; recorded calls are reused, and not paid for again",
            ),
            FaultCause::NoModel => say("say in the team file which model there is"),
            FaultCause::NoScriptedReply => {
                say("add a `[[reply]]` to the file of replies, or change the prompt")
            }
            FaultCause::NoRecordedReply => {
                say("record the run again (`--record`), or let its requests be what they were")
            }
            FaultCause::OwnBudget => in_file(Some(format!(
                "raise `investment` or `tokens` of {name}{place}"
            ))),
            FaultCause::NoScope => {
                say("declare the scope in the team file, or name one that is there")
            }
            FaultCause::SymbolicLink => say("nothing is written through a link: take it away"),
            FaultCause::StorageDirectory => in_file(Some(format!(
                "grant another directory to {name}{place}, or save the team elsewhere (`--storage`)"
            ))),
            FaultCause::Staging | FaultCause::Keeping | FaultCause::DirectoryOverflow => {
                in_file(Some(format!(
                    "what {name} does in its directories is bounded: see `allow.dirs`{place}"
                )))
            }
            FaultCause::TemporaryFiles => {
                say("make room in the directory for temporary files, or set `TMPDIR` to another")
            }
            FaultCause::Declared
                if fault.kind == FaultKind::Error && fault.hope == Hope::Retryable =>
            {
                in_file(Some(of_retries(retries, name, &place)))
            }
            FaultCause::Declared => self.of_code(),
            FaultCause::Unspecified => match fault.kind {
                // The fault's message says it.
                FaultKind::StateConflict => in_file(None),
                FaultKind::Interrupted => Cure {
                    component: None,
                    file: false,
                    words: None,
                },
                _ => self.of_code(),
            },
        }
    }

    /// Returns the location of the action in the team file, in parentheses.
    fn place(&self) -> String {
        match self.made {
            Some(made) => format!(" ({})", made.place),
            None => String::new(),
        }
    }

    /// Returns the advice for a grant that is missing.
    fn of_grant(&self, grant: Grant) -> String {
        let withheld = self.made.and_then(|made| {
            made.withheld
                .iter()
                .find(|(withheld, _)| *withheld == grant)
        });
        match withheld {
            Some((_, withheld)) => format!("its operator does not allow it: {withheld}"),
            None => format!(
                "grant it (`{}`) in `[role.action.allow]` of {}{}",
                grant.key(),
                self.name,
                self.place()
            ),
        }
    }

    /// Returns what to do if the code of an action is wrong.
    fn of_code(&self) -> Cure {
        let Self { made, then, .. } = *self;
        let (component, place) = (self.component(), self.place());
        // The team file is named even if the source is to be changed, since it holds the action's
        // configuration.
        let file = !made.is_some_and(|made| script::is_newest(&made.from));
        // The host cannot know whether the code or the configuration is wrong.
        let config = format!("its `config` in the team file{place}");
        let words = made.map(|made| match &component {
        Some(_) if then == Then::Watched => {
            format!("replace the component, or change `component` or `config` in the team file{place}")
        }
        Some(_) => {
            format!(
                "use another component, with `--component` or in the team file{place}, or change its `config` there"
            )
        }
        None if script::is_newest(&made.from) => {
            "its code came with a message: fix what wrote it, and resume from a checkpoint before it \
             (`--checkpoint`)"
                .to_owned()
        }
        None if script::is_script(&made.from) && then == Then::Watched => {
            format!("edit `{}`, or {config}", shown(&made.from))
        }
        None if script::is_script(&made.from) => format!("edit `{}`, or {config}, then resume", shown(&made.from)),
        None => format!("change its source, `{}` (it is rebuilt automatically), or {config}", shown(&made.from)),
    });
        Cure {
            component,
            file,
            words,
        }
    }

    /// Returns the action as `--component` names it, unless it is built from source automatically.
    fn component(&self) -> Option<String> {
        self.made
            .filter(|made| made.from.extension().is_some_and(|kind| kind == "wasm"))
            .map(|_| self.name.to_owned())
    }
}

/// Returns the advice for an action that declared that it may succeed if it is repeated.
fn of_retries(retries: u32, name: &str, place: &str) -> String {
    match retries {
        0 => format!(
            "it may succeed next time; set `limits.retries` of {name} to retry it automatically{place}"
        ),
        retries => format!(
            "it was tried {} times, as `limits.retries` of {name} says{place}; a resume allows as many tries again",
            retries + 1
        ),
    }
}

/// Returns the frames starting with the guest's own code, or all frames if there is no such frame.
fn frames(backtrace: &[String]) -> &[String] {
    let of_panic = |frame: &&String| PANICKING.iter().any(|start| frame.starts_with(start));
    let own = backtrace.iter().take_while(of_panic).count();
    if own < backtrace.len() {
        &backtrace[own..]
    } else {
        backtrace
    }
}

fn on_stderr(line: &str) {
    note(line);
}

/// Returns a host call and its response on one line.
pub(super) fn called(call: &HostCall) -> String {
    format!(
        "{:<6} {}",
        call.kind.name(),
        preview(&answer(call), PREVIEW)
    )
}

/// Returns the response of a host call as text.
pub(super) fn answer(call: &HostCall) -> String {
    let response = call.response.value();
    let told = ["text", "body", "message"]
        .iter()
        .find_map(|field| response[*field].as_str().map(str::to_owned));
    let told = told.unwrap_or_else(|| call.response.as_str().to_owned());
    if call.outcome == Outcome::Answered {
        told
    } else {
        format!("failed: {told}")
    }
}

/// Lists what is finished in the open step and will not be repeated.
pub(super) fn tell_kept(stepper: &Stepper) {
    let (team, env) = (stepper.team(), stepper.env());
    let done = |id: RoleId| {
        env.role(id)
            .activation
            .iter()
            .flat_map(move |activation| names(stepper, id, activation))
    };
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

/// Returns the names of the actions that an activation has finished.
fn names(stepper: &Stepper, id: RoleId, activation: &Activation) -> Vec<String> {
    let role = stepper.team().role(id);
    let acts = activation
        .done
        .iter()
        .filter(|done| matches!(done.work, Work::Act { .. } | Work::Plan));
    acts.map(|done| format!("{}.{}", role.name, place(role, Some(done.work)).1))
        .collect()
}

/// Writes lines below a title, if there are any.
pub(super) fn section(title: &str, lines: impl Iterator<Item = String>, tell: impl Fn(&str)) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        tell(&format!("  {title}:"));
        for text in lines {
            for line in plain(&text).split('\n') {
                tell(&format!("    {line}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cure_of(from: &str, fault: &Fault) -> (String, bool, bool) {
        let withheld = vec![(
            Grant::Env,
            "`allow.env` is not all allowed (policy.toml)".into(),
        )];
        let made = Made {
            from: from.into(),
            place: "team.toml:9".into(),
            withheld,
        };
        let failed = FailedAction {
            name: "A.One",
            retries: 0,
            made: Some(&made),
            then: Then::Resumed,
        };
        let cure = failed.cure(fault);
        (
            cure.words.unwrap_or_default(),
            cure.file,
            cure.component.is_some(),
        )
    }

    #[test]
    fn a_fault_is_mended_where_it_comes_from() {
        let cure_of = |from: &str| {
            cure_of(
                from,
                &Fault::new(FaultKind::Error, "boom").caused_by(FaultCause::Declared),
            )
        };
        let config = "its `config` in the team file (team.toml:9)";
        let built =
            format!("change its source, `greet` (it is rebuilt automatically), or {config}");
        assert_eq!(cure_of("greet"), (built, true, false));
        let (words, file, _) = cure_of("/teams/<newest>.py");
        assert!(
            words.contains("came with a message") && !words.contains("newest") && !file,
            "{words}"
        );
        let component = "use another component, with `--component` or in the team file (team.toml:9), or change its `config` there";
        assert_eq!(cure_of("a.wasm"), (component.to_owned(), true, true));
        assert_eq!(
            cure_of("x.py"),
            (
                format!("edit `x.py`, or {config}, then resume"),
                true,
                false
            )
        );
    }

    #[test]
    fn what_helps_follows_from_the_cause_and_never_from_the_words_of_a_guest() {
        let all = FaultCause::ALL.into_iter().map(|cause| {
            let fault = Fault::new(FaultKind::Error, "it broke").caused_by(cause);
            cure_of("a.wasm", &fault)
        });
        let all: Vec<_> = all.collect();
        for cause in FaultCause::ALL {
            let fault = |message: &str| Fault::new(FaultKind::Denied, message).caused_by(cause);
            for (words, _, _) in &all {
                assert_eq!(
                    cure_of("a.wasm", &fault("no")),
                    cure_of("a.wasm", &fault(words)),
                    "{cause:?}: {words}"
                );
            }
        }
        let check = |cause: FaultCause, expected: &str| {
            let (words, file, _) =
                cure_of("a.wasm", &Fault::new(FaultKind::Host, "").caused_by(cause));
            assert!(words.contains(expected) && file, "{cause:?}: {words}");
        };
        check(FaultCause::Declared, "use another component");
        check(
            FaultCause::NotGranted(Grant::Http),
            "grant it (`http`) in `[role.action.allow]` of A.One (team.toml:9)",
        );
        check(
            FaultCause::NotGranted(Grant::Env),
            "its operator does not allow it: `allow.env`",
        );
        check(
            FaultCause::NoScriptedReply,
            "add a `[[reply]]` to the file of replies, or change the prompt",
        );
        check(FaultCause::CpuLimit, "a higher limit does not help");
    }

    #[test]
    fn a_stack_is_shown_from_where_the_guest_s_own_code_is() {
        let check = |stack: &[&str], shown: &[&str]| {
            let stack: Vec<String> = stack.iter().map(|&frame| frame.to_owned()).collect();
            assert_eq!(frames(&stack), shown, "{stack:?}");
        };
        check(
            &["probe::act (probe.wasm+0x1)", "probe::run"],
            &["probe::act (probe.wasm+0x1)", "probe::run"],
        );
        let panic = [
            "__rustc::rust_panic",
            "std::panicking::begin_panic_handler",
            "core::panicking::panic_fmt",
        ];
        check(
            &[panic.as_slice(), &["boom::run", "core::panicking::x"]].concat(),
            &["boom::run", "core::panicking::x"],
        );
        // If there are no other frames, they are shown.
        check(&panic, &panic);
        check(&[], &[]);
    }
}
