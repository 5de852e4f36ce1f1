//! Calls of tools as calls that leave the host.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use strata_base::files::sha256::Sha256;
use strata_core::record::asking_call::{AskingCall, AskingProgress, CallQuestion};
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::{CallOutcome, HostCallKind, Intent, LostAnswerPolicy};
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;
use strata_core::state::environment::Environment;

use super::call::{AskingCall as AskingOpenCall, CallEnd, CallLimits, OpenCall};
use super::call_span::{record_refusal, record_result, record_tool};
use super::config::{DEFAULT_MAX_TIMEOUT, DEFAULT_TIMEOUT, DoubtDefault};
use super::exchange::Reach;
use super::question::{
    KnownAnswers, declined, question_digest, read_question, read_round, responses,
};
use super::result::{ToolAnswer, error_record, result_record, unknown_answer};
use super::server::{CallClass, RunningServer, Server};
use super::servers::OfferedTool;
use super::session::{CallRound, ToolCall};
use super::tool::Tool;
use crate::gateway::{HostError, HostErrorKind};
use crate::outbound::{
    AskedByReceiver, OutboundCall, OutboundContext, OutboundResult, Preparation, ReadAnswer,
    RequestBatch, SendContext, summarize,
};
use crate::telemetry::{CallTrace, names};

/// How often a call is repeated because the server asks for it.
const MAX_REPETITIONS: u32 = 10;
/// The pause before a repetition that nobody was asked about, from the second one on.
const REPETITION_PAUSE: Duration = Duration::from_secs(1);

/// Calls of tools that are made at once.
#[derive(Clone, Debug, PartialEq)]
pub struct McpBatch(pub Vec<McpRequest>);

/// A call of a tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpRequest {
    /// The name of the server.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
    /// The arguments, an object.
    pub arguments: Json,
    /// On whose behalf it is made.
    pub caller: McpCaller,
}

/// On whose behalf a tool is called.
#[derive(Clone, Debug, PartialEq)]
pub enum McpCaller {
    /// An action calls it.
    Action,
    /// The model of a role calls it, and was told this schema of its arguments.
    Model(Json),
}

/// A call of a tool.
struct McpCall {
    request: McpRequest,
    server: Option<Arc<Server>>,
    /// What is known of the tool, once the server runs.
    prepared: OnceLock<Result<PreparedCall, HostError>>,
}

/// What is remembered of a call over its repetitions, also while people are asked.
#[derive(Default)]
struct CallMemory {
    repetitions: u32,
    /// What the next repetition is sent with.
    round: Option<CallRound>,
    /// The answers to questions that an older server asks within the call.
    known: KnownAnswers,
    /// The number of the call that the server still works on.
    parked: Option<u64>,
}

impl CallMemory {
    /// Returns what is remembered of a call whose questions were answered.
    fn read(asking_call: Option<&AskingCall>) -> Self {
        let Some(asking_call) = asking_call else {
            return Self::default();
        };
        let state = asking_call.state.value();
        let mut known: KnownAnswers = state["known"]
            .as_object()
            .map(|known| known.clone().into_iter().collect())
            .unwrap_or_default();
        let responses = responses(asking_call);
        let round = match asking_call.progress {
            AskingProgress::Ended => {
                let mut all = state["declined"].as_object().cloned().unwrap_or_default();
                all.extend(responses);
                Some(CallRound {
                    state: state["state"].as_str().map(str::to_owned),
                    responses: all,
                })
            }
            AskingProgress::Interrupted | AskingProgress::Open => {
                known.extend(responses);
                None
            }
        };
        Self {
            repetitions: state["repetitions"].as_u64().unwrap_or(0) as u32,
            round,
            known,
            parked: match asking_call.progress {
                AskingProgress::Open => state["parked"].as_u64(),
                AskingProgress::Ended | AskingProgress::Interrupted => None,
            },
        }
    }

    /// Returns it as it is recorded.
    fn to_state(&self) -> Json {
        let round = self.round.as_ref();
        Json::from(json!({
            "repetitions": self.repetitions,
            "state": round.and_then(|round| round.state.as_deref()),
            "declined": round.map(|round| &round.responses),
            "known": self.known,
            "parked": self.parked,
        }))
    }
}

/// Returns the result of a call whose server asks people.
fn asks(
    memory: &CallMemory,
    progress: AskingProgress,
    questions: Vec<CallQuestion>,
) -> OutboundResult {
    let error = HostError::new(HostErrorKind::Upstream, "people are asked");
    OutboundResult {
        asks: Some(Box::new(AskedByReceiver {
            state: memory.to_state(),
            progress,
            questions,
        })),
        ..OutboundResult::failed(error)
    }
}

