//! The command line of Shortline: one fleet file, one command per question.

mod bounds;
mod check;
mod digits;
mod emulate;
mod failure;
mod figure;
mod fingerprint;
mod fleet_file;
mod ledger;
mod load;
mod logging;
mod number;
mod outputs;
mod page;
mod reload;
mod replay;
mod reproduce;
mod serve;
mod simulate;
mod split;
mod terminal;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;

/// The load balancer for fleets in which not every server can do every job and not every server is equally fast.
///
/// One fleet file drives every command. Exit status: 0 done, 1 the answer is "no" or the run failed, 2 wrong usage or
/// a bad file.
#[derive(Debug, Parser)]
#[command(name = "shortline", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What theory says of a fleet: stability, bottleneck, bounds, guarantee
    Check(check::Args),
    /// The gateway: routes each HTTP request to a server that holds its model
    Serve(serve::Args),
    /// Emulated servers alone, on the addresses of the fleet file
    Emulate(emulate::Args),
    /// Open-loop load against a URL, from a trace or from the fleet file's rates
    Replay(replay::Args),
    /// Policies side by side against the bound, with confidence intervals
    Simulate(simulate::Args),
    /// The papers' experiments: tables, figures, verdicts
    Reproduce(reproduce::Args),
}

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The command line. Negative numbers are values in every command, so that `--load -1` is told what is wrong with it.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.allow_negative_numbers(true))
}

/// A tokio runtime for the commands that serve or send.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::run(format!("cannot start the runtime: {error}")))
}
