//! `worker`: runs submitted teams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use strata_core::record::event::Status;
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::{OperatorPolicy, in_force};
use strata_host::manifest::submission::{SubmissionGrants, allowed_secrets};
use strata_host::storage::WorkerProfile;
use strata_host::worker::{
    RunObserver, WORKER_PATIENCE, WorkerReport, WorkerSettings, machine_name, work_with_metrics,
    worker_metrics,
};
use tracing::Level;

use super::args::WorkerArgs;
use super::printer::Verbosity;
use super::run::block_on_run;
use super::sanitize::sanitize;
use super::signals::Signals;
use super::worker_log::WorkerLog;
use super::{CommandFailure, Printer, metrics, pluralize};

pub(super) fn worker(args: WorkerArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let named = args
        .policy
        .as_deref()
        .map(OperatorPolicy::read)
        .transpose()?;
    let grants = SubmissionGrants::from_policy(named.as_ref());
    if named.is_some() && grants == SubmissionGrants::None {
        printer.warn("the policy has no `[allow]`, so it grants nothing to submitted teams");
    }
    let operators = in_force(args.policy.as_deref())?;
    let settings = WorkerSettings {
        room: args.room,
        drain: args.drain,
        patience: args.patience.unwrap_or(WORKER_PATIENCE),
        profile: WorkerProfile {
            host: machine_name(),
            labels: args.label,
            secrets: allowed_secrets(&operators, grants),
            room: args.room,
        },
        workspaces: args.workspaces,
        overrides: Overrides {
            operators,
            ..Overrides::default()
        },
        grants,
        tenants: BTreeMap::new(),
        observer: RunObserver::default(),
        databases: args.database,
    };
    let verbosity = if args.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = printer.with_verbosity(verbosity);
    let log = args.log.map(|format| WorkerLog::new(format, &printer));
    let done = block_on_run(|_| work_until_stopped(settings, args.metrics, log.clone(), printer));
    match (done, log) {
        // Whoever collects the lines should find the last one in the same form.
        (Err(failure), Some(log)) => {
            log.note(Level::ERROR, None, &failure.to_text());
            Ok(failure.code)
        }
        (done, _) => done,
    }
}

async fn work_until_stopped(
    settings: WorkerSettings,
    address: Option<SocketAddr>,
    log: Option<WorkerLog>,
    printer: Printer,
) -> Result<u8, CommandFailure> {
    let signals = Signals::subscribe()?;
    signals.set_runs_started(settings.drain);
    let metrics = Arc::new(worker_metrics(&settings));
    if let Some(address) = address {
        let bound = metrics::serve_process(address, &metrics).await?;
        let text = format!("metrics are at http://{bound}/metrics");
        match &log {
            Some(log) if !printer.is_quiet() => log.note(Level::INFO, None, &text),
            None if !printer.is_quiet() => printer.note(text),
            _ => {}
        }
    }
    let room = settings.room;
    let report = Arc::new(move |report: WorkerReport<'_>| match &log {
        Some(log) => log_report(&report, room, log, printer.is_quiet()),
        None => show_report(&report, room, &printer),
    });
    work_with_metrics(settings, signals.stop.clone(), report, metrics).await?;
    Ok(0)
}

/// Writes a report as a line of the log.
fn log_report(report: &WorkerReport<'_>, room: usize, log: &WorkerLog, is_quiet: bool) {
    let (level, text) = match report {
        WorkerReport::Registered(database, id) => return log.set_id(database, id),
        WorkerReport::Refused(_, why) => (Level::WARN, format!("not run: {why}")),
        WorkerReport::Lost(_, error) => (Level::WARN, format!("left: {error}")),
        WorkerReport::TakenForDead(_) => (
            Level::WARN,
            "others took this worker for dead and gave its runs away".into(),
        ),
        WorkerReport::Unavailable(_, error) => (
            Level::WARN,
            format!("the database cannot be used, and is tried again: {error}"),
        ),
        _ if is_quiet => return,
        WorkerReport::Deleted(_, runs) => (
            Level::INFO,
            format!("{} deleted that had ended", pluralize(*runs, "run")),
        ),
        WorkerReport::Attached(database) => (
            Level::INFO,
            format!("taking runs from {database}, at most {room} at a time"),
        ),
        WorkerReport::Taken(_) => (Level::INFO, "taken".into()),
        WorkerReport::Ended(_, status) => (Level::INFO, format!("ended: {}", status.name())),
        WorkerReport::TookOver(dead) => (
            Level::INFO,
            format!("the runs of {dead} dead processes are available"),
        ),
        WorkerReport::Draining(runs) => (
            Level::INFO,
            format!("nothing more is taken; waiting for the end of {runs} runs"),
        ),
        WorkerReport::Notice(_, text) => (Level::INFO, text.clone()),
    };
    match report {
        WorkerReport::Taken(run)
        | WorkerReport::Ended(run, _)
        | WorkerReport::Refused(run, _)
        | WorkerReport::Lost(run, _)
        | WorkerReport::Notice(run, _) => log.note_run(level, run, &text),
        WorkerReport::Attached(database)
        | WorkerReport::Deleted(database, _)
        | WorkerReport::TakenForDead(database)
        | WorkerReport::Unavailable(database, _) => log.note(level, Some(database), &text),
        WorkerReport::Registered(..) | WorkerReport::TookOver(_) | WorkerReport::Draining(_) => {
            log.note(level, None, &text);
        }
    }
}

pub(super) fn show_report(report: &WorkerReport<'_>, room: usize, printer: &Printer) {
    match report {
        WorkerReport::Refused(run, why) => {
            printer.warn(format_args!("`{run}` is not run: {}", sanitize_lines(why)));
        }
        WorkerReport::Lost(run, error) => printer.warn(format_args!("`{run}` is left: {error}")),
        WorkerReport::TakenForDead(database) => printer.warn(format_args!(
            "others took this worker for dead and gave its runs away; it takes new ones from `{database}`"
        )),
        WorkerReport::Unavailable(database, error) => printer.warn(format_args!(
            "`{database}` cannot be used, and is tried again: {error}"
        )),
        WorkerReport::Registered(..) => {}
        _ if printer.is_quiet() => {}
        WorkerReport::Deleted(database, runs) => printer.note(format_args!(
            "{} of `{database}` deleted that had ended and are kept no longer",
            pluralize(*runs, "run")
        )),
        WorkerReport::Attached(database) => printer.note(format_args!(
            "taking runs from {database}, at most {room} at a time"
        )),
        WorkerReport::Taken(run) => printer.note(format_args!("`{run}` is taken")),
        WorkerReport::Ended(run, Status::Waiting) => {
            printer.note(format_args!("`{run}` rests: it waits for a person"));
        }
        WorkerReport::Ended(run, status) => {
            printer.note(format_args!("`{run}` has ended: {}", status.name()));
        }
        WorkerReport::TookOver(dead) => printer.note(format_args!(
            "the runs of {dead} dead {} are available",
            if *dead == 1 { "process" } else { "processes" }
        )),
        WorkerReport::Draining(runs) => {
            let runs = pluralize(*runs as u64, "run");
            printer.note(format_args!("nothing more is taken; waiting for the end of {runs}"));
        }
        WorkerReport::Notice(run, text) => {
            printer.note(format_args!("`{run}`: {}", sanitize_lines(text)));
        }
    }
}

/// Replaces what is not seen in each line of a text that a submitted team may have determined.
fn sanitize_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(sanitize).collect();
    lines.join("\n")
}
