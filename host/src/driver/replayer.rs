//! Replays recorded attempts without the outside world: whatever left the host or depends on time
//! is answered from the record, everything else from the state of that time. Nothing is recorded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::{IllegalEvent, Stepper};
use strata_core::record::event::Event;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::{CallOutcome, HostCall, HostCallKind};
use strata_core::record::id::{Digest, RoleId};
use strata_core::record::request::HumanAnswer;
use tokio::sync::oneshot;

use super::budget_gate::{action_budget_error, no_model_error};
use super::call::OutboundCall;
use super::in_flight::CallBatch;
use super::request_sequence::request_number;
use super::{Driver, DriverError, HostServices, Journal};
use crate::gateway::{
    Allowance, GuestRequest, HostAnswer, HostError, HostErrorKind, PendingGuestRequest,
    WASI_CLOCK_START,
};
use crate::services::human::HumanQuestion;
use crate::services::models::config::ModelNames;
use crate::services::models::{ModelCall, ModelRequest};
use crate::storage::{Durability, FIRST_LINE, MemoryStore, SavedDefinition, StoreError};

/// Replays the recorded attempts of a team.
pub(crate) struct Replayer {
    driver: Driver,
    models: RecordedModels,
    files: RecordedFiles,
}

/// The files of the recorded run.
pub(crate) struct RecordedFiles {
    /// The content at each path that some action changed, before the first change.
    pub before: BTreeMap<String, PathContent>,
    /// Looks up stored contents.
    pub blobs: BlobLookup,
}

/// Returns the content with a digest, if it is stored.
pub(crate) type BlobLookup = Box<dyn Fn(&Digest) -> Result<Option<Arc<[u8]>>, StoreError>>;

/// What is recorded about an attempt that is replayed.
#[derive(Default)]
pub(crate) struct RecordedAttempt {
    /// The host calls it made.
    pub calls: Vec<HostCall>,
    /// Its changes to files.
    pub files: Vec<FileChange>,
    /// Whether it was suspended because the budget was exhausted.
    pub suspended: bool,
}

/// The language models of the recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedModels {
    /// The team had no models.
    None,
    /// The team had models with these names.
    Some(ModelNames),
}

/// The outcome of replaying an attempt.
pub(crate) enum ReplayOutcome {
    /// The attempt ended: the event that would have been recorded, and its changes to files.
    Ended(Box<Event>, Vec<FileChange>),
    /// The attempt asked a person, and no answer is recorded: the digest and the text of the
    /// question.
    AskedHuman { call: String, question: String },
    /// The attempt made a call that is not recorded.
    Diverged { kind: HostCallKind, request: String },
    /// The attempt read a file whose content is not stored any more.
    FileMissing,
    /// The state is not that of a running attempt.
    StateMismatch,
}

impl RecordedAttempt {
    /// Removes and returns the next recorded call with this digest. Equal calls are numbered in the
    /// order in which they were made, and recorded in the order of their answers.
    fn take_next(&mut self, kind: HostCallKind, digest: &str) -> Option<HostCall> {
        let equal = self
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.kind == kind);
        let numbered =
            equal.filter_map(|(at, call)| Some((request_number(&call.request, digest)?, at)));
        numbered.min().map(|(_, at)| self.calls.remove(at))
    }
}

