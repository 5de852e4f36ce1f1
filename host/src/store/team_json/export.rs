//! Writes a state to the file. The same state always yields the same bytes. The names and the order
//! of fields are in `layout`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::Serializer;
use strata_core::activation::{Activation, Addressed, Current, Done};
use strata_core::budget::{Reserved, Spending};
use strata_core::environment::scope::{Change, Scope};
use strata_core::environment::{Environment, MessageRef, OwnMessages};
use strata_core::event::HostCall;
use strata_core::fault::{Fault, Hope};
use strata_core::host_call::{Begun, Finish, Intent, Known};
use strata_core::id::RoleId;
use strata_core::money::Usd;
use strata_core::stepper::{slot, step_of_fault};
use strata_core::team::{Deliver, React, Team};

use super::layout::{self, ById, Document, More, Ordered, Text, Texts};
use super::lines::{Line, Lines};
use super::names::{mode, phase_name, place_of, policy_name, saved_name, work_name};
use super::place::child;
use super::{SCHEMA_PREFIX, SavedDefinition, VERSION, WITHHELD, files, joins, requests};
use crate::store::file::PIECE_BYTES;

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
    let mut out = BufWriter::with_capacity(PIECE_BYTES, out);
    let line = Line::default();
    let exporter = Exporter {
        team,
        env,
        foreign: group(env),
        line: &line,
    };
    exporter
        .file(definition)
        .serialize(&mut Serializer::with_formatter(&mut out, Lines::new(&line)))?;
    out.write_all(b"\n")?;
    out.flush()
}

struct Exporter<'a> {
    team: &'a Team,
    env: &'a Environment,
    /// Fields of other programs, by the JSON pointer of the object that they belong to.
    foreign: BTreeMap<String, More>,
    line: &'a Line,
}

