//! Where in the team file a limit can be changed: the place at which it is written, or the line to
//! add. This becomes part of the message of a fault that exceeds the limit.

use std::ops::Range;

use strata_core::record::id::SlotKind;
use strata_services::plugin::{LimitAdvice, LimitTable, UnsetLimits};

use super::authored::limits::LimitsPatch;
use super::diagnostic::SourceText;

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
    let (table, span) = match (&limited.patch.span, limited.part) {
        (Some(span), SlotKind::Action(_)) => (LimitTable::Action, span),
        (Some(span), SlotKind::Think | SlotKind::Turn) => (LimitTable::Think, span),
        (Some(span), SlotKind::Guard(_) | SlotKind::SkillScript(_) | SlotKind::Summary) => {
            (LimitTable::Own, span)
        }
        (None, _) => (LimitTable::Component, limited.entry),
    };
    let mut advice = LimitAdvice::for_unset(UnsetLimits {
        table,
        location: source.format_location(span),
        current: limited.patch.limits(),
    });
    for (limit, written) in &limited.patch.written {
        advice.set(*limit, source.format_location(&written.span));
    }
    advice
}
