//! An index of messages: by label and by identity for the memory of each role, and by idempotency
//! key for the run. It makes look-ups possible without scanning all messages. It is never saved and
//! is extended when something is looked up: memories only grow, and most roles never look up a
//! label.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::record::id::RoleId;
use crate::record::message::{IDEMPOTENCY_KEY, Message};
use crate::record::work::ActivationKey;
use crate::state::environment::Environment;
use crate::state::messages::MessageRef;

/// The index. It contains only roles for which something was looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryIndex {
    by_role_and_label: BTreeMap<RoleId, LabelIndex>,
    contents: BTreeMap<RoleId, MemorySet>,
    idempotency_keys: IdempotencyKeyIndex,
}

/// Idempotency keys, each with the first message that has it.
#[derive(Clone, Debug, Default)]
struct IdempotencyKeyIndex {
    /// How many of the messages are indexed.
    indexed: u32,
    first: BTreeMap<String, MessageRef>,
}

/// The messages in the memory of a role.
#[derive(Clone, Debug, Default)]
struct MemorySet {
    /// How many messages of the memory are indexed.
    indexed: usize,
    messages: BTreeSet<MessageRef>,
}

/// The messages in the memory of a role, by label.
#[derive(Clone, Debug, Default)]
struct LabelIndex {
    /// How many messages of the memory are indexed.
    indexed: usize,
    by_label: BTreeMap<String, Vec<MessageRef>>,
}

impl MemoryIndex {
    /// Returns what `Environment::recent_memory` finds, at a cost that does not grow with the memory.
    pub(super) fn recent_memory(
        &mut self,
        env: &Environment,
        key: ActivationKey,
        label: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        let Some(label) = label else {
            return env.recent_memory(key, None, limit);
        };
        let mut open = env.uncommitted_memory(key);
        open.retain(|message| env.message(*message).cause_by == label);
        let labelled = self.with_label(env, key.role, label).iter().copied();
        let mut found: Vec<_> = labelled.chain(open).rev().take(limit).collect();
        found.reverse();
        env.resolve(&found)
    }

    /// Returns the messages in the memory of a role that have a label, oldest first.
    fn with_label(&mut self, env: &Environment, id: RoleId, label: &str) -> &[MessageRef] {
        let labels = self.by_role_and_label.entry(id).or_default();
        let memory = &env.role(id).memory;
        for message in memory.iter().skip(labels.indexed) {
            let label = &env.message(*message).cause_by;
            match labels.by_label.get_mut(label) {
                Some(found) => found.push(*message),
                None => {
                    labels.by_label.insert(label.clone(), alloc::vec![*message]);
                }
            }
        }
        labels.indexed = memory.len();
        labels.by_label.get(label).map_or(&[], Vec::as_slice)
    }

    /// Returns the first message with an idempotency key.
    pub(super) fn first_with_key(&mut self, env: &Environment, key: &str) -> Option<MessageRef> {
        let IdempotencyKeyIndex {
            indexed: seen,
            first,
        } = &mut self.idempotency_keys;
        for id in (*seen..env.messages.len() as u32).map(MessageRef) {
            if let Some(key) = env.message(id).meta.get(IDEMPOTENCY_KEY) {
                first.entry(key.as_str().into()).or_insert(id);
            }
        }
        *seen = env.messages.len() as u32;
        first.get(key).copied()
    }

    /// Returns whether a message is in the memory of a role.
    pub(super) fn contains(&mut self, env: &Environment, id: RoleId, message: MessageRef) -> bool {
        let remembered = self.contents.entry(id).or_default();
        let memory = &env.role(id).memory;
        remembered
            .messages
            .extend(memory.iter().skip(remembered.indexed));
        remembered.indexed = memory.len();
        remembered.messages.contains(&message)
    }
}
