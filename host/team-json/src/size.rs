//! The least size of the file, so that one that is too large to be read is not even begun.

use strata_core::state::environment::Environment;
use strata_core::state::messages::MessageRef;

/// The least size of a message beside its content, in bytes.
const MIN_MESSAGE_BYTES: u64 = 120;

/// Returns a size in bytes that the file of a state will not fall short of. It is computed from the
/// lengths of the messages and the numbers of their copies. Messages that were not read are not read for
/// this.
pub fn min_bytes(env: &Environment) -> u64 {
    let mut copies = vec![CopyCount::default(); env.messages.len()];
    let mut count = |id: &MessageRef, listed: u32, remembered: u32| {
        copies[id.0 as usize].listed += listed;
        copies[id.0 as usize].remembered += remembered;
    };
    for id in &env.history {
        // It is also in the list of all messages.
        count(id, 1, 1);
    }
    for role in &env.roles {
        for id in &role.memory {
            count(id, 0, 1);
        }
    }
    let mut bytes: u64 = 0;
    for span in env.messages.spans() {
        let messages = span.places.len() as u64;
        // Each memory shows a message once more under its label.
        let per_memory = if span.size.all_labelled { 2 } else { 1 };
        let of_message = |count: &CopyCount| count.listed + per_memory * count.remembered;
        let least = copies[span.places].iter().map(of_message).min();
        // The lengths come from the database, which anyone may have written.
        let size = span
            .size
            .content_bytes
            .saturating_add(messages * MIN_MESSAGE_BYTES);
        bytes = bytes.saturating_add(size.saturating_mul(u64::from(least.unwrap_or_default())));
    }
    bytes
}

/// How often the file contains a message.
#[derive(Clone, Copy, Default)]
struct CopyCount {
    /// Whether it is in the list of all messages.
    listed: u32,
    /// In how many memories it is.
    remembered: u32,
}

#[cfg(test)]
mod tests {
    use strata_base::scripted_run::{pseudorandom, scripted_events, team};
    use strata_core::record::message::Message;

    use super::*;
    use crate::{SavedDefinition, export, message_json};

    #[test]
    fn the_file_is_never_smaller_and_hardly_larger_if_most_of_it_is_messages() {
        let choices = pseudorandom(6, 8_000);
        for events in [0, 1, 50, 300, 700] {
            let (_, env) = scripted_events(&choices, events);
            let written = export(&team(), &env, &SavedDefinition::example()).len() as u64;
            let least = min_bytes(&env);
            assert!(least <= written, "{least} {written}");
            if events == 700 {
                assert!(least > written / 3, "{least} {written}");
            }
        }
    }

    #[test]
    fn no_message_is_shorter() {
        let empty = Message {
            send_to: Vec::new(),
            ..Message::from_user("".into(), String::new(), String::new())
        };
        assert!(message_json(&empty).len() as u64 >= MIN_MESSAGE_BYTES);
    }
}
