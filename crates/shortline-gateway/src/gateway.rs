//! The gateway's parts, put together from a fleet: what all connections share.

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use shortline_core::fleet::settings::{Address, Settings};
use shortline_core::policy::{PolicyError, PolicySpec};
use shortline_core::{Fleet, JobTypeId, ServerId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::client_stream::ClientLimits;
use crate::client_stream::framing::HeadLimits;
use crate::descriptors;
use crate::dispatch::Dispatch;
use crate::errors::Refusal;
use crate::job_type::Finder;
use crate::per_client::PerClient;
use crate::rates::{Meter, Rates};
use crate::shutdown::{Shutdown, Trigger, shutdown};
use crate::stats::Stats;
use crate::upstream::{Lease, TlsClient, TlsError, Upstream};

/// Longest wait in line if the fleet file does not say.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
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
    /// Where the servers are, by [`ServerId`]; `None`: where the fleet says.
    pub addresses: Option<Vec<Address>>,
    /// Real seconds per second of the fleet file: 1, unless the servers are emulated at another pace.
    pub time_scale: f64,
    /// Seed of the random choices.
    pub seed: u64,
    /// The bound shown in `/status`.
    pub bound: Option<BoundFn>,
    /// What paths in the fleet file are relative to: its folder.
    pub folder: PathBuf,
    /// Most connections of clients, and as many to servers; `None`: a third of the file descriptors that are free.
    pub connections: Option<usize>,
}

impl Options {
    /// A fleet as its file says, seed 0, no bound, as many connections as there are descriptors for.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self { fleet, policy: None, addresses: None, time_scale: 1.0, seed: 0, bound: None, folder: PathBuf::new(), connections: None }
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
        address: Address,
        /// What is missing.
        #[source]
        why: TlsError,
    },
}

fn and_others(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and neither have {others} more") }
}

/// `[timeouts]` as durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    /// Longest wait in line.
    pub(crate) queue: Duration,
    /// On what clients send.
    pub(crate) client: ClientLimits,
}

impl Limits {
    fn new(settings: &Settings) -> Self {
        let Settings { timeouts, gateway, lines, .. } = settings;
        // What does not fit is as good as no limit.
        let seconds = |s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX).min(Duration::from_hours(24 * 365));
        Self {
            connect: seconds(timeouts.connect_s),
            first_byte: seconds(timeouts.first_byte_s),
            idle: seconds(timeouts.idle_s),
            queue: lines.timeout_s.map_or(QUEUE_TIMEOUT, seconds),
            client: ClientLimits {
                head: HeadLimits { bytes: gateway.max_header_bytes as usize, lines: gateway.max_headers as usize },
                header: seconds(timeouts.header_s),
                idle: seconds(timeouts.idle_s),
            },
        }
    }
}

