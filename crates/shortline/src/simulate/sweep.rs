//! `--sweep`: the same fleet at several loads, degrees or sizes.
//!
//! - `load`: all arrival rates are scaled to each offered load.
//! - `degree`: the `degree` of the file's `[graph]` is replaced and the graph generated anew, with the file's seed.
//!   Rates stay as they are (or at `--load`).
//! - `servers`: every `[[server]]` with a `count` is scaled so that the fleet has that many servers; servers without one
//!   stay single. The counts are the proportional ones, rounded down, and what is missing goes to the largest
//!   remainders. With a `[graph]`, job types with a `count` are scaled in the same proportion (port degrees and server
//!   degrees keep their ratio) and the graph is generated anew; without one, job types stay as they are and every server
//!   of an entry holds what the entry's `serves` lists. Then all arrival rates are scaled so that the offered load is
//!   the file's (or `--load`).

use shortline_core::Fleet;
use shortline_core::fleet::{FleetParts, Names, Parts};
use shortline_core::graph::{EdgeProbability, Edges, GraphSpec};

use super::points;
use crate::digits::exact;
use crate::failure::Failure;
use crate::load::{Load, at_load};

/// `--sweep`.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) points: Vec<Point>,
}

/// A point of a sweep.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    /// Offered load.
    Load(f64),
    /// Edges per job type or server, whichever the graph's kind counts.
    Degree(u32),
    /// Number of servers.
    Servers(u32),
}

impl Sweep {
    /// Reads `load=0.5..0.98:0.04`, `degree=2,4,8` or `servers=64,128`.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let (what, points) = written.split_once('=').ok_or("WHAT=POINTS, as load=0.5..0.98:0.04 or degree=2,4,8")?;
        let point = |value: f64| match what {
            "load" if value > 0.0 => Ok(Point::Load(value)),
            "load" => Err("loads are positive".to_owned()),
            "degree" => Ok(Point::Degree(whole(what, value)?)),
            "servers" => Ok(Point::Servers(whole(what, value)?)),
            _ => Err(format!("`{what}` cannot be swept over; `load`, `degree` and `servers` can")),
        };
        Ok(Self { points: points::parse(points)?.into_iter().map(point).collect::<Result<_, _>>()? })
    }
}

fn whole(what: &str, value: f64) -> Result<u32, String> {
    if value >= 1.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX) {
        Ok(value as u32)
    } else {
        Err(format!("`{what}` goes over whole numbers from 1, and {} is none", exact(value)))
    }
}

/// The fleet of a file, its load scaled to `load` if that is given.
pub(super) fn fleet_of(parts: FleetParts, load: Option<f64>) -> Result<Fleet, Failure> {
    let fleet = Fleet::new(parts).map_err(Failure::usage)?;
    match load {
        Some(load) => at_load(&fleet, load),
        None => Ok(fleet),
    }
}

impl Point {
    /// The fleet of the file at this point.
    pub(super) fn fleet(self, file: &Parts, load: Option<f64>) -> Result<Fleet, Failure> {
        match self {
            Self::Load(load) => fleet_of(file.fleet.clone(), Some(load)),
            Self::Degree(degree) => {
                let mut parts = file.fleet.clone();
                let spec = with_degree(file.graph.as_ref(), degree)?;
                parts.edges = parts.generate(&spec).map_err(|error| at("degree", degree, error))?.edges;
                fleet_of(parts, load)
            }
            Self::Servers(servers) => {
                let load = match load {
                    Some(load) => load,
                    None => Load::of(&fleet_of(file.fleet.clone(), None)?).map_err(Failure::usage)?.middle(),
                };
                fleet_of(with_servers(file, servers as usize)?, Some(load))
            }
        }
    }

    /// The offered load swept over.
    pub(super) fn load(self) -> Option<f64> {
        if let Self::Load(load) = self { Some(load) } else { None }
    }

    /// The degree swept over.
    pub(super) fn degree(self) -> Option<u32> {
        if let Self::Degree(degree) = self { Some(degree) } else { None }
    }

