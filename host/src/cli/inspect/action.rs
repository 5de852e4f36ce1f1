//! `inspect --action`: shows one action: its state, spending, last output and fault.

use std::path::Path;

use serde_json::{Value, json};
use strata_core::activation::Activation;
use strata_core::budget::charged_slot;
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use strata_core::team::{React, Thinker};

use super::{describe_activity, pluralize};
use crate::cli::fault_report::{describe_host_call, write_section};
use crate::cli::{CommandFailure, print_json, print_line, print_text, shell_path, shell_word};
use crate::store::team_json;
use crate::suggest::suggest;
use crate::view::{HolderState, HostCallView, RoleActivity};

/// Returns the names of existing actions, as many as fit into a message.
fn list_names(names: &[&str]) -> String {
    const LISTED: usize = 8;
    match names.len().saturating_sub(LISTED) {
        _ if names.is_empty() => "its roles have none".into(),
        0 => format!("there are {}", names.join(", ")),
        more => format!("there are {} and {more} more", names[..LISTED].join(", ")),
    }
}

/// An action of a team.
pub(super) struct InspectedAction<'a> {
    stepper: &'a Stepper,
    slot: Slot,
    name: &'a str,
}

impl<'a> InspectedAction<'a> {
    /// Returns the action that `ROLE.ACTION` names. `ROLE.think` is the component or model that
    /// chooses among a role's actions.
    pub(super) fn from_name(stepper: &'a Stepper, name: &str) -> Result<Self, CommandFailure> {
        let team = stepper.team();
        let of_role = |id: RoleId| {
            let role = team.role(id);
            let acts = (0..)
                .zip(&role.actions)
                .map(|(index, _)| SlotKind::Action(ActionId(index)));
            let thinks = |react| {
                matches!(
                    react,
                    React::Choose {
                        thinker: Thinker::Component | Thinker::Model,
                        ..
                    }
                )
            };
            let chooses = thinks(role.react).then_some(SlotKind::Think);
            acts.chain(chooses).map(move |part| Slot {
                role: id,
                kind: part,
            })
        };
        let all: Vec<(String, Slot)> = team
            .role_ids()
            .flat_map(of_role)
            .map(|slot| (team.slot_name(slot), slot))
            .collect();
        let Some((_, slot)) = all.iter().find(|(full, _)| full == name) else {
            let names: Vec<&str> = all.iter().map(|(full, _)| full.as_str()).collect();
            let hint = suggest(name, &names).unwrap_or_else(|| list_names(&names));
            return Err(CommandFailure::usage(format!(
                "the team has no action `{name}`; {hint}"
            )));
        };
        Ok(Self {
            stepper,
            slot: *slot,
            name: team.role(slot.role).component_name(slot.kind),
        })
    }

    /// Returns its last output; `None` for `think`, which has no output.
    fn last_output(&self) -> Option<&'a Message> {
        if self.slot.kind == SlotKind::Think {
            return None;
        }
        let (env, role) = (
            self.stepper.env(),
            &self.stepper.team().role(self.slot.role).name,
        );
        let said = env.messages.iter().rev().map(|message| &**message);
        said.into_iter()
            .find(|message| message.sent_from == *role && message.cause_by == self.name)
    }

    /// Shows it as text.
    pub(super) fn show(&self, holder: HolderState, path: &Path) {
        let (team, env) = (self.stepper.team(), self.stepper.env());
        let role = team.role(self.slot.role);
        let used = env.spending(|slot| slot == self.slot);
        print_line(&format!("action      {}.{}", role.name, self.name));
        print_line(&format!(
            "component   {}",
            match env.components.get(&self.slot) {
                Some(digest) => digest.0.as_str(),
                None if self.is_done_by_host() => "none: the host asks the model",
                None => "none yet",
            }
        ));
        let is_cut_off = holder.is_cut_off(self.stepper);
        let activity = RoleActivity::from_role(self.stepper, self.slot.role, is_cut_off);
        print_line(&format!(
            "role is at  {}",
            describe_activity(activity.as_ref())
        ));
        let (calls, tokens) = (
            pluralize(used.calls, "call"),
            pluralize(used.tokens, "token"),
        );
        print_line(&format!("spent       {} for {tokens} in {calls}", used.usd));
        if let Some(fault) = self.fault() {
            let attempts = self
                .open_activation()
                .map_or(0, |activation| activation.current_call.attempts);
            let message = fault.message.replace('\n', "\n    ");
            let what = if fault.kind == FaultKind::Interrupted {
                "stopped"
            } else {
                "fault"
            };
            print_text(&format!(
                "{what:<11} attempt {attempts}: {}: {message}",
                fault.kind
            ));
            write_section(
                "stack of the guest, innermost first",
                fault.backtrace.iter().cloned(),
                print_line,
            );
            write_section("what it logged last", fault.log.iter().cloned(), print_line);
        }
        if let Some(activation) = self.open_activation() {
            let calls = activation
                .current_call
                .recorded_calls
                .iter()
                .map(|call| describe_host_call(&HostCallView::from_call(call)));
            write_section(
                "calls of the host in this activation, and what came back",
                calls,
                print_line,
            );
            if !activation.current_call.recorded_calls.is_empty() {
                let name = shell_word(&format!("{}.{}", role.name, self.name));
                print_line(&format!(
                    "    in full: strata-host inspect {} --calls --action {name} --json",
                    shell_path(path)
                ));
            }
        }
        if let Some(message) = self.last_output() {
            print_line("");
            print_line(&format!("last output ({})", message.id));
            print_text(&message.content);
        }
    }

    /// Prints it as JSON.
    pub(super) fn print_json(&self) {
        let env = self.stepper.env();
        let used = env.spending(|slot| slot == self.slot);
        let fault = self.fault().map(|fault| {
            json!({
                "kind": fault.kind.name(), "cause": fault.cause.name(), "message": fault.message,
                "backtrace": fault.backtrace, "log": fault.log,
            })
        });
        let output: Option<Value> = self
            .last_output()
            .and_then(|message| serde_json::from_str(&team_json::message_json(message)).ok());
        let document = json!({
            "role": self.stepper.team().role(self.slot.role).name, "action": self.name,
            "digest": env.components.get(&self.slot).map(|digest| &digest.0),
            "attempts": self.open_activation().map(|activation| activation.current_call.attempts),
            "spent": used.usd.to_dollars(), "tokens": used.tokens, "calls": used.calls,
            "fault": fault, "output": output,
        });
        print_json(&document.to_string());
    }

    /// Returns the activation that is working on it.
    fn open_activation(&self) -> Option<&'a Activation> {
        let activation = self
            .stepper
            .env()
            .role(self.slot.role)
            .activation
            .as_ref()?;
        let work = activation.current_work(self.stepper.team().role(self.slot.role))?;
        (charged_slot(self.slot.role, work) == self.slot).then_some(activation)
    }

    /// Returns whether the host does the work itself, without a component.
    fn is_done_by_host(&self) -> bool {
        let react = self.stepper.team().role(self.slot.role).react;
        self.slot.kind == SlotKind::Think
            && matches!(
                react,
                React::Choose {
                    thinker: Thinker::Model,
                    ..
                }
            )
    }

    fn fault(&self) -> Option<&'a Fault> {
        self.open_activation()?.phase.fault()
    }
}
