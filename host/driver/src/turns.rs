//! The turns of roles whose model works in a loop with tools: what the model is sent, and what
//! follows from its reply.
//!
//! A turn is an attempt that the host makes itself. It asks the model in the same way as a guest
//! does, so the budget, retries, fallbacks and the record apply to it. When a turn is due, and which
//! calls of a reply can start, is decided by the core.

mod changed_tools;
mod conversation;
mod deferral;
pub(super) mod guard;
pub(super) mod host_tool;
mod images;
mod model_reply;
mod named_call;
mod outcome;
mod revision;
mod server_tool;
mod server_tools;
mod skill_program;
pub(super) mod skills;
mod summary;
mod turn_request;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::id::RoleId;
use strata_core::record::memory::{
    MemoryReplacement, MemoryRequest, PlannedReplacement, ReplacementMethod, WrittenSummary,
};
use strata_core::record::message::{Draft, Message};
use strata_core::record::money::Usd;
use strata_core::record::server_tool::ToolList;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{ActivationKey, CallResult};
use strata_core::state::activation::{Activation, ConversationMemory};
use strata_core::state::environment::Environment;
use strata_core::state::memory_plan::{ConversationSize, MemoryDecision, ReplacementReason};
use strata_core::team::{Role, Team};
use strata_services::gateway::{Gateway, GuestRequest, HostAnswer, ServerRequest};
use strata_services::models::{IfTooLong, ModelRequest};
use strata_services::tools::{HistoryUse, RoleMemory, ToolRole};

use super::model_attempt::{ask_model, reply_within};
use changed_tools::reject_changed_tools;
use conversation::{ConversationSource, History, text_tokens};
use guard::Guard;
use model_reply::{MESSAGE, needs_time, plan_reply};
use named_call::ReplyRules;
use summary::{PreparedSummary, summary_news, too_long};
use turn_request::request_frame;

pub(super) use images::{check_images, tells_model};
pub(super) use summary::component_summary;

pub(crate) use model_reply::{decide_call, input_schema};
pub use revision::{RevisedCalls, revised_calls};
pub(super) use server_tool::server_tool_attempt;
pub(super) use server_tools::{KnownTools, ToolRoles};

/// The turns of a team.
pub(super) struct Turns {
    roles: Arc<ToolRoles>,
}

/// A turn that can be made.
struct PreparedTurn {
    request: ModelRequest,
    length: LengthRule,
    team: Arc<Team>,
    role: RoleId,
    roles: Arc<ToolRoles>,
    settings: Arc<ToolRole>,
    number: u32,
    /// The tools that the model can call; `None` if those of servers are not listed yet.
    known: Option<Arc<KnownTools>>,
    /// Decides about the calls of the reply.
    guard: Option<Guard>,
}

/// What follows if a provider refuses a request as too long.
struct LengthRule {
    /// What is replaced then, if something can be.
    refused: Option<PlannedReplacement>,
    /// The estimated size of the request.
    tokens: u64,
    /// The largest parts of the request in words, if the conversation is bounded.
    largest: Option<String>,
}

impl Turns {
    /// Creates the turns of a team with these roles.
    pub(super) fn new(roles: Arc<ToolRoles>) -> Self {
        Self { roles }
    }

    /// Returns how much the model of a role is told of the result of a role that it calls, in bytes.
    pub(super) fn role_result_bytes(&self, role: RoleId) -> Option<u64> {
        let settings = self.roles.settings(role)?;
        Some(settings.role_result_bytes)
    }

