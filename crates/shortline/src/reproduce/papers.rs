//! The fleets of \[W\]'s experiments, built in code.
//!
//! As many job types as servers, buffers of 5, and a load given as `load_first_k`: arrivals over the capacity `g_K` of
//! the `K` fastest speed classes, those that an optimal policy needs. With **two** speeds these are 1 and 1/4, half of the
//! servers each, and `K = 1`: the slow half is not needed. With **three** they are 1, 1/2, 1/4 in shares 1/8, 3/8, 1/2,
//! and `K = 2` from `load_first_k = 0.4` on; or
//! the load is that of all three. With **equal** speeds all are 1. Rates are equal, or Zipf's: job type `i` arrives in
//! proportion to `1/i`.
//!
//! Ring and clusters lie on the servers in a *mixed order*: place `p` is server `p g mod N` of the fastest-first list, with `g`
//! near `N` times the golden section and prime to `N`. Every run of neighbours then has nearly the fleet's shares of the speeds
//! (H. Weyl's equidistribution): what is bad about these graphs is not a wrong mix.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::generate::{GenerateError, arrival_weighted_degrees, port_degrees};
use shortline_core::graph::{EdgeProbability, Edges, GraphSpec, LeftOut};

use crate::failure::Failure;

/// Speeds and shares of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speeds {
    /// All 1.
    Equal,
    /// 1 and 1/4, half of the servers each; `K = 1`.
    Two,
    /// 1, 1/2, 1/4 in shares 1/8, 3/8, 1/2; `K = 2`.
    Three,
    /// The same three, and `K = 3`: the load is that of the whole fleet.
    ThreeAllNeeded,
}

impl Speeds {
    /// (name, rate, eighths of the servers), fastest first.
    fn classes(self) -> &'static [(&'static str, f64, u32)] {
        match self {
            Self::Equal => &[("server", 1.0, 8)],
            Self::Two => &[("fast", 1.0, 4), ("slow", 0.25, 4)],
            Self::Three | Self::ThreeAllNeeded => &[("fast", 1.0, 1), ("medium", 0.5, 3), ("slow", 0.25, 4)],
        }
    }

    /// `K`.
    fn needed(self) -> usize {
        match self {
            Self::Equal | Self::Two => 1,
            Self::Three => 2,
            Self::ThreeAllNeeded => 3,
        }
    }

    /// How many there are, in words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Equal => "equal speeds",
            Self::Two => "two speeds",
            Self::Three | Self::ThreeAllNeeded => "three speeds",
        }
    }
}

/// Arrival rates of the job types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rates {
    /// All equal.
    Uniform,
    /// In proportion to `1/i`.
    Zipf,
}

/// The compatibility graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Design {
    /// Every job type on every server.
    Complete,
    /// Each job type on `ceil(2 ln^2 N)` random servers (at most all); under Zipf's rates in proportion to its rate, with
    /// this mean.
    Random,
    /// The same with this number of servers at every `N`.
    Degree(u32),
    /// The well-connected design with confidence 0.99 and `delta = epsilon = N^-1/3`, which must vanish as the fleet grows;
    /// complete where it takes every edge.
    WellConnected,
    /// \[R\]'s random graph: every pair of a job type and a server is an edge with probability `c / L`, so that a server holds
    /// `c` job types in the mean; complete from `c = L` on. A few job types may be on no server.
    Sparse(u32),
    /// Each job type on this many neighbours along a ring of all servers, in the mixed order.
    Ring(u32),
    /// `N / k` blocks of `k` servers, in the mixed order, and as many job types each; complete within a block.
    Clusters(u32),
}

/// A fleet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Setting {
    pub(crate) servers: u32,
    pub(crate) job_types: u32,
    pub(crate) speeds: Speeds,
    pub(crate) rates: Rates,
    pub(crate) design: Design,
    /// `Lambda / g_K`.
    pub(crate) load_first_k: f64,
    /// `None` = unbounded.
    pub(crate) buffer: Option<u32>,
}

impl Setting {
    /// Three speeds, equal rates, the random graph, `load_first_k = 0.9`, buffers of 5.
    pub(crate) fn papers(servers: u32) -> Self {
        Self {
            servers,
            job_types: servers,
            speeds: Speeds::Three,
            rates: Rates::Uniform,
            design: Design::Random,
            load_first_k: 0.9,
            buffer: Some(5),
        }
    }

    /// The degree of the random graph, `ceil(2 ln^2 N)`, at most `N`.
    pub(crate) fn random_degree(servers: u32) -> u32 {
        ((2.0 * f64::from(servers).ln().powi(2)).ceil() as u32).min(servers)
    }

    /// The fleet, its graph drawn from the seed.
    pub(crate) fn fleet(&self, seed: u64) -> Result<Arc<Fleet>, Failure> {
        self.declared(seed, |_, true_rate| Speed::Rate(true_rate))
    }

