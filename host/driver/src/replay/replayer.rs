//! Repeats one recorded attempt without the outside world: whatever left the host or depends on time
//! is answered from the record, everything else from the state of that time. Nothing is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::{IllegalEvent, Stepper};
use strata_core::record::event::Event;
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::{CallOutcome, HostCall, HostCallKind};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::Digest;
use strata_core::record::turn::{CallDecision, ChangedTool};
use strata_core::record::work::{ActivationKey, CallKey};
use strata_services::gateway::{
    GUEST_REQUEST_QUEUE, GuardDecision, GuardedCall, GuestRequest, HostAnswer, HostError,
    HostErrorKind, PendingGuestRequest, ServerRequest, ToolRequest, WASI_CLOCK_START, name_about,
    question_about,
};
use strata_services::human::HumanQuestion;
use strata_services::mcp::OfferedTool;
use strata_services::models::config::ModelNames;
use strata_services::models::{self, ModelCaller};
use strata_services::outbound::{OutboundCall, OutboundContext, OutboundServices};
use strata_storage::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::nested_calls::ToolAccess;
use crate::{
    ActionFiles, AttemptRunner, HostServices, PreparedAttempt, action_budget_error,
    answer_from_environment, decode_random, decode_time, request_number,
};

/// Replays the recorded attempts of a team.
pub struct Replayer {
    stepper: Stepper,
    runner: AttemptRunner,
    /// The requests of guests.
    requests: mpsc::Receiver<PendingGuestRequest>,
    action_files: ActionFiles,
    /// Used only to identify calls.
    services: OutboundServices,
    files: RecordedFiles,
}

/// The files of the recorded run.
pub struct RecordedFiles {
    /// The content at each path that some action changed, before the first change.
    pub before: BTreeMap<String, PathContent>,
    /// Looks up stored contents.
    pub blobs: BlobLookup,
}

/// Returns the content with a digest, if it is stored.
pub type BlobLookup = Box<dyn Fn(&Digest) -> Result<Option<Arc<[u8]>>, StoreError>>;

/// What is recorded about an attempt that is replayed.
#[derive(Default)]
pub struct RecordedAttempt {
    /// The host calls it made.
    pub calls: Vec<HostCall>,
    /// Its changes to files.
    pub files: Vec<FileChange>,
    /// Whether it was suspended because the budget was exhausted.
    pub suspended: bool,
    /// For a turn: the called tools that were not any more what the model had been told.
    pub changed_tools: Vec<ChangedTool>,
    /// What was decided about the calls of tools that it made for the first time, by their numbers.
    pub nested: BTreeMap<u16, CallDecision>,
    /// How many calls of tools with each digest were made again so far.
    nested_again: BTreeMap<String, usize>,
}

/// The outcome of replaying an attempt.
pub enum ReplayOutcome {
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
    /// Returns which of these tools had changed.
    fn changed_among(&self, offered: &[OfferedTool]) -> Vec<ChangedTool> {
        let was_compared =
            |changed: &&ChangedTool| offered.iter().any(|tool| tool.call == changed.call);
        let changed = self.changed_tools.iter().filter(was_compared);
        changed.cloned().collect()
    }

    /// Removes and returns the next recorded call with this digest. Equal calls are numbered in the
    /// order in which they were made, and recorded in the order of their answers.
    fn take_next(&mut self, kind: HostCallKind, digest: &str) -> Option<HostCall> {
        take_numbered(&mut self.calls, kind, digest)
    }
}

/// Removes and returns the call with this digest that has the lowest number.
fn take_numbered(calls: &mut Vec<HostCall>, kind: HostCallKind, digest: &str) -> Option<HostCall> {
    let equal = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| call.kind == kind);
    let numbered =
        equal.filter_map(|(at, call)| Some((request_number(&call.request, digest)?, at)));
    numbered.min().map(|(_, at)| calls.remove(at))
}

impl Replayer {
    /// Starts in the state of the stepper. The models, the HTTP client and the external program of
    /// `services` are not reached.
    pub fn new(
        stepper: Stepper,
        services: HostServices,
        models: Option<ModelNames>,
        files: RecordedFiles,
    ) -> Self {
        let (sender, requests) = mpsc::channel(GUEST_REQUEST_QUEUE);
        Self {
            stepper,
            runner: AttemptRunner::new(&services, sender),
            requests,
            action_files: ActionFiles::new(services.directories),
            services: OutboundServices {
                http: services.http,
                models: None,
                model_names: models,
                mcp: None,
            },
            files,
        }
    }

    /// Returns the state that the replay has reached.
    pub fn stepper(&self) -> &Stepper {
        &self.stepper
    }