/// A gateway for one fleet. [`serve`](Gateway::serve) runs it.
pub struct Gateway {
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) finder: Finder,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    /// Arrivals, by [`JobTypeId`].
    pub(crate) arrival_rates: Rates,
    /// Completions, by [`ServerId`].
    pub(crate) drain_rates: Rates,
    pub(crate) no_capacity_status: StatusCode,
    pub(crate) served_by: bool,
    /// Real seconds per second of the fleet file.
    time_scale: f64,
    pub(crate) bound: Option<BoundFn>,
    pub(crate) started: Instant,
    pub(crate) draining: AtomicBool,
    /// Ends what still runs when the grace is over.
    pub(crate) cut_off: (Trigger, Shutdown),
    /// Measurements of the rates so far.
    ticks: AtomicU32,
    /// Who has how many connections.
    pub(crate) clients: PerClient,
    /// Room for connections of clients.
    pub(crate) client_sockets: Arc<Semaphore>,
    /// Room for connections to servers.
    server_sockets: Arc<Semaphore>,
    upstreams: Vec<Upstream>,
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
        let Options { fleet, policy, addresses, time_scale, seed, bound, folder, connections } = options;
        let connections = connections.unwrap_or_else(descriptors::share).clamp(1, Semaphore::MAX_PERMITS);
        let settings = fleet.settings();
        let policy = policy.or(settings.policy).unwrap_or(PolicySpec::Jfsq);
        let no_capacity_status =
            StatusCode::from_u16(settings.gateway.no_capacity_status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        Ok(Self {
            dispatch: Arc::new(Dispatch::new(Arc::clone(&fleet), policy, seed)?),
            finder: Finder::new(settings),
            limits: Limits::new(settings),
            clients: PerClient::new(settings.gateway.connections_per_client),
            stats: Stats::new(fleet.job_type_count()),
            arrival_rates: Rates::new(fleet.job_type_count()),
            drain_rates: Rates::new(fleet.server_count()),
            no_capacity_status,
            served_by: settings.gateway.served_by,
            time_scale,
            bound,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            cut_off: shutdown(),
            ticks: AtomicU32::new(0),
            client_sockets: Arc::new(Semaphore::new(connections)),
            server_sockets: Arc::new(Semaphore::new(connections)),
            upstreams: upstreams(&fleet, addresses, &folder)?,
        })
    }

    /// The fleet.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        self.dispatch.fleet()
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> PolicySpec {
        self.dispatch.policy()
    }

    /// Takes a server up or down: a server that is down gets no new requests, those it has run on.
    pub fn set_up(&self, server: ServerId, up: bool) {
        self.dispatch.set_up(server, up);
    }

    /// Whether the gateway takes new requests.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.draining.load(Relaxed)
    }

    pub(crate) fn upstream(&self, server: ServerId) -> &Upstream {
        &self.upstreams[server.index()]
    }

    /// Seconds after which a request of this job type, refused for want of a place, may try again.
    ///
    /// The expected time until its turn, `(requests in its line + 1) / D`, where `D` is the rate at which the servers
    /// that hold the job type complete requests: the larger of what was measured and what the fleet file says they
    /// can. What was measured is little after a quiet time and says nothing then. Other job types compete for the same
    /// places and servers may be slower than written, so this is a lower estimate. Rounded up, 1 to 60.
    /// `D` is computed at most once a second, so that refusing stays cheap when there is much to refuse.
    fn retry_after_s(&self, job_type: Option<JobTypeId>) -> u64 {
        let Some(job_type) = job_type else { return RETRY_WHEN_DOWN_S };
        let tick = self.ticks.load(Relaxed);
        let rate = self.stats.drain_rate(job_type, tick, || self.drain_rate(job_type));
        let ahead = self.dispatch.waiting(job_type) as f64;
        ((ahead + 1.0) / rate).ceil().clamp(1.0, LONGEST_RETRY_S as f64) as u64
    }

    /// A connection to a server: an idle one, or a new one if there is room for it.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub(crate) async fn lease(&self, server: ServerId) -> Result<Lease, Refusal> {
        let upstream = self.upstream(server);
        match upstream.idle() {
            Some(lease) => Ok(lease),
            None => upstream.connect(self.limits.connect, self.server_socket().await?).await,
        }
    }

    /// Takes back a connection whose answer was read to the end. It closes if others wait for room.
    pub(crate) fn give_back(&self, server: ServerId, lease: Lease) {
        if self.server_sockets.available_permits() > 0 {
            self.upstream(server).give_back(lease);
        }
    }

    /// Room for one more connection to a server, made by closing idle ones if need be: O(servers), then.
    async fn server_socket(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(socket) = Arc::clone(&self.server_sockets).try_acquire_owned() {
            return Ok(socket);
        }
        self.upstreams.iter().for_each(Upstream::close_idle);
        let socket = tokio::time::timeout(self.limits.connect, Arc::clone(&self.server_sockets).acquire_owned()).await;
        socket.ok().and_then(Result::ok).ok_or(Refusal::OutOfSockets)
    }

    /// Seconds after which the client of a refused request may try again.
    pub(crate) fn retry_s(&self, refusal: &Refusal, job_type: Option<JobTypeId>) -> u64 {
        match refusal {
            Refusal::NoCapacity { .. } | Refusal::QueueTimeout => self.retry_after_s(job_type),
            Refusal::NotHeld => LONGEST_RETRY_S,
            _ => RETRY_WHEN_DOWN_S,
        }
    }

    /// Completions per second of the servers that hold this job type. O(degree).
    fn drain_rate(&self, job_type: JobTypeId) -> f64 {
        let fleet = self.fleet();
        let (mut measured, mut written) = (0.0, 0.0);
        fleet.graph().for_each(job_type.index(), |server| {
            measured += self.drain_rates.get(server.index());
            written += f64::from(fleet.slots(server)) * fleet.service_rate(job_type, server);
        });
        match (measured > 0.0, fleet.has_rates()) {
            (_, true) => measured.max(written / self.time_scale),
            (true, false) => measured,
            (false, false) => 1.0,
        }
    }

    /// Measures rates and closes idle connections, for ever.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let mut arrivals = Meter::new(self.fleet().job_type_count());
        let mut completions = Meter::new(self.fleet().server_count());
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = ticks.tick().await;
        for tick in 1_u32.. {
            ticks.tick().await;
            let now = Instant::now();
            let dt_s = now.duration_since(last).as_secs_f64();
            last = now;
            let arrived = |l| self.stats.of(Some(JobTypeId::new(l))).map_or(0, |counts| counts.arrivals());
            arrivals.tick(dt_s, arrived, &self.arrival_rates);
            completions.tick(dt_s, |s| self.dispatch.completed(ServerId::new(s)), &self.drain_rates);
            self.ticks.store(tick, Relaxed);
            if tick.is_multiple_of(SWEEP_TICKS) {
                self.upstreams.iter().for_each(Upstream::sweep);
            }
        }
    }
}

/// The servers by [`ServerId`].
fn upstreams(fleet: &Fleet, addresses: Option<Vec<Address>>, folder: &Path) -> Result<Vec<Upstream>, StartError> {
    let servers = fleet.server_count();
    if let Some(given) = addresses.as_ref().map(Vec::len).filter(|&given| given != servers) {
        return Err(StartError::AddressCount { given, servers });
    }
    let address = |server: ServerId| match &addresses {
        Some(addresses) => addresses.get(server.index()),
        None => fleet.address(server),
    };
    let mut without = fleet.servers_in_file_order().filter(|&server| address(server).is_none());
    if let Some(first) = without.next() {
        return Err(StartError::NoAddress { server: fleet.server_name(first), others: without.count() });
    }
    let client = OnceCell::new();
    let tls = || match client.get() {
        Some(client) => Ok(client),
        None => TlsClient::new(&fleet.settings().tls, folder).map(|made| client.get_or_init(|| made)),
    };
    let upstream = |server: ServerId| {
        let (name, address) = (fleet.server_name(server), address(server).expect("checked above"));
        Upstream::new(&name, address, tls).map_err(|why| StartError::Tls { server: name, address: address.clone(), why })
    };
    fleet.servers().map(upstream).collect()
}
