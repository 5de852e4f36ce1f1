//! Reads the events that lead to the newest state in batches, however many there are, even if some
//! are pruned meanwhile.

use std::iter::from_fn;

use super::Reader;
use crate::store::lineage::{Path, Row};
use crate::store::{Record, StoreError};

/// How many records `each` reads into memory at once.
pub(crate) const PIECE: usize = 1024;

/// Returns an iterator over all records after a position, which are read in batches by `read`.
///
/// `read` takes a position and a limit, and returns at most that many records after the position, and the position of
/// the last of them. Fewer records than the limit mean that there are no more.
pub(crate) fn each<'a>(
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
        match read(from, PIECE) {
            Ok((records, last)) => {
                is_over = records.len() < PIECE;
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

impl Reader {
    /// Returns at most `limit` events, oldest first, after skipping the first `from`. They are
    /// those that lead to the newest state of the lineage that is read and were not dropped.
    pub fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.steadily(|reader| reader.records_now(from, limit))
    }

    /// Returns an iterator over all of these events after a position.
    pub fn all(&self, position: u64) -> impl Iterator<Item = Result<Record, StoreError>> {
        each(position, |position, limit| self.after(position, limit))
    }

    /// Returns at most `limit` of these events after a position, and the position of the last one.
    /// Continuing from there skips no event, even if some are pruned meanwhile.
    pub fn after(&self, position: u64, limit: usize) -> Result<(Vec<Record>, u64), StoreError> {
        self.steadily(|reader| {
            let _same = reader.stand_still()?;
            reader.after_now(&reader.line()?, position as i64, limit)
        })
    }

    fn after_now(
        &self,
        line: &Row,
        position: i64,
        limit: usize,
    ) -> Result<(Vec<Record>, u64), StoreError> {
        let path = self.path(line, line.events)?;
        let mut left = i64::try_from(limit).unwrap_or(i64::MAX);
        let (mut found, mut last) = (Vec::new(), position);
        for (first, until) in self.there(&path, line.events)? {
            let first = first.max(last + 1);
            let take = (until - first + 1).min(left);
            if take > 0 {
                last = first + take - 1;
                found.extend(self.range(&path, first, last)?);
                left -= take;
            }
        }
        Ok((found, last as u64))
    }

    fn records_now(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let _same = self.stand_still()?;
        let line = self.line()?;
        let mut skip = i64::try_from(from).unwrap_or(i64::MAX);
        for (first, until) in self.there(&self.path(&line, line.events)?, line.events)? {
            let there = until - first + 1;
            if skip < there {
                return Ok(self.after_now(&line, first + skip - 1, limit)?.0);
            }
            skip -= there;
        }
        Ok(Vec::new())
    }

    /// Returns the ranges of positions on a path whose events were not dropped: the first and the
    /// last of each.
    fn there(&self, path: &Path, end: i64) -> Result<Vec<(i64, i64)>, StoreError> {
        let gaps = self.gaps_on(path)?;
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
    use crate::store::conformance::{replay, state, turns};
    use crate::store::script::{definition, run};
    use crate::store::{Directory, Durability, Replace, Store};

    #[test]
    fn who_reads_piece_by_piece_passes_over_nothing_that_is_there_when_others_are_pruned_meanwhile()
    {
        let (records, _) = run(&turns(6, 8_000), 700);
        for read in [1, 40, 350, 650, 700] {
            let temp = tempfile::tempdir().unwrap();
            let directory = Directory::new(temp.path().join("store"));
            let mut store = directory
                .create(Replace::Never, &replay(&[]), &definition())
                .unwrap()
                .store;
            for until in (100..=700).step_by(100) {
                store
                    .append(&records[until - 100..until], Durability::Process)
                    .unwrap();
                store.save_snapshot(&replay(&records[..until])).unwrap();
            }
            let reader = Reader::open(&directory).unwrap();
            let (begun, place) = reader.after(0, read).unwrap();
            assert_eq!((begun.as_slice(), place), (&records[..read], read as u64));
            store.prune(3, &mut |saved| Ok(state(&saved))).unwrap();
            let left = reader.records(0, usize::MAX).unwrap();
            assert!(left.len() < records.len(), "something was pruned");
            let rest: Vec<Record> = reader.all(place).map(|record| record.unwrap()).collect();
            let expected: Vec<&Record> = records[read..]
                .iter()
                .filter(|record| left.contains(record))
                .collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected);
        }
    }
}
