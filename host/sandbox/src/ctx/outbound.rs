//! Requests of a guest to services outside the host: sends those that are allowed to the driver, and
//! reads the answers.

use strata_services::gateway::{GuestRequest, HostAnswer, OutboundRequest, ok_bytes_or_message};
use strata_services::outbound::{ReadAnswer, read_answers};

use super::{Ctx, unavailable_in_describe, unexpected_answer};
use crate::bindings::types;
use crate::convert;

/// Makes those requests that are allowed, all at once, and returns the results in the order of the
/// requests. `to_batch` combines the allowed ones.
pub(crate) async fn call_outside<R, B: ReadAnswer>(
    ctx: &mut Ctx,
    function: &'static str,
    requests: Vec<Result<R, types::HostError>>,
    to_batch: impl FnOnce(&Ctx, Vec<R>) -> B,
) -> wasmtime::Result<Vec<Result<B::Answer, types::HostError>>> {
    let mut allowed = Vec::new();
    let mut refusals = Vec::new();
    for request in requests {
        match request {
            Ok(request) => {
                allowed.push(request);
                refusals.push(None);
            }
            Err(refusal) => refusals.push(Some(refusal)),
        }
    }
    let mut answers = Vec::new();
    if !allowed.is_empty() {
        let batch = OutboundRequest::new(to_batch(ctx, allowed));
        answers = match ctx.request(function, GuestRequest::Outbound(batch)).await? {
            None => Vec::new(),
            Some(HostAnswer::Outbound(answers)) => read_answers::<B>(answers),
            Some(other) => unexpected_answer(function, &other),
        };
        let bytes = answers
            .iter()
            .map(|answer| ok_bytes_or_message(answer, B::answer_bytes));
        ctx.count_bytes(function, bytes.sum::<usize>() as u64)?;
    }
    let mut answers = answers.into_iter();
    let mut results = Vec::new();
    for refusal in refusals {
        results.push(match refusal {
            Some(refusal) => Err(refusal),
            None => match answers.next() {
                Some(answer) => answer.map_err(convert::host_error),
                None => Err(unavailable_in_describe(function)),
            },
        });
    }
    Ok(results)
}