    /// The same fleet as it looks where other speeds are declared: a function of the class, from 0, fastest first, and its
    /// true rate.
    pub(crate) fn declared(&self, seed: u64, speed: impl Fn(usize, f64) -> Speed) -> Result<Arc<Fleet>, Failure> {
        self.changed(seed, |parts| {
            for (class, (server_type, &(_, rate, _))) in
                parts.server_types.iter_mut().zip(self.speeds.classes()).enumerate()
            {
                server_type.speed = speed(class, rate);
            }
            Ok(())
        })
    }

    /// The same fleet with its parts changed by a function, its graph drawn before.
    pub(crate) fn changed(
        &self,
        seed: u64,
        change: impl FnOnce(&mut FleetParts) -> Result<(), Failure>,
    ) -> Result<Arc<Fleet>, Failure> {
        let mut parts = self.parts();
        parts.edges = self.edges(&parts, seed)?;
        change(&mut parts)?;
        Ok(Arc::new(Fleet::new(parts).map_err(Failure::run)?))
    }

    /// The fleet with a complete graph.
    fn parts(&self) -> FleetParts {
        let classes = self.speeds.classes();
        let count = |eighths: u32| self.servers / 8 * eighths;
        let needed = &classes[..self.speeds.needed()];
        let capacity: f64 = needed.iter().map(|&(_, rate, eighths)| rate * f64::from(count(eighths))).sum();
        let total = self.load_first_k * capacity;
        let exponent = match self.rates {
            Rates::Uniform => 0.0,
            Rates::Zipf => 1.0,
        };
        let many = |base: &str, count: u32| Names { base: base.to_owned(), count: Some(count) };
        let server_type = |&(name, rate, _): &(&str, f64, u32)| ServerTypeParts {
            name: name.to_owned(),
            speed: Speed::Rate(rate),
            slots: 1,
        };
        let servers = |(server_type, &(name, _, eighths)): (usize, &(&str, f64, u32))| ServerParts {
            names: many(name, count(eighths)),
            server_type,
            buffer: self.buffer,
            addresses: Vec::new(),
        };
        FleetParts {
            name: self.to_string(),
            server_types: classes.iter().map(server_type).collect(),
            servers: classes.iter().enumerate().map(servers).collect(),
            job_types: vec![JobTypeParts {
                names: many("port", self.job_types),
                arrivals: ArrivalRates::Split { total, exponent },
                size: 1.0,
            }],
            rates: Vec::new(),
            edges: Edges::Complete,
            settings: Settings::default(),
        }
    }

    fn edges(&self, parts: &FleetParts, seed: u64) -> Result<Edges, Failure> {
        let degree = match self.design {
            Design::WellConnected => {
                let delta = f64::from(self.servers).powf(-1.0 / 3.0);
                let spec =
                    GraphSpec::WellConnected { delta, left_out: LeftOut::Fraction(delta), confidence: 0.99, seed };
                return match parts.generate(&spec) {
                    Ok(graph) => Ok(graph.edges),
                    Err(GenerateError::CompleteDesign { .. }) => Ok(Edges::Complete),
                    Err(error) => Err(Failure::run(error)),
                };
            }
            Design::Complete => return Ok(Edges::Complete),
            Design::Sparse(c) => {
                let probability = (f64::from(c) / f64::from(self.job_types)).min(1.0);
                let spec = GraphSpec::Bernoulli { edges: EdgeProbability::Each(probability), seed };
                return Ok(parts.generate(&spec).map_err(Failure::run)?.edges);
            }
            Design::Ring(degree) => return Ok(self.rows(|l| self.ring(l, degree))),
            Design::Clusters(degree) => return Ok(self.rows(|l| self.block(l, degree))),
            Design::Random => Self::random_degree(self.servers),
            Design::Degree(degree) => degree.min(self.servers),
        };
        let servers = self.servers as usize;
        let degrees = match self.rates {
            Rates::Uniform => vec![degree; self.job_types as usize],
            Rates::Zipf => {
                let rates = parts.arrival_rates().expect("the rates of these fleets are known");
                arrival_weighted_degrees(&rates, degree, servers).map_err(Failure::run)?
            }
        };
        port_degrees(&degrees, servers, seed).map_err(Failure::run)
    }

    /// The graph with these places of the mixed order for each job type.
    fn rows(&self, places: impl Fn(u64) -> Range<u64>) -> Edges {
        let n = u64::from(self.servers);
        let stride = mixing_stride(n);
        let servers = |l| places(l).map(move |place| (place % n * stride % n) as u32);
        Edges::from_rows((0..u64::from(self.job_types)).map(servers))
    }

    /// The neighbours of job type `l` on the ring; job types are spread evenly along it.
    fn ring(&self, l: u64, degree: u32) -> Range<u64> {
        let first = l * u64::from(self.servers) / u64::from(self.job_types);
        first..first + u64::from(degree.min(self.servers))
    }

    /// The block of job type `l`: of `N / degree`, rounded down, as equal as can be.
    fn block(&self, l: u64, degree: u32) -> Range<u64> {
        let (n, types) = (u64::from(self.servers), u64::from(self.job_types));
        let blocks = (n / u64::from(degree)).max(1);
        let block = l * blocks / types;
        block * n / blocks..(block + 1) * n / blocks
    }
}

