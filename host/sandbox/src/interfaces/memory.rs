//! `memory`: the host functions for the messages that a role remembers, and for what its model is sent
//! of its conversation. It needs no grant.

use strata_core::record::memory::MemoryRequest;
use strata_services::gateway::{EnvironmentRequest, GuestRequest, HostAnswer};

use crate::bindings::{memory, types};
use crate::convert;
use crate::ctx::{Conversation, Ctx, HostResult, MAX_NAME_BYTES, invalid, unexpected_answer};

/// How many messages `memory` returns at most; the WIT documents this.
const MAX_MESSAGES: u32 = 1000;
/// The largest text that `memory.replace` takes, in bytes; the WIT documents this. Each request to the
/// model contains it.
const MAX_SUMMARY_BYTES: usize = 64 << 10;

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

    async fn replace(&mut self, up_to: u32, summary: String) -> HostResult<()> {
        self.count_calls("memory.replace", 1)?;
        if let Err(refusal) = check_replacement(self.conversation, up_to, &summary) {
            return Ok(Err(refusal));
        }
        self.count_output("a summary", convert::item_bytes(&summary))?;
        self.memory_request = Some(MemoryRequest { up_to, summary });
        Ok(Ok(()))
    }
}

/// Fails if an attempt cannot replace anything like this.
fn check_replacement(
    conversation: Conversation,
    up_to: u32,
    summary: &str,
) -> Result<(), types::HostError> {
    let problem = if conversation == Conversation::Absent {
        "only a tool call of a model can replace messages of its conversation"
    } else if up_to == 0 {
        "`up-to` is 0, so nothing would be replaced"
    } else if summary.trim().is_empty() {
        "the text is empty"
    } else if summary.len() > MAX_SUMMARY_BYTES {
        "the text has more than 64 KiB"
    } else {
        return Ok(());
    };
    Err(invalid(problem))
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
