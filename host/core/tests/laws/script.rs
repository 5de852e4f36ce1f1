//! The script: what the actions of a simulated run return. A success depends only on the seed and
//! on what the call can see (its seed, its mail, the earlier outputs, memory, scopes), so whatever
//! it should not see would show in the outputs.

use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, TokenUsage, ToolCall};
use strata_core::record::fault::{Fault, FaultKind, Retryability};
use strata_core::record::host_call::{CallOutcome, FinishReason, HostCall, HostCallKind, ModelUse};
use strata_core::record::human_request::HumanRequest;
use strata_core::record::id::RequestId;
use strata_core::record::json::Json;
use strata_core::record::memory::{
    Cut, PlannedReplacement, PlannedTokens, ReplacedRange, ReplacementMethod, WrittenSummary,
};
use strata_core::record::message::{Draft, Hop, Message};
use strata_core::record::money::Usd;
use strata_core::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use strata_core::record::turn::{
    Approval, CallDecision, CallForm, CallPlan, ReplyMessage, ToolRef, TurnOutcome, TurnReply,
};
use strata_core::record::work::{CallResult, Task, Work};
use strata_core::state::activation::ToolOutcome;
use strata_core::state::environment::scope::ScopeKey;
use strata_core::team::Role;

use crate::rng::Rng;
use crate::teams::{LABELS, NAMES, SCOPES};

/// How actions behave.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The seed of everything.
    pub seed: u64,
    /// Whether actions name recipients, itineraries and foreign labels.
    pub address: RecipientChoice,
    /// In how many percent of cases a call fails before it succeeds.
    pub failure_percent: u64,
}

/// Whether actions name the recipients of their messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipientChoice {
    /// Often.
    Often,
    /// Never: messages go to the roles that watch the label.
    Never,
}

impl Script {
    /// Returns the result of an attempt.
    pub fn outcome(&self, stepper: &Stepper, call: &Invocation) -> Result<CallResult, Fault> {
        let role = stepper.team().role(call.role);
        match self.failure(role, call) {
            Some(failure) => failure,
            None => Ok(self.success(stepper, call)),
        }
    }

    /// Returns the host calls of an attempt: the same requests in every attempt, unless it takes
    /// another path.
    pub fn requests(&self, call: &Invocation) -> Vec<String> {
        let mut rng = Rng::new(self.seed, &format!("calls {}", call.seed));
        let mut requests: Vec<String> = (0..rng.below(3))
            .map(|_| format!("q{}", rng.below(2)))
            .collect();
        if rng.chance(20) {
            requests.push(format!("only {}", call.attempt));
        }
        requests
    }

    /// Returns the answer to a host call.
    pub fn answer(&self, request: &str) -> HostCall {
        let cost = Usd(Rng::new(self.seed, request).below(4) as u64);
        let (request, response, outcome) = (request.into(), Json::null(), CallOutcome::Answered);
        HostCall {
            kind: HostCallKind::Llm,
            request,
            response,
            cost,
            outcome,
            model: Some(ModelUse {
                usage: TokenUsage {
                    input: cost.0,
                    ..TokenUsage::default()
                },
                ..ModelUse::default()
            }),
        }
    }

    /// Returns what a call asks humans: the same in every attempt.
    pub fn questions(&self, percent: u64, call: &Invocation) -> Vec<String> {
        let mut rng = Rng::new(self.seed, &format!("people {}", call.idempotency_key));
        let count = if rng.chance(percent) {
            1 + rng.below(2)
        } else {
            0
        };
        (0..count)
            .map(|_| format!("person {}", rng.below(2)))
            .collect()
    }

    /// Returns a request. Humans answer it with its default, which depends on where it is asked.
    pub fn request(&self, id: RequestId, question: &str) -> HumanRequest {
        let answer = Rng::new(self.seed, &id.0).below(9);
        HumanRequest {
            id,
            question: question.into(),
            schema: None,
            choices: Vec::new(),
            default: Some(Json::from(serde_json::Value::from(answer))),
            expires_ms: None,
            proposed: None,
            asked_by: None,
        }
    }

