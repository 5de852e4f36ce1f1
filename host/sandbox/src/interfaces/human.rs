//! `human`: the host function that asks a person. It needs no grant; `services::human` validates questions.

use strata_core::record::human_request::HumanAnswer;
use strata_services::gateway::{GuestRequest, HostAnswer, HostError, HostErrorKind};
use strata_services::human::HumanQuestion;

use crate::bindings::human;
use crate::convert;
use crate::ctx::{Ctx, HostResult, invalid, unavailable_in_describe, unexpected_answer};

impl human::Host for Ctx {
    async fn ask(&mut self, question: human::Question) -> HostResult<human::Answer> {
        const NAME: &str = "human.ask";
        self.count_calls(NAME, 1)?;
        let human::Question {
            text,
            schema,
            choices,
            expires_s,
            default,
        } = question;
        let question = HumanQuestion {
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
        match Ctx::request(self, NAME, GuestRequest::AskHuman(question)).await? {
            None => Ok(Err(unavailable_in_describe(NAME))),
            Some(HostAnswer::Human(answered)) => {
                Ok(to_wit_answer(answered).map_err(convert::host_error))
            }
            Some(other) => unexpected_answer(NAME, &other),
        }
    }
}

fn to_wit_answer(answered: HumanAnswer) -> Result<human::Answer, HostError> {
    let (value, source) = match answered {
        HumanAnswer::Given(value) => (value, human::Source::Person),
        HumanAnswer::Default(value) => (value, human::Source::Default),
        HumanAnswer::Expired => {
            let message = "nobody answered in time, and the question has no `default`";
            return Err(HostError::new(HostErrorKind::Expired, message));
        }
    };
    Ok(human::Answer {
        value: value.as_str().to_owned(),
        source,
    })
}
