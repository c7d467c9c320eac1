//! Work that may never end: reading files from a disk that does not answer, above all.
//!
//! It gets a thread of its own and a time. What is not done by then goes on unheard: nothing waits for its thread, not
//! even the end of the process, and its result is thrown away.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfinished {
    /// The time is over.
    #[error("it took longer than {} s; does the disk answer?", .0.as_secs_f64())]
    TooLong(Duration),
    /// The work panicked.
    #[error("it panicked")]
    Panicked,
    /// The system gives no thread.
    #[error("there is no thread for it: {0}")]
    NoThread(#[from] std::io::Error),
}

/// Does the `work`, as long as it takes no longer than `at_most`. Blocks as long.
pub(crate) fn within<T: Send + 'static>(
    at_most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let (sender, result) = sync_channel(1);
    std::thread::Builder::new().name("shortline-read".into()).spawn(move || {
        // Nobody may be waiting any more.
        drop(sender.send(work()));
    })?;
    result.recv_timeout(at_most).map_err(|error| match error {
        RecvTimeoutError::Timeout => Unfinished::TooLong(at_most),
        RecvTimeoutError::Disconnected => Unfinished::Panicked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_waited_for_as_long_as_allowed() {
        assert_eq!(within(Duration::from_secs(60), || 7).unwrap(), 7);
        let panicked = within(Duration::from_secs(60), || panic!("on purpose"));
        assert!(matches!(panicked, Err(Unfinished::Panicked)));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let late = within(Duration::from_millis(20), move || ended.recv().is_err());
        assert_eq!(late.unwrap_err().to_string(), "it took longer than 0.02 s; does the disk answer?");
        drop(end);
    }
}
