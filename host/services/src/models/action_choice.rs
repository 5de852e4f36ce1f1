//! Chooses a role's next action with the team's model, if the role has no think component.
//!
//! The stepper decides when a choice is made and what it leads to.

use std::fmt::Write as _;
use std::sync::Arc;

use strata_core::record::json;
use strata_core::record::message::Message;
use strata_core::team::{Candidate, RoleProfile};

use super::error_text::excerpt;
use super::reply_check::strip_code_fence;
use super::{ModelReply, ModelRequest};

/// The answer that ends the activation.
const NO_ACTION: i32 = -1;
/// The maximum number of messages and of outputs that the model receives, the newest ones. Older
/// ones rarely matter for the choice.
const MAX_MESSAGES: usize = 50;
/// The maximum number of characters of one message, so that the cost of a choice does not depend on
/// the size of the messages.
const MAX_MESSAGE_CHARS: usize = 4000;

/// Returns a request that asks which action `role` takes next, given the messages that it handles
/// and the outputs of its actions so far.
pub fn think_request(
    role: &RoleProfile,
    candidates: &[Candidate],
    news: &[Arc<Message>],
    outputs: &[Arc<Message>],
) -> ModelRequest {
    let situation = describe_situation(candidates, news, outputs);
    ModelRequest {
        system: describe_role(role) + ". You decide what you do next; you do not do it yet.",
        ..ModelRequest::ask(situation)
    }
}

/// Returns the texts of a role as one that tells a model who it is, without a full stop at the end.
pub fn describe_role(role: &RoleProfile) -> String {
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
    text
}

fn describe_situation(
    candidates: &[Candidate],
    news: &[Arc<Message>],
    outputs: &[Arc<Message>],
) -> String {
    let mut text = String::from("Which action do you take next?\n\nActions:\n");
    for (index, candidate) in candidates.iter().enumerate() {
        let _ = write!(text, "{index}. {}", candidate.name);
        if !candidate.description.is_empty() {
            let _ = write!(text, ": {}", candidate.description.trim());
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{NO_ACTION}. none: everything is done");
    write_section(&mut text, "Messages to handle", news);
    write_section(&mut text, "Done so far", outputs);
    let last = candidates.len() as i64 - 1;
    let _ = write!(
        text,
        "\nAnswer with one number from {NO_ACTION} to {last} and nothing else."
    );
    text
}

fn write_section(text: &mut String, title: &str, messages: &[Arc<Message>]) {
    let left_out = messages.len().saturating_sub(MAX_MESSAGES);
    let _ = writeln!(text, "\n{title}:");
    if messages.is_empty() {
        text.push_str("(nothing)\n");
    }
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} older ones left out)");
    }
    for message in &messages[left_out..] {
        let content = message.content.trim();
        let shown: String = content.chars().take(MAX_MESSAGE_CHARS).collect();
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
pub fn parse_choice(reply: &ModelReply, candidates: usize) -> Result<i32, String> {
    let structured = reply.data.as_deref().and_then(parse_json_choice);
    let reply_text = reply.text();
    let text = strip_code_fence(&reply_text);
    let choice = structured
        .or_else(|| parse_json_choice(text))
        .or_else(|| find_only_number(text));
    let valid = choice.filter(|c| {
        *c == i64::from(NO_ACTION) || usize::try_from(*c).is_ok_and(|c| c < candidates)
    });
    valid.and_then(|c| i32::try_from(c).ok()).ok_or_else(|| {
        let last = candidates as i64 - 1;
        let answered = if reply_text.is_empty() { reply.data.as_deref().unwrap_or_default() } else { &reply_text };
        format!(
            "choosing the next action failed: model `{}` answered `{}`, not a number from {NO_ACTION} to {last}; make the \
             actions' descriptions clearer, or give the role a `think` component",
            reply.model,
            excerpt(answered)
        )
    })
}

/// Returns the number in a JSON document, which may be an object with a `choice`.
fn parse_json_choice(text: &str) -> Option<i64> {
    let document = json::parse_untrusted(text).ok()?;
    let choice = document.get("choice").unwrap_or(&document);
    choice
        .as_i64()
        .or_else(|| choice.as_str()?.trim().parse().ok())
}

/// Returns the only integer that stands alone in a text. Returns `None` if there are several
/// different ones.
fn find_only_number(text: &str) -> Option<i64> {
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
