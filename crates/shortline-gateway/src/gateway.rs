//! The gateway's parts, put together from a fleet: what all connections share.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use shortline_core::Fleet;
use shortline_core::fleet::settings::Address;
use shortline_core::policy::{PolicyError, PolicySpec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::breaker::Word;
use crate::cut_off::CutOff;
use crate::descriptors;
use crate::dispatch::Dispatch;
use crate::epoch::{Addresses, Limits, endpoints};
use crate::errors::Refusal;
use crate::fleet_server::Server;
use crate::per_client::PerClient;
use crate::reload::{CompleteFleet, READ_AT_MOST, ReadFleet, Reloads, Source};
use crate::retry_budget::RetryBudget;
use crate::stats::{JobTypeRecord, Stats};
use crate::upstream::{Lease, TlsError, names};

/// `retry-after` when no server is up: about what a restart takes at best.
const RETRY_WHEN_DOWN_S: u64 = 5;
/// `retry-after` is never longer.
const LONGEST_RETRY_S: u64 = 60;
/// How often rates are measured.
const TICK: Duration = Duration::from_secs(1);
/// How many ticks a connection to a server may lie idle.
const SWEEP_TICKS: u32 = 30;

/// A proven lower bound on the mean response time, for `/status`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bound {
    /// Which bound it is: `fluid`, `graph` or `pooled`.
    pub kind: String,
    /// The bound, in seconds.
    pub mean_response_s: f64,
}

/// Computes the bound for a fleet with these arrival rates, measured, in 1/s by job type. The gateway knows no
/// theory: whoever starts it brings this along.
pub type BoundFn = Arc<dyn Fn(&Fleet, &[f64]) -> Option<Bound> + Send + Sync>;

/// What a gateway is made from.
#[derive(Clone)]
pub struct Options {
    /// The fleet to serve.
    pub fleet: Arc<Fleet>,
    /// The policy; `None`: the fleet's, or `jfsq`.
    pub policy: Option<PolicySpec>,
    /// Where the servers are, by [`ServerId`](shortline_core::ServerId); `None`: where the fleet says.
    pub addresses: Option<Vec<Address>>,
    /// Real seconds per second of the fleet file: 1, unless the servers are emulated at another pace.
    pub time_scale: f64,
    /// Seed of the random choices.
    pub seed: u64,
    /// The bound shown in `/status`.
    pub bound: Option<BoundFn>,
    /// What paths in the fleet file are relative to: its folder.
    pub folder: PathBuf,
    /// Reads the fleet again, for [`Gateway::reload`]; `None`: it cannot be reloaded.
    pub read: Option<ReadFleet>,
    /// How long a reload may take to read the fleet, and as long again to read certificates and keys.
    pub read_at_most: Duration,
    /// Completes a fleet that servers were put into or taken from.
    pub complete: Option<CompleteFleet>,
    /// Most connections of clients, and as many to servers; `None`: a third of the file descriptors that are free.
    pub connections: Option<usize>,
}

impl Options {
    /// A fleet as its file says, seed 0, no bound, as many connections as there are descriptors for.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self {
            fleet,
            policy: None,
            addresses: None,
            time_scale: 1.0,
            seed: 0,
            bound: None,
            folder: PathBuf::new(),
            read: None,
            read_at_most: READ_AT_MOST,
            complete: None,
            connections: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("fleet", &self.fleet.name())
            .field("policy", &self.policy)
            .field("addresses", &self.addresses)
            .field("time_scale", &self.time_scale)
            .field("seed", &self.seed)
            .field("bound", &self.bound.is_some())
            .field("folder", &self.folder)
            .field("read", &self.read.is_some())
            .field("read_at_most", &self.read_at_most)
            .field("complete", &self.complete.is_some())
            .field("connections", &self.connections)
            .finish()
    }
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The policy does not suit the fleet.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A server without address.
    #[error("server `{server}` has no address{}; give every [[server]] an `address`", and_others(*.others))]
    NoAddress {
        /// The first one.
        server: String,
        /// How many more there are.
        others: usize,
    },
    /// A server that came with a reload, where addresses were given in another way than by the file.
    #[error(
        "server `{server}`{} is new, and addresses are not those of the file (servers are emulated?): it cannot be reached; start anew",
        and_others(*.others)
    )]
    NotAmongGiven {
        /// The first one.
        server: String,
        /// How many more there are.
        others: usize,
    },
    /// A list of addresses of the wrong length.
    #[error("{given} addresses for {servers} servers; one each is needed")]
    AddressCount {
        /// How many were given.
        given: usize,
        /// How many are needed.
        servers: usize,
    },
    /// A server at an `https` address, and no TLS to reach it.
    #[error("server `{server}` is at {address}: {why}")]
    Tls {
        /// Its name.
        server: String,
        /// Its address.
        address: String,
        /// What is missing.
        #[source]
        why: Box<TlsError>,
    },
}

