//! The papers' view of a uniform fleet: speed classes, and the symbols that hang on them.
//!
//! Servers that hold a job type, sorted by service rate, fall into classes `mu_1 > mu_2 > ... > mu_M`; `R_m` is the set
//! of all servers of the first `m` classes, `n_m` their number and `g_m` the sum of their rates. `K` is the smallest
//! `m` with `g_m > Lambda`: the classes that an optimal policy needs.
//!
//! Source: W. Weng, X. Zhou, R. Srikant (2020), section 2 ("[W]"). There, all is divided by `N`.

use shortline_core::fleet::speeds_equal;
use shortline_core::{Fleet, ServerId};

use crate::TheoryError;
use crate::reduced::arrival_rates;

/// Servers of the same service rate.
#[derive(Clone, PartialEq, Debug)]
pub struct SpeedClass {
    /// `mu_m`, jobs per second of one slot.
    pub rate_per_s: f64,
    /// The servers, ascending.
    pub servers: Vec<ServerId>,
    /// Slots of all of them; `n_m - n_(m-1)` where every server has one.
    pub slots: u64,
}

/// A uniform fleet by speed class. Classes are counted from 1 as in the papers: class `m` is `classes()[m - 1]`.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, graph::Edges};
/// # let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
/// # let servers = |name: &str, count, server_type| ServerParts { names: Names { base: name.into(), count: Some(count) }, server_type, buffer: None, addresses: vec![] };
/// // Two servers of rate 1 and four of rate 1/4, 2.5 jobs per second: two classes are needed.
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![server_type("slow", 0.25), server_type("fast", 1.0)],
/// #     servers: vec![servers("s", 4, 0), servers("f", 2, 1)],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(2.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
/// # })?;
/// let model = shortline_theory::Model::new(&fleet)?;
/// assert_eq!(model.needed_classes(), Some(2));
/// assert_eq!(model.fluid_busy(), Some(vec![2.0, 2.0]));
/// assert!((model.slack().unwrap() - 0.5 / 3.0).abs() < 1e-12);
/// assert!((model.speed_ratio(1, 2) - 4.0).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    classes: Vec<SpeedClass>,
    arrivals_per_s: f64,
}

impl Model {
    /// Groups the servers with an edge by service rate, equal ones (to 1e-12, relative) together.
    ///
    /// # Errors
    /// If rates are missing or all 0, no server holds a job type, or the fleet is not uniform (service rates depend on
    /// the job type): then there are no speed classes.
    pub fn new(fleet: &Fleet) -> Result<Self, TheoryError> {
        let arrivals_per_s = arrival_rates(fleet)?.iter().sum();
        if !fleet.is_uniform() {
            return Err(TheoryError::NotCovered {
                what: "a fleet whose service rates depend on the job type",
                method: "the model of speed classes",
                remedy: "give all job types the same size and drop the [[rate]] entries, or use the graph bound",
            });
        }
        let rate = |r| fleet.service_rate(shortline_core::JobTypeId::new(0), r);
        let mut servers: Vec<ServerId> = with_edges(fleet);
        servers.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)).then(a.cmp(&b)));
        let mut classes: Vec<SpeedClass> = Vec::new();
        for server in servers {
            let slots = u64::from(fleet.slots(server));
            match classes.last_mut().filter(|class| speeds_equal(class.rate_per_s, rate(server))) {
                Some(class) => {
                    class.servers.push(server);
                    class.slots += slots;
                }
                None => classes.push(SpeedClass { rate_per_s: rate(server), servers: vec![server], slots }),
            }
        }
        classes.iter_mut().for_each(|class| class.servers.sort());
        if classes.is_empty() { Err(TheoryError::NoEdges) } else { Ok(Self { classes, arrivals_per_s }) }
    }

    /// The speed classes, fastest first; at least one.
    #[must_use]
    pub fn classes(&self) -> &[SpeedClass] {
        &self.classes
    }

    /// `Lambda`, jobs per second.
    #[must_use]
    pub fn arrivals_per_s(&self) -> f64 {
        self.arrivals_per_s
    }

    /// `N`: slots of all servers that hold a job type.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.classes.iter().map(|class| class.slots).sum()
    }

    /// `g_m`: jobs per second of all slots of the first `m` classes; 0 for `m = 0`.
    #[must_use]
    pub fn capacity_per_s(&self, m: usize) -> f64 {
        self.classes[..m].iter().map(|class| class.rate_per_s * class.slots as f64).sum()
    }

    /// `K`: the fewest classes, fastest first, with `g_K > Lambda`; `None` if all together do not suffice.
    #[must_use]
    pub fn needed_classes(&self) -> Option<usize> {
        (1..=self.classes.len()).find(|&m| self.capacity_per_s(m) > self.arrivals_per_s)
    }

    /// `beta = (g_K - Lambda) / g_K`: the part of the needed classes' capacity that is to spare.
    #[must_use]
    pub fn slack(&self) -> Option<f64> {
        let g = self.capacity_per_s(self.needed_classes()?);
        Some((g - self.arrivals_per_s) / g)
    }

    /// `tau_ij = mu_i / mu_j`: how many times faster class `i` is than class `j`, counted from 1. `[W]`'s are `tau_1K`, `tau_1M`
    /// and `tau_KM`.
    ///
    /// # Panics
    /// If a class is 0 or above `M`.
    #[must_use]
    pub fn speed_ratio(&self, i: usize, j: usize) -> f64 {
        self.classes[i - 1].rate_per_s / self.classes[j - 1].rate_per_s
    }

    /// `N C*_m`: busy slots by class in the fluid optimum: all of the classes before `K`, part of class `K`, none after
    /// it.
    #[must_use]
    pub fn fluid_busy(&self) -> Option<Vec<f64>> {
        let k = self.needed_classes()?;
        let busy = |(i, class): (usize, &SpeedClass)| match (i + 1).cmp(&k) {
            std::cmp::Ordering::Less => class.slots as f64,
            std::cmp::Ordering::Equal => (self.arrivals_per_s - self.capacity_per_s(k - 1)) / class.rate_per_s,
            std::cmp::Ordering::Greater => 0.0,
        };
        Some(self.classes.iter().enumerate().map(busy).collect())
    }
}

/// Servers that hold at least one job type, ascending.
fn with_edges(fleet: &Fleet) -> Vec<ServerId> {
    let mut held = vec![false; fleet.server_count()];
    let mut seen = vec![false; fleet.graph().distinct_row_count()];
    for l in 0..fleet.job_type_count() {
        if !std::mem::replace(&mut seen[fleet.graph().row_number(l)], true) {
            fleet.graph().for_each(l, |r| held[r.index()] = true);
        }
    }
    fleet.servers().filter(|r| held[r.index()]).collect()
}
