//! A message from outside of the team: read, written, and read again, it is the same.

use strata_host::storage::team_json;

use crate::Taker;

/// One line of a stranger's.
pub(super) fn letter() -> Taker {
    Box::new(take)
}

fn take(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(message) = team_json::parse_external_message(text) else {
        return;
    };
    let written = team_json::external_message_json(&message, &[]);
    let again = team_json::parse_external_message(&written)
        .unwrap_or_else(|error| panic!("{error}: {written}"));
    // Where it is to go is said beside the message, not in it.
    assert_eq!(
        (again.content, again.cause_by, again.instruct),
        (message.content, message.cause_by, message.instruct)
    );
}