/// What becomes of a call within which a server asks a person.
enum AskedWithin {
    /// It goes on, because the question was answered without a person.
    GoesOn(OpenCall),
    /// It has this result for now.
    Ends(OutboundResult),
}

/// How long a repetition of a call is waited with.
enum RepetitionPause {
    /// Not at all.
    None,
    /// `REPETITION_PAUSE`.
    Short,
}

/// What accompanies a call of a tool.
struct CallContext<'a> {
    /// The idempotency key, for a write.
    key: &'a str,
    asking_call: Option<&'a AskingCall>,
    trace: &'a CallTrace,
}

struct PreparedCall {
    running: Arc<RunningServer>,
    tool: Tool,
    class: CallClass,
}

impl RequestBatch for McpBatch {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        let bytes = |request: &McpRequest| {
            request.server.len() + request.tool.len() + request.arguments.as_str().len()
        };
        self.0.iter().map(bytes).sum()
    }

    fn into_calls(self: Box<Self>, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>> {
        let servers = context.services.mcp.as_ref();
        let call = |request: McpRequest| -> Arc<dyn OutboundCall> {
            let server = servers.and_then(|servers| servers.get(&request.server));
            Arc::new(McpCall {
                server: server.cloned(),
                request,
                prepared: OnceLock::new(),
            })
        };
        self.0.into_iter().map(call).collect()
    }
}

impl ReadAnswer for McpBatch {
    type Answer = ToolAnswer;

    fn read_answer(record: &Json) -> Result<ToolAnswer, String> {
        ToolAnswer::from_record(record)
    }

    fn answer_bytes(answer: &ToolAnswer) -> usize {
        answer.bytes()
    }
}

impl McpCall {
    fn describe(&self) -> String {
        format!("{}/{}", self.request.server, self.request.tool)
    }

    fn class(&self) -> Option<CallClass> {
        Some(self.prepared.get()?.as_ref().ok()?.class)
    }

    /// Starts the server if it does not run, and finds the tool.
    async fn find(&self) -> Result<PreparedCall, HostError> {
        let McpRequest { server, tool, .. } = &self.request;
        let Some(known) = &self.server else {
            let message = format!("there is no MCP server `{server}`");
            return Err(HostError::new(HostErrorKind::Invalid, message));
        };
        let running = known.running().await?;
        let tools = running.session.tools();
        let found = tools.iter().find(|found| found.name == *tool).cloned();
        let Some(found) = found else {
            let message = format!("the MCP server `{server}` has no tool `{tool}`");
            return Err(HostError::new(HostErrorKind::NotFound, message));
        };
        Ok(PreparedCall {
            class: known.class(&found),
            running,
            tool: found,
        })
    }

    /// Returns why the call of a model must not be made: it was told another schema.
    fn rejection(&self) -> Option<String> {
        let McpCaller::Model(schema) = &self.request.caller else {
            return None;
        };
        let told = OfferedTool {
            call: 0,
            server: self.request.server.clone(),
            tool: self.request.tool.clone(),
            input_schema: schema.clone(),
        };
        match self.prepared.get()? {
            Ok(prepared) => told.change(Some(&prepared.tool)),
            Err(error) if error.kind == HostErrorKind::NotFound => told.change(None),
            Err(_) => None,
        }
    }

    fn limits(&self) -> CallLimits {
        let config = self.server.as_ref().map(|server| &server.config);
        CallLimits {
            silence: config.map_or(DEFAULT_TIMEOUT, |config| config.timeout),
            total: config.map_or(DEFAULT_MAX_TIMEOUT, |config| config.max_timeout),
        }
    }

