//! Emulated servers: one process plays the whole fleet over real sockets.
//!
//! Each server of the [`Fleet`] gets its own HTTP/1.1 listener and behaves as the file says: a queue (`[service]
//! discipline`, fifo or ps) with the server's slots, rate and buffer. A job of size `s` takes `s / rate` seconds on one
//! slot, times `[emulate] time_scale`. Requests and answers are described in `answer.rs`; in short: `x-job-type` or
//! `model` says what, `x-service-s` (else a draw) says how large, 404 for a job type the server does not hold, 503
//! when it is full, and a client that goes away takes its job with it.
//!
//! **Timing.** Queues are computed on intended times: a job starts exactly when the one before was due to end
//! (`queue.rs`), so errors do not add up; answers leave when a timer thread says so (`timer.rs`), not tokio's
//! millisecond wheel. What remains is the way from the deadline to the answer, in [`Emulator::lateness`].
//!
//! | requests/s | late, median | late, 99th percentile | CPU of a request, client included |
//! |---|---|---|---|
//! | 1,000 | 0.02 ms | 2 to 11 ms | 165 to 210 µs |
//! | 4,000 | 0.03 ms | 1 to 3 ms | 130 to 145 µs |
//! | 8,000 | 0.05 ms | 0.5 ms | 115 µs |
//!
//! 24 servers at load 0.6 and their clients in one process on 2 cores of a virtual machine (`examples/lab_timing.rs`),
//! while other work kept both cores busy (load average 9 to 10): the percentiles are what a crowded machine gives.
//! [`Emulator::lateness`] says what this one gives.
//!
//! **Seeds.** Each server draws its sizes from its own stream, so the n-th drawn job of a server has the same size in
//! every run with the same seed, in whatever order servers are asked.

mod answer;
mod fifo;
mod queue;
mod server;
mod sharing;
mod timer;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rand::{Rng, SeedableRng};
use shortline_core::random::Generator;
use shortline_core::{Fleet, ServerId};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use server::{Common, Server};
use shortline_core::sizes::{SizeLawError, UnitLaw};
use timer::Timer;

/// Where emulated servers listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bind {
    /// On loopback ports of the system's choice.
    Loopback,
    /// On the addresses of the fleet file, which must be this machine's.
    Addresses,
}

/// Why a fleet cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// The file says only which servers are faster, not how fast.
    #[error(
        "the server types have ranks but no rates, so how long a job takes is not known; give each [[server_type]] a `rate`"
    )]
    NoRates,
    /// A parameter of `[service]`.
    #[error(transparent)]
    SizeLaw(#[from] SizeLawError),
    /// A number that is no time scale.
    #[error("[emulate] time_scale is {0}, must be positive and finite")]
    TimeScale(f64),
    /// A server without address.
    #[error("server `{0}` has no `address` to listen on; give it one, or let the system choose loopback ports")]
    NoAddress(String),
    /// An emulated server does not speak TLS.
    #[error("server `{server}` has the address `{address}`; emulated servers speak http only")]
    Https {
        /// The server.
        server: String,
        /// Its address.
        address: String,
    },
    /// An address that is taken, or not this machine's.
    #[error(
        "server `{server}` cannot listen on {address}: {source}; it must be a free port of this machine (or let the system choose loopback ports)"
    )]
    Listen {
        /// The server.
        server: String,
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The timer thread did not start.
    #[error("cannot start the timer thread: {0}")]
    Timer(io::Error),
}

/// A running fleet of emulated servers. Dropping it stops them.
#[derive(Debug)]
pub struct Emulator {
    servers: Vec<Arc<Server>>,
    addresses: Vec<SocketAddr>,
    common: Arc<Common>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// How long after their intended ends jobs were answered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lateness {
    /// Answers given.
    pub count: u64,
    /// Median, in seconds.
    pub p50_s: f64,
    /// 99th percentile, in seconds.
    pub p99_s: f64,
    /// Largest, in seconds.
    pub max_s: f64,
}

