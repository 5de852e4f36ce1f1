//! Reads a run: the same code for all databases, whose rows are read through `RunRows`. Nothing here
//! writes.
//!
//! Lineages are read in `lineages`, and the events that lead to a state, piece by piece, in `records`. Both
//! use the saved states (`state`) and the events (`events`).

mod bundle_page;
mod checkpoint_search;
mod events;
mod lineages;
mod records;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_base::files::blob::digest_of;
use strata_core::record::event::{Event, Forked};
use strata_core::record::id::{CheckpointId, Digest};
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;

use super::checkpoint_list::{LineageHistory, ListedCheckpoint, list_checkpoints};
use super::codec;
use super::error::StoreError;
use super::lineage::{EventPath, StoredLineage};
use super::rows::RunRows;
use super::{
    CheckpointRow, FIRST_LINE, LineageRow, LoadedState, Record, SavedDefinition, StateSelector,
    checkpoint_of, next_line,
};

use bundle_page::LateDecoding;
use checkpoint_search::CheckpointSearch;
use events::EventLog;
pub(crate) use lineages::makes_checkpoint;
pub use records::{RECORDS_PER_BATCH, read_in_batches};
use state::DecodeCheck;
pub use state::{SavedStates, SnapshotInfo};

/// How often a read is repeated because another process started or stopped writing meanwhile.
const MAX_READS: usize = 8;

/// What is recorded of a run, as a lease or a reader sees it: in the lineage that is current, or that the
/// reader reads.
pub trait RecordedRun {
    /// Loads a state.
    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError>;

    /// Loads the newest state for the owner of the run, who needs few of its old messages. The bytes
    /// of all of them are compared with their checksums, but they are decoded only when they are
    /// needed. If that fails, empty messages take their place, and `check_loaded` fails.
    fn load_to_continue(&self) -> Result<LoadedState, StoreError> {
        self.load(&StateSelector::Head)
    }

    /// Fails if messages of a loaded state were needed and could not be decoded. Nothing that was
    /// computed since then may be recorded. This does not read the storage.
    fn check_loaded(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns all lineages, in the order in which they were created.
    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError>;

    /// Returns what all lineages have spent together.
    fn spent(&self) -> Result<Usd, StoreError>;

    /// Returns all checkpoints of all lineages, oldest first.
    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError>;

    /// Returns the team file of the run.
    fn definition(&self) -> Result<SavedDefinition, StoreError>;

    /// Returns the note with this name, or `None` if there is none.
    fn note(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Returns the bytes with this digest, or `None` if they are not stored here.
    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError>;

    /// Returns at most `limit` events, oldest first, after skipping the first `from`. They are
    /// those that lead to the newest state of the lineage that is read and were not dropped.
    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError>;
}

/// Reads the records of a run, whoever holds a lease of it.
pub trait Reader: RecordedRun + Send {
    /// From now on, reads this lineage instead of the current one.
    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError>;

    /// Loads the states of these checkpoints, in the same order. The checkpoints are listed at most
    /// once for all of them.
    fn load_each(&self, ids: &[CheckpointId]) -> Result<Vec<LoadedState>, StoreError>;

    /// Returns how many of the events that lead to the newest state of the lineage that is read
    /// were dropped, and how many there were in total.
    fn dropped(&self) -> Result<(u64, u64), StoreError>;

    /// Returns the earliest state from which the lineage that is read can be followed to its newest
    /// state.
    fn earliest_state(&self) -> Result<EarliestState, StoreError>;

    /// Returns at most `limit` of these events after a position, and the position of the last one.
    /// Continuing from there skips no event, even if some are pruned meanwhile.
    fn batch_after(&self, position: u64, limit: usize) -> Result<(Vec<Record>, u64), StoreError>;
}

impl dyn Reader + '_ {
    /// Returns an iterator over all of these events after a position.
    pub fn records_after(&self, position: u64) -> impl Iterator<Item = Result<Record, StoreError>> {
        read_in_batches(position, |position, limit| {
            self.batch_after(position, limit)
        })
    }
}

/// Reads a run from the rows of a database.
#[derive(Debug)]
pub struct RowReader<R> {
    /// The rows that it reads.
    pub rows: R,
    /// The lineage that is read instead of the current one.
    pub selected: Option<i64>,
    /// What is found out about the messages of loaded states when they are decoded.
    decoding: Arc<LateDecoding>,
}

/// Ends a read transaction when it is dropped.
pub struct ReadTransaction<'a, R: RunRows> {
    begun: Option<&'a R>,
}

