//! The events that lead to the newest state, however many there are and whatever is pruned meanwhile.

use super::Reader;
use crate::store::lineage::{Path, Row};
use crate::store::{Record, StoreError, each};

impl Reader {
    /// At most `limit` events of those that lead to the newest state of the lineage that is read and were not
    /// dropped, oldest first, without the first `from`.
    pub fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.steadily(|reader| reader.records_now(from, limit))
    }

    /// The same, one by one to the last, of those after a place on the path.
    pub fn all(&self, place: u64) -> impl Iterator<Item = Result<Record, StoreError>> {
        each(place, |place, limit| self.after(place, limit))
    }

    /// At most `limit` of them after a place on the path, and the place of the last. Who goes on from there passes over
    /// none, whatever is pruned meanwhile.
    pub fn after(&self, place: u64, limit: usize) -> Result<(Vec<Record>, u64), StoreError> {
        self.steadily(|reader| {
            let _same = reader.stand_still()?;
            reader.after_now(&reader.line()?, place as i64, limit)
        })
    }

    fn after_now(
        &self,
        line: &Row,
        place: i64,
        limit: usize,
    ) -> Result<(Vec<Record>, u64), StoreError> {
        let path = self.path(line, line.events)?;
        let mut left = i64::try_from(limit).unwrap_or(i64::MAX);
        let (mut found, mut last) = (Vec::new(), place);
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

    /// The places on a path whose events were not dropped: first and last of each row of them.
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
