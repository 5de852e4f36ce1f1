//! `random`: the host function for random numbers. It needs no grant.

use strata_services::gateway::{GuestRequest, HostAnswer};

use crate::bindings::random;
use crate::convert;
use crate::ctx::{Ctx, HostResult, invalid, unavailable_in_describe, unexpected_answer};

/// How many random bytes are returned at most; the WIT documents this.
const MAX_RANDOM_BYTES: u32 = 65536;

impl random::Host for Ctx {
    async fn bytes(&mut self, length: u32) -> HostResult<Vec<u8>> {
        const NAME: &str = "random.bytes";
        self.count_calls(NAME, 1)?;
        if length > MAX_RANDOM_BYTES {
            let message = format!(
                "asked for {length} random bytes; at most {MAX_RANDOM_BYTES} are given at once"
            );
            return Ok(Err(invalid(message)));
        }
        match self.request(NAME, GuestRequest::Random { length }).await? {
            None => Ok(Err(unavailable_in_describe(NAME))),
            Some(HostAnswer::Bytes(bytes)) => Ok(bytes.map_err(convert::host_error)),
            Some(other) => unexpected_answer(NAME, &other),
        }
    }
}
