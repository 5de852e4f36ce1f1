//! Chooses a role's next action with the team's model, if the role has no think component.
//!
//! The stepper decides when a choice is made and what it leads to.

use std::fmt::Write as _;
use std::sync::Arc;

use strata_core::json;
use strata_core::message::Message;
use strata_core::team::{Candidate, Profile};

use super::models::{excerpt, unfenced};
use super::{Reply, Request, Speaker, Turn};

/// The answer that ends the activation.
const NOTHING: i32 = -1;
/// The maximum number of messages and of outputs that the model receives, the newest ones. Older
/// ones rarely matter for the choice.
const MESSAGES: usize = 50;
/// The maximum number of characters of one message, so that the cost of a choice does not depend on
/// the size of the messages.
const MESSAGE_CHARS: usize = 4000;

/// Returns a request that asks which action `role` takes next, given the messages that it handles
/// and the outputs of its actions so far.
pub fn think_request(
    role: &Profile,
    candidates: &[Candidate],
    news: &[Arc<Message>],
    outputs: &[Arc<Message>],
) -> Request {
    let situation = situation(candidates, news, outputs);
    Request::new(vec![
        Turn::new(Speaker::System, character(role)),
        Turn::new(Speaker::User, situation),
    ])
}

fn character(role: &Profile) -> String {
    let mut text = format!("You are {}", role.name);
    let facts = [
        (", ", &role.profile),
        (". Your goal: ", &role.goal),
        (". You must respect: ", &role.constraints),
        (". ", &role.desc),
    ];
    for (before, fact) in facts {
        let fact = fact.trim().trim_end_matches('.');
        if !fact.is_empty() {
            let _ = write!(text, "{before}{fact}");
        }
    }
    text + ". You decide what you do next; you do not do it yet."
}

fn situation(candidates: &[Candidate], news: &[Arc<Message>], outputs: &[Arc<Message>]) -> String {
    let mut text = String::from("Which action do you take next?\n\nActions:\n");
    for (index, candidate) in candidates.iter().enumerate() {
        let _ = write!(text, "{index}. {}", candidate.name);
        if !candidate.description.is_empty() {
            let _ = write!(text, ": {}", candidate.description.trim());
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{NOTHING}. none: everything is done");
    section(&mut text, "Messages to handle", news);
    section(&mut text, "Done so far", outputs);
    let last = candidates.len() as i64 - 1;
    let _ = write!(
        text,
        "\nAnswer with one number from {NOTHING} to {last} and nothing else."
    );
    text
}

fn section(text: &mut String, title: &str, messages: &[Arc<Message>]) {
    let left_out = messages.len().saturating_sub(MESSAGES);
    let _ = writeln!(text, "\n{title}:");
    if messages.is_empty() {
        text.push_str("(nothing)\n");
    }
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} older ones left out)");
    }
    for message in &messages[left_out..] {
        let content = message.content.trim();
        let shown: String = content.chars().take(MESSAGE_CHARS).collect();
        let cut = if shown.len() < content.len() {
            " […]"
        } else {
            ""
        };
        let _ = writeln!(text, "- {}: {shown}{cut}", message.cause_by);
    }
}

/// Returns the choice in a reply: the index of an action, or -1. The error describes what was
/// answered instead.
pub fn parse_choice(reply: &Reply, candidates: usize) -> Result<i32, String> {
    let structured = reply.data.as_deref().and_then(in_json);
    let said = unfenced(&reply.text);
    let choice = structured
        .or_else(|| in_json(said))
        .or_else(|| only_number(said));
    let valid = choice
        .filter(|c| *c == i64::from(NOTHING) || usize::try_from(*c).is_ok_and(|c| c < candidates));
    valid.and_then(|c| i32::try_from(c).ok()).ok_or_else(|| {
        let last = candidates as i64 - 1;
        let answered = if reply.text.is_empty() { reply.data.as_deref().unwrap_or_default() } else { &reply.text };
        format!(
            "choosing the next action failed: model `{}` answered `{}`, not a number from {NOTHING} to {last}; make the \
             actions' descriptions clearer, or give the role a `think` component",
            reply.model,
            excerpt(answered)
        )
    })
}

/// Returns the number in a JSON document, which may be an object with a `choice`.
fn in_json(text: &str) -> Option<i64> {
    let document = json::read(text).ok()?;
    let choice = document.get("choice").unwrap_or(&document);
    choice
        .as_i64()
        .or_else(|| choice.as_str()?.trim().parse().ok())
}

/// Returns the only integer that stands alone in a text. Returns `None` if there are several
/// different ones.
fn only_number(text: &str) -> Option<i64> {
    let part_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '−');
    // A full stop is part of `1.5`, and ends the sentence in `take 1.`.
    let words = text.split(|c: char| !part_of_word(c) && !matches!(c, '.' | ','));
    let words = words
        .map(|w| w.trim_end_matches(['.', ',']))
        .filter(|w| w.contains(|c: char| c.is_numeric()));
    let mut found = None;
    for word in words {
        let number = word.replace('−', "-").parse().ok()?;
        if found.is_some_and(|f| f != number) {
            return None;
        }
        found = Some(number);
    }
    found
}

#[cfg(test)]
mod tests;
