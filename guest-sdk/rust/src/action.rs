//! What an author implements, and what such a function returns.
//!
//! How the result crosses to the host is the business of `export`.

use crate::{Context, Failure, Hop, Situation, Task};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One action: takes the news of a role and returns a message.
///
/// Every call runs in a new instance that is dropped afterwards, so there is no `self`: what is to last goes
/// through [`state`](crate::state).
pub trait Action {
    /// The action's `config` in the team file. `()` for none; a type whose fields all have defaults may be left
    /// out there.
    type Config: DeserializeOwned;
    /// The structured part of the output. `()` for none.
    type Data: Serialize;

    /// JSON Schema of `Config`, for those who write team files.
    const CONFIG_SCHEMA: Option<&'static str> = None;
    /// JSON Schema of `Data`.
    const OUTPUT_SCHEMA: Option<&'static str> = None;
    /// The capabilities without which the action cannot work: of `env`, `files`, `http`, `llm`, `secrets`. A team that
    /// does not grant them is refused before it runs.
    const NEEDS: &'static [&'static str] = &[];

    /// Does the work.
    ///
    /// # Errors
    /// Returns why the action gives up; `?` turns errors of the host's functions into failures.
    fn run(cx: &Context<Self::Config>) -> Result<Output<Self::Data>, Failure>;
}

/// Chooses the next action of a `react` role.
pub trait Thinker {
    /// The `config` of the role's `think` entry.
    type Config: DeserializeOwned;

    /// Chooses an action, or ends the activation.
    ///
    /// # Errors
    /// Returns why no choice can be made.
    fn choose(situation: &Situation<Self::Config>) -> Result<Choice, Failure>;
}

/// Plans for a `plan_and_act` role, as its first action.
pub trait Planner {
    /// The action's `config` in the team file.
    type Config: DeserializeOwned;

    /// Returns the tasks in the order in which they are to be carried out.
    ///
    /// # Errors
    /// Returns why there can be no plan.
    fn plan(cx: &Context<Self::Config>) -> Result<Vec<Task>, Failure>;
}

/// What a [`Thinker`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Run the action with this index.
    Run(u32),
    /// End the activation; what the last action returned is published.
    End,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T = ()> {
    /// The text.
    pub content: String,
    /// Structured content.
    pub data: Option<T>,
    /// Explicit recipients: names, aliases, groups, `<all>`, `<self>`. Empty leaves the choice to the team file.
    pub to: Vec<String>,
    /// An itinerary that travels with the message.
    pub route: Vec<Hop>,
}

impl<T> Output<T> {
    /// An output of this text, addressed to nobody in particular.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            data: None,
            to: Vec::new(),
            route: Vec::new(),
        }
    }

    /// Attaches structured content. Numbers that JSON does not have, NaN and the infinities, become null.
    #[must_use]
    pub fn data(mut self, data: T) -> Self {
        self.data = Some(data);
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
