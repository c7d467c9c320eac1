//! Back from a fleet to its parts: for a fleet that differs a little from a running one.

use super::{ArrivalRates, Fleet, FleetParts, JobTypeParts, Names, RateOverride, ServerParts, Speed};
use crate::graph::Edges;
use crate::ids::{JobTypeId, ServerTypeId};

impl Fleet {
    /// The parts of this fleet: [`Fleet::new`] of them is the same fleet, but that shares of policy `split` are computed
    /// anew by whoever needs them. Servers and job types are in the file's order, server types fastest first; edges are
    /// written out. Where traffic was [measured](Self::with_traffic), each job type has its own rate and size.
    /// O(servers + job types x server types + edges).
    ///
    /// ```
    /// # use shortline_core::Fleet;
    /// # use shortline_core::fleet::*;
    /// # use shortline_core::graph::Edges;
    /// # let names = |base: &str| Names { base: base.into(), count: None };
    /// # let parts = FleetParts {
    /// #     name: "f".into(),
    /// #     server_types: vec![ServerTypeParts { name: "t".into(), speed: Speed::Rate(1.0), slots: 1 }],
    /// #     servers: vec![ServerParts { names: names("a"), server_type: 0, buffer: None, addresses: vec![] }],
    /// #     job_types: vec![JobTypeParts { names: names("m"), arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
    /// #     rates: vec![],
    /// #     edges: Edges::Complete,
    /// #     settings: Settings::default(),
    /// # };
    /// let fleet = Fleet::new(parts.clone())?;
    /// assert_eq!(fleet.to_parts(), parts);
    /// # Ok::<(), FleetError>(())
    /// ```
    #[must_use]
    pub fn to_parts(&self) -> FleetParts {
        FleetParts {
            name: self.name.clone(),
            server_types: self.types.clone(),
            servers: self.server_parts(),
            job_types: self.job_type_parts(),
            rates: self.rate_overrides(),
            edges: self.edges(),
            settings: self.settings.clone(),
        }
    }

    fn server_parts(&self) -> Vec<ServerParts> {
        let groups = (0..self.addresses.len()).filter(|&group| !self.server_names.range(group).is_empty());
        groups
            .map(|group| {
                let first = self.server_at_file_index(self.server_names.range(group).start);
                ServerParts {
                    names: self.server_names.names(group).clone(),
                    server_type: self.server_type(first).index(),
                    buffer: self.buffer(first),
                    addresses: self.addresses[group].clone(),
                }
            })
            .collect()
    }

    fn job_type_parts(&self) -> Vec<JobTypeParts> {
        if let Some(traffic) = &self.traffic {
            let measured = traffic.rates_per_s.iter().zip(&traffic.sizes).enumerate();
            return measured
                .map(|(l, (&rate, &size))| JobTypeParts {
                    names: Names { base: self.job_type_names.name(l), count: None },
                    arrivals: ArrivalRates::Each(rate),
                    size,
                })
                .collect();
        }
        let groups = (0..self.arrivals.len()).filter(|&group| !self.job_type_names.range(group).is_empty());
        groups
            .map(|group| JobTypeParts {
                names: self.job_type_names.names(group).clone(),
                arrivals: self.arrivals[group],
                size: self.sizes[group],
            })
            .collect()
    }

    /// Rates that are not the server type's own, to the bit.
    fn rate_overrides(&self) -> Vec<RateOverride> {
        let own = |server_type: ServerTypeId| match self.types[server_type.index()].speed {
            Speed::Rate(rate) => Some(rate),
            Speed::Rank(_) => None,
        };
        let pairs = self.job_types().flat_map(|l: JobTypeId| self.server_types().map(move |m| (l, m)));
        pairs
            .filter_map(|(l, m)| {
                let (rate, own) = (self.rate(l, m), own(m)?);
                let differs = rate.to_bits() != own.to_bits();
                differs.then(|| RateOverride { job_type: l.index(), server_type: m.index(), rate })
            })
            .collect()
    }

    fn edges(&self) -> Edges {
        if self.job_types().all(|l| self.graph.degree(l.index()) == self.server_count()) {
            return Edges::Complete;
        }
        let mut edges = Edges::rows();
        for l in self.job_types() {
            let mut row = Vec::with_capacity(self.graph.degree(l.index()));
            self.graph.for_each(l.index(), |server| row.push(self.file_index[server.index()]));
            edges.push_row(&mut row);
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{ServerTypeParts, Settings};

    /// Two types written slowest first, counted servers and job types, one rate of its own, some edges.
    fn parts() -> FleetParts {
        let names = |base: &str, count| Names { base: base.into(), count };
        let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 2 };
        let server = |names, server_type| ServerParts { names, server_type, buffer: Some(7), addresses: vec![] };
        let job_type = |names, arrivals| JobTypeParts { names, arrivals, size: 3.0 };
        FleetParts {
            name: "f".into(),
            server_types: vec![server_type("slow", 1.0), server_type("fast", 2.0)],
            servers: vec![server(names("s", Some(3)), 0), server(names("f", None), 1)],
            job_types: vec![
                job_type(names("m", Some(2)), ArrivalRates::Split { total: 1.0, exponent: 0.5 }),
                job_type(names("n", None), ArrivalRates::Unknown),
            ],
            rates: vec![RateOverride { job_type: 2, server_type: 0, rate: 4.0 }],
            edges: Edges::from_rows([vec![0, 3], vec![1, 2], vec![3]]),
            settings: Settings::default(),
        }
    }

    #[test]
    fn a_fleet_of_its_parts_is_the_same_fleet() {
        let fleet = Fleet::new(parts()).unwrap();
        let again = Fleet::new(fleet.to_parts()).unwrap();
        assert_eq!(fleet.to_parts(), again.to_parts());
        for server in fleet.servers() {
            assert_eq!(fleet.server_name(server), again.server_name(server));
            assert_eq!(fleet.file_index(server), again.file_index(server));
            for l in fleet.job_types() {
                assert!((fleet.service_rate(l, server) - again.service_rate(l, server)).abs() < 1e-15);
            }
        }
        assert_eq!(fleet.to_parts().edges, parts().edges);
        assert_eq!(fleet.to_parts().servers[0].names, parts().servers[0].names);
        assert_eq!(fleet.to_parts().job_types, parts().job_types);
    }

    #[test]
    fn measured_traffic_is_in_the_parts() {
        let fleet = Fleet::new(parts()).unwrap().with_traffic(vec![0.1, 0.2, 0.3], vec![1.0, 2.0, 3.0]).unwrap();
        let job_types = fleet.to_parts().job_types;
        assert_eq!(job_types.len(), 3);
        assert_eq!((job_types[1].names.get(0), job_types[1].arrivals), ("m-1".into(), ArrivalRates::Each(0.2)));
    }
}
