//! `inspect --action`: shows one action: its state, spending, last output and fault.

use std::path::Path;

use serde_json::{Value, json};
use strata_core::activation::Activation;
use strata_core::budget::spender;
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, Part, RoleId, Slot};
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use strata_core::team::{React, Thinker};

use super::life::Life;
use super::{counted, standing};
use crate::cli::fault::{called, section};
use crate::cli::{Failure, path_word, shell_word, show_json, show_line, show_text};
use crate::store::team_json;
use crate::suggest::suggest;

/// Returns the names of existing actions, as many as fit into a message.
fn listed(names: &[&str]) -> String {
    const LISTED: usize = 8;
    match names.len().saturating_sub(LISTED) {
        _ if names.is_empty() => "its roles have none".into(),
        0 => format!("there are {}", names.join(", ")),
        more => format!("there are {} and {more} more", names[..LISTED].join(", ")),
    }
}

/// An action of a team.
pub(super) struct Action<'a> {
    stepper: &'a Stepper,
    slot: Slot,
    name: &'a str,
}

impl<'a> Action<'a> {
    /// Returns the action that `ROLE.ACTION` names. `ROLE.think` is the component or model that
    /// chooses among a role's actions.
    pub(super) fn named(stepper: &'a Stepper, name: &str) -> Result<Self, Failure> {
        let team = stepper.team();
        let of_role = |id: RoleId| {
            let role = team.role(id);
            let acts = (0..)
                .zip(&role.actions)
                .map(|(index, _)| Part::Action(ActionId(index)));
            let thinks = |react| {
                matches!(
                    react,
                    React::Choose {
                        thinker: Thinker::Component | Thinker::Model,
                        ..
                    }
                )
            };
            let chooses = thinks(role.react).then_some(Part::Think);
            acts.chain(chooses).map(move |part| Slot { role: id, part })
        };
        let all: Vec<(String, Slot)> = team
            .role_ids()
            .flat_map(of_role)
            .map(|slot| (team.slot_name(slot), slot))
            .collect();
        let Some((_, slot)) = all.iter().find(|(full, _)| full == name) else {
            let names: Vec<&str> = all.iter().map(|(full, _)| full.as_str()).collect();
            let hint = suggest(name, &names).unwrap_or_else(|| listed(&names));
            return Err(Failure::usage(format!(
                "the team has no action `{name}`; {hint}"
            )));
        };
        Ok(Self {
            stepper,
            slot: *slot,
            name: team.role(slot.role).part_name(slot.part),
        })
    }

    /// Returns its last output; `None` for `think`, which has no output.
    fn last(&self) -> Option<&'a Message> {
        if self.slot.part == Part::Think {
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
    pub(super) fn show(&self, life: Life, path: &Path) {
        let (team, env) = (self.stepper.team(), self.stepper.env());
        let role = team.role(self.slot.role);
        let used = env.spending(|slot| slot == self.slot);
        show_line(&format!("action      {}.{}", role.name, self.name));
        show_line(&format!(
            "component   {}",
            match env.components.get(&self.slot) {
                Some(digest) => digest.0.as_str(),
                None if self.is_of_the_host() => "none: the host asks the model",
                None => "none yet",
            }
        ));
        show_line(&format!(
            "role is at  {}",
            standing(self.stepper, self.slot.role, life)
        ));
        let (calls, tokens) = (counted(used.calls, "call"), counted(used.tokens, "token"));
        show_line(&format!("spent       {} for {tokens} in {calls}", used.usd));
        if let Some(fault) = self.fault() {
            let attempts = self
                .open()
                .map_or(0, |activation| activation.current.attempts);
            let message = fault.message.replace('\n', "\n    ");
            let what = if fault.kind == FaultKind::Interrupted {
                "stopped"
            } else {
                "fault"
            };
            show_text(&format!(
                "{what:<11} attempt {attempts}: {}: {message}",
                fault.kind
            ));
            section(
                "stack of the guest, innermost first",
                fault.backtrace.iter().cloned(),
                show_line,
            );
            section("what it logged last", fault.log.iter().cloned(), show_line);
        }
        if let Some(activation) = self.open() {
            let calls = activation.current.journal.iter().map(called);
            section(
                "calls of the host in this activation, and what came back",
                calls,
                show_line,
            );
            if !activation.current.journal.is_empty() {
                let name = shell_word(&format!("{}.{}", role.name, self.name));
                show_line(&format!(
                    "    in full: strata-host inspect {} --calls --action {name} --json",
                    path_word(path)
                ));
            }
        }
        if let Some(message) = self.last() {
            show_line("");
            show_line(&format!("last output ({})", message.id));
            show_text(&message.content);
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
            .last()
            .and_then(|message| serde_json::from_str(&team_json::message(message)).ok());
        let document = json!({
            "role": self.stepper.team().role(self.slot.role).name, "action": self.name,
            "digest": env.components.get(&self.slot).map(|digest| &digest.0),
            "attempts": self.open().map(|activation| activation.current.attempts),
            "spent": used.usd.dollars(), "tokens": used.tokens, "calls": used.calls,
            "fault": fault, "output": output,
        });
        show_json(&document.to_string());
    }

    /// Returns the activation that is working on it.
    fn open(&self) -> Option<&'a Activation> {
        let activation = self
            .stepper
            .env()
            .role(self.slot.role)
            .activation
            .as_ref()?;
        let work = activation.work(self.stepper.team().role(self.slot.role))?;
        (spender(self.slot.role, work) == self.slot).then_some(activation)
    }

    /// Returns whether the host does the work itself, without a component.
    fn is_of_the_host(&self) -> bool {
        let react = self.stepper.team().role(self.slot.role).react;
        self.slot.part == Part::Think
            && matches!(
                react,
                React::Choose {
                    thinker: Thinker::Model,
                    ..
                }
            )
    }

    fn fault(&self) -> Option<&'a Fault> {
        self.open()?.phase.fault()
    }
}
