//! What a fault says of the limit it ran into: where in the team file it is written, or what to add and where.

use std::ops::Range;

use strata_core::id::Part;

use super::authored::limits::Patch;
use super::diagnostic::Source;
use super::units::{show_duration, show_size};
use crate::plugin::{Advice, Limit, Limits, Unit};

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
            Some(written) => source.place(&written.span),
            None => to_add(source, limited, &limits, limit),
        };
        advice.set(limit, place);
    }
    advice
}

/// The line to add, with twice of what was allowed, and where it goes.
fn to_add(source: &Source, limited: &Limited<'_>, limits: &Limits, limit: Limit) -> String {
    let key = limit.key();
    let twice = show(limit, limits.get(limit).unwrap_or_default().saturating_mul(2));
    let value = if limit.unit() == Unit::Count { twice } else { format!("\"{twice}\"") };
    match (&limited.patch.span, limited.part) {
        (Some(table), Part::Action(_)) => {
            format!("add `{key} = {value}` to `[role.action.limits]`, {}", source.place(table))
        }
        (Some(table), Part::Think) => format!("add `{key} = {value}` to `limits` of `think`, {}", source.place(table)),
        (None, _) => format!("add `limits = {{ {key} = {value} }}`, {}", source.place(limited.entry)),
    }
}

/// A limit's value for people.
pub(super) fn show(limit: Limit, value: u64) -> String {
    match limit.unit() {
        Unit::Bytes => show_size(value),
        Unit::Milliseconds => show_duration(std::time::Duration::from_millis(value)),
        Unit::Count => value.to_string(),
    }
}