    /// Returns an attempt at a turn. The guard decides about its calls; `result_bytes` returns how much the model is told of a result
    /// of a tool.
    pub(super) fn attempt(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        gateway: Gateway,
        (guard, result_bytes): (Option<Guard>, impl Fn(ToolRef) -> u64),
    ) -> BoxFuture<'static, Result<CallResult, Fault>> {
        let Some(open) = self.open_conversation(call, stepper) else {
            return no_settings();
        };
        let (activation, own_settings) = (open.activation, open.settings);
        let Some(tools) = open.role.tool_loop() else {
            return no_settings();
        };
        let lists = if own_settings.servers.is_empty() {
            Some(Arc::default())
        } else {
            activation.server_tools.clone()
        };
        let known = lists.and_then(|lists| self.roles.known(call.role, tools, lists));
        // Before they are listed, the tools of servers are not part of the size.
        let settings = known
            .as_ref()
            .map_or(&**own_settings, |known| &known.settings);
        let mut request = request_frame(open.role, settings, activation.turns.is_empty());
        let sent = open.source(call).sent(result_bytes);
        let turn = activation.turns.len() as u32;
        let size = sent.size(turn, &activation.memory, &request);
        let checked = check_size(
            settings,
            &activation.memory,
            activation.memory_request(),
            &size,
        );
        let length = LengthRule {
            refused: match checked {
                SizeCheck::Replace(result) => return Box::pin(async move { Ok(result) }),
                SizeCheck::TooLong { limit } => {
                    let fault = too_long(size.tokens, Some(limit), &sent.largest_parts(&request));
                    return Box::pin(async move { Err(fault) });
                }
                SizeCheck::Fits { if_refused } => if_refused,
            },
            tokens: size.tokens,
            largest: settings
                .memory
                .as_ref()
                .map(|_| sent.largest_parts(&request)),
        };
        request.messages = sent.into_messages();
        let turn = PreparedTurn {
            request,
            length,
            team: stepper.team().clone(),
            role: call.role,
            roles: Arc::clone(&self.roles),
            settings: own_settings.clone(),
            number: activation.turns.len() as u32,
            known: known.clone(),
            guard,
        };
        Box::pin(turn.take(gateway))
    }

    /// Returns an attempt at a summary that a model writes.
    pub(super) fn summary_attempt(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        gateway: Gateway,
        result_bytes: impl Fn(ToolRef) -> u64,
    ) -> BoxFuture<'static, Result<CallResult, Fault>> {
        let Some(open) = self.open_conversation(call, stepper) else {
            return no_settings();
        };
        let planned = open.activation.memory.planned.clone();
        let (Some(planned), Some(memory)) = (planned, &open.settings.memory) else {
            return no_settings();
        };
        let summary = PreparedSummary {
            transcript: open.source(call).transcript(
                planned.cut_before,
                planned.range.cut,
                result_bytes,
            ),
            planned,
            settings: open.settings.clone(),
            memory: memory.clone(),
        };
        Box::pin(summary.write(gateway))
    }

    /// Returns what a component gets that writes a summary, and the plan of it.
    pub(super) fn component_summary(
        &self,
        call: &Invocation,
        stepper: &Stepper,
        result_bytes: impl Fn(ToolRef) -> u64,
    ) -> Option<(PlannedReplacement, Arc<Message>)> {
        let open = self.open_conversation(call, stepper)?;
        let planned = open.activation.memory.planned.clone()?;
        let (before, cut) = (planned.cut_before, planned.range.cut);
        let transcript = open.source(call).transcript(before, cut, result_bytes);
        Some((planned, summary_news(&open.role.name, transcript)))
    }

    /// Returns the conversation of the activation that makes a call.
    fn open_conversation<'a>(
        &'a self,
        call: &Invocation,
        stepper: &'a Stepper,
    ) -> Option<OpenConversation<'a>> {
        let key = call.key().activation();
        let settings = self.roles.settings(call.role)?;
        Some(OpenConversation {
            role: stepper.team().role(call.role),
            settings,
            activation: stepper.env().activation(key)?,
            history: sent_history(settings, stepper.env(), key),
        })
    }
}

/// The open conversation of an activation.
struct OpenConversation<'a> {
    role: &'a Role,
    settings: &'a Arc<ToolRole>,
    activation: &'a Activation,
    history: History,
}

impl OpenConversation<'_> {
    fn source<'a>(&'a self, call: &'a Invocation) -> ConversationSource<'a> {
        ConversationSource {
            role: self.role,
            history: &self.history,
            news: &call.news,
            turns: &self.activation.turns,
            memory: &self.activation.memory,
        }
    }
}

fn no_settings<T: Send + 'static>() -> BoxFuture<'static, Result<T, Fault>> {
    let message = "the host was given no settings for this role";
    let fault = Fault::new(FaultKind::Host, message);
    Box::pin(async move { Err(fault) })
}

