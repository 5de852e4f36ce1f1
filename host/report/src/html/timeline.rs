//! The timeline of the run, as SVG: a bar for each attempt and each wait for a person, in the lane of
//! its role or of its tool, and a line for each step and each marker of the run.

mod lanes;
mod scale;

use std::collections::BTreeSet;

use maud::{Markup, html};
use strata_base::text::excerpt::excerpt;
use strata_core::record::work::Work;

use self::lanes::{Bar, Lane, arrange};
use self::scale::{CHAR_WIDTH, TimeScale};
use super::super::{
    AttemptEntry, AttemptOutcome, HumanRequestEntry, Report, RunMarker, RunMarkerKind, StepEntry,
};
use super::status::Appearance;
use super::time::{format_duration, format_number, format_span};

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
/// The maximum number of characters of a marker's label.
const MARKER_CHARS: usize = 34;
/// The maximum number of characters of the name of a lane.
const LANE_CHARS: usize = 22;

/// Returns the timeline, with the names of the lanes next to it.
pub(super) fn section(report: &Report) -> Markup {
    let all: Vec<&AttemptEntry> = report.attempts.iter().collect();
    if all.is_empty() {
        return Markup::default();
    }
    let drawn = &all[all.len().saturating_sub(MAX_BARS)..];
    let first = drawn
        .iter()
        .map(|attempt| attempt.events.0)
        .min()
        .unwrap_or_default();
    let questions = report.human_requests.iter();
    let questions: Vec<&HumanRequestEntry> = questions
        .filter(|question| question.event >= first && question.call.work != Work::Answer)
        .collect();
    let end = TimeScale::end_of(report);
    let mut bars: Vec<Bar<'_>> = drawn.iter().map(|attempt| attempt_bar(attempt)).collect();
    bars.extend(questions.iter().map(|question| waiting_bar(question, end)));
    let lanes = arrange(&mut bars);
    let steps = report.steps.iter();
    let steps: Vec<&StepEntry> = steps.filter(|step| step.start_event + 1 >= first).collect();
    let markers = report.markers.iter();
    let markers: Vec<&RunMarker> = markers.filter(|marker| marker.event + 2 >= first).collect();
    let scale = TimeScale::new(&bars, &steps, &markers);
    html! {
        section #timeline aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" }
            (omissions(report, drawn.len(), lanes.len()))
            div.timeline {
                (lane_names(report, &lanes))
                div.scroll tabindex="0" { (drawing(report, (&lanes, &bars), (&steps, &markers), &scale)) }
            }
            (legend(&bars))
        }
    }
}

/// Returns the bar of an attempt.
fn attempt_bar(attempt: &AttemptEntry) -> Bar<'_> {
    let is_tool_call = matches!(attempt.call.work, Work::ToolCall { .. });
    let again = if attempt.number > 1 {
        format!(" #{}", attempt.number)
    } else {
        String::new()
    };
    Bar {
        role: attempt.role,
        tool: is_tool_call.then_some(attempt.action.as_str()),
        events: attempt.events,
        span_ms: attempt.span_ms,
        look: Appearance::of_attempt(attempt.outcome),
        has_ended: attempt.outcome != AttemptOutcome::Running,
        name: format!("{}{again}", attempt.action),
        who: format!(
            "{}.{} attempt {}",
            attempt.role_name, attempt.action, attempt.number
        ),
        target: format!("#a{}", attempt.id),
        lane: 0,
    }
}

/// Returns the bar of a question, from when it was asked until it was answered. `end` is the last event
/// and its time.
fn waiting_bar(question: &HumanRequestEntry, end: (u64, i64)) -> Bar<'_> {
    let answered = question.answer.as_ref();
    let (event, time_ms) = answered.map_or(end, |answer| (answer.event, answer.time_ms));
    Bar {
        role: question.call.role.index(),
        tool: question.tool.as_deref(),
        events: (question.event, event),
        span_ms: (question.time_ms, time_ms),
        look: Appearance {
            class: "wait",
            glyph: "?",
            word: "waiting for a person",
        },
        has_ended: answered.is_some(),
        name: "waits".into(),
        who: format!("{} waits for a person", question.role),
        target: format!("#q-{}", question.event),
        lane: 0,
    }
}

/// Returns how many attempts and lanes are not drawn.
fn omissions(report: &Report, bars: usize, lanes: usize) -> Markup {
    html! {
        @if report.attempts.total() > bars {
            p.omitted {
                "Showing the newest " (format_number(bars)) " of "
                (format_number(report.attempts.total())) " attempts."
            }
        }
        @if lanes > MAX_LANES {
            p.omitted {
                "Showing " (format_number(MAX_LANES)) " of the " (format_number(lanes)) " lanes."
            }
        }
    }
}

