//! The environment: everything about a team that changes. Plain data; `stepper::apply` alone changes it.

pub mod join;
pub mod lineage;
pub mod messages;
pub mod outbox;
pub mod routing;
pub mod scope;
pub mod sound;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::activation::{Activation, Phase};
use crate::budget::Spending;
use crate::event::{CallPolicy, Status};
use crate::fault::Fault;
use crate::file::Files;
use crate::host_call::Begun;
use crate::id::{CheckpointId, Digest, MessageId, RoleId, RunId, Slot};
use crate::json::Json;
use crate::message::{Message, SENT};
use crate::money::Usd;
use crate::request::Request;
use crate::rules::Rules;
use crate::shape::Shape;
use crate::team::{Deliver, Team};

use join::JoinState;
use lineage::Lineage;
use messages::Messages;
use outbox::Outbound;
use scope::{ROLE_SCOPE, Scope, Write, unite};

/// A message of this environment, by its place in `Environment::messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageRef(pub u32);

/// Everything about a team that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The run's name; empty before it starts.
    pub run: RunId,
    /// The idea it started from.
    pub idea: String,
    /// What the team must look like for this state to fit it.
    pub shape: Shape,
    /// How the run stands.
    pub status: Status,
    /// The open step, or the next one.
    pub step: u64,
    /// Whether that step has begun.
    pub open: bool,
    /// The roles, in the order of the team.
    pub roles: Vec<RoleState>,
    /// The joins, in the order of the team.
    pub joins: Vec<JoinState>,
    /// The shared scopes.
    pub shared: BTreeMap<String, Scope>,
    /// All messages, each once, in the order in which they were made. Not among what serde writes: they are many and
    /// nearly all of them settled, so whoever keeps a state keeps them apart.
    #[serde(skip)]
    pub messages: Messages,
    /// The published ones, in the order in which they were published.
    pub history: Vec<MessageRef>,
    /// What was sent to names that stand for nobody.
    pub dead_letters: Vec<DeadLetter>,
    /// What is on its way out of the team, oldest first.
    pub outbox: Vec<Outbound>,
    /// What was spent.
    pub spent: Usd,
    /// What was spent, by whom.
    pub ledger: BTreeMap<Slot, Spending>,
    /// What may be spent.
    pub budget: Option<Usd>,
    /// The components in their places.
    pub components: BTreeMap<Slot, Digest>,
    /// The newest checkpoint.
    pub checkpoint: Option<CheckpointId>,
    /// The one before it.
    pub parent: Option<CheckpointId>,
    /// How many checkpoints were made.
    pub checkpoints: u64,
    /// How many messages came from outside.
    pub sent: u64,
    /// Which recorded host calls are served again.
    pub calls: CallPolicy,
    /// What a file that was read held beside what is understood, by JSON pointer.
    pub foreign: BTreeMap<String, Json>,
    /// The rules the run is under.
    pub rules: Rules,
    /// The line of checkpoints it belongs to.
    pub lineage: Lineage,
    /// What actions wrote to granted directories.
    pub files: Files,
    /// Whether roles that watch their own labels hear themselves.
    pub own_messages: OwnMessages,
}

/// Whether a role that watches the label of its own messages receives them. One that names itself always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnMessages {
    /// It does, like every role that watches the label.
    #[default]
    Delivered,
    /// It does not, as in MetaGPT, where nothing is news to a role that it remembers. So it is in a team that began there.
    Withheld,
}

/// Everything about a role that changes. Nobody else sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleState {
    /// What it has not looked at yet, oldest first.
    pub mailbox: Vec<Mail>,
    /// What it handled and what it did, oldest first.
    pub memory: Vec<MessageRef>,
    /// Its own scope of state.
    pub scope: Scope,
    /// What it is at.
    pub activation: Option<Activation>,
    /// The newest message it took from its mailbox.
    pub latest: Option<MessageRef>,
}

/// A message that a role has not looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The message.
    pub message: MessageRef,
    /// How it is handled.
    pub deliver: Deliver,
}

impl Mail {
    /// A message that is handled with others.
    pub fn together(message: MessageRef) -> Self {
        Self {
            message,
            deliver: Deliver::Batch,
        }
    }
}

/// A message for a name that stands for nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The message.
    pub message: MessageRef,
    /// The name.
    pub to: String,
}

impl RoleState {
    /// Puts what a join let go into the mailbox, unless it lies there already: by however many ways a message comes, a
    /// role is told once.
    pub(crate) fn pass(&mut self, message: MessageRef, deliver: Deliver) {
        if !self.mailbox.iter().any(|mail| mail.message == message) {
            self.mailbox.push(Mail { message, deliver });
        }
    }