impl PreparedTurn {
    /// Asks the model, and checks its reply.
    async fn take(mut self, gateway: Gateway) -> Result<CallResult, Fault> {
        let Some(tools) = self.team.role(self.role).tool_loop() else {
            let message = "the role does not work with tools";
            return Err(Fault::new(FaultKind::Host, message));
        };
        let skills = match self.number {
            0 => skills::digests(&self.settings),
            _ => Vec::new(),
        };
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                let lists = list_tools(&gateway, &self.settings).await?;
                let Some(known) = self.roles.known(self.role, tools, lists) else {
                    return no_settings().await;
                };
                let role = self.team.role(self.role);
                let frame = request_frame(role, &known.settings, self.number == 0);
                self.request.system = frame.system;
                self.request.tools = frame.tools;
                self.request.tool_choice = frame.tool_choice;
                known
            }
        };
        let rules = ReplyRules {
            tools: &known.tools,
            settings: &known.settings,
        };
        if self.length.refused.is_some() {
            self.request.if_too_long = IfTooLong::Fail;
        }
        let asking = ask_model(&gateway, self.request);
        let reply = match reply_within(asking, &self.settings.timeout, "reply").await {
            Err(fault) if fault.cause == FaultCause::ContextTooLong => {
                return self.length.after_refusal(fault);
            }
            reply => reply?,
        };
        let now_ms = if needs_time(rules, &reply) {
            current_time(&gateway).await?
        } else {
            0
        };
        let mut reply = plan_reply(rules, reply, now_ms)?;
        reply.skills = skills;
        reject_changed_tools(&gateway, &known.lists, &mut reply).await?;
        if let Some(guard) = &self.guard {
            guard.decide_calls(rules, self.number, &mut reply).await?;
        }
        Ok(CallResult::Replied(reply))
    }
}

/// Lists the tools of the servers of a role.
async fn list_tools(gateway: &Gateway, settings: &ToolRole) -> Result<Arc<[ToolList]>, Fault> {
    let tools = settings.tools.iter();
    let request = ServerRequest::List {
        grants: settings.servers.clone(),
        taken: tools.map(|tool| tool.model_name.clone()).collect(),
    };
    let stopping = || Fault::new(FaultKind::Host, "the host is stopping");
    match gateway.request(GuestRequest::Servers(request)).await {
        Some(HostAnswer::ToolLists(lists)) => lists.map_err(server_tool::fault_of),
        _ => Err(stopping()),
    }
}

impl LengthRule {
    /// Returns what follows after all models that were asked refused the request as too long.
    fn after_refusal(self, fault: Fault) -> Result<CallResult, Fault> {
        match (self.refused, self.largest) {
            (Some(planned), _) => Ok(CallResult::SummaryDue(planned)),
            (None, Some(largest)) => {
                let described = too_long(self.tokens, None, &largest);
                let message = format!("{}\n{}", described.message, fault.message);
                Err(Fault {
                    message,
                    ..described
                })
            }
            (None, None) => Err(fault),
        }
    }
}

/// What the size of a request leads to.
enum SizeCheck {
    /// It is sent. If a provider refuses it as too long, this is replaced.
    Fits {
        if_refused: Option<PlannedReplacement>,
    },
    /// Something is replaced before.
    Replace(CallResult),
    /// It is too long, and nothing more can be replaced.
    TooLong { limit: u64 },
}

/// Decides whether a request is sent. Something is replaced for a turn at most once.
fn check_size(
    settings: &ToolRole,
    memory: &ConversationMemory,
    request: Option<&MemoryRequest>,
    size: &ConversationSize,
) -> SizeCheck {
    let is_new = !memory.was_replaced_for(size.turn);
    if let Some(request) = request.filter(|_| is_new)
        && let Some(replacement) = requested_replacement(size, request)
    {
        return SizeCheck::Replace(CallResult::Replaced(replacement));
    }
    let Some(RoleMemory { bounds, .. }) = &settings.memory else {
        return SizeCheck::Fits { if_refused: None };
    };
    if is_new {
        match size.plan(bounds, ReplacementReason::Bounds) {
            MemoryDecision::Nothing => {}
            MemoryDecision::Clear(planned) => {
                return SizeCheck::Replace(CallResult::Replaced(planned.only_cleared()));
            }
            MemoryDecision::Summarise(planned) => {
                return SizeCheck::Replace(CallResult::SummaryDue(planned));
            }
        }
    }
    if size.tokens > bounds.tokens {
        return SizeCheck::TooLong {
            limit: bounds.tokens,
        };
    }
    let if_refused = match size.plan(bounds, ReplacementReason::Refused) {
        MemoryDecision::Summarise(planned) if is_new => Some(planned),
        _ => None,
    };
    SizeCheck::Fits { if_refused }
}

