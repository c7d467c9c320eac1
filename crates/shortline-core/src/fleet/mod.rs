//! The fleet: all that one fleet file describes, checked and immutable.
//!
//! Three stages, three types: [`read_parts`] turns the file's text into [`FleetParts`] (plain values in the file's
//! order) or says [everything](FleetFaults) that is wrong with it; the parts become a [`Fleet`] (checked; rows ordered by speed; afterwards nothing fails), and a run keeps a fleet in an `Arc`.
//! A change of the fleet builds a new one beside the running one.
//!
//! **Speeds.** Job type `l` at server `r` is served at rate `mu_lr = rate(l, type of r) / size_l` (1/s). Two speeds
//! are equal when they differ by less than [`SPEED_TOLERANCE`] relative; ranks are computed once, here.

mod demand;
mod document;
mod fault;
mod health;
mod names;
mod read;
pub mod settings;
mod text;
mod to_parts;
mod to_toml;

use std::ops::Range;
use std::sync::Arc;

use crate::graph::{Edges, Graph};
use crate::ids::{JobTypeId, ServerId, ServerTypeId};
use crate::policy::SplitShares;
pub use fault::{Fault, FleetFaults, MOST_SHOWN, RATES_ARE_MEASURED};
pub use names::{Duplicate, NameIndex, Names};
pub use read::{Loaded, Parts, Source, read, read_parts};
use settings::Address;
pub use settings::Settings;

/// Speeds that differ by less than this, relative to the larger one, are equal.
pub const SPEED_TOLERANCE: f64 = 1e-12;

/// How fast a server type is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Speed {
    /// Size units one slot finishes per second.
    Rate(f64),
    /// Only the order is known; 1 = fastest.
    Rank(u32),
}

/// A `[[server_type]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerTypeParts {
    /// Its name.
    pub name: String,
    /// How fast it is.
    pub speed: Speed,
    /// Jobs served at the same time, at least 1.
    pub slots: u32,
}

/// A `[[server]]`: one server, or `count` equal ones.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerParts {
    /// What they are called.
    pub names: Names,
    /// Index into [`FleetParts::server_types`].
    pub server_type: usize,
    /// Most jobs at one server, those in service included; `None` = unbounded.
    pub buffer: Option<u32>,
    /// One address per server, or none at all.
    pub addresses: Vec<Address>,
}

/// A `[[job_type]]`: one job type, or `count` of them.
#[derive(Clone, PartialEq, Debug)]
pub struct JobTypeParts {
    /// What they are called.
    pub names: Names,
    /// How often they arrive.
    pub arrivals: ArrivalRates,
    /// Mean size.
    pub size: f64,
}

/// Arrival rates of the job types of one entry, in 1/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ArrivalRates {
    /// Not given; `serve` measures it.
    Unknown,
    /// Each at this rate.
    Each(f64),
    /// `total` split by popularity: number `i` (from 1) gets a share proportional to `i^-exponent`.
    Split {
        /// Sum of the rates.
        total: f64,
        /// Exponent; 0 = equal shares.
        exponent: f64,
    },
}

/// A `[[rate]]`: the speed of one server type for one job type, instead of the server type's own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateOverride {
    /// Job type, as its index in the file's order (counted ones numbered through).
    pub job_type: usize,
    /// Index into [`FleetParts::server_types`].
    pub server_type: usize,
    /// Size units one slot finishes per second.
    pub rate: f64,
}

/// A fleet as plain values, everything in the file's order.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetParts {
    /// `[fleet] name`.
    pub name: String,
    /// Server types.
    pub server_types: Vec<ServerTypeParts>,
    /// Servers.
    pub servers: Vec<ServerParts>,
    /// Job types.
    pub job_types: Vec<JobTypeParts>,
    /// Speeds that differ from the server type's own.
    pub rates: Vec<RateOverride>,
    /// Which server holds which job type, as server indices in the file's order.
    pub edges: Edges,
    /// Everything else.
    pub settings: Settings,
}

