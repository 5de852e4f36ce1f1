//! Reads single rows and ranges of them: events, gaps, the definition. Whatever is read is
//! verified.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use strata_core::record::event::{AttemptEvent, Event, FilesWritten};
use strata_core::record::id::Digest;
use strata_core::record::message::stored_parts;
use strata_core::record::turn::stored_media;
use strata_core::record::work::CallResult;

use super::Reader;
use crate::storage::codec::{self, DecodeError};
use crate::storage::error::StoreError;
use crate::storage::lineage::{
    EventPath, MAX_POSITION, StoredLineage, event_key, key_range, position_of_key,
};
use crate::storage::{Record, SavedDefinition};

/// The columns of an event, in the order in which `record` reads them.
const EVENT_COLUMNS: &str = "n, line, lines, time_ms, marks, sum, body";

/// The largest number of a public line that is accepted.
const MAX_LINE: u64 = 1 << 62;

/// A range of events that were dropped, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) struct Gap {
    pub first: i64,
    pub last: i64,
    /// The next step after them.
    pub step: i64,
}

impl Reader {
    /// Returns how many events a lineage itself has from position `first` to `last`, and the size
    /// in bytes of these events and of the snapshots after them.
    pub(in crate::storage) fn size_between(
        &self,
        lineage: i64,
        first: i64,
        last: i64,
    ) -> Result<(u64, u64), StoreError> {
        let range = [event_key(lineage, first), event_key(lineage, last)];
        let count_and_size = |table: &str| -> Result<(i64, i64), StoreError> {
            let sql = format!(
                "SELECT count(*), coalesce(sum(length(body)), 0) FROM {table} WHERE n BETWEEN ?1 AND ?2"
            );
            let row = self
                .prepare(&sql)?
                .query_row(range, |row| Ok((row.get(0)?, row.get(1)?)));
            row.map_err(|e| self.error("read", e))
        };
        let ((events, weight), (_, snapshots)) =
            (count_and_size("event")?, count_and_size("snapshot")?);
        Ok((events as u64, (weight + snapshots) as u64))
    }

