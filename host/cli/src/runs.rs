//! `runs`: lists runs.

use strata_core::record::money::Usd;
use strata_host::clock::{now_ms, parse_rfc3339};
use strata_host::operate::list_runs;
use strata_host::view::RunRow;

use super::args::RunsArgs;
use super::inspect::TextTable;
use super::{CommandFailure, Printer};

pub(super) fn runs(args: &RunsArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let found = match args.places() {
        Some(places) => list_runs(&places, &args.filter())?,
        None => Vec::new(),
    };
    let rows = found
        .into_iter()
        .map(|run| RunRow::new(&run.listing, run.damage));
    if args.json {
        for row in rows {
            printer.print_json_line(&row)?;
        }
        return Ok(0);
    }
    let rows = rows.map(|row| {
        let owner = describe_owner(&row);
        (row, owner)
    });
    show("owner", rows, printer);
    Ok(0)
}

/// Shows runs as a table, each with what the column `about` says of it.
pub(super) fn show(about: &str, rows: impl Iterator<Item = (RunRow, String)>, printer: &Printer) {
    let head = [
        "name", "team", "state", "status", "step", "spent", "requests", "faults", about, "changed",
    ];
    let mut table = TextTable::new(&head, printer);
    for (row, about) in rows {
        table.add_row(cells(&row, about));
    }
    if table.is_empty() {
        printer.note("there is no such run");
    } else {
        table.print(printer);
    }
}

/// Describes which process works on a run.
fn describe_owner(row: &RunRow) -> String {
    row.owner.as_ref().map_or_else(none, |owner| {
        let host = owner.host.as_ref();
        host.map_or_else(
            || owner.worker.clone(),
            |host| format!("{} on {host}", owner.worker),
        )
    })
}

fn cells(row: &RunRow, about: String) -> [String; 10] {
    let number = |value: Option<u64>| value.map_or_else(none, |value| value.to_string());
    let spent = match (row.spent, row.budget) {
        (Some(spent), Some(budget)) => format!("{spent} of {budget}"),
        (spent, _) => spent.as_ref().map_or_else(none, Usd::to_string),
    };
    let status = match &row.problem {
        Some(_) if row.status.is_none() => "unreadable".to_owned(),
        _ if row.is_cut_off() => "cut off".to_owned(),
        _ => row.status.map_or_else(none, str::to_owned),
    };
    [
        row.name.clone(),
        row.team.clone().unwrap_or_else(none),
        row.state.into(),
        status,
        number(row.step),
        spent,
        number(row.requests),
        number(row.faults),
        about,
        row.changed.as_deref().map_or_else(none, age_of),
    ]
}

/// What a cell shows for a value that is not known.
pub(super) fn none() -> String {
    "-".into()
}

/// Returns how long ago a time was.
fn age_of(time: &str) -> String {
    let Some(time_ms) = parse_rfc3339(time) else {
        return time.into();
    };
    describe_age(now_ms().saturating_sub(time_ms))
}

/// Describes a span of time in its largest unit.
pub(super) fn describe_age(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
