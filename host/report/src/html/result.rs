//! The section with the result, the newest output. It is not shortened.

use maud::{Markup, PreEscaped, html};
use strata_core::record::event::Status;

use super::super::{PublishedOutput, Report};
use super::markdown::render;
use super::text::{data_beside, whole_text};

/// Longer results scroll in a box of their own.
const MAX_UNFOLDED_CHARS: usize = 6_000;

/// Returns the newest output, if a role published one.
pub(super) fn section(report: &Report) -> Markup {
    html! {
        @if let Some(output) = &report.result {
            section #result aria-labelledby="result-title" {
                h2 #result-title {
                    (result_title(report)) " "
                    span.count { "by " (output.from) ", message " (output.id) " " span.label { (output.cause) } }
                }
                (document(output))
                (data_beside(&output.text, output.data.as_ref()))
            }
        }
    }
}

/// Returns the text rendered as Markdown, and its source.
fn document(output: &PublishedOutput) -> Markup {
    let shown = &output.text.shown;
    if shown.trim().is_empty() && output.text.hidden_chars == 0 {
        return html! { p.none { "an empty text" } };
    }
    // JSON is not rendered as Markdown.
    if serde_json::from_str::<serde::de::IgnoredAny>(shown).is_ok() {
        return whole_text(&output.text);
    }
    let is_long = shown.chars().count() > MAX_UNFOLDED_CHARS;
    html! {
        div.document.long[is_long] tabindex="0" { (PreEscaped(render(shown))) }
        details.source {
            summary { "As it was written" }
            (whole_text(&output.text))
        }
    }
}

/// Returns the title of the newest output.
pub(super) fn result_title(report: &Report) -> &'static str {
    if report.overview.status == Status::Done {
        "Result"
    } else {
        "Newest output"
    }
}