    /// Takes the mail of one activation: what is to be handled alone, or all before the next such mail.
    pub(crate) fn take_mail(&mut self) -> Vec<MessageRef> {
        let together = self
            .mailbox
            .iter()
            .take_while(|mail| mail.deliver == Deliver::Batch)
            .count();
        let taken = together.max(1).min(self.mailbox.len());
        self.mailbox
            .drain(..taken)
            .map(|mail| mail.message)
            .collect()
    }
}

impl Environment {
    /// The environment of a team before its run starts.
    pub fn new(team: &Team) -> Self {
        Self {
            run: RunId::from(""),
            idea: String::new(),
            shape: Shape::of(team),
            status: Status::Running,
            step: 0,
            open: false,
            roles: team.roles.iter().map(|_| RoleState::default()).collect(),
            joins: team.joins.iter().map(JoinState::of).collect(),
            shared: BTreeMap::new(),
            messages: Messages::default(),
            history: Vec::new(),
            dead_letters: Vec::new(),
            outbox: Vec::new(),
            spent: Usd::ZERO,
            ledger: BTreeMap::new(),
            budget: None,
            components: BTreeMap::new(),
            checkpoint: None,
            parent: None,
            checkpoints: 0,
            sent: 0,
            calls: CallPolicy::Auto,
            foreign: BTreeMap::new(),
            rules: Rules::of(team),
            lineage: Lineage::default(),
            files: Files::default(),
            own_messages: OwnMessages::default(),
        }
    }

    /// A message of this environment.
    pub fn message(&self, id: MessageRef) -> &Arc<Message> {
        self.messages.get(id.0 as usize)
    }

    /// Several messages of this environment.
    pub fn resolve(&self, ids: &[MessageRef]) -> Vec<Arc<Message>> {
        ids.iter().map(|id| self.message(*id).clone()).collect()
    }

    /// Adds a message.
    pub fn add(&mut self, message: Message) -> MessageRef {
        let id = MessageRef(self.messages.len() as u32);
        self.messages.push(Arc::new(message));
        id
    }

    /// How many of the messages, from the first on, no event changes any more: all before the first that an open
    /// activation made, which gets its itinerary when it is published. Never fewer than in an earlier state.
    pub fn settled(&self) -> usize {
        let made = |activation: &Activation| {
            let first = activation.done.first()?;
            let all = first.emissions.iter().chain([&first.output]);
            all.map(|outgoing| outgoing.message.0 as usize).min()
        };
        self.activations()
            .filter_map(|(_, activation)| made(activation))
            .min()
            .unwrap_or(self.messages.len())
    }

    /// The state of a role. Panics on an id of another team.
    pub fn role(&self, id: RoleId) -> &RoleState {
        &self.roles[id.index()]
    }

    /// Whether nobody has mail, nobody is at work and nothing is on its way out. Something may yet wait in a join.
    pub fn is_quiet(&self) -> bool {
        self.outbox.is_empty()
            && self
                .roles
                .iter()
                .all(|role| role.mailbox.is_empty() && role.activation.is_none())
    }

    /// Whether nothing is left anywhere.
    pub fn is_drained(&self) -> bool {
        self.is_quiet() && self.joins.iter().all(JoinState::is_empty)
    }

    /// Whether the run is done, and nothing has come since that somebody would take up.
    pub fn is_finished(&self) -> bool {
        self.status == Status::Done && self.is_drained()
    }

    /// The name of the next checkpoint.
    pub fn next_checkpoint(&self) -> CheckpointId {
        self.lineage.checkpoint(self.checkpoints)
    }

    /// The id of the next message from outside.
    pub fn next_sent(&self) -> MessageId {
        MessageId(alloc::format!("{SENT}{}", self.sent))
    }

    /// Returns the newest published output of a role, or `None` if no role has published any.
    ///
    /// Within a commit a role's emissions come before its output, so its newest message in the history is an output.
    /// Messages from outside are not counted, whatever sender they name.
    pub fn last_output(&self, team: &Team) -> Option<&Arc<Message>> {
        let published = self
            .history
            .iter()
            .rev()
            .map(|message| self.message(*message));
        let is_output = |message: &&Arc<Message>| {
            !message.is_from_outside()
                && team.roles.iter().any(|role| role.name == message.sent_from)
        };
        published.into_iter().find(is_output)
    }

    /// The newest `limit` messages that a role remembers, oldest of them first; those with one label only, where
    /// one is given. What it did in its open activation counts, what it is being told does not yet.
    pub fn remembered(&self, id: RoleId, label: Option<&str>, limit: usize) -> Vec<Arc<Message>> {
        let mut found: Vec<_> = self
            .memory(id)
            .rev()
            .map(|message| self.message(message))
            .filter(|message| label.is_none_or(|label| message.cause_by == label))
            .take(limit)
            .cloned()
            .collect();
        found.reverse();
        found
    }

