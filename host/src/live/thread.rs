//! The thread that an environment runs on.
//!
//! The driver waits for the disk at each step. On a thread of the runtime it would have to give up its turn for that,
//! and as many teams would sync at once as there are such threads; here the disk gets the syncs of all of them together.

use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::LiveError;
use crate::driver::{DriverError, Stop};
use crate::launch::Run;

/// A run that has come to its end. One that an error ended is gone, and lets go of its storage.
type End = Result<Box<Run>, DriverError>;

/// A run on its thread.
pub(super) struct Running {
    end: oneshot::Receiver<End>,
}

/// The runtime that an environment needs: timers, calls and actions that run in parallel are there.
pub(super) fn runtime() -> Result<Handle, LiveError> {
    Handle::try_current().map_err(|_| LiveError::Runtime)
}

impl Running {
    /// Begins to run, until it is told to stop or ends by itself.
    pub(super) fn begin(runtime: Handle, run: Box<Run>, stopped: Stop) -> Result<Self, LiveError> {
        let (tell, end) = oneshot::channel();
        let begin = move || {
            if let Some(end) = to_its_end(&runtime, run, stopped) {
                // Nobody may be left who wants to know.
                let _ = tell.send(end);
            }
        };
        let begun = thread::Builder::new()
            .name("strata team".into())
            .spawn(begin);
        begun.map_err(|error| LiveError::Thread(format!("cannot start a thread: {error}")))?;
        Ok(Self { end })
    }

    /// Waits until it has come to its end.
    pub(super) async fn ended(&mut self) -> Result<End, LiveError> {
        let torn = |_| {
            LiveError::Thread("its thread was torn down, with the runtime or by a panic".into())
        };
        (&mut self.end).await.map_err(torn)
    }
}

/// Runs a team. None where the runtime ends before it. A timer that is begun after that panics instead, and so ends this
/// thread: which of the two it is depends on what the team was just about to do.
fn to_its_end(runtime: &Handle, mut run: Box<Run>, mut stopped: Stop) -> Option<End> {
    // Nothing that the driver waits for would say that the runtime is gone; a task that is dropped with it does.
    let (lives, gone) = oneshot::channel::<()>();
    let canary = runtime.spawn(async move {
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
    canary.abort();
    Some(ended?.map(|_| run))
}
