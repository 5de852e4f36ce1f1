//! `inspect --message`: shows one message completely.

use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::message::Message;
use strata_core::state::messages::MessageRef;
use strata_host::services::models::describe_named_media;
use strata_host::storage::team_json;
use strata_host::suggest::did_you_mean;

use crate::{CommandFailure, Printer};

/// How many of the newest messages are considered for the hint about an unknown id.
const CANDIDATES: usize = 1000;

/// Shows the message with this id.
pub(super) fn show(stepper: &Stepper, id: &str, printer: &Printer) -> Result<(), CommandFailure> {
    let (place, message) = find(stepper, id)?;
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
    let team = stepper.team();
    let waits = team.role_ids().filter(|role| {
        stepper
            .env()
            .unfinished_mail(*role)
            .any(|mail| mail == place)
    });
    let waits: Vec<&str> = waits.map(|role| team.role(role).name.as_str()).collect();
    if !waits.is_empty() {
        printer.print_line(&format!("waits for   {}", waits.join(", ")));
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
    Ok(())
}

fn print_media(kind: &str, media: &Media, printer: &Printer) {
    let digest = match &media.source {
        MediaSource::Blob { digest, .. } => format!(" sha256 {digest}"),
        MediaSource::Url(_) => String::new(),
    };
    let description = describe_named_media(media);
    printer.print_text(&format!("{kind:<11} {description}{digest}"));
}

/// Prints it as JSON, in the form used in `team.json`.
pub(super) fn print_message_json(
    stepper: &Stepper,
    id: &str,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let (_, message) = find(stepper, id)?;
    printer.print_json(&team_json::message_json(message));
    Ok(())
}

fn find<'a>(stepper: &'a Stepper, id: &str) -> Result<(MessageRef, &'a Message), CommandFailure> {
    let places = (0..).map(MessageRef).zip(stepper.env().messages.iter());
    let found = places.into_iter().find(|(_, message)| message.id.0 == id);
    found.map(|(place, message)| (place, &**message)).ok_or_else(|| {
        let ids = stepper.env().messages.iter().rev().take(CANDIDATES).map(|message| message.id.0.as_str());
        let meant = did_you_mean(id, ids);
        CommandFailure::usage(format!(
            "there is no message `{id}` in this state{meant}; `events` tells the ids of all that were routed"
        ))
    })
}
