//! Writes texts that others wrote: folded if they are long, JSON with line breaks.

use maud::{Markup, html};
use strata_base::text::excerpt::excerpt;

use super::super::{Excerpt, FirstAndNewest};
use super::json;
use super::time::{format_number, pluralize};
use strata_view::SuggestedCommand;
use strata_view::wording::shell_command;

/// Longer texts are folded.
const FOLD_CHARS: usize = 220;

/// Returns a text, folded if it is long.
pub(super) fn text(text: &Excerpt) -> Markup {
    let shown = text.shown.trim_end();
    let is_short =
        text.hidden_chars == 0 && shown.chars().count() <= FOLD_CHARS && !shown.contains('\n');
    if shown.is_empty() && text.hidden_chars == 0 {
        return html! { span.none { "nothing" } };
    }
    let pretty = json_lines(text);
    if let Some(line) = pretty
        .as_ref()
        .filter(|lines| is_short && !lines.contains('\n'))
    {
        html! { code.text { (line) } }
    } else if is_short && pretty.is_none() {
        html! { span.text { (shown) } }
    } else {
        html! {
            details.text {
                summary { (excerpt(shown, FOLD_CHARS)) }
                (block(text, pretty.as_deref()))
            }
        }
    }
}

/// Returns a text that is not folded.
pub(super) fn whole_text(text: &Excerpt) -> Markup {
    block(text, json_lines(text).as_deref())
}

fn block(text: &Excerpt, pretty: Option<&str>) -> Markup {
    html! {
        pre { (pretty.unwrap_or(&text.shown)) }
        (omitted_characters(text))
    }
}

/// Returns how many characters of a text are left out, if any.
pub(super) fn omitted_characters(text: &Excerpt) -> Markup {
    html! {
        @if text.hidden_chars > 0 {
            p.omitted { (format_number(text.hidden_chars)) " more characters are left out." }
        }
    }
}

/// Returns a text with line breaks if it is JSON.
fn json_lines(text: &Excerpt) -> Option<String> {
    json::pretty(&text.shown).filter(|_| text.hidden_chars == 0)
}

/// Returns a text with what it is.
pub(super) fn labelled(label: &str, content: &Excerpt) -> Markup {
    html! { div.labelled { span.note { (label) } " " (text(content)) } }
}

/// Returns the structured content of a message, unless its text says the same.
pub(super) fn data_beside(text: &Excerpt, data: Option<&Excerpt>) -> Markup {
    let is_same = |data: &Excerpt| {
        data.hidden_chars == text.hidden_chars && json::is_same(&text.shown, &data.shown)
    };
    html! {
        @if let Some(data) = data.filter(|data| !is_same(data)) {
            (labelled("data", data))
        }
    }
}

/// Returns lines below a title, if there are any.
pub(super) fn lines(title: &str, lines: &[Excerpt]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h4 { (title) }
            pre.lines { @for line in lines { (line.shown) "\n" } }
        }
    }
}

/// Returns commands, one below the other, each with its comment.
pub(super) fn commands<'a>(commands: impl IntoIterator<Item = &'a SuggestedCommand>) -> Markup {
    html! {
        pre.command {
            @for command in commands {
                code { (shell_command(command)) }
                @if let Some(comment) = &command.comment {
                    span.note { "   # " (comment) }
                }
                "\n"
            }
        }
    }
}

/// Returns a text of the host in which what is between backticks is code.
pub(super) fn with_code(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Returns a note about the rows that are left out, if there are any.
pub(super) fn omitted_rows<T>(rows: &FirstAndNewest<T>, what: &str) -> Markup {
    html! {
        @if let Some((_, count)) = rows.gap() {
            p.omitted {
                "Of " (format_number(rows.total())) " " (what) ", " (format_number(count))
                " are left out: the page holds the first and the newest."
            }
        }
    }
}

/// Returns a row in the place of rows that are left out.
pub(super) fn gap_row(count: usize, one: &str, many: &str) -> Markup {
    html! { li.gap { (pluralize(count, one, many)) " left out here" } }
}
