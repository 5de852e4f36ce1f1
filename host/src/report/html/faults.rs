//! The section with the faults.

use super::super::{Fault, Report, Text};
use super::Page;
use super::escape::esc;
use super::time::moment;
use crate::excerpt::excerpt;

/// The maximum number of characters of a message in the line of its fault.
const LINE_CHARS: usize = 140;

/// Writes the faults, newest first.
pub(super) fn section(page: &mut Page, report: &Report) {
    if report.faults.all() == 0 {
        return;
    }
    page.open("faults", "Faults", Some(report.faults.all()));
    page.gap(&report.faults, "faults");
    for fault in report.faults.iter().rev() {
        one(page, fault);
    }
    page.close();
}

fn one(page: &mut Page, fault: &Fault) {
    let (class, open, mark) = match fault.mended {
        Some(_) => (" mended", "", "fixed"),
        None => ("", " open", fault.kind),
    };
    let kind = if fault.mended.is_some() {
        format!("{} · ", fault.kind)
    } else {
        String::new()
    };
    page.put(format_args!(
        "<details class=\"fault{class}\"{open}><summary><span class=\"tag\">{mark}</span> <b>{}.{}</b> <span class=\"note\">\
         {kind}step {}, attempt {}</span> <span class=\"why\">{}</span></summary>\n<div class=\"inner\">\n",
        esc(&fault.who),
        esc(&fault.action),
        fault.step,
        fault.number,
        esc(&excerpt(&fault.message.shown, LINE_CHARS)),
    ));
    page.whole(&fault.message);
    lines(
        page,
        "Stack of the guest, innermost first",
        &fault.backtrace,
    );
    lines(
        page,
        "What it logged and wrote to its standard streams, at the end",
        &fault.log,
    );
    let digest = fault
        .digest
        .as_deref()
        .map(|digest| format!(", component <code>{}</code>", esc(digest)));
    let mended = fault.mended.map(|by| format!(" Attempt {by} succeeded."));
    page.put(format_args!(
        "<p class=\"note\">{}, <a href=\"#a{}\">in the activity</a>, cause <code>{}</code>{}.{}</p>\n</div></details>\n",
        moment(fault.time_ms),
        fault.attempt,
        fault.cause,
        digest.unwrap_or_default(),
        mended.unwrap_or_default()
    ));
}

fn lines(page: &mut Page, title: &str, lines: &[Text]) {
    if lines.is_empty() {
        return;
    }
    page.put(format_args!("<h3>{title}</h3>\n<pre class=\"lines\">"));
    for line in lines {
        page.put(format_args!("{}\n", esc(&line.shown)));
    }
    page.put(format_args!("</pre>\n"));
}
