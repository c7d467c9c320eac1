//! How much of the arrivals some idle servers can have no copy of: `delta_m(e)`, from both sides.

use serde::Serialize;
use shortline_core::Fleet;
use shortline_theory::connectivity::{Bracket, Connectivity};
use shortline_theory::{Model, TheoryError};

use super::Progress;

/// Fractions of the servers at which `delta_m(e)` is shown.
const FRACTIONS: [f64; 4] = [0.05, 0.1, 0.25, 0.5];

/// On more servers than this half of the fractions, the middle ones, are shown: each takes a search of seconds.
const MANY_SERVERS: usize = 20_000;

/// Most speed classes shown one by one; of more, those around `K` and the outermost.
const MOST_CLASSES: usize = 6;

/// What is known of the graph's connectivity.
#[derive(Debug, Serialize)]
pub(super) struct ConnectivitySection {
    pub(super) connectivity: Vec<ConnectivityRow>,
    /// Why there is none.
    pub(super) connectivity_why: Option<String>,
}

/// `lower <= delta_m(e) <= upper`.
#[derive(Debug, Serialize)]
pub(super) struct ConnectivityRow {
    /// `m`; in a fleet without speed classes the number of its server types.
    pub(super) fastest_types: usize,
    /// `n_m`.
    pub(super) servers: usize,
    /// `e`.
    pub(super) servers_left_out: usize,
    /// A set of servers was found that has no copy of so much.
    pub(super) lower: f64,
    /// No set of servers has no copy of more.
    pub(super) upper: f64,
    pub(super) exact: bool,
    /// The set that was found; with `--all` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) witness: Option<Witness>,
}

/// Servers, and the job types that none of them holds.
#[derive(Debug, Serialize)]
pub(super) struct Witness {
    pub(super) servers: Vec<String>,
    pub(super) job_types: Vec<String>,
}

/// Certificates for each speed class; for all servers at once in a fleet without classes.
pub(super) fn analyse(fleet: &Fleet) -> Result<Connectivity<'_>, TheoryError> {
    if has_classes(fleet) { Connectivity::new(fleet) } else { Connectivity::of_all_servers(fleet) }
}

/// Whether the fleet is uniform, or ranks its servers, which the theory refuses by itself.
fn has_classes(fleet: &Fleet) -> bool {
    !fleet.has_rates() || fleet.is_uniform()
}

impl ConnectivitySection {
    pub(super) fn of(
        fleet: &Fleet,
        connectivity: &Result<Connectivity<'_>, TheoryError>,
        with_names: bool,
        progress: &Progress,
    ) -> Self {
        let connectivity = match connectivity {
            Ok(connectivity) => connectivity,
            Err(error) => return Self { connectivity: Vec::new(), connectivity_why: Some(error.to_string()) },
        };
        let needed = Model::new(fleet).ok().and_then(|model| model.needed_classes());
        let mut rows = Vec::new();
        for m in classes_shown(connectivity.class_count(), needed) {
            let n = connectivity.server_count(m);
            let fractions = if n > MANY_SERVERS { &FRACTIONS[1..3] } else { &FRACTIONS[..] };
            let mut left_out: Vec<usize> = fractions.iter().map(|u| (u * n as f64).ceil() as usize).collect();
            left_out.dedup();
            for e in left_out {
                progress.at(&format!("connectivity: {e} of {n} servers"));
                rows.extend(
                    connectivity.bracket(m, e).map(|bracket| ConnectivityRow::of(fleet, n, bracket, with_names)),
                );
            }
        }
        Self { connectivity: rows, connectivity_why: None }
    }
}

impl ConnectivityRow {
    fn of(fleet: &Fleet, servers: usize, bracket: Bracket, with_names: bool) -> Self {
        let witness = |bracket: &Bracket| Witness {
            servers: bracket.witness.servers.iter().map(|&r| fleet.server_name(r)).collect(),
            job_types: bracket.witness.job_types.iter().map(|&l| fleet.job_type_name(l)).collect(),
        };
        Self {
            fastest_types: if has_classes(fleet) { bracket.fastest_types } else { fleet.server_type_count() },
            servers,
            servers_left_out: bracket.servers_left_out,
            lower: bracket.lower,
            upper: bracket.upper,
            exact: bracket.exact,
            witness: with_names.then(|| witness(&bracket)),
        }
    }
}

/// All classes, or of many the first, the last and those around `K`.
fn classes_shown(count: usize, needed: Option<usize>) -> Vec<usize> {
    if count <= MOST_CLASSES {
        return (1..=count).collect();
    }
    let around = needed.map_or(0..0, |k| k.saturating_sub(1).max(1)..(k + 2).min(count));
    let mut shown: Vec<usize> = [1, count].into_iter().chain(around).collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_classes_the_outermost_and_those_around_k_are_shown() {
        assert_eq!(classes_shown(3, Some(2)), [1, 2, 3]);
        assert_eq!(classes_shown(100, Some(40)), [1, 39, 40, 41, 100]);
        assert_eq!(classes_shown(100, Some(1)), [1, 2, 100]);
        assert_eq!(classes_shown(100, Some(100)), [1, 99, 100]);
        assert_eq!(classes_shown(100, None), [1, 100]);
    }
}
