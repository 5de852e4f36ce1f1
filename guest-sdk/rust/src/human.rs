//! Questions to people. Asking them needs no grant.
//!
//! An attempt that asks a question ends there, and the call is repeated once there is an answer.
//! The repeated call gets the recorded results of its earlier host calls, and must do the same
//! before the question.
//!
//! ```
//! # use strata_action::{human, Failure};
//! # strata_action::testing::Host::new().answer("ship it").within(|| -> Result<(), Failure> {
//! let answer = human::Question::new("What shall become of the release?")
//!     .choices(["ship it", "hold it"])
//!     .expires_in(std::time::Duration::from_secs(3600))
//!     .default(&"hold it")?
//!     .ask()?;
//! assert_eq!(answer.parse::<String>()?, "ship it");
//! # Ok(()) }).unwrap();
//! ```

use crate::failure::invalid;
use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

pub use crate::bindings::strata::action::human::{Answer, Question, Source};

/// Asks a person. Any answer is accepted.
///
/// # Errors
/// Fails if the question is longer than 64 KiB.
pub fn ask(text: impl Into<String>) -> Result<Answer, HostError> {
    Question::new(text).ask()
}

impl Question {
    /// Creates a question that accepts any answer and does not expire.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            schema: None,
            choices: Vec::new(),
            expires_s: None,
            default: None,
        }
    }

    /// Requires an answer that matches this JSON Schema.
    ///
    /// # Errors
    /// Fails if the schema cannot be written as JSON.
    pub fn schema<T: Serialize>(mut self, schema: &T) -> Result<Self, HostError> {
        self.schema = Some(json::write("the schema", schema).map_err(invalid)?);
        Ok(self)
    }

    /// Requires one of these texts as answer.
    #[must_use]
    pub fn choices(mut self, choices: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the time after which the question expires. It is rounded up to seconds.
    #[must_use]
    pub fn expires_in(mut self, time: Duration) -> Self {
        // A fraction of a second must not become zero.
        let seconds = time
            .as_secs()
            .saturating_add(u64::from(time.subsec_nanos() > 0));
        self.expires_s = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }

    /// Sets the answer that is used if the question expires.
    ///
    /// # Errors
    /// Fails if it cannot be written as JSON.
    pub fn default<T: Serialize>(mut self, answer: &T) -> Result<Self, HostError> {
        self.default = Some(json::write("the default", answer).map_err(invalid)?);
        Ok(self)
    }

    /// Asks the question and returns the answer.
    ///
    /// # Errors
    /// Fails if no answer could be valid, or if the question expires and there is no default.
    pub fn ask(&self) -> Result<Answer, HostError> {
        host::human::ask(self)
    }
}

impl Answer {
    /// Parses the answer.
    ///
    /// # Errors
    /// Fails if it is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse("the answer", &self.value)
    }
}
