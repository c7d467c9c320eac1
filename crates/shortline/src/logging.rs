//! The log: one line an event on standard error, the access log among them.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Form of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Log {
    /// One JSON object a line
    Json,
    /// One line of text
    Text,
    /// Nothing
    Off,
}

/// What is logged is `RUST_LOG`'s choice; if it is not set, or empty, everything from `info` up.
fn filter() -> EnvFilter {
    let chosen = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|chosen| !chosen.trim().is_empty());
    chosen.and_then(|chosen| EnvFilter::try_new(chosen).ok()).unwrap_or_else(|| EnvFilter::new("info"))
}

/// Starts logging.
pub(crate) fn start(log: Log) {
    let filter = filter();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    match log {
        Log::Json => builder.json().flatten_event(true).init(),
        Log::Text => builder.init(),
        Log::Off => {}
    }
}
