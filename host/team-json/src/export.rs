//! Writes a state to the file. The same state always yields the same bytes. The names and the order
//! of fields are in `layout`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::Serializer;
use strata_core::machine::stepper::{component_slot, step_of_fault};
use strata_core::record::fault::{Fault, Retryability};
use strata_core::record::id::{CheckpointId, RoleId};
use strata_core::record::shape::DeliveryMode;
use strata_core::record::work::{ActivationKey, CallKey};
use strata_core::state::activation::{Activation, OpenCall};
use strata_core::state::environment::routing::OwnMessages;
use strata_core::state::environment::scope::Scope;
use strata_core::state::environment::{DeadLetter, Environment, OutboxMessage};
use strata_core::state::messages::MessageRef;
use strata_core::team::{React, Team};

use super::field::{
    Dollars, Keyword, MessageLink, NotDecoded, OrderedObject, TextList, WrappedDocument,
};
use super::formatter::{OneLine, TeamJsonFormatter};
use super::layout::{
    ActionJson, DeadLetterJson, DefinitionJson, EnvJson, FaultJson, ForeignFields, MemoryJson,
    MessageJson, MessageListJson, MessagesByIdJson, OpenJson, OutboundJson, RoleContextJson,
    RoleJson, RoleSummaryJson, ScopeJson, ScopesJson, StrataJson, TeamJson,
};
use super::located_value::child_pointer;
use super::machine_part::MachinePartWriter;
use super::open::write_path;
use super::saved_names::{action_of_call, action_of_work, react_mode, saved_name, state_of_action};
use super::{
    SCHEMA_PREFIX, SavedDefinition, VERSION, budget, files, joins, open, questions, requests,
};

