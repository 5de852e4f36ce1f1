//! Answers of people: held against what is open, then recorded. The team takes them up when it is resumed.

use std::path::Path;

use strata_core::environment::Environment;
use strata_core::id::RoleId;
use strata_core::request::Answer;

use super::resume::Opened;
use super::{LaunchError, save};
use crate::driver::{DriverError, Journal, OnLine, clock};
use crate::manifest::Overrides;
use crate::narrator::rfc3339;
use crate::services::human;

/// An answer as it is given: a JSON document, or a text where a text answers the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The request's id.
    pub request: String,
    /// The answer.
    pub text: String,
}

/// Why an answer is not taken. What it was for stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing with this id is open.
    #[error("there is no open request `{request}`{}", known(open))]
    Unknown {
        /// The id.
        request: String,
        /// What is open.
        open: Vec<String>,
    },
    /// It was answered before.
    #[error("request `{0}` was answered before; its first answer holds")]
    Answered(String),
    /// Several answers for one request were given at once.
    #[error("request `{0}` is answered twice here; it takes one answer")]
    Twice(String),
    /// It is too late.
    #[error("the time to answer request `{request}` was over at {end}; go on without an answer")]
    Over {
        /// The id.
        request: String,
        /// When it was over.
        end: String,
    },
    /// It does not answer the question.
    #[error("this does not answer request `{request}`, which stays open: {why}")]
    Wrong {
        /// The id.
        request: String,
        /// What is wrong.
        why: human::Refusal,
    },
}

fn known(open: &[String]) -> String {
    let ids: Vec<String> = open.iter().map(|id| format!("`{id}`")).collect();
    if ids.is_empty() { "; none is open".into() } else { format!("; open are {}", ids.join(", ")) }
}

/// What becomes of a role's request.
pub(super) type Reaction = (RoleId, Answer);

/// Records answers for a saved team: all of them, or none.
pub fn answer(path: &Path, given: &[Given], on_line: OnLine) -> Result<(), LaunchError> {
    let opened = Opened::open(path, None, &Overrides::default())?;
    let reactions = opened.judge(given)?;
    let (journal, _, definition) = opened.journal()?;
    let mut journal = journal.on_line(on_line);
    record(&mut journal, reactions)?;
    journal.flush()?;
    Ok(save(&mut journal, &definition)?)
}

impl Opened {
    /// Holds answers against what is open.
    pub(super) fn judge(&self, given: &[Given]) -> Result<Vec<Reaction>, LaunchError> {
        match judge(self.stepper.env(), given) {
            Err(AnswerError::Unknown { request, .. }) if self.was_answered(&request)? => {
                Err(AnswerError::Answered(request).into())
            }
            judged => Ok(judged?),
        }
    }
}

/// Holds answers against what is open.
pub(super) fn judge(env: &Environment, given: &[Given]) -> Result<Vec<Reaction>, AnswerError> {
    let now_ms = clock::now_ms();
    let mut reactions: Vec<Reaction> = Vec::new();
    for Given { request: id, text } in given {
        let found = env.requests().find(|(_, open)| open.id.0 == *id);
        let unknown = || AnswerError::Unknown {
            request: id.clone(),
            open: env.requests().map(|(_, open)| open.id.0.clone()).collect(),
        };
        let (role, open) = found.ok_or_else(unknown)?;
        if reactions.iter().any(|(known, _)| *known == role) {
            return Err(AnswerError::Twice(id.clone()));
        }
        if let Some(end) = open.expires_ms.filter(|_| open.is_over(now_ms)) {
            return Err(AnswerError::Over { request: id.clone(), end: rfc3339(end) });
        }
        let wrong = |why| AnswerError::Wrong { request: id.clone(), why };
        reactions.push((role, Answer::Given(human::read(open, text).map_err(wrong)?)));
    }
    Ok(reactions)
}

/// The requests whose time is over.
pub(super) fn lapsed(env: &Environment) -> Vec<Reaction> {
    let now_ms = clock::now_ms();
    env.requests().filter(|(_, open)| open.is_over(now_ms)).map(|(role, open)| (role, open.lapse())).collect()
}

/// Lets reactions happen, to be made durable by the next flush.
pub(super) fn record(journal: &mut Journal, reactions: Vec<Reaction>) -> Result<(), DriverError> {
    for (role, answer) in reactions {
        if let Some(event) = journal.stepper().request_answered(role, answer) {
            journal.stage(event)?;
        }
    }
    Ok(())
}