/// Groups fields of other programs by the objects that they belong to.
fn group(env: &Environment) -> BTreeMap<String, More> {
    let mut groups: BTreeMap<String, More> = BTreeMap::new();
    for (pointer, value) in &env.foreign {
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
    fn file(&'a self, definition: &'a SavedDefinition) -> layout::File<'a> {
        let env = layout::Env {
            desc: &self.team.desc,
            roles: self.by_role(|id| Some(self.role(id))),
            history: self.memory(self.env.history.iter().copied(), "/env/history"),
            more: self.more("/env"),
        };
        let investment = self.investment();
        layout::File {
            env,
            investment,
            idea: &self.env.idea,
            strata: self.strata(definition),
            more: self.more(""),
        }
    }

    /// Returns the budget as MetaGPT writes it.
    fn investment(&self) -> f64 {
        self.env.budget.map_or(0.0, Usd::dollars)
    }

    /// Calls `make` for each role, in order.
    fn by_role<T>(&'a self, make: impl Fn(RoleId) -> Option<T>) -> Ordered<'a, T> {
        let named = |id| make(id).map(|made| (self.team.role(id).name.as_str(), made));
        Ordered(self.team.role_ids().filter_map(named).collect())
    }

    fn more(&self, pointer: &str) -> More {
        self.foreign.get(pointer).cloned().unwrap_or_default()
    }

    fn text(&self, id: MessageRef) -> Text<'_> {
        Text {
            message: self.env.message(id),
            line: self.line,
        }
    }

    fn texts(&self, ids: Vec<MessageRef>) -> Texts<'_> {
        Texts {
            env: self.env,
            line: self.line,
            ids,
        }
    }

    fn id(&self, id: MessageRef) -> &str {
        &self.env.message(id).id.0
    }

    fn memory(&self, ids: impl Iterator<Item = MessageRef>, pointer: &str) -> layout::Memory<'_> {
        let storage = self.texts(ids.collect());
        let mut index: BTreeMap<&str, Texts<'_>> = BTreeMap::new();
        for id in &storage.ids {
            let label = &self.env.message(*id).cause_by;
            if !label.is_empty() {
                index
                    .entry(label)
                    .or_insert_with(|| self.texts(Vec::new()))
                    .ids
                    .push(*id);
            }
        }
        layout::Memory {
            storage,
            index,
            ignore_id: false,
            more: self.more(pointer),
        }
    }

    fn role(&self, id: RoleId) -> layout::Role<'_> {
        let role = self.team.role(id);
        let at = child("/env/roles", &role.name);
        let mut more = self.more(&at);
        let mut actions = Vec::with_capacity(role.actions.len());
        for (i, action) in role.actions.iter().enumerate() {
            actions.push(layout::Action {
                name: &action.name,
                more: self.more(&format!("{at}/actions/{i}")),
            });
        }
        let (react_mode, max_react_loop) = mode(role.react);
        let state = self
            .env
            .role(id)
            .activation
            .as_ref()
            .map_or(-1, |activation| self.index(id, activation));
        layout::Role {
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
            rc: layout::Context {
                memory: self.memory(self.env.memory(id), &format!("{at}/rc/memory")),
                state,
                watch: role.watch.iter().map(String::as_str).collect(),
                react_mode,
                max_react_loop,
                more: self.more(&format!("{at}/rc")),
            },
            addresses: &role.addresses,
            recovered: state >= 0,
            latest_observed_msg: self.env.role(id).latest.map(|latest| self.text(latest)),
            more,
        }
    }

    /// Returns the index of the action that a role works on; -1 for a choice, or if nothing is left
    /// to do.
    fn index(&self, id: RoleId, activation: &Activation) -> i64 {
        let role = self.team.role(id);
        place_of(role, activation.work(role)).0
    }

    fn strata(&'a self, definition: &'a SavedDefinition) -> layout::Strata<'a> {
        let env = self.env;
        let dead = |dead: &'a strata_core::environment::DeadLetter| layout::DeadLetter {
            message: self.id(dead.message),
            to: &dead.to,
        };
        let outbound = |outbound: &'a strata_core::environment::Outbound| layout::Outbound {
            message: self.id(outbound.message),
            to: &outbound.to,
            failed: outbound.failed.as_deref(),
        };
        layout::Strata {
            schema: format!("{SCHEMA_PREFIX}{VERSION}"),
            run_id: &env.run.0,
            checkpoint: env.checkpoint.as_ref().map(|id| id.0.as_str()),
            parent: env.parent.as_ref().map(|id| id.0.as_str()),
            lineage: &env.lineage.name,
            forks: env.lineage.forks.iter().map(|id| id.0.as_str()).collect(),
            status: env.status.name(),
            step: env.step,
            step_open: env.open,
            checkpoints: env.checkpoints,
            sent: env.sent,
            calls: policy_name(env.calls),
            faults: env
                .faults()
                .filter_map(|(id, activation, fault)| self.fault(id, activation, fault))
                .collect(),
            open: self.by_role(|id| Some(self.open(env.role(id).activation.as_ref()?))),
            buffers: self
                .by_role(|id| Some(env.buffer(id).map(|message| self.id(message)).collect())),
            each: self.by_role(|id| Some(self.alone(id)).filter(|ids| !ids.is_empty())),
            joins: joins::write(self.team, env),
            requests: requests::write(self.team, env),
            state: self.scopes(),
            components: env
                .components
                .iter()
                .map(|(at, digest)| (saved_name(self.team, *at), &*digest.0))
                .collect(),
            budget: self.budget(),
            dead_letters: env.dead_letters.iter().map(dead).collect(),
            outbox: env.outbox.iter().map(outbound).collect(),
            files: files::write(self.team, env),
            own_messages: (env.own_messages == OwnMessages::Withheld).then_some(WITHHELD),
            shape: &env.shape,
            definition: (!definition.text.is_empty()).then(|| layout_definition(definition)),
            messages: self.messages(),
            more: self.more("/strata"),
        }
    }

    fn scopes(&self) -> layout::State<'_> {
        let mut env = BTreeMap::new();
        for (name, scope) in &self.env.shared {
            env.insert(name.as_str(), values(scope));
        }
        let role = self.by_role(|id| {
            Some(&self.env.role(id).scope)
                .filter(|scope| !scope.is_empty())
                .map(values)
        });
        layout::State { env, role }
    }

    fn budget(&self) -> layout::Budget {
        let mut by = BTreeMap::new();
        for (slot, spending) in &self.env.ledger {
            by.insert(saved_name(self.team, *slot), used(spending));
        }
        layout::Budget {
            total: self.env.spent.dollars(),
            max: self.env.budget.map(Usd::dollars),
            investment: self.investment(),
            by,
        }
    }

    /// Returns the messages of a role's mailbox that are delivered one by one.
    fn alone(&self, id: RoleId) -> Vec<&str> {
        let mail = self
            .env
            .role(id)
            .mailbox
            .iter()
            .filter(|mail| mail.deliver == Deliver::Each);
        mail.map(|mail| self.id(mail.message)).collect()
    }

    /// Returns all messages that are referred to, by their ids. Nothing refers to the messages of
    /// undone calls.
    fn messages(&self) -> ById<'_> {
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
            for id in env.memory(role).chain(env.buffer(role)) {
                refer(id);
            }
            if let Some(latest) = env.role(role).latest {
                refer(latest);
            }
            if let Some(activation) = &env.role(role).activation {
                for outgoing in activation.done.iter().flat_map(|done| &done.emissions) {
                    refer(outgoing.message);
                }
            }
        }
        let referred = (0..).map(MessageRef).zip(referred);
        let referred = referred.filter(|(_, is_referred)| *is_referred);
        let mut ids: Vec<MessageRef> = referred.map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|id| self.id(*id));
        ById(self.texts(ids))
    }

    fn fault(
        &self,
        id: RoleId,
        activation: &Activation,
        fault: &'a Fault,
    ) -> Option<layout::Fault<'_>> {
        let Fault {
            kind,
            hope,
            cause,
            message,
            backtrace,
            log,
        } = fault;
        let role = self.team.role(id);
        let work = activation.work(role)?;
        let (index, action) = place_of(role, Some(work));
        let digest = slot(role, id, work).and_then(|slot| self.env.components.get(&slot));
        Some(layout::Fault {
            role: &role.name,
            index,
            action,
            kind: kind.name(),
            cause: cause.name(),
            attempt: activation.current.attempts,
            message,
            step: step_of_fault(self.team, self.env, activation),
            digest: digest.map(|digest| digest.0.as_str()),
            backtrace,
            log,
            retryable: *hope == Hope::Retryable,
        })
    }

    fn open(&self, activation: &'a Activation) -> layout::Open<'_> {
        let undone = |undone: &'a strata_core::activation::Undone| layout::Undone {
            work: work_name(undone.work),
            place: undone.place,
            tried: tried(&undone.tried),
        };
        layout::Open {
            step: activation.opened,
            phase: phase_name(&activation.phase),
            news: activation.news.iter().map(|id| self.id(*id)).collect(),
            skipped: activation.skipped,
            choices: &activation.choices,
            tasks: &activation.tasks,
            done: activation.done.iter().map(|done| self.done(done)).collect(),
            made: activation.made,
            tried: tried(&activation.current),
            undone: activation.undone.iter().map(undone).collect(),
        }
    }

    fn done(&self, done: &'a Done) -> layout::Done<'_> {
        let outgoing = |outgoing: &strata_core::activation::Outgoing| layout::Outgoing {
            message: self.id(outgoing.message),
            addressed: outgoing.addressed == Addressed::Named,
        };
        let write = |write: &'a strata_core::environment::scope::Write| {
            let (set, delete) = match &write.change {
                Change::Set(value) => (Some(Document(value)), false),
                Change::Delete => (None, true),
            };
            layout::Write {
                scope: &write.scope,
                key: &write.key,
                set,
                delete,
            }
        };
        layout::Done {
            work: work_name(done.work),
            output: outgoing(&done.output),
            emissions: done.emissions.iter().map(outgoing).collect(),
            writes: done.writes.iter().map(write).collect(),
            tried: tried(&done.tried),
        }
    }
}

