//! `submit`: puts a team into a database, from which a worker takes it.

use std::path::PathBuf;

use serde_json::json;
use strata_host::launch::{Notice, Submission, submit as put};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::storage::{DatabaseSet, RunNeeds, Shortage, StorageLocation, SubmissionState};

use super::args::{DEFAULT_TEAM, IdeaUse, SubmitArgs, TeamAndIdea};
use super::given_text::read_idea;
use super::printer::Verbosity;
use super::progress::ProgressDisplay;
use super::sanitize::sanitize;
use super::wait::{wait_for_end, wait_for_row};
use super::{CommandFailure, Printer, shell_word};

pub(super) fn submit(args: SubmitArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = &printer.with_verbosity(verbosity);
    if args.database.is_empty() {
        let text = "name where the run is kept: `--database URL`, or `--server URL` for a server";
        return Err(CommandFailure::usage(text));
    }
    let idea_use = IdeaUse::Start { command: "submit" };
    let TeamAndIdea { team, idea } = TeamAndIdea::parse(&args.words, idea_use)?;
    let idea = read_idea(idea)?;
    let submission = Submission {
        team: team.unwrap_or_else(|| PathBuf::from(DEFAULT_TEAM)),
        idea,
        files: args.file,
        overrides: Overrides {
            operators: in_force(None)?,
            components: args.component,
            ..Overrides::default()
        },
        databases: DatabaseSet::new(args.database),
        name: args.name,
        labels: args.needs,
        tags: args.label.into_iter().collect(),
        scope: args.scope,
    };
    let location = {
        let mut progress = ProgressDisplay::start(printer);
        put(&submission, &mut |notice: Notice<'_>| {
            progress.show_notice(notice)
        })?
    };
    if args.json {
        if args.wait {
            return wait_for_row(&location, printer);
        }
        let document = json!({
            "name": location.run_name(), "place": location.operand().to_string_lossy(),
        });
        return printer.print_json_line(&document).map(|()| 0);
    }
    note_missing_worker(&location, printer);
    if !args.wait {
        printer.print_text(&location.to_string());
        return Ok(0);
    }
    if !printer.is_quiet() {
        printer.note(format_args!(
            "submitted as `{location}`; waiting for its end"
        ));
    }
    wait_for_end(&location, printer)
}

/// Says if nobody is there who continues a submitted run.
pub(super) fn note_missing_worker(location: &StorageLocation, printer: &Printer) {
    let Ok(Some(state)) = location.submission_state() else {
        return;
    };
    if let Some(text) = describe_missing_worker(location, &state) {
        printer.note(text);
    }
}

/// Says what is missing for a worker to continue a submitted run, if nobody is there who does.
pub(super) fn describe_missing_worker(
    location: &StorageLocation,
    state: &SubmissionState,
) -> Option<String> {
    if state.schedule.is_none() || state.is_owned {
        return None;
    }
    let then = "it is continued when there is one";
    let has_one_worker = location
        .database()
        .is_some_and(|database| database.is_file());
    Some(match state.shortage.as_ref()? {
        Shortage::Format(format) => format!(
            "a later version of this program recorded it, in format {format}: a worker of that version continues it"
        ),
        Shortage::Worker => {
            let command = worker_command(location, &state.needs);
            format!("no worker is there that takes it; {then}: `{command}`")
        }
        Shortage::Labels(missing) => {
            let (noun, names) = (pluralize_noun("label", missing), quote_list(missing));
            let command = worker_command(location, &state.needs);
            if has_one_worker {
                format!(
                    "the worker of the file lacks the {noun} {names}; end it, and start one that has all that its runs need: \
                     `{command}`"
                )
            } else {
                format!("no worker is there that has the {noun} {names}; {then}: `{command}`")
            }
        }
        Shortage::Secrets(missing) => {
            let (noun, names) = (pluralize_noun("secret", missing), quote_list(missing));
            format!(
                "no worker is there that has the {noun} {names}, which the team names; {then} whose policy (`--policy`) \
                 allows the {noun} and whose environment has a value"
            )
        }
        Shortage::Room => {
            "all workers that can take it have as many runs as they take; one takes it when a run of its own ends or rests"
                .into()
        }
    })
}

/// Returns the command that starts a worker which has the labels that a run needs.
fn worker_command(location: &StorageLocation, needs: &RunNeeds) -> String {
    let database = location.database();
    let database = database.map(|database| database.to_string());
    let mut command = format!(
        "strata-host worker --database {}",
        shell_word(&database.unwrap_or_default())
    );
    for label in &needs.labels {
        command += &format!(" --label {}", shell_word(label));
    }
    command
}

fn pluralize_noun(noun: &str, named: &[String]) -> String {
    match named {
        [_] => noun.into(),
        _ => format!("{noun}s"),
    }
}

/// Returns names in quotes, with commas.
fn quote_list(names: &[String]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .map(|name| format!("`{}`", sanitize(name)))
        .collect();
    quoted.join(", ")
}