/// The least number prime to `n` from `n` times the golden section on, rounded down.
fn mixing_stride(n: u64) -> u64 {
    const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_9;
    let is_prime_to_n = |stride: &u64| {
        let (mut a, mut b) = (n, *stride);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let first = ((n as f64 * GOLDEN_SECTION) as u64).max(1);
    (first..=n).find(is_prime_to_n).unwrap_or(1)
}

/// `n=32 speeds=3 rates=uniform graph=random load=0.9 b=5`, the part of a key that names the fleet.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={} ", self.servers)?;
        if self.job_types != self.servers {
            write!(f, "l={} ", self.job_types)?;
        }
        let speeds = match self.speeds {
            Speeds::Equal => "equal",
            Speeds::Two => "2",
            Speeds::Three => "3",
            Speeds::ThreeAllNeeded => "3-all-needed",
        };
        write!(f, "speeds={speeds} rates={} graph={} load={} ", self.rates, self.design, self.load_first_k)?;
        match self.buffer {
            Some(buffer) => write!(f, "b={buffer}"),
            None => f.write_str("b=unbounded"),
        }
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        })
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Random => f.write_str("random"),
            Self::Degree(degree) => write!(f, "degree-{degree}"),
            Self::WellConnected => f.write_str("well-connected"),
            Self::Sparse(c) => write!(f, "sparse-{c}"),
            Self::Ring(degree) => write!(f, "ring-{degree}"),
            Self::Clusters(degree) => write!(f, "clusters-{degree}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use shortline_theory::Model;

    use super::*;

    #[test]
    fn the_load_is_that_of_the_first_k_classes() {
        for (speeds, k) in [(Speeds::Equal, 1), (Speeds::Two, 1), (Speeds::Three, 2)] {
            for load_first_k in [0.5, 0.98] {
                let setting = Setting { speeds, load_first_k, ..Setting::papers(64) };
                let model = Model::new(&setting.fleet(1).unwrap()).unwrap();
                assert_eq!(model.needed_classes(), Some(k));
                assert!((1.0 - model.slack().unwrap() - load_first_k).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn degrees_are_as_said() {
        assert_eq!(Setting::random_degree(2048), 117);
        assert_eq!(Setting::random_degree(32), 25);
        let edges = |setting: Setting| setting.fleet(1).unwrap().graph().edge_count();
        assert_eq!(edges(Setting::papers(64)), 64 * 35);
        assert_eq!(edges(Setting { rates: Rates::Zipf, ..Setting::papers(64) }), 64 * 35);
        assert_eq!(edges(Setting { design: Design::Degree(16), ..Setting::papers(64) }), 64 * 16);
        assert_eq!(edges(Setting { design: Design::Complete, ..Setting::papers(64) }), 64 * 64);
        let name = Setting { design: Design::Degree(16), buffer: None, ..Setting::papers(64) }.to_string();
        assert_eq!(name, "n=64 speeds=3 rates=uniform graph=degree-16 load=0.9 b=unbounded");
    }

    #[test]
    fn ring_and_clusters_have_their_degrees_at_every_place_and_the_mix_of_the_fleet() {
        for n in [8, 64, 1024] {
            for design in [Design::Ring(8), Design::Clusters(8)] {
                let fleet = Setting { design, ..Setting::papers(n) }.fleet(1).unwrap();
                assert_eq!(fleet.graph().edge_count(), 8 * u64::from(n), "{design}, n = {n}");
                let mut held = vec![0; n as usize];
                for l in fleet.job_types() {
                    fleet.graph().for_each(l.index(), |server| held[server.index()] += 1);
                    let mut fast = 0;
                    let fastest = fleet.server_types().next().unwrap();
                    fleet.graph().for_each(l.index(), |r| fast += u32::from(fleet.server_type(r) == fastest));
                    assert!((0..=2).contains(&fast), "one of eight is fast: {fast} at {design}, n = {n}");
                }
                assert!(held.iter().all(|&held| held == 8), "{design}, n = {n}");
            }
        }
        let few = Setting { job_types: 16, design: Design::Clusters(32), ..Setting::papers(64) };
        assert_eq!((few.block(0, 32), few.block(7, 32), few.block(8, 32)), (0..32, 0..32, 32..64));
        assert_eq!((few.ring(1, 3), few.ring(15, 8)), (4..7, 60..68));
    }

    #[test]
    fn a_sparse_graph_has_c_job_types_a_server_and_is_complete_from_l_on() {
        let sparse =
            |c| Setting { speeds: Speeds::Equal, job_types: 32, design: Design::Sparse(c), ..Setting::papers(1024) };
        let edges = sparse(8).fleet(1).unwrap().graph().edge_count();
        // Binomial of mean 8192 and standard deviation 78.
        assert!((7800..8600).contains(&edges), "{edges}");
        assert_eq!(sparse(32).fleet(1).unwrap().graph().edge_count(), 32 * 1024);
        assert_eq!(sparse(8).to_string(), "n=1024 l=32 speeds=equal rates=uniform graph=sparse-8 load=0.9 b=5");
    }
}
