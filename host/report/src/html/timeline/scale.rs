//! The time axis. It is logarithmic, so that a millisecond is visible and an hour still fits: a
//! hundred times the duration is about three times as wide.

use std::collections::BTreeMap;

use super::super::super::{Report, RunMarker, StepEntry};
use super::MARKER_CHARS;
use super::lanes::Bar;

/// The estimated width of a character in a label.
pub(super) const CHAR_WIDTH: f64 = 6.8;
/// A narrower picture is stretched to this width, by at most this factor.
const MIN_WIDTH: f64 = 1_040.0;
const MAX_STRETCH: f64 = 12.0;
/// The minimum space before an event: before the end of a bar as much as its symbol takes.
const START_SPACE: f64 = 5.0;
const LINE_SPACE: f64 = 12.0;
const END_SPACE: f64 = 26.0;
/// The space right of the last event.
const MARGIN: f64 = 24.0;

/// Maps events to horizontal positions.
pub(super) struct TimeScale {
    x_by_event: BTreeMap<u64, f64>,
    /// The width of the picture.
    pub(super) width: f64,
}

impl TimeScale {
    pub(super) fn new(bars: &[Bar<'_>], steps: &[&StepEntry], markers: &[&RunMarker]) -> Self {
        // The time of each event that is drawn, and the minimum space to its left.
        let mut events: BTreeMap<u64, (i64, f64)> = BTreeMap::new();
        for step in steps {
            events.insert(step.start_event, (step.started_ms, LINE_SPACE));
        }
        for marker in markers {
            events.insert(marker.event, (marker.time_ms, LINE_SPACE));
        }
        for bar in bars {
            let (start, end) = bar.events;
            events.entry(start).or_insert((bar.span_ms.0, START_SPACE));
            let end = events.entry(end).or_insert((bar.span_ms.1, END_SPACE));
            end.1 = end.1.max(END_SPACE);
        }
        let mut x_by_event = BTreeMap::new();
        let (mut x, mut before) = (0.0, events.values().next().map_or(0, |event| event.0));
        for (event, (time_ms, least)) in events {
            x += duration_width(time_ms - before).max(least);
            x_by_event.insert(event, x);
            before = time_ms;
        }
        let stretch = (MIN_WIDTH / f64::max(x, 1.0)).clamp(1.0, MAX_STRETCH);
        x_by_event.values_mut().for_each(|x| *x *= stretch);
        let mut scale = Self {
            x_by_event,
            width: x * stretch + MARGIN,
        };
        for marker in markers {
            let label = CHAR_WIDTH * marker.text.chars().count().min(MARKER_CHARS + 1) as f64;
            scale.width = scale
                .width
                .max(scale.x(marker.event) + label + MARGIN / 2.0);
        }
        scale
    }

    /// Returns the number and the time of the end of what is reported.
    pub(super) fn end_of(report: &Report) -> (u64, i64) {
        let attempts = report.attempts.iter().map(|attempt| attempt.events.1);
        let questions = report
            .human_requests
            .iter()
            .map(|question| question.event + 1);
        let markers = report.markers.iter().map(|marker| marker.event);
        let last = attempts.chain(questions).chain(markers).max();
        let time_ms = report.overview.span_ms.map_or(0, |(_, last_ms)| last_ms);
        (last.unwrap_or_default(), time_ms)
    }

    pub(super) fn x(&self, event: u64) -> f64 {
        self.x_by_event.get(&event).copied().unwrap_or_default()
    }
}

/// Returns the width of a duration.
fn duration_width(ms: i64) -> f64 {
    let ms = ms.clamp(0, 86_400_000) as f64;
    11.0 * (1.0 + ms / 20.0).log2().min(16.0)
}
