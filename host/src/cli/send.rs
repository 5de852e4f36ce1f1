//! `send`: puts a message into a saved team's environment.

use strata_core::message::Message;

use super::{Failure, SendArgs, note};
use crate::launch::send as put;
use crate::narrator::Line;

pub(super) fn send(args: SendArgs) -> Result<u8, Failure> {
    // Its id is given where it is put.
    let mut message = Message::of_user("".into(), args.content, args.cause);
    if !args.to.is_empty() {
        message.send_to = args.to;
    }
    let tell = |line: &Line| match line.kind {
        "message-routed" => {
            let to = line.fields.get("to").and_then(|to| to.as_array()).into_iter().flatten();
            let names: Vec<&str> = to.filter_map(|name| name.as_str()).collect();
            match names.as_slice() {
                [] => note(format_args!(
                    "warning: nobody watches `{}`: the message reached no mailbox",
                    line.text("cause_by")
                )),
                names => note(format_args!("message {} is in the mailbox of {}", line.text("id"), names.join(", "))),
            }
        }
        "dead-letter" => {
            let (to, reason) = (line.text("to"), line.text("reason"));
            note(format_args!("warning: the message for `{to}` reached nobody: {reason}"));
        }
        _ => {}
    };
    put(&args.path, message, Box::new(tell))?;
    Ok(0)
}
