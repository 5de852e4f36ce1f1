//! `werewolf-player`: plays a game of werewolf. It speaks when it is asked to, and chooses after it
//! has heard the other players.
//!
//! It does not know the rules: the question says who is asked, who hears the answer and who can be
//! chosen. The character of a player is described in the team file.

mod choice;

use serde::{Deserialize, Serialize};
use strata_action::{Action, Context, Failure, Message, Output, action, llm, memory};
use werewolf::{Ask, Ballot, Step};

/// How many messages a player remembers: several days of a game of eight players.
const REMEMBERED: u32 = 60;

/// The player's `config` in the team file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model to ask; the team's model if it is `None`.
    pub model: Option<String>,
}

/// The answer of a player.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// A speech. Those who hear it choose next.
    Speech(Ask),
    /// A choice.
    Ballot(Ballot),
}

/// The action.
pub struct Play;

impl Action for Play {
    type Config = Config;
    type Data = Answer;

    const CONFIG_SCHEMA: Option<&'static str> = Some(include_str!("../config.schema.json"));
    const NEEDS: &'static [&'static str] = &["llm"];

    fn run(cx: &Context<Config>) -> Result<Output<Answer>, Failure> {
        let asked = cx
            .news
            .iter()
            .rev()
            .find_map(|message| message.parse::<Ask>().ok());
        let Some(ask) = asked.filter(|ask| ask.who.contains(&cx.role.name)) else {
            return Ok(Output::new("listens"));
        };
        let mut request = llm::Request::new(prompt(cx, &ask)).system(cx.persona());
        request.model.clone_from(&cx.config.model);
        let text = request.send()?.text.trim().to_owned();
        let mut output = Output::new(&text);
        match ask.step {
            Step::Speak => {
                output.to.clone_from(&ask.hearers);
                Ok(output.data(Answer::Speech(Ask {
                    step: Step::Choose,
                    ..ask
                })))
            }
            Step::Choose => {
                let choice = choice::parse_choice(&text, &ask.choices);
                // It has no recipient, so it goes to the role that watches it: the moderator, who
                // counts.
                Ok(output.data(Answer::Ballot(Ballot { choice })))
            }
        }
    }
}

action!(Play);

fn prompt(cx: &Context<Config>, ask: &Ask) -> String {
    let name = &cx.role.name;
    let (verb, task) = match ask.step {
        Step::Speak => (
            "speaks",
            format!(
                "Say to the others, in two sentences at most, what you think: {}?",
                ask.about
            ),
        ),
        Step::Choose => (
            "chooses",
            format!(
                "Choose {}: {}. Give your reason in one sentence, then end with the line `{} NAME`, or `{} nobody`.",
                ask.about,
                ask.choices.join(", "),
                choice::MARK,
                choice::MARK
            ),
        ),
    };
    let mut prompt = format!("{}: {name} {verb}.\n\n", ask.when);
    let remembered: Vec<Message> = memory::recent(REMEMBERED);
    for (title, messages) in [
        ("What you remember", &remembered),
        ("What you have just heard", &cx.news),
    ] {
        if !messages.is_empty() {
            let lines = messages
                .iter()
                .map(|message| format!("- {}: {}", message.sent_from, message.content));
            prompt.push_str(&format!(
                "{title}:\n{}\n\n",
                lines.collect::<Vec<_>>().join("\n")
            ));
        }
    }
    prompt + &task
}