    /// Makes the call, with all repetitions that the server asks for.
    async fn make(&self, prepared: &PreparedCall, context: &CallContext<'_>) -> OutboundResult {
        let &CallContext {
            key,
            asking_call,
            trace,
        } = context;
        record_tool(trace, &self.request.tool, self.request.arguments.as_str());
        let is_write = prepared.class != CallClass::Read;
        let arguments = self.request.arguments.value();
        let headers = prepared.tool.headers_of(&arguments);
        let mut memory = CallMemory::read(asking_call);
        let mut going_on = None;
        if asking_call.is_some_and(|asking_call| asking_call.progress == AskingProgress::Open) {
            let parked = memory.parked.take();
            going_on = self.take_parked(parked, &memory);
            if going_on.is_none() {
                let error = HostError::new(HostErrorKind::Upstream, "the open call was given up");
                return self.lost(error, is_write);
            }
        }
        loop {
            let call = ToolCall {
                tool: &self.request.tool,
                arguments: &arguments,
                idempotency_key: Some(key).filter(|_| is_write),
                round: memory.round.as_ref(),
                known: &memory.known,
                headers: &headers,
                trace,
            };
            let end = match going_on.take() {
                Some(open) => open.wait(&memory.known).await,
                None => prepared.running.session.call(&call, self.limits()).await,
            };
            let result = match self.result_of(end, &mut memory, (is_write, trace)) {
                Ok(result) => result,
                Err(ended) => match *ended {
                    AskedWithin::GoesOn(open) => {
                        going_on = Some(open);
                        continue;
                    }
                    AskedWithin::Ends(result) => return result,
                },
            };
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                record_result(trace, &result);
                let record = result_record(result, prepared.tool.output_schema.as_ref());
                return OutboundResult::answered(record);
            }
            match self.next_round(result, &mut memory) {
                Ok(RepetitionPause::None) => {}
                Ok(RepetitionPause::Short) => tokio::time::sleep(REPETITION_PAUSE).await,
                Err(ended) => return *ended,
            }
        }
    }

    /// Returns what the server returned. If it returned nothing, the error is what becomes of the call.
    fn result_of(
        &self,
        end: CallEnd,
        memory: &mut CallMemory,
        (is_write, trace): (bool, &CallTrace),
    ) -> Result<Map<String, Value>, Box<AskedWithin>> {
        let ended = match end {
            CallEnd::Result(result) => return Ok(result),
            CallEnd::Asked(asking) => {
                return Err(Box::new(self.asked_within(asking, memory, is_write)));
            }
            CallEnd::Unexpected(method) => {
                let method = method.replace(strata_core::text::is_invisible, " ");
                self.lost(self.not_offered(&method), is_write)
            }
            CallEnd::Refused(error) => {
                record_refusal(trace, &error);
                OutboundResult::answered(error_record(&error))
            }
            CallEnd::Lost(lost) => {
                let message = format!(
                    "`{}`: the server is gone: {}",
                    self.describe(),
                    lost.message
                );
                let error = HostError::new(HostErrorKind::Upstream, message);
                self.lost(error, is_write && lost.reach == Reach::Unknown)
            }
            CallEnd::TimedOut(what) => {
                let message = format!("`{}`: {what}", self.describe());
                let error = HostError::new(HostErrorKind::Upstream, message)
                    .caused_by(FaultCause::TimeLimit);
                self.lost(error, is_write)
            }
        };
        Err(Box::new(AskedWithin::Ends(ended)))
    }

    /// Notes what the next repetition is sent with, after a result that asks for one. Fails with the result of
    /// the call if there is no repetition now.
    fn next_round(
        &self,
        mut result: Map<String, Value>,
        memory: &mut CallMemory,
    ) -> Result<RepetitionPause, Box<OutboundResult>> {
        if memory.repetitions == MAX_REPETITIONS {
            let what = format!("asked for more than {MAX_REPETITIONS} repetitions");
            return Err(Box::new(self.failed(&what)));
        }
        let requests = match result.remove("inputRequests") {
            Some(Value::Object(requests)) => requests,
            _ => Map::new(),
        };
        let McpRequest { server, tool, .. } = &self.request;
        let round = match read_round(server, tool, &requests) {
            Ok(round) => round,
            Err(what) => {
                return Err(Box::new(OutboundResult::failed(self.not_offered(&what))));
            }
        };
        let pause = if requests.is_empty() && memory.repetitions > 0 {
            RepetitionPause::Short
        } else {
            RepetitionPause::None
        };
        memory.repetitions += 1;
        let state = result.get("requestState").and_then(Value::as_str);
        memory.round = Some(CallRound {
            state: state.map(str::to_owned),
            responses: round.declined,
        });
        if round.questions.is_empty() {
            Ok(pause)
        } else {
            Err(Box::new(asks(
                memory,
                AskingProgress::Ended,
                round.questions,
            )))
        }
    }

    /// Handles that the server of an older revision asks a person within a call.
    fn asked_within(
        &self,
        asking: Box<AskingOpenCall>,
        memory: &mut CallMemory,
        is_write: bool,
    ) -> AskedWithin {
        let McpRequest { server, tool, .. } = &self.request;
        let params = &asking.params;
        let question = match read_question(server, tool, &question_digest(params), params) {
            Ok(Some(question)) => question,
            Ok(None) => return AskedWithin::GoesOn(asking.answer(&declined())),
            Err(what) => {
                return AskedWithin::Ends(self.lost(self.not_offered(&what), is_write));
            }
        };
        let progress = match &self.server {
            Some(server) => {
                memory.parked = Some(server.park(asking));
                AskingProgress::Open
            }
            None => AskingProgress::Interrupted,
        };
        AskedWithin::Ends(asks(memory, progress, vec![question]))
    }

    /// Takes the call that the server still works on, and answers its question.
    fn take_parked(&self, number: Option<u64>, memory: &CallMemory) -> Option<OpenCall> {
        let asking = self.server.as_ref()?.take_parked(number?)?;
        let response = memory.known.get(&question_digest(&asking.params))?;
        Some(asking.answer(response))
    }

    /// Returns the error of a call whose server asks for something that the client does not have.
    fn not_offered(&self, what: &str) -> HostError {
        let message = format!(
            "`{}`: the MCP server asks for {what}, which is not offered",
            self.describe()
        );
        HostError::new(HostErrorKind::Upstream, message)
    }

    /// Returns the result of a call that the server did not carry out.
    fn failed(&self, what: &str) -> OutboundResult {
        let message = format!("`{}`: the MCP server {what}", self.describe());
        OutboundResult::failed(HostError::new(HostErrorKind::Upstream, message))
    }

    /// Returns the result of a call without an answer.
    fn lost(&self, error: HostError, is_in_doubt: bool) -> OutboundResult {
        OutboundResult {
            outcome: if is_in_doubt {
                CallOutcome::Unknown
            } else {
                CallOutcome::Failed
            },
            ..OutboundResult::failed(error)
        }
    }

    fn doubt_default(&self) -> DoubtDefault {
        let server = self.server.as_ref();
        server.map_or(DoubtDefault::Stop, |server| server.config.in_doubt)
    }
}

