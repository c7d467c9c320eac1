//! The mean field: a large fleet as a differential equation.
//!
//! `x_(m,i)` is the fraction of the servers of class `m` (speed `mu_m`, share `alpha_m` of all servers) with `i` jobs or
//! more, `x_(m,0) = 1`. When there are many servers and each job sees random ones, the fractions move as
//!
//! `alpha_m dx_(m,i)/dt = F_(m,i-1)(x) - alpha_m mu_m min(i, slots) (x_(m,i) - x_(m,i+1))`,
//!
//! with `F_(m,i)` the rate, per second and server of the fleet, at which jobs join servers of class `m` with `i` jobs. It is
//! all that depends on the policy. Every policy covered here joins the best server that the job sees, in an order of
//! `(m, i)` of its own (`preference`); with `A_t` the fraction of servers in tier `t` of that order or a worse one, and
//! `k` servers seen, tier `t` gets `lambda (A_t^k - A_(t+1)^k)`, its servers alike (`sampled`). `k` is
//!
//! * `d` for `jsq(d)` and `jfsq(d)`, 1 for `random`;
//! * else the degree of the job type; job types mix, in proportion to their arrival rates;
//! * on complete graphs, where a job sees all servers: the limit `k -> inf`, whose right side jumps (`everything`).
//!
//! **What it is good for.** On complete graphs it is the limit of growing fleets (N. Vvedenskaya, R. Dobrushin, F.
//! Karpelevich, 1996, for `jsq(d)`); on sparse graphs that mix well too (D. Rutten, D. Mukherjee, 2020), and else an
//! approximation that gets better with the degree: [`Basis::caveat`] says how good. It knows no fluctuations: at loads
//! within `1/sqrt(N)` of 1 it is too optimistic, and blocking that is rare in it is less rare in the fleet.
//!
//! Derivations: the chapter "Mean field" of the book.
//!
//! ```
//! # use shortline_core::{Fleet, fleet::*, graph::Edges};
//! # let parts = FleetParts {
//! #     name: String::new(),
//! #     server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
//! #     servers: vec![ServerParts { names: Names { base: "s".into(), count: Some(1000) }, server_type: 0, buffer: None, addresses: vec![] }],
//! #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(900.0), size: 1.0 }],
//! #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
//! # };
//! # let fleet = Fleet::new(parts)?;
//! use shortline_theory::mean_field::MeanField;
//!
//! // 1,000 servers of rate 1, 900 jobs per second, two servers seen: x_i = 0.9^(2^i - 1).
//! let field = MeanField::new(&fleet, "jsq(2)".parse()?)?;
//! let steady = field.fixed_point()?;
//! let x = &steady.per_class[0].occupancy;
//! assert!((x[0] - 0.9).abs() < 1e-12 && (x[1] - 0.729).abs() < 1e-12 && (x[2] - 0.9_f64.powi(7)).abs() < 1e-12);
//! assert!((steady.mean_response_s - x.iter().sum::<f64>() / 0.9).abs() < 1e-12);
//!
//! // From empty it gets there.
//! let filling = field.trajectory(&[], &[0.0, 1000.0])?;
//! assert_eq!(filling.points[0].mean_jobs, 0.0);
//! assert!((filling.points[1].mean_jobs / steady.mean_jobs - 1.0).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod class;
mod everything;
mod field;
mod fixed_point;
mod integrate;
mod linear;
mod ports;
mod preference;
mod sampled;
mod stability;
mod steady;
mod trajectory;

use std::collections::BTreeMap;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Arrivals, Discipline, Overflow, SizeLaw};
use shortline_core::policy::PolicySpec;

use crate::TheoryError;
use crate::model::Model;
use crate::reduced::arrival_rates;
pub use class::ServerClass;
pub use ports::Basis;
use ports::Sampling;
use preference::Preference;
pub use steady::{ClassState, SteadyState};
pub use trajectory::{Moment, Trajectory};

const METHOD: &str = "the mean field";

/// The mean field of a fleet under a policy. See the [module](self).
#[derive(Clone, Debug)]
pub struct MeanField {
    classes: Vec<ServerClass>,
    names: Vec<String>,
    servers: usize,
    arrivals_per_s: f64,
    preference: Preference,
    sampling: Sampling,
    basis: Basis,
}