    /// `load=0.9`: as it is written on the command line, the same in every run.
    pub(super) fn key(self) -> String {
        self.title().replace(' ', "=")
    }

    /// `load 0.9`.
    pub(super) fn title(self) -> String {
        match self {
            Self::Load(load) => format!("load {}", exact(load)),
            Self::Degree(degree) => format!("degree {degree}"),
            Self::Servers(servers) => format!("servers {servers}"),
        }
    }
}

fn at(what: &str, value: u32, error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("--sweep {what}, at {value}: {error}"))
}

/// The graph with another degree.
fn with_degree(graph: Option<&GraphSpec>, degree: u32) -> Result<GraphSpec, Failure> {
    let mut spec = graph.cloned();
    match &mut spec {
        Some(GraphSpec::PortDegree { degree: d, .. } | GraphSpec::ServerDegree { degree: d, .. }) => *d = degree,
        Some(GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(d), .. }) => *d = f64::from(degree),
        _ => {}
    }
    match spec {
        Some(
            spec @ (GraphSpec::PortDegree { .. }
            | GraphSpec::ServerDegree { .. }
            | GraphSpec::Bernoulli { edges: EdgeProbability::MeanDegree(_), .. }),
        ) => Ok(spec),
        _ => Err(Failure::usage(
            "--sweep degree needs a fleet file whose [graph] has a `degree`: kind port-degree, server-degree, or \
             bernoulli with `degree`",
        )),
    }
}

/// The fleet with that many servers.
fn with_servers(file: &Parts, servers: usize) -> Result<FleetParts, Failure> {
    let error = |error: String| at("servers", u32::try_from(servers).unwrap_or(u32::MAX), error);
    let mut parts = file.fleet.clone();
    // What names single servers or job types by their position, and is no part of a simulation of counts.
    parts.settings.routes.clear();
    let before: Vec<usize> = parts.servers.iter().map(|entry| entry.names.len()).collect();
    for entry in &mut parts.servers {
        entry.addresses.clear();
    }
    scale(parts.servers.iter_mut().map(|entry| &mut entry.names), servers, "[[server]]").map_err(error)?;
    match &file.graph {
        Some(GraphSpec::File { path }) => {
            return Err(error(format!(
                "the edges in `{path}` are those of the file's servers; use a generated [graph]"
            )));
        }
        Some(spec) => {
            let total: usize = before.iter().sum();
            scale_job_types(&mut parts, servers as f64 / total as f64).map_err(error)?;
            parts.edges = parts.generate(spec).map_err(|refused| error(refused.to_string()))?.edges;
        }
        None => {
            let after: Vec<usize> = parts.servers.iter().map(|entry| entry.names.len()).collect();
            let job_types = parts.job_types.iter().map(|entry| entry.names.len()).sum();
            parts.edges = spread(&parts.edges, job_types, &before, &after);
        }
    }
    Ok(parts)
}

/// Scales the counted entries so that all entries together have `total` names.
fn scale<'a>(names: impl Iterator<Item = &'a mut Names>, total: usize, entry: &str) -> Result<(), String> {
    let mut names: Vec<&mut Names> = names.collect();
    let counted: f64 = names.iter().filter_map(|names| names.count).map(f64::from).sum();
    let single = names.iter().filter(|names| names.count.is_none()).count();
    if counted == 0.0 {
        return Err(format!("no {entry} has a `count` that could be scaled"));
    }
    let wanted = total.saturating_sub(single) as f64;
    let share = |names: &Names| wanted * f64::from(names.count.unwrap_or(0)) / counted;
    let mut remainders: Vec<(f64, usize)> =
        names.iter().enumerate().filter(|(_, n)| n.count.is_some()).map(|(i, n)| (share(n).fract(), i)).collect();
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let floors: f64 = names.iter().map(|names| share(names).floor()).sum();
    let missing = (wanted - floors).round() as usize;
    let counts: Vec<u32> = names.iter().map(|names| share(names).floor() as u32).collect();
    for (i, names) in names.iter_mut().enumerate().filter(|(_, names)| names.count.is_some()) {
        let one_more = remainders.iter().take(missing).any(|&(_, other)| other == i);
        let count = counts[i] + u32::from(one_more);
        if count == 0 {
            return Err(format!("that leaves none of {entry} `{}`", names.base));
        }
        names.count = Some(count);
    }
    Ok(())
}

