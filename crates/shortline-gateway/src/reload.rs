//! Exchanging the fleet under way: all of the new one, or nothing.
//!
//! Everything that can fail happens beside the running fleet: reading, checking, building the new dispatcher. Then, in
//! one turn of the dispatcher's lock, the new fleet takes over: counts, lines, up and down by name. Requests at servers
//! are not touched, whatever becomes of their servers: a job at a server that is no longer in the fleet runs on, and a
//! server that comes back finds its count again. A removed server or job type is remembered, with all its counts, as
//! long as a request holds it and for [`REMEMBERED`] beyond that.
//!
//! Reading has a time limit ([`within`]): a disk that does not answer fails a reload, and the next one begins anew.
//!
//! Two sources change the fleet. The *file* is read again by [`Gateway::reload`]. Single servers are put and deleted
//! ([`Gateway::put_server`]) on top of it: those that the file does not name survive a reload, and what the file names is
//! after a reload as the file says.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shortline_core::policy::{PolicyError, PolicySpec};
use shortline_core::{Fleet, LiveDispatcher};
use tokio::time::Instant;

use crate::breaker::Breaker;
use crate::checks;
use crate::dispatch::Delivery;
use crate::epoch::{Addresses, Epoch, endpoints};
use crate::fleet_server::Server;
use crate::gateway::{Gateway, StartError};
use crate::put_server::{PutServer, with_server, without_server};
use crate::stats::JobTypeRecord;
use crate::upstream::Endpoint;
use crate::within::within;

/// What is no longer in the fleet is remembered for at least this long.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How long reading the fleet file, and what it names, may take.
pub const READ_AT_MOST: Duration = Duration::from_secs(10);

/// So many warnings of a fleet are logged one by one.
const WARNINGS_LOGGED: usize = 10;

/// So many servers that came or went are named in the log.
const NAMED: usize = 5;

/// Reads the fleet file again; the error is for people, with the places of all faults.
pub type ReadFleet = Arc<dyn Fn() -> Result<FleetRead, String> + Send + Sync>;

/// What was read.
#[derive(Clone, Debug)]
pub struct FleetRead {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// What is probably not meant, each with its place; for people.
    pub warnings: Vec<String>,
}

impl From<Arc<Fleet>> for FleetRead {
    fn from(fleet: Arc<Fleet>) -> Self {
        Self { fleet, warnings: Vec::new() }
    }
}

/// Completes a fleet that is about to be served (shares for policy `split`, say); the error is for people.
pub type CompleteFleet = Arc<dyn Fn(Arc<Fleet>) -> Result<Arc<Fleet>, String> + Send + Sync>;

/// Why the fleet was not exchanged; the former one is in service as before.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The new fleet cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// There is nothing to read it from.
    #[error("this gateway was started without a fleet file to read again")]
    NoSource,
    /// It cannot be served.
    #[error(transparent)]
    Unservable(#[from] StartError),
    /// A server that is added does not fit the fleet.
    #[error("server `{name}` {why}")]
    Server {
        /// Its name.
        name: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A server that is not in the fleet cannot be taken out of it.
    #[error("the fleet has no server `{0}`")]
    NoSuchServer(String),
}

impl From<PolicyError> for ReloadError {
    fn from(error: PolicyError) -> Self {
        Self::Unservable(error.into())
    }
}

/// What an exchange did.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Reloaded {
    /// Exchanges of the fleet since the start, this one included.
    pub epoch: u64,
    /// Servers in the fleet.
    pub servers: usize,
    /// Job types in the fleet.
    pub job_types: usize,
    /// Servers that are new.
    pub servers_added: usize,
    /// Servers that are gone.
    pub servers_removed: usize,
    /// What is probably not meant of what was read, each with its place.
    pub warnings: Vec<String>,
}

/// An exchange, and the names of the servers that came and went.
struct Exchanged {
    reloaded: Reloaded,
    added: Vec<String>,
    removed: Vec<String>,
}

