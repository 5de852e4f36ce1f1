//! Attempts that were recorded, run again with the world left out: whatever leaves the host or differs from time to time
//! is answered from the record, the rest from the state as it was. Nothing is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use strata_core::effect::Invocation;
use strata_core::event::{Event, HostCall, HostCallKind, Outcome};
use strata_core::file::{Content, FileChange};
use strata_core::id::{Digest, RoleId};
use strata_core::request::Answer as Answered;
use strata_core::stepper::{Illegal, Stepper};
use tokio::sync::oneshot;

use super::afford::{no_model, own_budget_used_up};
use super::call::Outward;
use super::flights::Batch;
use super::occurrence::number;
use super::{Driver, DriverError, Equipment, Journal};
use crate::gateway::{Allowance, Answer, Ask, HostError, HostErrorKind, Question, START};
use crate::services::llm;
use crate::store::{Durability, FIRST_LINE, MemoryStore, SavedDefinition, StoreError};

/// A team whose recorded past is gone through once more.
pub(crate) struct Rerun {
    driver: Driver,
    models: ModelsThen,
    files: FilesThen,
}

/// The files that were there.
pub(crate) struct FilesThen {
    /// What lay at each path that some action changed, before the first did.
    pub before: BTreeMap<String, Content>,
    /// The bytes that are kept.
    pub blobs: Kept,
}

/// Finds the bytes with a digest.
pub(crate) type Kept = Box<dyn Fn(&Digest) -> Result<Option<Arc<[u8]>>, StoreError>>;

/// What is recorded of an attempt that is made again.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The calls it made.
    pub calls: Vec<HostCall>,
    /// What it did to files.
    pub files: Vec<FileChange>,
    /// Whether it ended because a call could not be paid.
    pub suspended: bool,
}

/// The language models that the team had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelsThen {
    /// None.
    None,
    /// Some, and perhaps one for requests that name none.
    Some(Option<String>),
}

/// How an attempt ended that was run again.
pub(crate) enum Again {
    /// By itself: what would have been recorded, and what it did to files.
    Ended(Box<Event>, Vec<FileChange>),
    /// It asked a person, and no answer is recorded: a digest of what it asked, and the question.
    Asked { call: String, question: String },
    /// It made a call that is not recorded.
    Strayed { kind: HostCallKind, request: String },
    /// It looked at a file whose bytes are not kept any more.
    FileGone,
    /// The state it belongs to is not that of a running attempt.
    Lost,
}

impl Recorded {
    /// What came of the next call with this request. Equal ones were numbered as they were made, and recorded as they
    /// were answered; at first all had one name, and were made one after the other.
    fn next(&mut self, kind: HostCallKind, digest: &str) -> Option<HostCall> {
        let equal = self
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.kind == kind);
        let numbered = equal.filter_map(|(at, call)| Some((number(&call.request, digest)?, at)));
        numbered.min().map(|(_, at)| self.calls.remove(at))
    }
}

impl Rerun {
    /// Begins in the state of the stepper. The equipment's models, http and outside are not used.
    pub(crate) fn new(
        stepper: Stepper,
        equipment: Equipment,
        models: ModelsThen,
        files: FilesThen,
    ) -> Self {
        // What is stored is never looked at.
        let nothing = SavedDefinition {
            name: String::new(),
            base: "/".into(),
            text: String::new(),
            components: vec![],
        };
        let store = Box::new(MemoryStore::new(stepper.env().clone(), nothing));
        let journal = Journal::new(stepper, store, FIRST_LINE, Durability::Process);
        Self {
            driver: Driver::new(journal, equipment),
            models,
            files,
        }
    }

    pub(crate) fn stepper(&self) -> &Stepper {
        self.driver.journal.stepper()
    }