impl Emulator {
    /// Starts all servers of the fleet on the current tokio runtime.
    ///
    /// # Errors
    /// [`EmulateError`]; then nothing is left running.
    pub async fn start(fleet: Arc<Fleet>, seed: u64, bind: Bind) -> Result<Self, EmulateError> {
        let settings = fleet.settings();
        let time_scale = settings.emulate.time_scale;
        if !(time_scale > 0.0 && time_scale.is_finite()) {
            return Err(EmulateError::TimeScale(time_scale));
        }
        if !fleet.has_rates() {
            return Err(EmulateError::NoRates);
        }
        let law = match UnitLaw::new(settings.service.law) {
            Ok(law) => Some(law),
            Err(SizeLawError::Trace) => None,
            Err(error) => return Err(error.into()),
        };
        let mut listeners = Vec::with_capacity(fleet.server_count());
        for server in fleet.servers() {
            listeners.push(listen(&fleet, server, bind).await?);
        }

        let timer = Timer::start().map_err(EmulateError::Timer)?;
        let common = Arc::new(Common::new(Arc::clone(&fleet), law, timer));
        let mut emulator = Self {
            servers: Vec::new(),
            addresses: Vec::new(),
            common,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let mut seeds = Generator::seed_from_u64(seed);
        for (id, (listener, address)) in fleet.servers().zip(listeners) {
            let server = Arc::new(Server::new(Arc::clone(&emulator.common), id, seeds.next_u64()));
            emulator.tasks.spawn(accept(listener, Arc::clone(&server), emulator.tasks.clone(), emulator.stop.clone()));
            emulator.servers.push(server);
            emulator.addresses.push(address);
        }
        Ok(emulator)
    }

    /// Where each server listens, by [`ServerId`].
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Jobs at a server now, those in service included.
    #[must_use]
    pub fn jobs(&self, server: ServerId) -> usize {
        self.servers[server.index()].jobs()
    }

    /// How late answers were until now.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        let lateness = self.common.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        let quantile = |q| lateness.value_at_quantile(q) as f64 / 1e9;
        Lateness { count: lateness.len(), p50_s: quantile(0.5), p99_s: quantile(0.99), max_s: quantile(1.0) }
    }

    /// Stops at once: connections are closed in mid-answer. Returns when all is gone.
    pub async fn shutdown(self) {
        let tasks = self.tasks.clone();
        drop(self);
        tasks.wait().await;
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
        self.common.timer.close();
    }
}

async fn listen(fleet: &Fleet, server: ServerId, bind: Bind) -> Result<(TcpListener, SocketAddr), EmulateError> {
    let name = || fleet.server_name(server);
    let (host, port, shown) = match bind {
        Bind::Loopback => (Ipv4Addr::LOCALHOST.to_string(), 0, "a loopback port".to_owned()),
        Bind::Addresses => {
            let address = fleet.address(server).ok_or_else(|| EmulateError::NoAddress(name()))?;
            if address.https {
                return Err(EmulateError::Https { server: name(), address: address.to_string() });
            }
            (address.host.clone(), address.port, address.to_string())
        }
    };
    let bound = TcpListener::bind((host.as_str(), port)).await.and_then(|listener| {
        let local = listener.local_addr()?;
        Ok((listener, local))
    });
    bound.map_err(|source| EmulateError::Listen { server: name(), address: shown, source })
}

/// Takes connections until the emulator stops.
async fn accept(listener: TcpListener, server: Arc<Server>, tasks: TaskTracker, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((connection, _)) => {
                tasks.spawn(converse(connection, Arc::clone(&server), stop.clone()));
            }
            Err(error) => {
                // Out of file descriptors, most likely: they come back when connections close.
                tracing::warn!(server = server.name, %error, "an emulated server could not accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

/// Answers the requests of one connection.
async fn converse(connection: TcpStream, server: Arc<Server>, stop: CancellationToken) {
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(%error, "a connection went away before it was used");
        return;
    }
    let service = service_fn(|request| answer::answer(Arc::clone(&server), request));
    let conversation = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
    tokio::select! {
        ended = conversation => {
            if let Err(error) = ended {
                tracing::debug!(server = server.name, %error, "a connection to an emulated server broke off");
            }
        }
        () = stop.cancelled() => {}
    }
}
