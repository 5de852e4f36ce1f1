//! Attempts for which the guards of a role work: one decides about the calls that they make of tools, the
//! other sees their results.

use std::pin::pin;
use std::sync::Arc;

use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::id::{GuardMoment, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::Work;
use strata_sandbox::FileView;
use strata_services::gateway::{Gateway, PendingGuestRequest};
use strata_services::plugin::Plugin;
use tokio::sync::mpsc;

use super::{AttemptResultFuture, AttemptRunner, AttemptSuccess};
use crate::turns::guard::Guard;

/// The calls of tools that a component makes, and the guard that decides about them.
pub(super) struct GuardedCalls {
    guard: Guard,
    calls: mpsc::Receiver<PendingGuestRequest>,
}

impl GuardedCalls {
    /// Returns an attempt whose calls of tools the guard decides about before they are made. If the
    /// guard fails, the component is not answered any more, and ends.
    pub(super) fn decide_during(self, mut attempt: AttemptResultFuture) -> AttemptResultFuture {
        let Self { guard, calls } = self;
        Box::pin(async move {
            let mut failed = None;
            let mut deciding = pin!(guard.decide_nested(calls));
            loop {
                tokio::select! {
                    biased;
                    (result, notes) = &mut attempt => return (failed.map_or(result, Err), notes),
                    fault = &mut deciding, if failed.is_none() => failed = Some(fault),
                }
            }
        })
    }
}

impl AttemptRunner {
    /// Returns a guard of the role of a call, if it has this one.
    pub(super) fn guard(
        &self,
        moment: GuardMoment,
        call: &Invocation,
        stepper: &Stepper,
        context: (&Gateway, Arc<FileView>),
    ) -> Option<Guard> {
        let slot = Slot {
            role: call.role,
            kind: SlotKind::Guard(moment),
        };
        let plugin = self.plugins.get(&slot)?.clone();
        let made_by = (self.sandbox.clone(), plugin);
        Some(Guard::new(made_by, moment, call, stepper, context))
    }

    /// Returns the gateway of a component that may call tools, and the guard that receives these calls, if
    /// the role has one.
    pub(super) fn guarded_calls(
        &self,
        plugin: Option<&Plugin>,
        call: &Invocation,
        stepper: &Stepper,
        (gateway, view): (&Gateway, Arc<FileView>),
    ) -> Option<(Gateway, GuardedCalls)> {
        let calls_tools = matches!(call.work, Work::ToolCall { .. })
            && plugin.is_some_and(|plugin| !plugin.grants.tools.is_empty());
        if !calls_tools {
            return None;
        }
        let guard = self.guard(GuardMoment::Before, call, stepper, (gateway, view))?;
        let (sender, calls) = mpsc::channel(1);
        Some((
            gateway.with_tool_calls_to(sender),
            GuardedCalls { guard, calls },
        ))
    }

    /// Returns an attempt whose result the guard of the role sees, too, if it has one and a model or code is
    /// told the result.
    pub(super) fn reviewed(
        &self,
        attempt: AttemptResultFuture,
        plugin: Option<&Plugin>,
        call: &Invocation,
        stepper: &Stepper,
        context: (&Gateway, Arc<FileView>),
    ) -> AttemptResultFuture {
        if !has_result(call.work) {
            return attempt;
        }
        let Some(guard) = self.guard(GuardMoment::After, call, stepper, context) else {
            return attempt;
        };
        let (tool, call) = (called_tool(stepper, call), call.clone());
        let answer_schema = plugin.and_then(|plugin| plugin.answer_schema.clone());
        Box::pin(async move {
            let (result, notes) = attempt.await;
            let success = match result {
                Ok(success) => success,
                Err(fault) => return (Err(fault), notes),
            };
            let reviewed = guard
                .review(tool, call, success.finished, answer_schema)
                .await;
            let reviewed = reviewed.map(|finished| AttemptSuccess {
                finished,
                files: success.files,
                loaded_skill: success.loaded_skill,
            });
            (reviewed, notes)
        })
    }
}

/// Returns whether a model, or code, is told the result of a call.
fn has_result(work: Work) -> bool {
    match work {
        Work::ToolCall { tool, .. } => !matches!(tool, ToolRef::Handoff(_)),
        _ => false,
    }
}

/// Returns the name of the tool that a call is made to. The tools of servers are not part of the team.
fn called_tool(stepper: &Stepper, call: &Invocation) -> String {
    let activation = stepper.env().activation(call.key().activation());
    let tool_call = activation.and_then(|activation| activation.tool_call(call.work));
    tool_call.map_or_else(String::new, |tool_call| tool_call.tool.clone())
}
