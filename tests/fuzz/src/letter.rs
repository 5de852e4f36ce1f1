//! Messages from outside of the team: reading, writing and reading a message again gives the same
//! message.

use strata_host::team_json;

use crate::Taker;

/// A target that reads one line of an external program.
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
    // The recipients are stored beside the message, not in it.
    assert_eq!(
        (again.content, again.cause_by, again.instruct),
        (message.content, message.cause_by, message.instruct)
    );
}
