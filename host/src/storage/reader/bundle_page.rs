//! A bundle of messages that was read and checked. It is decoded when one of its messages is first
//! needed, since old messages are rarely needed again during a run.

use std::sync::{Arc, LazyLock};

use strata_core::record::message::Message;
use strata_core::state::messages::{MessagePage, TextSize};

use crate::storage::codec::{self, DecodeError, MessageBundle};
use crate::storage::rows::StoredBlob;

type Unpack = Box<dyn FnOnce() -> Vec<Arc<Message>> + Send>;

/// Holds the bytes of a bundle, and its messages once they are decoded.
#[derive(Debug)]
pub(super) struct BundlePage {
    count: usize,
    /// How many bytes of memory the decoded messages take.
    pub memory_bytes: u64,
    /// How many bytes they take now.
    pub encoded_bytes: u64,
    texts: TextSize,
    messages: LazyLock<Vec<Arc<Message>>, Unpack>,
}

impl BundlePage {
    /// Verifies a bundle. Fails if it could not be decoded later.
    pub(super) fn from_blob(bundle: MessageBundle, body: StoredBlob) -> Result<Self, DecodeError> {
        let count = bundle.messages;
        let size = codec::measure_messages(body.verified(&[bundle.key, i64::from(count)])?, count)?;
        let encoded_bytes = body.bytes.len() as u64;
        let unpack = move || {
            codec::decode_messages(&body.bytes, count).expect("it was checked when it was read")
        };
        Ok(Self {
            count: count as usize,
            memory_bytes: size.memory_bytes,
            encoded_bytes,
            texts: size.texts,
            messages: LazyLock::new(Box::new(unpack)),
        })
    }
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
}
