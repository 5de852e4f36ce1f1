//! People's answers: checked against the open requests, then recorded. `services::human` parses an
//! answer, and the core applies it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strata_base::clock::now_ms;
use strata_base::clock::rfc3339;
use strata_base::files::user;
use strata_base::text::excerpt::excerpt;
use strata_base::text::suggest::did_you_mean;
use strata_core::machine::stepper::may_have_had_request;
use strata_core::record::event::Event;
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{RequestId, RoleId};
use strata_core::record::questions::first_id;
use strata_core::state::environment::Environment;
use strata_core::text::is_invisible;
use strata_services::human::{self, InvalidQuestionOrAnswer};

use super::{DriverError, Journal};

/// The maximum length of the name of a person who answers, in characters.
const MAX_PERSON_CHARS: usize = 100;

/// An answer as it is given: a JSON document, or plain text if the question takes a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanReply {
    /// The request's id.
    pub request: String,
    /// The answer.
    pub text: String,
    /// The name of the person who answers, if it is known.
    #[serde(default)]
    pub person: Option<String>,
}

impl HumanReply {
    /// Returns an answer of the user who runs this process.
    pub fn from_user(request: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            request: request.into(),
            text: text.into(),
            person: user::name(),
        }
    }
}

/// A request that was answered, durably.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredRequest {
    /// The request's id.
    pub request: String,
    /// The role that asked.
    pub role: String,
}

/// Why an answer is not accepted. The request is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No request with this id is open.
    #[error("there is no open request `{request}`{}{}", list_open_requests(open), did_you_mean(request, open.iter().map(String::as_str)))]
    Unknown {
        /// The id.
        request: String,
        /// The open requests.
        open: Vec<String>,
    },
    /// The request is not open: it was answered already, or has not been asked yet.
    #[error(
        "request `{request}` is not open: it was answered already, or was not asked yet{}",
        list_open_requests(open)
    )]
    NotOpen {
        /// The id.
        request: String,
        /// The open requests.
        open: Vec<String>,
    },
    /// The request is not open, and another question is asked in its place.
    #[error(
        "request `{request}` is not open any more: it was answered, or its time was over, and another question is \
         asked in its place. Look at the question of `{instead}` before you answer it"
    )]
    OtherQuestion {
        /// The id.
        request: String,
        /// The request with the other question.
        instead: String,
    },
    /// Several answers were given for one request.
    #[error("request `{0}` is answered twice here; it takes one answer")]
    Duplicate(String),
    /// The request has expired.
    #[error("the time to answer request `{request}` was over at {end}; resume without an answer")]
    Expired {
        /// The id.
        request: String,
        /// When it expired.
        end: String,
    },
    /// The answer does not fit the question.
    #[error("this does not answer request `{request}`, which stays open: {why}")]
    Invalid {
        /// The id.
        request: String,
        /// What is wrong.
        why: InvalidQuestionOrAnswer,
    },
}

impl AnswerError {
    /// Returns the JSON pointer of the part of the answer that is not valid; empty if it is the whole
    /// answer.
    pub fn pointer(&self) -> &str {
        match self {
            Self::Invalid { why, .. } => why.pointer(),
            _ => "",
        }
    }

    /// Returns the id of the request that the answer was for.
    pub fn request(&self) -> &str {
        match self {
            Self::Unknown { request, .. }
            | Self::NotOpen { request, .. }
            | Self::OtherQuestion { request, .. }
            | Self::Duplicate(request)
            | Self::Expired { request, .. }
            | Self::Invalid { request, .. } => request,
        }
    }
}