    /// Returns what a human says about a tool call.
    pub fn verdict(&self, id: &RequestId) -> Json {
        let mut rng = Rng::new(self.seed, &id.0);
        Json::from(match rng.below(4) {
            0 => serde_json::json!({ "approve": false, "reason": "better not" }),
            1 => serde_json::json!({ "approve": true, "arguments": { "n": rng.below(9) } }),
            _ => serde_json::json!({ "approve": true }),
        })
    }

    /// Returns a reply of the model of a tools role.
    fn reply(&self, rng: &mut Rng, role: &Role, call: &Invocation, seen: u64) -> TurnReply {
        let tools = &role.tool_loop().expect("a tools role").tools;
        let count = match call.work {
            Work::Turn { turn } if turn < 3 && !tools.is_empty() => rng.below(4),
            _ => 0,
        };
        let mut message = vec![AssistantPart::Text(format!("{} saw {seen:x}", call.seed))];
        let mut plans = Vec::new();
        for index in 0..count {
            let tool = rng.pick(tools);
            message.push(AssistantPart::ToolCall(ToolCall {
                id: format!("c{index}"),
                name: tool.name.clone(),
                arguments: match tool.target.tool {
                    ToolRef::Role(_) => format!("{{\"message\":\"{}\"}}", seen % 100),
                    _ => format!("{{\"n\":{}}}", seen % 100),
                },
            }));
            let decision = match rng.below(10) {
                0 => CallDecision::Reject("it does not fit".into()),
                1 | 2 => CallDecision::AskFirst(tool.target, Approval::default()),
                _ => CallDecision::Make(tool.target),
            };
            plans.push(CallPlan {
                id: String::new(),
                tool: tool.name.clone(),
                form: CallForm::Direct,
                decision,
            });
        }
        let outcome = if !plans.is_empty() {
            TurnOutcome::Calls(plans)
        } else if rng.chance(10) {
            TurnOutcome::Misfit("no number".into())
        } else {
            TurnOutcome::Answer(self.draft(rng, format!("{} answers {seen:x}", call.seed)))
        };
        TurnReply {
            model: "default".into(),
            finish: FinishReason::Stop,
            cost: Usd::ZERO,
            message: ReplyMessage::Parts(message),
            outcome,
            changed_tools: Vec::new(),
            skills: Vec::new(),
        }
    }

    /// Returns how an attempt fails, or `None` if it succeeds.
    fn failure(&self, role: &Role, call: &Invocation) -> Option<Result<CallResult, Fault>> {
        let mut rng = Rng::new(self.seed, &format!("trouble {}", call.seed));
        let bad = if rng.chance(self.failure_percent) {
            1 + rng.below(3) as u32
        } else {
            0
        };
        // Which attempt writes a summary must not decide what it says.
        if call.attempt > bad || matches!(call.work, Work::Summary { .. }) {
            return None;
        }
        let mut rng = Rng::new(self.seed, &format!("{} {}", call.attempt, call.seed));
        match call.work {
            Work::Think { .. } if rng.chance(30) => Some(Ok(CallResult::Chosen(*rng.pick(&[
                -2,
                i32::MIN,
                i32::MAX,
                role.actions.len() as i32,
            ])))),
            Work::Plan if rng.chance(30) => {
                let tasks = vec![Task {
                    text: "x".into(),
                    action: Some("nobody's".into()),
                }];
                Some(Ok(CallResult::Planned {
                    tasks,
                    emissions: Vec::new(),
                    writes: Vec::new(),
                }))
            }
            _ => {
                let kind = *rng.pick(&FaultKind::ALL);
                let mut fault = Fault::new(kind, format!("attempt {} went wrong", call.attempt));
                if rng.chance(40) {
                    fault.retryability = Retryability::Retryable;
                }
                Some(Err(fault))
            }
        }
    }