    /// Lets a recorded event happen.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        self.driver.journal.repeat(event)
    }

    /// Runs an attempt again, in the state in which it ended but for that end. Left in `recorded` are the calls that it
    /// did not make.
    pub(crate) async fn run(
        &mut self,
        call: Invocation,
        recorded: &mut Recorded,
    ) -> Result<Again, DriverError> {
        let role = call.role;
        self.driver.then = Some(self.seen_by(role, &recorded.files));
        let (_, mut ending) = self.driver.attempt(call);
        loop {
            tokio::select! {
                biased;
                Some(question) = self.driver.questions.recv() => {
                    if let Some(strayed) = self.answer(question, recorded)? {
                        return Ok(strayed);
                    }
                }
                ended = &mut ending => {
                    let event = self.stepper().call_ended(role, ended.result);
                    let files = ended.files.0;
                    return Ok(event.map_or(Again::Lost, |event| Again::Ended(Box::new(event), files)));
                }
            }
        }
    }

    /// What lay then at the paths that actions changed, before this attempt did.
    fn seen_by(&self, role: RoleId, changed: &[FileChange]) -> BTreeMap<String, Content> {
        let env = self.stepper().env();
        let mut seen = self.files.before.clone();
        seen.extend(env.files.decided.clone());
        seen.extend(env.files_seen_by(role));
        seen.extend(
            changed
                .iter()
                .map(|change| (change.path.clone(), change.before.clone())),
        );
        seen
    }

    /// Answers a question, unless the record does not know the answer.
    fn answer(
        &mut self,
        question: Question,
        known: &mut Recorded,
    ) -> Result<Option<Again>, DriverError> {
        let Question {
            attempt,
            ask,
            allowance,
            reply,
        } = question;
        let (role, recorded) = (attempt.role, &mut known.calls);
        match ask {
            Ask::Now => Ok(told(reply, HostCallKind::Clock, "", recorded, time)),
            Ask::Start => Ok(told(reply, HostCallKind::Clock, START, recorded, time)),
            Ask::Random { length } => Ok(told(
                reply,
                HostCallKind::Random,
                &length.to_string(),
                recorded,
                |call| {
                    let bytes = call.response.value().as_str().map(super::answer::unhex);
                    Answer::Bytes(Ok(bytes.unwrap_or_default()))
                },
            )),
            Ask::Person(question) => {
                let call = question.digest();
                let strayed = told(reply, HostCallKind::Human, &call, recorded, |call| {
                    Answer::Person(Answered::recorded(&call.response).unwrap_or(Answered::Expired))
                });
                Ok(strayed.map(|_| Again::Asked {
                    call,
                    question: question.text,
                }))
            }
            Ask::Complete(requests) => {
                let requests = requests
                    .into_iter()
                    .map(|request| Outward::Complete(self.of_model(request)));
                Ok(self.batch((role, HostCallKind::Llm), requests.collect(), reply, known))
            }
            Ask::Fetch(requests) => {
                let requests = requests.into_iter().map(Outward::Fetch).collect();
                Ok(self.batch((role, HostCallKind::Http), requests, reply, known))
            }
            Ask::File(digest) => match (self.files.blobs)(&digest)? {
                None => Ok(Some(Again::FileGone)),
                bytes => {
                    // A guest that is gone does not listen any more; that is no error.
                    let _ = reply.send(Answer::File(bytes));
                    Ok(None)
                }
            },
            ask => self
                .driver
                .answer(Question {
                    attempt,
                    ask,
                    allowance,
                    reply,
                })
                .map(|()| None),
        }
    }

    fn of_model(&self, request: llm::Request) -> llm::Request {
        let ModelsThen::Some(default) = &self.models else {
            return request;
        };
        llm::Request {
            model: request.model.clone().or_else(|| default.clone()),
            ..request
        }
    }

    /// Answers calls that were asked for together.
    fn batch(
        &self,
        (role, kind): (RoleId, HostCallKind),
        calls: Vec<Outward>,
        reply: oneshot::Sender<Answer>,
        recorded: &mut Recorded,
    ) -> Option<Again> {
        let found = calls.into_iter().map(|call| {
            let request = call.digest(self.driver.journal.env());
            (recorded.next(kind, &request), request)
        });
        let found: Vec<(Option<HostCall>, String)> = found.collect();
        // After the call that broke it off, an attempt that was suspended made no other.
        let broke_off = recorded.suspended && recorded.calls.is_empty();
        let mut answers = Vec::new();
        for (call, request) in found {
            answers.push(Some(match call {
                Some(call) if call.outcome == Outcome::Answered => Ok(call.response),
                Some(call) => Err(refusal(&call)),
                None => match self.refused(role, kind).filter(|_| !broke_off) {
                    Some(refusal) => Err(refusal),
                    None => return Some(Again::Strayed { kind, request }),
                },
            }));
        }
        Batch {
            kind,
            answers,
            waiting: VecDeque::new(),
            allowance: Allowance::unlimited(),
            reply,
        }
        .answer();
        None
    }

    /// Why a call was refused that is not recorded, if it was: then it never left the host.
    fn refused(&self, role: RoleId, kind: HostCallKind) -> Option<HostError> {
        let stepper = self.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let work = env.role(role).activation.as_ref()?.work(team.role(role))?;
        match self.models {
            _ if kind != HostCallKind::Llm => None,
            ModelsThen::None => Some(no_model()),
            // What was used up then is used up now. That of others is of no account: there the attempt was suspended.
            ModelsThen::Some(_) => env
                .own_is_exhausted(team, (role, work))
                .then(own_budget_used_up),
        }
    }
}

fn time(call: HostCall) -> Answer {
    Answer::Time(call.response.value().as_f64().unwrap_or_default())
}

/// Answers with what is recorded, or not at all.
fn told(
    reply: oneshot::Sender<Answer>,
    kind: HostCallKind,
    request: &str,
    recorded: &mut Vec<HostCall>,
    read: impl FnOnce(HostCall) -> Answer,
) -> Option<Again> {
    match recorded
        .iter()
        .position(|call| call.kind == kind && call.request == request)
    {
        Some(at) => {
            // A guest that is gone does not listen any more; that is no error.
            let _ = reply.send(read(recorded.remove(at)));
            None
        }
        None => Some(Again::Strayed {
            kind,
            request: request.into(),
        }),
    }
}

/// The error that a call ended with.
fn refusal(call: &HostCall) -> HostError {
    let unreadable =
        || HostError::new(HostErrorKind::Upstream, "the recorded error cannot be read");
    serde_json::from_value(call.response.value()).unwrap_or_else(|_| unreadable())
}
