//! From parts to fleet: number the servers by speed, rank the speeds, order and intern the rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{ArrivalRates, Fleet, FleetError, FleetParts, NameIndex, RateOverride, ServerTypeParts, Speed, SpeedRow};
use super::{FEW_TYPES, MANY_SERVERS, speeds_equal};
use crate::graph::{Edges, Graph, GraphBuilder, RowOrder};
use crate::ids::{ServerId, ServerTypeId};

pub(super) fn fleet(parts: FleetParts) -> Result<Fleet, FleetError> {
    let server_names = NameIndex::new(parts.servers.iter().map(|s| s.names.clone()).collect());
    let job_type_names = NameIndex::new(parts.job_types.iter().map(|j| j.names.clone()).collect());
    check(&parts, &server_names, &job_type_names)?;

    let (types, new_type_of) = types_fastest_first(&parts.server_types);
    let numbering = Numbering::new(&parts, &new_type_of);
    let rates: Vec<RateOverride> =
        parts.rates.iter().map(|r| RateOverride { server_type: new_type_of[r.server_type].index(), ..*r }).collect();
    let (speed_rows, speed_row_of) = speed_rows(&types, &rates, job_type_names.len());
    let graph = graph(&parts.edges, &numbering, &speed_rows, &speed_row_of);

    let zipf_norm = |entry: &super::JobTypeParts| match entry.arrivals {
        ArrivalRates::Split { exponent, .. } => (1..=entry.names.len()).map(|i| (i as f64).powf(-exponent)).sum(),
        _ => 1.0,
    };
    Ok(Fleet {
        name: parts.name,
        ranked_only: matches!(types[0].speed, Speed::Rank(_)),
        types,
        type_starts: type_starts(&numbering.type_ranges),
        type_ranges: numbering.type_ranges,
        type_of: numbering.type_of,
        buffers: numbering.buffers,
        file_index: numbering.file_index,
        id_of_file_index: numbering.id_of_file_index,
        server_names,
        addresses: parts.servers.iter().map(|s| s.addresses.clone()).collect(),
        job_type_names,
        arrivals: parts.job_types.iter().map(|j| j.arrivals).collect(),
        zipf_norms: parts.job_types.iter().map(zipf_norm).collect(),
        sizes: parts.job_types.iter().map(|j| j.size).collect(),
        speed_rows,
        speed_row_of,
        traffic: None,
        split_shares: None,
        graph: Arc::new(graph),
        settings: parts.settings,
    })
}

/// Refuses what a fleet cannot be; names of violated conditions come from [`FleetError`].
fn check(parts: &FleetParts, servers: &NameIndex, job_types: &NameIndex) -> Result<(), FleetError> {
    let limit =
        |what, value, limit| if value > limit { Err(FleetError::TooMany { what, value, limit }) } else { Ok(()) };
    for (what, count) in
        [("server type", parts.server_types.len()), ("server", servers.len()), ("job type", job_types.len())]
    {
        if count == 0 {
            return Err(FleetError::Empty(what));
        }
    }
    limit("the number of server types", parts.server_types.len(), usize::from(u16::MAX))?;
    limit("the number of servers", servers.len(), u32::MAX as usize - 1)?;
    limit("the number of job types", job_types.len(), u32::MAX as usize - 1)?;

    let types = parts.server_types.iter().map(|t| super::Names { base: t.name.clone(), count: None }).collect();
    for (what, names) in [("server type", &NameIndex::new(types)), ("server", servers), ("job type", job_types)] {
        if let Some(duplicate) = names.duplicates().into_iter().next() {
            return Err(FleetError::DuplicateName { what, name: duplicate.name });
        }
    }
    check_speeds(&parts.server_types)?;
    for server in &parts.servers {
        let Some(server_type) = parts.server_types.get(server.server_type) else {
            let count = parts.server_types.len();
            return Err(FleetError::Dangling { what: "server type", index: server.server_type, count });
        };
        if let Some(buffer) = server.buffer {
            positive_at_least("buffer", &server.names.base, buffer, server_type.slots, "at least its slots")?;
        }
        if !server.addresses.is_empty() && server.addresses.len() != server.names.len() {
            let (index, count) = (server.names.len() - 1, server.addresses.len());
            return Err(FleetError::Dangling { what: "address", index, count });
        }
    }
    for entry in &parts.job_types {
        positive("size", &entry.names.base, entry.size)?;
        match entry.arrivals {
            ArrivalRates::Unknown => {}
            ArrivalRates::Each(rate) => not_negative("rate", &entry.names.base, rate)?,
            ArrivalRates::Split { total, exponent } => {
                not_negative("total_rate", &entry.names.base, total)?;
                not_negative("zipf", &entry.names.base, exponent)?;
            }
        }
    }
    let ranked = parts.server_types.iter().find(|t| matches!(t.speed, Speed::Rank(_)));
    for r in &parts.rates {
        if let Some(ranked) = ranked {
            return Err(FleetError::MixedSpeeds { rated: job_types.name(r.job_type), ranked: ranked.name.clone() });
        }
        dangling("job type", r.job_type, job_types.len())?;
        dangling("server type", r.server_type, parts.server_types.len())?;
        positive("rate", &job_types.name(r.job_type), r.rate)?;
    }
    if let Edges::Rows { starts, servers: columns } = &parts.edges {
        if starts.len() != job_types.len() + 1 {
            let index = starts.len().saturating_sub(1);
            return Err(FleetError::Dangling { what: "graph row", index, count: job_types.len() });
        }
        columns.iter().try_for_each(|&r| dangling("server", r as usize, servers.len()))?;
    }
    Ok(())
}

