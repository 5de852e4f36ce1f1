//! The outbox: messages for names that stand for somebody outside of the team. They leave one by one, in the order in
//! which they were published. How they are handed over is not the core's business.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::MessageRef;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbound {
    /// The message.
    pub message: MessageRef,
    /// For whom.
    pub to: Vec<String>,
    /// Why it could not be handed over, where that was tried; then nothing follows it before a resume.
    pub failed: Option<String>,
}
