//! Servers that fail: the capacity that is left in the long run.
//!
//! A server that is up for exponential times of mean `u` and down for times of mean `d` is up a share `A = u / (u + d)` of the time
//! (renewal reward), whatever it does meanwhile, and does at most `A c_r` work per second, `c_r` its full capacity. A policy
//! that serves every job exists only if `sum_{l in S} lambda_l e_l < A c(N(S))` for every set `S` of job types, and then exists
//! where jobs may wait in front: the condition of the [module above](super) with `A s*` in the place of `s*`. `A` is one for all servers,
//! so that the fleet with arrival rates `lambda_l / A` and servers that never fail has the same factor, the same bottleneck, the same
//! slacks and losses.
//!
//! One server (M/M/1 with breakdowns; Avi-Itzhak and Naor, 1963): stable if and only if `lambda < mu A`.
//!
//! **Without lines in front** a job that finds all its servers down is lost, and what is accepted may be carried beyond: of one
//! server, whenever `lambda < mu`.
//!
//! **Listed failures** (`events`) happen once: what counts in the long run is the fleet that the last of them leaves
//! ([`in_the_end`]), whose servers never fail.

use shortline_core::fleet::settings::Failures;
use shortline_core::fleet::{FleetParts, Names, ServerParts};
use shortline_core::graph::Edges;
use shortline_core::{Fleet, ServerId};

/// `A`: the long-run share of the time that a server is up; 1 without `[failures]`, and where they are listed.
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, fleet::settings::Failures, graph::Edges};
/// use shortline_theory::stability::{analyse, availability, under_failures};
/// # let settings = Settings { failures: Some(Failures::Random { mean_up_s: 9.0, mean_down_s: 3.0 }), ..Settings::default() };
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: None }, server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings,
/// # })?;
/// // One server of rate 1, up for 9 s and down for 3 s in the mean; jobs at 0.5/s.
/// assert!((availability(&fleet) - 0.75).abs() < 1e-12);
/// assert!((analyse(&under_failures(&fleet))?.max_load_factor - 1.5).abs() < 1e-12, "not 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn availability(fleet: &Fleet) -> f64 {
    match fleet.settings().failures {
        Some(Failures::Random { mean_up_s, mean_down_s }) => mean_up_s / (mean_up_s + mean_down_s),
        Some(Failures::Events(_)) | None => 1.0,
    }
}

/// A fleet whose servers never fail with the load factor that this one has in the long run: arrival rates over [`availability`];
/// of listed failures the fleet that they leave ([`in_the_end`]). The same fleet where nothing fails, or where rates are missing.
#[must_use]
pub fn under_failures(fleet: &Fleet) -> Fleet {
    let available = availability(fleet);
    let rates: Option<Vec<f64>> =
        fleet.job_types().map(|l| fleet.arrival_rate(l).map(|rate| rate / available)).collect();
    let sizes = fleet.job_types().map(|l| fleet.size(l)).collect();
    match rates {
        // Rates that are beyond all numbers then stay as they are.
        Some(rates) if available < 1.0 => fleet.with_traffic(rates, sizes).unwrap_or_else(|_| fleet.clone()),
        _ => in_the_end(fleet),
    }
}

/// The servers that stay down after the last of listed failures, ascending; none where failures are not listed.
#[must_use]
pub fn down_in_the_end(fleet: &Fleet) -> Vec<ServerId> {
    let Some(Failures::Events(events)) = &fleet.settings().failures else { return Vec::new() };
    let mut is_up = vec![true; fleet.server_count()];
    events.iter().for_each(|event| is_up[fleet.server_at_file_index(event.server).index()] = event.up);
    fleet.servers().filter(|server| !is_up[server.index()]).collect()
}

/// What keeps servers from being up all the time in the long run, and what to do about it; `None` if nothing does.
pub(crate) fn why_not_always_up(fleet: &Fleet) -> Option<(&'static str, &'static str)> {
    match &fleet.settings().failures {
        Some(Failures::Random { .. }) => Some(("servers fail", "leave [failures] out")),
        Some(Failures::Events(_)) if !down_in_the_end(fleet).is_empty() => Some((
            "servers stay down after the last of the listed failures",
            "look at those that are left (`in_the_end`)",
        )),
        Some(Failures::Events(_)) | None => None,
    }
}

