//! Copies a run with all its records into a database. Its lineages get consecutive keys, from 0 on in a server, where each
//! run has its own, and everything that is stored under a key of theirs is stored under the new one, with a new checksum.
//! Each row is verified before.

use std::collections::BTreeMap;

use strata_base::files::blob::Blobs;
use strata_core::record::id::Digest;

use super::codec::{self, MessageBundle};
use super::error::StoreError;
use super::lineage::{
    DIRECTORY_RUN, FIRST_LINEAGE, StoredLineage, event_key, key_range, position_of_key,
};
use super::overview::RunOverview;
use super::reader::RowReader;
use super::rows::{
    EventRange, EventRow, EventSelection, GapRow, RunRows, SnapshotRange, SnapshotSelection,
};
use super::work::{NewSubmission, RunSchedule};

/// A run that is copied into a database, with what is stored of it besides its records.
#[derive(Debug)]
pub struct RunCopy<'a> {
    /// Its name, its team file and the files of its team. The state that it starts from is not used: the records have it.
    /// Nor is what a server remembers with it.
    pub submission: &'a NewSubmission<'a>,
    /// What is listed of its newest state.
    pub overview: RunOverview,
    /// When workers take it.
    pub schedule: RunSchedule,
    /// When it last changed, in milliseconds since 1970.
    pub changed_ms: Option<i64>,
}

/// A row of the copy, besides those of its lineages.
pub enum CopiedRow<'a> {
    /// That of an event.
    Event(EventRow<'a>),
    /// That of a gap, where events were dropped.
    Gap(GapRow),
    /// That of a saved state.
    Snapshot {
        /// The key.
        n: i64,
        /// The list of its bundles.
        list: Vec<u8>,
        /// The checksum of the list.
        list_sum: u32,
        /// The state.
        body: Vec<u8>,
        /// The checksum of the state.
        sum: u32,
    },
    /// That of a bundle of messages.
    Bundle {
        /// The key.
        n: i64,
        /// The checksum of the key, the number of messages and the body.
        sum: u32,
        /// The messages, encoded.
        body: &'a [u8],
    },
}

/// Receives the rows of the copy.
pub type VisitRow<'a> = dyn FnMut(CopiedRow<'_>) -> Result<(), StoreError> + 'a;

/// The keys of a copy in its database: that of the run, and that of its first lineage, which the others follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyKeys {
    /// The key of the run.
    pub run: i64,
    /// The key of its first lineage.
    pub lineage: i64,
}

impl CopyKeys {
    /// The keys where each run has keys of its own.
    pub const OWN: Self = Self {
        run: DIRECTORY_RUN.0,
        lineage: FIRST_LINEAGE,
    };
}

/// The records of a run that is copied, in whatever they are kept. What they are in the copy depends on its keys.
pub trait CopiedRecords {
    /// Returns how many lineages the run has.
    fn lineage_count(&self) -> usize;

    /// Returns the first unused public line.
    fn next_line(&self) -> i64;

    /// Returns the new key of the lineage that the run continues.
    fn current(&self, keys: CopyKeys) -> Result<i64, StoreError>;

    /// Passes the rows of events, gaps, states and bundles to `visit`, and returns those of the lineages.
    fn visit(
        &self,
        keys: CopyKeys,
        visit: &mut VisitRow<'_>,
    ) -> Result<Vec<StoredLineage>, StoreError>;

    /// Returns the bytes of the files of the run.
    fn blobs(&self) -> Result<Blobs, StoreError>;
}

/// The records of a run in a database.
pub struct RunRecords<R> {
    reader: RowReader<R>,
    /// The lineages with their keys of before, in the order of their creation.
    lineages: Vec<StoredLineage>,
    /// The key of the lineage that it continues.
    current: i64,
    next_line: u64,
}

impl<R: RunRows> RunRecords<R> {
    /// Reads the lineages of a run.
    pub fn new(reader: RowReader<R>) -> Result<Self, StoreError> {
        let same = reader.begin_read()?;
        let (lineages, current) = (reader.stored_lineages()?, reader.rows.run()?.lineage);
        let next_line = reader.next_line()?;
        drop(same);
        Ok(Self {
            lineages,
            current,
            next_line,
            reader,
        })
    }

    fn renumbered(&self, keys: CopyKeys) -> RenumberedRun<'_, R> {
        RenumberedRun {
            reader: &self.reader,
            lineages: &self.lineages,
            keys,
        }
    }
}

impl<R: RunRows> CopiedRecords for RunRecords<R> {
    fn lineage_count(&self) -> usize {
        self.lineages.len()
    }

    fn next_line(&self) -> i64 {
        self.next_line as i64
    }

    fn current(&self, keys: CopyKeys) -> Result<i64, StoreError> {
        self.renumbered(keys).new_lineage(self.current)
    }

    fn visit(
        &self,
        keys: CopyKeys,
        visit: &mut VisitRow<'_>,
    ) -> Result<Vec<StoredLineage>, StoreError> {
        self.renumbered(keys).visit(visit)
    }

    fn blobs(&self) -> Result<Blobs, StoreError> {
        let mut blobs = Blobs::new();
        for digest in self.reader.rows.blob_digests()? {
            let digest = Digest(digest);
            let bytes = self.reader.rows.blob(&digest)?.unwrap_or_default();
            blobs.insert(digest, bytes.into());
        }
        Ok(blobs)
    }
}

/// The records of a run with the keys of its copy.
struct RenumberedRun<'a, R> {
    reader: &'a RowReader<R>,
    /// The lineages with their keys of before.
    lineages: &'a [StoredLineage],
    keys: CopyKeys,
}