/// Why a [`Fleet`] cannot be built from [`FleetParts`].
///
/// The reader of fleet files finds these with their places first; this is for fleets built in code.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FleetError {
    /// There is nothing to balance.
    #[error("a fleet needs at least one {0}")]
    Empty(&'static str),
    /// An index, count or size beyond what the fleet can number.
    #[error("{what} is {value}; at most {limit} are possible")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        value: usize,
        /// How many there can be.
        limit: usize,
    },
    /// A number outside its range.
    #[error("{what} of `{name}` is {value}, must be {range}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Whose number.
        name: String,
        /// Its value.
        value: f64,
        /// The accepted range.
        range: &'static str,
    },
    /// Something points at a part that is not there.
    #[error("{what} {index} does not exist; there are {count}")]
    Dangling {
        /// What is missing.
        what: &'static str,
        /// The index used.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Two things of a kind have the same name.
    #[error("there are two {what}s called `{name}`; names are given once")]
    DuplicateName {
        /// Which kind.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Some speeds are rates and others ranks.
    #[error("`{rated}` has a `rate` and server type `{ranked}` a `rank`; give all speeds as one or the other")]
    MixedSpeeds {
        /// A server type, or the job type of a `[[rate]]`, with a rate.
        rated: String,
        /// A type with a rank.
        ranked: String,
    },
    /// The numbers of slots have no common multiple that fits.
    #[error(
        "the slot counts of the server types have no common multiple below 2^32, so loads cannot be compared exactly; use rounder counts"
    )]
    SlotCounts,
}

/// Speeds of all server types for the job types that see them so.
#[derive(Clone, Debug, PartialEq)]
struct SpeedRow {
    /// Size units per second and slot, by server type.
    rates: Vec<f64>,
    /// Rank among the server types of the fleet, 0 = fastest, equal speeds share a rank.
    ranks: Vec<u16>,
    /// Server types, fastest first.
    order: Vec<ServerTypeId>,
}

/// A checked fleet. Cheap to read, never changes.
#[derive(Clone, Debug)]
pub struct Fleet {
    name: String,
    types: Vec<ServerTypeParts>,
    type_ranges: Vec<Range<usize>>,
    /// Server type of each server.
    type_of: Vec<ServerTypeId>,
    /// Where all types but the first start, if they are few and the servers many; `u32::MAX` for types that do not exist.
    type_starts: Option<[u32; FEW_TYPES - 1]>,
    buffers: Vec<Option<u32>>,
    /// Server id -> index in the file's order, and back.
    file_index: Vec<u32>,
    id_of_file_index: Vec<ServerId>,
    server_names: NameIndex,
    addresses: Vec<Vec<Address>>,
    job_type_names: NameIndex,
    arrivals: Vec<ArrivalRates>,
    zipf_norms: Vec<f64>,
    sizes: Vec<f64>,
    speed_rows: Vec<SpeedRow>,
    speed_row_of: Vec<u32>,
    ranked_only: bool,
    /// Arrival rates and mean sizes by job type, where they are not the file's.
    traffic: Option<Traffic>,
    /// For policy `split`.
    split_shares: Option<Arc<SplitShares>>,
    graph: Arc<Graph>,
    settings: Settings,
}

/// So many server types are few.
const FEW_TYPES: usize = 4;

/// In a fleet of so many servers or more their types are in no near cache: if the types are few, a server's type is told by
/// comparing its id instead of looking it up.
const MANY_SERVERS: usize = 1 << 15;

#[derive(Clone, Debug)]
struct Traffic {
    rates_per_s: Vec<f64>,
    sizes: Vec<f64>,
}

impl Fleet {
    /// Checks and orders the parts.
    ///
    /// # Errors
    /// [`FleetError`] naming the condition that the parts violate.
    pub fn new(parts: FleetParts) -> Result<Self, FleetError> {
        build::fleet(parts)
    }