impl<R: RunRows> Drop for ReadTransaction<'_, R> {
    fn drop(&mut self) {
        if let Some(rows) = self.begun {
            rows.end_read();
        }
    }
}

/// The earliest state from which the later ones can be followed without a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct EarliestState {
    /// The state.
    pub env: Environment,
    /// The position of the last event before it.
    pub position: u64,
    /// How many events were dropped before it.
    pub dropped: u64,
}

impl<R: RunRows> RecordedRun for RowReader<R> {
    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        self.read_consistently(|reader| reader.load_now(at))
    }

    fn load_to_continue(&self) -> Result<LoadedState, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let line = reader.selected_lineage()?;
            let path = reader.path_to(&line, line.events)?;
            reader.read_state(&path, line.events, DecodeCheck::WhenNeeded)
        })
    }

    fn check_loaded(&self) -> Result<(), StoreError> {
        match self.decoding.damage() {
            Some(damage) => Err(self.rows.corrupt(damage)),
            None => Ok(()),
        }
    }

    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        self.read_consistently(Self::lineages_now)
    }

    fn spent(&self) -> Result<Usd, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let mut sum = Usd::ZERO;
            for row in reader.stored_lineages()? {
                sum += Usd(row.spent as u64);
            }
            Ok(sum)
        })
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        let listed = self.read_consistently(Self::listed_checkpoints)?;
        Ok(listed.into_iter().map(|listed| listed.row).collect())
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.read_consistently(Self::definition_now)
    }

    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.read_consistently(|reader| reader.rows.note(name))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        let body = self.read_consistently(|reader| reader.rows.blob(digest))?;
        match body {
            // The digest is a SHA-256, so no other checksum is needed.
            Some(body) if digest_of(&body) != *digest => {
                Err(self.rows.corrupt(format!("the file `{digest}` is damaged")))
            }
            body => Ok(body.map(Arc::from)),
        }
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read_consistently(|reader| reader.records_now(from, limit))
    }
}

impl<R: RunRows + Send> Reader for RowReader<R> {
    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.selected = Some(self.require_lineage(lineage)?.id);
        Ok(())
    }

    fn load_each(&self, ids: &[CheckpointId]) -> Result<Vec<LoadedState>, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let mut search = CheckpointSearch::new(reader);
            ids.iter()
                .map(|id| reader.load_checkpoint(id, &mut search))
                .collect()
        })
    }

    fn dropped(&self) -> Result<(u64, u64), StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let line = reader.selected_lineage()?;
            let gaps = reader
                .event_log()
                .gaps_on(&reader.path_to(&line, line.events)?)?;
            Ok((
                gaps.iter()
                    .map(|gap| (gap.last - gap.first + 1) as u64)
                    .sum(),
                line.events as u64,
            ))
        })
    }

    fn earliest_state(&self) -> Result<EarliestState, StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            let line = reader.selected_lineage()?;
            let mut path = reader.path_to(&line, line.events)?;
            let gaps = reader.event_log().gaps_on(&path)?;
            let Some(last) = gaps.last().map(|gap| gap.last) else {
                return Ok(EarliestState {
                    env: reader.states().base()?,
                    position: 0,
                    dropped: 0,
                });
            };
            let at = reader.states().position_after(&path, last)?;
            path.retain(|piece| piece.after < at);
            path.iter_mut()
                .for_each(|piece| piece.until = piece.until.min(at));
            let dropped: i64 = gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
            let (_, env) = reader.states().load_newest(&path, DecodeCheck::AtOnce)?;
            Ok(EarliestState {
                env,
                position: at as u64,
                dropped: dropped as u64,
            })
        })
    }

    fn batch_after(&self, position: u64, limit: usize) -> Result<(Vec<Record>, u64), StoreError> {
        self.read_consistently(|reader| {
            let _same = reader.begin_read()?;
            reader.batch_after_now(&reader.selected_lineage()?, position as i64, limit)
        })
    }
}

