//! `send`: puts a message into a saved team's environment.

use strata_core::message::{Message, TO_ALL};

use super::{Failure, SendArgs, note};
use crate::launch::send as put;
use crate::narrator::Line;

pub(super) fn send(args: SendArgs) -> Result<u8, Failure> {
    let message = Message {
        id: "".into(),
        content: args.content,
        instruct: None,
        role: "user".into(),
        cause_by: args.cause,
        sent_from: String::new(),
        send_to: if args.to.is_empty() { vec![TO_ALL.into()] } else { args.to },
        meta: Default::default(),
        route: Vec::new(),
    };
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
        "dead-letter" => note(format_args!("warning: `{}` is no role, alias or group of the team", line.text("to"))),
        _ => {}
    };
    put(&args.path, message, Box::new(tell))?;
    Ok(0)
}
