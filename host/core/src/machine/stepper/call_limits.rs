//! The limits of use of tools: how many calls an activation makes, of each tool and in all, and what
//! becomes of a model that repeats itself.
//!
//! A call that is beyond a limit is rejected, and the model is told. A model that goes on to repeat the
//! same call after that is not asked again: its next turn fails before it is requested, like one beyond
//! `max_turns`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::tool_calls::can_be_called;
use crate::record::conversation::{AssistantPart, tool_calls};
use crate::record::json::Json;
use crate::record::turn::{CallDecision, CallEffect, CallTarget, ToolRef, TurnOutcome, TurnReply};
use crate::record::work::ActivationKey;
use crate::state::activation::{Activation, MadeCalls, ToolOutcome, Turn, TurnCall};
use crate::team::Role;
use crate::team::tools::ToolLoop;

/// Rejects the calls of a reply that are beyond a limit, those of roles that led to the call, and those
/// that would end the activation although another one does. `parts` are those of the reply.
pub(super) fn limit_calls(
    role: &Role,
    key: ActivationKey,
    activation: &Activation,
    parts: &[AssistantPart],
    reply: &mut TurnReply,
) {
    let (Some(tools), TurnOutcome::Calls(plans)) = (role.tool_loop(), &mut reply.outcome) else {
        return;
    };
    let mut limits = CallLimits {
        tools,
        key,
        activation,
        made_calls: activation.turns.made_calls(),
        ending: None,
        repetition: repetition(tools, &activation.turns),
    };
    for (plan, tool_call) in plans.iter_mut().zip(tool_calls(parts)) {
        let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) = &plan.decision
        else {
            continue;
        };
        let arguments = plan.form.arguments(&tool_call.arguments);
        if let Some(reason) = limits.count(&plan.tool, *target, arguments) {
            plan.decision = CallDecision::Reject(reason);
        }
    }
}

/// Returns why a model that repeats itself is not asked again: in its last turn it made a call that was
/// rejected for being repeated, and that it was told about in an earlier turn.
pub(super) fn repetition_beyond_limit(tools: &ToolLoop, activation: &Activation) -> Option<String> {
    let (last, before) = activation.turns.split_last()?;
    let repeated = repetition(tools, before).filter(|repeated| repeated.was_told)?;
    // Another call in between ends the row.
    let rejected = last
        .calls
        .iter()
        .enumerate()
        .take_while(|(_, call)| call.target.is_none());
    let mut again = rejected.filter(|(index, call)| {
        call.tool == repeated.name && last.arguments(*index).as_ref() == Some(&repeated.arguments)
    });
    again.next().map(|(_, call)| {
        format!(
            "the model repeats the call of `{}` that had the same result {} times and was then rejected; raise \
             `repeat` to go on",
            call.tool, repeated.count
        )
    })
}

/// How far the calls of an activation have come towards the limits.
struct CallLimits<'a> {
    tools: &'a ToolLoop,
    key: ActivationKey,
    activation: &'a Activation,
    /// The calls that were made or will be.
    made_calls: MadeCalls,
    /// The name of the tool that ends the activation in this turn.
    ending: Option<String>,
    /// The calls at the end of the activation that are equal, if they are as many as may be.
    repetition: Option<Repetition>,
}

/// As many calls as may be equal.
struct Repetition {
    tool: ToolRef,
    /// The name of the tool.
    name: String,
    arguments: Json,
    count: usize,
    /// Whether the model was told about it in an earlier turn.
    was_told: bool,
}