/// Scales counted job types by `factor`; speeds of pairs keep their job types.
fn scale_job_types(parts: &mut FleetParts, factor: f64) -> Result<(), String> {
    let before: Vec<Names> = parts.job_types.iter().map(|entry| entry.names.clone()).collect();
    let counted: f64 = before.iter().filter_map(|names| names.count).map(f64::from).sum();
    if counted == 0.0 {
        return Ok(());
    }
    let single = before.iter().filter(|names| names.count.is_none()).count();
    let total = single + (counted * factor).round() as usize;
    scale(parts.job_types.iter_mut().map(|entry| &mut entry.names), total, "[[job_type]]")?;
    for rate in &mut parts.rates {
        let (mut start, mut new_start) = (0, 0);
        for (old, new) in before.iter().zip(&parts.job_types) {
            if (start..start + old.len()).contains(&rate.job_type) {
                if old.count.is_some() {
                    return Err(format!(
                        "a [[rate]] names one of the counted job types `{}`, whose number changes with the servers; give it \
                         a [[job_type]] without `count`",
                        old.base
                    ));
                }
                rate.job_type = new_start;
                break;
            }
            start += old.len();
            new_start += new.names.len();
        }
    }
    Ok(())
}

/// Edges of entries whose servers all hold the same, for other numbers of servers.
fn spread(edges: &Edges, job_types: usize, before: &[usize], after: &[usize]) -> Edges {
    let Edges::Rows { .. } = edges else { return Edges::Complete };
    let starts = |counts: &[usize]| -> Vec<u32> {
        let next = |start: &mut u32, count: &usize| {
            let this = *start;
            *start += *count as u32;
            Some(this)
        };
        counts.iter().scan(0, next).collect()
    };
    let (old, new) = (starts(before), starts(after));
    let row = |l: usize| {
        let servers = edges.row(l).unwrap_or_default();
        let holds = |entry: usize| servers.binary_search(&old[entry]).is_ok();
        let of = |entry: usize| new[entry]..new[entry] + after[entry] as u32;
        (0..before.len()).filter(|&entry| holds(entry)).flat_map(of).collect::<Vec<u32>>()
    };
    Edges::from_rows((0..job_types).map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(counts: &[Option<u32>]) -> Vec<Names> {
        counts.iter().map(|&count| Names { base: format!("{count:?}"), count }).collect()
    }

    fn scaled(counts: &[Option<u32>], total: usize) -> Result<Vec<Option<u32>>, String> {
        let mut names = names(counts);
        scale(names.iter_mut(), total, "[[server]]")?;
        Ok(names.iter().map(|names| names.count).collect())
    }

    #[test]
    fn counts_are_scaled_in_proportion_and_single_ones_stay() {
        assert_eq!(scaled(&[Some(2), Some(6), None], 17), Ok(vec![Some(4), Some(12), None]));
        assert_eq!(scaled(&[Some(1), Some(1), Some(1)], 5), Ok(vec![Some(2), Some(2), Some(1)]));
        assert_eq!(scaled(&[Some(64), Some(64), Some(128)], 128), Ok(vec![Some(32), Some(32), Some(64)]));
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        assert!(scaled(&[None, None], 4).unwrap_err().contains("`count`"));
        assert!(scaled(&[Some(1), Some(100)], 10).unwrap_err().contains("leaves none"));
    }

    #[test]
    fn sweeps_are_read_and_nonsense_is_refused() {
        assert_eq!(Sweep::parse("degree=2,4,8").unwrap().points.len(), 3);
        for written in ["load", "speed=1", "load=0", "load=-1", "degree=2.5", "degree=0", "servers=1e12", "load=x"] {
            assert!(Sweep::parse(written).is_err(), "{written}");
        }
    }
}
