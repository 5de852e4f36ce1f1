//! The symbol, the word and the colour of statuses and outcomes. The colour never stands alone.

use maud::{Markup, html};
use strata_core::record::event::Status;

use super::super::{AttemptOutcome, Report, ToolCallEntryOutcome};

/// How something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Appearance {
    /// The CSS class: `ok`, `bad`, `held` (somebody has to act), `cut` (stopped) or `live`.
    pub(super) class: &'static str,
    /// The symbol.
    pub(super) glyph: &'static str,
    /// The word.
    pub(super) word: &'static str,
}

const fn appearance(class: &'static str, glyph: &'static str, word: &'static str) -> Appearance {
    Appearance { class, glyph, word }
}

impl Appearance {
    /// Returns how the status of a run is shown.
    pub(super) fn of_status(status: Status) -> Self {
        match status {
            Status::Running => appearance("live", "●", "running"),
            Status::Done => appearance("ok", "✓", "done"),
            Status::Waiting => appearance("held", "?", "waiting for a person"),
            Status::Paused => appearance("held", "‖", "paused"),
            Status::OutOfBudget => appearance("held", "$", "out of budget"),
            Status::StepLimit => appearance("held", "↧", "step limit reached"),
            Status::Failed => appearance("bad", "✕", "failed"),
            Status::InDoubt => appearance("bad", "‼", "in doubt"),
            Status::Stalled => appearance("bad", "⊟", "stalled"),
            Status::Interrupted => appearance("cut", "↯", "interrupted"),
            Status::Cancelled => appearance("cut", "⊘", "cancelled"),
        }
    }

    /// Returns how the status of the reported run is shown. A run that is saved as running although no
    /// process works on it is cut off.
    pub(super) fn of_run(report: &Report) -> Self {
        let mut standing = report.standing.iter();
        if standing.any(|standing| standing.is_cut_off) {
            appearance("cut", "↯", "cut off")
        } else {
            Self::of_status(report.overview.status)
        }
    }

    /// Returns how the end of an attempt is shown.
    pub(super) fn of_attempt(outcome: AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Finished => appearance("ok", "✓", "finished"),
            AttemptOutcome::Failed => appearance("bad", "✕", "failed"),
            AttemptOutcome::Interrupted => appearance("cut", "↯", "interrupted"),
            AttemptOutcome::Killed => appearance("cut", "↯", "the host was killed"),
            AttemptOutcome::Suspended => appearance("held", "$", "suspended: out of budget"),
            AttemptOutcome::AskedHuman => appearance("held", "?", "asked a person"),
            AttemptOutcome::Running => appearance("live", "●", "running"),
        }
    }

    /// Returns how the outcome of a tool call is shown.
    pub(super) fn of_tool_call(outcome: ToolCallEntryOutcome) -> Self {
        match outcome {
            ToolCallEntryOutcome::Returned => appearance("ok", "✓", "returned"),
            ToolCallEntryOutcome::FaultReturned => {
                appearance("bad", "✕", "failed; the model was told")
            }
            ToolCallEntryOutcome::Rejected => appearance("bad", "✕", "rejected"),
            ToolCallEntryOutcome::Declined => appearance("cut", "⊘", "declined by a person"),
            ToolCallEntryOutcome::Failed => appearance("bad", "✕", "failed"),
            ToolCallEntryOutcome::WaitsForHuman => appearance("held", "?", "waits for a person"),
            ToolCallEntryOutcome::Open => appearance("live", "●", "not finished"),
        }
    }

    /// Returns the symbol and the word.
    pub(super) fn tag(self) -> Markup {
        html! { span.tag.(self.class) { (self.glyph) " " (self.word) } }
    }

    /// Returns the symbol alone where success is the rule, and a tag otherwise.
    pub(super) fn mark(self) -> Markup {
        html! {
            @if self.class == "ok" {
                span.mark.ok title=(self.word) { (self.glyph) }
            } @else {
                (self.tag())
            }
        }
    }
}