/// The fleet after the last of listed failures: without the servers that [stay down](down_in_the_end), and without
/// `[failures]`. If none stays up: all servers, none of which holds a job type. The same fleet where failures are not listed.
///
/// Servers have other ids in it, and the same names. Jobs that are at a server when it goes down for good stay there: they
/// are not of this fleet. O(servers + job types x server types + edges).
///
/// ```
/// # use shortline_core::{Fleet, fleet::*, fleet::settings::{FailureEvent, Failures}, graph::Edges};
/// use shortline_theory::stability::{analyse, in_the_end};
/// # let listed = vec![FailureEvent { at_s: 5.0, server: 0, up: false }];
/// # let settings = Settings { failures: Some(Failures::Events(listed)), ..Settings::default() };
/// # let fleet = Fleet::new(FleetParts {
/// #     name: String::new(),
/// #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
/// #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: Some(3) }, server_type: 0, buffer: None, addresses: vec![] }],
/// #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(0.5), size: 1.0 }],
/// #     rates: vec![], edges: Edges::Complete, settings,
/// # })?;
/// // Three servers of rate 1, of which `gpu-0` goes down and stays down; jobs at 0.5/s.
/// let left = in_the_end(&fleet);
/// assert_eq!(left.servers().map(|r| left.server_name(r)).collect::<Vec<_>>(), ["gpu-1", "gpu-2"]);
/// assert!((analyse(&left)?.max_load_factor - 4.0).abs() < 1e-12, "not 6");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn in_the_end(fleet: &Fleet) -> Fleet {
    let Some(Failures::Events(_)) = fleet.settings().failures else { return fleet.clone() };
    let mut parts = fleet.to_parts();
    parts.settings.failures = None;
    let mut is_down = vec![false; fleet.server_count()];
    down_in_the_end(fleet).into_iter().for_each(|server| is_down[fleet.file_index(server)] = true);
    if is_down.iter().all(|&down| down) {
        parts.edges = Edges::from_rows(vec![Vec::new(); fleet.job_type_count()]);
    } else if is_down.contains(&true) {
        take_out(&mut parts, &is_down);
    }
    Fleet::new(parts).expect("a fleet without some of its servers is one")
}

/// Takes the servers out that are down, by their place in the file's order.
fn take_out(parts: &mut FleetParts, is_down: &[bool]) {
    if let Edges::Rows { starts, servers } = &parts.edges {
        let stay = is_down.iter().scan(0, |stay, &down| {
            let place = *stay;
            *stay += u32::from(!down);
            Some((!down).then_some(place))
        });
        let stay: Vec<Option<u32>> = stay.collect();
        let row = |ends: &[usize]| servers[ends[0]..ends[1]].iter().filter_map(|&server| stay[server as usize]);
        parts.edges = Edges::from_rows(starts.windows(2).map(row));
    }
    let mut first = 0;
    let of_group = |group: ServerParts| {
        let is_down = &is_down[first..first + group.names.len()];
        first += group.names.len();
        if is_down.contains(&true) { one_by_one(&group, is_down) } else { vec![group] }
    };
    parts.servers = std::mem::take(&mut parts.servers).into_iter().flat_map(of_group).collect();
}

/// The servers of a group that stay up, each under its own name.
fn one_by_one(group: &ServerParts, is_down: &[bool]) -> Vec<ServerParts> {
    let one = |i: usize| ServerParts {
        names: Names { base: group.names.get(i), count: None },
        addresses: group.addresses.get(i).cloned().into_iter().collect(),
        ..group.clone()
    };
    (0..is_down.len()).filter(|&i| !is_down[i]).map(one).collect()
}

#[cfg(test)]
mod tests {
    use shortline_core::fleet::settings::{FailureEvent, Settings};
    use shortline_core::fleet::{ArrivalRates, JobTypeParts, ServerTypeParts, Speed};

    use super::*;

    /// Four counted servers and one more, slowest first in the file; each job type on some of them.
    fn fleet(down: &[usize]) -> Fleet {
        let names = |base: &str, count| Names { base: base.into(), count };
        let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
        let server = |names, server_type| ServerParts { names, server_type, buffer: Some(7), addresses: vec![] };
        let events = down.iter().map(|&server| FailureEvent { at_s: 1.0, server, up: false }).collect();
        Fleet::new(FleetParts {
            name: String::new(),
            server_types: vec![server_type("slow", 1.0), server_type("fast", 2.0)],
            servers: vec![server(names("s", Some(4)), 0), server(names("f", None), 1)],
            job_types: vec![JobTypeParts { names: names("m", Some(3)), arrivals: ArrivalRates::Each(0.1), size: 1.0 }],
            rates: vec![],
            edges: Edges::from_rows([vec![0, 4], vec![0, 1, 2], vec![1, 3, 4]]),
            settings: Settings { failures: Some(Failures::Events(events)), ..Settings::default() },
        })
        .expect("the parts are right")
    }

    /// Names of the servers of each job type, in the file's order.
    fn rows(fleet: &Fleet) -> Vec<Vec<String>> {
        let row = |l: shortline_core::JobTypeId| {
            let held = fleet.servers_in_file_order().filter(|&server| fleet.graph().contains(l.index(), server));
            held.map(|server| fleet.server_name(server)).collect()
        };
        fleet.job_types().map(row).collect()
    }

    #[test]
    fn the_servers_that_stay_keep_their_names_and_job_types() {
        let left = in_the_end(&fleet(&[1]));
        assert_eq!(rows(&left), [vec!["s-0", "f"], vec!["s-0", "s-2"], vec!["s-3", "f"]]);
        assert_eq!(left.settings().failures, None);
        assert_eq!(left.buffer(left.find_server("s-3").unwrap()), Some(7));
        assert_eq!(rows(&in_the_end(&fleet(&[0, 4]))), [&[][..], &["s-1", "s-2"], &["s-1", "s-3"]]);
        assert_eq!(rows(&in_the_end(&fleet(&[]))), rows(&fleet(&[])));
        assert_eq!(rows(&in_the_end(&fleet(&[0, 1, 2, 3, 4]))), vec![Vec::<String>::new(); 3]);
    }
}