impl<R: RunRows> RowReader<R> {
    /// Returns a reader of the current lineage of a run.
    pub fn from_rows(rows: R) -> Self {
        Self {
            rows,
            selected: None,
            decoding: Arc::default(),
        }
    }

    /// Returns a function after whose call it is known that messages cannot be decoded.
    #[cfg(any(test, feature = "test-support"))]
    pub fn damaging(&self) -> impl Fn() + use<R> {
        let decoding = Arc::clone(&self.decoding);
        move || decoding.note_damage("bundle 1 of messages cannot be read".into())
    }

    /// Returns the saved states of the run.
    pub fn states(&self) -> SavedStates<'_, R> {
        SavedStates {
            rows: &self.rows,
            decoding: &self.decoding,
        }
    }

    /// Returns the events of the run.
    pub(crate) fn event_log(&self) -> EventLog<'_, R> {
        EventLog { rows: &self.rows }
    }

    fn definition_now(&self) -> Result<SavedDefinition, StoreError> {
        let row = self.rows.definition()?;
        let parts = [&row.name, &row.base, &row.text, &row.components].map(String::as_str);
        codec::verify(row.sum, &[], definition_checksum_input(parts).as_bytes())
            .map_err(|e| self.rows.decode_error("the team file in it", e))?;
        let components =
            serde_json::from_str(&row.components).map_err(|e| self.rows.corrupt(e.to_string()))?;
        Ok(SavedDefinition {
            name: row.name,
            base: row.base.into(),
            text: row.text,
            components,
        })
    }

    fn load_now(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        let _same = self.begin_read()?;
        let line = match at {
            StateSelector::Head => self.selected_lineage()?,
            StateSelector::Lineage(name) => self.require_lineage(name)?,
            StateSelector::Checkpoint(id) => {
                return self.load_checkpoint(id, &mut CheckpointSearch::new(self));
            }
        };
        self.state_at(&self.path_to(&line, line.events)?, line.events)
    }

    fn load_checkpoint(
        &self,
        id: &CheckpointId,
        search: &mut CheckpointSearch<'_, R>,
    ) -> Result<LoadedState, StoreError> {
        let found = search.find(id)?;
        let end = found.position;
        let saved = self.state_at(&self.path_to(&found.line, end)?, end)?;
        let newest = saved
            .tail
            .iter()
            .rev()
            .find_map(|record| checkpoint_of(&record.event));
        if newest.or(saved.base.checkpoint.as_ref()) == Some(id) {
            Ok(saved)
        } else {
            Err(self.rows.corrupt(format!(
                "event {end} is not the one that made checkpoint `{id}`"
            )))
        }
    }

    /// Loads the state at the end of a path.
    pub(crate) fn state_at(&self, path: &EventPath, end: i64) -> Result<LoadedState, StoreError> {
        self.read_state(path, end, DecodeCheck::AtOnce)
    }

    fn read_state(
        &self,
        path: &EventPath,
        end: i64,
        check: DecodeCheck,
    ) -> Result<LoadedState, StoreError> {
        let (start, base) = self.states().load_newest(path, check)?;
        let tail = self.event_log().records_between(path, start + 1, end)?;
        Ok(LoadedState {
            base,
            tail,
            next_line: self.next_line()?,
        })
    }

    /// Returns the number of the public line after the last one of the storage.
    pub fn next_line(&self) -> Result<u64, StoreError> {
        let current = self.rows.run()?;
        let line = self.lineage_by_id(current.lineage)?;
        let newest = match line.events {
            0 => FIRST_LINE,
            at => next_line(
                self.event_log()
                    .records_between(&self.path_to(&line, at)?, at, at)?
                    .last(),
            ),
        };
        Ok(newest.max(current.next_line as u64))
    }

    fn lineages_now(&self) -> Result<Vec<LineageRow>, StoreError> {
        let _same = self.begin_read()?;
        let current = self.rows.run()?.lineage;
        let row = |row: StoredLineage| LineageRow {
            current: row.id == current,
            name: row.name,
            events: row.events as u64,
        };
        Ok(self.stored_lineages()?.into_iter().map(row).collect())
    }

    /// Lists the checkpoints of all lineages, oldest first, with where they are.
    pub fn listed_checkpoints(&self) -> Result<Vec<ListedCheckpoint>, StoreError> {
        let _same = self.begin_read()?;
        self.list_checkpoints_with(self.stored_lineages()?)
    }

    /// Lists the checkpoints as if the lineages were these.
    pub(crate) fn list_checkpoints_with(
        &self,
        rows: Vec<StoredLineage>,
    ) -> Result<Vec<ListedCheckpoint>, StoreError> {
        let numbers: BTreeMap<i64, usize> = rows.iter().map(|row| row.id).zip(0..).collect();
        let marks = |row: StoredLineage| {
            let gaps = self.event_log().gaps(row.id)?;
            let origin = row.origin.map(|(origin, at)| {
                let number = numbers.get(&origin).copied();
                let missing = || self.rows.corrupt("a lineage is missing");
                Ok::<_, StoreError>((number.ok_or_else(missing)?, at as u64))
            });
            Ok(LineageHistory {
                name: row.name.clone(),
                origin: origin.transpose()?,
                forgotten_until: row.forgotten_until as u64,
                events: self.event_log().checkpoint_events(row.id)?,
                gaps: gaps
                    .into_iter()
                    .map(|gap| (gap.last as u64, gap.step as u64))
                    .collect(),
            })
        };
        let lineages: Vec<LineageHistory> = rows
            .into_iter()
            .map(marks)
            .collect::<Result<_, StoreError>>()?;
        Ok(list_checkpoints(&self.states().base()?, &lineages))
    }

    /// Returns a lineage by its name. Fails if there is none.
    pub(crate) fn require_lineage(&self, name: &str) -> Result<StoredLineage, StoreError> {
        if let Some(found) = self.lineage_by_name(name)? {
            return Ok(found);
        }
        let known: Vec<String> = self
            .stored_lineages()?
            .into_iter()
            .map(|row| row.name)
            .collect();
        if known.iter().any(|known| known == name) {
            // Rows are found by name in an index.
            return Err(self
                .rows
                .corrupt(format!("the index of the lineages lacks `{name}`")));
        }
        Err(StoreError::NoLineage {
            name: name.into(),
            known,
        })
    }

    /// Starts a read transaction, if there is none yet: until it is dropped, all reads see the same
    /// state, whatever another process commits.
    pub fn begin_read(&self) -> Result<ReadTransaction<'_, R>, StoreError> {
        let is_begun = self.rows.begin_read()?;
        Ok(ReadTransaction {
            begun: is_begun.then_some(&self.rows),
        })
    }

    /// Calls `read`. If the rows may be a mix of two states because another process wrote meanwhile,
    /// the database is opened again, and `read` is repeated.
    pub fn read_consistently<T>(
        &self,
        read: impl Fn(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut again: Option<Self> = None;
        for _ in 0..MAX_READS {
            let reader = again.as_ref().unwrap_or(self);
            if !reader.rows.has_changed() {
                let found = read(reader);
                if !reader.rows.has_changed() {
                    return found;
                }
            }
            again = Some(Self {
                rows: self.rows.reopen()?,
                selected: self.selected,
                decoding: Arc::clone(&self.decoding),
            });
        }
        read(again.as_ref().unwrap_or(self))
    }
}

/// Returns the bytes that the checksum of a definition covers.
pub fn definition_checksum_input(parts: [&str; 4]) -> String {
    parts.join("\0")
}

/// Returns the name of the lineage that a batch of events creates, and the checkpoint where it
/// branches off.
pub fn branch_of(records: &[Record]) -> Option<(&str, &CheckpointId)> {
    match &records.first()?.event {
        Event::Forked(Forked { lineage, from, .. }) => Some((lineage, from)),
        _ => None,
    }
}
