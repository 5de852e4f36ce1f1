//! Reads saved states: finds the newest snapshot on a path, and assembles the state from its row
//! and its bundles. Whatever is read is verified.

use std::sync::{Arc, LazyLock};

use rayon::{ThreadPool, ThreadPoolBuilder};
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::validate;
use strata_core::state::messages::{MessagePage, Messages};

use super::bundle_page::{BundlePage, LateDecoding, MAX_MESSAGE_BYTES, bundle_label, max_memory};
use crate::codec::{self, DecodeError, MessageBundle};
use crate::error::StoreError;
use crate::lineage::{EventPath, KeyRange, PathSegment, event_key, position_of_key};
use crate::rows::{RowResult, RunRows, SnapshotRange, SnapshotSelection, StoredBlob};

/// With fewer bundles, checking them takes less time than using other threads.
const MIN_PARALLEL_BUNDLES: usize = 4;

/// The threads that check bundles, or `None` if they cannot be started.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let pool = ThreadPoolBuilder::new()
        .thread_name(|n| format!("reader {n}"))
        .build();
    pool.inspect_err(|error| tracing::debug!("states are read by one thread: {error}"))
        .ok()
});

/// When it is found out whether messages, whose bytes are undamaged, can be decoded. They can unless
/// somebody else wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeCheck {
    /// When the state is loaded.
    AtOnce,
    /// When one of them is first needed.
    WhenNeeded,
}

/// A snapshot's description, without its state.
#[derive(Clone, Debug)]
pub struct SnapshotInfo {
    /// Its key.
    pub key: i64,
    /// Its size in bytes, without its bundles.
    pub bytes: u64,
    /// The bundles with its settled messages.
    pub bundles: Vec<MessageBundle>,
}

/// The saved states of a run.
pub struct SavedStates<'a, R> {
    /// The rows that are read.
    pub rows: &'a R,
    pub(crate) decoding: &'a Arc<LateDecoding>,
}