impl Replayer {
    /// Starts in the state of the stepper. The models, the HTTP client and the bridge of
    /// `services` are not used.
    pub(crate) fn new(
        stepper: Stepper,
        services: HostServices,
        models: RecordedModels,
        files: RecordedFiles,
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
            driver: Driver::new(journal, services),
            models,
            files,
        }
    }

    pub(crate) fn stepper(&self) -> &Stepper {
        self.driver.journal.stepper()
    }

    /// Applies a recorded event.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        self.driver.journal.apply_recorded(event)
    }

    /// Replays an attempt in the state just before its recorded end. Afterwards `recorded` has the
    /// calls that the attempt did not make.
    pub(crate) async fn run(
        &mut self,
        call: Invocation,
        recorded: &mut RecordedAttempt,
    ) -> Result<ReplayOutcome, DriverError> {
        let (role, key) = (call.role, call.key());
        self.driver.replayed_files = Some(self.files_seen_before(role, &recorded.files));
        let (_, mut ending) = self.driver.prepare_attempt(call);
        loop {
            tokio::select! {
                biased;
                Some(question) = self.driver.guest_requests.recv() => {
                    if let Some(divergence) = self.answer(question, recorded)? {
                        return Ok(divergence);
                    }
                }
                ended = &mut ending => {
                    let event = self.stepper().call_ended_event(key, ended.result);
                    let files = ended.files.changes;
                    return Ok(event.map_or(ReplayOutcome::StateMismatch, |event| ReplayOutcome::Ended(Box::new(event), files)));
                }
            }
        }
    }

    /// Returns the contents at the paths that actions changed, before this attempt changed them.
    fn files_seen_before(
        &self,
        role: RoleId,
        changed: &[FileChange],
    ) -> BTreeMap<String, PathContent> {
        let env = self.stepper().env();
        let mut seen = self.files.before.clone();
        seen.extend(env.files.intended.clone());
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
        question: PendingGuestRequest,
        known: &mut RecordedAttempt,
    ) -> Result<Option<ReplayOutcome>, DriverError> {
        let PendingGuestRequest {
            attempt,
            request: ask,
            allowance,
            reply,
        } = question;
        let (role, recorded) = (attempt.call.role, &mut known.calls);
        match ask {
            GuestRequest::CurrentTime => {
                let kind = HostCallKind::Clock;
                Ok(answer_from_record(reply, kind, "", recorded, time_answer))
            }
            GuestRequest::ClockStart => {
                let (kind, request) = (HostCallKind::Clock, WASI_CLOCK_START);
                Ok(answer_from_record(
                    reply,
                    kind,
                    request,
                    recorded,
                    time_answer,
                ))
            }
            GuestRequest::Random { length } => {
                let (kind, request) = (HostCallKind::Random, length.to_string());
                Ok(answer_from_record(
                    reply,
                    kind,
                    &request,
                    recorded,
                    random_answer,
                ))
            }
            GuestRequest::AskHuman(question) => Ok(answer_human(reply, question, recorded)),
            GuestRequest::Complete(requests) => {
                let requests = requests
                    .into_iter()
                    .map(|request| OutboundCall::Model(self.model_call(role, request)));
                Ok(self.answer_batch(role, HostCallKind::Llm, requests.collect(), reply, known))
            }
            GuestRequest::Fetch(requests) => {
                let requests = requests.into_iter().map(OutboundCall::Http).collect();
                Ok(self.answer_batch(role, HostCallKind::Http, requests, reply, known))
            }
            GuestRequest::StoredFile(digest) => match (self.files.blobs)(&digest)? {
                None => Ok(Some(ReplayOutcome::FileMissing)),
                bytes => {
                    // It is no error if the guest is gone.
                    let _ = reply.send(HostAnswer::File(bytes));
                    Ok(None)
                }
            },
            ask => self
                .driver
                .answer_guest_request(PendingGuestRequest {
                    attempt,
                    request: ask,
                    allowance,
                    reply,
                })
                .map(|()| None),
        }
    }

    fn model_call(&self, role: RoleId, request: ModelRequest) -> ModelCall {
        let role = self.stepper().team().role(role);
        let names = match &self.models {
            RecordedModels::Some(names) => names,
            RecordedModels::None => &ModelNames::default(),
        };
        ModelCall::new(names, role.model.as_deref(), request)
    }

    /// Answers a batch of calls.
    fn answer_batch(
        &self,
        role: RoleId,
        kind: HostCallKind,
        calls: Vec<OutboundCall>,
        reply: oneshot::Sender<HostAnswer>,
        recorded: &mut RecordedAttempt,
    ) -> Option<ReplayOutcome> {
        let found = calls.into_iter().map(|call| {
            let request = call.digest(self.driver.journal.env());
            (recorded.take_next(kind, &request), request)
        });
        let found: Vec<(Option<HostCall>, String)> = found.collect();
        // A suspended attempt made no call after the one that suspended it.
        let broke_off = recorded.suspended && recorded.calls.is_empty();
        let mut answers = Vec::new();
        for (call, request) in found {
            answers.push(Some(match call {
                Some(call) if call.outcome == CallOutcome::Answered => Ok(call.response),
                Some(call) => Err(recorded_error(&call)),
                None => match self.unrecorded_refusal(role, kind).filter(|_| !broke_off) {
                    Some(refusal) => Err(refusal),
                    None => return Some(ReplayOutcome::Diverged { kind, request }),
                },
            }));
        }
        CallBatch {
            kind,
            answers,
            awaiting_budget: VecDeque::new(),
            allowance: Allowance::unlimited(),
            reply,
        }
        .answer();
        None
    }

    /// Returns why an unrecorded call was refused, if it was: then it never left the host.
    fn unrecorded_refusal(&self, role: RoleId, kind: HostCallKind) -> Option<HostError> {
        let stepper = self.stepper();
        let (team, env) = (stepper.team(), stepper.env());
        let work = env
            .role(role)
            .activation
            .as_ref()?
            .current_work(team.role(role))?;
        match self.models {
            _ if kind != HostCallKind::Llm => None,
            RecordedModels::None => Some(no_model_error()),
            // The state has the same budgets as then. If the budget of others had been exhausted,
            // the attempt would have been suspended.
            RecordedModels::Some(_) => env
                .is_action_budget_exhausted(team, role, work)
                .then(action_budget_error),
        }
    }
}

