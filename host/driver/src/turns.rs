//! The turns of roles whose model works in a loop with tools: what the model is sent, and what
//! follows from its reply.
//!
//! A turn is an attempt that the host makes itself. It asks the model in the same way as a guest
//! does, so the budget, retries, fallbacks and the record apply to it. When a turn is due, and which
//! calls of a reply can start, is decided by the core.

mod deferral;
pub(super) mod guard;
pub(super) mod host_tool;
mod named_call;
mod outcome;
mod reply;
mod request;
mod revision;
mod skill_program;
pub(super) mod skills;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::id::RoleId;
use strata_core::record::message::{Draft, Message};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{ActivationKey, CallResult};
use strata_core::state::environment::Environment;
use strata_core::team::Team;
use strata_services::gateway::{Gateway, GuestRequest, HostAnswer};
use strata_services::models::ModelRequest;
use strata_services::tools::{HistoryUse, ToolRole};

use super::model_attempt::{ask_model, reply_within};
use guard::Guard;
use named_call::ReplyRules;
use reply::{MESSAGE, needs_time, plan_reply};
use request::{TurnContext, turn_request};

pub use revision::{RevisedCalls, revised_calls};

/// The turns of a team.
pub(super) struct Turns {
    roles: BTreeMap<RoleId, Arc<ToolRole>>,
}

/// A turn that can be made.
struct PreparedTurn {
    request: ModelRequest,
    team: Arc<Team>,
    role: RoleId,
    settings: Arc<ToolRole>,
    number: u32,
    /// Decides about the calls of the reply.
    guard: Option<Guard>,
}

impl Turns {
    /// Creates the turns of a team with these roles.
    pub(super) fn new(roles: BTreeMap<RoleId, Arc<ToolRole>>) -> Self {
        Self { roles }
    }

    /// Returns how much the model of a role is told of the result of a role that it calls, in bytes.
    pub(super) fn role_result_bytes(&self, role: RoleId) -> Option<u64> {
        self.roles.get(&role).map(|role| role.role_result_bytes)
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
        let (team, env) = (stepper.team(), stepper.env());
        let key = call.key().activation();
        let activation = env.activation(key);
        let (Some(settings), Some(activation)) = (self.roles.get(&call.role), activation) else {
            let message = "the host was given no settings for this role";
            let fault = Fault::new(FaultKind::Host, message);
            return Box::pin(async move { Err(fault) });
        };
        let context = TurnContext {
            role: team.role(call.role),
            settings,
            memory: &sent_memory(settings, env, key),
            news: &call.news,
            turns: &activation.turns,
        };
        let turn = PreparedTurn {
            request: turn_request(&context, result_bytes),
            team: team.clone(),
            role: call.role,
            settings: settings.clone(),
            number: activation.turns.len() as u32,
            guard,
        };
        Box::pin(turn.take(gateway))
    }
}

impl PreparedTurn {
    /// Asks the model, and checks its reply.
    async fn take(self, gateway: Gateway) -> Result<CallResult, Fault> {
        let Some(tools) = self.team.role(self.role).tool_loop() else {
            let message = "the role does not work with tools";
            return Err(Fault::new(FaultKind::Host, message));
        };
        let skills = match self.number {
            0 => skills::digests(&self.settings),
            _ => Vec::new(),
        };
        let rules = ReplyRules {
            tools,
            settings: &self.settings,
        };
        let asking = ask_model(&gateway, self.request);
        let reply = reply_within(asking, &self.settings.timeout, "reply").await?;
        let now_ms = if needs_time(rules, &reply) {
            current_time(&gateway).await?
        } else {
            0
        };
        let mut reply = plan_reply(rules, reply, now_ms)?;
        reply.skills = skills;
        if let Some(guard) = &self.guard {
            guard.decide_calls(rules, self.number, &mut reply).await?;
        }
        Ok(CallResult::Replied(reply))
    }
}

/// Returns the messages of a role's memory that its model is sent, oldest first. Others are not read
/// from the storage.
fn sent_memory(settings: &ToolRole, env: &Environment, key: ActivationKey) -> Vec<Arc<Message>> {
    match settings.history {
        HistoryUse::Role => env.resolve(&env.memory(key).collect::<Vec<_>>()),
        HistoryUse::None => Vec::new(),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use strata_core::state::messages::{MessagePage, MessageRef, Messages, TextSize};

    use super::*;
    use crate::fixture::RunningTeam;

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
        let sent = sent_memory(settings, &env, call.activation());
        assert_eq!(
            (sent.len(), page.reads.load(Ordering::Relaxed)),
            (read, read)
        );
    }

    #[test]
    fn memory_that_is_not_sent_is_not_read() {
        check("role", 1);
        check("none", 0);
    }
}
