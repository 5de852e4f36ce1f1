//! `database`: creates the tables of a database, opens it for new runs and closes it, declares that it was
//! restored, and finds runs.

use strata_host::storage::{DatabaseSet, Intake};

use super::args::DatabaseCommand;
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
