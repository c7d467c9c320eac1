//! Fleets for the unit tests, built in code.

use shortline_core::fleet::settings::Settings;
use shortline_core::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Speed};
use shortline_core::graph::Edges;

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
