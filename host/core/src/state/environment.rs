//! The environment: the whole changing state of a team, as plain data. Only `stepper::apply`
//! changes it.

pub(crate) mod activations;
pub mod files;
pub mod join;
pub mod routing;
pub mod scope;
pub mod validation;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::conversation::Part;
use crate::record::event::{CapReached, Status};
use crate::record::file::PathContent;
use crate::record::host_call::CallPolicy;
use crate::record::id::{CheckpointId, Digest, MessageId, RoleId, RunId, Slot};
use crate::record::json::Json;
use crate::record::lineage::Lineage;
use crate::record::message::{EXTERNAL_ID_PREFIX, Message, stored_parts};
use crate::record::money::Usd;
use crate::record::questions::AskedQuestions;
use crate::record::rules::{Reducer, Rules};
use crate::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use crate::record::shape::{DeliveryMode, Shape};
use crate::record::spending::Spending;
use crate::record::work::ActivationKey;
use crate::state::activation::{Activation, for_each_message_ref};
use crate::state::messages::{MessageRef, Messages};
use crate::team::Team;

use files::FileRecords;
use join::JoinState;
use routing::OwnMessages;
use scope::{Scope, ScopeKey, apply_changes};

pub use activations::called_key;

/// The whole changing state of a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The name of the run; empty before it starts.
    pub run: RunId,
    /// The idea that the run started from.
    pub idea: String,
    /// The images and files of the idea, until the run starts. Then they are in its message.
    pub idea_parts: Vec<Part>,
    /// The shape that a team must have for this state to fit it.
    pub shape: Shape,
    /// The status of the run.
    pub status: Status,
    /// The open step, or the next one.
    pub step: u64,
    /// Whether that step has started.
    pub is_step_open: bool,
    /// The roles, in the order of the team.
    pub roles: Vec<RoleState>,
    /// The joins, in the order of the team.
    pub joins: Vec<JoinState>,
    /// The shared scopes by name.
    pub shared_scopes: BTreeMap<String, Scope>,
    /// All messages, each once, in the order in which they were made. Serde skips them: there are
    /// many, and nearly all of them no longer change, so whoever saves a state saves them
    /// separately.
    #[serde(skip)]
    pub messages: Messages,
    /// The published messages, in the order of publication.
    pub history: Vec<MessageRef>,
    /// Messages to names that nobody has.
    pub dead_letters: Vec<DeadLetter>,
    /// Messages for the external environment that are not delivered yet, oldest first.
    pub outbox: Vec<OutboxMessage>,
    /// What was spent.
    pub spent: Usd,
    /// What was spent, by component.
    pub ledger: BTreeMap<Slot, Spending>,
    /// The budget of the whole team in dollars; `None` for no limit.
    pub budget: Option<Usd>,
    /// The component in each slot.
    pub components: BTreeMap<Slot, Digest>,
    /// The newest checkpoint.
    pub checkpoint: Option<CheckpointId>,
    /// The checkpoint before that.
    pub parent: Option<CheckpointId>,
    /// How many checkpoints were made.
    pub checkpoint_count: u64,
    /// How many messages arrived from outside.
    pub external_message_count: u64,
    /// Which recorded host calls are served again.
    pub call_policy: CallPolicy,
    /// Unknown content of a `team.json` that was read, by JSON pointer. It is written again.
    pub unknown_fields: BTreeMap<String, Json>,
    /// The rules the run is under.
    pub rules: Rules,
    /// The lineage that this state belongs to.
    pub lineage: Lineage,
    /// The files that actions wrote to granted directories.
    pub files: FileRecords,
    /// Whether roles receive their own messages if they watch the label.
    pub own_messages: OwnMessages,
    /// How often scripted replies were used, by their ids, of those that may be used a limited number
    /// of times.
    pub reply_uses: BTreeMap<String, u64>,
    /// The revision of the protocol that was spoken last with each MCP server. It is tried first.
    pub server_revisions: BTreeMap<String, String>,
    /// The cap above the run that was found to be used up since it was last started or resumed.
    pub cap_reached: Option<CapReached>,
    /// The questions that humans were asked.
    pub questions: AskedQuestions,
}

/// The changing state of a role. It is private to the role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleState {
    /// Messages that it has not taken yet, oldest first.
    pub mailbox: Vec<Mail>,
    /// Messages that it handled and messages that it made, oldest first.
    pub memory: Vec<MessageRef>,
    /// Its private scope.
    pub scope: Scope,
    /// The activation in which it handles mail.
    pub activation: Option<Activation>,
    /// The activations of other roles that tool calls of this one led to, whether or not they are
    /// complete. They are committed with it.
    pub called: BTreeMap<ActivationKey, Activation>,
    /// The newest message it took from its mailbox.
    pub latest: Option<MessageRef>,
    /// The summary with which the next conversation of a tools role begins.
    pub summary: Option<RoleSummary>,
}