    /// The same fleet under other traffic: arrival rates in 1/s and mean sizes, by job type. Cheap: servers and graph
    /// are shared. For what was measured (a replay, a running gateway) and for traffic that is tried out.
    ///
    /// Shares of [`with_split_shares`](Self::with_split_shares) were those of the former traffic: they are dropped.
    ///
    /// # Errors
    /// [`FleetError`] if there is not one rate (finite, not negative) and one size (finite, positive) per job type.
    pub fn with_traffic(&self, rates_per_s: Vec<f64>, sizes: Vec<f64>) -> Result<Self, FleetError> {
        build::check_traffic(self, &rates_per_s, &sizes)?;
        Ok(Self { traffic: Some(Traffic { rates_per_s, sizes }), split_shares: None, ..self.clone() })
    }

    /// The same fleet with the shares by which policy `split` divides its job types. Cheap, as with traffic.
    ///
    /// # Panics
    /// If the shares were made for a fleet with another number of job types.
    #[must_use]
    pub fn with_split_shares(&self, shares: SplitShares) -> Self {
        assert_eq!(shares.job_type_count(), self.job_type_count(), "shares belong to the fleet they were made for");
        Self { split_shares: Some(Arc::new(shares)), ..self.clone() }
    }

    /// The shares of policy `split`, if the fleet was given any.
    #[must_use]
    pub fn split_shares(&self) -> Option<&Arc<SplitShares>> {
        self.split_shares.as_ref()
    }