fn list_open_requests(open: &[String]) -> String {
    const MAX_LISTED_IDS: usize = 10;
    let ids: Vec<String> = open
        .iter()
        .take(MAX_LISTED_IDS)
        .map(|id| format!("`{id}`"))
        .collect();
    match open.len().saturating_sub(MAX_LISTED_IDS) {
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
    /// One of them is not accepted, and therefore none is.
    #[error(transparent)]
    Refused(#[from] AnswerError),
    /// Nothing can be recorded.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// The answer to an open request.
#[derive(Clone, Debug)]
pub struct RequestResolution {
    /// The role that asked.
    pub role: RoleId,
    /// The request.
    pub request: RequestId,
    /// The answer.
    pub answer: HumanAnswer,
    /// The name of the person who answered, if it is known.
    pub person: Option<String>,
}

/// Checks answers against the open requests.
pub fn check_replies(
    env: &Environment,
    replies: &[HumanReply],
) -> Result<Vec<RequestResolution>, AnswerError> {
    let now_ms = now_ms();
    let mut verdicts: Vec<RequestResolution> = Vec::new();
    for HumanReply {
        request: id,
        text,
        person,
    } in replies
    {
        let Some((role, open)) = env.open_requests().find(|(_, open)| open.id.0 == *id) else {
            let (request, open) = (
                id.clone(),
                env.open_requests()
                    .map(|(_, open)| open.id.0.clone())
                    .collect(),
            );
            let place = |id: &RequestId| first_id(id).to_owned();
            let in_place = env
                .open_requests()
                .find(|(_, open)| place(&open.id) == place(&id.as_str().into()));
            if let Some((_, instead)) = in_place {
                return Err(AnswerError::OtherQuestion {
                    request,
                    instead: instead.id.0.clone(),
                });
            }
            let before = may_have_had_request(env, id);
            return Err(if before {
                AnswerError::NotOpen { request, open }
            } else {
                AnswerError::Unknown { request, open }
            });
        };
        if verdicts.iter().any(|known| known.request == open.id) {
            return Err(AnswerError::Duplicate(id.clone()));
        }
        if let Some(end) = open.expires_ms.filter(|_| open.is_expired(now_ms)) {
            return Err(AnswerError::Expired {
                request: id.clone(),
                end: rfc3339(end),
            });
        }
        let wrong = |why| AnswerError::Invalid {
            request: id.clone(),
            why,
        };
        verdicts.push(RequestResolution {
            role,
            request: open.id.clone(),
            answer: HumanAnswer::Given(human::parse_answer(open, text).map_err(wrong)?),
            person: person.as_deref().map(person_name),
        });
    }
    Ok(verdicts)
}

/// Returns the name of a person as it is recorded. Another process may send any text.
fn person_name(name: &str) -> String {
    excerpt(&name.replace(is_invisible, " "), MAX_PERSON_CHARS)
}

/// Returns the answers for all requests that have expired.
pub fn expired_requests(env: &Environment) -> Vec<RequestResolution> {
    let now_ms = now_ms();
    env.open_requests()
        .filter(|(_, open)| open.is_expired(now_ms))
        .map(|(role, open)| RequestResolution {
            role,
            request: open.id.clone(),
            answer: open.outcome_when_expired(),
            person: None,
        })
        .collect()
}

impl Journal {
    /// Records answers: all of them, or none. They are durable when this returns.
    pub async fn record_replies(
        &mut self,
        replies: &[HumanReply],
    ) -> Result<Vec<AnsweredRequest>, ReplyError> {
        let answered = self.stage_replies(replies)?;
        self.flush().await?;
        Ok(answered)
    }

    /// Records answers: all of them, or none. The next flush makes them durable.
    pub(super) fn stage_replies(
        &mut self,
        replies: &[HumanReply],
    ) -> Result<Vec<AnsweredRequest>, ReplyError> {
        let verdicts = check_replies(self.stepper().env(), replies)?;
        let team = self.stepper().team();
        let answered = replies
            .iter()
            .zip(&verdicts)
            .map(|(reply, resolution)| AnsweredRequest {
                request: reply.request.clone(),
                role: team.role(resolution.role).name.clone(),
            })
            .collect();
        self.resolve_requests(verdicts)?;
        Ok(answered)
    }

    /// Records answers; the next flush makes them durable.
    pub fn resolve_requests(
        &mut self,
        verdicts: Vec<RequestResolution>,
    ) -> Result<(), DriverError> {
        for RequestResolution {
            request,
            answer,
            person,
            ..
        } in verdicts
        {
            let answered = self
                .stepper()
                .request_answered_event(&request, answer, person);
            if let Some(event) = answered {
                self.stage(event)?;
            }
        }
        Ok(())
    }

    /// Makes a halted team continue, like a resume that changes nothing.
    pub fn resume(&mut self) -> Result<(), DriverError> {
        self.resolve_requests(expired_requests(self.env()))?;
        let (budget, calls) = (self.env().budget, self.env().call_policy);
        let mut resumed = self.stepper().run_resumed_event(budget, calls);
        if let Event::RunResumed(resumed) = &mut resumed {
            // The files of the team file may not have been read, and nothing is to change.
            resumed.rules = self.env().rules.clone();
        }
        self.stage(resumed)?;
        self.flush_blocking()
    }
}
