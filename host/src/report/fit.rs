//! Decides which texts of a report are shortened to keep the page small. Texts about problems and
//! about the current state are kept first, then the newest of the others.

use super::Report;
use super::room::Room;

impl Report {
    /// Shortens the texts that exceed the size limit of the page.
    pub(super) fn fit(&mut self) {
        let mut budget = Room::new();
        if let Some(output) = &mut self.result {
            budget.fit(&mut output.text);
            budget.fit_all(&mut output.data);
        }
        budget.fit(&mut self.facts.idea);
        budget.fit_all(&mut self.facts.troubles);
        for fault in self.faults.iter_mut().rev() {
            budget.fit(&mut fault.message);
            budget.fit_all(&mut fault.backtrace);
            budget.fit_all(&mut fault.log);
        }
        for question in self.questions.iter_mut().rev() {
            budget.fit(&mut question.text);
            if let Some((_, said, _)) = &mut question.answer {
                budget.fit(said);
            }
        }
        for state in self.states.iter_mut().rev() {
            for role in &mut state.roles {
                budget.fit_all(role.mail.iter_mut().map(|(_, _, text)| text));
                budget.fit_all(role.scope.iter_mut().map(|(_, text)| text));
            }
            budget.fit_all(state.shared.iter_mut().map(|(_, _, text)| text));
        }
        for attempt in self.attempts.iter_mut().rev() {
            budget.fit(&mut attempt.said);
        }
        for message in self.messages.iter_mut().rev() {
            budget.fit(&mut message.text);
            budget.fit_all(&mut message.data);
        }
        for call in self.calls.iter_mut().rev() {
            budget.fit(&mut call.asked);
            budget.fit(&mut call.answer);
        }
        self.shortened = budget.shortened();
    }
}