    /// What a role remembers, oldest first, with the outputs of its open activation.
    pub fn memory(&self, id: RoleId) -> impl DoubleEndedIterator<Item = MessageRef> {
        let role = self.role(id);
        let open = role
            .activation
            .iter()
            .flat_map(|a| a.done.iter().map(|done| done.output.message));
        role.memory.iter().copied().chain(open)
    }

    /// What a role was told and has not finished with: the mail it took, then the mail it has not looked at.
    pub fn buffer(&self, id: RoleId) -> impl Iterator<Item = MessageRef> {
        let role = self.role(id);
        let taken = role.activation.iter().flat_map(|a| a.news.iter().copied());
        taken.chain(role.mailbox.iter().map(|mail| mail.message))
    }

    /// The value of a key as a role sees it: what is committed and its own finished writes, in whose place `seen` may
    /// be given, then `pending` ones. None where the scope does not exist.
    pub fn read(
        &self,
        team: &Team,
        (id, scope, key): (RoleId, &str, &str),
        seen: Option<Option<Json>>,
        pending: &[Write],
    ) -> Option<Option<Json>> {
        let (committed, reducer) = self.scope(team, id, scope)?;
        let of_key = |writes: &mut dyn Iterator<Item = &Write>, value| {
            let writes = writes.filter(|write| write.scope == scope && write.key == key);
            unite(reducer, value, writes.map(|write| &write.change))
        };
        let stands = || {
            of_key(
                &mut self.own_writes(id),
                committed.and_then(|values| values.get(key)).cloned(),
            )
        };
        Some(of_key(&mut pending.iter(), seen.unwrap_or_else(stands)))
    }

    /// The keys of a scope as a role sees it, sorted. None where the scope does not exist.
    pub fn keys(
        &self,
        team: &Team,
        id: RoleId,
        scope: &str,
        pending: &[Write],
    ) -> Option<Vec<String>> {
        let (committed, _) = self.scope(team, id, scope)?;
        let mut keys: BTreeMap<&str, bool> = committed
            .iter()
            .flat_map(|values| values.keys())
            .map(|key| (key.as_str(), true))
            .collect();
        for write in self
            .own_writes(id)
            .chain(pending)
            .filter(|w| w.scope == scope)
        {
            keys.insert(&write.key, matches!(write.change, scope::Change::Set(_)));
        }
        Some(
            keys.into_iter()
                .filter(|(_, there)| *there)
                .map(|(key, _)| key.into())
                .collect(),
        )
    }

    fn scope(
        &self,
        team: &Team,
        id: RoleId,
        name: &str,
    ) -> Option<(Option<&Scope>, Option<crate::team::Reducer>)> {
        if name == ROLE_SCOPE {
            return Some((Some(&self.role(id).scope), None));
        }
        team.scopes
            .get(name)
            .map(|reducer| (self.shared.get(name), *reducer))
    }

    fn own_writes(&self, id: RoleId) -> impl Iterator<Item = &Write> {
        self.role(id)
            .activation
            .iter()
            .flat_map(|a| a.done.iter().flat_map(|done| done.writes.iter()))
    }

    /// The roles whose call failed, with what it was.
    pub fn failed(&self) -> impl Iterator<Item = (RoleId, &Activation)> {
        self.activations()
            .filter(|(_, activation)| matches!(activation.phase, Phase::Failed(_)))
    }

    /// The faults that are open: of the roles that failed, and of those that can be tried again and were not yet.
    pub fn faults(&self) -> impl Iterator<Item = (RoleId, &Activation, &Fault)> {
        self.activations()
            .filter_map(|(id, activation)| Some((id, activation, activation.phase.fault()?)))
    }

    /// The roles that wait for a person, with what they ask.
    pub fn requests(&self) -> impl Iterator<Item = (RoleId, &Request)> {
        self.activations()
            .filter_map(|(id, activation)| match &activation.phase {
                Phase::Waiting(request) => Some((id, request)),
                _ => None,
            })
    }

    /// The calls in doubt: whose, their place among the calls that were begun, what they are.
    pub fn doubts(&self) -> impl Iterator<Item = (RoleId, usize, &Begun)> {
        self.activations().flat_map(|(id, activation)| {
            activation
                .doubts()
                .map(move |(place, begun)| (id, place, begun))
        })
    }

    /// The roles at work.
    pub fn activations(&self) -> impl Iterator<Item = (RoleId, &Activation)> {
        let all = self.roles.iter().enumerate();
        all.filter_map(|(i, role)| role.activation.as_ref().map(|a| (RoleId(i as u16), a)))
    }
}