impl<R: RunRows> SavedStates<'_, R> {
    /// Returns the state that the run started from.
    pub fn base(&self) -> Result<Environment, StoreError> {
        let path = vec![PathSegment {
            lineage: self.rows.first_lineage()?,
            after: 0,
            until: 0,
        }];
        Ok(self.load_newest(&path, DecodeCheck::AtOnce)?.1)
    }

    /// Loads the newest snapshot on a path. Returns its position, too.
    pub(crate) fn load_newest(
        &self,
        path: &EventPath,
        check: DecodeCheck,
    ) -> Result<(i64, Environment), StoreError> {
        let newest = self.newest(path)?;
        let what = snapshot_label(newest.key);
        let pages = match check {
            DecodeCheck::AtOnce => self.checked_pages(&newest.bundles, MAX_MESSAGE_BYTES)?,
            DecodeCheck::WhenNeeded => self.read_bundles(&newest.bundles, check)?,
        };
        let settled = pages.iter().map(|page| page.count()).sum::<usize>();
        let body = self.rows.snapshot_body(newest.key)?;
        let body = body.ok_or_else(|| self.rows.corrupt(format!("{what} is missing")))?;
        let decoded = body
            .verified(&[newest.key])
            .and_then(codec::decode_snapshot);
        let (rest, env) = decoded.map_err(|e| self.rows.decode_error(&what, e))?;
        let pages = pages
            .into_iter()
            .map(|page| Arc::new(page) as Arc<dyn MessagePage>);
        let env = Environment {
            messages: Messages::new(pages, rest),
            ..env
        };
        if settled > env.final_message_count() {
            return Err(self.rows.corrupt(format!("{what} has bundles of another")));
        }
        let env = validate(env).map_err(|e| self.rows.decode_error(&what, e.into()))?;
        Ok((position_of_key(newest.key), env))
    }

    /// Reads bundles whose messages can be decoded, within `limit` bytes of memory or in proportion to
    /// what the bundles take.
    fn checked_pages(
        &self,
        bundles: &[MessageBundle],
        limit: u64,
    ) -> Result<Vec<BundlePage>, StoreError> {
        let pages = self.read_bundles(bundles, DecodeCheck::AtOnce)?;
        let sum =
            |bytes: fn(&BundlePage) -> u64| pages.iter().map(bytes).fold(0, u64::saturating_add);
        let memory_bytes = sum(|page| page.memory_bytes);
        if memory_bytes > max_memory(limit, sum(|page| page.encoded_bytes)) {
            let room = memory_bytes >> 20;
            return Err(self.rows.corrupt(format!(
                "its messages would take {room} MiB, which is more than any that were saved"
            )));
        }
        Ok(pages)
    }

    /// Reads bundles and compares them with their checksums. If they are to be decodable, checking that
    /// takes most of the time of a load, so all processors do it while this thread reads. For a few
    /// bundles that is not worth it, and there may be no other threads.
    fn read_bundles(
        &self,
        bundles: &[MessageBundle],
        check: DecodeCheck,
    ) -> Result<Vec<BundlePage>, StoreError> {
        let pool = match check {
            DecodeCheck::AtOnce if bundles.len() >= MIN_PARALLEL_BUNDLES => POOL.as_ref(),
            DecodeCheck::AtOnce | DecodeCheck::WhenNeeded => None,
        };
        self.read_bundles_with(pool, bundles, check)
    }

    fn read_bundles_with(
        &self,
        pool: Option<&ThreadPool>,
        bundles: &[MessageBundle],
        check: DecodeCheck,
    ) -> Result<Vec<BundlePage>, StoreError> {
        let damaged = |bundle: MessageBundle, damage: DecodeError| {
            self.rows.decode_error(&bundle_label(bundle.key), damage)
        };
        let page = |bundle: MessageBundle, body: StoredBlob| match check {
            DecodeCheck::AtOnce => BundlePage::measured(bundle, body, self.decoding),
            DecodeCheck::WhenNeeded => BundlePage::unmeasured(bundle, body, self.decoding),
        };
        let Some(pool) = pool else {
            let mut pages = Vec::with_capacity(bundles.len());
            self.visit_bundles(bundles, |bundle, body| {
                pages.push(page(bundle, body).map_err(|damage| damaged(bundle, damage))?);
                Ok(())
            })?;
            return Ok(pages);
        };
        let mut pages: Vec<Option<Result<BundlePage, DecodeError>>> =
            bundles.iter().map(|_| None).collect();
        let mut slots = pages.iter_mut();
        pool.in_place_scope(|scope| {
            self.visit_bundles(bundles, |bundle, body| {
                if let Some(slot) = slots.next() {
                    scope.spawn(move |_| *slot = Some(page(bundle, body)));
                }
                Ok(())
            })
        })?;
        let pages = bundles.iter().zip(pages.into_iter().flatten());
        pages
            .map(|(bundle, page)| page.map_err(|damage| damaged(*bundle, damage)))
            .collect()
    }

    /// Passes the bytes of bundles to `visit`, in order. Fails if one is missing.
    fn visit_bundles(
        &self,
        bundles: &[MessageBundle],
        mut visit: impl FnMut(MessageBundle, StoredBlob) -> RowResult<()>,
    ) -> RowResult<()> {
        let keys: Vec<i64> = bundles.iter().map(|bundle| bundle.key).collect();
        let mut expected = bundles.iter();
        let missing = |bundle: &MessageBundle| {
            let what = bundle_label(bundle.key);
            self.rows.corrupt(format!("{what} is missing"))
        };
        self.rows
            .visit_bundles(&keys, &mut |row| match expected.next() {
                Some(bundle) if bundle.key == row.n => {
                    let (sum, bytes) = (row.sum, row.body.to_vec());
                    visit(*bundle, StoredBlob { sum, bytes })
                }
                Some(bundle) => Err(missing(bundle)),
                None => Ok(()),
            })?;
        match expected.next() {
            Some(bundle) => Err(missing(bundle)),
            None => Ok(()),
        }
    }

    /// Returns the newest snapshot on a path.
    pub(crate) fn newest(&self, path: &EventPath) -> Result<SnapshotInfo, StoreError> {
        for (index, piece) in path.iter().enumerate().rev() {
            // The state before the very first event counts, too.
            let first = if index == 0 { 0 } else { piece.after + 1 };
            let keys = KeyRange {
                first: event_key(piece.lineage, first),
                last: event_key(piece.lineage, piece.until),
            };
            if let Some(found) = self.in_range(keys, SnapshotSelection::Newest)?.pop() {
                return Ok(found);
            }
        }
        Err(self.rows.corrupt("the state it starts from is missing"))
    }

    /// Returns the position of the first snapshot on a path after an event. If events were dropped,
    /// it replaces them.
    pub(crate) fn position_after(&self, path: &EventPath, at: i64) -> Result<i64, StoreError> {
        for piece in path.iter().filter(|piece| piece.until > at) {
            let keys = KeyRange {
                first: event_key(piece.lineage, piece.after.max(at) + 1),
                last: event_key(piece.lineage, piece.until),
            };
            if let Some(found) = self.in_range(keys, SnapshotSelection::Oldest)?.pop() {
                return Ok(position_of_key(found.key));
            }
        }
        Err(self
            .rows
            .corrupt(format!("the state that stands for event {at} is missing")))
    }

    /// Returns snapshots in a range of keys.
    pub(crate) fn in_range(
        &self,
        keys: KeyRange,
        selection: SnapshotSelection,
    ) -> Result<Vec<SnapshotInfo>, StoreError> {
        let mut infos = Vec::new();
        for row in self.rows.snapshots(SnapshotRange { keys, selection })? {
            let list = row.bundles.verified(&[row.n]);
            let bundles = list.and_then(codec::decode_bundles);
            infos.push(SnapshotInfo {
                key: row.n,
                bytes: row.bytes as u64,
                bundles: bundles.map_err(|e| self.rows.decode_error(&snapshot_label(row.n), e))?,
            });
        }
        Ok(infos)
    }
}

/// Returns the description of a snapshot in messages.
fn snapshot_label(n: i64) -> String {
    format!("the snapshot after event {}", position_of_key(n))
}

/// What tests of databases ask.
#[cfg(any(test, feature = "test-support"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
impl<R: RunRows> SavedStates<'_, R> {
    /// Returns the messages of bundles, which so many threads decode, or this one alone. There have to be so many bundles
    /// that other threads would be used.
    pub fn messages_of(
        &self,
        bundles: &[MessageBundle],
        threads: Option<usize>,
    ) -> Result<Vec<Arc<strata_core::record::message::Message>>, StoreError> {
        assert!(bundles.len() >= MIN_PARALLEL_BUNDLES, "{}", bundles.len());
        let pool = threads.map(|threads| {
            ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
        });
        let pages = self.read_bundles_with(pool.as_ref(), bundles, DecodeCheck::AtOnce)?;
        let messages = pages.iter().flat_map(|page| page.messages().to_vec());
        Ok(messages.collect())
    }

    /// Fails unless the messages of bundles can be decoded within `limit` bytes of memory, or in proportion to what the
    /// bundles take.
    pub fn check_messages(&self, bundles: &[MessageBundle], limit: u64) -> Result<(), StoreError> {
        self.checked_pages(bundles, limit).map(drop)
    }
}