impl MeanField {
    /// The mean field of `fleet` under `policy`. Servers without a job type do not count. `O(edges + job types + servers)`.
    ///
    /// # Errors
    /// If rates are missing, or what the mean field does not cover is in the fleet (service rates that depend on the job
    /// type, lines in front that fill, sizes that are not exponential, processor sharing, arrivals that are not Poisson,
    /// failures, old or partial information) or is the policy (`split`, `central`). Several slots a server are covered.
    pub fn new(fleet: &Fleet, policy: PolicySpec) -> Result<Self, TheoryError> {
        let preference = check(fleet, policy)?;
        let arrivals = arrival_rates(fleet)?;
        let model = Model::new(fleet)?;
        let classes = classes(fleet, &model);
        let names = classes.iter().map(|class| fleet.server_type_parts(class.server_type).name.clone()).collect();
        let (sampling, basis) = ports::of_fleet(fleet, policy, &arrivals, &classes);
        let servers = classes.iter().map(|class| class.servers).sum();
        Ok(Self { classes, names, servers, arrivals_per_s: arrivals.iter().sum(), preference, sampling, basis })
    }

    /// The classes of servers, fastest first.
    #[must_use]
    pub fn classes(&self) -> &[ServerClass] {
        &self.classes
    }

    /// `N`: servers that hold a job type.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// What of the fleet is taken for random.
    #[must_use]
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// `lambda = Lambda / N`, jobs per second and server.
    #[must_use]
    pub fn arrivals_per_server_s(&self) -> f64 {
        self.arrivals_per_s / self.servers as f64
    }

    /// The point to which the fleet fills from empty.
    ///
    /// # Errors
    /// If there is none, because unbounded queues grow without end ([`TheoryError::NoSteadyState`]); or if it needs too many
    /// levels, or is not found.
    pub fn fixed_point(&self) -> Result<SteadyState, TheoryError> {
        self.check_is_stable()?;
        fixed_point::find(self, self.preference)
    }

    /// The states at some times, ascending from 0 on: from `start`, the fractions `x_(m,i)` for `i = 1, 2, ...` by class
    /// (levels left out are 0), or from the empty fleet if `start` is empty. Fractions are right to about 1e-8.
    ///
    /// Unbounded queues may grow without end here: the trajectory is what it is. Steps are about `3 / (lambda k)` long at
    /// most if a job sees `k` servers, so that long times with large finite `k` take long.
    ///
    /// # Errors
    /// If the start is not one of this fleet, times do not ascend, or it takes too many steps or levels.
    pub fn trajectory(&self, start: &[Vec<f64>], times_s: &[f64]) -> Result<Trajectory, TheoryError> {
        trajectory::follow(self, self.preference, start, times_s)
    }
}

/// Servers by speed, slots, type and buffer, fastest first.
fn classes(fleet: &Fleet, model: &Model) -> Vec<ServerClass> {
    let mut counts = BTreeMap::new();
    for (rank, class) in model.classes().iter().enumerate() {
        for &server in &class.servers {
            let key = (rank, fleet.server_type(server), fleet.buffer(server));
            *counts.entry(key).or_insert(0_usize) += 1;
        }
    }
    let all: usize = counts.values().sum();
    let class = |((rank, server_type, buffer), servers): ((usize, _, Option<u32>), usize)| ServerClass {
        server_type,
        servers,
        share: servers as f64 / all as f64,
        rate_per_s: model.classes()[rank].rate_per_s,
        slots: fleet.server_type_parts(server_type).slots,
        buffer,
        rank,
    };
    counts.into_iter().map(class).collect()
}

fn check(fleet: &Fleet, policy: PolicySpec) -> Result<Preference, TheoryError> {
    let settings = fleet.settings();
    let bounded = || fleet.servers().any(|r| fleet.buffer(r).is_some());
    let obstacles = [
        (policy == PolicySpec::Split, "policy `split`", "its servers are independent queues; simulate it"),
        (policy == PolicySpec::Central, "policy `central`", "jobs wait in front; simulate it"),
        (
            settings.overflow == Overflow::Wait && bounded(),
            "[fleet] overflow = \"wait\"",
            "use \"reject\" or unbounded buffers, or simulate",
        ),
        (settings.service.law != SizeLaw::Exponential, "[service] distribution", "use \"exponential\", or simulate"),
        (settings.service.discipline != Discipline::Fifo, "[service] discipline", "use \"fifo\", or simulate"),
        (settings.arrivals != Arrivals::Poisson, "[arrivals]", "leave it out for Poisson arrivals, or simulate"),
        (settings.failures.is_some(), "[failures]", "leave it out, or simulate"),
        (settings.information.delay_s > 0.0, "[information] delay_s", "leave it out, or simulate"),
        (settings.information.gateways > 1, "[information] gateways", "leave it out, or simulate"),
    ];
    if let Some((_, what, remedy)) = obstacles.into_iter().find(|&(applies, ..)| applies) {
        return Err(TheoryError::NotCovered { what, method: METHOD, remedy });
    }
    crate::reduced::require_rates(fleet)?;
    Ok(Preference::of(policy).expect("policies without an order were refused"))
}