/// One rate and one size per job type, each in its range.
pub(super) fn check_traffic(fleet: &Fleet, rates_per_s: &[f64], sizes: &[f64]) -> Result<(), FleetError> {
    for (what, given) in [("arrival rate", rates_per_s), ("size", sizes)] {
        if given.len() != fleet.job_type_count() {
            return Err(FleetError::Dangling { what, index: given.len(), count: fleet.job_type_count() });
        }
    }
    for job_type in fleet.job_types() {
        let name = || fleet.job_type_name(job_type);
        let (rate, size) = (rates_per_s[job_type.index()], sizes[job_type.index()]);
        if !(rate.is_finite() && rate >= 0.0) {
            not_negative("arrival rate", &name(), rate)?;
        }
        if !(size.is_finite() && size > 0.0) {
            positive("size", &name(), size)?;
        }
    }
    Ok(())
}

fn check_speeds(types: &[ServerTypeParts]) -> Result<(), FleetError> {
    let mut common = 1_u64;
    for t in types {
        match t.speed {
            Speed::Rate(rate) => positive("rate", &t.name, rate)?,
            Speed::Rank(rank) => positive_at_least("rank", &t.name, rank, 1, "at least 1")?,
        }
        positive_at_least("slots", &t.name, t.slots, 1, "at least 1")?;
        common = common / gcd(common, u64::from(t.slots)) * u64::from(t.slots);
        if common > u64::from(u32::MAX) {
            return Err(FleetError::SlotCounts);
        }
    }
    let rated = types.iter().find(|t| matches!(t.speed, Speed::Rate(_)));
    let ranked = types.iter().find(|t| matches!(t.speed, Speed::Rank(_)));
    if let (Some(rated), Some(ranked)) = (rated, ranked) {
        return Err(FleetError::MixedSpeeds { rated: rated.name.clone(), ranked: ranked.name.clone() });
    }
    Ok(())
}

fn dangling(what: &'static str, index: usize, count: usize) -> Result<(), FleetError> {
    if index < count { Ok(()) } else { Err(FleetError::Dangling { what, index, count }) }
}

fn positive(what: &'static str, name: &str, value: f64) -> Result<(), FleetError> {
    in_range(value.is_finite() && value > 0.0, what, name, value, "positive and finite")
}

fn not_negative(what: &'static str, name: &str, value: f64) -> Result<(), FleetError> {
    in_range(value.is_finite() && value >= 0.0, what, name, value, "finite and not negative")
}

fn positive_at_least(
    what: &'static str,
    name: &str,
    value: u32,
    least: u32,
    range: &'static str,
) -> Result<(), FleetError> {
    in_range(value >= least, what, name, f64::from(value), range)
}