    fn success(&self, stepper: &Stepper, call: &Invocation) -> CallResult {
        let mut rng = Rng::new(self.seed, &call.seed);
        let role = stepper.team().role(call.role);
        // The host refuses scopes that are not declared.
        let scopes: Vec<&str> = stepper.team().scopes.keys().map(String::as_str).collect();
        let seen = Rng::new(self.seed, &self.visible_state(stepper, call)).next_u64();
        match call.work {
            Work::Answer => panic!("no script answers for a person"),
            Work::Think { .. } => CallResult::Chosen(rng.below(role.actions.len() + 1) as i32 - 1),
            Work::Plan => CallResult::Planned {
                tasks: self.tasks(&mut rng, role),
                emissions: self.emissions(&mut rng, call, seen),
                writes: writes(&mut rng, &scopes, call, seen),
            },
            Work::Turn { turn } => match self.replacement(stepper, call, turn) {
                Some(replacement) => replacement,
                None => CallResult::Replied(self.reply(&mut rng, role, call, seen)),
            },
            Work::Summary { .. } => self.summary(stepper, call, seen),
            // The guard of a role that is called has no effects.
            Work::ToolCall {
                tool: ToolRef::Handoff(_) | ToolRef::Role(_),
                ..
            } => CallResult::Returned {
                output: Draft {
                    content: format!("{seen:x}"),
                    ..Draft::default()
                },
                emissions: Vec::new(),
                writes: Vec::new(),
            },
            Work::Act { .. } | Work::ToolCall { .. } => CallResult::Returned {
                output: self.draft(&mut rng, format!("{} saw {seen:x}", call.seed)),
                emissions: self.emissions(&mut rng, call, seen),
                writes: writes(&mut rng, &scopes, call, seen),
            },
        }
    }

    /// Returns the replacement of all turns but the newest, or that a summary of them is due. Not every
    /// turn has one.
    fn replacement(&self, stepper: &Stepper, call: &Invocation, turn: u32) -> Option<CallResult> {
        let mut rng = Rng::new(self.seed, &format!("memory {}", call.seed));
        let activation = stepper.env().activation(call.key().activation())?;
        if turn < 2 || activation.memory.was_replaced_for(turn) || rng.chance(50) {
            return None;
        }
        let range = activation.memory.range();
        let planned = PlannedReplacement {
            turn,
            range: ReplacedRange {
                cut: Cut {
                    news: activation.news.len() as u32,
                    turns: turn - 1,
                },
                ..range
            },
            cut_before: range.cut,
            messages: (1, turn),
            cleared_messages: None,
            tokens: PlannedTokens {
                before: 100,
                cleared: 100,
                kept: 10,
                replaced: 90,
            },
        };
        Some(if rng.chance(30) {
            CallResult::Replaced(planned.only_cleared())
        } else {
            CallResult::SummaryDue(planned)
        })
    }

    fn summary(&self, stepper: &Stepper, call: &Invocation, seen: u64) -> CallResult {
        let activation = stepper.env().activation(call.key().activation());
        let planned = activation.and_then(|activation| activation.memory.planned.as_ref());
        let written = WrittenSummary {
            text: format!("{seen:x}"),
            tokens: 5,
            how: ReplacementMethod::Summary,
            model: None,
            cost: Usd::ZERO,
        };
        CallResult::Replaced(planned.expect("a planned summary").complete(written))
    }

    /// Returns everything that a call can see, as text.
    fn visible_state(&self, stepper: &Stepper, call: &Invocation) -> String {
        let text = |message: &Message| {
            format!("{} {} {:?};", message.id, message.content, message.instruct)
        };
        let mut visible_state: String = call
            .news
            .iter()
            .chain(&call.outputs)
            .map(|message| text(message))
            .collect();
        visible_state += &format!("{:?};", call.arguments);
        let (team, env) = (stepper.team(), stepper.env());
        let activation = call.key().activation();
        if let (Work::Turn { .. }, Some(activation)) = (call.work, env.activation(activation)) {
            visible_state += &format!("{:?};", activation.memory.summary());
            for (work, tool_call) in activation.tool_calls() {
                let told = match &tool_call.outcome {
                    Some(ToolOutcome::Returned(returned)) => returned.output.content.as_str(),
                    Some(ToolOutcome::Failed(fault)) => &fault.message,
                    Some(ToolOutcome::Rejected(reason) | ToolOutcome::Declined(reason)) => reason,
                    None => panic!("a turn while {work:?} is open"),
                };
                visible_state += &format!("{work:?} {told};");
            }
        }
        for message in env
            .recent_memory(activation, None, 3)
            .iter()
            .chain(&env.recent_memory(activation, Some("l0"), 2))
        {
            visible_state += &text(message);
        }
        for scope in SCOPES.iter().copied().chain([ROLE_SCOPE]) {
            visible_state += &format!(
                "{:?} {:?};",
                env.scope_keys(team, activation, scope, &[]),
                env.read_key(team, activation, ScopeKey { scope, key: "k0" }, None, &[])
            );
        }
        visible_state
    }

