//! Writes a state to the file. The same state always yields the same bytes. The names and the order
//! of fields are in `layout`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Serializer, Value, json};
use strata_core::machine::stepper::{component_slot, step_of_fault};
use strata_core::record::fault::{Fault, Retryability};
use strata_core::record::id::RoleId;
use strata_core::record::money::Usd;
use strata_core::record::scope_write::ScopeChange;
use strata_core::record::shape::DeliveryMode;
use strata_core::record::work::{ActivationKey, CallKey};
use strata_core::state::activation::{
    Activation, Addressing, FinishedCall, OpenCall, UncommittedMessage,
};
use strata_core::state::environment::Environment;
use strata_core::state::environment::routing::OwnMessages;
use strata_core::state::environment::scope::Scope;
use strata_core::state::messages::MessageRef;
use strata_core::team::{React, Team};

use super::attempts::AttemptsJson;
use super::formatter::{OneLine, TeamJsonFormatter};
use super::layout::{
    self, ForeignFields, JsonDocument, MessageJson, MessageListJson, MessagesByIdJson,
    OrderedObject,
};
use super::located_value::child_pointer;
use super::saved_names::{
    action_of_work, phase_name, policy_name, react_mode, saved_name, work_name,
};
use super::{
    SCHEMA_PREFIX, SavedDefinition, VERSION, WITHHELD, budget, called, files, joins, requests,
    turns,
};
use crate::storage::file::READ_BUFFER_BYTES;

