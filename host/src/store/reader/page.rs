//! A bundle of messages that was read and checked. It is decoded when one of its messages is first
//! needed, since old messages are rarely needed again during a run.

use std::sync::{Arc, LazyLock};

use strata_core::environment::messages::Page;
use strata_core::message::Message;

use super::state::Body;
use crate::store::codec::{self, Bundle, Damage};

type Unpack = Box<dyn FnOnce() -> Vec<Arc<Message>> + Send>;

/// Holds the bytes of a bundle, and its messages once they are decoded.
#[derive(Debug)]
pub(super) struct BundlePage {
    count: usize,
    /// How many bytes of memory the decoded messages take.
    pub room: u64,
    /// How many bytes they take now.
    pub weight: u64,
    messages: LazyLock<Vec<Arc<Message>>, Unpack>,
}

impl BundlePage {
    /// Verifies a bundle. Fails if it could not be decoded later.
    pub(super) fn checked(bundle: Bundle, body: Body) -> Result<Self, Damage> {
        let count = bundle.messages;
        let room = codec::check_messages(body.verified(&[bundle.n, i64::from(count)])?, count)?;
        let weight = body.bytes.len() as u64;
        let unpack = move || {
            codec::decode_messages(&body.bytes, count).expect("it was checked when it was read")
        };
        Ok(Self {
            count: count as usize,
            room,
            weight,
            messages: LazyLock::new(Box::new(unpack)),
        })
    }
}

impl Page for BundlePage {
    fn count(&self) -> usize {
        self.count
    }

    fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }
}
