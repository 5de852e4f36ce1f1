//! Reads the events that lead to the newest state in batches, however many there are, even if some
//! are pruned meanwhile.

use std::iter::from_fn;

use super::RowReader;
use crate::lineage::{EventPath, StoredLineage};
use crate::rows::RunRows;
use crate::{Record, StoreError};

/// How many records `each` reads into memory at once.
pub const RECORDS_PER_BATCH: usize = 1024;

/// Returns an iterator over all records after a position, which are read in batches by `read`.
///
/// `read` takes a position and a limit, and returns at most that many records after the position, and the position of
/// the last of them. Fewer records than the limit mean that there are no more.
pub fn read_in_batches<'a>(
    mut from: u64,
    read: impl Fn(u64, usize) -> Result<(Vec<Record>, u64), StoreError> + 'a,
) -> impl Iterator<Item = Result<Record, StoreError>> + 'a {
    let mut batch = Vec::new().into_iter();
    let mut is_over = false;
    from_fn(move || {
        if let Some(record) = batch.next() {
            return Some(Ok(record));
        }
        if is_over {
            return None;
        }
        match read(from, RECORDS_PER_BATCH) {
            Ok((records, last)) => {
                is_over = records.len() < RECORDS_PER_BATCH;
                from = last;
                batch = records.into_iter();
                batch.next().map(Ok)
            }
            Err(error) => {
                is_over = true;
                Some(Err(error))
            }
        }
    })
}

impl<R: RunRows> RowReader<R> {
    pub(super) fn batch_after_now(
        &self,
        line: &StoredLineage,
        position: i64,
        limit: usize,
    ) -> Result<(Vec<Record>, u64), StoreError> {
        let path = self.path_to(line, line.events)?;
        let mut left = i64::try_from(limit).unwrap_or(i64::MAX);
        let (mut found, mut last) = (Vec::new(), position);
        for (first, until) in self.present_ranges(&path, line.events)? {
            let first = first.max(last + 1);
            let take = (until - first + 1).min(left);
            if take > 0 {
                last = first + take - 1;
                found.extend(self.event_log().records_between(&path, first, last)?);
                left -= take;
            }
        }
        Ok((found, last as u64))
    }

    pub(super) fn records_now(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let _same = self.begin_read()?;
        let line = self.selected_lineage()?;
        let mut skip = i64::try_from(from).unwrap_or(i64::MAX);
        for (first, until) in
            self.present_ranges(&self.path_to(&line, line.events)?, line.events)?
        {
            let there = until - first + 1;
            if skip < there {
                return Ok(self.batch_after_now(&line, first + skip - 1, limit)?.0);
            }
            skip -= there;
        }
        Ok(Vec::new())
    }

    /// Returns the ranges of positions on a path whose events were not dropped: the first and the
    /// last of each.
    fn present_ranges(&self, path: &EventPath, end: i64) -> Result<Vec<(i64, i64)>, StoreError> {
        let gaps = self.event_log().gaps_on(path)?;
        let firsts = [1].into_iter().chain(gaps.iter().map(|gap| gap.last + 1));
        let lasts = gaps.iter().map(|gap| gap.first - 1).chain([end]);
        Ok(firsts
            .zip(lasts)
            .filter(|(first, last)| first <= last)
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::conformance::{loaded_state, replay};
    use crate::tests::script::pseudorandom;
    use crate::tests::script::{definition, scripted_run};
    use crate::{
        Durability, Lease, Reader, RecordedRun, ReplacePolicy, SqliteReader, StorageDirectory,
    };

    #[test]
    fn who_reads_piece_by_piece_passes_over_nothing_that_is_there_when_others_are_pruned_meanwhile()
    {
        let (records, _) = scripted_run(&pseudorandom(6, 8_000), 700);
        for read in [1, 40, 350, 650, 700] {
            let temp = tempfile::tempdir().unwrap();
            let directory = StorageDirectory::new(temp.path().join("store"));
            let mut store = directory
                .create(ReplacePolicy::Never, &replay(&[]), &definition())
                .unwrap()
                .lease;
            for until in (100..=700).step_by(100) {
                store
                    .append(&records[until - 100..until], Durability::Process)
                    .unwrap();
                store.save_snapshot(&replay(&records[..until])).unwrap();
            }
            let reader = SqliteReader::open(&directory).unwrap();
            let (begun, place) = reader.batch_after(0, read).unwrap();
            assert_eq!((begun.as_slice(), place), (&records[..read], read as u64));
            store
                .prune(3, &mut |saved| Ok(loaded_state(&saved)))
                .unwrap();
            let left = reader.records(0, usize::MAX).unwrap();
            assert!(left.len() < records.len(), "something was pruned");
            let rest: Vec<Record> = (&reader as &dyn Reader)
                .records_after(place)
                .map(|record| record.unwrap())
                .collect();
            let expected: Vec<&Record> = records[read..]
                .iter()
                .filter(|record| left.contains(record))
                .collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected);
        }
    }
}
