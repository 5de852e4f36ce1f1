//! `submit`: puts a team into a database, from which a worker takes it.

use std::path::PathBuf;

use serde_json::json;
use strata_host::launch::{Notice, Submission, submit as put};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::storage::DatabaseSet;

use super::args::{DEFAULT_TEAM, IdeaUse, SubmitArgs, TeamAndIdea};
use super::given_text::read_idea;
use super::missing_worker::note_missing_worker;
use super::printer::Verbosity;
use super::progress::ProgressDisplay;
use super::wait::{wait_for_end, wait_for_row};
use super::{CommandFailure, Printer};

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
