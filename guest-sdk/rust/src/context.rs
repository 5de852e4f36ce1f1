//! What an action, a planner or a thinker is told about its call.

use crate::{Attempt, Failure, Message, Profile, Task};
use serde::de::DeserializeOwned;

/// Everything a call is about. All but `attempt` is the same in every attempt of the same call.
#[derive(Clone, Debug)]
pub struct Context<C> {
    /// Which try of the call this is.
    pub attempt: Attempt,
    /// The acting role.
    pub role: Profile,
    /// The action's name in the team file.
    pub action: String,
    /// The action's index in its role, from 0.
    pub index: u32,
    /// The action's `config`.
    pub config: C,
    /// The messages this activation handles, oldest first.
    pub news: Vec<Message>,
    /// What earlier actions of this activation returned, oldest first.
    pub outputs: Vec<Message>,
    /// The planned task this call carries out, in `plan_and_act` roles.
    pub task: Option<Task>,
}

impl<C> Context<C> {
    /// The newest message there is to work upon: the last output of this activation, else the last of the news.
    pub fn newest(&self) -> Option<&Message> {
        self.outputs.last().or(self.news.last())
    }

    /// The newest message with this label, among outputs first and then news.
    pub fn labelled(&self, cause_by: &str) -> Option<&Message> {
        let mut newest_first = self.outputs.iter().rev().chain(self.news.iter().rev());
        newest_first.find(|message| message.cause_by == cause_by)
    }

    /// The text to work upon: of the newest output if there is one, else of all news, separated by blank lines.
    pub fn text(&self) -> String {
        if let Some(output) = self.outputs.last() {
            return output.content.clone();
        }
        let texts: Vec<&str> = self
            .news
            .iter()
            .map(|message| message.content.as_str())
            .collect();
        texts.join("\n\n")
    }

    /// The structured content of the newest message, as a type of the action's.
    ///
    /// # Errors
    /// Fails if there is no message, it carries no data, or the data is not a `T`.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match self.newest() {
            Some(message) => message.parse(),
            None => Err(Failure::error(
                "reading data: the activation handles no message",
            )),
        }
    }

    /// The role in words, to open a prompt with: who speaks, to what end, within what bounds.
    pub fn persona(&self) -> String {
        persona(&self.role)
    }
}

/// An action to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// The description it gives of itself; empty when it has none.
    pub description: String,
}

/// What is known when a [`Thinker`](crate::Thinker) chooses.
#[derive(Clone, Debug)]
pub struct Situation<C> {
    /// Which try of the choice this is.
    pub attempt: Attempt,
    /// The choosing role.
    pub role: Profile,
    /// The `config` of the role's `think` entry.
    pub config: C,
    /// How many choices were made in this activation before this one.
    pub round: u32,
    /// The role's actions, by index.
    pub candidates: Vec<Candidate>,
    /// The messages this activation handles, oldest first.
    pub news: Vec<Message>,
    /// What the actions chosen so far returned, oldest first.
    pub outputs: Vec<Message>,
}

impl<C> Situation<C> {
    /// The role in words, to open a prompt with.
    pub fn persona(&self) -> String {
        persona(&self.role)
    }
}

fn persona(role: &Profile) -> String {
    let mut text = format!("You are {}", role.name);
    if !role.profile.is_empty() && role.profile != role.name {
        text.push_str(&format!(", {}", role.profile));
    }
    text.push('.');
    for (lead, part) in [
        ("", &role.desc),
        ("Your goal: ", &role.goal),
        ("Your constraints: ", &role.constraints),
    ] {
        if !part.is_empty() {
            text.push_str(&format!(" {lead}{}", part.trim_end_matches('.')));
            text.push('.');
        }
    }
    text
}
