//! The timeline of the run, as SVG: a lane for each role, a bar for each attempt, a line for each
//! step and each marker of the run.
//!
//! The time axis is logarithmic, so that a millisecond is visible and an hour still fits: a hundred
//! times the duration is about three times as wide.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{AttemptEntry, AttemptOutcome, Report, RunMarker, RunMarkerKind, StepEntry};
use super::HtmlPage;
use super::activity::outcome_style;
use super::escape::esc;
use super::time::{format_duration, format_number, format_span};
use crate::excerpt::excerpt;

/// The maximum number of attempts drawn; the newest are.
const MAX_BARS: usize = 400;
/// The maximum number of lanes drawn.
const MAX_LANES: usize = 60;
const LANE_HEIGHT: f64 = 34.0;
const BAR_HEIGHT: f64 = 22.0;
/// The height of the row with the steps' labels above the lanes, and of the two rows with the run's
/// markers below them.
const HEAD_HEIGHT: f64 = 26.0;
const FOOT_HEIGHT: f64 = 40.0;
/// The estimated width of a character in a label.
const CHAR_WIDTH: f64 = 6.5;
/// A narrower picture is stretched to this width, by at most this factor.
const MIN_WIDTH: f64 = 900.0;
const MAX_STRETCH: f64 = 5.0;
/// The width that is reserved for a label at the right end.
const TAIL_WIDTH: f64 = 130.0;

/// Writes the timeline, with the names of the lanes next to it.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    let all: Vec<&AttemptEntry> = report.attempts.iter().collect();
    if all.is_empty() {
        return;
    }
    page.open_section("timeline", "Timeline", None);
    let bars = &all[all.len().saturating_sub(MAX_BARS)..];
    let lanes: Vec<usize> = bars
        .iter()
        .map(|bar| bar.role)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    note_omitted(page, report, bars.len(), lanes.len());
    let lanes = &lanes[..lanes.len().min(MAX_LANES)];
    let first = bars
        .iter()
        .map(|bar| bar.events.0)
        .min()
        .unwrap_or_default();
    let steps: Vec<&StepEntry> = report
        .steps
        .iter()
        .filter(|step| step.start_event + 1 >= first)
        .collect();
    let marks: Vec<&RunMarker> = report
        .markers
        .iter()
        .filter(|mark| mark.event + 2 >= first)
        .collect();
    let scale = TimeScale::from_entries(bars, &steps, &marks);
    write_lane_names(page, report, lanes);
    let width = scale.width + TAIL_WIDTH;
    let high = HEAD_HEIGHT + LANE_HEIGHT * lanes.len() as f64 + FOOT_HEIGHT;
    page.write(format_args!(
        "</ul><div class=\"scroll\" tabindex=\"0\"><svg role=\"img\" aria-label=\"What roles did in time\" width=\"{width:.0}\" \
         height=\"{high:.0}\" viewBox=\"0 0 {width:.0} {high:.0}\" preserveAspectRatio=\"none\">\n"
    ));
    for place in 0..lanes.len() {
        let y = HEAD_HEIGHT + LANE_HEIGHT * place as f64;
        let class = if place % 2 == 0 { "lane" } else { "lane odd" };
        page.write(format_args!(
            "<rect class=\"{class}\" y=\"{y}\" width=\"100%\" height=\"{LANE_HEIGHT}\"/>\n"
        ));
    }
    draw_steps(page, &steps, &scale, high);
    draw_marks(page, &marks, &scale, high);
    for bar in bars {
        if let Some(lane) = lanes.iter().position(|lane| *lane == bar.role) {
            draw_bar(
                page,
                bar,
                &scale,
                HEAD_HEIGHT + LANE_HEIGHT * lane as f64 + (LANE_HEIGHT - BAR_HEIGHT) / 2.0,
            );
        }
    }
    page.write(format_args!("</svg></div></div>\n"));
    write_legend(page, bars);
    page.close_section();
}

/// Writes how many attempts and lanes are not drawn.
fn note_omitted(page: &mut HtmlPage, report: &Report, bars: usize, lanes: usize) {
    if report.attempts.total() > bars {
        let (drawn, all) = (format_number(bars), format_number(report.attempts.total()));
        page.write(format_args!(
            "<p class=\"cut\">Showing the newest {drawn} of {all} attempts.</p>\n"
        ));
    }
    if lanes > MAX_LANES {
        let (drawn, all) = (format_number(MAX_LANES), format_number(lanes));
        page.write(format_args!(
            "<p class=\"cut\">Showing {drawn} of the {all} roles that were active.</p>\n"
        ));
    }
}

/// Writes the names of the lanes, next to the picture.
fn write_lane_names(page: &mut HtmlPage, report: &Report, lanes: &[usize]) {
    page.write(format_args!(
        "<div class=\"timeline\"><ul class=\"lanes\" aria-hidden=\"true\">\n"
    ));
    for lane in lanes {
        page.write(format_args!(
            "<li><span>{}</span></li>\n",
            esc(&excerpt(&report.roles[*lane], 22))
        ));
    }
}

/// Maps events to horizontal positions.
struct TimeScale {
    x_by_event: BTreeMap<u64, f64>,
    width: f64,
}

