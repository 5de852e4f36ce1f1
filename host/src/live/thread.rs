//! The thread on which an environment runs.
//!
//! The driver waits for the disk at each step. Waiting on a thread of the runtime would block that
//! thread, so the number of concurrent syncs would be limited by the number of such threads. With
//! one thread for each environment, the disk receives the syncs of all of them together.

use std::thread;

use strata_driver::{DriverError, StopSignal};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::LiveError;
use crate::launch::RunHandle;

/// The outcome of a run. A run that an error ended is dropped and releases its storage.
pub(crate) type RunEnd = Result<Box<RunHandle>, DriverError>;

/// A run on its thread.
pub(crate) struct RunThread {
    end: oneshot::Receiver<RunEnd>,
}

/// Returns the current runtime, which provides timers and executes calls and actions in parallel.
pub(super) fn current_runtime() -> Result<Handle, LiveError> {
    Handle::try_current().map_err(|_| LiveError::Runtime)
}

impl RunThread {
    /// Starts a run, which goes on until it is stopped or ends by itself.
    pub(crate) fn spawn(
        runtime: Handle,
        run: Box<RunHandle>,
        stopped: StopSignal,
    ) -> Result<Self, LiveError> {
        let (tell, end) = oneshot::channel();
        let begin = move || {
            if let Some(end) = run_to_end(&runtime, run, stopped) {
                // The environment may have been dropped, so nobody receives this.
                let _ = tell.send(end);
            }
        };
        thread::Builder::new()
            .name("strata team".into())
            .spawn(begin)
            .map_err(|error| LiveError::Thread(format!("cannot start a thread: {error}")))?;
        Ok(Self { end })
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&mut self) -> Result<RunEnd, LiveError> {
        let torn = |_| {
            LiveError::Thread("its thread was torn down, with the runtime or by a panic".into())
        };
        (&mut self.end).await.map_err(torn)
    }
}

/// Runs a team. Returns `None` if the runtime is shut down first. If the team starts a timer after
/// that, tokio panics instead, which ends this thread. Which of the two happens depends on what the
/// team is doing.
fn run_to_end(
    runtime: &Handle,
    mut run: Box<RunHandle>,
    mut stopped: StopSignal,
) -> Option<RunEnd> {
    // Nothing that the driver waits for fails when the runtime is shut down. This task is dropped
    // then, which closes the channel.
    let (lives, gone) = oneshot::channel::<()>();
    let shutdown_detector = runtime.spawn(async move {
        let _lives = lives;
        std::future::pending::<()>().await;
    });
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            _ = gone => None,
            ended = run.run(&mut stopped) => Some(ended),
        }
    });
    shutdown_detector.abort();
    Some(ended?.map(|_| run))
}
