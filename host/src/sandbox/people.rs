//! The host function that asks a person. It needs no grant; `services::human` validates questions.

use strata_core::request::Answer as Answered;

use super::bindings::human;
use super::convert;
use super::ctx::{Ctx, Reply, invalid, undescribed, unexpected};
use crate::gateway::{Answer, Ask, HostError, HostErrorKind};
use crate::services::human::Question;

impl human::Host for Ctx {
    async fn ask(&mut self, question: human::Question) -> Reply<human::Answer> {
        const NAME: &str = "human.ask";
        self.count(NAME, 1)?;
        let human::Question {
            text,
            schema,
            choices,
            expires_s,
            default,
        } = question;
        let question = Question {
            text,
            schema,
            choices,
            expires_s,
            default,
        };
        // An invalid question is the guest's error: it is refused here and never recorded.
        if let Err(why) = question.check() {
            return Ok(Err(invalid(format!("cannot ask a person: {why}"))));
        }
        match Ctx::ask(self, NAME, Ask::Person(question)).await? {
            None => Ok(Err(undescribed(NAME))),
            Some(Answer::Person(answered)) => Ok(answer(answered).map_err(convert::host_error)),
            Some(other) => unexpected(NAME, &other),
        }
    }
}

fn answer(answered: Answered) -> Result<human::Answer, HostError> {
    let (value, source) = match answered {
        Answered::Given(value) => (value, human::Source::Person),
        Answered::Default(value) => (value, human::Source::Default),
        Answered::Expired => {
            let message = "nobody answered in time, and the question has no `default`";
            return Err(HostError::new(HostErrorKind::Expired, message));
        }
    };
    Ok(human::Answer {
        value: value.as_str().to_owned(),
        source,
    })
}
