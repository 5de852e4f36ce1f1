//! `replay`: repeats recorded attempts and compares them with the record.

use strata_core::record::id::Digest;
use strata_host::launch::{self, ReplayRequest};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::replay::{
    AttemptDifference, AttemptSelection, OnDifference, ReplayReport, SkipReason,
};

use super::run::saved_team_file;
use super::{CommandFailure, Printer, ReplayArgs};

pub(super) fn replay(args: ReplayArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(1)
        .build();
    let runtime = runtime
        .map_err(|error| CommandFailure::internal(format!("cannot start the runtime: {error}")))?;
    let on_difference = if args.verify {
        OnDifference::Stop
    } else {
        OnDifference::Continue
    };
    let operators = in_force(args.policy.as_deref())?;
    let overrides = Overrides {
        operators,
        components: args.component,
        ..Overrides::default()
    };
    let replay = ReplayRequest {
        storage: args.path,
        team: args.team,
        saved_team_file: saved_team_file(args.trust),
        overrides,
        lineage: args.lineage,
        selection: AttemptSelection {
            step: args.step,
            action: args.action,
        },
        on_difference,
    };
    let report = runtime.block_on(launch::replay(replay, &mut |notice| printer.notice(notice)))?;
    show_report(&report, printer);
    if report.equal == 0 && report.differences.is_empty() {
        return Err(CommandFailure::usage(match report.skipped.as_slice() {
            [] => {
                "no such attempt is recorded, so nothing was verified; `events` lists the recorded ones"
            }
            _ => "no recorded attempt could be repeated, so nothing was verified",
        }));
    }
    Ok(if args.verify && !report.differences.is_empty() {
        3
    } else {
        0
    })
}

fn show_report(report: &ReplayReport, printer: &Printer) {
    for (place, why) in &report.skipped {
        printer.note(format_args!(
            "{place} is not made again: {}",
            skip_reason(why)
        ));
    }
    for (action, what) in &report.unrecorded {
        printer.note(format_args!(
            "`{action}` may look at {what}, which is not recorded"
        ));
    }
    for AttemptDifference {
        attempt: place,
        what,
        recorded,
        found,
    } in &report.differences
    {
        printer.print_line(&format!("{place}: {what} differs"));
        printer.print_text(&format!("  recorded: {recorded}"));
        printer.print_text(&format!("  found:    {found}"));
    }
    let (equal, different, skipped) =
        (report.equal, report.differences.len(), report.skipped.len());
    printer.print_line(&format!(
        "equal: {equal}, different: {different}, not made again: {skipped}"
    ));
}

fn skip_reason(why: &SkipReason) -> String {
    match why {
        SkipReason::OtherComponent { recorded, found } => {
            let name = |digest: &Option<Digest>| {
                digest
                    .as_ref()
                    .map_or("none".into(), |digest| digest.0.clone())
            };
            let (recorded, found) = (name(recorded), name(found));
            format!(
                "its component was `{recorded}` and is `{found}`; `--component` names the one of then"
            )
        }
        SkipReason::OtherGuard {
            guard,
            recorded,
            found,
        } => format!(
            "the guard `{guard}` was `{recorded}` and is `{found}`; `--component {guard}=FILE` names the one of then"
        ),
        SkipReason::CutOff => "it was cut off".into(),
        SkipReason::OutOfTime(kind) => format!("it ended by its time limit (`{}`)", kind.name()),
        SkipReason::FileMissing => "it looked at a file whose bytes were pruned".into(),
    }
}
