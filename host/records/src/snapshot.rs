//! A saved state as rows: one of its own, and its messages in bundles that successive states share. So
//! a state costs only what is new in it. This also decides which old ones to keep; when to save one
//! is decided elsewhere.

use std::sync::Arc;

use strata_core::state::environment::Environment;

use super::codec::{self, EncodedMessages, MessageBundle};
use super::lineage::position_of_key;

/// With events of less than this size a snapshot is not worth its cost: replaying them takes a few
/// milliseconds.
pub(crate) const MIN_SNAPSHOT_BYTES: u64 = 256 << 10;

/// The size of the largest state that is saved: SQLite's largest blob is 10⁹ bytes, and
/// PostgreSQL's is about as large. A state that is larger is loaded from the events.
pub(crate) const MAX_SNAPSHOT_BYTES: usize = 900_000_000;

/// The reciprocal of the share of a run that all but the newest snapshot may take. Old snapshots
/// make loading an old checkpoint fast, which is worth it if states are small and histories are
/// long.
pub const OLD_SNAPSHOTS_SHARE: u64 = 8;

/// A state that is encoded for a database.
pub struct EncodedSnapshot<'a> {
    env: &'a Environment,
    body: Arc<Vec<u8>>,
}

/// The rows of a state that is to be inserted.
#[derive(Debug)]
pub struct SnapshotRows {
    /// The key of its own row.
    pub n: i64,
    /// The list of its bundles.
    pub list: Vec<u8>,
    /// The checksum of the list.
    pub list_sum: u32,
    /// The state.
    pub body: Arc<Vec<u8>>,
    /// The checksum of the state.
    pub sum: u32,
    /// The bundles that do not exist yet.
    pub new_bundles: Vec<BundleRow>,
    /// All its bundles.
    pub bundles: Vec<MessageBundle>,
}

/// The row of a bundle that is to be inserted.
#[derive(Debug)]
pub struct BundleRow {
    /// Its key.
    pub n: i64,
    /// The checksum of the key, the number of messages and the body.
    pub sum: u32,
    /// The messages, encoded.
    pub body: Vec<u8>,
}

/// The key and the size of a snapshot in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSize {
    /// The key.
    pub n: i64,
    /// The size.
    pub bytes: u64,
}

impl<'a> EncodedSnapshot<'a> {
    /// Encodes a state.
    pub fn encode(env: &'a Environment) -> Self {
        Self {
            env,
            body: codec::encode_snapshot(env).into(),
        }
    }

    /// Returns a state with these bytes in place of its own.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_body(env: &'a Environment, body: Vec<u8>) -> Self {
        Self {
            env,
            body: body.into(),
        }
    }

    /// Returns its size in bytes, without its bundles.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the size of the bundles that it needs in addition to those of an earlier state.
    pub(crate) fn new_bundle_bytes(&self, earlier: &[MessageBundle]) -> usize {
        self.settled_bundles(message_count(earlier))
            .map(|bundle| bundle.body.len())
            .sum()
    }

    /// Returns its rows, with the key `n` for its own. It uses the bundles of an earlier state and
    /// adds its own, whose keys follow `last_bundle`.
    pub fn rows(&self, n: i64, last_bundle: i64, mut bundles: Vec<MessageBundle>) -> SnapshotRows {
        let settled = self.settled_bundles(message_count(&bundles));
        let mut new_bundles = Vec::new();
        for (n, encoded) in (last_bundle + 1..).zip(settled) {
            let EncodedMessages {
                messages,
                texts,
                body,
            } = encoded;
            let sum = codec::checksum(&[n, i64::from(messages)], &body);
            new_bundles.push(BundleRow { n, sum, body });
            bundles.push(MessageBundle {
                key: n,
                messages,
                texts,
            });
        }
        let list = codec::encode_bundles(&bundles);
        SnapshotRows {
            n,
            list_sum: codec::checksum(&[n], &list),
            list,
            body: Arc::clone(&self.body),
            sum: codec::checksum(&[n], &self.body),
            new_bundles,
            bundles,
        }
    }

    /// Returns its settled messages, after skipping the first ones, as bundles.
    fn settled_bundles(&self, first: usize) -> impl Iterator<Item = EncodedMessages> {
        let mut left = self
            .env
            .messages
            .range(first..self.env.final_message_count());
        std::iter::from_fn(move || {
            let bundle = codec::encode_messages(&mut left);
            (bundle.messages > 0).then_some(bundle)
        })
    }
}

impl SnapshotRows {
    /// Returns how large they are, in bytes.
    pub fn bytes(&self) -> u64 {
        let bundles: usize = self
            .new_bundles
            .iter()
            .map(|bundle| bundle.body.len())
            .sum();
        (self.body.len() + bundles) as u64
    }
}

/// Returns how many messages there are in bundles.
pub fn message_count(bundles: &[MessageBundle]) -> usize {
    bundles.iter().map(|bundle| bundle.messages as usize).sum()
}

/// Returns the keys of the snapshots of a lineage that are not worth their space once there is a
/// newer one, `newest`. The newer the remaining snapshots are, the closer together they are. `old`
/// are those before it, in order, and `gaps` the last positions of gaps: the snapshots after dropped
/// events stay, since later states cannot be loaded without them. All that stay but the newest take
/// at most `room` bytes.
pub fn unneeded_snapshots(
    newest: i64,
    mut old: Vec<SnapshotSize>,
    gaps: &[i64],
    mut room: u64,
) -> Vec<i64> {
    let first = newest - position_of_key(newest);
    let replaces = |last: &i64| Some(old.iter().find(|one| position_of_key(one.n) > *last)?.n);
    let needed: Vec<i64> = gaps.iter().filter_map(replaces).collect();
    old.retain(|one| !needed.contains(&one.n));
    let mut after = newest;
    let mut unneeded = Vec::new();
    for i in (0..old.len()).rev() {
        let SnapshotSize { n, bytes } = old[i];
        let before = i.checked_sub(1).map_or(first, |i| old[i].n);
        // Without this snapshot, its neighbours would be no further apart than this one is from the
        // newest.
        let close = after < newest && after - before <= newest - after;
        if close || bytes > room {
            unneeded.push(n);
        } else {
            (room, after) = (room - bytes, n);
        }
    }
    unneeded
}
