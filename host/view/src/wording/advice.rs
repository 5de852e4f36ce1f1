//! Advice about a fault as text: what to change, and where.

use strata_base::text::display_path::relative_path;

use crate::{CodeSource, FaultAdvice, Remedy};

/// What continues the run after a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ResumeTrigger {
    /// Another command.
    ByCommand,
    /// `dev`, once a watched file has changed.
    ByFileChange,
    /// Nothing: the action was tried without a team.
    Never,
}

/// Returns the advice as text; `None` if the message of the fault says all that is known.
pub fn describe_advice(advice: &FaultAdvice, trigger: ResumeTrigger) -> Option<String> {
    let name = &advice.action;
    let place = location_in_parentheses(advice);
    let remedy = advice.remedy.as_ref()?;
    if trigger == ResumeTrigger::Never {
        return describe_trial_advice(remedy);
    }
    let text = match remedy {
        Remedy::RaiseLimit { may_loop: false, .. } => return None,
        Remedy::RaiseLimit { may_loop: true, .. } => {
            "if the action loops without end, a higher limit does not help: fix the action".into()
        }
        Remedy::AddGrant { grant } => format!(
            "grant it (`{}`) in `[role.action.allow]` of {name}{place}",
            grant.key()
        ),
        Remedy::WithheldGrant { reason, .. } => {
            format!("its operator does not allow it: {reason}")
        }
        Remedy::CheckService => {
            "check that what it calls can be started or reached; recorded calls are reused, and not paid for again"
                .into()
        }
        Remedy::ConfigureModel => "say in the team file which model there is".into(),
        Remedy::AddScriptedReply => {
            "add a `[[reply]]` to the file of replies, or change the prompt".into()
        }
        Remedy::RecordAgain => {
            "record the run again (`--record`), or let its requests be what they were".into()
        }
        Remedy::RaiseActionBudget => format!("raise `investment` or `tokens` of {name}{place}"),
        Remedy::DeclareScope => "declare the scope in the team file, or name one that is there".into(),
        Remedy::RemoveSymbolicLink => "nothing is written through a link: take it away".into(),
        Remedy::SeparateDirectory => format!(
            "grant another directory to {name}{place}, or save the team elsewhere (`--storage`)"
        ),
        Remedy::ChangeDirectoryGrant => {
            format!("what {name} does in its directories is bounded: see `allow.dirs`{place}")
        }
        Remedy::ShortenConversation => {
            "bound the conversation with `[role.memory]`, raise its `summarise_at` if the model takes more, or lower \
             `result` in the `limits` of the tools that return much"
                .into()
        }
        Remedy::FreeTemporarySpace => {
            "make room in the directory for temporary files, or set `TMPDIR` to another".into()
        }
        Remedy::Retry { retries: 0 } => format!(
            "it may succeed next time; set `limits.retries` of {name} to retry it automatically{place}"
        ),
        Remedy::Retry { retries } => format!(
            "it was tried {} times, as `limits.retries` of {name} says{place}; a resume allows as many tries again",
            retries + 1
        ),
        Remedy::ChangeCode { source } => describe_code_change(source, &place, trigger),
    };
    Some(text)
}

/// Returns the advice about an action that was tried without a team: what to add to the command.
fn describe_trial_advice(remedy: &Remedy) -> Option<String> {
    let text = match remedy {
        Remedy::AddGrant { grant } => format!("grant it: `--allow '{} = …'`", grant.key()),
        Remedy::WithheldGrant { reason, .. } => {
            format!("its operator does not allow it: {reason}")
        }
        Remedy::CheckService => "check that what it calls can be started or reached".into(),
        Remedy::ConfigureModel => "say which model there is: `--llm 'provider = …'`".into(),
        Remedy::AddScriptedReply => {
            "add a `[[reply]]` to the file of replies, or change the prompt".into()
        }
        Remedy::RaiseLimit { may_loop: true, .. } => {
            "if the action loops without end, a higher limit does not help: fix the action".into()
        }
        _ => return None,
    };
    Some(text)
}