impl<R: RunRows> RenumberedRun<'_, R> {
    /// Passes the rows of events, gaps, states and bundles to `visit`, and returns those of the lineages.
    fn visit(&self, visit: &mut VisitRow<'_>) -> Result<Vec<StoredLineage>, StoreError> {
        let _same = self.reader.begin_read()?;
        let mut bundles: BTreeMap<i64, MessageBundle> = BTreeMap::new();
        let mut copied = Vec::new();
        for (id, line) in (self.keys.lineage..).zip(self.lineages) {
            let last_checksum = self.visit_events(id, line, visit)?;
            self.visit_gaps(id, line, visit)?;
            self.visit_snapshots(id, line, &mut bundles, visit)?;
            let origin = match line.origin {
                Some((origin, at)) => Some((self.new_lineage(origin)?, at)),
                None => None,
            };
            copied.push(StoredLineage {
                id,
                run: self.keys.run,
                origin,
                last_checksum,
                ..line.clone()
            });
        }
        self.visit_bundles(&bundles, visit)?;
        Ok(copied)
    }

    fn new_lineage(&self, old: i64) -> Result<i64, StoreError> {
        let mut known = (self.keys.lineage..).zip(self.lineages);
        let found = known.find(|(_, line)| line.id == old);
        found
            .map(|(id, _)| id)
            .ok_or_else(|| self.reader.rows.corrupt("a lineage is missing"))
    }

    /// Passes the events of a lineage, and returns the new checksum of the last one.
    fn visit_events(
        &self,
        id: i64,
        line: &StoredLineage,
        visit: &mut VisitRow<'_>,
    ) -> Result<u32, StoreError> {
        let rows = &self.reader.rows;
        let range = EventRange {
            keys: key_range(line.id),
            selection: EventSelection::All,
        };
        // Without events of its own, a lineage has the checksum of before.
        let mut last = line.last_checksum;
        rows.visit_events(range, &mut |row| {
            let at = position_of_key(row.n);
            let rest = [row.line, row.lines, row.time_ms, row.marks];
            let numbers = |n: i64| [n, rest[0], rest[1], rest[2], rest[3]];
            codec::verify(row.sum, &numbers(row.n), row.body)
                .map_err(|error| rows.decode_error(&format!("event {at}"), error))?;
            let n = event_key(id, at);
            let sum = codec::checksum(&numbers(n), row.body);
            if at == line.events {
                last = sum;
            }
            visit(CopiedRow::Event(EventRow { n, sum, ..*row }))
        })?;
        Ok(last)
    }

    fn visit_gaps(
        &self,
        id: i64,
        line: &StoredLineage,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), StoreError> {
        for gap in self.reader.event_log().gaps(line.id)? {
            let n = event_key(id, gap.first);
            visit(CopiedRow::Gap(GapRow {
                n,
                last: gap.last,
                step: gap.step,
                sum: codec::checksum(&[n, gap.last, gap.step], &[]),
            }))?;
        }
        Ok(())
    }

    /// Passes the states of a lineage, and collects the bundles that they need.
    fn visit_snapshots(
        &self,
        id: i64,
        line: &StoredLineage,
        needed: &mut BTreeMap<i64, MessageBundle>,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), StoreError> {
        let rows = &self.reader.rows;
        let range = SnapshotRange {
            keys: key_range(line.id),
            selection: SnapshotSelection::All,
        };
        for row in rows.snapshots(range)? {
            let at = position_of_key(row.n);
            let damage = |error| rows.decode_error(&format!("the state after event {at}"), error);
            let list = row.bundles.verified(&[row.n]).map_err(damage)?;
            let mut bundles = codec::decode_bundles(list).map_err(damage)?;
            for bundle in &mut bundles {
                needed.insert(bundle.key, *bundle);
                bundle.key = self.new_bundle_key(bundle.key);
            }
            let missing = || rows.corrupt(format!("the state after event {at} is missing"));
            let stored = rows.snapshot_body(row.n)?.ok_or_else(missing)?;
            let body = stored.verified(&[row.n]).map_err(damage)?.to_vec();
            let (n, list) = (event_key(id, at), codec::encode_bundles(&bundles));
            visit(CopiedRow::Snapshot {
                n,
                list_sum: codec::checksum(&[n], &list),
                list,
                sum: codec::checksum(&[n], &body),
                body,
            })?;
        }
        Ok(())
    }

    fn visit_bundles(
        &self,
        needed: &BTreeMap<i64, MessageBundle>,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), StoreError> {
        let rows = &self.reader.rows;
        let keys: Vec<i64> = needed.keys().copied().collect();
        let mut found = 0;
        rows.visit_bundles(&keys, &mut |row| {
            let messages = needed
                .get(&row.n)
                .map_or(0, |bundle| i64::from(bundle.messages));
            codec::verify(row.sum, &[row.n, messages], row.body)
                .map_err(|error| rows.decode_error("messages of it", error))?;
            found += 1;
            let n = self.new_bundle_key(row.n);
            visit(CopiedRow::Bundle {
                n,
                sum: codec::checksum(&[n, messages], row.body),
                body: row.body,
            })
        })?;
        if found != keys.len() {
            return Err(rows.corrupt("messages of it are missing"));
        }
        Ok(())
    }

    /// Returns the key of a bundle in the copy. Its upper bits are those of the first lineage.
    fn new_bundle_key(&self, old: i64) -> i64 {
        event_key(self.keys.lineage, position_of_key(old))
    }
}
