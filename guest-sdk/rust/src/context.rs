//! The parameters of the functions of actions, planners and thinkers.

use crate::{Attempt, Failure, Message, Profile, Task, json};
use serde::de::DeserializeOwned;

/// The context of a call. Everything but `attempt` is the same in every attempt of the same call.
#[derive(Clone, Debug)]
pub struct Context<C> {
    /// The attempt at the call.
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
    /// The outputs of earlier actions of this activation, oldest first.
    pub outputs: Vec<Message>,
    /// The planned task that this call executes, in `plan_and_act` roles.
    pub task: Option<Task>,
    /// The arguments of a tool call as JSON; `None` if the action is not called as a tool.
    pub raw_arguments: Option<String>,
}

impl<C> Context<C> {
    /// Returns the newest message: the last output of this activation if there is one, else the
    /// last of the news.
    pub fn newest(&self) -> Option<&Message> {
        self.outputs.last().or(self.news.last())
    }

    /// Returns the newest message with this label, looking at outputs first and then at news.
    pub fn labelled(&self, cause_by: &str) -> Option<&Message> {
        let mut newest_first = self.outputs.iter().rev().chain(self.news.iter().rev());
        newest_first.find(|message| message.cause_by == cause_by)
    }

    /// Returns the text of the newest output if there is one, else that of all news, separated by
    /// empty lines.
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

    /// Returns the structured content of the newest message.
    ///
    /// # Errors
    /// Fails if there is no message, if it has no data, or if the data is not a `T`.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match self.newest() {
            Some(message) => message.parse(),
            None => Err(Failure::error(
                "reading data: the activation handles no message",
            )),
        }
    }

    /// Parses the arguments of a tool call.
    ///
    /// # Errors
    /// Fails if the action is not called as a tool, or if the arguments are not a `T`.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        match &self.raw_arguments {
            Some(arguments) => json::parse("the arguments of the tool call", arguments),
            None => Err(Failure::error(
                "reading arguments: the action is not called as a tool",
            )),
        }
    }

    /// Returns a description of the role as the beginning of a prompt: its name, profile, goal and
    /// constraints.
    pub fn persona(&self) -> String {
        persona(&self.role)
    }

    /// Returns the planned task, the news and the outputs of earlier actions as one Markdown text
    /// for a model. The heading of each message contains its label and its sender.
    pub fn briefing(&self) -> String {
        let mut parts = Vec::new();
        if let Some(task) = &self.task {
            parts.push(format!("# Task\n\n{}", task.text.trim()));
        }
        for message in self.news.iter().chain(&self.outputs) {
            let sender = match message.sent_from.as_str() {
                "" => String::new(),
                name => format!(", by {name}"),
            };
            parts.push(format!(
                "# {}{sender}\n\n{}",
                message.cause_by,
                message.content.trim()
            ));
        }
        parts.join("\n\n")
    }
}

/// An action to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its description; empty if it has none.
    pub description: String,
}

/// The information for a choice of a [`Thinker`](crate::Thinker).
#[derive(Clone, Debug)]
pub struct Situation<C> {
    /// The attempt at the choice.
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
    /// The outputs of the actions chosen so far, oldest first.
    pub outputs: Vec<Message>,
}

impl<C> Situation<C> {
    /// Returns a description of the role as the beginning of a prompt.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Call;

    fn message(cause_by: &str, sent_from: &str, content: &str) -> Message {
        Message {
            sent_from: sent_from.to_owned(),
            ..Message::new(cause_by, content)
        }
    }

    fn context(call: Call) -> Context<()> {
        call.context().expect("a call without config")
    }

    #[test]
    fn a_briefing_contains_labels_and_senders() {
        let call = Call::new()
            .news("a game\n")
            .message(message("Design", "Bob", "one file"))
            .output(message("Code", "Eve", "<p>"));
        let expected =
            "# UserRequirement\n\na game\n\n# Design, by Bob\n\none file\n\n# Code, by Eve\n\n<p>";
        assert_eq!(context(call).briefing(), expected);
        let call = Call::new().task("paint").news("a house");
        assert_eq!(
            context(call).briefing(),
            "# Task\n\npaint\n\n# UserRequirement\n\na house"
        );
    }

    #[test]
    fn the_newest_message_is_that_of_the_last_output_or_news() {
        let two_news = Call::new().news("a").message(message("Design", "Bob", "b"));
        let cx = context(two_news.clone());
        assert_eq!(
            (cx.text(), cx.newest().map(|m| m.content.as_str())),
            ("a\n\nb".into(), Some("b"))
        );
        let cx = context(two_news.output(message("Design", "Eve", "c")));
        assert_eq!(
            (
                cx.text().as_str(),
                cx.labelled("Design").map(|m| m.sent_from.as_str())
            ),
            ("c", Some("Eve"))
        );
        assert_eq!(cx.labelled("Poem"), None);
    }

    #[test]
    fn data_is_read_from_the_newest_message() {
        let with = |data: &str| Message {
            data: Some(data.to_owned()),
            ..message("Count", "Bob", "")
        };
        let cx = context(
            Call::new()
                .message(with("{\"n\":1}"))
                .output(with("{\"n\":2}")),
        );
        let data: std::collections::BTreeMap<String, u32> = cx.data().expect("it fits");
        assert_eq!(data["n"], 2);
        let cases = [
            (
                Call::new(),
                "reading data: the activation handles no message",
            ),
            (
                Call::new().news("x"),
                "reading the data of message `UserRequirement`: it has none",
            ),
            (
                Call::new().message(with("1")),
                "reading the data of message `Count`: invalid type",
            ),
        ];
        for (call, expected) in cases {
            let failure = context(call).data::<Vec<u8>>().expect_err(expected);
            assert!(failure.message.starts_with(expected), "{}", failure.message);
        }
    }

    #[test]
    fn a_persona_contains_the_profile_of_the_role() {
        let profile = |parts: [&str; 5]| {
            let [name, profile, goal, constraints, desc] = parts.map(str::to_owned);
            Profile {
                name,
                profile,
                goal,
                constraints,
                desc,
            }
        };
        let cases = [
            (["Ann", "", "", "", ""], "You are Ann."),
            (
                ["Ann", "Architect", "", "", "Old."],
                "You are Ann, Architect. Old.",
            ),
            (
                ["Ann", "Ann", "win", "be fair.", ""],
                "You are Ann. Your goal: win. Your constraints: be fair.",
            ),
        ];
        for (parts, expected) in cases {
            assert_eq!(
                context(Call::new().role(profile(parts))).persona(),
                expected
            );
        }
    }
}
