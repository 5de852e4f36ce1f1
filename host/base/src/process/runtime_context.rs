//! Futures that belong to another runtime than the one that polls them.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::Handle;

/// Does `work` in the context of `runtime`, whichever runtime polls it: the tasks, connections and
/// timers that it creates belong to that one.
pub async fn in_context_of<F: Future>(runtime: Handle, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _entered = runtime.enter();
        work.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn runtime() -> Runtime {
        let runtime = Builder::new_current_thread().build();
        runtime.expect("a runtime")
    }

    #[test]
    fn work_sees_its_own_runtime_after_it_has_waited_too() {
        let (polling, own) = (runtime(), runtime());
        let current = || Handle::current().id();
        let seen = polling.block_on(async {
            let work = async {
                let before = current();
                tokio::task::yield_now().await;
                [before, current()]
            };
            let seen = in_context_of(own.handle().clone(), work).await;
            [seen[0], seen[1], current()]
        });
        let (polling, own) = (polling.handle().id(), own.handle().id());
        assert_eq!(seen, [own, own, polling]);
    }
}
