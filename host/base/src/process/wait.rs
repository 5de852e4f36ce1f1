//! Waits for a future on a thread that may be in the middle of driving other tasks. The future must be
//! completed by another thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

/// Wakes a thread that waits.
struct ThreadWaker {
    thread: Thread,
    /// Whether the future has advanced since it was polled. The thread alone does not remember that: whoever sleeps on it
    /// while the future is polled takes the wake-up for its own.
    is_woken: AtomicBool,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Waits for a future on this thread, which sleeps until the future has advanced.
pub fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let thread_waker = Arc::new(ThreadWaker {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Arc::clone(&thread_waker).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => {
                while !thread_waker.is_woken.swap(false, Ordering::Acquire) {
                    thread::park();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_wake_up_is_not_lost_while_the_same_thread_waits_for_something_else() {
        let (wakers, to_wake) = channel::<std::task::Waker>();
        let waking = thread::spawn(move || to_wake.iter().for_each(std::task::Waker::wake));
        let mut polls = 0;
        let done = wait(poll_fn(|context| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(polls);
            }
            wakers.send(context.waker().clone()).unwrap();
            // Sleeps until the wake-up has come, which is for the future around it.
            thread::park();
            Poll::Pending
        }));
        assert_eq!(done, 2);
        drop(wakers);
        waking.join().unwrap();
    }
}