    /// Applies a recorded event.
    pub fn apply(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        self.stepper.apply(event)
    }

    /// Replays an attempt in the state just before its recorded end. Afterwards `recorded` has the
    /// calls that the attempt did not make.
    pub async fn run(
        &mut self,
        call: Invocation,
        recorded: &mut RecordedAttempt,
    ) -> Result<ReplayOutcome, StoreError> {
        let key = call.key();
        let view = self
            .action_files
            .view(self.files_seen_before(key.activation(), &recorded.files));
        let PreparedAttempt { mut end, .. } = self.runner.prepare(&call, &self.stepper, view);
        loop {
            tokio::select! {
                biased;
                Some(request) = self.requests.recv() => {
                    if let Some(divergence) = self.answer(request, recorded)? {
                        return Ok(divergence);
                    }
                }
                ended = &mut end => {
                    let event = self.stepper.call_ended_event(key, ended.result);
                    let files = ended.files.changes;
                    return Ok(event.map_or(ReplayOutcome::StateMismatch, |event| ReplayOutcome::Ended(Box::new(event), files)));
                }
            }
        }
    }

    /// Returns the contents at the paths that actions changed, before this attempt changed them.
    fn files_seen_before(
        &self,
        activation: ActivationKey,
        changed: &[FileChange],
    ) -> BTreeMap<String, PathContent> {
        let env = self.stepper.env();
        let mut seen = self.files.before.clone();
        seen.extend(env.files.intended.clone());
        seen.extend(env.files_seen_by(activation));
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
        request: PendingGuestRequest,
        known: &mut RecordedAttempt,
    ) -> Result<Option<ReplayOutcome>, StoreError> {
        let PendingGuestRequest {
            attempt,
            request,
            about,
            reply,
            ..
        } = request;
        let about = about.as_deref();
        let (call, recorded) = (attempt.call, &mut known.calls);
        let answer = match request {
            GuestRequest::CurrentTime => {
                let now = name_about(about, "");
                return Ok(answer_time(reply, &now, recorded));
            }
            GuestRequest::ClockStart => {
                let start = name_about(about, WASI_CLOCK_START);
                return Ok(answer_time(reply, &start, recorded));
            }
            GuestRequest::Random { length } => {
                let length = length.to_string();
                let length = name_about(about, &length);
                return Ok(answer_random(reply, &length, recorded));
            }
            GuestRequest::AskHuman(question) => {
                let question = question_about(about, question);
                return Ok(answer_human(reply, question, recorded));
            }
            GuestRequest::ListTools => HostAnswer::Tools(self.tool_access(call).descriptions()),
            GuestRequest::GuardedCalls(requests) => {
                let (plans, again) = (&known.nested, &known.nested_again);
                HostAnswer::GuardedCalls(
                    self.tool_access(call).guarded_then(&requests, plans, again),
                )
            }
            GuestRequest::CallTools(requests) => {
                return Ok(self.answer_tool_calls(call, &requests, reply, known));
            }
            GuestRequest::Outbound(request) => {
                let context = OutboundContext {
                    services: &self.services,
                    caller: ModelCaller::new(self.stepper.team().role(call.role), call.work),
                    plugin: None,
                    blobs: Blobs::new(),
                };
                let calls = request.into_calls(&context);
                return Ok(self.answer_batch((call, about), calls, reply, known));
            }
            GuestRequest::StoredFile(digest) => match (self.files.blobs)(&digest)? {
                None => return Ok(Some(ReplayOutcome::FileMissing)),
                bytes => HostAnswer::File(bytes),
            },
            // The state contains the lists of an attempt that is recorded.
            GuestRequest::Servers(ServerRequest::List { .. }) => {
                return Ok(Some(ReplayOutcome::Diverged {
                    kind: HostCallKind::Mcp,
                    request: "tools/list".into(),
                }));
            }
            GuestRequest::Servers(ServerRequest::Compare(offered)) => {
                HostAnswer::ChangedTools(known.changed_among(&offered))
            }
            GuestRequest::Environment(request) => {
                answer_from_environment(&mut self.stepper, call.activation(), request)
            }
        };
        // It is no error if the guest is gone.
        let _ = reply.send(answer);
        Ok(None)
    }

