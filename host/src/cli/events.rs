//! `events`: prints the recorded events from the beginning, and with `--follow` those that are
//! added.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::terminal::is_deaf;
use super::{Failure, note, show_json};
use crate::launch::Telling;
use crate::store::Holder;

/// The interval at which new events are looked for.
const OFTEN: Duration = Duration::from_millis(100);

pub(super) fn events(at: &str, lineage: Option<&str>, follow: bool) -> Result<u8, Failure> {
    let mut telling = match lineage {
        Some(_) => Telling::of(Path::new(at), lineage)?,
        None => Telling::at(at)?,
    };
    let (dropped, all) = telling.dropped()?;
    if dropped > 0 {
        note(format_args!(
            "{dropped} of {all} recorded events were pruned and are not told"
        ));
    }
    loop {
        // The holder is determined before reading: a process that releases the storage has recorded
        // all of its events.
        let goes_on = follow && telling.holder()? != Holder::Nobody;
        // Reading stops once the reader of stdout has gone away.
        while !is_deaf()
            && let Some(lines) = telling.more()?
        {
            for line in &lines {
                show_json(&line.to_json());
            }
        }
        if !goes_on || is_deaf() {
            return Ok(0);
        }
        sleep(OFTEN);
    }
}