/// Where fleets come from, and what is kept of former ones. Held locked during an exchange: they happen one by one.
pub(crate) struct Source {
    pub(crate) read: Option<ReadFleet>,
    /// How long that may take.
    read_at_most: Duration,
    pub(crate) complete: Option<CompleteFleet>,
    /// Whatever the file says.
    pub(crate) policy: Option<PolicySpec>,
    pub(crate) addresses: Arc<Addresses>,
    /// What paths in the fleet's settings are relative to.
    pub(crate) folder: PathBuf,
    /// Servers that were put, as far as the file does not name them.
    put: BTreeMap<String, PutServer>,
    servers: Remembered<Server>,
    job_types: Remembered<JobTypeRecord>,
}

/// Things that are no longer in the fleet, by name, with the time of their removal.
type Remembered<T> = HashMap<String, (Instant, Arc<T>)>;

/// Counts of reloads, for `/metrics`.
#[derive(Debug)]
pub(crate) struct Reloads {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Whether the last reload succeeded.
    pub(crate) valid: AtomicBool,
    /// Held from the first byte that is read to the exchange, so that what was read later is served later.
    turn: Mutex<()>,
}

impl Default for Reloads {
    fn default() -> Self {
        Self {
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            valid: AtomicBool::new(true),
            turn: Mutex::default(),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("read", &self.read.is_some()).field("put", &self.put).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Reads the fleet file again and serves what it says: everything of it, or, if something is wrong with it, nothing.
    /// Requests under way are not touched. Servers that were put stay, unless the file names them.
    ///
    /// Blocks while it reads and builds: O(servers + job types + edges); reading takes no longer than
    /// [`Options::read_at_most`](crate::Options::read_at_most). The traffic waits for the last step only, O(servers + waiting
    /// requests).
    ///
    /// `by` is the occasion, for the log.
    ///
    /// # Errors
    /// [`ReloadError`]; the former fleet is in service then. It is also counted and logged.
    pub fn reload(&self, by: &str) -> Result<Reloaded, ReloadError> {
        let _turn = self.reloads.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, at_most) = {
            let source = self.source();
            (source.read.clone().ok_or(ReloadError::NoSource)?, source.read_at_most)
        };
        let result = within(at_most, move || read())
            .unwrap_or_else(|unfinished| Err(format!("cannot read the fleet file: {unfinished}")))
            .map_err(ReloadError::Unreadable)
            .and_then(|read| self.take_over(read));
        self.reloads.valid.store(result.is_ok(), Relaxed);
        match &result {
            Ok(Exchanged { reloaded, added, removed }) => {
                self.reloads.done.fetch_add(1, Relaxed);
                tracing::info!(
                    by,
                    epoch = reloaded.epoch,
                    servers = reloaded.servers,
                    job_types = reloaded.job_types,
                    added = reloaded.servers_added,
                    added_names = some_of(added),
                    removed = reloaded.servers_removed,
                    removed_names = some_of(removed),
                    "the fleet was reloaded"
                );
                for warning in reloaded.warnings.iter().take(WARNINGS_LOGGED) {
                    tracing::warn!(by, warning, "the fleet that was reloaded is probably not as meant");
                }
                if let Some(more @ 1..) = reloaded.warnings.len().checked_sub(WARNINGS_LOGGED) {
                    tracing::warn!(by, more, "there are more warnings");
                }
            }
            Err(error) => {
                self.reloads.failed.fetch_add(1, Relaxed);
                tracing::error!(by, %error, "the fleet was not reloaded; the former one stays in service");
            }
        }
        result.map(|exchanged| exchanged.reloaded)
    }

    /// Puts what was read into service, with the servers that were put and the file does not name.
    fn take_over(&self, FleetRead { fleet, warnings }: FleetRead) -> Result<Exchanged, ReloadError> {
        let mut source = self.source();
        let mut put = source.put.clone();
        put.retain(|name, _| fleet.find_server(name).is_none());
        let (mut whole, mut misfits) = (fleet, Vec::new());
        for server in put.values() {
            match with_server(&whole, server) {
                Ok(with) => whole = Arc::new(with),
                Err(misfit) => misfits.push(misfit.to_string()),
            }
        }
        if !misfits.is_empty() {
            return Err(ReloadError::Unreadable(misfits.join("\n")));
        }
        let mut exchanged = self.exchange(&mut source, whole)?;
        source.put = put;
        exchanged.reloaded.warnings = warnings;
        Ok(exchanged)
    }

    /// Puts a server into the fleet, in place of one of the same name if there is one. Requests under way are not
    /// touched, and counts are kept. It survives a reload unless the file names it.
    ///
    /// # Errors
    /// [`ReloadError`] if it does not fit the fleet; nothing has changed then.
    pub fn put_server(&self, server: PutServer) -> Result<Reloaded, ReloadError> {
        let mut source = self.source();
        let fleet = with_server(&self.fleet(), &server)?;
        let Exchanged { reloaded, .. } = self.exchange(&mut source, Arc::new(fleet))?;
        tracing::info!(server = server.name, epoch = reloaded.epoch, "a server was put into the fleet");
        source.put.insert(server.name.clone(), server);
        Ok(reloaded)
    }

    /// Takes a server out of the fleet. Requests under way at it run on. If the file names it, a reload brings it back.
    ///
    /// # Errors
    /// [`ReloadError`] if there is none of this name, or none would be left.
    pub fn delete_server(&self, name: &str) -> Result<Reloaded, ReloadError> {
        let mut source = self.source();
        let fleet = without_server(&self.fleet(), name)?;
        let Exchanged { reloaded, .. } = self.exchange(&mut source, Arc::new(fleet))?;
        tracing::info!(server = name, epoch = reloaded.epoch, "a server was taken out of the fleet");
        source.put.remove(name);
        Ok(reloaded)
    }

    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `fleet` into service.
    fn exchange(&self, source: &mut Source, fleet: Arc<Fleet>) -> Result<Exchanged, ReloadError> {
        let fleet = match &source.complete {
            Some(complete) => complete(fleet).map_err(ReloadError::Unreadable)?,
            None => fleet,
        };
        let before = self.dispatch.epoch();
        let endpoints = source.endpoints(&fleet)?;
        let next = source.epoch(fleet, &endpoints, Some(&before));
        let prepared = LiveDispatcher::<Delivery>::prepare(&before.fleet, Arc::clone(&next.fleet), next.policy)?;
        // From here on nothing fails.
        let moved: Vec<bool> = next.servers().iter().zip(&endpoints).map(|(server, at)| server.move_to(at)).collect();
        let epoch = self.dispatch.take_over(prepared, &next);
        let looks_at_lost = !next.fleet.settings().health.model_lost_status.is_empty();
        let trips = |epoch: &Epoch| epoch.fleet.settings().health.trip_after > 0;
        let trips_no_more = trips(&before) && !trips(&next);
        for (server, moved) in next.servers().iter().zip(moved) {
            if moved {
                checks::at_once(server);
            }
            if moved || trips_no_more {
                server.change(&self.dispatch, "reload", None, Breaker::restart);
            }
            server.apply_health(&self.dispatch);
            server
                .regain_but(&self.dispatch, |job_type| looks_at_lost && !moved && next.holds(server.name(), job_type));
        }
        let gone = before.servers().iter().filter(|server| next.fleet.find_server(server.name()).is_none());
        gone.for_each(|server| server.regain_but(&self.dispatch, |_| false));
        Ok(source.remember(&before, &next, epoch))
    }
}

/// The first of these names, if there are any.
fn some_of(names: &[String]) -> Option<String> {
    let more = if names.len() > NAMED { ", ..." } else { "" };
    (!names.is_empty()).then(|| names[..names.len().min(NAMED)].join(", ") + more)
}

impl Source {
    pub(crate) fn new(
        read: Option<ReadFleet>,
        read_at_most: Duration,
        complete: Option<CompleteFleet>,
        policy: Option<PolicySpec>,
        addresses: Arc<Addresses>,
        folder: PathBuf,
    ) -> Self {
        let (put, servers, job_types) = Default::default();
        Self { read, read_at_most, complete, policy, addresses, folder, put, servers, job_types }
    }

