//! Publishing messages in addition to the action's output.

use crate::{Failure, Hop, HostError, Part, host, json};
use serde::Serialize;

pub use crate::bindings::strata::action::environment::Emission;

impl Emission {
    /// Creates a message with this text, the action's name as its label, and no explicit
    /// recipients.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            data: None,
            parts: Vec::new(),
            to: Vec::new(),
            cause_by: None,
            route: Vec::new(),
        }
    }

    /// Adds an image or a file.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Adds a recipient.
    #[must_use]
    pub fn to(mut self, name: impl Into<String>) -> Self {
        self.to.push(name.into());
        self
    }

    /// Adds a hop to the itinerary that travels with the message.
    #[must_use]
    pub fn hop(mut self, hop: Hop) -> Self {
        self.route.push(hop);
        self
    }

    /// Sets the label.
    #[must_use]
    pub fn cause_by(mut self, label: impl Into<String>) -> Self {
        self.cause_by = Some(label.into());
        self
    }

    /// Sets the structured content.
    ///
    /// # Errors
    /// Fails if the data cannot be written as JSON.
    pub fn data<T: Serialize>(mut self, data: T) -> Result<Self, Failure> {
        self.data = json::write_data(Some(data))?;
        Ok(self)
    }
}

/// Publishes a message. Its recipients receive it in the next step, if this attempt succeeds.
///
/// # Errors
/// Fails if the host refuses the message.
pub fn emit(emission: &Emission) -> Result<(), HostError> {
    host::environment::emit(emission)
}