/// Returns the content of the file.
pub fn export(team: &Team, env: &Environment, definition: &SavedDefinition) -> String {
    let mut text = Vec::new();
    write(team, env, definition, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// How many bytes are written at once.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// Writes the file in pieces, since that of a long run is several times as large as its state.
pub fn write(
    team: &Team,
    env: &Environment,
    definition: &SavedDefinition,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, out);
    let line = OneLine::default();
    let exporter = Exporter {
        team,
        env,
        foreign: group_foreign_fields(env),
        called: group_called(env),
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
    /// The activations of roles that work for other roles, by role.
    called: BTreeMap<RoleId, Vec<&'a Activation>>,
    line: &'a OneLine,
}

/// Groups the activations of roles that other roles called.
fn group_called(env: &Environment) -> BTreeMap<RoleId, Vec<&Activation>> {
    let mut called: BTreeMap<RoleId, Vec<&Activation>> = BTreeMap::new();
    for (key, activation) in env.activations() {
        if !key.via.is_empty() {
            called.entry(key.role).or_default().push(activation);
        }
    }
    called
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
    fn file_json(&'a self, definition: &'a SavedDefinition) -> TeamJson<'a> {
        let history = self.memory_json(self.env.history.iter().copied(), "/env/history");
        let roles = self.object_by_role(|id| Some(self.role_json(id)));
        let env = EnvJson {
            desc: (&*self.team.desc).into(),
            roles: roles.into(),
            history: history.into(),
            more: self.foreign_fields("/env"),
        };
        TeamJson {
            env: env.into(),
            investment: Some(Dollars(self.env.budget.unwrap_or_default())),
            idea: Cow::Borrowed(&self.env.idea),
            strata: Some(self.strata_json(definition)),
            more: self.foreign_fields(""),
        }
    }

    /// Calls `make` for each role, in order.
    fn object_by_role<T>(&'a self, make: impl Fn(RoleId) -> Option<T>) -> OrderedObject<'a, T> {
        let mut object = OrderedObject::default();
        for id in self.team.role_ids() {
            if let Some(value) = make(id) {
                object.push(&self.team.role(id).name, value);
            }
        }
        object
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

    fn link(&self, id: MessageRef) -> MessageLink<'_> {
        MessageLink::to(&self.env.message(id).id.0)
    }

    fn memory_json(&self, ids: impl Iterator<Item = MessageRef>, pointer: &str) -> MemoryJson<'_> {
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
        MemoryJson {
            storage: storage.into(),
            index: index.into(),
            ignore_id: false.into(),
            more: self.foreign_fields(pointer),
        }
    }

    fn role_json(&self, id: RoleId) -> RoleJson<'_> {
        let role = self.team.role(id);
        let at = child_pointer("/env/roles", &role.name);
        let mut more = self.foreign_fields(&at);
        let mut actions = Vec::with_capacity(role.actions.len());
        for (i, action) in role.actions.iter().enumerate() {
            actions.push(ActionJson {
                name: Cow::Borrowed(&action.name),
                more: self.foreign_fields(&format!("{at}/actions/{i}")),
            });
        }
        let (react_mode, max_react_loop) = react_mode(&role.react);
        let state = self.current_action(id);
        let states = role.actions.iter().enumerate();
        let states = states.map(|(index, action)| state_of_action(index, &action.name));
        let memory = self.env.memory(ActivationKey::of_mail(id));
        let latest = self.env.role(id).latest;
        RoleJson {
            name: Cow::Borrowed(&role.name),
            profile: (&*role.profile).into(),
            goal: (&*role.goal).into(),
            constraints: (&*role.constraints).into(),
            desc: (&*role.desc).into(),
            is_human: more
                .remove("is_human")
                .unwrap_or((role.react == React::Human).into()),
            role_id: more.remove("role_id").unwrap_or("".into()),
            states: Some(TextList(states.collect())),
            actions: Some(actions),
            rc: RoleContextJson {
                memory: self.memory_json(memory, &format!("{at}/rc/memory")).into(),
                state: state.into(),
                watch: Some(role.watch.iter().map(String::as_str).collect()),
                react_mode: Cow::Borrowed(react_mode),
                max_react_loop: max_react_loop.into(),
                more: self.foreign_fields(&format!("{at}/rc")),
            },
            addresses: role.addresses.as_slice().into(),
            recovered: (state >= 0).into(),
            latest_observed_msg: NotDecoded(latest.map(|latest| self.message_json(latest))),
            more,
        }
    }

    /// Returns the index of the action that a role works on, for its mail or for other roles; -1 for a
    /// choice or a turn, or if nothing is left to do. Of several calls, a failed one counts before the
    /// others, and those for its mail before those for other roles.
    fn current_action(&self, id: RoleId) -> i64 {
        let role = self.team.role(id);
        let called = self.called.get(&id).into_iter().flatten().copied();
        let activations = self.env.role(id).activation.iter().chain(called);
        let open = || {
            activations
                .clone()
                .flat_map(|activation| activation.open_calls(role))
        };
        let failed = open().find(|(_, call)| call.phase.fault().is_some());
        let work = failed.or_else(|| open().next()).map(|(work, _)| work);
        action_of_work(role, work).0
    }

    fn strata_json(&'a self, definition: &'a SavedDefinition) -> StrataJson<'a> {
        let env = self.env;
        let id = |id: &'a CheckpointId| Cow::Borrowed(&*id.0);
        let dead = |dead: &'a DeadLetter| DeadLetterJson {
            message: self.link(dead.message),
            to: Cow::Borrowed(&dead.to),
        };
        let outbound = |outbound: &'a OutboxMessage| OutboundJson {
            message: self.link(outbound.message),
            to: outbound.to.as_slice().into(),
            failed: outbound.failed.as_deref().map(Cow::Borrowed),
        };
        let mut components = BTreeMap::new();
        for (slot, digest) in &env.components {
            let name = Cow::Owned(saved_name(self.team, *slot));
            components.insert(name, Some(Cow::Borrowed(&*digest.0)));
        }
        let faults = env.open_faults(self.team);
        let (open, of_activations) = self.open_activations();
        let is_withheld = env.own_messages == OwnMessages::Withheld;
        StrataJson {
            schema: format!("{SCHEMA_PREFIX}{VERSION}").into(),
            run_id: Cow::Borrowed(&env.run.0),
            checkpoint: env.checkpoint.as_ref().map(id),
            parent: env.parent.as_ref().map(id),
            lineage: Cow::Borrowed(&env.lineage.name),
            forks: env.lineage.forks.iter().map(|id| &*id.0).collect(),
            status: Some(Keyword(env.status)),
            step: env.step,
            step_open: env.is_step_open,
            checkpoints: env.checkpoint_count,
            sent: env.external_message_count,
            calls: Keyword(env.call_policy),
            faults: faults
                .map(|(call, open, fault)| self.fault_json(call, open, fault))
                .collect::<Vec<_>>()
                .into(),
            open: Some(open),
            buffers: Some(self.object_by_role(|id| {
                let unfinished = env.unfinished_mail(id);
                Some(unfinished.map(|message| self.link(message)).collect())
            })),
            each: self
                .object_by_role(|id| Some(self.each_delivered(id)).filter(|ids| !ids.is_empty())),
            again: self
                .object_by_role(|id| Some(self.arrived_again(id)).filter(|ids| !ids.is_empty())),
            summaries: self.object_by_role(|id| self.summary_json(id)),
            joins: joins::write(self.team, env),
            requests: requests::write(self.team, env).into(),
            questions: questions::write(&env.questions),
            state: self.scopes(),
            components,
            budget: Some(budget::write(self.team, env)),
            dead_letters: env.dead_letters.iter().map(dead).collect(),
            outbox: env.outbox.iter().map(outbound).collect(),
            files: files::write(self.team, env),
            own_messages: is_withheld.then_some(Keyword(env.own_messages)),
            reply_uses: Cow::Borrowed(&env.reply_uses),
            servers: Cow::Borrowed(&env.server_revisions),
            shape: Some(Cow::Borrowed(&env.shape)),
            definition: NotDecoded((!definition.text.is_empty()).then(|| definition.into())),
            messages: self.messages_by_id(&of_activations).into(),
            more: self.foreign_fields("/strata"),
        }
    }

    fn summary_json(&self, id: RoleId) -> Option<RoleSummaryJson<'_>> {
        let summary = self.env.role(id).summary.as_ref()?;
        Some(RoleSummaryJson {
            first_news: self.link(summary.first_news),
            text: Cow::Borrowed(&summary.text),
            messages: summary.memory_count,
        })
    }

    fn scopes(&self) -> ScopesJson<'_> {
        let mut env = BTreeMap::new();
        for (name, scope) in &self.env.shared_scopes {
            env.insert(Cow::Borrowed(&**name), scope_json(scope));
        }
        let role = self.object_by_role(|id| {
            let scope = &self.env.role(id).scope;
            (!scope.is_empty()).then(|| scope_json(scope))
        });
        ScopesJson { env, role }
    }

    /// Returns the messages of a role's mailbox that are delivered one by one.
    fn each_delivered(&self, id: RoleId) -> Vec<MessageLink<'_>> {
        let mail = self.env.role(id).mailbox.iter();
        let mail = mail.filter(|mail| mail.deliver == DeliveryMode::Each);
        mail.map(|mail| self.link(mail.message)).collect()
    }

    /// Returns the messages of a role's mailbox that the role works on, too.
    fn arrived_again(&self, id: RoleId) -> Vec<MessageLink<'_>> {
        let state = self.env.role(id);
        let news = state.activation.as_ref().map_or(&[][..], |open| &open.news);
        let mail = state.mailbox.iter().map(|mail| mail.message);
        mail.filter(|message| news.contains(message))
            .map(|message| self.link(message))
            .collect()
    }

    /// Returns all messages that are referred to, by their ids. Nothing refers to the messages of
    /// undone calls.
    fn messages_by_id(&self, of_activations: &[MessageRef]) -> MessagesByIdJson<'_> {
        let env = self.env;
        // A flag for each message: most are referred to several times, and there may be very many.
        let mut referred = vec![false; env.messages.len()];
        let mut refer = |id: MessageRef| referred[id.0 as usize] = true;
        for id in env.history.iter().chain(of_activations) {
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
        }
        let referred = (0..).map(MessageRef).zip(referred);
        let referred = referred.filter(|(_, is_referred)| *is_referred);
        let mut ids: Vec<MessageRef> = referred.map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|id| &self.env.message(*id).id.0);
        MessagesByIdJson(self.message_list(ids))
    }

    fn fault_json(&self, call: CallKey, open: OpenCall<'a>, fault: &'a Fault) -> FaultJson<'_> {
        let role = self.team.role(call.role);
        let (index, action) = action_of_call(role, open.activation, call.work);
        let slot = component_slot(role, call.role, call.work);
        let digest = slot.and_then(|slot| self.env.components.get(&slot));
        FaultJson {
            role: &role.name,
            index,
            action,
            kind: Keyword(fault.kind),
            cause: Keyword(fault.cause),
            attempt: open.progress.attempts,
            message: &fault.message,
            step: step_of_fault(self.team, self.env, open.activation),
            digest: digest.map(|digest| &*digest.0),
            backtrace: fault.backtrace.as_slice().into(),
            log: fault.log.as_slice().into(),
            retryable: fault.retryability == Retryability::Retryable,
            via: write_path(self.team, &call.via),
        }
    }

    /// Returns the open activations in which roles handle mail, with those that they led to, and the
    /// messages that they refer to.
    fn open_activations(&'a self) -> (OrderedObject<'a, OpenJson<'a>>, Vec<MessageRef>) {
        let mut writer = MachinePartWriter::default();
        let (mut object, mut messages) = (OrderedObject::default(), Vec::new());
        for id in self.team.role_ids() {
            if let Some((open, referred)) = open::write(self.team, self.env, id, &mut writer) {
                object.push(&self.team.role(id).name, open);
                messages.extend(referred);
            }
        }
        (object, messages)
    }
}

impl<'a> From<&'a SavedDefinition> for DefinitionJson<'a> {
    fn from(definition: &'a SavedDefinition) -> Self {
        Self {
            name: Cow::Borrowed(&definition.name),
            base: definition.base.to_string_lossy(),
            text: Cow::Borrowed(&definition.text),
            components: definition.components.iter().cloned().collect(),
        }
    }
}

fn scope_json(scope: &Scope) -> ScopeJson<'_> {
    let values = scope.iter();
    values
        .map(|(key, value)| (Cow::Borrowed(&**key), WrappedDocument::of(value)))
        .collect()
}
