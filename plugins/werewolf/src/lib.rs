//! The data of the messages between the moderator and the players of a game of werewolf. The
//! behaviour is in their actions.

use serde::{Deserialize, Serialize};

/// A question to players. A speech passes it on to those who hear it, who then choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What the asked players should do.
    pub step: Step,
    /// The phase of the game, e.g. `Night 1`.
    pub when: String,
    /// The subject, e.g. `who of you shall hang`.
    pub about: String,
    /// The players who are asked. Others who receive the question ignore it.
    pub who: Vec<String>,
    /// The players who can be chosen.
    pub choices: Vec<String>,
    /// The recipients of the speech.
    pub hearers: Vec<String>,
}

/// The step of a question: what the asked players should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Give a speech.
    Speak,
    /// Choose a player.
    Choose,
}

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ballot {
    /// The chosen player; `None` for nobody.
    pub choice: Option<String>,
}
