//! Saved states: which is the newest on a path, and putting one together from its row and its bundles. Whatever is read
//! is verified.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row as SqlRow, params};

use strata_core::environment::Environment;
use strata_core::environment::messages::{Messages, Page};

use super::Reader;
use super::page::BundlePage;
use crate::store::codec::{self, Bundle, Damage};
use crate::store::error::StoreError;
use crate::store::lineage::{FIRST, Path, Piece, Row, key, place};

/// What is known of a snapshot without reading it.
#[derive(Clone, Debug)]
pub(in crate::store) struct Outline {
    /// Its key.
    pub n: i64,
    /// How many bytes it has beside its bundles.
    pub weight: u64,
    /// Where its settled messages are.
    pub bundles: Vec<Bundle>,
}

/// What a row holds, as it was read.
pub(super) struct Body {
    sum: u32,
    pub(super) bytes: Vec<u8>,
}

impl Reader {
    /// The state the run started from.
    pub(in crate::store) fn base(&self) -> Result<Environment, StoreError> {
        Ok(self.snapshot(&vec![Piece { lineage: FIRST, after: 0, until: 0 }])?.1)
    }

    /// The newest snapshot on a path, and its place.
    pub(super) fn snapshot(&self, path: &Path) -> Result<(i64, Environment), StoreError> {
        let newest = self.newest_snapshot(path)?;
        let what = what(newest.n);
        let pages = self.pages(&newest.bundles)?;
        let settled = pages.iter().map(|page| page.count()).sum::<usize>();
        let body = self.body(("snapshot", &what), newest.n)?;
        let decoded = body.verified(&[newest.n]).and_then(codec::decode_snapshot);
        let (rest, env) = decoded.map_err(|e| self.damaged(&what, e))?;
        let env = Environment { messages: Messages::new(pages, rest), ..env };
        if settled > env.settled() {
            return Err(self.corrupt(format!("{what} has bundles of another")));
        }
        Ok((place(newest.n), env))
    }

    /// The messages of bundles. Checking them is most of what a load takes: all processors do it, while this thread
    /// reads.
    fn pages(&self, bundles: &[Bundle]) -> Result<Vec<Arc<dyn Page>>, StoreError> {
        let what = |bundle: &Bundle| format!("bundle {} of messages", bundle.n);
        let mut pages: Vec<Option<Result<BundlePage, Damage>>> = bundles.iter().map(|_| None).collect();
        rayon::in_place_scope(|scope| {
            bundles.iter().zip(&mut pages).try_for_each(|(bundle, page)| {
                let body = self.body(("bundle", &what(bundle)), bundle.n)?;
                scope.spawn(move |_| *page = Some(BundlePage::checked(*bundle, body)));
                Ok(())
            })
        })?;
        let page = |(bundle, page): (&Bundle, Result<BundlePage, Damage>)| match page {
            Ok(page) => Ok(Arc::new(page) as Arc<dyn Page>),
            Err(damage) => Err(self.damaged(&what(bundle), damage)),
        };
        bundles.iter().zip(pages.into_iter().flatten()).map(page).collect()
    }

    /// What a row of a table holds.
    fn body(&self, (table, what): (&str, &str), n: i64) -> Result<Body, StoreError> {
        let mut statement = self.prepare(&format!("SELECT sum, body FROM {table} WHERE n = ?1"))?;
        let read = |row: &SqlRow<'_>| Ok(Body { sum: row.get(0)?, bytes: row.get(1)? });
        let found = statement.query_row([n], read).optional().map_err(|e| self.error("read", e))?;
        found.ok_or_else(|| self.corrupt(format!("{what} is missing")))
    }

    /// The newest snapshot on a path.
    pub(in crate::store) fn newest_snapshot(&self, path: &Path) -> Result<Outline, StoreError> {
        for piece in path.iter().rev() {
            // The state before the first event of all is one, too.
            let first = if piece.lineage == FIRST { 0 } else { piece.after + 1 };
            let keys = (key(piece.lineage, first), key(piece.lineage, piece.until));
            if let Some(found) = self.outlines(keys, "DESC LIMIT 1")?.pop() {
                return Ok(found);
            }
        }
        Err(self.corrupt("the state it starts from is missing".into()))
    }

    /// The place of the first snapshot on a path after an event: where events were dropped, it stands for them.
    pub(super) fn snapshot_after(&self, path: &Path, at: i64) -> Result<i64, StoreError> {
        for piece in path.iter().filter(|piece| piece.until > at) {
            let keys = (key(piece.lineage, piece.after.max(at) + 1), key(piece.lineage, piece.until));
            if let Some(found) = self.outlines(keys, "ASC LIMIT 1")?.pop() {
                return Ok(place(found.n));
            }
        }
        Err(self.corrupt(format!("the state that stands for event {at} is missing")))
    }

    /// All snapshots.
    pub(in crate::store) fn snapshots(&self) -> Result<Vec<Outline>, StoreError> {
        self.outlines((0, i64::MAX), "ASC")
    }

    fn outlines(&self, (first, last): (i64, i64), order: &str) -> Result<Vec<Outline>, StoreError> {
        let sql = format!(
            "SELECT n, length(body), bundles_sum, bundles FROM snapshot WHERE n BETWEEN ?1 AND ?2 ORDER BY n {order}"
        );
        let mut statement = self.prepare(&sql)?;
        let outline = |row: &SqlRow<'_>| {
            let (n, weight, sum): (i64, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let list = row.get_ref(3)?.as_blob()?;
            let bundles = codec::verify(sum, &[n], list).and_then(|()| codec::decode_bundles(list));
            Ok((n, bundles.map(|bundles| Outline { n, weight: weight as u64, bundles })))
        };
        let rows = statement.query_map([first, last], outline).map_err(|e| self.error("read", e))?;
        let verified = |row: rusqlite::Result<(i64, Result<Outline, Damage>)>| {
            let (n, outline) = row.map_err(|e| self.error("read", e))?;
            outline.map_err(|e| self.damaged(&what(n), e))
        };
        rows.map(verified).collect()
    }

    /// How much the events of a lineage weigh that come after the newest snapshot on its path.
    pub(in crate::store) fn weight_since_snapshot(&self, line: &Row) -> Result<i64, StoreError> {
        let path = self.path(line, line.events)?;
        let at = place(self.newest_snapshot(&path)?.n);
        let mut statement =
            self.prepare("SELECT coalesce(sum(length(body)), 0) FROM event WHERE n BETWEEN ?1 AND ?2")?;
        let mut weight = 0;
        for piece in path.iter().filter(|piece| piece.until > at) {
            let range = params![key(piece.lineage, piece.after.max(at) + 1), key(piece.lineage, piece.until)];
            let sum: i64 = statement.query_row(range, |row| row.get(0)).map_err(|e| self.error("read", e))?;
            weight += sum;
        }
        Ok(weight)
    }
}

impl Body {
    /// Its bytes, if they are what was written under these numbers.
    pub(super) fn verified(&self, numbers: &[i64]) -> Result<&[u8], Damage> {
        codec::verify(self.sum, numbers, &self.bytes).map(|()| self.bytes.as_slice())
    }
}

/// How messages call a snapshot.
fn what(n: i64) -> String {
    format!("the snapshot after event {}", place(n))
}
