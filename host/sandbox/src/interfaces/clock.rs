//! `clock`: the host functions for the time. It needs no grant.

use std::time::Duration;

use strata_services::gateway::{GuestRequest, HostAnswer};

use crate::bindings::clock;
use crate::ctx::{Ctx, unexpected_answer};

impl clock::Host for Ctx {
    async fn unix_time_ms(&mut self) -> wasmtime::Result<f64> {
        const NAME: &str = "clock.unix-time-ms";
        self.count_calls(NAME, 1)?;
        match self.request(NAME, GuestRequest::CurrentTime).await? {
            None => Ok(0.0),
            Some(HostAnswer::Time(time)) => Ok(time),
            Some(other) => unexpected_answer(NAME, &other),
        }
    }

    async fn sleep(&mut self, duration_ms: u32) -> wasmtime::Result<()> {
        const NAME: &str = "clock.sleep";
        self.count_calls(NAME, 1)?;
        let duration = Duration::from_millis(duration_ms.into());
        Ok(self
            .meter
            .by_deadline(NAME, tokio::time::sleep(duration))
            .await?)
    }
}
