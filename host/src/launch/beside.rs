//! Does two things at the same time at the start of a run, of which each waits for the disk or takes
//! milliseconds of computing.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// Calls `beside` on another thread while this one calls `work`. If no thread can be created, it is
/// called afterwards.
pub(super) fn run_beside<A: Send, B>(
    beside: impl FnOnce() -> A + Send,
    work: impl FnOnce() -> B,
) -> (A, B) {
    with_beside(beside, |found| {
        let done = work();
        (found.wait(), done)
    })
}

/// Calls `beside` on another thread while this one calls `work`, which may wait for what is found there.
pub(super) fn with_beside<A: Send, B, F: FnOnce() -> A + Send>(
    beside: F,
    work: impl FnOnce(Beside<'_, A, F>) -> B,
) -> B {
    let not_begun = Mutex::new(Some(beside));
    thread::scope(|scope| {
        let call = || take(&not_begun).map(|beside| beside());
        work(Beside {
            started: thread::Builder::new().spawn_scoped(scope, call).ok(),
            not_begun: &not_begun,
        })
    })
}

/// What is found on another thread.
pub(super) struct Beside<'scope, A, F> {
    /// `None` if no thread could be created.
    started: Option<ScopedJoinHandle<'scope, Option<A>>>,
    not_begun: &'scope Mutex<Option<F>>,
}

impl<A, F: FnOnce() -> A> Beside<'_, A, F> {
    /// Waits for it.
    pub(super) fn wait(self) -> A {
        let joined = self.started.map(ScopedJoinHandle::join);
        let found = joined.and_then(|joined| joined.unwrap_or_else(|panic| resume_unwind(panic)));
        found.unwrap_or_else(|| {
            let beside = take(self.not_begun);
            beside.expect("it is called once: by the thread, or here if there is none")()
        })
    }
}

fn take<F>(not_begun: &Mutex<Option<F>>) -> Option<F> {
    let mut not_begun = not_begun.lock().unwrap_or_else(PoisonError::into_inner);
    not_begun.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_and_return_what_they_found() {
        let mut calls = 0;
        let found = run_beside(
            || {
                calls += 1;
                "beside"
            },
            || "work",
        );
        assert_eq!((found, calls), (("beside", "work"), 1));
    }

    #[test]
    fn what_no_thread_was_created_for_is_done_when_it_is_waited_for() {
        let not_begun = Mutex::new(Some(|| "beside"));
        let found = Beside {
            started: None,
            not_begun: &not_begun,
        };
        assert_eq!(found.wait(), "beside");
    }
}
