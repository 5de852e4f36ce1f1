//! A team as a tool: which run a call is about, what is asked meanwhile, and what the call returns.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequest, ErrorData,
    InputRequest, InputRequests, InputRequiredResult, Tool, ToolAnnotations,
};
use strata_base::files::user;
use strata_core::record::event::Status;
use strata_driver::telemetry::names;
use strata_driver::{AnswerError, HumanReply};
use strata_view::{RequestView, RunEnding};
use tracing::Span;

use super::Principal;
use super::arguments::{
    RunName, TeamArguments, idempotency_key, input_schema, invalid, output_schema,
};
use super::call_store::CallStore;
use super::client_call::{ClientCall, Elicitation, tool_name};
use super::idempotency::{KeyOwner, ScopedKey, claim};
use super::place::{Activity, Launch, RunResult};
use super::question::{ClientReply, form, read_reply, read_result};
use super::request_state::{RequestState, StateOwner, StateSigner};
use super::result::{ended, error, invalid_arguments};
use super::runs::{Attendance, TeamRuns};
use crate::launch::LaunchError;

/// The shortest time between two notifications about the progress of a call. A team may begin
/// thousands of actions in a second.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// How often the questions of an open call are asked again because their answers did not fit. A
/// client that never answers well would keep its call open for ever.
const MAX_WRONG_ANSWERS: usize = 20;

/// What is kept of calls: their idempotency keys, and the key by which states are signed.
pub(super) struct CallRecords {
    store: Arc<dyn CallStore>,
    signer: StateSigner,
}

impl CallRecords {
    /// Opens the records in a store.
    pub(super) fn open(store: Arc<dyn CallStore>) -> io::Result<Self> {
        Ok(Self {
            signer: StateSigner::open(store.as_ref())?,
            store,
        })
    }
}

/// A team that is offered as a tool.
pub(super) struct TeamTool {
    /// The name of the tool.
    name: String,
    runs: TeamRuns,
    records: Arc<CallRecords>,
}

/// The run that a call is about, and how it is begun.
struct Target {
    run: RunName,
    launch: Launch,
}

/// What was made of the replies to questions.
#[derive(Default)]
struct Replies {
    /// Whether the run can go on: an answer was recorded, or a request is not open any more.
    has_news: bool,
    /// Why answers were not accepted, by request.
    rejected: BTreeMap<String, String>,
    /// The requests that people declined to answer.
    declined: BTreeSet<String>,
}

impl TeamTool {
    /// Returns the tool for a team with this name.
    pub(super) fn new(team: &str, runs: TeamRuns, records: Arc<CallRecords>) -> Self {
        Self {
            name: tool_name(team),
            runs,
            records,
        }
    }

    /// Returns the name of the tool.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Interrupts what goes on although no call waits for it. Returns when it is saved.
    pub(super) async fn close(&self) {
        self.runs.close().await;
    }

    /// Carries out a call.
    pub(super) async fn call(
        &self,
        params: &CallToolRequestParams,
        call: &ClientCall<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = match TeamArguments::parse(params.arguments.as_ref()) {
            Ok(arguments) => arguments,
            Err(why) => return Ok(invalid_arguments(&why).into()),
        };
        let digest = arguments.digest();
        let owner = StateOwner {
            principal: &call.principal,
            tool: &self.name,
            arguments: &digest,
        };
        let mut replies = Replies::default();
        let target = match &params.request_state {
            Some(sealed) => {
                let state = self.records.signer.open_state(sealed, &owner)?;
                let target = self.continued_target(&state).await?;
                let responses = self.take_input_responses(&target.run, &state, params, call);
                replies = match responses.await {
                    Ok(replies) => replies,
                    Err(why) => return Ok(error(why).into()),
                };
                let launch = if replies.has_news || !replies.needs_person() {
                    Launch::Reattach
                } else {
                    Launch::Look
                };
                Target { launch, ..target }
            }
            None if params.input_responses.is_some() => {
                return Err(invalid("there are `inputResponses`, but no `requestState`"));
            }
            None => match self.target(&arguments, &digest, call).await? {
                Ok(target) => target,
                Err(why) => return Ok(error(why).into()),
            },
        };
        Span::current().record(names::CONVERSATION_ID, target.run.as_str());
        self.run_and_ask(target, replies, call, &owner).await
    }