/// Describes what to change if the host cannot know whether the code or the configuration is wrong.
fn describe_code_change(source: &CodeSource, place: &str, trigger: ResumeTrigger) -> String {
    let config = format!("its `config` in the team file{place}");
    match (source, trigger) {
        (CodeSource::Component, ResumeTrigger::ByFileChange) => format!(
            "replace the component, or change `component` or `config` in the team file{place}"
        ),
        (CodeSource::Component, ResumeTrigger::ByCommand | ResumeTrigger::Never) => format!(
            "use another component, with `--component` or in the team file{place}, or change its `config` there"
        ),
        (CodeSource::Message, _) => {
            "its code came with a message: fix what wrote it, and resume from a checkpoint before it \
             (`--checkpoint`)"
                .into()
        }
        (CodeSource::Script(path), ResumeTrigger::ByFileChange) => {
            format!("edit `{}`, or {config}", relative_path(path))
        }
        (CodeSource::Script(path), ResumeTrigger::ByCommand | ResumeTrigger::Never) => {
            format!("edit `{}`, or {config}, then resume", relative_path(path))
        }
        (CodeSource::Directory(path), _) => format!(
            "change its source, `{}` (it is rebuilt automatically), or {config}",
            relative_path(path)
        ),
    }
}

/// Returns the location of the action in the team file, in parentheses after a space.
fn location_in_parentheses(advice: &FaultAdvice) -> String {
    match &advice.location {
        Some(location) => format!(" ({location})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::host_call::Grant;

    use super::*;

    fn check(remedy: Remedy, trigger: ResumeTrigger, expected: Option<&str>) {
        let advice = FaultAdvice {
            action: "A.One".into(),
            location: Some("team.toml:9".into()),
            remedy: Some(remedy),
            edits_team_file: true,
            component: None,
        };
        assert_eq!(describe_advice(&advice, trigger).as_deref(), expected);
    }

    #[test]
    fn advice_names_what_to_change_and_where() {
        let by_command = |remedy, expected| check(remedy, ResumeTrigger::ByCommand, Some(expected));
        by_command(
            Remedy::AddGrant { grant: Grant::Http },
            "grant it (`http`) in `[role.action.allow]` of A.One (team.toml:9)",
        );
        by_command(
            Remedy::WithheldGrant {
                grant: Grant::Env,
                reason: "`allow.env` is not all allowed (policy.toml)".into(),
            },
            "its operator does not allow it: `allow.env` is not all allowed (policy.toml)",
        );
        by_command(
            Remedy::Retry { retries: 2 },
            "it was tried 3 times, as `limits.retries` of A.One says (team.toml:9); a resume allows as many tries again",
        );
        check(
            Remedy::RaiseLimit {
                limit: None,
                may_loop: false,
            },
            ResumeTrigger::ByCommand,
            None,
        );
    }

    #[test]
    fn advice_to_change_code_depends_on_where_the_code_is() {
        let check = |source, trigger, expected: &str| {
            check(Remedy::ChangeCode { source }, trigger, Some(expected));
        };
        let config = "its `config` in the team file (team.toml:9)";
        check(
            CodeSource::Directory("greet".into()),
            ResumeTrigger::ByCommand,
            &format!("change its source, `greet` (it is rebuilt automatically), or {config}"),
        );
        check(
            CodeSource::Script("x.py".into()),
            ResumeTrigger::ByCommand,
            &format!("edit `x.py`, or {config}, then resume"),
        );
        check(
            CodeSource::Script("x.py".into()),
            ResumeTrigger::ByFileChange,
            &format!("edit `x.py`, or {config}"),
        );
        check(
            CodeSource::Component,
            ResumeTrigger::ByCommand,
            "use another component, with `--component` or in the team file (team.toml:9), or change its `config` there",
        );
    }
}
