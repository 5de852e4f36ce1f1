//! People. Asking them needs no grant.
//!
//! A call that asks ends there and is made again once there is an answer: what it got from the host before is served
//! again, and what it does by itself before the question must come out the same.
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

/// Asks a person; any answer will do.
///
/// # Errors
/// Fails if the question is longer than 64 KiB.
pub fn ask(text: impl Into<String>) -> Result<Answer, HostError> {
    Question::new(text).ask()
}

impl Question {
    /// A question that takes any answer and waits for ever.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            schema: None,
            choices: Vec::new(),
            expires_s: None,
            default: None,
        }
    }

    /// Asks for an answer that follows this JSON Schema.
    ///
    /// # Errors
    /// Fails if the schema cannot be written as JSON.
    pub fn schema<T: Serialize>(mut self, schema: &T) -> Result<Self, HostError> {
        self.schema = Some(json::write("the schema", schema).map_err(invalid)?);
        Ok(self)
    }

    /// Asks for one of these texts.
    #[must_use]
    pub fn choices(mut self, choices: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Bounds the time for an answer, in whole seconds.
    #[must_use]
    pub fn expires_in(mut self, time: Duration) -> Self {
        // A part of a second is not no time at all.
        let seconds = time
            .as_secs()
            .saturating_add(u64::from(time.subsec_nanos() > 0));
        self.expires_s = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }

    /// Sets the answer that is taken when the time is over.
    ///
    /// # Errors
    /// Fails if it cannot be written as JSON.
    pub fn default<T: Serialize>(mut self, answer: &T) -> Result<Self, HostError> {
        self.default = Some(json::write("the default", answer).map_err(invalid)?);
        Ok(self)
    }

    /// Asks.
    ///
    /// # Errors
    /// Fails if no answer could fit, or nobody answers in time and there is no default.
    pub fn ask(&self) -> Result<Answer, HostError> {
        host::human::ask(self)
    }
}

impl Answer {
    /// The answer as a `T`.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse("the answer", &self.value)
    }
}
