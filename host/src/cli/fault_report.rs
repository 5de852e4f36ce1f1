//! Describes a fault to the operator: what failed, where and why, what it did last, and how it can
//! be fixed.

use strata_core::activation::{Activation, Phase};
use strata_core::event::{CallOutcome, HostCall, Work};
use strata_core::fault::{Fault, FaultCause, FaultKind, Grant, Retryability};
use strata_core::id::RoleId;
use strata_core::stepper::{Stepper, component_slot, retry_policy};

use super::reporter::index_and_name;
use super::sanitize::sanitize;
use super::terminal::{FAILURE, note, styled};
use super::{display_relative_path, preview};
use crate::build::script;
use crate::launch::{ComponentOrigin, Provenance};

/// The advice for attempts that computed too long, in addition to the limit.
const LOOP_ADVICE: &str =
    "if the action loops without end, a higher limit does not help: fix the action";
/// The maximum number of stack frames shown.
const MAX_FRAMES: usize = 8;
/// Prefixes of the frames in which Rust panics. They do not help to find the cause.
const PANIC_FRAMES: [&str; 4] = [
    "__rustc::",
    "core::panicking::",
    "std::panicking::",
    "std::sys::backtrace::",
];
/// How many of the last host calls are shown.
const MAX_CALLS: usize = 5;
/// The maximum number of characters shown of a response.
const PREVIEW_CHARS: usize = 60;
/// The maximum number of kept results that are named.
const MAX_NAMED_ACTIONS: usize = 6;

/// What continues the run after a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumeTrigger {
    /// Another command.
    ByCommand,
    /// `dev`, once a watched file has changed.
    ByFileChange,
}

/// What to do about a fault.
pub(super) struct FaultAdvice {
    /// The action, as `--component` names it; `None` if another component does not help.
    pub(super) component: Option<String>,
    /// Whether the team file should be changed.
    pub(super) edits_team_file: bool,
    /// The advice as text.
    text: Option<String>,
}

/// Writes a role's fault to stderr and returns what can be done about it. Returns `None` if the
/// role has no fault.
pub(super) fn report_fault(
    stepper: &Stepper,
    id: RoleId,
    makings: &Provenance,
    then: ResumeTrigger,
) -> Option<FaultAdvice> {
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
    let work = activation.current_work(role);
    let (index, action) = index_and_name(role, work);
    let kind = fault.kind;
    let message = sanitize(&fault.message);
    let cause = message.lines().next().unwrap_or_default();
    let attempt = activation.current_call.attempts;
    let head = styled(FAILURE, "fault:");
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
    write_section(
        "stack of the guest, innermost first",
        guest_frames(&fault.backtrace)
            .iter()
            .take(MAX_FRAMES)
            .cloned(),
        on_stderr,
    );
    write_section("what it logged last", fault.log.iter().cloned(), on_stderr);
    let calls = &activation.current_call.recorded_calls;
    write_section(
        "its last host calls and their results",
        calls[calls.len().saturating_sub(MAX_CALLS)..]
            .iter()
            .map(describe_host_call),
        on_stderr,
    );
    let made = work
        .and_then(|work| component_slot(role, id, work))
        .and_then(|slot| makings.component_origin(slot));
    let retries = work.map_or(0, |work| retry_policy(role, work).retries);
    let failed = FailedAction {
        name: &format!("{}.{action}", role.name),
        retries,
        origin: made,
        continuation: then,
    };
    let cure = failed.advise(fault);
    write_section("how to fix it", cure.text.iter().cloned(), on_stderr);
    Some(cure)
}

/// An action that failed, and what its advice depends on besides the fault.
struct FailedAction<'a> {
    /// `ROLE.ACTION`.
    name: &'a str,
    /// How often the action is retried automatically.
    retries: u32,
    /// Where its component comes from, if it has one.
    origin: Option<&'a ComponentOrigin>,
    continuation: ResumeTrigger,
}

