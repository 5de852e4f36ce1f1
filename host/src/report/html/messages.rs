//! The section with the messages.

use super::super::{Message, Report};
use super::Page;
use super::escape::esc;
use super::time::moment;

/// Writes the messages, oldest first.
pub(super) fn section(page: &mut Page, report: &Report) {
    if report.messages.all() == 0 {
        return;
    }
    page.open("messages", "Messages", Some(report.messages.all()));
    page.gap(&report.messages, "messages");
    page.put(format_args!(
        "<p class=\"search\" hidden><label>Search <input type=\"search\" data-filter=\"message-rows\" \
         placeholder=\"a word, a name, a label\"></label> <output></output></p>\n<ol class=\"messages\" id=\"message-rows\">\n"
    ));
    let gap = report.messages.gap();
    for (place, message) in report.messages.iter().enumerate() {
        if let Some((_, count)) = gap.filter(|(at, _)| *at == place) {
            page.put(format_args!(
                "<li class=\"gap\">{} messages are left out here</li>\n",
                super::time::grouped(count)
            ));
        }
        one(page, message);
    }
    page.put(format_args!("</ol>\n"));
    page.close();
}

fn one(page: &mut Page, message: &Message) {
    let from = if message.from.is_empty() {
        "outside"
    } else {
        &message.from
    };
    page.put(format_args!(
        "<li><div class=\"way\"><b>{}</b> <span class=\"arrow\">→</span> ",
        esc(from)
    ));
    match &message.to {
        None => page.put(format_args!(
            "<span class=\"none\">not sent; kept in its memory</span>"
        )),
        Some(to) if to.is_empty() => page.put(format_args!("<span class=\"none\">nobody</span>")),
        Some(to) => page.put(format_args!("{}", esc(&to.join(", ")))),
    }
    page.put(format_args!(
        " <span class=\"label\">{}</span>",
        esc(&message.cause)
    ));
    for lost in &message.lost {
        page.put(format_args!(" <span class=\"lost\">{}</span>", esc(lost)));
    }
    if let Some((time_ms, step)) = message.sent {
        page.put(format_args!(
            " <span class=\"note\">step {step}, {}</span>",
            moment(time_ms)
        ));
    }
    page.put(format_args!(
        " <span class=\"note id\">{}</span></div>\n",
        esc(&message.id)
    ));
    page.text(&message.text);
    if let Some(data) = message
        .data
        .as_ref()
        .filter(|data| data.shown != message.text.shown)
    {
        page.put(format_args!(
            "<div class=\"data\"><span class=\"note\">data</span> "
        ));
        page.text(data);
        page.put(format_args!("</div>"));
    }
    page.put(format_args!("</li>\n"));
}
