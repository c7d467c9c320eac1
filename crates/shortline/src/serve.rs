//! `shortline serve`: the gateway, with a whole emulated fleet behind it if asked for.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Address, Arrivals, Information, Settings};
use shortline_core::policy::PolicySpec;
use shortline_gateway::emulate::{Bind, Emulator};
use shortline_gateway::{Gateway, Options, raise_descriptor_limit, shutdown};
use tokio::runtime::Runtime;

use crate::failure::Failure;
use crate::logging::Log;
use crate::terminal::say;
use crate::{bounds, fleet_file, logging, reload, split};

/// How long what is left is waited for at the end.
const END_AT_MOST: Duration = Duration::from_secs(1);

/// Run the gateway
///
/// Requests come in on --listen; their job type is found in the header `x-job-type`, a `[[route]]` path prefix, the
/// `model` member of a JSON body, or the host, in the order that `[gateway] job_type_from` gives. SIGTERM drains:
/// running requests have --grace seconds to finish; a second signal ends at once. The fleet file is read again when it
/// or a file that it names changes, on SIGHUP, and on POST /reload at --admin: all of it is taken over, or, if something is wrong with it, nothing.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Example:\n  shortline serve examples/image-generation.toml --emulate --policy jfsq"
)]
pub(crate) struct Args {
    /// Fleet file (TOML or JSON)
    fleet: PathBuf,
    /// Emulate the servers on loopback ports of the system's choice; addresses in the file are ignored
    #[arg(long)]
    emulate: bool,
    /// Policy instead of the file's (default jfsq): random, jsq, jfsq, jiq, jfiq, jsq(d), jfsq(d), jsq(d1,d2), sed, nq, split, central
    #[arg(long)]
    policy: Option<PolicySpec>,
    /// Where requests come in
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Where the dashboard (/), /status, /fleet, /metrics, /healthz and /readyz are, POST /servers/NAME/drain, down and up, POST /reload, and PUT and DELETE /servers/NAME
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8081")]
    admin: String,
    /// Seconds that running requests have to finish after SIGTERM
    #[arg(long, default_value_t = 30.0, value_parser = crate::replay::not_negative)]
    grace: f64,
    /// Seed of the random choices, and of emulated service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The log on standard error: one line per request and event
    #[arg(long, value_enum, default_value = "json")]
    log: Log,
    /// Say what runs where as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let files = reload::Files::default();
    let fleet = fleet_file::opened(files.read(&args.fleet)?);
    let policy = args.policy.or(fleet.settings().policy);
    let fleet = split::with_shares(fleet, policy.as_slice())?;
    logging::start(args.log);
    fleet_file::say_not_honoured("serve", &not_honoured(fleet.settings()));
    run_to_its_end(crate::runtime()?, serve(args, fleet, files))
}

/// Runs `work`, and leaves behind what hangs: a thread may be reading from a disk that does not answer.
fn run_to_its_end<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(END_AT_MOST);
    result
}

/// What `serve` does not honour, and whether it is there.
pub(crate) fn not_honoured(settings: &Settings) -> [(&'static str, bool); 3] {
    [
        ("[arrivals]", settings.arrivals != Arrivals::Poisson),
        ("[failures]", settings.failures.is_some()),
        ("[information]", settings.information != Information::default()),
    ]
}

async fn serve(args: &Args, fleet: Arc<Fleet>, files: reload::Files) -> Result<(), Failure> {
    if let Err(error) = raise_descriptor_limit() {
        tracing::warn!(%error, "cannot raise the limit of file descriptors (ulimit -n); going on with fewer");
    }
    let emulator = if args.emulate {
        Some(Emulator::start(Arc::clone(&fleet), args.seed, Bind::Loopback).await.map_err(Failure::usage)?)
    } else {
        None
    };
    let addresses = emulator.as_ref().map(|emulator| emulator.addresses().iter().map(plain_address).collect());
    let time_scale = if args.emulate { fleet.settings().emulate.time_scale } else { 1.0 };
    let options = Options {
        policy: args.policy,
        addresses,
        seed: args.seed,
        time_scale,
        bound: Some(bounds::for_gateway(time_scale)),
        folder: fleet_file::folder(&args.fleet),
        read: Some(reload::reader(&args.fleet, args.policy, files.clone())),
        complete: Some(reload::completer(args.policy)),
        ..Options::new(Arc::clone(&fleet))
    };
    let gateway = Arc::new(Gateway::new(options).map_err(Failure::usage)?);
    let listener = tokio::net::TcpListener::from_std(listen("--listen", &args.listen)?).map_err(Failure::run)?;
    let admin = listen("--admin", &args.admin)?;
    let (trigger, orders) = shutdown();
    let signals = tokio::spawn(trigger.follow_signals());
    let reloads = tokio::spawn(reload::follow(Arc::clone(&gateway), files));

    let (requests, admin_pages) =
        (listener.local_addr().map_err(Failure::run)?, admin.local_addr().map_err(Failure::run)?);
    match args.json {
        true => say!("{}", banner_json(&gateway, &requests, &admin_pages, emulator.as_ref()))?,
        false => print_banner(&gateway, &requests, &admin_pages, emulator.as_ref())?,
    }
    let served = gateway.serve(listener, Some(admin), orders, Duration::from_secs_f64(args.grace)).await;
    signals.abort();
    reloads.abort();
    if let Some(emulator) = emulator {
        emulator.shutdown().await;
    }
    match served.map_err(Failure::run)?.cut_off {
        0 => Ok(()),
        n => Err(Failure::run(format!(
            "{n} requests were cut off: they outlived the grace, or a second signal ended it"
        ))),
    }
}

fn plain_address(address: &SocketAddr) -> Address {
    Address::new(false, address.ip().to_string(), address.port())
}

fn listen(option: &str, address: &str) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address)
        .map_err(|error| Failure::usage(format!("{option} {address}: {error}; choose a free port of this machine")))?;
    listener.set_nonblocking(true).map_err(Failure::run)?;
    Ok(listener)
}

