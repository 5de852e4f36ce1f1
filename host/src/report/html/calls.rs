//! The sections with the host calls and the requests to humans.

use strata_core::record::money::Usd;

use super::super::{HostCallEntry, Report};
use super::HtmlPage;
use super::escape::esc;
use super::time::{format_money, format_number, format_time};

/// How many characters of a digest are shown: enough to tell requests apart.
const DIGEST_CHARS: usize = 12;

/// Writes the host calls, oldest first.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.calls.total() == 0 {
        return;
    }
    page.open_section("calls", "Host calls", Some(report.calls.total()));
    page.note_omitted_rows(&report.calls, "host calls");
    page.write(format_args!(
        "<p class=\"search\" hidden><label>Search <input type=\"search\" data-filter=\"call-rows\"></label> <output></output></p>\n\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"calls\">\n<thead><tr><th>Who<th>Call<th>Asked<th>Answer<th class=\"num\">Tokens\
         <th class=\"num\">Cost<th>When</tr></thead>\n<tbody id=\"call-rows\">\n"
    ));
    for call in report.calls.iter() {
        write_call(page, call);
    }
    page.write(format_args!("</tbody></table></div>\n"));
    page.close_section();
}

fn write_call(page: &mut HtmlPage, call: &HostCallEntry) {
    let class = if call.recorded {
        " class=\"served\""
    } else {
        ""
    };
    let cost = match format_money(call.cost) {
        cost if call.recorded && call.cost > Usd::ZERO => {
            format!("<span class=\"saved\">{cost} saved</span>")
        }
        cost => cost,
    };
    let from = if call.recorded {
        " <span class=\"tag\" title=\"served from the journal\">journal</span>"
    } else {
        ""
    };
    let outcome = match call.outcome {
        "answered" => String::new(),
        other => format!(" <span class=\"tag bad\">{other}</span>"),
    };
    let digest: String = call.request_digest.chars().take(DIGEST_CHARS).collect();
    page.write(format_args!(
        "<tr{class}><td><a href=\"#a{}\">{}</a><td>{}{from}{outcome}<td title=\"request {}\">",
        call.attempt,
        esc(&call.caller),
        call.kind,
        esc(&digest)
    ));
    page.write_text(&call.request_summary);
    page.write(format_args!("<td>"));
    page.write_text(&call.response);
    let tokens = if call.tokens == 0 {
        "–".into()
    } else {
        format_number(call.tokens)
    };
    page.write(format_args!(
        "<td class=\"num\">{tokens}<td class=\"num\">{cost}<td class=\"when\">{}</tr>\n",
        format_time(call.time_ms)
    ));
}

/// Writes the requests to humans.
pub(super) fn human_requests(page: &mut HtmlPage, report: &Report) {
    if report.human_requests.total() == 0 {
        return;
    }
    page.open_section(
        "questions",
        "Questions to people",
        Some(report.human_requests.total()),
    );
    page.note_omitted_rows(&report.human_requests, "questions");
    page.write(format_args!("<ol class=\"messages\">\n"));
    for question in report.human_requests.iter() {
        page.write(format_args!(
            "<li><div class=\"way\"><b>{}</b> asks <span class=\"note\">{}, {}</span></div>\n",
            esc(&question.role),
            esc(&question.id),
            format_time(question.time_ms)
        ));
        page.write_text(&question.text);
        match &question.answer {
            None => page.write(format_args!("<p class=\"lost\">not answered</p>")),
            Some((by, said, time_ms)) => {
                page.write(format_args!(
                    "<p class=\"note\">{} answered, {}</p>\n",
                    esc(by),
                    format_time(*time_ms)
                ));
                page.write_text(said);
            }
        }
        page.write(format_args!("</li>\n"));
    }
    page.write(format_args!("</ol>\n"));
    page.close_section();
}
