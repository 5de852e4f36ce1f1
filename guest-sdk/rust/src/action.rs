//! The traits that an author implements, and what their functions return.
//!
//! `export` converts the results to the types of the component's interface.

use crate::{Context, Failure, Hop, Part, Situation, Task};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An action: handles the news of a role and returns a message.
///
/// Every call runs in a new instance that is dropped afterwards, so there is no `self`. What must
/// outlast the call is stored in [`state`](crate::state).
pub trait Action {
    /// The type of the action's `config` in the team file; `()` if it has none. If all fields of
    /// the type have defaults, `config` may be omitted.
    type Config: DeserializeOwned;
    /// The structured part of the output; `()` if it has none.
    type Data: Serialize;

    /// The JSON Schema of `Config`, with which team files are checked.
    const CONFIG_SCHEMA: Option<&'static str> = None;
    /// The JSON Schema of the arguments that the action takes when a model calls it as a tool: an
    /// object. [`Context::arguments`] parses them.
    const INPUT_SCHEMA: Option<&'static str> = None;
    /// The JSON Schema of `Data`.
    const OUTPUT_SCHEMA: Option<&'static str> = None;
    /// The capabilities without which the action cannot work: any of `env`, `files`, `http`, `llm`,
    /// `secrets`. A team that does not grant them is rejected before it runs.
    const NEEDS: &'static [&'static str] = &[];

    /// Returns the JSON Schema of `Config`; by default [`CONFIG_SCHEMA`](Self::CONFIG_SCHEMA). With
    /// the feature `schema`, `schema::of` derives it from the type.
    fn config_schema() -> Option<String> {
        Self::CONFIG_SCHEMA.map(str::to_owned)
    }

    /// Returns the JSON Schema of the arguments; by default [`INPUT_SCHEMA`](Self::INPUT_SCHEMA).
    fn input_schema() -> Option<String> {
        Self::INPUT_SCHEMA.map(str::to_owned)
    }

    /// Returns the JSON Schema of `Data`; by default [`OUTPUT_SCHEMA`](Self::OUTPUT_SCHEMA).
    fn output_schema() -> Option<String> {
        Self::OUTPUT_SCHEMA.map(str::to_owned)
    }

    /// Runs the action.
    ///
    /// # Errors
    /// Returns why the action fails. The operator `?` converts errors of host functions to
    /// failures.
    fn run(cx: &Context<Self::Config>) -> Result<Output<Self::Data>, Failure>;
}

/// Chooses the next action of a `react` role.
pub trait Thinker {
    /// The `config` of the role's `think` entry.
    type Config: DeserializeOwned;

    /// Chooses an action, or ends the activation.
    ///
    /// # Errors
    /// Returns why no action can be chosen.
    fn choose(situation: &Situation<Self::Config>) -> Result<Choice, Failure>;
}

/// Plans the tasks of a `plan_and_act` role, as its first action.
pub trait Planner {
    /// The action's `config` in the team file.
    type Config: DeserializeOwned;

    /// Returns the tasks in the order in which they are to be executed.
    ///
    /// # Errors
    /// Returns why there is no plan.
    fn plan(cx: &Context<Self::Config>) -> Result<Vec<Task>, Failure>;
}

/// The decision of a [`Thinker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Run the action with this index.
    Run(u32),
    /// End the activation. The output of the last action is published.
    End,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T = ()> {
    /// The text.
    pub content: String,
    /// Structured content.
    pub data: Option<T>,
    /// Images and files, in order. They contain no text.
    pub parts: Vec<Part>,
    /// Explicit recipients: names, aliases, groups, `<all>`, `<self>`. If it is empty, the team
    /// file determines the recipients. `<nobody>` alone means that nobody receives the output.
    pub to: Vec<String>,
    /// An itinerary that travels with the message.
    pub route: Vec<Hop>,
}

impl<T> Output<T> {
    /// Creates an output with this text and no explicit recipients.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            data: None,
            parts: Vec::new(),
            to: Vec::new(),
            route: Vec::new(),
        }
    }

    /// Sets the structured content. Numbers that JSON cannot represent (NaN and infinities) become
    /// null.
    #[must_use]
    pub fn data(mut self, data: T) -> Self {
        self.data = Some(data);
        self
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
}
