//! The section with the messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::{MessageEntry, MessagePart, Report};
use super::HtmlPage;
use super::escape::esc;
use super::time::format_time;
use crate::services::models::describe_named_media;

/// Writes the messages, oldest first.
pub(super) fn section(page: &mut HtmlPage, report: &Report) {
    if report.messages.total() == 0 {
        return;
    }
    page.open_section("messages", "Messages", Some(report.messages.total()));
    page.note_omitted_rows(&report.messages, "messages");
    page.write(format_args!(
        "<p class=\"search\" hidden><label>Search <input type=\"search\" data-filter=\"message-rows\" \
         placeholder=\"a word, a name, a label\"></label> <output></output></p>\n<ol class=\"messages\" id=\"message-rows\">\n"
    ));
    let gap = report.messages.gap();
    for (place, message) in report.messages.iter().enumerate() {
        if let Some((_, count)) = gap.filter(|(at, _)| *at == place) {
            page.write(format_args!(
                "<li class=\"gap\">{} messages are left out here</li>\n",
                super::time::format_number(count)
            ));
        }
        write_message(page, message);
    }
    page.write(format_args!("</ol>\n"));
    page.close_section();
}

fn write_message(page: &mut HtmlPage, message: &MessageEntry) {
    let from = if message.from.is_empty() {
        "outside"
    } else {
        &message.from
    };
    page.write(format_args!(
        "<li><div class=\"way\"><b>{}</b> <span class=\"arrow\">→</span> ",
        esc(from)
    ));
    match &message.to {
        None => page.write(format_args!(
            "<span class=\"none\">not sent; kept in its memory</span>"
        )),
        Some(to) if to.is_empty() => page.write(format_args!("<span class=\"none\">nobody</span>")),
        Some(to) => page.write(format_args!("{}", esc(&to.join(", ")))),
    }
    page.write(format_args!(
        " <span class=\"label\">{}</span>",
        esc(&message.cause)
    ));
    for lost in &message.undelivered {
        page.write(format_args!(" <span class=\"lost\">{}</span>", esc(lost)));
    }
    if let Some((time_ms, step)) = message.sent {
        page.write(format_args!(
            " <span class=\"note\">step {step}, {}</span>",
            format_time(time_ms)
        ));
    }
    page.write(format_args!(
        " <span class=\"note id\">{}</span></div>\n",
        esc(&message.id)
    ));
    page.write_text(&message.text);
    page.write_data(&message.text, message.data.as_ref());
    for part in &message.parts {
        write_part(page, part);
    }
    page.write(format_args!("</li>\n"));
}

/// Writes a part of a message. The name of an image is no attribute: others chose it.
fn write_part(page: &mut HtmlPage, part: &MessagePart) {
    let (media, image) = match part {
        MessagePart::Text(text) => return page.write_text(text),
        MessagePart::Media { media, image } => (media, image),
    };
    page.write(format_args!("<figure class=\"media\">"));
    if let Some(image) = image {
        page.write(format_args!(
            "<img alt=\"\" loading=\"lazy\" src=\"data:{};base64,{}\">",
            image.media_type,
            STANDARD.encode(&image.bytes)
        ));
    }
    page.write(format_args!(
        "<figcaption class=\"note\">{}</figcaption></figure>\n",
        esc(&describe_named_media(media))
    ));
}
