//! Decides which texts of a report are shortened to keep the page small. Texts about problems and
//! about the current state are kept first, then the newest of the others.

use super::bounded::TextBudget;
use super::{MessagePart, Report};

impl Report {
    /// Shortens the texts that exceed the size limit of the page.
    pub(super) fn shorten_texts(&mut self) {
        let mut budget = TextBudget::new();
        if let Some(output) = &mut self.result {
            budget.shorten_to_fit(&mut output.text);
            budget.shorten_all_to_fit(&mut output.data);
        }
        budget.shorten_to_fit(&mut self.overview.idea);
        for fault in self.faults.iter_mut().rev() {
            budget.shorten_to_fit(&mut fault.message);
            budget.shorten_all_to_fit(&mut fault.backtrace);
            budget.shorten_all_to_fit(&mut fault.log);
        }
        for question in self.human_requests.iter_mut().rev() {
            budget.shorten_to_fit(&mut question.text);
            budget.shorten_all_to_fit(question.answer.as_mut().map(|answer| &mut answer.text));
        }
        for conversation in self.conversations.iter_mut().rev() {
            budget.shorten_all_to_fit(conversation.texts_mut());
        }
        for state in self.states.iter_mut().rev() {
            for role in &mut state.roles {
                budget.shorten_all_to_fit(role.mail.iter_mut().map(|(_, _, text)| text));
                budget.shorten_all_to_fit(role.scope.iter_mut().map(|(_, text)| text));
            }
            budget.shorten_all_to_fit(state.shared_scopes.iter_mut().map(|(_, _, text)| text));
        }
        for attempt in self.attempts.iter_mut().rev() {
            budget.shorten_to_fit(&mut attempt.text);
            budget.shorten_to_fit(&mut attempt.log);
        }
        for message in self.messages.iter_mut().rev() {
            budget.shorten_to_fit(&mut message.text);
            budget.shorten_all_to_fit(&mut message.data);
            for part in &mut message.parts {
                if let MessagePart::Text(text) = part {
                    budget.shorten_to_fit(text);
                }
            }
        }
        for call in self.calls.iter_mut().rev() {
            budget.shorten_to_fit(&mut call.request_summary);
            budget.shorten_to_fit(&mut call.response);
        }
        self.shortened = budget.shortened();
    }
}
