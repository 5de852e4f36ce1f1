//! The sections with the host calls and the requests to humans.

use strata_core::money::Usd;

use super::super::{Call, Report};
use super::Page;
use super::escape::esc;
use super::time::{grouped, moment, money};

/// How many characters of a digest are shown: enough to tell requests apart.
const DIGEST_CHARS: usize = 12;

/// Writes the host calls, oldest first.
pub(super) fn section(page: &mut Page, report: &Report) {
    if report.calls.all() == 0 {
        return;
    }
    page.open("calls", "Host calls", Some(report.calls.all()));
    page.gap(&report.calls, "host calls");
    page.put(format_args!(
        "<p class=\"search\" hidden><label>Search <input type=\"search\" data-filter=\"call-rows\"></label> <output></output></p>\n\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"calls\">\n<thead><tr><th>Who<th>Call<th>Asked<th>Answer<th class=\"num\">Tokens\
         <th class=\"num\">Cost<th>When</tr></thead>\n<tbody id=\"call-rows\">\n"
    ));
    for call in report.calls.iter() {
        one(page, call);
    }
    page.put(format_args!("</tbody></table></div>\n"));
    page.close();
}

fn one(page: &mut Page, call: &Call) {
    let class = if call.recorded {
        " class=\"served\""
    } else {
        ""
    };
    let cost = match money(call.cost) {
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
    let digest: String = call.request.chars().take(DIGEST_CHARS).collect();
    page.put(format_args!(
        "<tr{class}><td><a href=\"#a{}\">{}</a><td>{}{from}{outcome}<td title=\"request {}\">",
        call.attempt,
        esc(&call.who),
        call.kind,
        esc(&digest)
    ));
    page.text(&call.asked);
    page.put(format_args!("<td>"));
    page.text(&call.answer);
    let tokens = if call.tokens == 0 {
        "–".into()
    } else {
        grouped(call.tokens)
    };
    page.put(format_args!(
        "<td class=\"num\">{tokens}<td class=\"num\">{cost}<td class=\"when\">{}</tr>\n",
        moment(call.time_ms)
    ));
}

/// Writes the requests to humans.
pub(super) fn questions(page: &mut Page, report: &Report) {
    if report.questions.all() == 0 {
        return;
    }
    page.open(
        "questions",
        "Questions to people",
        Some(report.questions.all()),
    );
    page.gap(&report.questions, "questions");
    page.put(format_args!("<ol class=\"messages\">\n"));
    for question in report.questions.iter() {
        page.put(format_args!(
            "<li><div class=\"way\"><b>{}</b> asks <span class=\"note\">{}, {}</span></div>\n",
            esc(&question.role),
            esc(&question.id),
            moment(question.time_ms)
        ));
        page.text(&question.text);
        match &question.answer {
            None => page.put(format_args!("<p class=\"lost\">not answered</p>")),
            Some((by, said, time_ms)) => {
                page.put(format_args!(
                    "<p class=\"note\">{by} answered, {}</p>\n",
                    moment(*time_ms)
                ));
                page.text(said);
            }
        }
        page.put(format_args!("</li>\n"));
    }
    page.put(format_args!("</ol>\n"));
    page.close();
}
