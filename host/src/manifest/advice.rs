//! Where in the team file a limit can be changed: the place at which it is written, or the line to
//! add. This becomes part of the message of a fault that exceeds the limit.

use std::ops::Range;

use strata_core::id::Part;

use super::authored::limits::Patch;
use super::diagnostic::Source;
use crate::plugin::{Advice, Limit, Limits, Place};

/// A component, and where its limits are written or could be added.
pub(super) struct Limited<'a> {
    /// Whether the component is an action or what a role thinks with.
    pub(super) part: Part,
    /// The span of the header of its table.
    pub(super) entry: &'a Range<usize>,
    /// Its own limits, completed with those of the team.
    pub(super) patch: &'a Patch,
}

/// Returns, for each limit, where it can be changed.
pub(super) fn advice(source: &Source, limited: &Limited<'_>) -> Advice {
    let limits = limited.patch.limits();
    let mut advice = Advice::default();
    for limit in Limit::ALL {
        let place = match limited.patch.written.get(&limit) {
            Some(written) => Place::Written(source.place(&written.span)),
            None => to_add(source, limited, &limits, limit),
        };
        advice.set(limit, place);
    }
    advice
}

/// Returns the line that sets a limit which is not written, and where to add it.
fn to_add(source: &Source, limited: &Limited<'_>, limits: &Limits, limit: Limit) -> Place {
    let key = limit.key();
    let (before, after) = match (&limited.patch.span, limited.part) {
        (Some(table), Part::Action(_)) => (
            format!("add `{key} = "),
            format!("` to `[role.action.limits]`, {}", source.place(table)),
        ),
        (Some(table), Part::Think) => (
            format!("add `{key} = "),
            format!("` to `limits` of `think`, {}", source.place(table)),
        ),
        (None, _) => (
            format!("add `limits = {{ {key} = "),
            format!(" }}`, {}", source.place(limited.entry)),
        ),
    };
    Place::Missing {
        before,
        after,
        now: limits.get(limit).unwrap_or_default(),
    }
}
