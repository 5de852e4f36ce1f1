//! `inspect --message`: shows one message completely.

use strata_core::environment::MessageRef;
use strata_core::message::Message;
use strata_core::stepper::Stepper;

use crate::cli::{Failure, show_json, show_line, show_text};
use crate::store::team_json;
use crate::suggest::meant;

/// How many of the newest messages are considered for the hint about an unknown id.
const CANDIDATES: usize = 1000;

/// Shows the message with this id.
pub(super) fn show(stepper: &Stepper, id: &str) -> Result<(), Failure> {
    let (place, message) = find(stepper, id)?;
    let sender = if message.sent_from.is_empty() {
        "outside"
    } else {
        &message.sent_from
    };
    show_line(&format!("message     {}", message.id));
    show_line(&format!("label       {}", message.cause_by));
    show_line(&format!("from        {sender} ({})", message.role));
    show_line(&format!("to          {}", message.send_to.join(", ")));
    for hop in &message.route {
        show_line(&format!(
            "then        {} to {}",
            hop.from,
            hop.to.join(", ")
        ));
    }
    let team = stepper.team();
    let waits = team
        .role_ids()
        .filter(|role| stepper.env().buffer(*role).any(|mail| mail == place));
    let waits: Vec<&str> = waits.map(|role| team.role(role).name.as_str()).collect();
    if !waits.is_empty() {
        show_line(&format!("waits for   {}", waits.join(", ")));
    }
    for (name, value) in &message.meta {
        show_text(&format!("{name:<11} {}", value.as_str()));
    }
    if let Some(instruct) = &message.instruct {
        let pretty = serde_json::to_string_pretty(&instruct.value.value());
        show_line("");
        show_line("data");
        show_text(&pretty.unwrap_or_default());
    }
    show_line("");
    show_text(&message.content);
    Ok(())
}

/// Prints it as JSON, in the form used in `team.json`.
pub(super) fn print_json(stepper: &Stepper, id: &str) -> Result<(), Failure> {
    let (_, message) = find(stepper, id)?;
    show_json(&team_json::message(message));
    Ok(())
}

fn find<'a>(stepper: &'a Stepper, id: &str) -> Result<(MessageRef, &'a Message), Failure> {
    let places = (0..).map(MessageRef).zip(stepper.env().messages.iter());
    let found = places.into_iter().find(|(_, message)| message.id.0 == id);
    found.map(|(place, message)| (place, &**message)).ok_or_else(|| {
        let ids = stepper.env().messages.iter().rev().take(CANDIDATES).map(|message| message.id.0.as_str());
        let meant = meant(id, ids);
        Failure::usage(format!(
            "there is no message `{id}` in this state{meant}; `events` tells the ids of all that were routed"
        ))
    })
}
