//! What the graph generators need to know of a fleet, and the step from a [`GraphSpec`] to edges.
//!
//! A program that varies the graph alters the spec that came with the parts and generates again:
//! `parts.edges = parts.generate(&spec)?.edges`.

use super::{ArrivalRates, FleetParts, Speed};
use crate::graph::GraphSpec;
use crate::graph::generate::{Demand, GenerateError, Generated, SpeedClass, generate};

impl FleetParts {
    /// A graph of the kind `spec` for these servers and job types. [`edges`](Self::edges) stays as it is.
    ///
    /// The well-connected design sees a server as `slots * rate / mean size` jobs per second, with the mean size of
    /// an arriving job and without regard to `[[rate]]`.
    ///
    /// # Errors
    /// [`GenerateError`] if there is no such graph, or the design needs rates that are not known.
    pub fn generate(&self, spec: &GraphSpec) -> Result<Generated, GenerateError> {
        let arrival_rates = self.arrival_rates();
        let servers = self.servers_fastest_first(arrival_rates.as_deref());
        let classes: Option<Vec<SpeedClass<'_>>> = servers.as_ref().map(|classes| {
            classes
                .iter()
                .map(|(rate, servers)| SpeedClass { rate_per_s: *rate, servers: servers.as_slice() })
                .collect()
        });
        let demand = Demand {
            servers: self.servers.iter().map(|entry| entry.names.len()).sum(),
            job_types: self.job_types.iter().map(|entry| entry.names.len()).sum(),
            arrival_rates: arrival_rates.as_deref(),
            speed_classes: classes.as_deref(),
        };
        generate(spec, &demand)
    }

    /// Arrival rate of every job type in 1/s, if all are known.
    #[must_use]
    pub fn arrival_rates(&self) -> Option<Vec<f64>> {
        let mut rates = Vec::new();
        for entry in &self.job_types {
            let count = entry.names.len();
            match entry.arrivals {
                ArrivalRates::Unknown => return None,
                ArrivalRates::Each(rate) => rates.resize(rates.len() + count, rate),
                ArrivalRates::Split { total, exponent } => {
                    let shares = (1..=count).map(|i| (i as f64).powf(-exponent));
                    let norm: f64 = shares.clone().sum();
                    rates.extend(shares.map(|share| total * share / norm));
                }
            }
        }
        Some(rates)
    }

    /// Jobs per second of one server and the servers of that speed, fastest first; `None` if only ranks are known.
    fn servers_fastest_first(&self, arrival_rates: Option<&[f64]>) -> Option<Vec<(f64, Vec<u32>)>> {
        let size = self.mean_size(arrival_rates);
        let mut classes: Vec<(f64, Vec<u32>)> = Vec::with_capacity(self.server_types.len());
        for server_type in &self.server_types {
            let Speed::Rate(rate) = server_type.speed else { return None };
            classes.push((f64::from(server_type.slots) * rate / size, Vec::new()));
        }
        let mut next = 0;
        for entry in &self.servers {
            let count = u32::try_from(entry.names.len()).ok()?;
            classes.get_mut(entry.server_type)?.1.extend(next..next + count);
            next += count;
        }
        classes.retain(|(_, servers)| !servers.is_empty());
        classes.sort_by(|a, b| b.0.total_cmp(&a.0));
        classes.dedup_by(|slower, faster| {
            let equal = super::speeds_equal(slower.0, faster.0);
            if equal {
                faster.1.append(&mut slower.1);
            }
            equal
        });
        Some(classes)
    }

    /// Mean size of an arriving job; of a job type, where the arrival rates say nothing.
    fn mean_size(&self, arrival_rates: Option<&[f64]>) -> f64 {
        let mean = |weights: &[f64]| {
            let sizes = self.job_types.iter().flat_map(|entry| std::iter::repeat_n(entry.size, entry.names.len()));
            weights.iter().zip(sizes).map(|(weight, size)| weight * size).sum::<f64>() / weights.iter().sum::<f64>()
        };
        let equal = vec![1.0; self.job_types.iter().map(|entry| entry.names.len()).sum()];
        arrival_rates.map(mean).filter(|size| size.is_finite()).unwrap_or_else(|| mean(&equal))
    }
}
