//! Small fleets in one line, and random ones by seed.

use rand::{RngExt, SeedableRng};
use shortline_core::Fleet;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::random::Generator;

/// A fleet under construction; server `i` is `s-i`, job type `l` is `j-l`.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) parts: FleetParts,
    rows: Option<Vec<Vec<u32>>>,
}

pub(crate) fn one_name(base: String) -> Names {
    Names { base, count: None }
}

impl Build {
    /// Servers of these rates, each of a type of its own, one slot each; a complete graph.
    pub(crate) fn servers(rates: &[f64]) -> Self {
        let parts = FleetParts {
            name: "test".into(),
            server_types: vec![],
            servers: vec![],
            job_types: vec![],
            rates: vec![],
            edges: Edges::Complete,
            settings: Settings::default(),
        };
        let mut build = Self { parts, rows: None };
        for &rate in rates {
            build = build.class(1, rate, 1);
        }
        build
    }

    /// `count` more servers of one type.
    pub(crate) fn class(mut self, count: u32, rate: f64, slots: u32) -> Self {
        let i = self.parts.server_types.len();
        self.parts.server_types.push(ServerTypeParts { name: format!("t-{i}"), speed: Speed::Rate(rate), slots });
        let names = Names { base: format!("s{i}"), count: Some(count) };
        self.parts.servers.push(ServerParts { names, server_type: i, buffer: None, addresses: vec![] });
        self
    }

    /// One more job type.
    pub(crate) fn job_type(mut self, rate: f64, size: f64, row: &[u32]) -> Self {
        let names = one_name(format!("j-{}", self.parts.job_types.len()));
        self.parts.job_types.push(JobTypeParts { names, arrivals: ArrivalRates::Each(rate), size });
        self.rows.get_or_insert_default().push(row.to_vec());
        self
    }

    /// One more job type, on all servers.
    pub(crate) fn job_type_on_all(self, rate: f64, size: f64) -> Self {
        let servers: usize = self.parts.servers.iter().map(|s| s.names.len()).sum();
        let all: Vec<u32> = (0..u32::try_from(servers).expect("a test fleet is small")).collect();
        self.job_type(rate, size, &all)
    }

    /// These rows instead.
    pub(crate) fn with_rows(mut self, rows: Vec<Vec<u32>>) -> Self {
        self.rows = Some(rows);
        self
    }

    /// A `[[rate]]`.
    pub(crate) fn rate(mut self, job_type: usize, server_type: usize, rate: f64) -> Self {
        self.parts.rates.push(RateOverride { job_type, server_type, rate });
        self
    }

    /// All arrival rates times `factor`.
    pub(crate) fn scale_arrivals(mut self, factor: f64) -> Self {
        for job_type in &mut self.parts.job_types {
            if let ArrivalRates::Each(rate) = &mut job_type.arrivals {
                *rate *= factor;
            }
        }
        self
    }

    pub(crate) fn slots(mut self, slots: u32) -> Self {
        self.parts.server_types.iter_mut().for_each(|t| t.slots = slots);
        self
    }

    pub(crate) fn buffer(mut self, buffer: u32) -> Self {
        self.parts.servers.iter_mut().for_each(|s| s.buffer = Some(buffer));
        self
    }

    pub(crate) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self
    }

    pub(crate) fn done(mut self) -> Fleet {
        if let Some(rows) = self.rows {
            self.parts.edges = Edges::from_rows(rows);
        }
        Fleet::new(self.parts).expect("a test fleet is right")
    }
}

/// A random fleet of up to 8 servers and 7 job types, every job type on some server. `sizes`: job sizes differ.
pub(crate) fn random(seed: u64, sizes: bool) -> Build {
    let mut rng = Generator::seed_from_u64(seed);
    let mut build = Build::servers(&[]);
    let mut servers = 0;
    for _ in 0..rng.random_range(1..=3) {
        let count = rng.random_range(1..=3);
        servers += count;
        build = build.class(count, rng.random_range(0.1..3.0), rng.random_range(1..=2));
    }
    for _ in 0..rng.random_range(1..=7) {
        let mut row: Vec<u32> = (0..servers).filter(|_| rng.random_bool(0.4)).collect();
        row.push(rng.random_range(0..servers));
        let size = if sizes { rng.random_range(0.2..4.0) } else { 1.0 };
        build = build.job_type(rng.random_range(0.01..1.0), size, &row);
    }
    build
}

/// A random fleet with [[rate]]s for about half of its job types, by server type.
pub(crate) fn with_rates(seed: u64) -> Build {
    let mut build = random(seed, true);
    let mut rng = Generator::seed_from_u64(seed ^ 0xabcd);
    for l in 0..build.parts.job_types.len() {
        for m in 0..build.parts.server_types.len() {
            if rng.random_bool(0.5) {
                build = build.rate(l, m, rng.random_range(0.1..3.0));
            }
        }
    }
    build
}