impl FailedAction<'_> {
    /// Returns what to do about a fault. A limit that was reached is named in the fault's message.
    ///
    /// The result depends on the cause that the host recorded, and never on the message, whose text
    /// a guest may choose.
    fn advise(&self, fault: &Fault) -> FaultAdvice {
        let Self { name, retries, .. } = *self;
        let place = self.location();
        let in_file = |words: Option<String>| FaultAdvice {
            component: None,
            edits_team_file: true,
            text: words,
        };
        let of_limit = |words| FaultAdvice {
            component: self.component(),
            ..in_file(words)
        };
        let say = |words: &str| in_file(Some(words.to_owned()));
        match fault.cause {
            FaultCause::CpuLimit | FaultCause::FuelLimit => of_limit(Some(LOOP_ADVICE.to_owned())),
            FaultCause::TimeLimit | FaultCause::Limit => of_limit(None),
            FaultCause::NotGranted(grant) => in_file(Some(self.advise_grant(grant))),
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
                if fault.kind == FaultKind::Error
                    && fault.retryability == Retryability::Retryable =>
            {
                in_file(Some(advise_retries(retries, name, &place)))
            }
            FaultCause::Declared => self.advise_code_change(),
            FaultCause::Unspecified => match fault.kind {
                // The fault's message says it.
                FaultKind::StateConflict => in_file(None),
                FaultKind::Interrupted => FaultAdvice {
                    component: None,
                    edits_team_file: false,
                    text: None,
                },
                _ => self.advise_code_change(),
            },
        }
    }

    /// Returns the location of the action in the team file, in parentheses.
    fn location(&self) -> String {
        match self.origin {
            Some(made) => format!(" ({})", made.line),
            None => String::new(),
        }
    }

    /// Returns the advice for a grant that is missing.
    fn advise_grant(&self, grant: Grant) -> String {
        let withheld = self.origin.and_then(|made| {
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
                self.location()
            ),
        }
    }

    /// Returns what to do if the code of an action is wrong.
    fn advise_code_change(&self) -> FaultAdvice {
        let Self {
            origin: made,
            continuation: then,
            ..
        } = *self;
        let (component, place) = (self.component(), self.location());
        // The team file is named even if the source is to be changed, since it holds the action's
        // configuration.
        let file = !made.is_some_and(|made| script::is_newest_message_script(&made.from));
        // The host cannot know whether the code or the configuration is wrong.
        let config = format!("its `config` in the team file{place}");
        let words = made.map(|made| match &component {
        Some(_) if then == ResumeTrigger::ByFileChange => {
            format!("replace the component, or change `component` or `config` in the team file{place}")
        }
        Some(_) => {
            format!(
                "use another component, with `--component` or in the team file{place}, or change its `config` there"
            )
        }
        None if script::is_newest_message_script(&made.from) => {
            "its code came with a message: fix what wrote it, and resume from a checkpoint before it \
             (`--checkpoint`)"
                .to_owned()
        }
        None if script::is_script(&made.from) && then == ResumeTrigger::ByFileChange => {
            format!("edit `{}`, or {config}", display_relative_path(&made.from))
        }
        None if script::is_script(&made.from) => format!("edit `{}`, or {config}, then resume", display_relative_path(&made.from)),
        None => format!("change its source, `{}` (it is rebuilt automatically), or {config}", display_relative_path(&made.from)),
    });
        FaultAdvice {
            component,
            edits_team_file: file,
            text: words,
        }
    }

    /// Returns the action as `--component` names it, unless it is built from source automatically.
    fn component(&self) -> Option<String> {
        self.origin
            .filter(|made| made.from.extension().is_some_and(|kind| kind == "wasm"))
            .map(|_| self.name.to_owned())
    }
}

