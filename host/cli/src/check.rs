//! `check`: validates a team, links its components and prints what each action is granted. No
//! action is run.

use strata_host::launch::{Components, Notice};
use strata_host::manifest::operator::in_force;
use strata_host::manifest::{Definition, policy, unwatched_idea, warnings};
use strata_host::sandbox::{HiddenStorage, WasmSandbox};

use serde_json::json;

use super::advice::describe_advice;
use super::{CheckArgs, CommandFailure, Printer, pluralize};
use crate::progress::ProgressDisplay;

/// Runs `check`. With `--json`, problems of a file are written to stdout, too, for editors.
pub(super) fn check(args: &CheckArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let checked = check_team(args, printer);
    if args.json
        && let Err(failure) = &checked
        && let Some(problems) = failure.problems()
    {
        printer.print_document(&json!({ "problems": problems.list(&describe_advice) }))?;
    }
    checked
}

fn check_team(args: &CheckArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut definition = Definition::read(&args.team)?;
    definition.apply_policies(&in_force(args.policy.as_deref())?)?;
    let sandbox =
        WasmSandbox::one_shot().map_err(|error| CommandFailure::internal(error.to_string()))?;
    let mut warning_count = 0_u64;
    let mut progress = ProgressDisplay::start(printer);
    let components = Components::load(&definition, &sandbox, &mut |notice| {
        warning_count += u64::from(matches!(
            notice,
            Notice::Warning(_) | Notice::AdvisedWarning(..)
        ));
        progress.show_notice(notice);
    });
    drop(progress);
    let components = components?;
    components.check_scripts(&definition)?;
    let undescribed = components.description_warnings(&definition);
    components.services(&definition, sandbox, HiddenStorage::default())?;
    for cut in definition.describe_reductions() {
        printer.note(cut);
    }
    // `doubts` are also reported by a run at its start, `unheard` only when they occur.
    for doubt in warnings(&definition)
        .iter()
        .chain(&unwatched_idea(&definition).map(|warning| warning + " (`strata-host send`)"))
        .chain(&undescribed)
    {
        warning_count += 1;
        printer.warn(doubt);
    }
    let rows = policy::rows(&definition, &components.digests());
    if args.json {
        printer.print_document(&rows)?;
    } else {
        printer.print_text(policy::render(&rows).trim_end());
    }
    if args.deny_warnings && warning_count > 0 {
        let warnings = pluralize(warning_count, "warning");
        return Err(CommandFailure::usage(format!(
            "{warnings}, which `--deny-warnings` does not allow"
        )));
    }
    Ok(0)
}
