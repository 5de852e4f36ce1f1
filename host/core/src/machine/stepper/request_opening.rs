//! How a request is opened under the id that belongs to its question, whoever asks it.

use super::role_calls::opening_step;
use crate::record::event::{AttemptEvent, Event, RequestOpened};
use crate::record::human_request::HumanRequest;
use crate::record::work::CallKey;
use crate::state::environment::Environment;

/// Returns the event that opens a request under the id that belongs to its question.
pub(super) fn opening_event(env: &Environment, call: CallKey, request: HumanRequest) -> Event {
    let request = request_with_id(env, call, request);
    Event::Attempt(call, AttemptEvent::RequestOpened(RequestOpened { request }))
}

/// Returns a request of a call with the id that belongs to its question, instead of that of the first
/// question asked in its place.
pub(super) fn request_with_id(
    env: &Environment,
    call: CallKey,
    mut request: HumanRequest,
) -> HumanRequest {
    let step = opening_step(env, call.activation());
    let question = request.question_digest();
    request.id = env.questions.id_for(step, request.id, question);
    request
}
