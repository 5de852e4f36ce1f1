//! `try`: runs one action without a team, and prints what it returns. Nothing is saved.

use strata_core::record::event::Status;
use strata_core::record::json::Json;
use strata_host::launch::{Trial, TrialRun, prepare_trial};
use strata_host::manifest::operator::in_force;
use strata_host::view::TrialResult;
use strata_host::wording::ResumeTrigger;

use super::args::TryArgs;
use super::fault_report::report_fault;
use super::live_view::LiveView;
use super::printer::{ATTENTION, Verbosity};
use super::progress::ProgressDisplay;
use super::reporter::Reporter;
use super::result::show_output;
use super::run::{block_on_run, line_listener};
use super::sanitize::sanitize_line;
use super::signals::Signals;
use super::{CommandFailure, Printer, exit_code, reply_view};

/// Runs an action. With `verbose`, models' replies are shown while they are received.
pub(super) fn run(args: &TryArgs, verbose: u8, printer: &Printer) -> Result<u8, CommandFailure> {
    let is_verbose = verbose > 0 && !args.quiet && !args.json;
    // What a run reports about each action would only repeat the result here.
    let quiet = printer.with_verbosity(Verbosity::Quiet);
    block_on_run(|_| async {
        let signals = Signals::subscribe()?;
        let mut run = prepare(args, &quiet, printer)?;
        if is_verbose {
            run.observe(reply_view::reply_observers(printer.clone()));
        }
        signals.set_run_started();
        let status = run.run(&mut signals.stop.clone()).await?;
        let result = TrialResult::new(run.stepper(), run.provenance(), status);
        show(args, &result, printer);
        Ok(match status {
            Status::Interrupted => signals.code(),
            status => exit_code(status),
        })
    })
}

fn prepare(args: &TryArgs, quiet: &Printer, printer: &Printer) -> Result<TrialRun, CommandFailure> {
    let operators = in_force(args.policy.as_deref())?;
    let config = parse_json("--config", args.config.as_deref())?;
    let arguments = parse_json("--arguments", args.arguments.as_deref())?;
    let trial = Trial {
        component: args.component.clone(),
        function: args.function.clone(),
        message: args.message.clone(),
        files: args.file.clone(),
        arguments,
        config,
        allow: args.allow.clone(),
        limits: args.limit.clone(),
        llm: args.llm.clone(),
        operators,
    };
    let reporter = Reporter::new(quiet, LiveView::at_terminal(quiet));
    let on_line = line_listener(None, reporter, quiet)?;
    let mut progress = ProgressDisplay::start(printer);
    let prepared = prepare_trial(&trial, &mut |notice| progress.show_notice(notice), on_line);
    Ok(prepared?)
}

fn parse_json(option: &str, text: Option<&str>) -> Result<Option<Json>, CommandFailure> {
    let parsed = text.map(Json::parse_decision).transpose();
    parsed.map_err(|error| CommandFailure::usage(format!("the value of `{option}` is {error}")))
}

/// Prints the result to stdout, and why there is none to stderr.
fn show(args: &TryArgs, result: &TrialResult, printer: &Printer) {
    for fault in &result.faults {
        report_fault(fault, ResumeTrigger::Never, printer);
    }
    let note = |text: &str| printer.note(format_args!("{}", printer.styled(ATTENTION, text)));
    match result.status {
        Status::Waiting => {
            note("the action asks a person, and `try` has nobody who answers:");
            for question in &result.questions {
                printer.note(format_args!("  {}", sanitize_line(question)));
            }
        }
        Status::OutOfBudget => note("out of budget"),
        Status::Interrupted => note("interrupted"),
        _ => {}
    }
    if args.json {
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        let document = serde_json::to_value(result).unwrap_or_default();
        printer.print_json(&document.to_string());
        return;
    }
    if let Some(text) = result.output_text() {
        show_output(&text, printer);
    }
}
