//! `database`: creates the tables of a database, opens it for new runs and closes it, limits what its runs
//! cost together, declares that it was restored, says how long runs are kept, and finds runs.

use serde_json::{Value, json};
use strata_host::storage::{CapChange, CapScope, CapState, DatabaseSet, Intake, SpanText};

use super::args::{CapArgs, DatabaseArgs, DatabaseCommand, RetentionArgs};
use super::{CommandFailure, Printer, pluralize};

pub(super) fn database(command: DatabaseCommand, printer: &Printer) -> Result<u8, CommandFailure> {
    match command {
        DatabaseCommand::Migrate(args) => {
            let settings = args.database.prepare()?;
            let document = json!({
                "database": args.database.to_string(), "incarnation": settings.incarnation,
                "open": settings.intake == Intake::Open,
            });
            let text = format!("`{}` has the tables of this version", args.database);
            show(args.json, &document, &text, printer)?;
        }
        DatabaseCommand::Close(args) => set_intake(&args, Intake::Closed, printer)?,
        DatabaseCommand::Open(args) => set_intake(&args, Intake::Open, printer)?,
        DatabaseCommand::Cap(args) => cap(&args, printer)?,
        DatabaseCommand::Fence(args) => {
            let fenced = args.database.fence()?;
            let runs = pluralize(fenced.runs, "run");
            let document = json!({
                "database": args.database.to_string(), "incarnation": fenced.incarnation, "runs": fenced.runs,
            });
            let text = format!(
                "`{}` is now incarnation {}; it has {runs}, which nobody owns, and processes that used it before can change nothing",
                args.database, fenced.incarnation
            );
            show(args.json, &document, &text, printer)?;
        }
        DatabaseCommand::Retention(args) => retention(&args, printer)?,
        DatabaseCommand::Find {
            run,
            databases,
            json,
        } => {
            let Some(database) = DatabaseSet::new(databases).find(&run)? else {
                return Err(CommandFailure::usage(format!(
                    "none of these databases has a run `{run}`"
                )));
            };
            let place = database.location(&run).to_string();
            if json {
                printer.print_json_line(&json!({ "name": run, "place": place }))?
            } else {
                printer.print_text(&place)
            }
        }
    }
    Ok(0)
}

/// Prints what was done, as JSON or as a message.
fn show(
    is_json: bool,
    document: &Value,
    text: &str,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    if is_json {
        printer.print_json_line(document)
    } else {
        printer.note(text);
        Ok(())
    }
}

fn set_intake(
    args: &DatabaseArgs,
    intake: Intake,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    args.database.set_intake(intake)?;
    let (is_open, what) = match intake {
        Intake::Open => (true, "takes new runs"),
        Intake::Closed => (false, "takes no new runs"),
    };
    let document = json!({ "database": args.database.to_string(), "open": is_open });
    let text = format!("`{}` {what}", args.database);
    show(args.json, &document, &text, printer)
}

/// Says for how long runs are kept, or shows it.
fn retention(args: &RetentionArgs, printer: &Printer) -> Result<(), CommandFailure> {
    let database = &args.database;
    let retention = match &args.keep {
        Some(retention) => {
            database.set_retention(retention)?;
            retention.clone()
        }
        None => database.retention()?,
    };
    if args.json {
        let spans = retention.spans().iter();
        let spans =
            spans.map(|(status, span)| ((*status).to_owned(), json!(SpanText(*span).to_string())));
        let spans: serde_json::Map<String, Value> = spans.collect();
        return printer
            .print_json_line(&json!({ "database": database.to_string(), "keep": spans }));
    }
    if retention.is_empty() {
        printer.note(format_args!("`{database}` keeps all runs"));
    }
    for (status, span) in retention.spans() {
        let span = SpanText(*span);
        printer.print_text(&format!("{status}: kept for {span} after the end"));
    }
    Ok(())
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
        let document =
            json!({ "database": database.to_string(), "scope": scope.name(), "cap": null });
        let text = format!("{} have no cap any more", describe_runs(&scope));
        return show(args.json, &document, &text, printer);
    }
    let mut caps = database.caps()?;
    if args.scope.is_some() || !changes.is_empty() {
        caps.retain(|cap| cap.scope == scope);
    }
    if caps.is_empty() && !args.json {
        printer.note("there is no cap");
    }
    for cap in &caps {
        if args.json {
            printer.print_json_line(&json!({
                "database": database.to_string(), "scope": cap.scope.name(), "cap": cap.cap.to_dollars(),
                "spent": cap.spent.to_dollars(), "held": cap.held.to_dollars(),
            }))?
        } else {
            printer.print_text(&describe_cap(cap))
        }
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
