//! The end of the grace: what still runs is cut off.
//!
//! Asking whether that is so costs one load ([`CutOff::is_ordered`]); being woken for it costs a place in a list, which
//! a connection takes once ([`CutOff::wakes`]), not every request on it.

use std::pin::pin;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::task::Poll;

use crate::errors::Refusal;
use crate::shutdown::{Shutdown, Trigger, shutdown};

/// The order to cut off, given once.
#[derive(Debug)]
pub(crate) struct CutOff {
    ordered: AtomicBool,
    told: (Trigger, Shutdown),
}

impl Default for CutOff {
    fn default() -> Self {
        Self { ordered: AtomicBool::new(false), told: shutdown() }
    }
}

impl CutOff {
    /// Gives the order.
    pub(crate) fn order(&self) {
        self.ordered.store(true, Release);
        self.told.0.end();
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Acquire)
    }

    /// Waits for the order.
    pub(crate) async fn ordered(&self) {
        self.told.1.clone().ending().await;
    }

    /// Runs `work`, which gets a turn when the order is given. One task from begin to end.
    pub(crate) async fn wakes<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut order) = (pin!(work), pin!(self.ordered()));
        let mut is_listed = false;
        std::future::poll_fn(|cx| {
            if !is_listed {
                // Given already? Then `work` sees it.
                is_listed = true;
                let _: Poll<()> = order.as_mut().poll(cx);
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Runs `work` unless the order is given, which it looks at whenever it has a turn.
    ///
    /// # Errors
    /// [`Refusal::CutOff`] then, and what `work` returns.
    pub(crate) async fn unless_ordered<T>(&self, work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending if self.is_ordered() => Poll::Ready(Err(Refusal::CutOff)),
            polled => polled,
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn work_that_waits_is_cut_off_by_the_order_and_not_before() {
        let cut_off = Arc::new(CutOff::default());
        let work = |cut_off: Arc<CutOff>| async move {
            let never = std::future::pending::<Result<(), Refusal>>();
            cut_off.wakes(cut_off.unless_ordered(never)).await
        };
        let running = tokio::spawn(work(Arc::clone(&cut_off)));
        tokio::task::yield_now().await;
        assert!(!running.is_finished());
        cut_off.order();
        assert!(matches!(running.await.unwrap(), Err(Refusal::CutOff)));
        let late = tokio::spawn(work(Arc::clone(&cut_off)));
        assert!(matches!(late.await.unwrap(), Err(Refusal::CutOff)));
        let done = cut_off.unless_ordered(std::future::ready(Ok(7)));
        assert!(matches!(done.await, Ok(7)), "what is there is there");
    }
}
