//! `events`: prints the recorded events from the beginning, and with `--follow` those that are
//! added.

use strata_host::launch::EventReader;
use strata_host::operate::{FollowUntil, Patience, follow_events};
use strata_host::public_event::EventLine;

use super::{CommandFailure, Printer};

pub(super) fn events(
    at: &str,
    lineage: Option<&str>,
    follow: Option<FollowUntil>,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let open = || match lineage {
        Some(_) => EventReader::open_lineage(&at.into(), lineage),
        None => EventReader::parse_and_open(at),
    };
    let mut patience = Patience::default();
    let mut telling = loop {
        let opened = match follow {
            Some(_) => patience.accept(open())?,
            None => Some(open()?),
        };
        if let Some(opened) = opened {
            break opened;
        }
    };
    let (dropped, all) = telling.pruned_events()?;
    if dropped > 0 {
        printer.note(format_args!(
            "{dropped} of {all} recorded events were pruned and are not told"
        ));
    }
    // Reading stops once the reader of stdout has gone away.
    let mut print = |line: &EventLine| {
        printer.print_json(&line.to_json());
        !printer.is_stdout_closed()
    };
    match follow {
        Some(until) => follow_events(&mut telling, until, &mut print)?,
        None => {
            while !printer.is_stdout_closed()
                && let Some(lines) = telling.next_lines()?
            {
                lines.iter().all(&mut print);
            }
        }
    }
    Ok(0)
}
