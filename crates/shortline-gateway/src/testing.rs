//! Fleets for the unit tests, built in code.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Address, Settings};
use shortline_core::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;
use shortline_core::policy::PolicySpec;

use crate::epoch::Epoch;
use crate::fleet_server::Server;
use crate::stats::JobTypeRecord;
use crate::upstream::Endpoint;

pub(crate) fn server_type(name: &str, rate: f64) -> ServerTypeParts {
    ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 }
}

pub(crate) fn server(name: &str, server_type: usize, buffer: Option<u32>) -> ServerParts {
    ServerParts { names: Names { base: name.into(), count: None }, server_type, buffer, addresses: Vec::new() }
}

/// A fleet with one job type per row: `l0`, `l1`, ...
pub(crate) fn fleet(
    server_types: Vec<ServerTypeParts>,
    servers: Vec<ServerParts>,
    rows: &[&[u32]],
    settings: Settings,
) -> FleetParts {
    let job_type = |l| JobTypeParts {
        names: Names { base: format!("l{l}"), count: None },
        arrivals: ArrivalRates::Unknown,
        size: 1.0,
    };
    FleetParts {
        name: "test".into(),
        server_types,
        servers,
        job_types: (0..rows.len()).map(job_type).collect(),
        rates: Vec::new(),
        edges: Edges::from_rows(rows.iter().map(|row| row.iter().copied())),
        settings,
    }
}

/// A fleet in service by jfsq, its servers at addresses where nobody is.
pub(crate) fn epoch(parts: FleetParts) -> Epoch {
    epoch_with(parts, |name| Arc::new(JobTypeRecord::new(name)))
}

/// The same, with the job types of the one before where names are the same.
pub(crate) fn next(before: &Epoch, parts: FleetParts) -> Arc<Epoch> {
    Arc::new(epoch_with(parts, |name| match before.fleet.find_job_type(name) {
        Some(job_type) => Arc::clone(before.job_type(job_type)),
        None => Arc::new(JobTypeRecord::new(name)),
    }))
}

fn epoch_with(parts: FleetParts, job_type: impl Fn(&str) -> Arc<JobTypeRecord>) -> Epoch {
    let fleet = Arc::new(Fleet::new(parts).expect("a valid fleet"));
    let tls = || panic!("an http address needs no TLS");
    let endpoint = Endpoint::new(&Address::new(false, "127.0.0.1", 1), tls).unwrap();
    let nowhere = vec![endpoint; fleet.server_count()];
    let server = |name: &str, endpoint: &Endpoint| Arc::new(Server::new(name, endpoint));
    Epoch::new(fleet, PolicySpec::Jfsq, &nowhere, server, job_type)
}
