//! Reads events, and the gaps that dropped ones left. Whatever is read is verified.

use std::collections::BTreeSet;

use strata_core::record::conversation::stored_media;
use strata_core::record::event::{AttemptEvent, Event, FilesWritten};
use strata_core::record::id::Digest;
use strata_core::record::message::stored_parts;
use strata_core::record::turn::{ReplyMessage, TurnReply};
use strata_core::record::work::{CallResult, Work};

use crate::Record;
use crate::codec::{self, DecodeError};
use crate::error::StoreError;
use crate::lineage::{
    EventPath, KeyRange, MAX_POSITION, StoredLineage, event_key, key_range, line_number,
    position_of_key,
};
use crate::rows::{EventRange, EventRow, EventSelection, RunRows};

/// A range of events that were dropped, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The position of the first.
    pub first: i64,
    /// The position of the last.
    pub last: i64,
    /// The next step after them.
    pub step: i64,
}

/// The events of a run, and what was dropped of them.
pub(crate) struct EventLog<'a, R> {
    /// The rows that are read.
    pub rows: &'a R,
}

impl<R: RunRows> EventLog<'_, R> {
    /// Returns how many events a lineage itself has from position `first` to `last`, and the size
    /// in bytes of these events and of the snapshots after them.
    pub(crate) fn size_between(
        &self,
        lineage: i64,
        first: i64,
        last: i64,
    ) -> Result<(u64, u64), StoreError> {
        let keys = KeyRange {
            first: event_key(lineage, first),
            last: event_key(lineage, last),
        };
        let events = self.rows.measure_events(keys)?;
        let snapshots = self.rows.measure_snapshots(keys)?;
        Ok((events.rows as u64, (events.bytes + snapshots.bytes) as u64))
    }

    /// Returns the events on a path from position `first` to `last`. Fails if one is missing.
    pub(crate) fn records_between(
        &self,
        path: &EventPath,
        first: i64,
        last: i64,
    ) -> Result<Vec<Record>, StoreError> {
        let mut found = Vec::new();
        let mut expected = first;
        for piece in path
            .iter()
            .filter(|piece| piece.until >= first && piece.after < last)
        {
            let keys = KeyRange {
                first: event_key(piece.lineage, piece.after.max(first - 1) + 1),
                last: event_key(piece.lineage, piece.until.min(last)),
            };
            self.visit_records(keys, EventSelection::All, |n, record| {
                if n != expected {
                    return Err(self.rows.corrupt(format!("event {expected} is missing")));
                }
                found.push(record);
                expected += 1;
                Ok(())
            })?;
        }
        if expected <= last {
            return Err(self.rows.corrupt(format!("event {expected} is missing")));
        }
        Ok(found)
    }

    /// Returns the events of a lineage itself that concern checkpoints, with their positions.
    pub(crate) fn checkpoint_events(&self, lineage: i64) -> Result<Vec<(u64, Record)>, StoreError> {
        let marking = self.events_of_checkpoints(key_range(lineage))?;
        Ok(marking
            .into_iter()
            .map(|(at, record)| (at as u64, record))
            .collect())
    }

    /// Returns those after a position.
    pub(crate) fn checkpoint_events_after(
        &self,
        lineage: i64,
        at: i64,
    ) -> Result<Vec<(i64, Record)>, StoreError> {
        self.events_of_checkpoints(KeyRange {
            first: event_key(lineage, at + 1),
            last: key_range(lineage).last,
        })
    }

    /// Returns the digests of all files and parts of messages that events of a lineage itself refer
    /// to, except events at positions that are gone.
    pub(crate) fn file_digests(
        &self,
        lineage: i64,
        is_gone: impl Fn(i64) -> bool,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let mut found = BTreeSet::new();
        self.visit_records(key_range(lineage), EventSelection::All, |at, record| {
            if !is_gone(at) {
                add_digests(&record.event, &mut found);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the events in a range of keys that concern checkpoints, with their positions.
    fn events_of_checkpoints(&self, keys: KeyRange) -> Result<Vec<(i64, Record)>, StoreError> {
        let mut found = Vec::new();
        self.visit_records(keys, EventSelection::Checkpoints, |at, record| {
            found.push((at, record));
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes events in a range of keys to `take`, with their positions.
    pub(crate) fn visit_records(
        &self,
        keys: KeyRange,
        selection: EventSelection,
        mut take: impl FnMut(i64, Record) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let range = EventRange { keys, selection };
        self.rows.visit_events(range, &mut |row| {
            let at = position_of_key(row.n);
            let record = decode_record(row);
            take(
                at,
                record.map_err(|e| self.rows.decode_error(&format!("event {at}"), e))?,
            )
        })
    }

    /// Returns a lineage including the events that were appended after its row was written. Fails
    /// if the last event that the row knows is missing.
    pub(crate) fn with_newest_events(
        &self,
        row: StoredLineage,
    ) -> Result<StoredLineage, StoreError> {
        let has_own = row.events > row.start();
        let first = if has_own { row.events } else { row.events + 1 };
        let mut newest = StoredLineage {
            events: first - 1,
            ..row.clone()
        };
        let keys = KeyRange {
            first: event_key(row.id, first),
            last: key_range(row.id).last,
        };
        let range = EventRange {
            keys,
            selection: EventSelection::All,
        };
        self.rows.visit_events(range, &mut |found| {
            let at = position_of_key(found.n);
            if at != newest.events + 1 {
                return Err(self
                    .rows
                    .corrupt(format!("event {} is missing", newest.events + 1)));
            }
            let record = decode_record(found)
                .map_err(|e| self.rows.decode_error(&format!("event {at}"), e))?;
            if at > row.events {
                newest.count_event(&record.event, found.body.len(), found.sum);
            } else if found.sum == row.last_checksum {
                newest.events = at;
            } else {
                return Err(self
                    .rows
                    .corrupt(format!("event {at} is not the one that was last")));
            }
            Ok(())
        })?;
        if newest.events < row.events {
            Err(self.rows.corrupt(format!("event {first} is missing")))
        } else {
            Ok(newest)
        }
    }

    /// Returns the gaps in a lineage itself, in order.
    pub fn gaps(&self, lineage: i64) -> Result<Vec<Gap>, StoreError> {
        let mut gaps = Vec::new();
        for row in self.rows.gaps(key_range(lineage))? {
            codec::verify(row.sum, &[row.n, row.last, row.step], &[])
                .map_err(|e| self.rows.decode_error("what was dropped of it", e))?;
            let first = position_of_key(row.n);
            if !(first..=MAX_POSITION).contains(&row.last) || row.step < 0 {
                return Err(self
                    .rows
                    .decode_error("what was dropped of it", DecodeError::OutOfRange));
            }
            gaps.push(Gap {
                first,
                last: row.last,
                step: row.step,
            });
        }
        Ok(gaps)
    }

    /// Returns the gaps along a path, in order.
    pub(crate) fn gaps_on(&self, path: &EventPath) -> Result<Vec<Gap>, StoreError> {
        let mut all = Vec::new();
        for piece in path {
            all.extend(
                self.gaps(piece.lineage)?
                    .into_iter()
                    .filter(|gap| gap.last <= piece.until),
            );
        }
        Ok(all)
    }
}

/// Decodes an event and what is stored with it, if the checksum matches.
fn decode_record(row: &EventRow<'_>) -> Result<Record, DecodeError> {
    let numbers = [row.n, row.line, row.lines, row.time_ms, row.marks];
    codec::verify(row.sum, &numbers, row.body)?;
    Ok(Record {
        line: line_number(row.line)?,
        lines: u32::try_from(row.lines).map_err(|_| DecodeError::OutOfRange)?,
        time_ms: row.time_ms,
        event: codec::decode_event(row.body)?,
    })
}

/// Adds the digests of the files, and of the parts of messages, that an event refers to.
fn add_digests(event: &Event, found: &mut BTreeSet<Digest>) {
    match event {
        Event::RunStarted(started) => found.extend(stored_parts(&started.parts).cloned()),
        Event::MessageSent(sent) => found.extend(stored_parts(&sent.message.parts).cloned()),
        Event::Attempt(_, AttemptEvent::FilesWritten(FilesWritten { files })) => {
            let contents = files
                .iter()
                .flat_map(|change| [&change.before, &change.after]);
            found.extend(contents.filter_map(|content| content.digest().cloned()));
        }
        // The end of a turn refers to this reply.
        Event::Attempt(call, AttemptEvent::HostCalled(called))
            if matches!(call.work, Work::Turn { .. }) =>
        {
            let parts = called.call.reply_parts().unwrap_or_default();
            found.extend(stored_media(&parts).cloned());
        }
        Event::Attempt(_, AttemptEvent::CallFinished(finished)) => {
            if let CallResult::Replied(TurnReply {
                message: ReplyMessage::Parts(parts),
                ..
            }) = &finished.result
            {
                found.extend(stored_media(parts).cloned());
            }
            let (output, emissions) = match &finished.result {
                CallResult::Returned {
                    output, emissions, ..
                } => (Some(output), &emissions[..]),
                CallResult::Planned { emissions, .. } => (None, &emissions[..]),
                CallResult::Reported { output } => (Some(output), &[][..]),
                CallResult::Chosen(_)
                | CallResult::Replied(_)
                | CallResult::SummaryDue(_)
                | CallResult::Replaced(_) => (None, &[][..]),
            };
            for draft in output.into_iter().chain(emissions) {
                found.extend(stored_parts(&draft.parts).cloned());
            }
        }
        _ => {}
    }
}
