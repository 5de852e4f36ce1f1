//! `inspect --message`: shows one message completely.

use strata_core::record::conversation::{Media, Part};
use strata_host::view::{MessageView, describe_media};

use crate::Printer;

/// Shows a message.
pub(super) fn show(view: &MessageView, printer: &Printer) {
    let message = &view.message;
    let sender = if message.sent_from.is_empty() {
        "outside"
    } else {
        &message.sent_from
    };
    printer.print_line(&format!("message     {}", message.id));
    printer.print_line(&format!("label       {}", message.cause_by));
    printer.print_line(&format!("from        {sender} ({})", message.role));
    printer.print_line(&format!("to          {}", message.send_to.join(", ")));
    for hop in &message.route {
        printer.print_line(&format!(
            "then        {} to {}",
            hop.from,
            hop.to.join(", ")
        ));
    }
    if !view.waits_for.is_empty() {
        printer.print_line(&format!("waits for   {}", view.waits_for.join(", ")));
    }
    for (name, value) in &message.meta {
        printer.print_text(&format!("{name:<11} {}", value.as_str()));
    }
    for part in &message.parts {
        match part {
            Part::Text(text) => printer.print_text(&format!("text        {text}")),
            Part::Image(media) => print_media("image", media, printer),
            Part::File(media) => print_media("file", media, printer),
        }
    }
    if let Some(instruct) = &message.instruct {
        let pretty = serde_json::to_string_pretty(&instruct.value.value());
        printer.print_line("");
        printer.print_line("data");
        printer.print_text(&pretty.unwrap_or_default());
    }
    printer.print_line("");
    printer.print_text(&message.content);
}

fn print_media(kind: &str, media: &Media, printer: &Printer) {
    printer.print_text(&format!("{kind:<11} {}", describe_media(media)));
}