    /// Returns the run that a new call is about. The inner error is a result for the client.
    async fn target(
        &self,
        arguments: &TeamArguments,
        digest: &str,
        call: &ClientCall<'_>,
    ) -> Result<Result<Target, String>, ErrorData> {
        let named = match &arguments.run {
            None => None,
            Some(text) => match self.runs.find(text).await {
                Some(run) => Some(run),
                None => return Ok(Err(format!("there is no run `{}`", quote(text)))),
            },
        };
        let start = || Launch::New {
            idea: arguments.idea.clone(),
        };
        let run = named.clone().unwrap_or_else(|| self.runs.new_name());
        let first_launch = if named.is_some() {
            Launch::Resume
        } else {
            start()
        };
        let Some(key) = idempotency_key(call.meta())? else {
            return Ok(Ok(Target {
                run,
                launch: first_launch,
            }));
        };
        let claimed = self.claim(key, digest, run, &call.principal).await;
        Ok(match claimed {
            Ok(KeyOwner::New(run)) => Ok(Target {
                run,
                launch: first_launch,
            }),
            Ok(KeyOwner::Known(run)) => {
                // The process may have been killed before it created the run.
                let launch = if self.runs.exists(&run).await {
                    Launch::Reattach
                } else {
                    start()
                };
                Ok(Target { run, launch })
            }
            Ok(KeyOwner::OtherArguments) => {
                return Err(invalid("the idempotency key was used with other arguments"));
            }
            Err(why) => Err(format!("the idempotency key cannot be recorded: {why}")),
        })
    }