fn and_others(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and neither have {others} more") }
}

/// A gateway. [`serve`](Gateway::serve) runs it.
pub struct Gateway {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) stats: Stats,
    pub(crate) retry_budget: RetryBudget,
    /// Where other fleets come from.
    pub(crate) source: Mutex<Source>,
    pub(crate) reloads: Reloads,
    /// Real seconds per second of the fleet file.
    pub(crate) time_scale: f64,
    pub(crate) bound: Option<BoundFn>,
    pub(crate) started: Instant,
    /// The same by the calendar, in seconds since 1970.
    pub(crate) created_s: u64,
    pub(crate) draining: AtomicBool,
    /// Ends what still runs when the grace is over.
    pub(crate) cut_off: CutOff,
    /// Measurements of the rates so far.
    ticks: AtomicU32,
    /// Who has how many connections.
    pub(crate) clients: PerClient,
    /// Room for connections of clients.
    pub(crate) client_sockets: Arc<Semaphore>,
    /// Room for connections to servers.
    server_sockets: Arc<Semaphore>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("dispatch", &self.dispatch).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Puts a gateway together; it does nothing until it serves.
    ///
    /// # Errors
    /// [`StartError`] if fleet, policy and addresses do not make one.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let Options {
            fleet,
            policy,
            addresses,
            time_scale,
            seed,
            bound,
            folder,
            read,
            read_at_most,
            complete,
            connections,
        } = options;
        let connections = connections.unwrap_or_else(descriptors::share).clamp(1, Semaphore::MAX_PERMITS);
        let retry_budget = RetryBudget::new(&fleet.settings().retry);
        let addresses = Arc::new(by_name(&fleet, addresses)?);
        let source = Source::new(read, read_at_most, complete, policy, addresses, folder);
        let endpoints = endpoints(&fleet, &source.addresses, &source.folder)?;
        let first = source.epoch(fleet, &endpoints, None);
        Ok(Self {
            dispatch: Arc::new(Dispatch::new(first, seed)?),
            source: Mutex::new(source),
            reloads: Reloads::default(),
            stats: Stats::new(),
            retry_budget,
            time_scale,
            bound,
            started: Instant::now(),
            created_s: UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
            draining: AtomicBool::new(false),
            cut_off: CutOff::default(),
            ticks: AtomicU32::new(0),
            clients: PerClient::default(),
            client_sockets: Arc::new(Semaphore::new(connections)),
            server_sockets: Arc::new(Semaphore::new(connections)),
        })
    }

    /// The fleet in service.
    #[must_use]
    pub fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.dispatch.epoch().fleet)
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> PolicySpec {
        self.dispatch.epoch().policy
    }

    /// Takes a server up or down, by its name: a server that is down gets no new requests, those it has run on. Whether
    /// there is one of this name.
    pub fn set_up(&self, server: &str, up: bool) -> bool {
        let epoch = self.dispatch.epoch();
        let server = epoch.fleet.find_server(server).map(|server| epoch.server(server));
        if let Some(server) = server {
            server.told(&self.dispatch, if up { Word::Up } else { Word::Down });
            if up {
                server.regain_but(&self.dispatch, |_| false);
            }
        }
        server.is_some()
    }

    /// Whether the gateway takes new requests.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.draining.load(Relaxed)
    }

    /// Seconds after which a request of this job type, refused for want of a place, may try again.
    ///
    /// The expected time until its turn, `(requests in its line + 1) / D`, where `D` is the rate at which the servers
    /// that hold the job type complete requests: the larger of what was measured and what the fleet file says they
    /// can. What was measured is little after a quiet time and says nothing then. Other job types compete for the same
    /// places and servers may be slower than written, so this is a lower estimate. Rounded up, 1 to 60.
    /// `D` is computed at most once a second, so that refusing stays cheap when there is much to refuse.
    fn retry_after_s(&self, job_type: &JobTypeRecord) -> u64 {
        let tick = self.ticks.load(Relaxed);
        let rate = job_type.drain_rate(tick, || self.drain_rate(job_type.name()));
        let ahead = self.dispatch.waiting(job_type.name()) as f64;
        ((ahead + 1.0) / rate).ceil().clamp(1.0, LONGEST_RETRY_S as f64) as u64
    }

    /// A connection to a server: an idle one ([`Upstream::idle`](crate::upstream::Upstream::idle)), or a new one if there
    /// is room for it.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn lease(&self, server: &Server, limits: &Limits, checked: bool) -> Result<Lease, Refusal> {
        let upstream = server.upstream();
        match upstream.idle(checked) {
            Some(lease) => Ok(lease),
            // In a box, as all that is seldom needed: the future of a request is copied on its way.
            None => Box::pin(self.new_lease(server, limits.connect)).await,
        }
    }

    /// A new connection to a server.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn new_lease(&self, server: &Server, at_most: Duration) -> Result<Lease, Refusal> {
        server.upstream().connect(at_most, self.server_socket(at_most).await?).await
    }

    /// Takes back a connection whose answer was read to the end. It closes if others wait for room.
    pub(crate) fn give_back(&self, lease: Lease) {
        if self.server_sockets.available_permits() > 0 {
            lease.give_back();
        }
    }

    /// Room for one more connection to a server, made by closing idle ones if need be: O(servers), then.
    async fn server_socket(&self, at_most: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(socket) = Arc::clone(&self.server_sockets).try_acquire_owned() {
            return Ok(socket);
        }
        self.dispatch.epoch().servers().iter().for_each(|server| server.upstream().close_idle());
        let socket = tokio::time::timeout(at_most, Arc::clone(&self.server_sockets).acquire_owned()).await;
        socket.ok().and_then(Result::ok).ok_or(Refusal::OutOfSockets)
    }

    /// Seconds after which the client of a refused request may try again.
    pub(crate) fn retry_s(&self, refusal: &Refusal, job_type: Option<&JobTypeRecord>) -> u64 {
        match refusal {
            Refusal::NoCapacity { .. } | Refusal::QueueTimeout => {
                job_type.map_or(RETRY_WHEN_DOWN_S, |job_type| self.retry_after_s(job_type))
            }
            Refusal::NotHeld => LONGEST_RETRY_S,
            Refusal::NoServerUp => {
                job_type.and_then(|job_type| self.served_in_s(job_type.name())).unwrap_or(RETRY_WHEN_DOWN_S)
            }
            _ => RETRY_WHEN_DOWN_S,
        }
    }

    /// Seconds until the first server of this job type will be tried again, if that is certain. O(degree).
    fn served_in_s(&self, job_type: &str) -> Option<u64> {
        let epoch = self.dispatch.epoch();
        let wait = epoch.served_in(epoch.fleet.find_job_type(job_type)?, Instant::now())?;
        Some(wait.as_secs_f64().ceil() as u64)
    }

    /// Completions per second of the servers that hold this job type. O(degree).
    fn drain_rate(&self, job_type: &str) -> f64 {
        let epoch = self.dispatch.epoch();
        let fleet = &epoch.fleet;
        let Some(job_type) = fleet.find_job_type(job_type) else { return 1.0 };
        let (mut measured, mut written) = (0.0, 0.0);
        fleet.graph().for_each(job_type.index(), |server| {
            measured += epoch.server(server).drain_rate();
            written += f64::from(fleet.slots(server)) * fleet.service_rate(job_type, server);
        });
        match (measured > 0.0, fleet.has_rates()) {
            (_, true) => measured.max(written / self.time_scale),
            (true, false) => measured,
            (false, false) => 1.0,
        }
    }

    /// Looks the names of servers up, for ever.
    pub(crate) async fn follow_names(self: Arc<Self>) {
        names::follow(&self.dispatch, &names::system).await;
    }

    /// Measures rates and closes idle connections, for ever.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = ticks.tick().await;
        for tick in 1_u32.. {
            ticks.tick().await;
            let now = Instant::now();
            let dt_s = now.duration_since(last).as_secs_f64();
            last = now;
            let epoch = self.dispatch.epoch();
            epoch.job_types().iter().for_each(|job_type| job_type.measure(dt_s));
            epoch.servers().iter().for_each(|server| server.measure(dt_s));
            self.ticks.store(tick, Relaxed);
            if tick.is_multiple_of(SWEEP_TICKS) {
                epoch.servers().iter().for_each(|server| server.upstream().sweep());
            }
        }
    }
}

/// Addresses by the names of their servers.
fn by_name(fleet: &Fleet, addresses: Option<Vec<Address>>) -> Result<Addresses, StartError> {
    let Some(addresses) = addresses else { return Ok(Addresses::OfFleet) };
    if addresses.len() != fleet.server_count() {
        return Err(StartError::AddressCount { given: addresses.len(), servers: fleet.server_count() });
    }
    let names = fleet.servers().map(|server| fleet.server_name(server));
    Ok(Addresses::Given(names.zip(addresses).collect()))
}