impl OutboundCall for McpCall {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Mcp
    }

    fn digest(&self, _: &Environment) -> String {
        let mut sum = Sha256::new();
        let McpRequest {
            server,
            tool,
            arguments,
            ..
        } = &self.request;
        for part in [server, tool, arguments.as_str()] {
            // Each part is preceded by its length, so that different requests never have one digest.
            sum = sum.with((part.len() as u64).to_le_bytes()).with(part);
        }
        to_hex(&sum.finish())
    }

    fn summary(&self) -> String {
        summarize(&format!(
            "{} {}",
            self.describe(),
            self.request.arguments.as_str()
        ))
    }

    fn span_name(&self) -> Option<String> {
        Some(format!("{} {}", names::TOOLS_CALL, self.request.tool))
    }

    fn is_write(&self) -> bool {
        self.class() != Some(CallClass::Read)
    }

    fn intent(&self, request_name: &str) -> Option<Intent> {
        let if_answer_lost = match (self.class()?, self.doubt_default()) {
            (CallClass::Read, _) => return None,
            (CallClass::RepeatableWrite, _) | (CallClass::Write, DoubtDefault::Redo) => {
                LostAnswerPolicy::Repeat
            }
            (CallClass::Write, _) => LostAnswerPolicy::AskOperator,
        };
        Some(Intent {
            kind: self.kind(),
            request: request_name.to_owned(),
            description: self.describe(),
            if_answer_lost,
        })
    }

    fn prepare(self: Arc<Self>) -> Option<BoxFuture<'static, Preparation>> {
        Some(Box::pin(async move {
            let found = self.find().await;
            let _ = self.prepared.set(found);
            let server = self.server.as_ref();
            Preparation {
                notices: server
                    .map(|server| server.take_notices())
                    .unwrap_or_default(),
                rejection: self.rejection(),
            }
        }))
    }

    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult> {
        Box::pin(async move {
            let prepared = match self.prepared.get() {
                Some(Ok(prepared)) => prepared,
                Some(Err(error)) => return OutboundResult::failed(error.clone()),
                None => return OutboundResult::unsent(),
            };
            let making = CallContext {
                key: &context.idempotency_key,
                asking_call: context.asking_call.as_ref(),
                trace: &context.trace,
            };
            let mut result = self.make(prepared, &making).await;
            let is_in_doubt = result.outcome == CallOutcome::Unknown;
            match (self.doubt_default(), &self.request.caller) {
                (DoubtDefault::Redo, _) if is_in_doubt => {
                    result = match self.find().await {
                        Ok(again) => self.make(&again, &making).await,
                        Err(error) => self.lost(error, true),
                    };
                }
                (DoubtDefault::Unknown, McpCaller::Model(_)) if is_in_doubt => {
                    result = OutboundResult::answered(unknown_answer());
                }
                _ => {}
            }
            if let Ok(record) = &result.answer
                && let Err(error) = context.allowance.take(self.answer_bytes(record))
            {
                return OutboundResult {
                    answer: Err(error),
                    ..result
                };
            }
            result
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        ToolAnswer::from_record(response).map_or(0, |answer| answer.bytes())
    }
}
