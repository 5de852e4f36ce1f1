//! Writes a report as one self-contained HTML page.
//!
//! Whatever a guest, a model or a human wrote is untrusted. It is escaped (`escape`); it is used in
//! no attribute except for ids, which the host creates, and for links that `markdown` found to be
//! harmless; and it is never part of a script, since scripts receive no data. The page's content
//! security policy allows only its own script and styles, identified by their digests. Each section
//! of the page has a file of its own.

mod activity;
mod calls;
mod conversations;
mod costs;
mod escape;
mod faults;
mod markdown;
mod messages;
mod overview;
mod result;
mod states;
mod time;
mod timeline;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Excerpt, FirstAndNewest, MessagePart, Report};
use crate::excerpt::excerpt;
use crate::sha256::sha256;
use escape::esc;

const CSS: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// Longer texts are folded.
const FOLD_CHARS: usize = 160;

/// Renders the page.
pub fn page(report: &Report) -> String {
    let mut page = HtmlPage(String::new());
    let title = esc(&report.overview.team);
    page.write(format_args!(
        "<!doctype html>\n<!-- strata-host report -->\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"{}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title} – {} – strata-host report</title>\n<style>{CSS}</style>\n</head>\n<body>\n",
        security_policy(report),
        report.overview.status,
    ));
    overview::head(&mut page, report);
    page.write(format_args!("<main>\n"));
    result::section(&mut page, report);
    overview::summary(&mut page, report);
    faults::section(&mut page, report);
    timeline::section(&mut page, report);
    conversations::section(&mut page, report);
    activity::section(&mut page, report);
    overview::picture(&mut page, report);
    messages::section(&mut page, report);
    calls::section(&mut page, report);
    calls::human_requests(&mut page, report);
    costs::section(&mut page, report);
    states::section(&mut page, report);
    states::lineages(&mut page, report);
    page.write(format_args!("</main>\n"));
    overview::omissions(&mut page, report);
    page.write(format_args!(
        "<script>{SCRIPT}</script>\n</body>\n</html>\n"
    ));
    page.0
}

/// Returns the content security policy, which allows only the page's own script and styles, and the
/// images that it contains.
fn security_policy(report: &Report) -> String {
    let of = |text: &str| format!("'sha256-{}'", STANDARD.encode(sha256(text)));
    let picture = report
        .picture
        .as_deref()
        .ok()
        .and_then(embedded_style)
        .map(|style| format!(" {}", of(style)));
    let parts = report.messages.iter().flat_map(|message| &message.parts);
    let is_image = |part: &MessagePart| matches!(part, MessagePart::Media { image: Some(_), .. });
    let has_images = parts.into_iter().any(is_image);
    let images = if has_images { "; img-src data:" } else { "" };
    format!(
        "default-src 'none'; script-src {}; style-src {}{}{images}; base-uri 'none'; form-action 'none'",
        of(SCRIPT),
        of(CSS),
        picture.unwrap_or_default()
    )
}

/// Returns the styles of a picture.
fn embedded_style(svg: &str) -> Option<&str> {
    let (_, rest) = svg.split_once("<style>")?;
    rest.split_once("</style>").map(|(style, _)| style)
}

/// The part of the page that is written so far.
struct HtmlPage(String);

impl HtmlPage {
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }

    /// Opens a section. `count`, the number of its rows, is shown after its title.
    fn open_section(&mut self, id: &str, title: &str, count: Option<usize>) {
        let count = count.map(|count| {
            format!(
                " <span class=\"count\">{}</span>",
                time::format_number(count)
            )
        });
        self.write(format_args!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}{}</h2>\n",
            count.unwrap_or_default()
        ));
    }

    fn close_section(&mut self) {
        self.write(format_args!("</section>\n"));
    }

    /// Writes a note about the rows that are left out, if there are any.
    fn note_omitted_rows<T>(&mut self, rows: &FirstAndNewest<T>, what: &str) {
        if let Some((_, count)) = rows.gap() {
            let (all, count) = (
                time::format_number(rows.total()),
                time::format_number(count),
            );
            self.write(format_args!(
                "<p class=\"cut\">Of {all} {what}, {count} are left out: the page holds the first and the newest.</p>\n"
            ));
        }
    }

    /// Writes the structured content of a message, unless its text says the same.
    fn write_data(&mut self, text: &Excerpt, data: Option<&Excerpt>) {
        if let Some(data) = data.filter(|data| data.shown != text.shown) {
            self.write(format_args!(
                "<div class=\"data\"><span class=\"note\">data</span> "
            ));
            self.write_text(data);
            self.write(format_args!("</div>"));
        }
    }

    /// Writes a text. It is folded if it is long.
    fn write_text(&mut self, text: &Excerpt) {
        if text.shown.trim().is_empty() && text.hidden_chars == 0 {
            self.write(format_args!("<span class=\"none\">nothing</span>"));
        } else if text.hidden_chars == 0
            && text.shown.chars().count() <= FOLD_CHARS
            && !text.shown.trim_end().contains('\n')
        {
            self.write(format_args!(
                "<span class=\"text\">{}</span>",
                esc(text.shown.trim_end())
            ));
        } else {
            let shown = excerpt(&text.shown, FOLD_CHARS);
            self.write(format_args!(
                "<details class=\"text\"><summary>{}</summary>",
                esc(&shown)
            ));
            self.write_whole_text(text);
            self.write(format_args!("</details>"));
        }
    }

    /// Writes a text without folding it.
    fn write_whole_text(&mut self, text: &Excerpt) {
        self.write(format_args!("<pre>{}</pre>", esc(&text.shown)));
        if text.hidden_chars > 0 {
            self.write(format_args!(
                "<p class=\"cut\">{} more characters are left out.</p>",
                time::format_number(text.hidden_chars)
            ));
        }
    }
}
