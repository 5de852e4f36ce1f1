//! The references of an activation to messages. They are visited when messages are numbered anew.

use super::{Activation, ToolOutcome, TurnCall};
use crate::state::messages::MessageRef;

/// Calls `visit` with every reference to a message in an activation. The references may be changed.
pub fn for_each_message_ref(activation: &mut Activation, visit: &mut dyn FnMut(&mut MessageRef)) {
    for message in &mut activation.news {
        visit(message);
    }
    let turns = activation.turns.reopen_all();
    for call in turns.flat_map(|turn| &mut turn.calls) {
        let mut of_call = |call: &mut TurnCall| {
            if let Some(ToolOutcome::Returned(returned)) = &mut call.outcome {
                for outgoing in &mut returned.emissions {
                    visit(&mut outgoing.message);
                }
            }
        };
        call.progress.for_each_nested_mut(&mut of_call);
        of_call(call);
    }
    for done in &mut activation.done {
        visit(&mut done.output.message);
        for outgoing in &mut done.emissions {
            visit(&mut outgoing.message);
        }
    }
}
