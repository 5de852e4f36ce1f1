//! What a team file may say and this version cannot do yet. Each is an error, so that nothing is silently left out.

use std::ops::Range;

use super::authored::Authored;
use super::diagnostic::Problems;

/// Reports what cannot be done yet.
pub(super) fn check(authored: &Authored, problems: &Problems) {
    let refuse = |span: &Range<usize>, what: &str| {
        let message = format!("{what} not supported by this version yet");
        problems.add(problems.at(span, message));
    };
    for role in &authored.roles {
        let actions = role.actions.iter().map(|action| &action.slot);
        for slot in actions.chain(role.think.iter().map(|think| &think.value)) {
            if let Some(span) = &slot.allow.http {
                refuse(span, "`allow.http` is");
            }
            if let Some(span) = &slot.allow.secrets {
                refuse(span, "`allow.secrets` is");
            }
        }
    }
}