/// Returns the content of the file.
pub fn export(team: &Team, env: &Environment, definition: &SavedDefinition) -> String {
    let mut text = Vec::new();
    write(team, env, definition, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Writes the file in pieces, since that of a long run is several times as large as its state.
pub fn write(
    team: &Team,
    env: &Environment,
    definition: &SavedDefinition,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(READ_BUFFER_BYTES, out);
    let line = OneLine::default();
    let exporter = Exporter {
        team,
        env,
        foreign: group_foreign_fields(env),
        line: &line,
    };
    exporter
        .file_json(definition)
        .serialize(&mut Serializer::with_formatter(
            &mut out,
            TeamJsonFormatter::new(&line),
        ))?;
    out.write_all(b"\n")?;
    out.flush()
}

struct Exporter<'a> {
    team: &'a Team,
    env: &'a Environment,
    /// Fields of other programs, by the JSON pointer of the object that they belong to.
    foreign: BTreeMap<String, ForeignFields>,
    line: &'a OneLine,
}

/// Groups fields of other programs by the objects that they belong to.
fn group_foreign_fields(env: &Environment) -> BTreeMap<String, ForeignFields> {
    let mut groups: BTreeMap<String, ForeignFields> = BTreeMap::new();
    for (pointer, value) in &env.unknown_fields {
        if let Some((above, name)) = pointer.rsplit_once('/') {
            let name = name.replace("~1", "/").replace("~0", "~");
            groups
                .entry(above.into())
                .or_default()
                .insert(name, value.value());
        }
    }
    groups
}

impl<'a> Exporter<'a> {
    fn file_json(&'a self, definition: &'a SavedDefinition) -> layout::TeamJson<'a> {
        let env = layout::EnvJson {
            desc: &self.team.desc,
            roles: self.object_by_role(|id| Some(self.role_json(id))),
            history: self.memory_json(self.env.history.iter().copied(), "/env/history"),
            more: self.foreign_fields("/env"),
        };
        let investment = self.investment();
        layout::TeamJson {
            env,
            investment,
            idea: &self.env.idea,
            strata: self.strata_json(definition),
            more: self.foreign_fields(""),
        }
    }

    /// Returns the budget as MetaGPT writes it.
    fn investment(&self) -> f64 {
        self.env.budget.map_or(0.0, Usd::to_dollars)
    }

    /// Calls `make` for each role, in order.
    fn object_by_role<T>(&'a self, make: impl Fn(RoleId) -> Option<T>) -> OrderedObject<'a, T> {
        let named = |id| make(id).map(|made| (self.team.role(id).name.as_str(), made));
        OrderedObject(self.team.role_ids().filter_map(named).collect())
    }

    fn foreign_fields(&self, pointer: &str) -> ForeignFields {
        self.foreign.get(pointer).cloned().unwrap_or_default()
    }

    fn message_json(&self, id: MessageRef) -> MessageJson<'_> {
        MessageJson {
            message: self.env.message(id),
            line: self.line,
        }
    }

    fn message_list(&self, ids: Vec<MessageRef>) -> MessageListJson<'_> {
        MessageListJson {
            env: self.env,
            line: self.line,
            ids,
        }
    }

    fn message_id(&self, id: MessageRef) -> &str {
        &self.env.message(id).id.0
    }

    fn memory_json(
        &self,
        ids: impl Iterator<Item = MessageRef>,
        pointer: &str,
    ) -> layout::MemoryJson<'_> {
        let storage = self.message_list(ids.collect());
        let mut index: BTreeMap<&str, MessageListJson<'_>> = BTreeMap::new();
        for id in &storage.ids {
            let label = &self.env.message(*id).cause_by;
            if !label.is_empty() {
                index
                    .entry(label)
                    .or_insert_with(|| self.message_list(Vec::new()))
                    .ids
                    .push(*id);
            }
        }
        layout::MemoryJson {
            storage,
            index,
            ignore_id: false,
            more: self.foreign_fields(pointer),
        }
    }

    fn role_json(&self, id: RoleId) -> layout::RoleJson<'_> {
        let role = self.team.role(id);
        let at = child_pointer("/env/roles", &role.name);
        let mut more = self.foreign_fields(&at);
        let mut actions = Vec::with_capacity(role.actions.len());
        for (i, action) in role.actions.iter().enumerate() {
            actions.push(layout::ActionJson {
                name: &action.name,
                more: self.foreign_fields(&format!("{at}/actions/{i}")),
            });
        }
        let (react_mode, max_react_loop) = react_mode(&role.react);
        let state = self
            .env
            .role(id)
            .activation
            .as_ref()
            .map_or(-1, |activation| self.current_action(id, activation));
        layout::RoleJson {
            name: &role.name,
            profile: &role.profile,
            goal: &role.goal,
            constraints: &role.constraints,
            desc: &role.desc,
            is_human: more
                .remove("is_human")
                .unwrap_or((role.react == React::Human).into()),
            role_id: more.remove("role_id").unwrap_or("".into()),
            states: role
                .actions
                .iter()
                .enumerate()
                .map(|(i, a)| format!("{i}. {}", a.name))
                .collect(),
            actions,
            rc: layout::RoleContextJson {
                memory: self.memory_json(
                    self.env.memory(ActivationKey::of_mail(id)),
                    &format!("{at}/rc/memory"),
                ),
                state,
                watch: role.watch.iter().map(String::as_str).collect(),
                react_mode,
                max_react_loop,
                more: self.foreign_fields(&format!("{at}/rc")),
            },
            addresses: &role.addresses,
            recovered: state >= 0,
            latest_observed_msg: self
                .env
                .role(id)
                .latest
                .map(|latest| self.message_json(latest)),
            more,
        }
    }

    /// Returns the index of the action that a role works on; -1 for a choice or a turn, or if nothing
    /// is left to do. Of several tool calls, a failed one counts before the others.
    fn current_action(&self, id: RoleId, activation: &Activation) -> i64 {
        let role = self.team.role(id);
        let open = || activation.open_calls(role);
        let failed = open().find(|(_, call)| call.phase.fault().is_some());
        let work = failed.or_else(|| open().next()).map(|(work, _)| work);
        action_of_work(role, work).0
    }

    fn strata_json(&'a self, definition: &'a SavedDefinition) -> layout::StrataJson<'a> {
        let env = self.env;
        let dead = |dead: &'a strata_core::state::environment::DeadLetter| layout::DeadLetterJson {
            message: self.message_id(dead.message),
            to: &dead.to,
        };
        let outbound =
            |outbound: &'a strata_core::state::environment::OutboxMessage| layout::OutboundJson {
                message: self.message_id(outbound.message),
                to: &outbound.to,
                failed: outbound.failed.as_deref(),
            };
        layout::StrataJson {
            schema: format!("{SCHEMA_PREFIX}{VERSION}"),
            run_id: &env.run.0,
            checkpoint: env.checkpoint.as_ref().map(|id| id.0.as_str()),
            parent: env.parent.as_ref().map(|id| id.0.as_str()),
            lineage: &env.lineage.name,
            forks: env.lineage.forks.iter().map(|id| id.0.as_str()).collect(),
            status: env.status.name(),
            step: env.step,
            step_open: env.is_step_open,
            checkpoints: env.checkpoint_count,
            sent: env.external_message_count,
            calls: policy_name(env.call_policy),
            faults: env
                .open_faults(self.team)
                .map(|(call, open, fault)| self.fault_json(call, open, fault))
                .collect(),
            open: self.object_by_role(|id| self.open_json(id)),
            buffers: self.object_by_role(|id| {
                Some(
                    env.unfinished_mail(id)
                        .map(|message| self.message_id(message))
                        .collect(),
                )
            }),
            each: self
                .object_by_role(|id| Some(self.each_delivered(id)).filter(|ids| !ids.is_empty())),
            joins: joins::write(self.team, env),
            requests: requests::write(self.team, env),
            state: self.scopes(),
            components: env
                .components
                .iter()
                .map(|(at, digest)| (saved_name(self.team, *at), &*digest.0))
                .collect(),
            budget: budget::write(self.team, env),
            dead_letters: env.dead_letters.iter().map(dead).collect(),
            outbox: env.outbox.iter().map(outbound).collect(),
            files: files::write(self.team, env),
            own_messages: (env.own_messages == OwnMessages::Withheld).then_some(WITHHELD),
            reply_uses: &env.reply_uses,
            shape: &env.shape,
            definition: (!definition.text.is_empty()).then(|| layout_definition(definition)),
            messages: self.messages_by_id(),
            more: self.foreign_fields("/strata"),
        }
    }

    fn scopes(&self) -> layout::ScopesJson<'_> {
        let mut env = BTreeMap::new();
        for (name, scope) in &self.env.shared_scopes {
            env.insert(name.as_str(), scope_json(scope));
        }
        let role = self.object_by_role(|id| {
            Some(&self.env.role(id).scope)
                .filter(|scope| !scope.is_empty())
                .map(scope_json)
        });
        layout::ScopesJson { env, role }
    }

    /// Returns the messages of a role's mailbox that are delivered one by one.
    fn each_delivered(&self, id: RoleId) -> Vec<&str> {
        let mail = self
            .env
            .role(id)
            .mailbox
            .iter()
            .filter(|mail| mail.deliver == DeliveryMode::Each);
        mail.map(|mail| self.message_id(mail.message)).collect()
    }

    /// Returns all messages that are referred to, by their ids. Nothing refers to the messages of
    /// undone calls.
    fn messages_by_id(&self) -> MessagesByIdJson<'_> {
        let env = self.env;
        // A flag for each message: most are referred to several times, and there may be very many.
        let mut referred = vec![false; env.messages.len()];
        let mut refer = |id: MessageRef| referred[id.0 as usize] = true;
        for id in &env.history {
            refer(*id);
        }
        for dead in &env.dead_letters {
            refer(dead.message);
        }
        for id in env
            .joins
            .iter()
            .flat_map(|join| join.queues.iter().flatten())
        {
            refer(*id);
        }
        for outbound in &env.outbox {
            refer(outbound.message);
        }
        for role in self.team.role_ids() {
            let memory = env.memory(ActivationKey::of_mail(role));
            for id in memory.chain(env.unfinished_mail(role)) {
                refer(id);
            }
            if let Some(latest) = env.role(role).latest {
                refer(latest);
            }
            for (_, activation) in env.activations_of(role) {
                for outgoing in activation.emissions() {
                    refer(outgoing.message);
                }
                for id in activation.news.iter().copied().chain(activation.outputs()) {
                    refer(id);
                }
            }
        }
        let referred = (0..).map(MessageRef).zip(referred);
        let referred = referred.filter(|(_, is_referred)| *is_referred);
        let mut ids: Vec<MessageRef> = referred.map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|id| self.message_id(*id));
        MessagesByIdJson(self.message_list(ids))
    }

    fn fault_json(
        &self,
        call: CallKey,
        open: OpenCall<'_>,
        fault: &'a Fault,
    ) -> layout::FaultJson<'_> {
        let Fault {
            kind,
            retryability: hope,
            cause,
            message,
            backtrace,
            log,
        } = fault;
        let role = self.team.role(call.role);
        let (index, action) = action_of_work(role, Some(call.work));
        let slot = component_slot(role, call.role, call.work);
        let digest = slot.and_then(|slot| self.env.components.get(&slot));
        layout::FaultJson {
            role: &role.name,
            index,
            action,
            kind: kind.name(),
            cause: cause.name(),
            attempt: open.progress.attempts,
            message,
            step: step_of_fault(self.team, self.env, open.activation),
            digest: digest.map(|digest| digest.0.as_str()),
            backtrace,
            log,
            retryable: *hope == Retryability::Retryable,
            via: called::via_json(self.team, &call.via),
        }
    }

    /// Returns the activation in which a role handles mail, with those that it led to.
    fn open_json(&self, id: RoleId) -> Option<layout::ActivationJson<'_>> {
        let state = self.env.role(id);
        let mut open = self.activation_json(state.activation.as_ref()?);
        for (key, activation) in &state.called {
            let of_called = self.activation_json(activation);
            open.called
                .push(called::write(self.team, key, activation, of_called));
        }
        Some(open)
    }

    fn activation_json(&self, activation: &'a Activation) -> layout::ActivationJson<'_> {
        let undone =
            |undone: &'a strata_core::state::activation::RevertedCall| layout::UndoneCallJson {
                work: work_name(undone.work),
                place: undone.position,
                tried: AttemptsJson::from(&undone.progress),
            };
        layout::ActivationJson {
            step: activation.opened_in_step,
            phase: phase_name(&activation.phase),
            news: activation
                .news
                .iter()
                .map(|id| self.message_id(*id))
                .collect(),
            skipped: activation.skipped_actions,
            choices: &activation.choices,
            tasks: &activation.tasks,
            done: activation
                .done
                .iter()
                .map(|done| self.completed_call_json(done))
                .collect(),
            made: activation.message_count,
            tried: AttemptsJson::from(&activation.current_call),
            undone: activation.reverted.iter().map(undone).collect(),
            turns: turns::write(activation, &|outgoing| self.outgoing_json(outgoing)),
            called: Vec::new(),
        }
    }

    fn outgoing_json(&self, outgoing: &UncommittedMessage) -> Value {
        json!({
            "message": self.message_id(outgoing.message),
            "addressed": outgoing.addressing == Addressing::Explicit,
        })
    }

    fn completed_call_json(&self, done: &'a FinishedCall) -> layout::CompletedCallJson<'_> {
        let outgoing = |outgoing: &UncommittedMessage| layout::OutgoingJson {
            message: self.message_id(outgoing.message),
            addressed: outgoing.addressing == Addressing::Explicit,
        };
        let write = |write: &'a strata_core::record::scope_write::Write| {
            let (set, delete) = match &write.change {
                ScopeChange::Set(value) => (Some(JsonDocument(value)), false),
                ScopeChange::Delete => (None, true),
            };
            layout::ScopeWriteJson {
                scope: &write.scope,
                key: &write.key,
                set,
                delete,
            }
        };
        layout::CompletedCallJson {
            work: work_name(done.work),
            output: outgoing(&done.output),
            emissions: done.emissions.iter().map(outgoing).collect(),
            writes: done.writes.iter().map(write).collect(),
            tried: AttemptsJson::from(&done.progress),
        }
    }
}

fn layout_definition(definition: &SavedDefinition) -> layout::DefinitionJson<'_> {
    layout::DefinitionJson {
        name: &definition.name,
        base: definition.base.to_string_lossy().into(),
        text: &definition.text,
        components: &definition.components,
    }
}

fn scope_json(scope: &Scope) -> BTreeMap<&str, JsonDocument<'_>> {
    scope
        .iter()
        .map(|(key, value)| (key.as_str(), JsonDocument(value)))
        .collect()
}
