//! What the moderator and the players of a game of werewolf say to each other, as data of their messages. What they do
//! is in their actions.

use serde::{Deserialize, Serialize};

/// A question to players. Speeches carry it on to their hearers, who then choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What is to be done.
    pub step: Step,
    /// The hour, e.g. `Night 1`.
    pub when: String,
    /// What it is about, e.g. `who of you shall hang`.
    pub about: String,
    /// Who is asked; others who hear it keep silent.
    pub who: Vec<String>,
    /// Who can be chosen.
    pub choices: Vec<String>,
    /// Who hears what is said.
    pub hearers: Vec<String>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Say something.
    Speak,
    /// Choose somebody.
    Choose,
}

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ballot {
    /// Whom; none for nobody.
    pub choice: Option<String>,
}
