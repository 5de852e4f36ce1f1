//! Breaks a connection off whose reader is too slow: what is written to it waits in the kernel, so the end of a body does
//! not reach it.

use std::sync::Arc;

use tokio::sync::Notify;

/// Breaks a connection off. Its clones are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct CutOff(Arc<Notify>);

impl CutOff {
    /// Breaks the connection off.
    pub fn cut(&self) {
        self.0.notify_one();
    }

    /// Waits until the connection is to be broken off.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}
