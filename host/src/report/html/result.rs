//! The result: the newest output, whole, as the first thing on the page.

use super::super::{Output, Report};
use super::Page;
use super::escape::esc;
use super::markdown::render;

/// A longer result is folded after its beginning.
const LONG_CHARS: usize = 6_000;

/// The newest output, where a role published any.
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

/// The text as the document that it is, and as it was written.
fn text(page: &mut Page, output: &Output) {
    let shown = &output.text.shown;
    if shown.trim().is_empty() && output.text.cut == 0 {
        page.put(format_args!("<p class=\"none\">an empty text</p>\n"));
        return;
    }
    // Data is no document.
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
