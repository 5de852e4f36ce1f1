//! Functions of messages.

use crate::{Failure, Message, json};
use serde::de::DeserializeOwned;

impl Message {
    /// Creates a message with this label and text, for tests.
    pub fn new(cause_by: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            id: String::new(),
            content: content.into(),
            data: None,
            parts: Vec::new(),
            cause_by: cause_by.into(),
            sent_from: String::new(),
            send_to: Vec::new(),
        }
    }

    /// Parses the structured content.
    ///
    /// # Errors
    /// Fails if the message has no data, or if the data is not a `T`. The failure names the
    /// message.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let name = &self.cause_by;
        match &self.data {
            Some(data) => json::parse(&format!("the data of message `{name}`"), data),
            None => Err(Failure::error(format!(
                "reading the data of message `{name}`: it has none"
            ))),
        }
    }
}
