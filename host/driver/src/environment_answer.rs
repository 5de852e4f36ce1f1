//! Answers to the requests of guests that read the environment, in live runs and in replays.

use std::sync::Arc;

use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultCause;
use strata_core::record::json::Json;
use strata_core::record::message::Message;
use strata_core::record::scope_write::Write;
use strata_core::record::work::ActivationKey;
use strata_core::state::environment::scope::ScopeKey;

use strata_services::gateway::{EnvironmentRequest, HostAnswer, HostError, HostErrorKind};

/// Answers what an attempt in this activation asks about the environment. The stepper is changed only
/// in its index of messages.
pub fn answer_from_environment(
    stepper: &mut Stepper,
    activation: ActivationKey,
    request: EnvironmentRequest,
) -> HostAnswer {
    match request {
        EnvironmentRequest::Get {
            scope,
            key,
            last_read,
            pending,
        } => {
            let (scope, key) = (scope.as_str(), key.as_str());
            let key = ScopeKey { scope, key };
            read_key(stepper, activation, key, last_read, &pending)
        }
        EnvironmentRequest::Keys { scope, pending } => {
            list_keys(stepper, activation, &scope, &pending)
        }
        EnvironmentRequest::Recent {
            limit,
            max_bytes,
            label,
        } => {
            let recent = stepper.recent_memory(activation, label.as_deref(), limit as usize);
            recall(recent, max_bytes)
        }
    }
}

/// Returns the value of a key as an attempt in this activation sees it: with its own writes applied.
/// `last_read` is the value that it read last, and `pending` are its writes to the key since then.
fn read_key(
    stepper: &Stepper,
    activation: ActivationKey,
    key: ScopeKey<'_>,
    last_read: Option<Option<Json>>,
    pending: &[Write],
) -> HostAnswer {
    let scope = key.scope;
    let value = stepper
        .env()
        .read_key(stepper.team(), activation, key, last_read, pending);
    HostAnswer::Value(value.ok_or_else(|| unknown_scope_error(stepper, scope)))
}

/// Returns the keys of a scope as an attempt in this activation sees them. `pending` are its writes to the
/// scope.
fn list_keys(
    stepper: &Stepper,
    activation: ActivationKey,
    scope: &str,
    pending: &[Write],
) -> HostAnswer {
    let keys = stepper
        .env()
        .scope_keys(stepper.team(), activation, scope, pending);
    HostAnswer::Keys(keys.ok_or_else(|| unknown_scope_error(stepper, scope)))
}

/// Returns the newest of these messages that have at most this many bytes of text and structured
/// content together. The messages are ordered from the oldest to the newest.
fn recall(mut messages: Vec<Arc<Message>>, max_bytes: u32) -> HostAnswer {
    let mut left = max_bytes as usize;
    let mut omitted = messages.len();
    for message in messages.iter().rev() {
        let data = message.instruct.as_ref();
        let size = message.content.len() + data.map_or(0, |data| data.value.as_str().len());
        let Some(rest) = left.checked_sub(size) else {
            break;
        };
        left = rest;
        omitted -= 1;
    }
    HostAnswer::Messages(messages.split_off(omitted))
}

fn unknown_scope_error(stepper: &Stepper, name: &str) -> HostError {
    let scopes: Vec<_> = stepper
        .team()
        .scopes
        .keys()
        .map(|scope| format!("`{scope}`"))
        .collect();
    let known = if scopes.is_empty() {
        String::new()
    } else {
        format!(", {}", scopes.join(", "))
    };
    let message =
        format!("there is no scope `{name}`; scopes are `role`{known}; add `[env.scope.{name}]`");
    HostError::new(HostErrorKind::Invalid, message).caused_by(FaultCause::NoScope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_messages_are_recalled_as_far_as_they_fit() {
        let message = |content: &str| {
            let message = Message::from_user("m".into(), content.into(), "label".into());
            Arc::new(message)
        };
        let check = |max_bytes, expected: &[&str]| {
            let messages = vec![message("1"), message("four"), message("22")];
            let HostAnswer::Messages(found) = recall(messages, max_bytes) else {
                panic!("no messages");
            };
            let found: Vec<&str> = found.iter().map(|found| &*found.content).collect();
            assert_eq!(found, expected, "{max_bytes}");
        };
        check(7, &["1", "four", "22"]);
        check(6, &["four", "22"]);
        // An older message that would fit is left out with the one that does not.
        check(3, &["22"]);
        check(1, &[]);
    }
}
