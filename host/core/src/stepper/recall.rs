//! What roles remember, by label, whether they remember a message, and which message came under a key: found without a
//! look at all of it. It is never saved, and caught up with when somebody asks: memories only grow, and most roles never
//! ask by label.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Stepper;
use crate::environment::{Environment, MessageRef};
use crate::id::RoleId;
use crate::message::{IDEMPOTENCY_KEY, Message};

/// The labels of each role that asked, and the messages of each that may be told one again.
#[derive(Clone, Debug, Default)]
pub(super) struct Recall {
    labels: BTreeMap<RoleId, Labels>,
    messages: BTreeMap<RoleId, Remembered>,
    keys: Keys,
}

/// The idempotency keys of messages, each with the first that came under it.
#[derive(Clone, Debug, Default)]
struct Keys {
    /// How many of the messages are in here.
    seen: u32,
    first: BTreeMap<String, MessageRef>,
}

#[derive(Clone, Debug, Default)]
struct Remembered {
    /// How much of the memory is in here.
    seen: usize,
    messages: BTreeSet<MessageRef>,
}

#[derive(Clone, Debug, Default)]
struct Labels {
    /// How much of the memory is in here.
    seen: usize,
    by_label: BTreeMap<String, Vec<MessageRef>>,
}

impl Recall {
    /// The messages in a role's memory with a label, oldest first.
    fn labelled(&mut self, env: &Environment, id: RoleId, label: &str) -> &[MessageRef] {
        let labels = self.labels.entry(id).or_default();
        let memory = &env.role(id).memory;
        for message in memory.iter().skip(labels.seen) {
            let label = &env.message(*message).cause_by;
            match labels.by_label.get_mut(label) {
                Some(found) => found.push(*message),
                None => drop(labels.by_label.insert(label.clone(), alloc::vec![*message])),
            }
        }
        labels.seen = memory.len();
        labels.by_label.get(label).map_or(&[], Vec::as_slice)
    }

    /// The first message that came under an idempotency key.
    pub(super) fn under(&mut self, env: &Environment, key: &str) -> Option<MessageRef> {
        let Keys { seen, first } = &mut self.keys;
        for id in (*seen..env.messages.len() as u32).map(MessageRef) {
            if let Some(key) = env.message(id).meta.get(IDEMPOTENCY_KEY) {
                first.entry(key.as_str().into()).or_insert(id);
            }
        }
        *seen = env.messages.len() as u32;
        first.get(key).copied()
    }

    /// Whether a message is in a role's memory.
    fn holds(&mut self, env: &Environment, id: RoleId, message: MessageRef) -> bool {
        let remembered = self.messages.entry(id).or_default();
        let memory = &env.role(id).memory;
        remembered
            .messages
            .extend(memory.iter().skip(remembered.seen));
        remembered.seen = memory.len();
        remembered.messages.contains(&message)
    }
}

impl Stepper {
    /// The same as `Environment::remembered`, at a cost that does not grow with the memory.
    pub fn remembered(
        &mut self,
        id: RoleId,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        let Some(label) = label else {
            return self.env.remembered(id, None, limit);
        };
        let open = self
            .env
            .role(id)
            .activation
            .iter()
            .flat_map(|activation| &activation.done);
        let open = open
            .map(|done| done.output.message)
            .filter(|made| self.env.message(*made).cause_by == label);
        let kept = self.recall.labelled(&self.env, id, label).iter().copied();
        let mut found: Vec<_> = kept
            .chain(open.collect::<Vec<_>>())
            .rev()
            .take(limit)
            .collect();
        found.reverse();
        self.env.resolve(&found)
    }

    /// Those of a role's news that it does not remember: a join may tell it again what it has read, and it may hear of
    /// what it said itself. Everything else is news of one commit, and new.
    pub(super) fn unremembered(&mut self, id: RoleId, news: &[MessageRef]) -> Vec<MessageRef> {
        let (env, recall) = (&self.env, &mut self.recall);
        let (name, joined) = (&self.team.role(id).name, self.book.is_joined(id));
        let again = |message: MessageRef| joined || env.message(message).sent_from == *name;
        news.iter()
            .copied()
            .filter(|message| !again(*message) || !recall.holds(env, id, *message))
            .collect()
    }
}
