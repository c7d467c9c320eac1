//! The fleets of \[W\]'s experiments, built in code.
//!
//! As many job types as servers, buffers of 5, and a load given as `load_first_k`: arrivals over the capacity `g_K` of
//! the `K` fastest speed classes, those that an optimal policy needs. With **two** speeds these are 1 and 1/4, half of the
//! servers each, and `K = 1`: the slow half is not needed. With **three** they are 1, 1/2, 1/4 in shares 1/8, 3/8, 1/2,
//! and `K = 2` from `load_first_k = 0.4` on; or
//! the load is that of all three. With **equal** speeds all are 1. Rates are equal, or Zipf's: job type `i` arrives in proportion to `1/i`.

use std::fmt;
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::generate::{GenerateError, arrival_weighted_degrees, port_degrees};
use shortline_core::graph::{Edges, GraphSpec, LeftOut};

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
        let mut parts = self.parts();
        parts.edges = self.edges(&parts, seed)?;
        for (class, (server_type, &(_, rate, _))) in
            parts.server_types.iter_mut().zip(self.speeds.classes()).enumerate()
        {
            server_type.speed = speed(class, rate);
        }
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
}
