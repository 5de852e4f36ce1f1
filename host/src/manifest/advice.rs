//! Where in the team file a limit can be changed: the place at which it is written, or the line to
//! add. This becomes part of the message of a fault that exceeds the limit.

use std::ops::Range;

use strata_core::record::id::SlotKind;

use super::authored::limits::LimitsPatch;
use super::diagnostic::SourceText;
use crate::plugin::{Limit, LimitAdvice, LimitLocation, Limits};

/// A component, and where its limits are written or could be added.
pub(super) struct LimitContext<'a> {
    /// Whether the component is an action or what a role thinks with.
    pub(super) part: SlotKind,
    /// The span of the header of its table.
    pub(super) entry: &'a Range<usize>,
    /// Its own limits, completed with those of the team.
    pub(super) patch: &'a LimitsPatch,
}

/// Returns, for each limit, where it can be changed.
pub(super) fn limit_advice(source: &SourceText, limited: &LimitContext<'_>) -> LimitAdvice {
    let limits = limited.patch.limits();
    let mut advice = LimitAdvice::default();
    for limit in Limit::ALL {
        let place = match limited.patch.written.get(&limit) {
            Some(written) => LimitLocation::Set(source.format_location(&written.span)),
            None => missing_limit(source, limited, &limits, limit),
        };
        advice.set(limit, place);
    }
    advice
}

/// Returns the line that sets a limit which is not written, and where to add it.
fn missing_limit(
    source: &SourceText,
    limited: &LimitContext<'_>,
    limits: &Limits,
    limit: Limit,
) -> LimitLocation {
    let key = limit.key();
    let (before, after) = match (&limited.patch.span, limited.part) {
        (Some(table), SlotKind::Action(_)) => (
            format!("add `{key} = "),
            format!(
                "` to `[role.action.limits]`, {}",
                source.format_location(table)
            ),
        ),
        (Some(table), SlotKind::Think | SlotKind::Turn) => (
            format!("add `{key} = "),
            format!(
                "` to `limits` of `think`, {}",
                source.format_location(table)
            ),
        ),
        (None, _) => (
            format!("add `limits = {{ {key} = "),
            format!(" }}`, {}", source.format_location(limited.entry)),
        ),
    };
    LimitLocation::Unset {
        before,
        after,
        current: limits.get(limit).unwrap_or_default(),
    }
}