/// Says what runs where, and how to try it.
fn print_banner(
    gateway: &Gateway,
    requests: &SocketAddr,
    admin: &SocketAddr,
    emulator: Option<&Emulator>,
) -> Result<(), Failure> {
    let fleet = &*gateway.fleet();
    say!(
        "shortline {}: {:?}, {} of {}, {} on {}, policy {}",
        env!("CARGO_PKG_VERSION"),
        fleet.name(),
        counted(fleet.server_count() as u64, "server"),
        counted(fleet.server_type_count() as u64, "type"),
        counted(fleet.job_type_count() as u64, "job type"),
        counted(fleet.graph().edge_count(), "edge"),
        gateway.policy(),
    )?;
    say!("  requests  http://{requests}")?;
    say!("  admin     http://{admin}/status /fleet /metrics /healthz /readyz")?;
    if let Some(emulator) = emulator {
        say!("  servers   {}", describe(emulator, fleet))?;
    }
    if let Some(model) = popular_job_type(fleet) {
        let body = serde_json::json!({ "model": model, "prompt": "a harbour at dawn" });
        let quoted = body.to_string().replace('\'', r"'\''");
        say!(
            "  try       curl -si http://{requests}/v1/images/generations -H 'content-type: application/json' -d '{quoted}'"
        )?;
    }
    Ok(())
}

/// The same for machines; `emulated` is null unless servers are emulated.
fn banner_json(
    gateway: &Gateway,
    requests: &SocketAddr,
    admin: &SocketAddr,
    emulator: Option<&Emulator>,
) -> serde_json::Value {
    let fleet = &*gateway.fleet();
    serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "fleet": fleet.name(),
        "servers": fleet.server_count(),
        "server_types": fleet.server_type_count(),
        "job_types": fleet.job_type_count(),
        "edges": fleet.graph().edge_count(),
        "policy": gateway.policy().to_string(),
        "requests": format!("http://{requests}"),
        "admin": format!("http://{admin}"),
        "emulated": emulator.map(|emulator| crate::emulate::urls(emulator, fleet)),
    })
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn describe(emulator: &Emulator, fleet: &Fleet) -> String {
    let ports = || emulator.addresses().iter().map(SocketAddr::port);
    let scale = fleet.settings().emulate.time_scale;
    let pace = match 1.0 / scale {
        1.0 => "in real time".to_owned(),
        factor => format!("{factor} times as fast as written ([emulate] time_scale = {scale})"),
    };
    let (first, last) = (ports().min().unwrap_or(0), ports().max().unwrap_or(0));
    format!("{} emulated on 127.0.0.1, ports {first}-{last}, {pace}", fleet.server_count())
}

/// The job type that arrives most often among those that some server holds.
fn popular_job_type(fleet: &Fleet) -> Option<String> {
    let held = fleet.job_types().filter(|l| fleet.graph().degree(l.index()) > 0);
    held.max_by(|&a, &b| {
        let rate = |l| fleet.arrival_rate(l).unwrap_or(0.0);
        // Of equal ones the first.
        rate(a).total_cmp(&rate(b)).then(b.cmp(&a))
    })
    .map(|l| fleet.job_type_name(l))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_hangs_does_not_keep_the_process() {
        let (end, ended) = channel::<()>();
        let began = Instant::now();
        run_to_its_end(crate::runtime().unwrap(), async {
            tokio::task::spawn_blocking(move || ended.recv_timeout(Duration::from_secs(20)));
        });
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        drop(end);
    }
}