impl TimeScale {
    fn from_entries(bars: &[&AttemptEntry], steps: &[&StepEntry], marks: &[&RunMarker]) -> Self {
        // The time of each event that is drawn, and the minimum space to its left.
        let mut events: BTreeMap<u64, (i64, f64)> = BTreeMap::new();
        for step in steps {
            events.insert(step.start_event, (step.started_ms, 12.0));
        }
        for mark in marks {
            events.insert(mark.event, (mark.time_ms, 12.0));
        }
        for bar in bars {
            events.entry(bar.events.0).or_insert((bar.span_ms.0, 5.0));
            let end = events.entry(bar.events.1).or_insert((bar.span_ms.1, 26.0));
            end.1 = end.1.max(26.0);
        }
        let mut scale = Self {
            x_by_event: BTreeMap::new(),
            width: 0.0,
        };
        let mut before = events.values().next().map_or(0, |event| event.0);
        for (event, (time_ms, least)) in events {
            scale.width += duration_width(time_ms - before).max(least);
            scale.x_by_event.insert(event, scale.width);
            before = time_ms;
        }
        let stretch = (MIN_WIDTH / scale.width.max(1.0)).clamp(1.0, MAX_STRETCH);
        for x in scale.x_by_event.values_mut() {
            *x *= stretch;
        }
        scale.width *= stretch;
        scale
    }

    fn x(&self, event: u64) -> f64 {
        self.x_by_event.get(&event).copied().unwrap_or_default()
    }
}

/// Returns the width of a duration.
fn duration_width(ms: i64) -> f64 {
    let ms = ms.clamp(0, 86_400_000) as f64;
    11.0 * (1.0 + ms / 20.0).log2().min(16.0)
}

fn draw_steps(page: &mut HtmlPage, steps: &[&StepEntry], scale: &TimeScale, high: f64) {
    let mut free = 0.0;
    for step in steps {
        let x = scale.x(step.start_event);
        page.write(format_args!(
            "<path class=\"stepline\" d=\"M{x:.1} {HEAD_HEIGHT}V{:.1}\"/>",
            high - FOOT_HEIGHT
        ));
        if x >= free {
            let label = format!("step {}", step.number);
            page.write(format_args!(
                "<text class=\"steplabel\" x=\"{:.1}\" y=\"17\">{label}</text>",
                x + 3.0
            ));
            free = x + CHAR_WIDTH * (label.len() as f64 + 2.0);
        }
        page.write(format_args!("\n"));
    }
}

fn draw_marks(page: &mut HtmlPage, marks: &[&RunMarker], scale: &TimeScale, high: f64) {
    let mut free = [0.0; 2];
    for mark in marks {
        let class = match mark.kind {
            RunMarkerKind::Started => "began",
            RunMarkerKind::Stopped => "stopped",
            RunMarkerKind::Failed => "broke",
            RunMarkerKind::Changed => "changed",
        };
        let (x, text) = (scale.x(mark.event), excerpt(&mark.text, 34));
        page.write(format_args!(
            "<g class=\"mark {class}\"><title>{} at {}</title><path d=\"M{x:.1} {}V{:.1}\"/>",
            esc(&mark.text),
            crate::public_event::rfc3339(mark.time_ms),
            HEAD_HEIGHT - 4.0,
            high - FOOT_HEIGHT + 4.0
        ));
        if let Some(row) = free.iter().position(|free| x >= *free) {
            let y = high - FOOT_HEIGHT + 17.0 + 15.0 * row as f64;
            page.write(format_args!(
                "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                x + 2.0,
                esc(&text)
            ));
            free[row] = x + CHAR_WIDTH * (text.chars().count() as f64 + 2.0);
        }
        page.write(format_args!("</g>\n"));
    }
}

fn draw_bar(page: &mut HtmlPage, bar: &AttemptEntry, scale: &TimeScale, y: f64) {
    let (from, to) = (scale.x(bar.events.0), scale.x(bar.events.1));
    let (class, name, mark) = outcome_style(bar.outcome);
    let wide = (to - from).max(6.0);
    let took = format_duration(bar.span_ms.1 - bar.span_ms.0);
    page.write(format_args!(
        "<a href=\"#a{}\" class=\"bar {class}\"><title>{}.{} attempt {}: {name}, {took}</title><rect x=\"{from:.1}\" y=\"{y:.1}\" \
         width=\"{wide:.1}\" height=\"{BAR_HEIGHT}\" rx=\"4\"/>",
        bar.id,
        esc(&bar.role_name),
        esc(&bar.action),
        bar.number
    ));
    let again = if bar.number > 1 {
        format!(" #{}", bar.number)
    } else {
        String::new()
    };
    let whole = format!("{mark} {}{again}", bar.action);
    let fits = ((wide - 5.0) / CHAR_WIDTH).max(0.0) as usize;
    let text = if fits >= 4 {
        excerpt(&whole, fits.min(40))
    } else {
        mark.to_owned()
    };
    if wide >= 14.0 {
        page.write(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            from + 4.0,
            y + 15.0,
            esc(&text)
        ));
    }
    page.write(format_args!("</a>\n"));
}

fn write_legend(page: &mut HtmlPage, bars: &[&AttemptEntry]) {
    page.write(format_args!("<p class=\"legend\">"));
    for end in bars
        .iter()
        .map(|bar| bar.outcome)
        .collect::<BTreeSet<AttemptOutcome>>()
    {
        let (class, name, mark) = outcome_style(end);
        page.write(format_args!(
            "<span class=\"{class}\"><i>{mark}</i> {name}</span> "
        ));
    }
    let from = bars
        .iter()
        .map(|bar| bar.span_ms.0)
        .min()
        .unwrap_or_default();
    let to = bars
        .iter()
        .map(|bar| bar.span_ms.1)
        .max()
        .unwrap_or_default();
    let (from, to) = format_span(from, to);
    page.write(format_args!(
        "<span class=\"note\">{from} – {to}; long times are compressed.</span></p>\n"
    ));
}
