//! The section with the result, the newest output. It comes first on the page and is not shortened.

use super::super::{Output, Report};
use super::Page;
use super::escape::esc;
use super::markdown::render;

/// Longer results are folded after their beginning.
const LONG_CHARS: usize = 6_000;

/// Writes the newest output, if a role published one.
pub(super) fn section(page: &mut Page, report: &Report) {
    let Some(output) = &report.result else { return };
    let title = if report.facts.status == "done" {
        "Result"
    } else {
        "Newest output"
    };
    page.open("result", title, None);
    page.put(format_args!(
        "<p class=\"note\"><b>{}</b> <span class=\"label\">{}</span> <span class=\"id\">{}</span></p>\n",
        esc(&output.from),
        esc(&output.cause),
        esc(&output.id)
    ));
    text(page, output);
    if let Some(data) = output
        .data
        .as_ref()
        .filter(|data| data.shown != output.text.shown)
    {
        page.put(format_args!(
            "<div class=\"data\"><span class=\"note\">data</span> "
        ));
        page.text(data);
        page.put(format_args!("</div>"));
    }
    page.close();
}

/// Writes the text rendered as Markdown, and its source.
fn text(page: &mut Page, output: &Output) {
    let shown = &output.text.shown;
    if shown.trim().is_empty() && output.text.cut == 0 {
        page.put(format_args!("<p class=\"none\">an empty text</p>\n"));
        return;
    }
    // JSON is not rendered as Markdown.
    if serde_json::from_str::<serde_json::Value>(shown).is_ok() {
        page.whole(&output.text);
        return;
    }
    let long = if shown.chars().count() > LONG_CHARS {
        " long"
    } else {
        ""
    };
    page.put(format_args!(
        "<div class=\"document{long}\" tabindex=\"0\">\n{}</div>\n",
        render(shown)
    ));
    page.put(format_args!(
        "<details class=\"source\"><summary>As it was written</summary>"
    ));
    page.whole(&output.text);
    page.put(format_args!("</details>\n"));
}
