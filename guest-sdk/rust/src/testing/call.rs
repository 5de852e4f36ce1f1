//! The calls that the in-memory host makes, with defaults for everything that a test does not set.

use crate::{Attempt, Candidate, Context, Failure, Message, Profile, Situation, Task, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A call of an action, a planner or a thinker.
#[derive(Clone, Debug)]
pub struct Call {
    role: Profile,
    action: String,
    config: String,
    news: Vec<Message>,
    outputs: Vec<Message>,
    candidates: Vec<Candidate>,
    task: Option<Task>,
    arguments: Option<String>,
    attempt: u32,
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}

impl Call {
    /// Creates the first attempt of action `act` of role `Tester`, without config and news.
    pub fn new() -> Self {
        Self {
            role: Profile {
                name: "Tester".to_owned(),
                profile: String::new(),
                goal: String::new(),
                constraints: String::new(),
                desc: String::new(),
            },
            action: "act".to_owned(),
            config: "null".to_owned(),
            news: Vec::new(),
            outputs: Vec::new(),
            candidates: Vec::new(),
            task: None,
            arguments: None,
            attempt: 1,
        }
    }

    /// Sets the acting role.
    #[must_use]
    pub fn role(mut self, role: Profile) -> Self {
        self.role = role;
        self
    }

    /// Sets the action's name in the team file.
    #[must_use]
    pub fn action(mut self, name: impl Into<String>) -> Self {
        self.action = name.into();
        self
    }

    /// Sets the config to any value that can be serialised as JSON.
    ///
    /// # Panics
    /// Panics if it cannot be serialised as JSON.
    #[must_use]
    pub fn config(mut self, config: impl Serialize) -> Self {
        self.config = serde_json::to_string(&config).expect("a test's config is JSON");
        self
    }

    /// Adds a message to the news: the idea with this text.
    #[must_use]
    pub fn news(self, text: impl Into<String>) -> Self {
        self.message(Message::new("UserRequirement", text))
    }

    /// Adds any message to the news.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.news.push(message);
        self
    }

    /// Adds the output of an earlier action of the activation.
    #[must_use]
    pub fn output(mut self, message: Message) -> Self {
        self.outputs.push(message);
        self
    }

    /// Adds an action for a thinker to choose from.
    #[must_use]
    pub fn candidate(mut self, name: &str, description: &str) -> Self {
        let candidate = Candidate {
            name: name.to_owned(),
            description: description.to_owned(),
        };
        self.candidates.push(candidate);
        self
    }

    /// Sets the planned task.
    #[must_use]
    pub fn task(mut self, text: impl Into<String>) -> Self {
        self.task = Some(Task {
            text: text.into(),
            action: None,
        });
        self
    }

    /// Makes it a tool call with these arguments: any value that can be serialised as JSON.
    ///
    /// # Panics
    /// Panics if it cannot be serialised as JSON.
    #[must_use]
    pub fn arguments(mut self, arguments: impl Serialize) -> Self {
        let arguments = serde_json::to_string(&arguments).expect("a test's arguments are JSON");
        self.arguments = Some(arguments);
        self
    }

    /// Sets the number of the attempt, from 1.
    #[must_use]
    pub fn attempt(mut self, number: u32) -> Self {
        self.attempt = number;
        self
    }

    pub(crate) fn context<C: DeserializeOwned>(self) -> Result<Context<C>, Failure> {
        Ok(Context {
            attempt: self.attempt_record(),
            role: self.role,
            action: self.action,
            index: 0,
            config: json::parse_config(&self.config)?,
            news: self.news,
            outputs: self.outputs,
            task: self.task,
            raw_arguments: self.arguments,
        })
    }

    pub(super) fn situation<C: DeserializeOwned>(
        self,
        round: u32,
    ) -> Result<Situation<C>, Failure> {
        Ok(Situation {
            attempt: self.attempt_record(),
            role: self.role,
            config: json::parse_config(&self.config)?,
            round,
            candidates: self.candidates,
            news: self.news,
            outputs: self.outputs,
        })
    }

    fn attempt_record(&self) -> Attempt {
        let position = self.arguments.as_ref().map(|_| 0);
        Attempt {
            number: self.attempt,
            idempotency_key: match position {
                Some(_) => "test/0/Tester/0/0".to_owned(),
                None => "test/0/Tester/0".to_owned(),
            },
            turn: position,
            call: position,
            deadline_ms: None,
        }
    }
}
