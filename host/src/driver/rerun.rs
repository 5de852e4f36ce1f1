//! Replays recorded attempts without the outside world: whatever left the host or depends on time
//! is answered from the record, everything else from the state of that time. Nothing is recorded.

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

/// Replays the recorded attempts of a team.
pub(crate) struct Rerun {
    driver: Driver,
    models: ModelsThen,
    files: FilesThen,
}

/// The files of the recorded run.
pub(crate) struct FilesThen {
    /// The content at each path that some action changed, before the first change.
    pub before: BTreeMap<String, Content>,
    /// Looks up stored contents.
    pub blobs: Kept,
}

/// Returns the content with a digest, if it is stored.
pub(crate) type Kept = Box<dyn Fn(&Digest) -> Result<Option<Arc<[u8]>>, StoreError>>;

/// What is recorded about an attempt that is replayed.
#[derive(Default)]
pub(crate) struct Recorded {
    /// The host calls it made.
    pub calls: Vec<HostCall>,
    /// Its changes to files.
    pub files: Vec<FileChange>,
    /// Whether it was suspended because the budget was exhausted.
    pub suspended: bool,
}

/// The language models of the recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelsThen {
    /// The team had no models.
    None,
    /// The team had models, with this default.
    Some(Option<String>),
}

/// The outcome of replaying an attempt.
pub(crate) enum Again {
    /// The attempt ended: the event that would have been recorded, and its changes to files.
    Ended(Box<Event>, Vec<FileChange>),
    /// The attempt asked a person, and no answer is recorded: the digest and the text of the
    /// question.
    Asked { call: String, question: String },
    /// The attempt made a call that is not recorded.
    Strayed { kind: HostCallKind, request: String },
    /// The attempt read a file whose content is not stored any more.
    FileGone,
    /// The state is not that of a running attempt.
    Lost,
}

impl Recorded {
    /// Removes and returns the next recorded call with this digest. Equal calls are numbered in the
    /// order in which they were made, and recorded in the order of their answers. Older records are
    /// not numbered; their calls were made one after another.
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
    /// Starts in the state of the stepper. The models, the HTTP client and the bridge of
    /// `equipment` are not used.
    pub(crate) fn new(
        stepper: Stepper,
        equipment: Equipment,
        models: ModelsThen,
        files: FilesThen,
    ) -> Self {
        // The definition is never read.
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

    /// Applies a recorded event.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        self.driver.journal.repeat(event)
    }

    /// Replays an attempt in the state just before its recorded end. Afterwards `recorded` has the
    /// calls that the attempt did not make.
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
                    let files = ended.files.changes;
                    return Ok(event.map_or(Again::Lost, |event| Again::Ended(Box::new(event), files)));
                }
            }
        }
    }

    /// Returns the contents at the paths that actions changed, before this attempt changed them.
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

    /// Answers a request of the guest. Returns an outcome if the record has no answer.
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
                Ok(self.batch(role, HostCallKind::Llm, requests.collect(), reply, known))
            }
            Ask::Fetch(requests) => {
                let requests = requests.into_iter().map(Outward::Fetch).collect();
                Ok(self.batch(role, HostCallKind::Http, requests, reply, known))
            }
            Ask::File(digest) => match (self.files.blobs)(&digest)? {
                None => Ok(Some(Again::FileGone)),
                bytes => {
                    // It is no error if the guest is gone.
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

    /// Answers a batch of calls.
    fn batch(
        &self,
        role: RoleId,
        kind: HostCallKind,
        calls: Vec<Outward>,
        reply: oneshot::Sender<Answer>,
        recorded: &mut Recorded,
    ) -> Option<Again> {
        let found = calls.into_iter().map(|call| {
            let request = call.digest(self.driver.journal.env());
            (recorded.next(kind, &request), request)
        });
        let found: Vec<(Option<HostCall>, String)> = found.collect();
        // A suspended attempt made no call after the one that suspended it.
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

    /// Returns why an unrecorded call was refused, if it was: then it never left the host.
    fn refused(&self, role: RoleId, kind: HostCallKind) -> Option<HostError> {
        let stepper = self.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let work = env.role(role).activation.as_ref()?.work(team.role(role))?;
        match self.models {
            _ if kind != HostCallKind::Llm => None,
            ModelsThen::None => Some(no_model()),
            // The state has the same budgets as then. If the budget of others had been exhausted,
            // the attempt would have been suspended.
            ModelsThen::Some(_) => env
                .own_is_exhausted(team, role, work)
                .then(own_budget_used_up),
        }
    }
}

fn time(call: HostCall) -> Answer {
    Answer::Time(call.response.value().as_f64().unwrap_or_default())
}

/// Answers from the record. Returns `Again::Strayed` if the call is not recorded.
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
            // It is no error if the guest is gone.
            let _ = reply.send(read(recorded.remove(at)));
            None
        }
        None => Some(Again::Strayed {
            kind,
            request: request.into(),
        }),
    }
}

/// Returns the recorded error of a call.
fn refusal(call: &HostCall) -> HostError {
    let unreadable =
        || HostError::new(HostErrorKind::Upstream, "the recorded error cannot be read");
    serde_json::from_value(call.response.value()).unwrap_or_else(|_| unreadable())
}
