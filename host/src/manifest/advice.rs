//! What a fault says of the limit it ran into: where in the team file it is written, or what to add and where.

use std::ops::Range;

use strata_core::id::Part;

use super::authored::limits::Patch;
use super::diagnostic::Source;
use crate::plugin::{Advice, Limit, Limits, Place};

/// Where the limits of a component are, or could be.
pub(super) struct Limited<'a> {
    /// Whose they are.
    pub(super) part: Part,
    /// The head of its table.
    pub(super) entry: &'a Range<usize>,
    /// Its own limits, with the team's where it has none.
    pub(super) patch: &'a Patch,
}

/// Says for each limit where it can be changed.
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

/// The line to add, and where it goes.
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