/// The last summary of the conversations of a role, with what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSummary {
    /// The first news of the activation in which it was written.
    pub first_news: MessageRef,
    /// The text.
    pub text: String,
    /// How many messages of the role's memory it and the first news stand for.
    pub memory_count: u32,
}

/// A message in a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The message.
    pub message: MessageRef,
    /// How the message is handled.
    pub deliver: DeliveryMode,
}

impl Mail {
    /// Returns a message that is handled together with others.
    pub fn batched(message: MessageRef) -> Self {
        Self {
            message,
            deliver: DeliveryMode::Batch,
        }
    }
}

/// A message in the outbox, addressed to names of the external environment. Messages leave the
/// outbox one by one, in the order in which they were published; how they are delivered is not part
/// of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxMessage {
    /// The message.
    pub message: MessageRef,
    /// The names of the recipients.
    pub to: Vec<String>,
    /// Why it could not be delivered, if that was tried. No later message is delivered before a
    /// resume.
    pub failed: Option<String>,
}

/// A message for a name that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The message.
    pub message: MessageRef,
    /// The name.
    pub to: String,
}

impl RoleState {
    /// Puts messages released by a join into the mailbox, except those that are there already: a
    /// role receives a message once, however many paths lead to it. Returns how many were put there.
    pub(crate) fn deliver_once(
        &mut self,
        released: impl Iterator<Item = MessageRef> + Clone,
        deliver: DeliveryMode,
    ) -> usize {
        let before = self.mailbox.len();
        let mut new: BTreeSet<MessageRef> = released.clone().collect();
        for mail in &self.mailbox {
            new.remove(&mail.message);
        }
        for message in released {
            if new.remove(&message) {
                self.mailbox.push(Mail { message, deliver });
            }
        }
        self.mailbox.len() - before
    }

    /// Takes the messages of the next activation: either one that is handled alone, or all before
    /// the next such message. `deliver` is how the role handles its mail: `Each` makes every message
    /// one that is handled alone.
    pub(crate) fn take_mail(&mut self, deliver: DeliveryMode) -> Vec<MessageRef> {
        let together = match deliver {
            DeliveryMode::Batch => self
                .mailbox
                .iter()
                .take_while(|mail| mail.deliver == DeliveryMode::Batch)
                .count(),
            DeliveryMode::Each => 1,
        };
        let count = together.max(1).min(self.mailbox.len());
        self.mailbox
            .drain(..count)
            .map(|mail| mail.message)
            .collect()
    }
}

impl Environment {
    /// Returns the environment of a team before its run starts.
    pub fn new(team: &Team) -> Self {
        Self {
            run: RunId::from(""),
            idea: String::new(),
            idea_parts: Vec::new(),
            shape: Shape::from_team(team),
            status: Status::Running,
            step: 0,
            is_step_open: false,
            roles: team.roles.iter().map(|_| RoleState::default()).collect(),
            joins: team.joins.iter().map(JoinState::new).collect(),
            shared_scopes: BTreeMap::new(),
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
            checkpoint_count: 0,
            external_message_count: 0,
            call_policy: CallPolicy::Auto,
            unknown_fields: BTreeMap::new(),
            rules: Rules::from_team(team),
            lineage: Lineage::default(),
            files: FileRecords::default(),
            own_messages: OwnMessages::default(),
            reply_uses: BTreeMap::new(),
            server_revisions: BTreeMap::new(),
            cap_reached: None,
            questions: AskedQuestions::default(),
        }
    }

    /// Returns a message of this environment.
    pub fn message(&self, id: MessageRef) -> &Arc<Message> {
        self.messages.get(id.0 as usize)
    }

    /// Returns several messages of this environment.
    pub fn resolve(&self, ids: &[MessageRef]) -> Vec<Arc<Message>> {
        ids.iter().map(|id| self.message(*id).clone()).collect()
    }

    /// Adds a message and returns a reference to it.
    pub fn add_message(&mut self, message: Message) -> MessageRef {
        let id = MessageRef(self.messages.len() as u32);
        self.messages.push(Arc::new(message));
        id
    }

    /// Returns the number of messages, counted from the first, that no event changes any more: all
    /// before the first one made by an open activation, because a message gets its itinerary when
    /// it is published. The number never decreases.
    pub fn final_message_count(&self) -> usize {
        let first_message_index = |activation: &Activation| {
            // Tool calls may end in any order; other calls make their messages one after another.
            let first = activation.done.first().map(|done| done.output);
            let first = first.into_iter().chain(activation.emissions());
            first.map(|outgoing| outgoing.message.0 as usize).min()
        };
        // Messages of called roles are never published.
        self.mail_activations()
            .filter_map(|(_, activation)| first_message_index(activation))
            .min()
            .unwrap_or(self.messages.len())
    }