    /// Returns the events on a path from position `first` to `last`. Fails if one is missing.
    pub(in crate::storage) fn records_between(
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
            let range = (piece.after.max(first - 1) + 1, piece.until.min(last));
            self.visit_events(
                "",
                (
                    event_key(piece.lineage, range.0),
                    event_key(piece.lineage, range.1),
                ),
                |n, record| {
                    if n != expected {
                        return Err(self.corrupt(format!("event {expected} is missing")));
                    }
                    found.push(record);
                    expected += 1;
                    Ok(())
                },
            )?;
        }
        if expected <= last {
            return Err(self.corrupt(format!("event {expected} is missing")));
        }
        Ok(found)
    }

    /// Returns the events of a lineage itself that concern checkpoints, with their positions.
    pub(super) fn checkpoint_events(&self, lineage: i64) -> Result<Vec<(u64, Record)>, StoreError> {
        let marking = self.select_events("AND marks = 1", key_range(lineage))?;
        Ok(marking
            .into_iter()
            .map(|(at, record)| (at as u64, record))
            .collect())
    }

    /// Returns those after a position.
    pub(in crate::storage) fn checkpoint_events_after(
        &self,
        lineage: i64,
        at: i64,
    ) -> Result<Vec<(i64, Record)>, StoreError> {
        self.select_events(
            "AND marks = 1",
            (event_key(lineage, at + 1), key_range(lineage).1),
        )
    }

    /// Returns the digests of all files and parts of messages that events of a lineage itself refer
    /// to, except events at positions that are gone.
    pub(in crate::storage) fn file_digests(
        &self,
        lineage: i64,
        is_gone: impl Fn(i64) -> bool,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let mut found = BTreeSet::new();
        self.visit_events("", key_range(lineage), |at, record| {
            if !is_gone(at) {
                add_digests(&record.event, &mut found);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the events in a range of keys that fulfil an SQL condition, with their positions.
    fn select_events(
        &self,
        condition: &str,
        keys: (i64, i64),
    ) -> Result<Vec<(i64, Record)>, StoreError> {
        let mut found = Vec::new();
        self.visit_events(condition, keys, |at, record| {
            found.push((at, record));
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes the events in a range of keys that fulfil an SQL condition to `take`, with their
    /// positions.
    fn visit_events(
        &self,
        condition: &str,
        keys: (i64, i64),
        mut take: impl FnMut(i64, Record) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {EVENT_COLUMNS} FROM event WHERE n BETWEEN ?1 AND ?2 {condition} ORDER BY n"
        );
        let mut statement = self.prepare(&sql)?;
        let rows = statement.query_map(params![keys.0, keys.1], |row| {
            Ok((row.get(0)?, record_from_row(row)?))
        });
        for row in rows.map_err(|e| self.error("read", e))? {
            let (n, record) = row.map_err(|e| self.error("read", e))?;
            let at = position_of_key(n);
            take(
                at,
                record.map_err(|e| self.decode_error(&format!("event {at}"), e))?,
            )?;
        }
        Ok(())
    }

    /// Returns a lineage including the events that were appended after its row was written. Fails
    /// if the last event that the row knows is missing.
    pub(in crate::storage) fn with_newest_events(
        &self,
        row: StoredLineage,
    ) -> Result<StoredLineage, StoreError> {
        let mut statement = self.prepare(&format!(
            "SELECT {EVENT_COLUMNS} FROM event WHERE n BETWEEN ?1 AND ?2 ORDER BY n"
        ))?;
        let has_own = row.events > row.start();
        let first = if has_own { row.events } else { row.events + 1 };
        let read = |row: &Row<'_>| {
            Ok((
                position_of_key(row.get(0)?),
                row.get::<_, u32>(5)?,
                row.get_ref(6)?.as_blob()?.len(),
                record_from_row(row)?,
            ))
        };
        let range = params![event_key(row.id, first), key_range(row.id).1];
        let rows = statement
            .query_map(range, read)
            .map_err(|e| self.error("read", e))?;
        let mut newest = StoredLineage {
            events: first - 1,
            ..row.clone()
        };
        for found in rows {
            let (at, sum, weight, record) = found.map_err(|e| self.error("read", e))?;
            if at != newest.events + 1 {
                return Err(self.corrupt(format!("event {} is missing", newest.events + 1)));
            }
            let record = record.map_err(|e| self.decode_error(&format!("event {at}"), e))?;
            match at > row.events {
                true => newest.count_event(&record.event, weight, sum),
                false if sum == row.last_checksum => newest.events = at,
                false => {
                    return Err(self.corrupt(format!("event {at} is not the one that was last")));
                }
            }
        }
        match newest.events < row.events {
            true => Err(self.corrupt(format!("event {first} is missing"))),
            false => Ok(newest),
        }
    }

    /// Returns the gaps in a lineage itself, in order.
    pub(in crate::storage) fn gaps(&self, lineage: i64) -> Result<Vec<Gap>, StoreError> {
        let mut statement = self
            .prepare("SELECT n, last, step, sum FROM gap WHERE n BETWEEN ?1 AND ?2 ORDER BY n")?;
        let (first, last) = key_range(lineage);
        let read = |row: &Row<'_>| -> rusqlite::Result<([i64; 3], u32)> {
            Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?))
        };
        let rows = statement
            .query_map([first, last], read)
            .map_err(|e| self.error("read", e))?;
        let mut gaps = Vec::new();
        for row in rows {
            let ([n, last, step], sum) = row.map_err(|e| self.error("read", e))?;
            codec::verify(sum, &[n, last, step], &[])
                .map_err(|e| self.decode_error("what was dropped of it", e))?;
            let first = position_of_key(n);
            if !(first..=MAX_POSITION).contains(&last) || step < 0 {
                return Err(self.decode_error("what was dropped of it", DecodeError::OutOfRange));
            }
            gaps.push(Gap { first, last, step });
        }
        Ok(gaps)
    }

    /// Returns the gaps along a path, in order.
    pub(super) fn gaps_on(&self, path: &EventPath) -> Result<Vec<Gap>, StoreError> {
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

    /// Returns how many changes of all runs were recorded: events of all lineages, and other changes that must
    /// not be lost. Also returns whether there must be a log with further changes.
    pub(in crate::storage) fn count_changes(&self) -> Result<(u64, bool), StoreError> {
        let _same = self.begin_read()?;
        let own = |row: &StoredLineage| row.events - row.start();
        let events: i64 = self.stored_lineages()?.iter().map(own).sum::<i64>()
            + self.lineages_of_others()?.iter().map(own).sum::<i64>();
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let row = self
            .conn
            .query_row("SELECT changes, expected FROM log", [], read);
        let (others, expected) = row.map_err(|e| self.error("read", e))?;
        match (u64::try_from(others), expected) {
            (Ok(others), 0 | 1) => Ok(((events as u64).saturating_add(others), expected == 1)),
            _ => Err(self.decode_error("what is known of its log", DecodeError::OutOfRange)),
        }
    }

    /// Returns the note with this name, or `None` if there is none.
    pub(in crate::storage) fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        let mut statement = self.prepare("SELECT text FROM note WHERE run = ?1 AND name = ?2")?;
        statement
            .query_row(params![self.run, name], |row| row.get(0))
            .optional()
            .map_err(|e| self.error("read", e))
    }

    pub(super) fn definition_now(&self) -> Result<SavedDefinition, StoreError> {
        let read = |row: &Row<'_>| {
            let parts: [String; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
            Ok((parts, row.get::<_, u32>(4)?))
        };
        let row = self.conn.query_row(
            "SELECT name, base, text, components, sum FROM definition WHERE run = ?1",
            [self.run],
            read,
        );
        let (parts, sum) = row.map_err(|e| self.error("read", e))?;
        codec::verify(
            sum,
            &[],
            definition_checksum_input(parts.each_ref().map(String::as_str)).as_bytes(),
        )
        .map_err(|e| self.decode_error("the team file in it", e))?;
        let [name, base, text, components] = parts;
        let components =
            serde_json::from_str(&components).map_err(|e| self.corrupt(e.to_string()))?;
        Ok(SavedDefinition {
            name,
            base: base.into(),
            text,
            components,
        })
    }
}

/// Decodes an event and what is stored with it, if the checksum matches.
fn record_from_row(row: &Row<'_>) -> rusqlite::Result<Result<Record, DecodeError>> {
    let n: i64 = row.get(0)?;
    let line: i64 = row.get(1)?;
    let lines: i64 = row.get(2)?;
    let time_ms: i64 = row.get(3)?;
    let marks: i64 = row.get(4)?;
    let sum: u32 = row.get(5)?;
    let body = row.get_ref(6)?.as_blob()?;
    let numbers = [n, line, lines, time_ms, marks];
    let event = codec::verify(sum, &numbers, body).and_then(|()| {
        let (line, lines) = (
            line_number(line)?,
            u32::try_from(lines).map_err(|_| DecodeError::OutOfRange)?,
        );
        Ok(Record {
            line,
            lines,
            time_ms,
            event: codec::decode_event(body)?,
        })
    });
    Ok(event)
}

/// Returns the number of a public line, if it is in range: the numbers of all later lines have to
/// fit as well.
pub(in crate::storage) fn line_number(line: i64) -> Result<u64, DecodeError> {
    u64::try_from(line)
        .ok()
        .filter(|line| *line <= MAX_LINE)
        .ok_or(DecodeError::OutOfRange)
}

/// Returns the bytes that the checksum of a definition covers.
pub(in crate::storage) fn definition_checksum_input(parts: [&str; 4]) -> String {
    parts.join("\0")
}

/// Adds the digests of the files, and of the parts of messages, that an event refers to.
fn add_digests(event: &Event, found: &mut BTreeSet<Digest>) {
    match event {
        Event::MessageSent(sent) => found.extend(stored_parts(&sent.message.parts).cloned()),
        Event::Attempt(_, AttemptEvent::FilesWritten(FilesWritten { files })) => {
            let contents = files
                .iter()
                .flat_map(|change| [&change.before, &change.after]);
            found.extend(contents.filter_map(|content| content.digest().cloned()));
        }
        Event::Attempt(_, AttemptEvent::CallFinished(finished)) => {
            if let CallResult::Replied(reply) = &finished.result {
                found.extend(stored_media(&reply.message).cloned());
            }
            let (output, emissions) = match &finished.result {
                CallResult::Returned {
                    output, emissions, ..
                } => (Some(output), &emissions[..]),
                CallResult::Planned { emissions, .. } => (None, &emissions[..]),
                CallResult::Chosen(_) | CallResult::Replied(_) => (None, &[][..]),
            };
            for draft in output.into_iter().chain(emissions) {
                found.extend(stored_parts(&draft.parts).cloned());
            }
        }
        _ => {}
    }
}
