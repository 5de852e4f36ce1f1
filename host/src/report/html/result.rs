//! The section with the result, the newest output. It comes first on the page and is not shortened.

use super::super::{PublishedOutput, Report};
use super::HtmlPage;
use super::escape::esc;
use super::markdown::render;

/// Longer results are folded after their beginning.
const MAX_UNFOLDED_CHARS: usize = 6_000;

/// Writes the newest output, if a role published one.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    let Some(output) = &report.result else { return };
    let title = if report.overview.status == "done" {
        "Result"
    } else {
        "Newest output"
    };
    page.open_section("result", title, None);
    page.write(format_args!(
        "<p class=\"note\"><b>{}</b> <span class=\"label\">{}</span> <span class=\"id\">{}</span></p>\n",
        esc(&output.from),
        esc(&output.cause),
        esc(&output.id)
    ));
    write_document(page, output);
    page.write_data(&output.text, output.data.as_ref());
    page.close_section();
}

/// Writes the text rendered as Markdown, and its source.
fn write_document(page: &mut HtmlPage, output: &PublishedOutput) {
    let shown = &output.text.shown;
    if shown.trim().is_empty() && output.text.hidden_chars == 0 {
        page.write(format_args!("<p class=\"none\">an empty text</p>\n"));
        return;
    }
    // JSON is not rendered as Markdown.
    if serde_json::from_str::<serde_json::Value>(shown).is_ok() {
        page.write_whole_text(&output.text);
        return;
    }
    let long = if shown.chars().count() > MAX_UNFOLDED_CHARS {
        " long"
    } else {
        ""
    };
    page.write(format_args!(
        "<div class=\"document{long}\" tabindex=\"0\">\n{}</div>\n",
        render(shown)
    ));
    page.write(format_args!(
        "<details class=\"source\"><summary>As it was written</summary>"
    ));
    page.write_whole_text(&output.text);
    page.write(format_args!("</details>\n"));
}