/// Answers a question to a human with the recorded answer, if there is one.
fn answer_human(
    reply: oneshot::Sender<HostAnswer>,
    question: HumanQuestion,
    recorded: &mut Vec<HostCall>,
) -> Option<ReplayOutcome> {
    let call = question.digest();
    let answer = |call: HostCall| {
        let answered = HumanAnswer::from_record(&call.response);
        HostAnswer::Human(answered.unwrap_or(HumanAnswer::Expired))
    };
    answer_from_record(reply, HostCallKind::Human, &call, recorded, answer)?;
    Some(ReplayOutcome::AskedHuman {
        call,
        question: question.text,
    })
}

fn random_answer(call: HostCall) -> HostAnswer {
    let value = call.response.value();
    let bytes = value.as_str().map(super::answer::decode_hex);
    HostAnswer::Bytes(Ok(bytes.unwrap_or_default()))
}

fn time_answer(call: HostCall) -> HostAnswer {
    HostAnswer::Time(call.response.value().as_f64().unwrap_or_default())
}

/// Answers from the record. Returns `ReplayOutcome::Diverged` if the call is not recorded.
fn answer_from_record(
    reply: oneshot::Sender<HostAnswer>,
    kind: HostCallKind,
    request: &str,
    recorded: &mut Vec<HostCall>,
    read: impl FnOnce(HostCall) -> HostAnswer,
) -> Option<ReplayOutcome> {
    match recorded
        .iter()
        .position(|call| call.kind == kind && call.request == request)
    {
        Some(at) => {
            // It is no error if the guest is gone.
            let _ = reply.send(read(recorded.remove(at)));
            None
        }
        None => Some(ReplayOutcome::Diverged {
            kind,
            request: request.into(),
        }),
    }
}

/// Returns the recorded error of a call.
fn recorded_error(call: &HostCall) -> HostError {
    let unreadable =
        || HostError::new(HostErrorKind::Upstream, "the recorded error cannot be read");
    serde_json::from_value(call.response.value()).unwrap_or_else(|_| unreadable())
}