    /// Returns which run belongs to a key.
    async fn claim(
        &self,
        key: String,
        digest: &str,
        run: RunName,
        principal: &Principal,
    ) -> io::Result<KeyOwner> {
        let (store, principal) = (Arc::clone(&self.records.store), principal.clone());
        let (tool, digest) = (self.name.clone(), digest.to_owned());
        let claimed = tokio::task::spawn_blocking(move || {
            let key = ScopedKey {
                principal: &principal,
                tool: &tool,
                key: &key,
            };
            claim(store.as_ref(), &key, &digest, run)
        });
        claimed
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Returns the run that a state belongs to.
    async fn continued_target(&self, state: &RequestState) -> Result<Target, ErrorData> {
        let unknown = || invalid("the run of the `requestState` does not exist");
        let run = RunName::parse(&state.run).ok_or_else(unknown)?;
        if !self.runs.exists(&run).await {
            return Err(unknown());
        }
        Ok(Target {
            run,
            launch: Launch::Reattach,
        })
    }

    /// Waits for a run and asks what it asks, until it ends or the client has to be asked.
    async fn run_and_ask(
        &self,
        target: Target,
        mut replies: Replies,
        call: &ClientCall<'_>,
        owner: &StateOwner<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Target { run, mut launch } = target;
        let mut rounds = 0;
        loop {
            let Some(result) = self.wait_for(&run, launch, call).await else {
                return Ok(error(format!(
                    "the call was cancelled; the run `{}` is saved",
                    run.as_str()
                ))
                .into());
            };
            let ending = match result {
                Ok(ending) => ending,
                Err(why) => {
                    let text = format!("the run `{}` cannot go on: {why}", run.as_str());
                    return Ok(error(text).into());
                }
            };
            let requests = requests_to_ask(&ending, &replies);
            if requests.is_empty() {
                return Ok(ended(&self.name, &run, &ending).into());
            }
            match call.elicitation {
                Elicitation::None => return Ok(ended(&self.name, &run, &ending).into()),
                Elicitation::InputRequired => {
                    return Ok(self.input_required(&run, &requests, &replies, owner).into());
                }
                Elicitation::WithinCall if rounds == MAX_WRONG_ANSWERS => {
                    return Ok(ended(&self.name, &run, &ending).into());
                }
                Elicitation::WithinCall => {
                    match self.ask_within_call(&run, &requests, &replies, call).await {
                        AskOutcome::Replies(mut new_replies) => {
                            rounds += usize::from(!new_replies.has_news);
                            new_replies.declined.append(&mut replies.declined);
                            replies = new_replies;
                        }
                        AskOutcome::Stopped(why) => {
                            if call.is_cancelled() {
                                self.runs.interrupt(&run).await;
                            }
                            let mut result: CallToolResult = ended(&self.name, &run, &ending);
                            result
                                .content
                                .insert(0, rmcp::model::ContentBlock::text(why));
                            return Ok(result.into());
                        }
                    }
                }
            }
            launch = if replies.has_news {
                Launch::Reattach
            } else {
                Launch::Look
            };
        }
    }

    /// Waits until a run ends or rests, and reports its progress. Returns `None` if the call was
    /// cancelled: the run is then interrupted, unless another call waits for it.
    async fn wait_for(
        &self,
        run: &RunName,
        launch: Launch,
        call: &ClientCall<'_>,
    ) -> Option<RunResult> {
        let mut attendance = tokio::select! {
            biased;
            () = call.cancelled() => return None,
            attendance = self.runs.attend(run, launch, call.cancellation()) => attendance,
        };
        let ended = attendance.ended();
        let overdue = call.overdue();
        tokio::pin!(ended, overdue);
        let mut notes = call.wants_progress();
        loop {
            tokio::select! {
                biased;
                () = call.cancelled() => return None,
                changed = attendance.activity.changed(), if notes => {
                    notes = changed.is_ok();
                }
                result = &mut ended => return Some(result),
                () = &mut overdue => return None,
            }
            let activity = attendance.activity.borrow_and_update().clone();
            if notes {
                report_progress(call, run, &activity).await;
                pause(&attendance, call).await;
            }
        }
    }

    /// Returns the result that asks the client for input.
    fn input_required(
        &self,
        run: &RunName,
        open_requests: &[&RequestView],
        replies: &Replies,
        owner: &StateOwner<'_>,
    ) -> InputRequiredResult {
        let mut requests = InputRequests::new();
        for request in open_requests {
            let rejected = replies.rejected.get(&request.id).map(String::as_str);
            let elicitation = ElicitRequest::new(form(request, run.as_str(), rejected));
            requests.insert(request.id.clone(), InputRequest::Elicitation(elicitation));
        }
        let state = RequestState {
            run: run.as_str().to_owned(),
            asked: requests.keys().cloned().collect(),
            declined: replies.declined.clone(),
        };
        let sealed = self.records.signer.seal(&state, owner);
        InputRequiredResult::new(Some(requests), Some(sealed))
    }

    /// Records what the client sent in reply to the questions of a state. The error is a result for
    /// the client.
    async fn take_input_responses(
        &self,
        run: &RunName,
        state: &RequestState,
        params: &CallToolRequestParams,
        call: &ClientCall<'_>,
    ) -> Result<Replies, String> {
        let mut replies = Replies {
            declined: state.declined.clone(),
            ..Replies::default()
        };
        let Some(responses) = &params.input_responses else {
            return Ok(replies);
        };
        // What is asked at present decides what a reply means.
        let Some(result) = self.wait_for(run, Launch::Look, call).await else {
            return Err("the call was cancelled".into());
        };
        let ending = result?;
        for id in &state.asked {
            let open = ending.requests.requests.iter();
            let open = open.into_iter().find(|request| request.id == *id);
            match (open, responses.get(id)) {
                (Some(request), Some(response)) => {
                    let reply = read_reply(request, response);
                    self.take_reply(run, request, reply, &call.principal, &mut replies)
                        .await?;
                }
                // Somebody else has answered.
                (None, _) => replies.has_news = true,
                (Some(_), None) => {}
            }
        }
        Ok(replies)
    }

    /// Records a reply. The error is one of the storage.
    async fn take_reply(
        &self,
        run: &RunName,
        request: &RequestView,
        reply: ClientReply,
        principal: &Principal,
        replies: &mut Replies,
    ) -> Result<(), String> {
        let text = match reply {
            ClientReply::Answer(text) => text,
            ClientReply::LeftOpen => {
                replies.declined.insert(request.id.clone());
                return Ok(());
            }
            ClientReply::Invalid(why) => {
                replies.rejected.insert(request.id.clone(), why);
                return Ok(());
            }
        };
        let answer = HumanReply {
            request: request.id.clone(),
            text,
            person: person(principal),
        };
        match self.runs.answer(run, answer).await {
            Ok(()) => replies.has_news = true,
            Err(LaunchError::Answer(AnswerError::Invalid { why, .. })) => {
                replies.rejected.insert(request.id.clone(), why.to_string());
            }
            // It was answered by somebody else, or its time is over.
            Err(LaunchError::Answer(_)) => replies.has_news = true,
            Err(why) => return Err(format!("the answer cannot be recorded: {why}")),
        }
        Ok(())
    }

    /// Asks the client within the open call.
    async fn ask_within_call(
        &self,
        run: &RunName,
        requests: &[&RequestView],
        replies: &Replies,
        call: &ClientCall<'_>,
    ) -> AskOutcome {
        let questions = requests.iter().map(|request| {
            let rejected = replies.rejected.get(&request.id).map(String::as_str);
            call.ask(form(request, run.as_str(), rejected))
        });
        let results = join_all(questions).await;
        let mut new_replies = Replies::default();
        for (request, result) in requests.iter().zip(results) {
            let reply = match result {
                Ok(result) => read_result(request, result),
                Err(why) => return AskOutcome::Stopped(why),
            };
            let recorded = self
                .take_reply(run, request, reply, &call.principal, &mut new_replies)
                .await;
            if let Err(why) = recorded {
                return AskOutcome::Stopped(why);
            }
        }
        AskOutcome::Replies(new_replies)
    }
}

/// What came of asking the client within its call.
enum AskOutcome {
    Replies(Replies),
    /// It cannot be asked, for this reason.
    Stopped(String),
}

impl Replies {
    /// Returns whether what came in has to be put right, or leaves something open.
    fn needs_person(&self) -> bool {
        !self.rejected.is_empty() || !self.declined.is_empty()
    }
}

/// Returns the open requests of a run that waits, without those that people declined to answer.
fn requests_to_ask<'a>(ending: &'a RunEnding, replies: &Replies) -> Vec<&'a RequestView> {
    if ending.status != Status::Waiting {
        return Vec::new();
    }
    let open = ending.requests.requests.iter();
    let open = open.filter(|request| !replies.declined.contains(&request.id));
    open.collect()
}