fn lane_names(report: &Report, lanes: &[Lane<'_>]) -> Markup {
    html! {
        ul.lanes aria-hidden="true" {
            @for lane in lanes.iter().take(MAX_LANES) {
                li.further[lane.is_further] { (lane_name(report, lane)) }
            }
        }
    }
}

fn lane_name(report: &Report, lane: &Lane<'_>) -> String {
    let name = lane.tool.unwrap_or(&report.roles[lane.role]);
    excerpt(name, LANE_CHARS)
}

fn drawing(
    report: &Report,
    (lanes, bars): (&[Lane<'_>], &[Bar<'_>]),
    (steps, markers): (&[&StepEntry], &[&RunMarker]),
    scale: &TimeScale,
) -> Markup {
    let count = lanes.len().min(MAX_LANES);
    let bottom = HEAD_HEIGHT + LANE_HEIGHT * count as f64;
    let height = bottom + FOOT_HEIGHT;
    html! {
        svg role="img" aria-label="What roles did in time" width=(px(scale.width)) height=(px(height))
            viewBox={ "0 0 " (px(scale.width)) " " (px(height)) } {
            @for (place, lane) in lanes.iter().take(count).enumerate() {
                @let y = HEAD_HEIGHT + LANE_HEIGHT * place as f64;
                rect.lane.odd[place % 2 == 1] y=(y) width="100%" height=(LANE_HEIGHT) {}
                text.lane-name x="4" y=(px(y + 10.0)) { (lane_name(report, lane)) }
            }
            (step_lines(steps, scale, bottom))
            (marker_lines(markers, scale, bottom))
            @for bar in bars.iter().filter(|bar| bar.lane < count) { (bar_shape(bar, scale)) }
        }
    }
}

/// Returns a line for each step, and its label with the time since the first one drawn. Labels that
/// would overlap are left out.
fn step_lines(steps: &[&StepEntry], scale: &TimeScale, bottom: f64) -> Markup {
    let mut free = 0.0;
    let start_ms = steps.first().map_or(0, |step| step.started_ms);
    let mut label_of = |step: &StepEntry, x: f64| {
        let after = format_duration(step.started_ms - start_ms);
        let label = if step.started_ms == start_ms {
            format!("step {}", step.number)
        } else {
            format!("step {} · +{after}", step.number)
        };
        (x >= free).then(|| {
            free = x + CHAR_WIDTH * (label.chars().count() as f64 + 2.0);
            label
        })
    };
    html! {
        @for step in steps {
            @let x = scale.x(step.start_event);
            path.stepline d={ "M" (px(x)) " " (HEAD_HEIGHT) "V" (px(bottom)) } {}
            @if let Some(label) = label_of(step, x) {
                text x=(px(x + 3.0)) y="17" { (label) }
            }
        }
    }
}

/// Returns a line for each marker of the run. Labels are in two rows, so that more of them fit.
fn marker_lines(markers: &[&RunMarker], scale: &TimeScale, bottom: f64) -> Markup {
    let mut free = [0.0; 2];
    let mut place_label = |marker: &RunMarker, x: f64| {
        let text = excerpt(&marker.text, MARKER_CHARS);
        let row = free.iter().position(|free| x >= *free)?;
        free[row] = x + CHAR_WIDTH * (text.chars().count() as f64 + 2.0);
        Some((text, bottom + 17.0 + 15.0 * row as f64))
    };
    html! {
        @for marker in markers {
            @let x = scale.x(marker.event);
            g.marker.(marker_class(marker.kind)) {
                title { (marker.text) " at " (strata_base::clock::rfc3339(marker.time_ms)) }
                path d={ "M" (px(x)) " " (px(HEAD_HEIGHT - 4.0)) "V" (px(bottom + 4.0)) } {}
                @if let Some((text, y)) = place_label(marker, x) {
                    text x=(px(x + 2.0)) y=(px(y)) { (text) }
                }
            }
        }
    }
}

fn marker_class(kind: RunMarkerKind) -> &'static str {
    match kind {
        RunMarkerKind::Started => "began",
        RunMarkerKind::Stopped => "stopped",
        RunMarkerKind::Failed => "broke",
        RunMarkerKind::Changed => "changed",
    }
}

/// Returns a bar. Its label is in a drawing of its own, which cuts it off at the end of the bar.
fn bar_shape(bar: &Bar<'_>, scale: &TimeScale) -> Markup {
    let (from, to) = (scale.x(bar.events.0), scale.x(bar.events.1));
    let y = HEAD_HEIGHT + LANE_HEIGHT * bar.lane as f64 + (LANE_HEIGHT - BAR_HEIGHT) / 2.0;
    let width = (to - from).max(6.0);
    let took = format_duration(bar.span_ms.1 - bar.span_ms.0);
    let label = bar_label(bar, &took, width);
    html! {
        a.bar.(bar.look.class) href=(bar.target) {
            title { (bar.who) ": " (bar.look.word) ", " (took) }
            rect x=(px(from)) y=(px(y)) width=(px(width)) height=(BAR_HEIGHT) rx="4" {}
            @if !label.is_empty() {
                svg x=(px(from)) y=(px(y)) width=(px(width)) height=(BAR_HEIGHT) {
                    text x="5" y="15" { (label) }
                }
            }
        }
    }
}

/// Returns as much of a label as fits: with the duration, without it, or the symbol alone.
fn bar_label(bar: &Bar<'_>, took: &str, width: f64) -> String {
    let room = ((width - 8.0) / CHAR_WIDTH).max(0.0) as usize;
    let fits = |label: &String| label.chars().count() <= room;
    let name = format!("{} {}", bar.look.glyph, bar.name);
    let whole = if bar.has_ended {
        format!("{name} {took}")
    } else {
        name.clone()
    };
    let candidates = [
        whole,
        excerpt(&name, room.max(3)),
        bar.look.glyph.to_owned(),
    ];
    let mut fitting = candidates.into_iter().filter(fits);
    match room {
        0 if width >= 14.0 => bar.look.glyph.to_owned(),
        _ => fitting.next().unwrap_or_default(),
    }
}

fn legend(bars: &[Bar<'_>]) -> Markup {
    let looks: BTreeSet<_> = bars
        .iter()
        .map(|bar| (bar.look.word, bar.look.class, bar.look.glyph))
        .collect();
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
    html! {
        p.legend {
            @for (word, class, glyph) in looks { span.(class) { i { (glyph) } " " (word) } " " }
            span.note { (from) " – " (to) "; long times are compressed." }
        }
    }
}

/// Returns a coordinate with one decimal.
fn px(number: f64) -> String {
    format!("{number:.1}")
}
