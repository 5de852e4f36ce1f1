//! What the acting role remembers: everything it handled and everything its actions returned.

use crate::{Message, host};

/// The newest `limit` messages, oldest of them first. The host gives at most 1000.
pub fn recent(limit: u32) -> Vec<Message> {
    host::memory::recent(limit)
}

/// The newest `limit` messages with this label, oldest of them first. The host gives at most 1000.
pub fn labelled(cause_by: &str, limit: u32) -> Vec<Message> {
    host::memory::by_label(cause_by, limit)
}