    fn tool_access(&self, call: CallKey) -> ToolAccess<'_> {
        let team = self.stepper.team();
        let plugin = self.runner.plugin(team.role(call.role), call);
        let plugin = plugin.map(|plugin| &**plugin);
        ToolAccess::new(&self.stepper, self.runner.tool_roles(), plugin, call)
    }

    /// Answers calls of tools. The calls themselves are attempts, which are repeated by themselves.
    fn answer_tool_calls(
        &self,
        caller: CallKey,
        requests: &[ToolRequest],
        reply: oneshot::Sender<HostAnswer>,
        known: &mut RecordedAttempt,
    ) -> Option<ReplayOutcome> {
        let mut answers = Vec::new();
        for request in requests {
            let access = self.tool_access(caller);
            let digest = match access.digest(request) {
                Ok(digest) => digest,
                Err(refusal) => {
                    answers.push(Err(refusal));
                    continue;
                }
            };
            let kind = HostCallKind::Tool;
            let number = access.number_then(&digest, &mut known.nested_again);
            let decided = number.and_then(|number| known.nested.get(&number));
            if decided.is_some_and(|decided| contradicts(&request.decision, decided)) {
                let request = format!("{digest}, about which the guard decides otherwise");
                return Some(ReplayOutcome::Diverged { kind, request });
            }
            answers.push(match take_numbered(&mut known.calls, kind, &digest) {
                Some(call) if call.outcome == CallOutcome::Answered => Ok(call.response),
                Some(call) => Err(recorded_error(&call)),
                None => {
                    let request = digest;
                    return Some(ReplayOutcome::Diverged { kind, request });
                }
            });
        }
        // It is no error if the guest is gone.
        let _ = reply.send(HostAnswer::Outbound(answers));
        None
    }

    /// Answers a batch of calls.
    fn answer_batch(
        &self,
        (caller, about): (CallKey, Option<&GuardedCall>),
        calls: Vec<Arc<dyn OutboundCall>>,
        reply: oneshot::Sender<HostAnswer>,
        recorded: &mut RecordedAttempt,
    ) -> Option<ReplayOutcome> {
        let mut found = Vec::new();
        for call in &calls {
            let digest = call.digest(self.stepper.env());
            let request = name_about(about, &digest).into_owned();
            let record = recorded.take_next(call.kind(), &request);
            found.push((call.kind(), request, record));
        }
        // A suspended attempt made no call after the one that suspended it.
        let broke_off = recorded.suspended && recorded.calls.is_empty();
        let mut answers = Vec::new();
        for (kind, request, record) in found {
            answers.push(match record {
                Some(call) if call.outcome == CallOutcome::Answered => Ok(call.response),
                Some(call) => Err(recorded_error(&call)),
                None => match self.unrecorded_refusal(caller, kind).filter(|_| !broke_off) {
                    Some(refusal) => Err(refusal),
                    None => return Some(ReplayOutcome::Diverged { kind, request }),
                },
            });
        }
        // It is no error if the guest is gone.
        let _ = reply.send(HostAnswer::Outbound(answers));
        None
    }

    /// Returns why an unrecorded call was refused, if it was: then it never left the host.
    fn unrecorded_refusal(
        &self,
        CallKey { role, work, .. }: CallKey,
        kind: HostCallKind,
    ) -> Option<HostError> {
        let (team, env) = (self.stepper.team(), self.stepper.env());
        match self.services.model_names {
            _ if kind != HostCallKind::Llm => None,
            None => Some(models::no_model_error()),
            // The state has the same budgets as then. If the budget of others had been exhausted,
            // the attempt would have been suspended.
            Some(_) => env
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

/// Returns whether a guard decides otherwise about a call than it did then. The host may have rejected
/// more calls than the guard.
fn contradicts(now: &GuardDecision, then: &CallDecision) -> bool {
    match (now, then) {
        (GuardDecision::Deny(reason), CallDecision::Reject(recorded)) => reason != recorded,
        (GuardDecision::Deny(_), _) | (GuardDecision::Ask, CallDecision::Make(_)) => true,
        (GuardDecision::Ask | GuardDecision::Allow, _) => false,
    }
}

/// Answers a request for random bytes with the recorded ones.
fn answer_random(
    reply: oneshot::Sender<HostAnswer>,
    request: &str,
    recorded: &mut Vec<HostCall>,
) -> Option<ReplayOutcome> {
    let answer = |call: HostCall| HostAnswer::Bytes(Ok(decode_random(&call)));
    answer_from_record(reply, HostCallKind::Random, request, recorded, answer)
}

/// Answers a request for the time with the recorded one.
fn answer_time(
    reply: oneshot::Sender<HostAnswer>,
    request: &str,
    recorded: &mut Vec<HostCall>,
) -> Option<ReplayOutcome> {
    let answer = |call: HostCall| HostAnswer::Time(decode_time(&call));
    answer_from_record(reply, HostCallKind::Clock, request, recorded, answer)
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
    serde_json::from_value(call.response.value()).unwrap_or_else(|_| {
        HostError::new(HostErrorKind::Upstream, "the recorded error cannot be read")
    })
}
