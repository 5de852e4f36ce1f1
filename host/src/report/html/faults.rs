//! The section with the faults.

use super::super::{Excerpt, FaultEntry, Report};
use super::HtmlPage;
use super::escape::esc;
use super::time::format_time;
use crate::excerpt::excerpt;

/// The maximum number of characters of a message in the line of its fault.
const LINE_CHARS: usize = 140;

/// Writes the faults, newest first.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.faults.total() == 0 {
        return;
    }
    page.open_section("faults", "Faults", Some(report.faults.total()));
    page.note_omitted_rows(&report.faults, "faults");
    for fault in report.faults.iter().rev() {
        write_fault(page, fault);
    }
    page.close_section();
}

fn write_fault(page: &mut HtmlPage, fault: &FaultEntry) {
    let (class, open, mark) = match fault.fixed_by {
        Some(_) => (" mended", "", "fixed"),
        None => ("", " open", fault.kind),
    };
    let kind = if fault.fixed_by.is_some() {
        format!("{} · ", fault.kind)
    } else {
        String::new()
    };
    page.write(format_args!(
        "<details class=\"fault{class}\"{open}><summary><span class=\"tag\">{mark}</span> <b>{}.{}</b> <span class=\"note\">\
         {kind}step {}, attempt {}</span> <span class=\"why\">{}</span></summary>\n<div class=\"inner\">\n",
        esc(&fault.role_name),
        esc(&fault.action),
        fault.step,
        fault.number,
        esc(&excerpt(&fault.message.shown, LINE_CHARS)),
    ));
    page.write_whole_text(&fault.message);
    write_lines(
        page,
        "Stack of the guest, innermost first",
        &fault.backtrace,
    );
    write_lines(
        page,
        "What it logged and wrote to its standard streams, at the end",
        &fault.log,
    );
    let digest = fault
        .digest
        .as_deref()
        .map(|digest| format!(", component <code>{}</code>", esc(digest)));
    let mended = fault.fixed_by.map(|by| format!(" Attempt {by} succeeded."));
    page.write(format_args!(
        "<p class=\"note\">{}, <a href=\"#a{}\">in the activity</a>, cause <code>{}</code>{}.{}</p>\n</div></details>\n",
        format_time(fault.time_ms),
        fault.attempt,
        fault.cause,
        digest.unwrap_or_default(),
        mended.unwrap_or_default()
    ));
}

fn write_lines(page: &mut HtmlPage, title: &str, lines: &[Excerpt]) {
    if lines.is_empty() {
        return;
    }
    page.write(format_args!("<h3>{title}</h3>\n<pre class=\"lines\">"));
    for line in lines {
        page.write(format_args!("{}\n", esc(&line.shown)));
    }
    page.write(format_args!("</pre>\n"));
}
