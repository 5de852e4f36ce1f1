//! `workers`: lists the workers of a database, and tells one to end.

use serde_json::json;
use strata_host::storage::{ListedWorker, RunDatabase};

use super::args::{WorkersArgs, WorkersCommand};
use super::inspect::TextTable;
use super::runs::describe_age;
use super::{CommandFailure, Printer, shell_word};

pub(super) fn workers(args: &WorkersArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    if let Some(WorkersCommand::Drain { database, id, json }) = &args.command {
        return drain(database, id, *json, printer);
    }
    let Some(database) = &args.database else {
        let text = "name the database: a URL such as `postgres://host/teams` or `sqlite:PATH`";
        return Err(CommandFailure::usage(text));
    };
    show(&database.workers()?, args.json, printer)
}

/// Prints workers.
pub(super) fn show(
    workers: &[ListedWorker],
    is_json: bool,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    if is_json {
        for worker in workers {
            printer.print_json_line(&document(worker))?;
        }
        return Ok(0);
    }
    let head = [
        "id",
        "machine",
        "version",
        "labels",
        "secrets",
        "room",
        "runs",
        "heartbeat",
    ];
    let mut table = TextTable::new(&head, printer);
    for worker in workers {
        table.add_row(cells(worker));
    }
    if table.is_empty() {
        printer.note("there is no worker");
    } else {
        table.print(printer);
    }
    Ok(0)
}

fn document(worker: &ListedWorker) -> serde_json::Value {
    json!({
        "id": worker.id, "host": worker.profile.host, "version": worker.version, "labels": worker.profile.labels,
        "secrets": worker.profile.secrets, "room": worker.profile.room, "runs": worker.runs,
        "beat_age_ms": worker.beat_age_ms, "draining": worker.is_draining,
    })
}

fn cells(worker: &ListedWorker) -> [String; 8] {
    let list = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => names.join(", "),
    };
    let draining = if worker.is_draining { ", draining" } else { "" };
    [
        worker.id.clone(),
        worker.profile.host.clone(),
        worker.version.clone(),
        list(&worker.profile.labels),
        list(&worker.profile.secrets),
        worker.profile.room.to_string(),
        worker.runs.to_string(),
        format!("{} ago{draining}", describe_age(worker.beat_age_ms)),
    ]
}

fn drain(
    database: &RunDatabase,
    id: &str,
    is_json: bool,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    if !database.drain_worker(id)? {
        let url = shell_word(&database.to_string());
        return Err(CommandFailure::usage(format!(
            "`{database}` has no worker `{id}`; `strata-host workers {url}` lists them"
        )));
    }
    if is_json {
        let told = json!({ "database": database.to_string(), "id": id, "draining": true });
        return printer.print_json_line(&told).map(|()| 0);
    }
    printer.note(format_args!(
        "worker `{id}` takes nothing more, and ends when its runs have been given up"
    ));
    Ok(0)
}
