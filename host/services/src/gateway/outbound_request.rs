//! Requests to services outside the host, as they pass through the gateway. Which kinds exist is
//! defined by the services, so nothing here changes when one is added.

use std::any::Any;
use std::sync::Arc;

use strata_core::record::id::Digest;

use crate::outbound::{OutboundCall, OutboundContext, RequestBatch};

/// Requests of one kind that a guest makes at once. Their grants have been checked.
#[derive(Debug)]
pub struct OutboundRequest(Box<dyn RequestBatch>);

impl OutboundRequest {
    /// Creates a request from a batch of one kind.
    pub fn new(batch: impl RequestBatch) -> Self {
        Self(Box::new(batch))
    }

    /// Returns the number of requests. Each has an answer.
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Returns the requests if they are of this type.
    pub fn downcast_ref<B: Any>(&self) -> Option<&B> {
        let batch: &dyn Any = &*self.0;
        batch.downcast_ref()
    }

    /// Returns the bytes that come from the guest.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the digests of the files that have to be loaded before the calls are made.
    pub fn media_to_load(&self) -> Vec<&Digest> {
        self.0.media_to_load()
    }

    /// Returns the calls, in the order of the requests.
    pub fn into_calls(self, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>> {
        self.0.into_calls(context)
    }
}