fn tried(current: &Current) -> layout::Tried<'_> {
    let Current {
        attempts,
        failures,
        journal,
        keep,
        answered,
        begun,
        reserved,
        files,
    } = current;
    layout::Tried {
        attempts: *attempts,
        failures: *failures,
        journal: journal.iter().map(host_call).collect(),
        keep: *keep,
        answered: *answered,
        begun: begun.iter().map(begun_call).collect(),
        reserved: reserved.iter().map(held).collect(),
        files: files::write_changes(files),
    }
}

fn used(spending: &Spending) -> layout::Spending {
    let Spending {
        usd,
        tokens,
        calls,
        served,
        saved,
        truncated,
        refused,
    } = *spending;
    let (usd, saved) = (usd.dollars(), saved.dollars());
    layout::Spending {
        usd,
        tokens,
        calls,
        served,
        saved,
        truncated,
        refused,
    }
}

fn held(Reserved { request, amount }: &Reserved) -> layout::Reserved<'_> {
    layout::Reserved {
        request,
        usd: amount.usd.dollars(),
        tokens: amount.tokens,
    }
}

fn begun_call(begun: &Begun) -> layout::Begun<'_> {
    let Intent {
        kind,
        request,
        what,
        again,
    } = &begun.intent;
    let known = begun.result == Known::Recorded;
    layout::Begun {
        kind: kind.name(),
        request,
        what,
        again: again.name(),
        known,
    }
}

fn host_call(call: &HostCall) -> layout::HostCall<'_> {
    layout::HostCall {
        kind: call.kind.name(),
        request: &call.request,
        response: Document(&call.response),
        cost: call.cost.dollars(),
        tokens: call.tokens,
        outcome: call.outcome.name(),
        finish: call.finish.map(Finish::name),
    }
}

fn layout_definition(definition: &SavedDefinition) -> layout::Definition<'_> {
    layout::Definition {
        name: &definition.name,
        base: definition.base.to_string_lossy().into(),
        text: &definition.text,
        components: &definition.components,
    }
}

fn values(scope: &Scope) -> BTreeMap<&str, Document<'_>> {
    scope
        .iter()
        .map(|(key, value)| (key.as_str(), Document(value)))
        .collect()
}
