//! The memory of the acting role: all messages that it handled, and all outputs of its actions.
//!
//! ```
//! # use strata_action::{Message, memory};
//! # let host = strata_action::testing::Host::new().remember(Message::new("Note", "a"));
//! # host.remember(Message::new("Note", "b")).within(|| {
//! assert_eq!(memory::recent(1)[0].content, "b");
//! assert_eq!(memory::recent(memory::bounds(10).bytes(4096)).len(), 2);
//! # });
//! ```

use crate::{HostError, Message, host};

pub use crate::bindings::strata::action::memory::Bounds;

/// Returns the newest messages within the bounds, the oldest of them first. A number alone bounds
/// the number of messages; the host returns at most 1000.
pub fn recent(bounds: impl Into<Bounds>) -> Vec<Message> {
    host::memory::recent(bounds.into())
}

/// Returns the newest messages with this label within the bounds, the oldest of them first.
pub fn labelled(cause_by: &str, bounds: impl Into<Bounds>) -> Vec<Message> {
    host::memory::by_label(cause_by, bounds.into())
}

/// Replaces the oldest `up_to` messages of the conversation in which this action is a tool call, in what
/// the model is sent, by a text. Takes effect with the next request to the model, if the action
/// succeeds. The first news and the newest reply with its results stay, and a reply and the results
/// of its calls are replaced together or not at all.
///
/// Fails with `invalid` if this is no tool call, `up_to` is 0, or the text is empty or has more than 64
/// KiB.
pub fn replace(up_to: u32, summary: &str) -> Result<(), HostError> {
    host::memory::replace(up_to, summary)
}

/// Creates bounds of this many messages, whatever their size.
pub fn bounds(messages: u32) -> Bounds {
    Bounds {
        messages,
        bytes: u32::MAX,
    }
}

impl Bounds {
    /// Sets the largest number of bytes of text and structured content.
    #[must_use]
    pub fn bytes(mut self, bytes: u32) -> Self {
        self.bytes = bytes;
        self
    }
}

impl From<u32> for Bounds {
    fn from(messages: u32) -> Self {
        bounds(messages)
    }
}
