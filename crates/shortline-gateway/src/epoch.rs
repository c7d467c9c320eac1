//! All that belongs to one fleet: what an exchange of the fleet replaces, as one immutable object.
//!
//! A request takes the [`Epoch`] of the moment of its arrival and finds its job type in it. The dispatcher decides in
//! the epoch of the moment of the decision; if that is another one, the job type is found again by its name. Servers
//! and job types are kept by name: an epoch lists, by the ids of its fleet, objects that outlive it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use shortline_core::fleet::settings::{Address, Overflow, Settings};
use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId, ServerId};

use crate::client_stream::ClientLimits;
use crate::client_stream::framing::HeadLimits;
use crate::fleet_server::Server;
use crate::gateway::StartError;
use crate::job_type::Finder;
use crate::service_times::ServiceTimes;
use crate::stats::JobTypeRecord;
use crate::upstream::{Endpoint, TlsClient};

/// Longest wait in line if the fleet file does not say.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// A fleet in service.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) policy: PolicySpec,
    pub(crate) finder: Finder,
    pub(crate) limits: Limits,
    pub(crate) no_capacity_status: StatusCode,
    pub(crate) served_by: bool,
    /// Whether what finds no place waits.
    pub(crate) waits: bool,
    /// Of the jobs of this fleet.
    pub(crate) service_times: ServiceTimes,
    /// By [`ServerId`].
    servers: Vec<Arc<Server>>,
    /// By [`JobTypeId`].
    job_types: Vec<Arc<JobTypeRecord>>,
}

/// `[timeouts]` as durations, and what `[gateway]` limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    /// Longest wait in line.
    pub(crate) queue: Duration,
    /// Longest wait for the first server of a job type to be up; `None`: no wait.
    pub(crate) hold: Option<Duration>,
    /// On what clients send.
    pub(crate) client: ClientLimits,
    /// Most connections from one client address.
    pub(crate) per_client: Option<u32>,
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
            hold: lines.hold_s.map(seconds),
            client: ClientLimits {
                head: HeadLimits { bytes: gateway.max_header_bytes as usize, lines: gateway.max_headers as usize },
                header: seconds(timeouts.header_s),
                idle: seconds(timeouts.idle_s),
            },
            per_client: gateway.connections_per_client,
        }
    }
}

impl Epoch {
    /// A fleet whose servers are at `endpoints` (see [`endpoints`]), with `server` and `job_type` known by their names.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        policy: PolicySpec,
        endpoints: &[Endpoint],
        server: impl Fn(&str, &Endpoint) -> Arc<Server>,
        job_type: impl Fn(&str) -> Arc<JobTypeRecord>,
    ) -> Self {
        let settings = fleet.settings();
        let no_capacity_status =
            StatusCode::from_u16(settings.gateway.no_capacity_status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        Self {
            policy,
            finder: Finder::new(settings),
            limits: Limits::new(settings),
            no_capacity_status,
            served_by: settings.gateway.served_by,
            waits: settings.overflow == Overflow::Wait || policy == PolicySpec::Central,
            servers: fleet.servers().zip(endpoints).map(|(id, at)| server(&fleet.server_name(id), at)).collect(),
            job_types: fleet.job_types().map(|id| job_type(&fleet.job_type_name(id))).collect(),
            service_times: ServiceTimes::new(&fleet),
            fleet,
        }
    }

    pub(crate) fn server(&self, id: ServerId) -> &Arc<Server> {
        &self.servers[id.index()]
    }

    pub(crate) fn job_type(&self, id: JobTypeId) -> &Arc<JobTypeRecord> {
        &self.job_types[id.index()]
    }

    /// Whether the server of this name holds the job type of this name.
    pub(crate) fn holds(&self, server: &str, job_type: &str) -> bool {
        let found = self.fleet.find_job_type(job_type).zip(self.fleet.find_server(server));
        found.is_some_and(|(job_type, server)| self.fleet.graph().contains(job_type.index(), server))
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    pub(crate) fn job_types(&self) -> &[Arc<JobTypeRecord>] {
        &self.job_types
    }
}

/// Where servers are.
#[derive(Debug)]
pub(crate) enum Addresses {
    /// Where the fleet says.
    OfFleet,
    /// Here, by name; a server that is not among them cannot be served.
    Given(HashMap<String, Address>),
}

impl Addresses {
    fn of<'a>(&'a self, fleet: &'a Fleet, server: ServerId) -> Option<&'a Address> {
        match self {
            Self::OfFleet => fleet.address(server),
            Self::Given(given) => given.get(&fleet.server_name(server)),
        }
    }
}

/// Where the servers of a fleet are, by [`ServerId`]. Paths in the fleet's settings are relative to `folder`.
///
/// # Errors
/// [`StartError`] if a server has no address, or one that cannot be spoken to.
pub(crate) fn endpoints(fleet: &Fleet, addresses: &Addresses, folder: &Path) -> Result<Vec<Endpoint>, StartError> {
    let address = |server: ServerId| addresses.of(fleet, server);
    let mut without = fleet.servers_in_file_order().filter(|&server| address(server).is_none());
    if let Some(first) = without.next() {
        let (server, others) = (fleet.server_name(first), without.count());
        return Err(match addresses {
            Addresses::OfFleet => StartError::NoAddress { server, others },
            Addresses::Given(_) => StartError::NotAmongGiven { server, others },
        });
    }
    // Made for the first server that needs it.
    let client = OnceCell::new();
    let tls = || match client.get() {
        Some(client) => Ok(client),
        None => TlsClient::new(&fleet.settings().tls, folder).map(|made| client.get_or_init(|| made)),
    };
    let spoken = |server: ServerId| {
        let address = address(server).expect("checked above");
        Endpoint::new(address, tls).map_err(|why| {
            let (server, address) = (fleet.server_name(server), address.to_string());
            StartError::Tls { server, address, why: Box::new(why) }
        })
    };
    fleet.servers().map(spoken).collect()
}
