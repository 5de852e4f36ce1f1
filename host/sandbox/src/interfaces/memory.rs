//! `memory`: the host functions for the messages that a role remembers. It needs no grant.

use strata_services::gateway::{EnvironmentRequest, GuestRequest, HostAnswer};

use crate::bindings::{memory, types};
use crate::convert;
use crate::ctx::{Ctx, MAX_NAME_BYTES, unexpected_answer};

/// How many messages `memory` returns at most; the WIT documents this.
const MAX_MESSAGES: u32 = 1000;

impl memory::Host for Ctx {
    async fn recent(&mut self, bounds: memory::Bounds) -> wasmtime::Result<Vec<types::Message>> {
        self.recall_messages("memory.recent", bounds, None).await
    }

    async fn by_label(
        &mut self,
        label: String,
        bounds: memory::Bounds,
    ) -> wasmtime::Result<Vec<types::Message>> {
        self.recall_messages("memory.by-label", bounds, Some(label))
            .await
    }
}

impl Ctx {
    async fn recall_messages(
        &mut self,
        function: &'static str,
        bounds: memory::Bounds,
        label: Option<String>,
    ) -> wasmtime::Result<Vec<types::Message>> {
        self.count_calls(function, 1)?;
        if label
            .as_ref()
            .is_some_and(|label| label.len() > MAX_NAME_BYTES)
        {
            return Ok(Vec::new());
        }
        let request = EnvironmentRequest::Recent {
            limit: bounds.messages.min(MAX_MESSAGES),
            max_bytes: bounds.bytes,
            label,
        };
        match self
            .request(function, GuestRequest::Environment(request))
            .await?
        {
            None => Ok(Vec::new()),
            Some(HostAnswer::Messages(messages)) => {
                for message in &messages {
                    self.media.add_received(message);
                }
                Ok(convert::messages(&messages))
            }
            Some(other) => unexpected_answer(function, &other),
        }
    }
}
