//! The check of a reply: which of the calls that a model asks for are made, and whether the reply is
//! an answer that ends the activation.
//!
//! Nothing that a model writes is trusted: names, arguments and answers are compared with what the
//! team file says, and the model is told what does not fit.

use serde_json::{Value, json};
use strata_base::text::units::format_bytes;
use strata_core::record::conversation::{
    AssistantPart, Part, ToolCall, ToolChoice, reply_text, tool_calls,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::json::{self, Json};
use strata_core::record::message::Draft;
use strata_core::record::money::Usd;
use strata_core::record::turn::{
    Approval, CallDecision, CallPlan, CallTarget, HostTool, ReplyMessage, ToolRef, TurnOutcome,
    TurnReply,
};
use strata_core::team::tools::Tool;

use strata_services::models::{ModelReply, read_answer, shorten_reason};
use strata_services::skills::script_language;
use strata_services::tools::{ApprovalRule, RoleTool, ToolRole};

use super::named_call::{NamedCall, ReplyRules, UnknownCall, named_call};

/// The maximum size of the arguments of a call, in bytes.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Returns what follows from a reply, or the fault if it is incomplete or empty. `now_ms` is the
/// time from which the deadlines of approvals count, in milliseconds since 1970. The model and the
/// cost are those of the recorded host call, which the core adds.
pub(super) fn plan_reply(
    rules: ReplyRules<'_>,
    reply: ModelReply,
    now_ms: i64,
) -> Result<TurnReply, Fault> {
    if let Some(defect) = reply.finish.defect() {
        let message = format!(
            "the reply of model `{}` {}",
            reply.model,
            defect.description()
        );
        return Err(Fault::new(FaultKind::OutputInvalid, message));
    }
    let mut plans = Vec::new();
    for call in tool_calls(&reply.parts) {
        plans.push(plan_call(rules, call, now_ms));
    }
    let outcome = if plans.is_empty() {
        answer(rules.settings, &reply)?
    } else {
        TurnOutcome::Calls(plans)
    };
    Ok(TurnReply {
        model: reply.model,
        finish: reply.finish,
        cost: Usd::ZERO,
        message: ReplyMessage::Parts(reply.parts),
        outcome,
        changed_tools: Vec::new(),
        skills: Vec::new(),
    })
}

/// Returns whether the time is needed to plan the calls of a reply.
pub(super) fn needs_time(rules: ReplyRules<'_>, reply: &ModelReply) -> bool {
    tool_calls(&reply.parts).any(|call| {
        named_call(rules, call)
            .ok()
            .and_then(|called| called.settings.approval)
            .is_some_and(|rule| rule.expires.is_some())
    })
}

/// Returns what a reply without calls says.
fn answer(settings: &ToolRole, reply: &ModelReply) -> Result<TurnOutcome, Fault> {
    let text = reply_text(&reply.parts);
    let mut answer = Draft {
        content: text.clone(),
        ..Draft::default()
    };
    for part in &reply.parts {
        if let AssistantPart::Media(media) = part {
            answer
                .parts
                .push(if media.media_type.starts_with("image/") {
                    Part::Image(media.clone())
                } else {
                    Part::File(media.clone())
                });
        }
    }
    if text.trim().is_empty() && answer.parts.is_empty() {
        let message = format!(
            "model `{}` returned nothing (finish reason `{}`)",
            reply.model,
            reply.finish.name()
        );
        return Err(Fault::new(FaultKind::OutputInvalid, message));
    }
    let Some(schema) = &settings.output_schema else {
        return Ok(TurnOutcome::Answer(answer));
    };
    match read_answer(schema, &text) {
        Ok(data) => {
            answer.data = Some(data);
            Ok(TurnOutcome::Answer(answer))
        }
        Err(reason) => Ok(TurnOutcome::Misfit(reason)),
    }
}

/// Returns what a call with these arguments is made to. The component that runs a script of a skill
/// depends on the language of the script.
fn target_of_call(tool: &Tool, arguments: &str) -> CallTarget {
    let ToolRef::Host(HostTool::RunSkillScript(other)) = tool.target.tool else {
        return tool.target;
    };
    let script = Json::parse(arguments)
        .ok()
        .and_then(|arguments| arguments.field("script"));
    let script = script.map(|script| script.value());
    let language = script
        .as_ref()
        .and_then(Value::as_str)
        .and_then(script_language);
    CallTarget {
        tool: ToolRef::Host(HostTool::RunSkillScript(language.unwrap_or(other))),
        ..tool.target
    }
}

/// Returns what is to become of a call.
fn plan_call(rules: ReplyRules<'_>, call: &ToolCall, now_ms: i64) -> CallPlan {
    let NamedCall {
        tool,
        settings: known,
        form,
        arguments,
    } = match named_call(rules, call) {
        Ok(called) => called,
        Err(UnknownCall { name, form, reason }) => {
            return CallPlan {
                id: call.id.clone(),
                tool: name,
                form,
                decision: CallDecision::Reject(reason),
            };
        }
    };
    let decision = match rules.settings.tool_choice {
        ToolChoice::None => CallDecision::Reject("no tool may be called".into()),
        _ => {
            let target = target_of_call(tool, &arguments);
            decide_call(tool, known, target, &arguments, now_ms)
        }
    };
    CallPlan {
        id: call.id.clone(),
        tool: tool.name.clone(),
        form,
        decision,
    }
}

/// Returns what is to become of a call of a tool with these arguments. `target` is what it is made to.
pub(crate) fn decide_call(
    tool: &Tool,
    known: &RoleTool,
    target: CallTarget,
    arguments: &str,
    now_ms: i64,
) -> CallDecision {
    if let Err(reason) = check_arguments(tool, known, arguments) {
        return CallDecision::Reject(reason);
    }
    match known.approval {
        None => CallDecision::Make(target),
        Some(rule) => CallDecision::AskFirst(target, approval(rule, known, now_ms)),
    }
}

/// Fails, with a reason for the model, if a call must not be made with these arguments.
pub(super) fn check_arguments(
    tool: &Tool,
    known: &RoleTool,
    arguments: &str,
) -> Result<(), String> {
    if arguments.len() > MAX_ARGUMENT_BYTES {
        return Err(format!(
            "the arguments have {}; at most {} are accepted",
            format_bytes(arguments.len() as u64),
            format_bytes(MAX_ARGUMENT_BYTES as u64)
        ));
    }
    let arguments =
        json::parse_untrusted(arguments).map_err(|error| format!("the arguments are {error}"))?;
    let Value::Object(fields) = &arguments else {
        return Err("the arguments are not a JSON object".into());
    };
    if let ToolRef::Handoff(_) | ToolRef::Role(_) = tool.target.tool
        && !fields.get(MESSAGE).is_none_or(Value::is_string)
    {
        return Err(format!("`{MESSAGE}` is not a text"));
    }
    match &known.input_schema {
        None => Ok(()),
        Some(schema) => schema.check(&arguments).map_err(|why| {
            shorten_reason(&format!("the arguments do not follow the schema: {why}"))
        }),
    }
}

/// The argument of handoffs and of calls of roles.
pub(super) const MESSAGE: &str = "message";

/// Returns how a human is asked about a call.
pub(super) fn approval(rule: ApprovalRule, tool: &RoleTool, now_ms: i64) -> Approval {
    let expires_ms = rule.expires.map(|expires| {
        let expires = i64::try_from(expires.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_add(expires)
    });
    Approval {
        input_schema: input_schema(tool),
        default: rule
            .default
            .map(|approve| Json::from(json!({ "approve": approve }))),
        expires_ms,
    }
}

/// Returns the schema of the arguments of a tool.
pub(crate) fn input_schema(tool: &RoleTool) -> Option<Json> {
    let schema = tool.input_schema.as_ref()?;
    Some(Json::from(schema.document().clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use strata_core::record::conversation::TokenUsage;
    use strata_core::record::host_call::FinishReason;
    use strata_core::record::id::{ActionId, RoleId};
    use strata_core::record::turn::CallEffect;
    use strata_core::team::tools::{CallOrder, ToolLoop};
    use strata_services::plugin::CompiledSchema;
    use strata_services::tools::{Deferral, Exposure, ToolOffer};

    use super::*;
    use crate::tests::fixture::empty_role;

    /// A role with the tool `add`, which takes an integer, `wipe`, which needs approval, and a
    /// handoff to `B`.
    struct Fixture {
        tools: ToolLoop,
        settings: ToolRole,
    }

    impl Fixture {
        fn new() -> Self {
            let schema = json!({
                "type": "object",
                "properties": { "a": { "$ref": "#/$defs/number" } },
                "required": ["a"],
                "$defs": { "number": { "type": "integer" } },
            });
            let schema = CompiledSchema::compile(&schema).expect("a schema");
            let (tools, settings) = empty_role();
            let mut fixture = Self { tools, settings };
            let rule = ApprovalRule {
                expires: Some(Duration::from_secs(60)),
                default: Some(false),
            };
            let action = |index| ToolRef::Action(ActionId(index));
            fixture.add("add", action(0), Some(schema.clone()), None);
            fixture.add("wipe it", action(1), Some(schema), Some(rule));
            fixture.add("transfer_to_B", ToolRef::Handoff(RoleId(1)), None, None);
            fixture
        }

        fn add(
            &mut self,
            name: &str,
            tool: ToolRef,
            input_schema: Option<CompiledSchema>,
            approval: Option<ApprovalRule>,
        ) {
            let effect = CallEffect::Continues;
            self.tools.tools.push(Tool {
                name: name.into(),
                target: CallTarget { tool, effect },
                faults: None,
                order: CallOrder::Parallel,
                max_calls: None,
            });
            self.settings.tools.push(RoleTool {
                model_name: name.replace(' ', "_"),
                description: None,
                input_schema,
                approval,
                deferral: Deferral::Never,
                exposure: Exposure::Sent,
                offer: ToolOffer::Model,
            });
        }

        fn rules(&self) -> ReplyRules<'_> {
            ReplyRules {
                tools: &self.tools,
                settings: &self.settings,
            }
        }

        fn plan(&self, parts: Vec<AssistantPart>) -> Result<TurnOutcome, Fault> {
            plan_reply(self.rules(), reply(parts), 1000).map(|turn| turn.outcome)
        }
    }

    fn reply(parts: Vec<AssistantPart>) -> ModelReply {
        ModelReply {
            parts,
            data: None,
            model: "m".into(),
            finish: FinishReason::Stop,
            usage: TokenUsage::default(),
        }
    }

    fn call(name: &str, arguments: &str) -> AssistantPart {
        AssistantPart::ToolCall(ToolCall {
            id: "c".into(),
            name: name.into(),
            arguments: arguments.into(),
        })
    }

    fn text(text: &str) -> Vec<AssistantPart> {
        vec![AssistantPart::Text(text.into())]
    }

    #[test]
    fn calls_are_made_asked_about_or_rejected() {
        let fixture = Fixture::new();
        #[track_caller]
        fn check(fixture: &Fixture, name: &str, arguments: &str, expected: &str) {
            let outcome = fixture.plan(vec![call(name, arguments)]);
            let Ok(TurnOutcome::Calls(plans)) = outcome else {
                panic!("a call is no answer: {outcome:?}");
            };
            let CallPlan { tool, decision, .. } = &plans[0];
            let found = match decision {
                CallDecision::Make(_) => format!("{tool}: made"),
                CallDecision::AskFirst(..) => format!("{tool}: asked"),
                CallDecision::Reject(reason) => format!("{tool}: {reason}"),
            };
            assert!(found.starts_with(expected), "{found}");
            assert!(found.len() < 2000, "{found}");
        }
        let rejected = |name: &str, arguments: &str, expected: &str| {
            check(&fixture, name, arguments, expected)
        };
        check(&fixture, "add", r#"{"a":2}"#, "add: made");
        check(&fixture, "wipe_it", r#"{"a":2}"#, "wipe it: asked");
        check(&fixture, "transfer_to_B", "{}", "transfer_to_B: made");
        rejected(
            "add",
            r#"{"a":"two"}"#,
            "add: the arguments do not follow the schema: \"two\" is not of type",
        );
        rejected("add", "{a", "add: the arguments are not a JSON document");
        rejected("add", "[2]", "add: the arguments are not a JSON object");
        rejected("add", "", "add: the arguments are not a JSON document");
        let long = format!(r#"{{"a":2,"b":"{}"}}"#, "x".repeat(8 << 20));
        rejected(
            "add",
            &long,
            "add: the arguments have 8.1 MiB; at most 1 MiB are accepted",
        );
        let deep = "[".repeat(100_000);
        rejected("add", &deep, "add: the arguments are");
        let listed = "there are `add`, `wipe_it`, `transfer_to_B`";
        rejected(
            "wipe it",
            "{}",
            &format!("wipe it: there is no tool `wipe it`; {listed}"),
        );
        rejected(
            "a\u{1b}[31m\n",
            "{}",
            &format!("a [31m: there is no tool `a [31m`; {listed}"),
        );
        rejected(&"x".repeat(1 << 20), "{}", "xxx");
        rejected(
            "transfer_to_B",
            r#"{"message":5}"#,
            "transfer_to_B: `message` is not a text",
        );
    }

    #[test]
    fn a_thousand_calls_have_a_thousand_plans() {
        let fixture = Fixture::new();
        let outcome = fixture.plan(vec![call("add", r#"{"a":2}"#); 1000]);
        assert!(matches!(outcome, Ok(TurnOutcome::Calls(plans)) if plans.len() == 1000));
    }

    #[test]
    fn an_incomplete_or_empty_reply_is_a_fault_that_names_the_finish_reason() {
        let fixture = Fixture::new();
        let check = |finish, parts: Vec<AssistantPart>, expected: &str| {
            let reply = ModelReply {
                finish,
                ..reply(parts)
            };
            let fault = plan_reply(fixture.rules(), reply, 0).expect_err("a fault");
            assert_eq!(fault.kind, FaultKind::OutputInvalid);
            assert!(fault.message.contains(expected), "{}", fault.message);
        };
        check(
            FinishReason::Length,
            text("it is"),
            "finish reason `length`",
        );
        check(
            FinishReason::Length,
            vec![call("add", "{")],
            "finish reason `length`",
        );
        check(FinishReason::Refusal, Vec::new(), "finish reason `refusal`");
        check(
            FinishReason::Stop,
            Vec::new(),
            "returned nothing (finish reason `stop`)",
        );
        check(
            FinishReason::Other,
            text(" \n"),
            "returned nothing (finish reason `other`)",
        );
    }

    #[test]
    fn an_answer_has_to_follow_the_schema_of_the_role() {
        let mut fixture = Fixture::new();
        let plain = fixture.plan(text("it is five"));
        assert!(
            matches!(plain, Ok(TurnOutcome::Answer(answer)) if answer.content == "it is five" && answer.data.is_none())
        );
        let schema = json!({ "type": "object", "required": ["n"] });
        fixture.settings.output_schema = CompiledSchema::compile(&schema).ok();
        let fits = fixture.plan(text("```json\n{\"n\": 5}\n```"));
        assert!(
            matches!(fits, Ok(TurnOutcome::Answer(answer)) if answer.data.as_ref().map(Json::as_str) == Some("{\"n\":5}"))
        );
        for (answer, expected) in [
            ("five", "it is not a JSON document"),
            ("{}", "it does not follow the JSON Schema"),
        ] {
            let outcome = fixture.plan(text(answer));
            assert!(
                matches!(&outcome, Ok(TurnOutcome::Misfit(reason)) if reason.starts_with(expected)),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn no_tool_is_called_where_none_may_be() {
        let mut fixture = Fixture::new();
        fixture.settings.tool_choice = ToolChoice::None;
        let outcome = fixture.plan(vec![call("add", r#"{"a":2}"#)]);
        let Ok(TurnOutcome::Calls(plans)) = outcome else {
            panic!("a call is no answer");
        };
        let reason = "no tool may be called".to_owned();
        assert_eq!(plans[0].decision, CallDecision::Reject(reason));
    }

    #[test]
    fn a_human_is_asked_with_the_deadline_the_default_and_the_schema_of_the_tool() {
        let fixture = Fixture::new();
        let ask = reply(vec![call("wipe_it", r#"{"a":2}"#)]);
        assert!(needs_time(fixture.rules(), &ask));
        assert!(!needs_time(
            fixture.rules(),
            &reply(vec![call("add", "{}")])
        ));
        let Ok(TurnOutcome::Calls(plans)) = fixture.plan(ask.parts) else {
            panic!("a call is no answer");
        };
        let CallDecision::AskFirst(_, approval) = &plans[0].decision else {
            panic!("it needs approval: {plans:?}");
        };
        assert_eq!(approval.expires_ms, Some(61_000));
        let default = approval.default.as_ref().map(Json::as_str);
        assert_eq!(default, Some("{\"approve\":false}"));
        let schema = fixture.settings.tools[1].input_schema.as_ref();
        assert_eq!(
            approval.input_schema.as_ref().map(Json::value).as_ref(),
            schema.map(CompiledSchema::document)
        );
    }
}
