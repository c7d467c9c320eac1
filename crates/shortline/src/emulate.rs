//! `shortline emulate`: the servers of a fleet file, emulated on their addresses.

use std::path::PathBuf;
use std::sync::Arc;

use shortline_core::fleet::settings::Arrivals;
use shortline_core::{Fleet, ServerId};
use shortline_gateway::emulate::{Bind, Emulator};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::fleet_file;
use crate::terminal::say;

/// Play the servers of a fleet file
///
/// Each server listens on the file's address, which must be this machine's, and serves its jobs as `[service]` says,
/// with its slots and rate; `[emulate] time_scale` sets the pace. Ends with SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example (a file whose addresses are 127.0.0.1:9000-9023):\n  shortline emulate fleet.toml")]
pub(crate) struct Args {
    /// Fleet file (TOML or JSON)
    fleet: PathBuf,
    /// Ignore the file's addresses and use loopback ports of the system's choice
    #[arg(long)]
    any_port: bool,
    /// Seed of the job sizes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON: a line with the servers, and at the end one on their answers
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let fleet = fleet_file::open(&args.fleet)?;
    let settings = fleet.settings();
    fleet_file::say_not_honoured(
        "emulate",
        &[("[arrivals]", settings.arrivals != Arrivals::Poisson), ("[failures]", settings.failures.is_some())],
    );
    let bind = if args.any_port { Bind::Loopback } else { Bind::Addresses };
    crate::runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::run)?;
        let emulator = Emulator::start(Arc::clone(&fleet), args.seed, bind).await.map_err(Failure::usage)?;
        if args.json {
            say!("{}", serde_json::json!({ "fleet": fleet.name(), "servers": urls(&emulator, &fleet) }))?;
        } else {
            for Emulated { name, url } in urls(&emulator, &fleet) {
                say!("{name}\t{url}")?;
            }
        }
        tokio::select! {
            _ = terminate.recv() => {}
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Failure::run)?,
        }
        let lateness = emulator.lateness();
        emulator.shutdown().await;
        if args.json {
            return say!(
                "{}",
                serde_json::json!({
                    "jobs": lateness.count,
                    "lateness_s": { "p50": lateness.p50_s, "p99": lateness.p99_s, "max": lateness.max_s },
                })
            );
        }
        say!(
            "{} jobs answered; behind their intended ends by {:.3} ms (median), {:.3} ms (99 %), {:.3} ms (largest)",
            lateness.count,
            lateness.p50_s * 1e3,
            lateness.p99_s * 1e3,
            lateness.max_s * 1e3,
        )?;
        Ok(())
    })
}

/// An emulated server and where it is.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Emulated {
    name: String,
    url: String,
}

/// The servers, in the file's order.
pub(crate) fn urls(emulator: &Emulator, fleet: &Fleet) -> Vec<Emulated> {
    let emulated = |server: ServerId| Emulated {
        name: fleet.server_name(server),
        url: format!("http://{}", emulator.addresses()[server.index()]),
    };
    fleet.servers_in_file_order().map(emulated).collect()
}
