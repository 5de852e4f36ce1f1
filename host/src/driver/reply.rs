//! What people reply: held against what is open, then recorded. What a reply has to look like is `services::human`'s,
//! what it does the core's.

use serde::{Deserialize, Serialize};
use strata_core::environment::Environment;
use strata_core::id::RoleId;
use strata_core::request::Answer;

use super::clock::now_ms;
use super::{DriverError, Journal};
use crate::narrator::rfc3339;
use crate::services::human::{self, Refusal};
use crate::suggest::meant;

/// An answer as it is given: a JSON document, or a text where a text answers the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The request's id.
    pub request: String,
    /// The answer.
    pub text: String,
}

/// A request that has its answer, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The request's id.
    pub request: String,
    /// Who asked.
    pub role: String,
}

/// Why an answer is not taken. What it was for stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing with this id is open.
    #[error("there is no open request `{request}`{}{}", known(open), meant(request, open.iter().map(String::as_str)))]
    Unknown {
        /// The id.
        request: String,
        /// What is open.
        open: Vec<String>,
    },
    /// It is not open: not any more, or not yet.
    #[error(
        "request `{request}` is not open: it was answered already, or was not asked yet{}",
        known(open)
    )]
    Before {
        /// The id.
        request: String,
        /// What is open.
        open: Vec<String>,
    },
    /// Several answers for one request were given at once.
    #[error("request `{0}` is answered twice here; it takes one answer")]
    Twice(String),
    /// It is too late.
    #[error("the time to answer request `{request}` was over at {end}; resume without an answer")]
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
        why: Refusal,
    },
}

fn known(open: &[String]) -> String {
    const NAMED: usize = 10;
    let ids: Vec<String> = open
        .iter()
        .take(NAMED)
        .map(|id| format!("`{id}`"))
        .collect();
    match open.len().saturating_sub(NAMED) {
        _ if ids.is_empty() => "; there are no open requests".into(),
        0 => format!("; open requests: {}", ids.join(", ")),
        more => format!(
            "; open requests: {} and {more} more, which `inspect` lists",
            ids.join(", ")
        ),
    }
}

/// Why answers were not recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// One of them is not taken, and so none is.
    #[error(transparent)]
    Refused(#[from] AnswerError),
    /// Nothing can be recorded.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// What becomes of a role's request.
pub(crate) type Verdict = (RoleId, Answer);

/// Holds answers against what is open.
pub(crate) fn judge(env: &Environment, given: &[Given]) -> Result<Vec<Verdict>, AnswerError> {
    let now_ms = now_ms();
    let mut verdicts: Vec<Verdict> = Vec::new();
    for Given { request: id, text } in given {
        let Some((role, open)) = env.requests().find(|(_, open)| open.id.0 == *id) else {
            let (request, open) = (
                id.clone(),
                env.requests().map(|(_, open)| open.id.0.clone()).collect(),
            );
            let before = env.may_have_asked(id);
            return Err(if before {
                AnswerError::Before { request, open }
            } else {
                AnswerError::Unknown { request, open }
            });
        };
        if verdicts.iter().any(|(known, _)| *known == role) {
            return Err(AnswerError::Twice(id.clone()));
        }
        if let Some(end) = open.expires_ms.filter(|_| open.is_over(now_ms)) {
            return Err(AnswerError::Over {
                request: id.clone(),
                end: rfc3339(end),
            });
        }
        let wrong = |why| AnswerError::Wrong {
            request: id.clone(),
            why,
        };
        verdicts.push((role, Answer::Given(human::read(open, text).map_err(wrong)?)));
    }
    Ok(verdicts)
}

/// The requests whose time is over.
pub(crate) fn lapsed(env: &Environment) -> Vec<Verdict> {
    let now_ms = now_ms();
    env.requests()
        .filter(|(_, open)| open.is_over(now_ms))
        .map(|(role, open)| (role, open.lapse()))
        .collect()
}

impl Journal {
    /// Records answers: all of them, or none. They are durable when this returns.
    pub fn reply(&mut self, given: &[Given]) -> Result<Vec<Answered>, ReplyError> {
        let verdicts = judge(self.stepper().env(), given)?;
        let role = |id: &RoleId| self.stepper().team().role(*id).name.clone();
        let answered = |(given, (id, _)): (&Given, &Verdict)| Answered {
            request: given.request.clone(),
            role: role(id),
        };
        let answered = given.iter().zip(&verdicts).map(answered).collect();
        self.settle(verdicts)?;
        self.flush()?;
        Ok(answered)
    }

    /// Lets requests have their answers, to be made durable by the next flush.
    pub(crate) fn settle(&mut self, verdicts: Vec<Verdict>) -> Result<(), DriverError> {
        for (role, answer) in verdicts {
            if let Some(event) = self.stepper().request_answered(role, answer) {
                self.stage(event)?;
            }
        }
        Ok(())
    }

    /// Lets a team that has halted go on, as a resume would that changes nothing.
    pub fn go_on(&mut self) -> Result<(), DriverError> {
        self.settle(lapsed(self.env()))?;
        let (budget, calls) = (self.env().budget, self.env().calls);
        self.stage(self.stepper().resumed(budget, calls))?;
        self.flush()
    }
}