impl CallLimits<'_> {
    /// Counts a call. Returns the reason if it is beyond a limit.
    fn count(&mut self, name: &str, target: CallTarget, arguments: Option<Json>) -> Option<String> {
        let tool = target.tool.definition();
        if let Some(repeated) = self.repetition.as_ref()
            && repeated.tool == target.tool
            && Some(&repeated.arguments) == arguments.as_ref()
        {
            let count = repeated.count;
            return Some(format!(
                "this call was made {count} times in a row with the same result; call it with other arguments, or \
                 do something else"
            ));
        }
        if !can_be_called(self.key, target.tool) {
            Some(format!(
                "`{name}` cannot be called here: calls of roles led here from it, or are too many"
            ))
        } else if let Some(reason) =
            exceeded_number(self.tools, self.activation, &self.made_calls, (name, tool))
        {
            Some(reason)
        } else if let (CallEffect::Ends, Some(first)) = (target.effect, &self.ending) {
            Some(format!(
                "`{first}` is called in the same turn, and only one call can end the work"
            ))
        } else {
            self.made_calls.add(tool);
            // Another call in between ends the row.
            self.repetition = None;
            if target.effect == CallEffect::Ends {
                self.ending = Some(name.into());
            }
            None
        }
    }
}

/// Returns why a call of this tool, which has this name, would be one too many after those that were
/// `made_calls`.
pub(super) fn exceeded_number(
    tools: &ToolLoop,
    activation: &Activation,
    made_calls: &MadeCalls,
    (name, tool): (&str, ToolRef),
) -> Option<String> {
    let max = tools.max_calls;
    if made_calls.total() >= max as usize {
        return Some(format!(
            "no more than {max} tool calls may be made, and they were made"
        ));
    }
    let is_reached =
        |max: u32, counts: &dyn Fn(ToolRef) -> bool| made_calls.total_of(counts) >= max as usize;
    let server = activation.server_tool(tool).map(|(list, _)| &list.server);
    let of_server = server.and_then(|server| Some((server, tools.server_limit(server)?)));
    let same_server = |other: ToolRef| {
        let other = activation.server_tool(other);
        other.map(|(list, _)| &list.server) == server
    };
    if let Some((server, max)) = of_server.filter(|(_, max)| is_reached(*max, &same_server)) {
        return Some(format!(
            "no more than {max} calls of tools of `{server}` may be made, and they were made"
        ));
    }
    let own = tools.tool(tool).and_then(|tool| tool.max_calls)?;
    let reason = format!("no more than {own} calls of `{name}` may be made, and they were made");
    is_reached(own, &|other| other == tool).then_some(reason)
}

/// Returns the calls at the end of these turns that are equal and had equal results, if they are as many
/// as may be. Rejected calls do not count.
fn repetition(tools: &ToolLoop, turns: &[Turn]) -> Option<Repetition> {
    let most = tools.repeat? as usize;
    let mut last_call: Option<(&TurnCall, ToolRef, Json)> = None;
    let (mut count, mut rejected) = (0, Vec::new());
    for turn in turns.iter().rev() {
        for (index, call) in turn.calls.iter().enumerate().rev() {
            let arguments = turn.arguments(index);
            let Some(target) = call.target else {
                if last_call.is_none() {
                    rejected.extend(arguments.map(|arguments| (&call.tool, arguments)));
                }
                continue;
            };
            let arguments = arguments?;
            match &last_call {
                Some((last, tool, same)) => {
                    if *tool != target.tool || *same != arguments || !have_equal_results(last, call)
                    {
                        return None;
                    }
                }
                None => last_call = Some((call, target.tool, arguments)),
            }
            count += 1;
            if count == most {
                let (last, tool, arguments) = last_call?;
                let was_told = rejected
                    .iter()
                    .any(|(name, same)| **name == last.tool && *same == arguments);
                return Some(Repetition {
                    tool,
                    name: last.tool.clone(),
                    arguments,
                    count,
                    was_told,
                });
            }
        }
    }
    None
}

/// Returns whether a model is told the same about two calls.
fn have_equal_results(a: &TurnCall, b: &TurnCall) -> bool {
    match (&a.outcome, &b.outcome) {
        (Some(ToolOutcome::Returned(a)), Some(ToolOutcome::Returned(b))) => a.output == b.output,
        (Some(ToolOutcome::Failed(a)), Some(ToolOutcome::Failed(b))) => {
            (a.kind, &a.message) == (b.kind, &b.message)
        }
        (Some(ToolOutcome::Declined(a)), Some(ToolOutcome::Declined(b))) => a == b,
        _ => false,
    }
}