fn in_range(ok: bool, what: &'static str, name: &str, value: f64, range: &'static str) -> Result<(), FleetError> {
    if ok { Ok(()) } else { Err(FleetError::OutOfRange { what, name: name.to_owned(), value, range }) }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The speed as a number that grows with it.
fn rate_of(speed: Speed) -> f64 {
    match speed {
        Speed::Rate(rate) => rate,
        Speed::Rank(rank) => 1.0 / f64::from(rank),
    }
}

/// Server types sorted by speed (ties in the file's order), and where each of the file's types went.
fn types_fastest_first(types: &[ServerTypeParts]) -> (Vec<ServerTypeParts>, Vec<ServerTypeId>) {
    let mut order: Vec<usize> = (0..types.len()).collect();
    order.sort_by(|&a, &b| rate_of(types[b].speed).total_cmp(&rate_of(types[a].speed)));
    let mut new_of = vec![ServerTypeId::new(0); types.len()];
    for (new, &old) in order.iter().enumerate() {
        new_of[old] = ServerTypeId::new(new);
    }
    (order.iter().map(|&i| types[i].clone()).collect(), new_of)
}

/// Server ids: by type, then by the file's order.
struct Numbering {
    type_ranges: Vec<Range<usize>>,
    type_of: Vec<ServerTypeId>,
    buffers: Vec<Option<u32>>,
    file_index: Vec<u32>,
    id_of_file_index: Vec<ServerId>,
}

fn type_starts(ranges: &[Range<usize>]) -> Option<[u32; FEW_TYPES - 1]> {
    let start = |m: usize| match ranges.get(m) {
        Some(range) => u32::try_from(range.start).expect("a fleet has fewer than 2^32 servers"),
        None => u32::MAX,
    };
    let servers = ranges.iter().map(Range::len).sum::<usize>();
    (servers >= MANY_SERVERS && ranges.len() <= FEW_TYPES).then(|| std::array::from_fn(|i| start(i + 1)))
}

impl Numbering {
    fn new(parts: &FleetParts, new_type_of: &[ServerTypeId]) -> Self {
        let type_of_entry = |entry: usize| new_type_of[parts.servers[entry].server_type];
        let mut type_ranges = vec![0..0; parts.server_types.len()];
        for (entry, server) in parts.servers.iter().enumerate() {
            type_ranges[type_of_entry(entry).index()].end += server.names.len();
        }
        let mut start = 0;
        for range in &mut type_ranges {
            *range = start..start + range.end;
            start = range.end;
        }
        let mut next: Vec<usize> = type_ranges.iter().map(|range| range.start).collect();
        let mut numbering = Self {
            type_ranges,
            type_of: vec![ServerTypeId::new(0); start],
            buffers: vec![None; start],
            file_index: vec![0; start],
            id_of_file_index: Vec::with_capacity(start),
        };
        for (entry, server) in parts.servers.iter().enumerate() {
            let server_type = type_of_entry(entry);
            for _ in 0..server.names.len() {
                let id = next[server_type.index()];
                next[server_type.index()] += 1;
                numbering.type_of[id] = server_type;
                numbering.buffers[id] = server.buffer;
                numbering.file_index[id] =
                    u32::try_from(numbering.id_of_file_index.len()).expect("check() limits the number of servers");
                numbering.id_of_file_index.push(ServerId::new(id));
            }
        }
        numbering
    }
}

/// The different ways in which job types see the speeds, and which one each job type has.
fn speed_rows(types: &[ServerTypeParts], rates: &[RateOverride], job_types: usize) -> (Vec<SpeedRow>, Vec<u32>) {
    let own: Vec<f64> = types.iter().map(|t| rate_of(t.speed)).collect();
    let mut by_job_type: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for r in rates {
        by_job_type.entry(r.job_type).or_insert_with(|| own.clone())[r.server_type] = r.rate;
    }
    let mut rows = vec![SpeedRow::new(own)];
    let mut known: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
    known.insert(rows[0].rates.iter().map(|r| r.to_bits()).collect(), 0);
    let mut row_of = vec![0; job_types];
    for (job_type, speeds) in by_job_type {
        row_of[job_type] = *known.entry(speeds.iter().map(|r| r.to_bits()).collect()).or_insert_with(|| {
            rows.push(SpeedRow::new(speeds));
            u32::try_from(rows.len() - 1).expect("no more speed rows than job types")
        });
    }
    (rows, row_of)
}

impl SpeedRow {
    fn new(rates: Vec<f64>) -> Self {
        let mut order: Vec<ServerTypeId> = (0..rates.len()).map(ServerTypeId::new).collect();
        order.sort_by(|a, b| rates[b.index()].total_cmp(&rates[a.index()]));
        let mut ranks = vec![0; rates.len()];
        let mut rank = 0;
        for pair in order.windows(2) {
            if !speeds_equal(rates[pair[0].index()], rates[pair[1].index()]) {
                rank += 1;
            }
            ranks[pair[1].index()] = rank;
        }
        Self { rates, ranks, order }
    }
}

fn graph(edges: &Edges, numbering: &Numbering, speed_rows: &[SpeedRow], speed_row_of: &[u32]) -> Graph {
    let mut builder = GraphBuilder::new(numbering.type_of.len());
    let mut ids: Vec<ServerId> = Vec::new();
    for (l, &order) in speed_row_of.iter().enumerate() {
        let Some(row) = edges.row(l) else {
            builder.push_full();
            continue;
        };
        ids.clear();
        ids.extend(row.iter().map(|&r| numbering.id_of_file_index[r as usize]));
        let ranks = &speed_rows[order as usize].ranks;
        builder.push(&mut ids, &RowOrder { order, rank: |id: ServerId| ranks[numbering.type_of[id.index()].index()] });
    }
    builder.finish()
}