    /// `[fleet] name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of servers.
    #[inline]
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.type_of.len()
    }

    /// Number of job types.
    #[inline]
    #[must_use]
    pub fn job_type_count(&self) -> usize {
        self.speed_row_of.len()
    }

    /// Number of server types.
    #[inline]
    #[must_use]
    pub fn server_type_count(&self) -> usize {
        self.types.len()
    }

    /// All servers, in id order.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = ServerId> + use<> {
        (0..self.server_count()).map(ServerId::new)
    }

    /// All servers, in the file's order.
    pub fn servers_in_file_order(&self) -> impl ExactSizeIterator<Item = ServerId> + '_ {
        self.id_of_file_index.iter().copied()
    }

    /// All job types, in the file's order.
    pub fn job_types(&self) -> impl ExactSizeIterator<Item = JobTypeId> + use<> {
        (0..self.job_type_count()).map(JobTypeId::new)
    }

    /// All server types, fastest (by their own speed) first.
    pub fn server_types(&self) -> impl ExactSizeIterator<Item = ServerTypeId> + use<> {
        (0..self.types.len()).map(ServerTypeId::new)
    }

    /// Name of a server.
    #[must_use]
    pub fn server_name(&self, server: ServerId) -> String {
        self.server_names.name(self.file_index[server.index()] as usize)
    }

    /// The server called `name`.
    #[must_use]
    pub fn find_server(&self, name: &str) -> Option<ServerId> {
        self.server_names.find(name).map(|i| self.id_of_file_index[i])
    }

    /// Position of a server in the file's order.
    #[must_use]
    pub fn file_index(&self, server: ServerId) -> usize {
        self.file_index[server.index()] as usize
    }

    /// The server at a position of the file's order.
    #[must_use]
    pub fn server_at_file_index(&self, index: usize) -> ServerId {
        self.id_of_file_index[index]
    }

    /// Address of a server, if the file gives one.
    #[must_use]
    pub fn address(&self, server: ServerId) -> Option<&Address> {
        let i = self.file_index(server);
        let group = self.server_names.group_of(i);
        self.addresses[group].get(i - self.server_names.range(group).start)
    }

    /// Type of a server.
    #[inline(always)]
    #[must_use]
    pub fn server_type(&self, server: ServerId) -> ServerTypeId {
        match self.type_starts {
            // Touches no memory.
            Some(starts) => {
                let id = server.index() as u32;
                ServerTypeId::new(starts.iter().map(|&start| usize::from(id >= start)).sum())
            }
            None => self.type_of[server.index()],
        }
    }

    /// The servers of a type: one contiguous range of ids.
    #[inline]
    #[must_use]
    pub fn servers_of_type(&self, server_type: ServerTypeId) -> Range<usize> {
        self.type_ranges[server_type.index()].clone()
    }

    /// Name, own speed and slots of a server type.
    #[must_use]
    pub fn server_type_parts(&self, server_type: ServerTypeId) -> &ServerTypeParts {
        &self.types[server_type.index()]
    }

    /// Jobs a server serves at the same time.
    #[inline]
    #[must_use]
    pub fn slots(&self, server: ServerId) -> u32 {
        self.types[self.server_type(server).index()].slots
    }

    /// Most jobs at a server, those in service included; `None` = unbounded.
    #[inline]
    #[must_use]
    pub fn buffer(&self, server: ServerId) -> Option<u32> {
        self.buffers[server.index()]
    }

    /// Name of a job type.
    #[must_use]
    pub fn job_type_name(&self, job_type: JobTypeId) -> String {
        self.job_type_names.name(job_type.index())
    }

    /// The job type called `name`.
    #[must_use]
    pub fn find_job_type(&self, name: &str) -> Option<JobTypeId> {
        self.job_type_names.find(name).map(JobTypeId::new)
    }

    /// Arrival rate of a job type in 1/s, if the file gives it.
    #[must_use]
    pub fn arrival_rate(&self, job_type: JobTypeId) -> Option<f64> {
        if let Some(traffic) = &self.traffic {
            return Some(traffic.rates_per_s[job_type.index()]);
        }
        let group = self.job_type_names.group_of(job_type.index());
        match self.arrivals[group] {
            ArrivalRates::Unknown => None,
            ArrivalRates::Each(rate) => Some(rate),
            ArrivalRates::Split { total, exponent } => {
                let i = job_type.index() - self.job_type_names.range(group).start + 1;
                Some(total * (i as f64).powf(-exponent) / self.zipf_norms[group])
            }
        }
    }

    /// Mean size of a job type.
    #[must_use]
    pub fn size(&self, job_type: JobTypeId) -> f64 {
        if let Some(traffic) = &self.traffic {
            return traffic.sizes[job_type.index()];
        }
        self.sizes[self.job_type_names.group_of(job_type.index())]
    }

    /// Whether the speeds are known as rates; if not, only their order is.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        !self.ranked_only
    }

    /// Size units per second that one slot of the server type finishes of this job type. In a fleet that only ranks
    /// its server types ([`has_rates`](Self::has_rates) is false) it is 1/rank: its order means something, its
    /// value does not.
    #[inline]
    #[must_use]
    pub fn rate(&self, job_type: JobTypeId, server_type: ServerTypeId) -> f64 {
        self.speed_row(job_type).rates[server_type.index()]
    }

    /// Service rate `mu_lr = rate / size` of one slot, in 1/s.
    #[must_use]
    pub fn service_rate(&self, job_type: JobTypeId, server: ServerId) -> f64 {
        self.rate(job_type, self.server_type(server)) / self.size(job_type)
    }

    /// Rank of a server type among all of the fleet for this job type: 0 = fastest, equal speeds share a rank.
    #[inline]
    #[must_use]
    pub fn rank(&self, job_type: JobTypeId, server_type: ServerTypeId) -> u16 {
        self.speed_row(job_type).ranks[server_type.index()]
    }

    /// Server types in this job type's order, fastest first.
    #[inline]
    #[must_use]
    pub fn fastest_first(&self, job_type: JobTypeId) -> &[ServerTypeId] {
        &self.speed_row(job_type).order
    }

    /// Whether `mu_lr` is the same for every job type `l`: no `[[rate]]`, equal sizes.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        let first = self.job_types().next();
        let speed = |l: JobTypeId, m| self.rate(l, m) / self.size(l);
        self.job_types()
            .all(|l| self.server_types().all(|m| first.is_none_or(|first| speeds_equal(speed(first, m), speed(l, m)))))
    }

    /// The compatibility graph.
    #[inline]
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Everything that is not servers, job types or graph.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[inline]
    fn speed_row(&self, job_type: JobTypeId) -> &SpeedRow {
        &self.speed_rows[self.speed_row_of[job_type.index()] as usize]
    }
}

/// Whether two speeds count as equal.
#[must_use]
pub fn speeds_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= SPEED_TOLERANCE * a.abs().max(b.abs())
}

mod build;
pub(crate) use build::gcd;
