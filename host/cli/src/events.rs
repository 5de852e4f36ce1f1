//! `events`: prints the recorded events from the beginning, and with `--follow` those that are
//! added.

use std::thread::sleep;
use std::time::Duration;

use strata_host::launch::EventReader;
use strata_host::storage::LockHolder;

use super::{CommandFailure, Printer};

/// The interval at which new events are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn events(
    at: &str,
    lineage: Option<&str>,
    follow: bool,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let mut telling = match lineage {
        Some(_) => EventReader::open_lineage(&at.into(), lineage)?,
        None => EventReader::parse_and_open(at)?,
    };
    let (dropped, all) = telling.pruned_events()?;
    if dropped > 0 {
        printer.note(format_args!(
            "{dropped} of {all} recorded events were pruned and are not told"
        ));
    }
    loop {
        // The holder is determined before reading: a process that releases the storage has recorded
        // all of its events.
        let goes_on = follow && telling.holder()? != LockHolder::Nobody;
        // Reading stops once the reader of stdout has gone away.
        while !printer.is_stdout_closed()
            && let Some(lines) = telling.next_lines()?
        {
            for line in &lines {
                printer.print_json(&line.to_json());
            }
        }
        if !goes_on || printer.is_stdout_closed() {
            return Ok(0);
        }
        sleep(POLL_INTERVAL);
    }
}
