//! Which texts have the room of a page: first what went wrong and how things stand, then what is newest.

use super::room::Room;
use super::{Fault, Report, State, Text};

impl Report {
    /// Shortens texts for which there is no room.
    pub(super) fn fit(&mut self) {
        let mut room = Room::new();
        let mut fit = |text: &mut Text| room.fit(text);
        if let Some(output) = &mut self.result {
            fit(&mut output.text);
            output.data.iter_mut().for_each(&mut fit);
        }
        fit(&mut self.facts.idea);
        self.facts.troubles.iter_mut().for_each(&mut fit);
        self.faults.iter_mut().rev().for_each(|fault: &mut Fault| {
            fit(&mut fault.message);
            fault
                .backtrace
                .iter_mut()
                .chain(&mut fault.log)
                .for_each(&mut fit);
        });
        self.questions.iter_mut().rev().for_each(|question| {
            fit(&mut question.text);
            question
                .answer
                .iter_mut()
                .for_each(|(_, said, _)| fit(said));
        });
        self.states.iter_mut().rev().for_each(|state: &mut State| {
            let roles = state.roles.iter_mut();
            let own = roles.flat_map(|role| {
                role.mail
                    .iter_mut()
                    .map(|(_, _, text)| text)
                    .chain(role.scope.iter_mut().map(|(_, text)| text))
            });
            own.chain(state.shared.iter_mut().map(|(_, _, text)| text))
                .for_each(&mut fit);
        });
        self.attempts
            .iter_mut()
            .rev()
            .for_each(|attempt| fit(&mut attempt.said));
        self.messages.iter_mut().rev().for_each(|message| {
            fit(&mut message.text);
            message.data.iter_mut().for_each(&mut fit);
        });
        self.calls.iter_mut().rev().for_each(|call| {
            fit(&mut call.asked);
            fit(&mut call.answer);
        });
        self.shortened = room.shortened();
    }
}
