//! Where in the team file a limit can be changed: the place at which it is written, or the line to
//! add. This becomes part of the message of a fault that exceeds the limit.

use std::ops::Range;

use strata_core::record::id::SlotKind;
use strata_services::plugin::{LimitAdvice, LimitTable, UnsetLimits, script};

use super::authored::limits::LimitsPatch;
use super::authored::slot::AuthoredSlot;
use super::diagnostic::SourceText;

/// A component, and where its limits are written or could be added.
pub(super) struct LimitContext<'a> {
    /// Whether the component is an action or what a role thinks with.
    part: SlotKind,
    /// The span of the header of its table.
    entry: &'a Range<usize>,
    /// Its own limits, completed with those of the team.
    patch: &'a LimitsPatch,
    /// The span of the limits of the team, if it has any.
    team: Option<&'a Range<usize>>,
    /// Whether what it runs comes with each call. Its table may be `[[role.tool]]`, not that of an action.
    is_passed_script: bool,
}

impl<'a> LimitContext<'a> {
    /// Describes the component of a slot. `patch` has its limits, completed with `defaults`, those of the team.
    pub(super) fn new(
        part: SlotKind,
        slot: &'a AuthoredSlot,
        patch: &'a LimitsPatch,
        defaults: &'a LimitsPatch,
    ) -> Self {
        let component = slot.component.as_ref();
        Self {
            part,
            entry: &slot.span,
            patch,
            team: defaults.span.as_ref(),
            is_passed_script: component
                .is_some_and(|component| script::is_passed_script(&component.value)),
        }
    }
}

/// Returns, for each limit, where it can be changed.
pub(super) fn limit_advice(source: &SourceText, limited: &LimitContext<'_>) -> LimitAdvice {
    let (table, location) = match (&limited.patch.span, limited.part) {
        // Scripts of skills have no limits of their own.
        (_, SlotKind::SkillScript(_)) => match limited.team {
            Some(span) => (LimitTable::Team, source.format_location(span)),
            None => (LimitTable::NewTeam, source.name.clone()),
        },
        (Some(span), SlotKind::Action(_)) if !limited.is_passed_script => {
            (LimitTable::Action, source.format_location(span))
        }
        (Some(span), SlotKind::Think | SlotKind::Turn) => {
            (LimitTable::Think, source.format_location(span))
        }
        (Some(span), SlotKind::Action(_) | SlotKind::Guard(_) | SlotKind::Summary) => {
            (LimitTable::Own, source.format_location(span))
        }
        (None, _) => (LimitTable::Component, source.format_location(limited.entry)),
    };
    let mut advice = LimitAdvice::for_unset(UnsetLimits {
        table,
        location,
        current: limited.patch.limits(),
    });
    for (limit, written) in &limited.patch.written {
        advice.set(*limit, source.format_location(&written.span));
    }
    advice
}
