//! The memory of the acting role: all messages that it handled, and all outputs of its actions.

use crate::{Message, host};

/// Returns the newest `limit` messages, the oldest of them first. The host returns at most 1000.
pub fn recent(limit: u32) -> Vec<Message> {
    host::memory::recent(limit)
}

/// Returns the newest `limit` messages with this label, the oldest of them first. The host returns
/// at most 1000.
pub fn labelled(cause_by: &str, limit: u32) -> Vec<Message> {
    host::memory::by_label(cause_by, limit)
}