    /// Returns the state of a role. Panics if the id belongs to another team.
    pub fn role(&self, id: RoleId) -> &RoleState {
        &self.roles[id.index()]
    }

    /// Returns whether no role has mail or open work and the outbox is empty. Messages may still
    /// wait in joins.
    pub fn is_quiet(&self) -> bool {
        self.outbox.is_empty()
            && self
                .roles
                .iter()
                .all(|role| role.mailbox.is_empty() && role.activation.is_none())
    }

    /// Returns whether nothing is left, in joins either.
    pub fn is_drained(&self) -> bool {
        self.is_quiet() && self.joins.iter().all(JoinState::is_empty)
    }

    /// Returns whether the run is done, and nothing arrived since that a role would handle.
    pub fn is_finished(&self) -> bool {
        self.status == Status::Done && self.is_drained()
    }

    /// Returns the id of the next checkpoint.
    pub fn next_checkpoint_id(&self) -> CheckpointId {
        self.lineage.checkpoint_id(self.checkpoint_count)
    }

    /// Returns the id of the next message from outside.
    pub fn next_external_message_id(&self) -> MessageId {
        MessageId(alloc::format!(
            "{EXTERNAL_ID_PREFIX}{}",
            self.external_message_count
        ))
    }

    /// Returns the newest published output of a role, or `None` if no role has published any.
    ///
    /// Within a commit the other messages of a role come before its output, so its newest message
    /// in the history is an output. Messages from outside are not counted, whatever sender they
    /// name.
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

    /// Returns the newest `limit` messages in the memory of a role as an activation of it sees them,
    /// oldest first; if `label` is given, only messages with that label. Outputs of the activation
    /// are included, messages it has not finished handling are not.
    pub fn recent_memory(
        &self,
        key: ActivationKey,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        let mut found: Vec<_> = self
            .memory(key)
            .rev()
            .map(|message| self.message(message))
            .filter(|message| label.is_none_or(|label| message.cause_by == label))
            .take(limit)
            .cloned()
            .collect();
        found.reverse();
        found
    }

    /// Returns the memory of a role, oldest first, followed by what an activation of it remembers in
    /// addition.
    pub fn memory(&self, key: ActivationKey) -> impl DoubleEndedIterator<Item = MessageRef> {
        let committed = self.role(key.role).memory.iter().copied();
        committed.chain(self.uncommitted_memory(key))
    }

    /// Returns what the conversation of an activation begins with: the last summary, with the first
    /// news of its activation, and the messages in the memory since then, oldest first.
    pub fn remembered_conversation(
        &self,
        key: ActivationKey,
    ) -> (Option<(MessageRef, &str)>, Vec<MessageRef>) {
        let role = self.role(key.role);
        let committed = role.summary.as_ref();
        let mut start = committed.map(|summary| (summary.first_news, summary.text.as_str()));
        let count = committed.map_or(0, |summary| summary.memory_count as usize);
        let mut messages = role.memory.get(count..).unwrap_or_default().to_vec();
        for activation in self.visible_predecessors(key) {
            let cut = activation.memory.range().cut.news as usize;
            let summary = activation.memory.summary().zip(activation.news.first());
            if let Some((text, first)) = summary {
                start = Some((*first, text));
                messages.clear();
            }
            messages.extend(activation.remembered().skip(cut));
        }
        let own = self.activation(key).into_iter();
        messages.extend(own.flat_map(Activation::outputs));
        (start, messages)
    }

    /// Returns the messages that a role has received and not finished handling: those of its open
    /// activation, then those in its mailbox.
    pub fn unfinished_mail(&self, id: RoleId) -> impl Iterator<Item = MessageRef> {
        let role = self.role(id);
        let news = role.activation.iter().flat_map(|a| a.news.iter().copied());
        news.chain(role.mailbox.iter().map(|mail| mail.message))
    }

    /// Returns the value of a key as an activation sees it: the committed value, changed by the
    /// writes of its finished calls and then by `pending`. If `seen` is given, it is used instead of the
    /// value before `pending`. Returns `None` if the scope does not exist.
    pub fn read_key(
        &self,
        team: &Team,
        activation: ActivationKey,
        at: ScopeKey<'_>,
        seen: Option<Option<Json>>,
        pending: &[Write],
    ) -> Option<Option<Json>> {
        let ScopeKey { scope, key } = at;
        let (committed, reducer) = self.committed_scope(team, activation.role, scope)?;
        let of_key = |writes: &mut dyn Iterator<Item = &Write>, value| {
            let writes = writes.filter(|write| write.scope == scope && write.key == key);
            apply_changes(reducer, value, writes.map(|write| &write.change))
        };
        let stands = || {
            of_key(
                &mut self.visible_writes(activation),
                committed.and_then(|values| values.get(key)).cloned(),
            )
        };
        Some(of_key(&mut pending.iter(), seen.unwrap_or_else(stands)))
    }

