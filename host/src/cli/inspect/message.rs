//! `inspect --message`: one message, whole.

use strata_core::environment::MessageRef;
use strata_core::message::Message;
use strata_core::stepper::Stepper;

use crate::cli::requests::plain;
use crate::cli::{Failure, print};
use crate::store::team_json;

/// Shows the message with this id.
pub(super) fn show(stepper: &Stepper, id: &str) -> Result<(), Failure> {
    let (place, message) = find(stepper, id)?;
    let sender = if message.sent_from.is_empty() { "outside" } else { &message.sent_from };
    print(&format!("message     {}", message.id));
    print(&format!("label       {}", message.cause_by));
    print(&format!("from        {sender} ({})", plain(&message.role)));
    print(&format!("to          {}", message.send_to.join(", ")));
    for hop in &message.route {
        print(&format!("then        {} to {}", hop.from, hop.to.join(", ")));
    }
    let team = stepper.team();
    let waits = team.role_ids().filter(|role| stepper.env().buffer(*role).any(|mail| mail == place));
    let waits: Vec<&str> = waits.map(|role| team.role(role).name.as_str()).collect();
    if !waits.is_empty() {
        print(&format!("waits for   {}", waits.join(", ")));
    }
    for (name, value) in &message.meta {
        print(&format!("{name:<11} {}", plain(value.as_str())));
    }
    if let Some(instruct) = &message.instruct {
        let pretty = serde_json::to_string_pretty(&instruct.value.value());
        print(&format!("\ndata\n{}", plain(&pretty.unwrap_or_default())));
    }
    print(&format!("\n{}", plain(&message.content)));
    Ok(())
}

/// Prints it as JSON, as `team.json` holds it.
pub(super) fn print_json(stepper: &Stepper, id: &str) -> Result<(), Failure> {
    let (_, message) = find(stepper, id)?;
    print(&team_json::message(message));
    Ok(())
}

fn find<'a>(stepper: &'a Stepper, id: &str) -> Result<(MessageRef, &'a Message), Failure> {
    let places = (0..).map(MessageRef).zip(&stepper.env().messages);
    let found = places.into_iter().find(|(_, message)| message.id.0 == id);
    found.map(|(place, message)| (place, &**message)).ok_or_else(|| {
        Failure::usage(format!(
            "there is no message `{id}` in this state; `events` tells the ids of all that were routed"
        ))
    })
}
