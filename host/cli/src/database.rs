//! `database`: creates the tables of a database, opens it for new runs and closes it, limits what its runs
//! cost together, declares that it was restored, and finds runs.

use strata_host::storage::{CapChange, CapScope, CapState, DatabaseSet, Intake};

use super::args::{CapArgs, DatabaseCommand};
use super::{CommandFailure, Printer, pluralize};

pub(super) fn database(command: DatabaseCommand, printer: &Printer) -> Result<u8, CommandFailure> {
    match command {
        DatabaseCommand::Migrate(args) => {
            args.database.prepare()?;
            printer.note(format_args!(
                "`{}` has the tables of this version",
                args.database
            ));
        }
        DatabaseCommand::Close(args) => {
            args.database.set_intake(Intake::Closed)?;
            printer.note(format_args!("`{}` takes no new runs", args.database));
        }
        DatabaseCommand::Open(args) => {
            args.database.set_intake(Intake::Open)?;
            printer.note(format_args!("`{}` takes new runs", args.database));
        }
        DatabaseCommand::Cap(args) => cap(&args, printer)?,
        DatabaseCommand::Fence(args) => {
            let fenced = args.database.fence()?;
            let runs = pluralize(fenced.runs, "run");
            printer.note(format_args!(
                "`{}` is now incarnation {}; it has {runs}, which nobody owns, and processes that used it before can change nothing",
                args.database, fenced.incarnation
            ));
        }
        DatabaseCommand::Find { run, databases } => {
            let Some(database) = DatabaseSet::new(databases).find(&run)? else {
                return Err(CommandFailure::usage(format!(
                    "none of these databases has a run `{run}`"
                )));
            };
            printer.print_text(&database.location(&run).to_string());
        }
    }
    Ok(0)
}

/// Changes a cap, or shows those that there are.
fn cap(args: &CapArgs, printer: &Printer) -> Result<(), CommandFailure> {
    let database = &args.database;
    let scope = args.scope.clone().unwrap_or(CapScope::All);
    let mut changes: Vec<CapChange> = args.set.map(CapChange::Set).into_iter().collect();
    if args.reset {
        changes.push(CapChange::Restart);
    }
    if args.remove {
        changes.push(CapChange::Remove);
    }
    for change in &changes {
        if !database.change_cap(&scope, *change)? {
            return Err(CommandFailure::usage(format!(
                "`{database}` has no cap of scope `{scope}`; set one with `--set USD`"
            )));
        }
    }
    if args.remove {
        printer.note(format_args!(
            "{} have no cap any more",
            describe_runs(&scope)
        ));
        return Ok(());
    }
    let mut caps = database.caps()?;
    if args.scope.is_some() || !changes.is_empty() {
        caps.retain(|cap| cap.scope == scope);
    }
    if caps.is_empty() {
        printer.note("there is no cap");
    }
    for cap in &caps {
        printer.print_text(&describe_cap(cap));
    }
    Ok(())
}

/// Describes the runs to which a cap applies.
pub(super) fn describe_runs(scope: &CapScope) -> String {
    match scope {
        CapScope::All => "all runs".into(),
        CapScope::Named(name) => format!("the runs of scope `{name}`"),
    }
}

fn describe_cap(cap: &CapState) -> String {
    format!(
        "{}: spent {} of {}, {} held by processes",
        cap.scope, cap.spent, cap.cap, cap.held
    )
}
