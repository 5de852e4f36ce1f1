//! `worker`: runs submitted teams.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::event::Status;
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::{OperatorPolicy, in_force};
use strata_host::manifest::submission::{SubmissionGrants, allowed_secrets};
use strata_host::storage::WorkerProfile;
use strata_host::worker::{RunObserver, WorkerReport, WorkerSettings, machine_name, work};

use super::args::WorkerArgs;
use super::printer::Verbosity;
use super::run::block_on_run;
use super::sanitize::sanitize;
use super::signals::Signals;
use super::{CommandFailure, Printer, pluralize};

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
    let verbosity = match args.quiet {
        true => Verbosity::Quiet,
        false => Verbosity::Normal,
    };
    let printer = printer.with_verbosity(verbosity);
    block_on_run(|_| async move {
        let signals = Signals::subscribe()?;
        signals.set_runs_started(settings.drain);
        let report = {
            let printer = printer.clone();
            let room = settings.room;
            Arc::new(move |report: WorkerReport<'_>| show_report(&report, room, &printer))
        };
        work(settings, signals.stop.clone(), report).await?;
        Ok(0)
    })
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
        _ if printer.is_quiet() => {}
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