/// Returns the replacement that an action asks for, or `None` if it is not possible or its text is not
/// shorter than what it would replace.
fn requested_replacement(
    size: &ConversationSize,
    request: &MemoryRequest,
) -> Option<MemoryReplacement> {
    let planned = size.plan_request(request.up_to)?;
    let replacement = planned.complete(WrittenSummary {
        text: request.summary.clone(),
        tokens: text_tokens(request.summary.len() as u64),
        how: ReplacementMethod::Action,
        model: None,
        cost: Usd::ZERO,
    });
    (replacement.how == ReplacementMethod::Action).then_some(replacement)
}

/// Returns what a role's model is told of the past. Messages that are not sent are not read from the
/// storage: those that a summary stands for, and all of them once the conversation has a summary of
/// its own.
fn sent_history(settings: &ToolRole, env: &Environment, key: ActivationKey) -> History {
    let activation = env.activation(key);
    let is_replaced = activation.is_some_and(|activation| activation.memory.summary().is_some());
    if settings.history == HistoryUse::None || is_replaced {
        return History::default();
    }
    let (summary, messages) = env.remembered_conversation(key);
    History {
        summary: summary.map(|(news, text)| (env.message(news).clone(), text.to_owned())),
        messages: env.resolve(&messages),
    }
}

/// Returns the time in milliseconds since 1970. It is recorded, so that a replay finds the same
/// deadlines.
async fn current_time(gateway: &Gateway) -> Result<i64, Fault> {
    match gateway.request(GuestRequest::CurrentTime).await {
        Some(HostAnswer::Time(time)) => Ok(time as i64),
        _ => Err(Fault::new(FaultKind::Host, "the host is stopping")),
    }
}

/// Returns the result of a call that hands over to another role. The core adds the text of the turn
/// and the recipient.
pub(super) fn handoff_result(call: &Invocation) -> CallResult {
    let arguments = call.arguments.as_ref().map(|arguments| arguments.value());
    let message = arguments
        .as_ref()
        .and_then(|arguments| arguments.get(MESSAGE));
    CallResult::Returned {
        output: Draft {
            content: message
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            ..Draft::default()
        },
        emissions: Vec::new(),
        writes: Vec::new(),
    }
}

/// Returns the result of a call of a role that is done, for the guard that sees it.
pub(super) fn role_result(call: &Invocation, stepper: &Stepper) -> Result<CallResult, Fault> {
    let output = stepper.role_result(call.key());
    let output = output.ok_or_else(|| Fault::new(FaultKind::Host, "the role is not done"))?;
    Ok(CallResult::Returned {
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use strata_core::state::messages::{MessagePage, MessageRef, Messages, TextSize};

    use super::*;
    use crate::tests::fixture::RunningTeam;

    /// A page of one message, which counts how often it is read.
    #[derive(Debug)]
    struct CountingPage {
        message: [Arc<Message>; 1],
        reads: AtomicUsize,
    }

    impl MessagePage for CountingPage {
        fn count(&self) -> usize {
            self.message.len()
        }

        fn messages(&self) -> &[Arc<Message>] {
            self.reads.fetch_add(1, Ordering::Relaxed);
            &self.message
        }

        fn plain_bytes(&self) -> u64 {
            0
        }

        fn size(&self) -> TextSize {
            TextSize::ZERO
        }
    }

    #[track_caller]
    fn check(history: &str, read: usize) {
        let team = RunningTeam::start(&format!(
            "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n\
             [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\nreact = \"tools\"\nhistory = \"{history}\"\n"
        ));
        let call = team.invocations[0].key();
        let before = Message::from_user("m".into(), "before".into(), "label".into());
        let page = Arc::new(CountingPage {
            message: [Arc::new(before)],
            reads: AtomicUsize::new(0),
        });
        let mut env = team.stepper.env().clone();
        env.messages = Messages::new([page.clone() as Arc<dyn MessagePage>], Vec::new());
        env.roles[call.role.index()].memory.push(MessageRef(0));
        let settings = &team.services.tool_roles[&call.role];
        let sent = sent_history(settings, &env, call.activation());
        assert_eq!(
            (sent.messages.len(), page.reads.load(Ordering::Relaxed)),
            (read, read)
        );
    }

    #[test]
    fn memory_that_is_not_sent_is_not_read() {
        check("role", 1);
        check("none", 0);
    }
}