    /// Where the servers of `fleet` are; certificates and keys are read for that.
    fn endpoints(&self, fleet: &Arc<Fleet>) -> Result<Vec<Endpoint>, ReloadError> {
        let (fleet, addresses, folder) = (Arc::clone(fleet), Arc::clone(&self.addresses), self.folder.clone());
        let unfinished = |why| ReloadError::Unreadable(format!("cannot read the files of [tls]: {why}"));
        Ok(within(self.read_at_most, move || endpoints(&fleet, &addresses, &folder)).map_err(unfinished)??)
    }

    /// The epoch of `fleet`, whose servers are at `endpoints`, with the servers and job types of `before` and of earlier ones
    /// where names are the same.
    pub(crate) fn epoch(&self, fleet: Arc<Fleet>, endpoints: &[Endpoint], before: Option<&Epoch>) -> Arc<Epoch> {
        let policy = self.policy.or(fleet.settings().policy).unwrap_or(PolicySpec::Jfsq);
        let server = |name: &str, endpoint: &Endpoint| {
            let known = before.and_then(|before| Some(before.server(before.fleet.find_server(name)?)));
            let known = known.or_else(|| Some(&self.servers.get(name)?.1));
            known.map_or_else(|| Arc::new(Server::new(name, endpoint)), Arc::clone)
        };
        let job_type = |name: &str| {
            let known = before.and_then(|before| Some(before.job_type(before.fleet.find_job_type(name)?)));
            let known = known.or_else(|| Some(&self.job_types.get(name)?.1));
            known.map_or_else(|| Arc::new(JobTypeRecord::new(name)), Arc::clone)
        };
        Arc::new(Epoch::new(fleet, policy, endpoints, server, job_type))
    }

