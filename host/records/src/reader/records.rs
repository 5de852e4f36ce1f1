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
    pub(crate) fn batch_after_now(
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

    pub(crate) fn records_now(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
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
