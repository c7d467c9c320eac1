//! How a command ends that does not succeed: a message on standard error and an exit status.

use std::process::ExitCode;

use miette::{GraphicalReportHandler, GraphicalTheme};
use shortline_core::fleet::FleetFaults;

use crate::terminal::{self, aside};

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The fleet file is not usable: exit status 2.
    Fleet(Box<FleetFaults>),
    /// Wrong usage, or another file that is not usable: exit status 2.
    Usage(String),
    /// The run failed: exit status 1.
    Run(String),
    /// Standard output was closed before all was said: ends quietly.
    NobodyReads,
}

impl Failure {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::Usage(message.to_string())
    }

    pub(crate) fn run(message: impl ToString) -> Self {
        Self::Run(message.to_string())
    }

    /// The same, with where it happened in front.
    pub(crate) fn at(self, place: &str) -> Self {
        match self {
            other @ (Self::Fleet(_) | Self::NobodyReads) => other,
            Self::Usage(message) => Self::Usage(format!("{place}: {message}")),
            Self::Run(message) => Self::Run(format!("{place}: {message}")),
        }
    }

    /// The message, for those who do not read the terminal.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Fleet(faults) => render(&**faults),
            Self::Usage(message) | Self::Run(message) => message.clone(),
            Self::NobodyReads => "standard output is closed".to_owned(),
        }
    }

    /// Prints the message and gives the exit status.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Fleet(faults) => {
                terminal::write_aside(format_args!("{}", render(&*faults)));
                ExitCode::from(2)
            }
            Self::Usage(message) => {
                aside!("error: {message}");
                ExitCode::from(2)
            }
            Self::Run(message) => {
                aside!("error: {message}");
                ExitCode::from(1)
            }
            Self::NobodyReads => ExitCode::from(terminal::CLOSED),
        }
    }
}

/// A diagnostic with its place in the file, coloured where standard error is a terminal that wants it.
pub(crate) fn render(diagnostic: &dyn miette::Diagnostic) -> String {
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    let theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut text = String::new();
    match GraphicalReportHandler::new_themed(theme).with_width(110).render_report(&mut text, diagnostic) {
        Ok(()) => text,
        Err(std::fmt::Error) => format!("{diagnostic}\n"),
    }
}