    /// Keeps what `after` no longer has, and forgets what was gone long ago.
    fn remember(&mut self, before: &Epoch, after: &Epoch, epoch: u64) -> Exchanged {
        let now = Instant::now();
        self.servers.retain(|name, (at, server)| {
            after.fleet.find_server(name).is_none() && (Arc::strong_count(server) > 1 || *at + REMEMBERED > now)
        });
        self.job_types.retain(|name, (at, job_type)| {
            after.fleet.find_job_type(name).is_none() && (Arc::strong_count(job_type) > 1 || *at + REMEMBERED > now)
        });
        let not_in = |fleet: &Fleet, server: &&Arc<Server>| fleet.find_server(server.name()).is_none();
        let mut removed = Vec::new();
        for server in before.servers().iter().filter(|server| not_in(&after.fleet, server)) {
            removed.push(server.name().to_owned());
            server.leave();
            self.servers.insert(server.name().to_owned(), (now, Arc::clone(server)));
        }
        let gone = |job_type: &&Arc<JobTypeRecord>| after.fleet.find_job_type(job_type.name()).is_none();
        for job_type in before.job_types().iter().filter(gone) {
            self.job_types.insert(job_type.name().to_owned(), (now, Arc::clone(job_type)));
        }
        let added = after.servers().iter().filter(|server| not_in(&before.fleet, server));
        let added: Vec<String> = added.map(|server| server.name().to_owned()).collect();
        let reloaded = Reloaded {
            epoch,
            servers: after.fleet.server_count(),
            job_types: after.fleet.job_type_count(),
            servers_added: added.len(),
            servers_removed: removed.len(),
            warnings: Vec::new(),
        };
        Exchanged { reloaded, added, removed }
    }
}