    /// Returns the keys of a scope as an activation sees them, sorted, or `None` if the scope does not
    /// exist.
    pub fn scope_keys(
        &self,
        team: &Team,
        activation: ActivationKey,
        scope: &str,
        pending: &[Write],
    ) -> Option<Vec<String>> {
        let (committed, _) = self.committed_scope(team, activation.role, scope)?;
        let mut keys: BTreeMap<&str, bool> = committed
            .iter()
            .flat_map(|values| values.keys())
            .map(|key| (key.as_str(), true))
            .collect();
        for write in self
            .visible_writes(activation)
            .chain(pending)
            .filter(|w| w.scope == scope)
        {
            keys.insert(&write.key, matches!(write.change, ScopeChange::Set(_)));
        }
        Some(
            keys.into_iter()
                .filter(|(_, there)| *there)
                .map(|(key, _)| key.into())
                .collect(),
        )
    }

    fn committed_scope(
        &self,
        team: &Team,
        id: RoleId,
        name: &str,
    ) -> Option<(Option<&Scope>, Option<Reducer>)> {
        if name == ROLE_SCOPE {
            return Some((Some(&self.role(id).scope), None));
        }
        team.scopes
            .get(name)
            .map(|reducer| (self.shared_scopes.get(name), *reducer))
    }

    /// Returns the digests of all files that this state needs: those left by committed steps, those
    /// intended or pending, both sides of every uncommitted change, and those that messages have as
    /// parts.
    pub fn file_digests(&self) -> BTreeSet<Digest> {
        let committed = self.files.committed.values().map(|file| &file.content);
        let pending = self
            .files
            .pending
            .iter()
            .flat_map(|placement| [&placement.expected, &placement.content]);
        let open = self
            .activations()
            .flat_map(|(_, activation)| activation.file_changes());
        let open = open.flat_map(|(_, change)| [&change.before, &change.after]);
        committed
            .chain(self.files.intended.values())
            .chain(pending)
            .chain(open)
            .filter_map(PathContent::digest)
            .chain(stored_parts(&self.idea_parts))
            .chain(self.message_media())
            .chain(
                self.activations()
                    .flat_map(|(_, activation)| activation.stored_media()),
            )
            .cloned()
            .collect()
    }

    /// Returns the digests of the images and files of all messages whose bytes are stored.
    pub fn message_media(&self) -> impl Iterator<Item = &Digest> {
        let messages = self.messages.iter();
        messages.flat_map(|message| stored_parts(&message.parts))
    }

    /// Returns the paths at which an activation sees something else than what may be there, with what
    /// it sees: the changes of its own finished calls, and the earlier content where other
    /// activations, or other calls of the same turn, made changes that are not committed yet. So
    /// what it sees does not depend on which activation or call is faster.
    pub fn files_seen_by(&self, key: ActivationKey) -> BTreeMap<String, PathContent> {
        let mut seen = BTreeMap::new();
        if self.files.intended.is_empty() {
            // In most teams no file is ever changed, and this is called before every call.
            return seen;
        }
        for (other, activation) in self.activations() {
            let hidden = activation
                .file_changes()
                .filter(|(work, _)| other != key || activation.is_of_incomplete_turn(*work));
            for (_, change) in hidden {
                let committed = self
                    .files
                    .committed
                    .get(&change.path)
                    .map(|file| &file.content);
                seen.entry(change.path.clone())
                    .or_insert_with(|| committed.unwrap_or(&change.before).clone());
            }
        }
        let own = self.visible_changes(key);
        seen.extend(own.map(|change| (change.path.clone(), change.after.clone())));
        seen
    }

    /// Calls `visit` with every reference to a message. The references may be changed.
    pub fn for_each_message_ref(&mut self, visit: &mut dyn FnMut(&mut MessageRef)) {
        for message in &mut self.history {
            visit(message);
        }
        for dead_letter in &mut self.dead_letters {
            visit(&mut dead_letter.message);
        }
        for message in self
            .joins
            .iter_mut()
            .flat_map(|join| &mut join.queues)
            .flatten()
        {
            visit(message);
        }
        for outbound in &mut self.outbox {
            visit(&mut outbound.message);
        }
        for role in &mut self.roles {
            for mail in &mut role.mailbox {
                visit(&mut mail.message);
            }
            let summary = role
                .summary
                .iter_mut()
                .map(|summary| &mut summary.first_news);
            for message in role
                .memory
                .iter_mut()
                .chain(&mut role.latest)
                .chain(summary)
            {
                visit(message);
            }
        }
        self.for_each_activation_mut(&mut |_, activation| for_each_message_ref(activation, visit));
    }
}
