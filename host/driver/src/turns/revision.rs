//! The check of open tool calls when a run is resumed. The tools of a role may have changed since its
//! model called them: the arguments have to follow the schema that a tool has now, and a human has to
//! approve the calls of a tool that needs approval now. In a state that somebody else may have written,
//! this applies to calls that a role works on, too: it says nothing whether they were approved.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, CallRevised, Event};
use strata_core::record::id::RoleId;
use strata_core::record::turn::{Approval, CallRevision};
use strata_core::record::work::{ActivationKey, CallKey, Work};
use strata_core::state::activation::{Activation, Consent, TurnCall};
use strata_core::state::environment::called_key;
use strata_core::team::tools::ToolLoop;
use strata_services::tools::{ApprovalRule, RoleTool, ToolRole};

use super::model_reply::{approval, check_arguments, input_schema};

/// Which open tool calls are decided again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisedCalls {
    /// Those on which no role works yet.
    NotBegun,
    /// All of them. A call on which a role works is taken back if it is not to be made like that.
    All,
}

/// Returns the events of the open tool calls that are not to be made as it was decided before.
/// `roles` are the roles that work with tools, as they are now; `now_ms` is the time from which the
/// deadlines of approvals count, in milliseconds since 1970.
pub fn revised_calls(
    stepper: &Stepper,
    roles: &BTreeMap<RoleId, Arc<ToolRole>>,
    scope: RevisedCalls,
    now_ms: i64,
) -> Vec<Event> {
    let mut events = Vec::new();
    // Calls within what is taken back no longer exist.
    let mut taken_back: Vec<ActivationKey> = Vec::new();
    for (key, activation) in stepper.env().activations() {
        let tools = stepper.team().role(key.role).tool_loop();
        let (Some(tools), Some(settings)) = (tools, roles.get(&key.role)) else {
            continue;
        };
        let rules = RevisionRules {
            tools,
            settings,
            activation,
            scope,
            now_ms,
        };
        if taken_back.iter().any(|called| key.continues(called)) {
            continue;
        }
        for (work, call) in activation.unsettled_tool_calls() {
            if let Some(revision) = rules.revision(work, call) {
                taken_back.extend(called_key(key, work));
                let call = CallKey::in_activation(key, work);
                let revised = AttemptEvent::CallRevised(CallRevised { revision });
                events.push(Event::Attempt(call, revised));
            }
        }
    }
    events
}

/// What the calls of an activation are checked against.
struct RevisionRules<'a> {
    tools: &'a ToolLoop,
    settings: &'a ToolRole,
    activation: &'a Activation,
    scope: RevisedCalls,
    now_ms: i64,
}

impl RevisionRules<'_> {
    /// Returns what is to become of a call, or `None` if the earlier decision holds.
    fn revision(&self, work: Work, call: &TurnCall) -> Option<CallRevision> {
        let Work::ToolCall { tool, .. } = work else {
            return None;
        };
        let is_taken_back = self.scope == RevisedCalls::All && call.is_worked_on();
        if !call.can_be_revised() && !is_taken_back {
            return None;
        }
        let mut tools = self.tools.tools.iter().zip(&self.settings.tools);
        let (tool, known) = tools.find(|(known, _)| known.target.tool == tool)?;
        let arguments = self.activation.arguments(work)?;
        if let Err(reason) = check_arguments(tool, known, arguments.as_str()) {
            return Some(CallRevision::Reject(reason));
        }
        match (&call.consent, known.approval) {
            (Consent::NotNeeded, Some(rule)) => {
                Some(CallRevision::AskFirst(approval(rule, known, self.now_ms)))
            }
            (Consent::Needed(earlier), rule) => {
                let now = self.approval_now(earlier, rule, known);
                (is_taken_back || now != *earlier).then_some(CallRevision::AskFirst(now))
            }
            (Consent::NotNeeded, None) | (Consent::Given, _) => None,
        }
    }

    /// Returns how a human is asked now about a call that needs approval. The human decides whether
    /// or not that is still demanded. A deadline that was set before holds.
    fn approval_now(
        &self,
        earlier: &Approval,
        rule: Option<ApprovalRule>,
        tool: &RoleTool,
    ) -> Approval {
        let Some(rule) = rule else {
            let input_schema = input_schema(tool);
            return Approval {
                input_schema,
                ..earlier.clone()
            };
        };
        let mut now = approval(rule, tool, self.now_ms);
        if now.expires_ms.is_some() && earlier.expires_ms.is_some() {
            now.expires_ms = earlier.expires_ms;
        }
        now
    }
}