/// Returns the advice for an action that declared that it may succeed if it is repeated.
fn advise_retries(retries: u32, name: &str, place: &str) -> String {
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
fn guest_frames(backtrace: &[String]) -> &[String] {
    let of_panic = |frame: &&String| PANIC_FRAMES.iter().any(|start| frame.starts_with(start));
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
pub(super) fn describe_host_call(call: &HostCall) -> String {
    format!(
        "{:<6} {}",
        call.kind.name(),
        preview(&describe_response(call), PREVIEW_CHARS)
    )
}

/// Returns the response of a host call as text.
pub(super) fn describe_response(call: &HostCall) -> String {
    let response = call.response.value();
    let told = ["text", "body", "message"]
        .iter()
        .find_map(|field| response[*field].as_str().map(str::to_owned));
    let told = told.unwrap_or_else(|| call.response.as_str().to_owned());
    if call.outcome == CallOutcome::Answered {
        told
    } else {
        format!("failed: {told}")
    }
}

/// Lists what is finished in the open step and will not be repeated.
pub(super) fn list_finished(stepper: &Stepper) {
    let (team, env) = (stepper.team(), stepper.env());
    let done = |id: RoleId| {
        env.role(id)
            .activation
            .iter()
            .flat_map(move |activation| finished_actions(stepper, id, activation))
    };
    let names: Vec<String> = team.role_ids().flat_map(done).collect();
    if names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(MAX_NAMED_ACTIONS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = names[..names.len().min(MAX_NAMED_ACTIONS)].join(", ");
    note(format_args!("finished, and not run again: {named}{more}"));
}

/// Returns the names of the actions that an activation has finished.
fn finished_actions(stepper: &Stepper, id: RoleId, activation: &Activation) -> Vec<String> {
    let role = stepper.team().role(id);
    let acts = activation
        .done
        .iter()
        .filter(|done| matches!(done.work, Work::Act { .. } | Work::Plan));
    acts.map(|done| format!("{}.{}", role.name, index_and_name(role, Some(done.work)).1))
        .collect()
}

/// Writes lines below a title, if there are any.
pub(super) fn write_section(title: &str, lines: impl Iterator<Item = String>, tell: impl Fn(&str)) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        tell(&format!("  {title}:"));
        for text in lines {
            for line in sanitize(&text).split('\n') {
                tell(&format!("    {line}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(from: &str, fault: &Fault) -> (String, bool, bool) {
        let withheld = vec![(
            Grant::Env,
            "`allow.env` is not all allowed (policy.toml)".into(),
        )];
        let made = ComponentOrigin {
            from: from.into(),
            line: "team.toml:9".into(),
            withheld,
        };
        let failed = FailedAction {
            name: "A.One",
            retries: 0,
            origin: Some(&made),
            continuation: ResumeTrigger::ByCommand,
        };
        let cure = failed.advise(fault);
        (
            cure.text.unwrap_or_default(),
            cure.edits_team_file,
            cure.component.is_some(),
        )
    }

    #[test]
    fn a_fault_is_mended_where_it_comes_from() {
        let cure_of = |from: &str| {
            advice_for(
                from,
                &Fault::new(FaultKind::Error, "boom").with_cause(FaultCause::Declared),
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
            let fault = Fault::new(FaultKind::Error, "it broke").with_cause(cause);
            advice_for("a.wasm", &fault)
        });
        let all: Vec<_> = all.collect();
        for cause in FaultCause::ALL {
            let fault = |message: &str| Fault::new(FaultKind::Denied, message).with_cause(cause);
            for (words, _, _) in &all {
                assert_eq!(
                    advice_for("a.wasm", &fault("no")),
                    advice_for("a.wasm", &fault(words)),
                    "{cause:?}: {words}"
                );
            }
        }
        let check = |cause: FaultCause, expected: &str| {
            let (words, file, _) =
                advice_for("a.wasm", &Fault::new(FaultKind::Host, "").with_cause(cause));
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
            assert_eq!(guest_frames(&stack), shown, "{stack:?}");
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
