//! Fleets for tests, in a few words.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{LineSettings, Overflow};
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::policy::PolicySpec;
use shortline_sim::{Estimate, Means, PolicyReport, Simulation, Until};
use shortline_theory::stability;

/// A fleet being described.
pub(crate) struct Sketch {
    parts: FleetParts,
}

/// Servers by (rate, slots, number), job types by arrival rate; complete, unbounded.
pub(crate) fn fleet(servers: &[(f64, u32, u32)], arrivals: &[f64]) -> Sketch {
    let names = |base: String, count| Names { base, count };
    let parts = FleetParts {
        name: "test".into(),
        server_types: servers
            .iter()
            .enumerate()
            .map(|(i, &(rate, slots, _))| ServerTypeParts { name: format!("t{i}"), speed: Speed::Rate(rate), slots })
            .collect(),
        servers: servers
            .iter()
            .enumerate()
            .map(|(i, &(.., count))| ServerParts {
                names: names(format!("s{i}"), Some(count)),
                server_type: i,
                buffer: None,
                addresses: vec![],
            })
            .collect(),
        job_types: arrivals
            .iter()
            .enumerate()
            .map(|(i, &rate)| JobTypeParts {
                names: names(format!("j{i}"), None),
                arrivals: ArrivalRates::Each(rate),
                size: 1.0,
            })
            .collect(),
        rates: vec![],
        edges: Edges::Complete,
        settings: Settings::default(),
    };
    Sketch { parts }
}

impl Sketch {
    /// The servers of each job type, in the order written.
    pub(crate) fn rows(mut self, rows: &[&[u32]]) -> Self {
        self.parts.edges = Edges::from_rows(rows.iter().map(|row| row.iter().copied()));
        self
    }

    pub(crate) fn edges(mut self, edges: Edges) -> Self {
        self.parts.edges = edges;
        self
    }

    pub(crate) fn buffer(mut self, buffer: u32) -> Self {
        self.parts.servers.iter_mut().for_each(|server| server.buffer = Some(buffer));
        self
    }

    /// The buffer of one `[[server]]` entry split off: server number `server` of the only entry, which has two.
    pub(crate) fn one_buffer(mut self, server: u32, buffer: u32) -> Self {
        let names = |base: &str| Names { base: base.into(), count: None };
        let entry = |base, buffer| ServerParts { names: names(base), server_type: 0, buffer, addresses: vec![] };
        let of = |i: u32| (i == server).then_some(buffer);
        self.parts.servers = vec![entry("a", of(0)), entry("b", of(1))];
        self
    }

    /// Rates by (job type, server type, rate).
    pub(crate) fn pair_rates(mut self, rates: &[(usize, usize, f64)]) -> Self {
        let rate = |&(job_type, server_type, rate): &(usize, usize, f64)| RateOverride { job_type, server_type, rate };
        self.parts.rates = rates.iter().map(rate).collect();
        self
    }

    pub(crate) fn sizes(mut self, sizes: &[f64]) -> Self {
        self.parts.job_types.iter_mut().zip(sizes).for_each(|(job_type, &size)| job_type.size = size);
        self
    }

    /// Jobs without a place wait, at most `size` of a type, at most `timeout_s`.
    pub(crate) fn waits(mut self, size: Option<u32>, timeout_s: Option<f64>) -> Self {
        self.parts.settings.overflow = Overflow::Wait;
        self.parts.settings.lines = LineSettings { size, timeout_s, hold_s: None };
        self
    }

    pub(crate) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.parts.settings);
        self
    }

    pub(crate) fn build(self) -> Arc<Fleet> {
        Arc::new(Fleet::new(self.parts).unwrap())
    }
}

/// The fleet with the shares of policy `split`.
pub(crate) fn with_split_shares(fleet: &Fleet) -> Arc<Fleet> {
    Arc::new(stability::analyse(fleet).unwrap().shares.give_to(fleet))
}

pub(crate) fn policy(name: &str) -> PolicySpec {
    name.parse().unwrap()
}

/// One policy, so many counted events.
pub(crate) fn simulate(fleet: &Arc<Fleet>, name: &str, events: u64) -> PolicyReport {
    let simulation = Simulation::new(fleet).policy(policy(name)).seed(8).threads(1).until(Until::Events(events));
    simulation.run().unwrap().policies.remove(0)
}

/// The half-width of a 99.9 % interval from that of a 95 % one, 32 replications: t_31(0.9995) / t_31(0.975).
const WIDER: f64 = 3.6335 / 2.0395;

/// Asserts that `exact` is inside the 99.9 % interval: false-alarm probability 1e-3 per call, were the seed free.
pub(crate) fn assert_meets(estimate: Option<Estimate>, exact: f64, what: &str) {
    let estimate = estimate.unwrap_or_else(|| panic!("{what}: no estimate, exact {exact}"));
    let half_width = WIDER * (estimate.ci95[1] - estimate.mean).max(estimate.mean - estimate.ci95[0]);
    let off = (estimate.mean - exact).abs();
    assert!(off <= half_width.max(1e-9), "{what}: {} +- {half_width} (99.9 %), exact {exact}", estimate.mean);
}

/// Asserts that two independent estimates of the same value differ by no more than a 99.9 % interval of the difference
/// allows.
pub(crate) fn assert_agree(a: Option<Estimate>, b: Option<Estimate>, what: &str) {
    let (a, b) = (a.unwrap(), b.unwrap());
    let half = |estimate: Estimate| (estimate.ci95[1] - estimate.mean).max(estimate.mean - estimate.ci95[0]);
    let allowed = WIDER * half(a).hypot(half(b));
    assert!((a.mean - b.mean).abs() <= allowed.max(1e-9), "{what}: {} and {}, allowed {allowed}", a.mean, b.mean);
}

/// Asserts that the 99.9 % interval is narrow: half-width below 0.5 % of the value.
pub(crate) fn assert_is_precise(estimate: Option<Estimate>, what: &str) {
    let error = WIDER * estimate.unwrap().relative_half_width();
    assert!(error < 0.005, "{what}: relative half-width {error} at 99.9 %");
}

/// Asserts that two independent runs found the same: ten figures, of the system, the first server type and the last job type.
pub(crate) fn assert_same_figures(a: &Means, b: &Means, what: &str) {
    type Figure = fn(&Means) -> Option<Estimate>;
    let figures: [(Figure, &str); 10] = [
        (|m| m.mean_response_s, "response"),
        (|m| m.mean_waiting_s, "waiting"),
        (|m| m.mean_service_s, "service"),
        (|m| m.mean_jobs, "jobs"),
        (|m| m.fraction_waiting, "fraction waiting"),
        (|m| m.p95_response_s, "95 %"),
        (|m| m.blocking_probability, "blocking"),
        (|m| m.reneged_probability, "reneged"),
        (|m| m.per_server_type[0].utilisation, "utilisation"),
        (|m| m.per_job_type.last()?.mean_response_s, "response of a job type"),
    ];
    for (figure, name) in figures {
        assert_agree(figure(a), figure(b), &format!("{what}: {name}"));
    }
}
