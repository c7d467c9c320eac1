//! What a command says: answers on standard output, what is to be known besides on standard error.
//!
//! `say!` is `println!` for readers who may go away: `shortline check fleet.toml | head -1` then ends quietly, with the exit status that
//! a shell sees of tools that the closed pipe ends, [`CLOSED`]. What cannot be written for another reason (a full disk) is
//! an error. `aside!` is `eprintln!` that nobody need hear: where standard error is closed, there is no place left to complain.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Exit status where the reader of standard output has gone: 128 + SIGPIPE.
pub(crate) const CLOSED: u8 = 141;

/// A line on standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::terminal::write(format_args!("{}\n", format_args!($($words)*))) };
}
pub(crate) use say;

/// A line on standard error.
macro_rules! aside {
    ($($words:tt)*) => { $crate::terminal::write_aside(format_args!("{}\n", format_args!($($words)*))) };
}
pub(crate) use aside;

/// Text on standard output.
pub(crate) fn write(text: Arguments<'_>) -> Result<(), Failure> {
    std::io::stdout().lock().write_fmt(text).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::run(format!("cannot write to standard output: {error}")),
    })
}

/// Text on standard error.
pub(crate) fn write_aside(text: Arguments<'_>) {
    match std::io::stderr().lock().write_fmt(text) {
        // What was to be told cannot be: the exit status is all that is left.
        Ok(()) | Err(_) => {}
    }
}
