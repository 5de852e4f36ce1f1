//! A bundle of messages that was read. It is decoded when one of its messages is first needed, since
//! old messages are rarely needed again during a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use strata_core::record::message::Message;
use strata_core::state::messages::{MessagePage, TextSize};

use crate::codec::{BundleSize, DecodeError, MessageBundle, UnpackedMessages, plain_bytes};
use crate::rows::StoredBlob;

/// The limit for the memory that the messages of a state take once they are decoded, in bytes; and
/// the factor by which they may be larger than in the file, if that allows more.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 1 << 30;
const MAX_GROWTH: u64 = 64;

type Unpack = Box<dyn FnOnce() -> Vec<Arc<Message>> + Send>;

/// Holds the bytes of a bundle, and its messages once they are decoded.
#[derive(Debug)]
pub(crate) struct BundlePage {
    count: usize,
    /// How many bytes of memory the decoded messages take; zero if they were not measured.
    pub memory_bytes: u64,
    /// How many bytes they take now.
    pub encoded_bytes: u64,
    texts: TextSize,
    /// The size of the messages before they were compressed, in bytes.
    plain_bytes: u64,
    messages: LazyLock<Vec<Arc<Message>>, Unpack>,
}

/// What is found out about bundles when they are decoded.
#[derive(Debug, Default)]
pub(crate) struct LateDecoding {
    /// The memory of the decoded messages, and the size of their bundles, in bytes.
    memory_bytes: AtomicU64,
    encoded_bytes: AtomicU64,
    /// Why the first bundle could not be decoded that could not.
    damage: OnceLock<String>,
}

impl BundlePage {
    /// Verifies a bundle. Fails if it could not be decoded later.
    pub(crate) fn measured(
        bundle: MessageBundle,
        body: StoredBlob,
        decoding: &Arc<LateDecoding>,
    ) -> Result<Self, DecodeError> {
        let unpacked = UnpackedMessages::from_body(verified(bundle, &body)?, bundle.messages)?;
        let size = measure(bundle, &unpacked)?;
        drop(unpacked);
        Ok(Self {
            memory_bytes: size.memory_bytes,
            ..Self::new(bundle, body, decoding, DecodeLimit::None)
        })
    }

    /// Compares a bundle with its checksum. `decoding` learns whether it can be decoded, when it is.
    pub(crate) fn unmeasured(
        bundle: MessageBundle,
        body: StoredBlob,
        decoding: &Arc<LateDecoding>,
    ) -> Result<Self, DecodeError> {
        verified(bundle, &body)?;
        Ok(Self::new(bundle, body, decoding, DecodeLimit::Memory))
    }

    fn new(
        bundle: MessageBundle,
        body: StoredBlob,
        decoding: &Arc<LateDecoding>,
        limit: DecodeLimit,
    ) -> Self {
        let encoded_bytes = body.bytes.len() as u64;
        let plain_bytes = plain_bytes(&body.bytes);
        let decoding = Arc::clone(decoding);
        let unpack = move || decoding.decode(bundle, &body.bytes, limit);
        Self {
            count: bundle.messages as usize,
            memory_bytes: 0,
            encoded_bytes,
            texts: bundle.texts,
            plain_bytes,
            messages: LazyLock::new(Box::new(unpack)),
        }
    }
}

/// What is checked when a bundle is decoded.
#[derive(Clone, Copy, Debug)]
enum DecodeLimit {
    /// Nothing: it was measured before.
    None,
    /// How much memory it takes, together with others.
    Memory,
}

impl LateDecoding {
    /// Returns why a bundle could not be decoded, if there is one.
    pub fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Notes why a bundle could not be decoded.
    pub(crate) fn note_damage(&self, what: String) {
        // Another bundle may have been damaged before.
        let _ = self.damage.set(what);
    }

    /// Returns the messages of a bundle. If they cannot be decoded, returns as many empty ones.
    fn decode(&self, bundle: MessageBundle, body: &[u8], limit: DecodeLimit) -> Vec<Arc<Message>> {
        let decode = || {
            let unpacked = UnpackedMessages::from_body(body, bundle.messages)?;
            if let DecodeLimit::Memory = limit {
                self.admit(measure(bundle, &unpacked)?, body.len() as u64)?;
            }
            unpacked.decode()
        };
        decode().unwrap_or_else(|damage| {
            let what = bundle_label(bundle.key);
            self.note_damage(format!("{what} cannot be read: {damage}"));
            let empty = Message::from_user("".into(), String::new(), String::new());
            let empty = Arc::new(empty);
            vec![empty; bundle.messages as usize]
        })
    }

    /// Counts the memory of messages that are about to be decoded. Fails if that is too much.
    fn admit(&self, size: BundleSize, encoded: u64) -> Result<(), DecodeError> {
        let add = |counter: &AtomicU64, bytes| {
            let before = counter.fetch_add(bytes, Ordering::Relaxed);
            before.saturating_add(bytes)
        };
        let encoded_bytes = add(&self.encoded_bytes, encoded);
        if add(&self.memory_bytes, size.memory_bytes) > max_memory(MAX_MESSAGE_BYTES, encoded_bytes)
        {
            return Err(DecodeError::Memory);
        }
        Ok(())
    }
}

/// Returns the bytes of a bundle, if its checksum matches.
fn verified(bundle: MessageBundle, body: &StoredBlob) -> Result<&[u8], DecodeError> {
    body.verified(&[bundle.key, i64::from(bundle.messages)])
}

/// Returns the size of the messages of a bundle. Fails if they cannot be decoded, or if they are not as
/// long as the state says that has the bundle.
fn measure(
    bundle: MessageBundle,
    unpacked: &UnpackedMessages<'_>,
) -> Result<BundleSize, DecodeError> {
    let size = unpacked.measure()?;
    if size.texts == bundle.texts {
        Ok(size)
    } else {
        Err(DecodeError::Length)
    }
}

/// Returns how much memory messages may take: `limit` bytes, or in proportion to the size of their
/// bundles, if that is more.
pub(crate) fn max_memory(limit: u64, encoded_bytes: u64) -> u64 {
    limit.max(encoded_bytes.saturating_mul(MAX_GROWTH))
}

/// Returns the description of a bundle in messages.
pub(crate) fn bundle_label(key: i64) -> String {
    format!("bundle {key} of messages")
}

impl MessagePage for BundlePage {
    fn count(&self) -> usize {
        self.count
    }

    fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    fn size(&self) -> TextSize {
        self.texts
    }

    fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }
}
