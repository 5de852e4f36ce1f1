//! Reading messages.

use crate::{Failure, Message, json};
use serde::de::DeserializeOwned;

impl Message {
    /// A message with this label and text and nothing else, for tests.
    pub fn new(cause_by: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            id: String::new(),
            content: content.into(),
            data: None,
            cause_by: cause_by.into(),
            sent_from: String::new(),
            send_to: Vec::new(),
        }
    }

    /// The structured content as a `T`.
    ///
    /// # Errors
    /// Fails if the message carries no data, or data that is not a `T`; the failure names the message.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let name = &self.cause_by;
        match &self.data {
            Some(data) => json::parse(&format!("the data of message `{name}`"), data),
            None => Err(Failure::error(format!(
                "reading the data of message `{name}`: it carries none"
            ))),
        }
    }
}