    fn tasks(&self, rng: &mut Rng, role: &Role) -> Vec<Task> {
        // A planner without workers plans nothing, because nobody could carry it out.
        let workers: Vec<_> = role
            .actions
            .iter()
            .skip(1)
            .map(|action| action.name.clone())
            .collect();
        let count = if workers.is_empty() { 0 } else { rng.below(4) };
        let task = |i: usize, rng: &mut Rng| Task {
            text: format!("task {i}"),
            action: rng.chance(50).then(|| rng.pick(&workers).clone()),
        };
        (0..count).map(|i| task(i, rng)).collect()
    }

    fn emissions(&self, rng: &mut Rng, call: &Invocation, seen: u64) -> Vec<Draft> {
        let count = if rng.chance(40) { 1 + rng.below(2) } else { 0 };
        (0..count)
            .map(|i| {
                let mut draft = self.draft(rng, format!("{} emits {i} {seen:x}", call.seed));
                if self.address == RecipientChoice::Often && rng.chance(60) {
                    draft.cause_by = Some((*rng.pick(&LABELS)).into());
                }
                draft
            })
            .collect()
    }

    fn draft(&self, rng: &mut Rng, content: String) -> Draft {
        let mut draft = Draft {
            content,
            ..Draft::default()
        };
        if rng.chance(20) {
            draft.data = Some(Json::from(serde_json::Value::from(rng.below(9))));
        }
        if self.address == RecipientChoice::Often && rng.chance(30) {
            draft.to = (0..1 + rng.below(3))
                .map(|_| (*rng.pick(&NAMES)).into())
                .collect();
        }
        if self.address == RecipientChoice::Often && rng.chance(20) {
            let leg = |rng: &mut Rng| Hop {
                from: (*rng.pick(&NAMES)).into(),
                to: (0..1 + rng.below(2))
                    .map(|_| (*rng.pick(&NAMES)).into())
                    .collect(),
            };
            draft.route = (0..1 + rng.below(3)).map(|_| leg(rng)).collect();
        }
        draft
    }
}

fn writes(rng: &mut Rng, scopes: &[&str], call: &Invocation, seen: u64) -> Vec<Write> {
    let write = |rng: &mut Rng| {
        let scope = if scopes.is_empty() || rng.chance(40) {
            ROLE_SCOPE
        } else {
            *rng.pick(scopes)
        };
        let value = match rng.below(4) {
            0 => serde_json::json!(seen % 100),
            1 => serde_json::json!([seen % 100]),
            2 => serde_json::json!({ format!("f{}", seen % 2): rng.below(9) }),
            _ => serde_json::json!(format!("by {:?}", call.role)),
        };
        let change = if rng.chance(15) {
            ScopeChange::Delete
        } else {
            ScopeChange::Set(Json::from(value))
        };
        Write {
            scope: scope.into(),
            key: format!("k{}", rng.below(3)),
            change,
        }
    };
    let count = if rng.chance(50) { 1 + rng.below(3) } else { 0 };
    (0..count).map(|_| write(rng)).collect()
}

/// Returns all drafts of a finished call.
pub fn drafts(result: &CallResult) -> Vec<&Draft> {
    match result {
        CallResult::Chosen(_) | CallResult::SummaryDue(_) | CallResult::Replaced(_) => Vec::new(),
        CallResult::Planned { emissions, .. } => emissions.iter().collect(),
        CallResult::Returned {
            output, emissions, ..
        } => emissions.iter().chain([output]).collect(),
        CallResult::Reported { output } => vec![output],
        CallResult::Replied(reply) => match &reply.outcome {
            TurnOutcome::Answer(answer) => vec![answer],
            TurnOutcome::Calls(_) | TurnOutcome::Misfit(_) => Vec::new(),
        },
    }
}