/// Waits before the next notification, or until the run has ended or the call is cancelled.
async fn pause(attendance: &Attendance, call: &ClientCall<'_>) {
    tokio::select! {
        () = tokio::time::sleep(PROGRESS_INTERVAL) => {}
        _ = attendance.ended() => {}
        () = call.cancelled() => {}
    }
}

async fn report_progress(call: &ClientCall<'_>, run: &RunName, activity: &Activity) {
    let message = format!("run {}: {}", run.as_str(), activity.text);
    call.report_progress(activity.number, message).await;
}

/// Returns the name of the person who answers, as it is recorded.
fn person(principal: &Principal) -> Option<String> {
    if principal == &Principal::local() {
        user::name()
    } else {
        Some(principal.0.clone())
    }
}

/// Returns the start of a text that a client sent.
fn quote(text: &str) -> String {
    strata_base::text::excerpt::excerpt(text, 60)
}

/// Describes a team as a tool.
pub(super) fn describe(name: &str, desc: &str) -> Tool {
    let about = desc.trim();
    let about = if about.is_empty() {
        String::new()
    } else {
        format!(" {about}.")
    };
    let description = format!(
        "Runs the team of agents `{name}` on an idea and returns its last output.{about} A run that did not end \
         continues where it stopped if its name is given as `run`."
    );
    let mut tool = Tool::new(tool_name(name), description, input_schema());
    tool.title = Some(name.to_owned());
    tool.output_schema = Some(output_schema().into());
    tool.annotations = Some(ToolAnnotations::new().read_only(false));
    tool
}
