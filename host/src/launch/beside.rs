//! Does two things at the same time at the start of a run, of which each waits for the disk or takes
//! milliseconds of computing.

use std::panic::resume_unwind;
use std::thread;

/// Calls `beside` on another thread while this one calls `work`. If no thread can be created, it is
/// called afterwards.
pub(super) fn run_beside<A: Send, B>(
    mut beside: impl FnMut() -> A + Send,
    work: impl FnOnce() -> B,
) -> (A, B) {
    let (found, done) = thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, &mut beside);
        let done = work();
        let joined = started.map(|started| {
            let joined = started.join();
            joined.unwrap_or_else(|panic| resume_unwind(panic))
        });
        (joined.ok(), done)
    });
    (found.unwrap_or_else(beside), done)
}

#[cfg(test)]
mod tests {
    use super::run_beside;

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
}
