//! The rules of the policies once more, written naively from their definition: for a state, the whole law of the
//! decision. O(N) or worse, no index, no row forms, no random numbers; what the other tests compare against.
//!
//! One reading of ours that the definitions leave open: a server that is down is sampled by no policy, also by those
//! that may sample full ones; a job finds no place for want of room, not because the dice fell on a dead server.

use std::collections::BTreeMap;

use shortline_core::policy::PolicySpec;
use shortline_core::{Fleet, JobTypeId, ServerId};

/// What a rule sees of the live state.
pub(crate) trait Live {
    fn fleet(&self) -> &Fleet;
    fn jobs(&self, server: ServerId) -> u64;
    fn is_up(&self, server: ServerId) -> bool;
}

impl Live for shortline_core::state::State {
    fn fleet(&self) -> &Fleet {
        self.fleet()
    }

    fn jobs(&self, server: ServerId) -> u64 {
        self.jobs(server).into()
    }

    fn is_up(&self, server: ServerId) -> bool {
        self.is_up(server)
    }
}

/// Probability of each decision; `None` = the policy finds no place.
pub(crate) type Law = BTreeMap<Option<ServerId>, f64>;

/// The law of a policy's decision about a job of this type.
pub(crate) fn law(policy: PolicySpec, live: &impl Live, job_type: JobTypeId) -> Law {
    let fleet = live.fleet();
    let up: Vec<ServerId> =
        fleet.servers().filter(|&r| fleet.graph().contains(job_type.index(), r) && live.is_up(r)).collect();
    let slots = |r: ServerId| u64::from(fleet.slots(r));
    let is_full = |r: ServerId| match policy {
        PolicySpec::Central => live.jobs(r) >= slots(r),
        _ => fleet.buffer(r).is_some_and(|buffer| live.jobs(r) >= u64::from(buffer)),
    };
    let with_room: Vec<ServerId> = up.iter().copied().filter(|&r| !is_full(r)).collect();
    let idle: Vec<ServerId> = with_room.iter().copied().filter(|&r| live.jobs(r) < slots(r)).collect();
    let rank = |r: ServerId| fleet.rank(job_type, fleet.server_type(r));
    let fastest = |servers: &[ServerId]| smallest(servers, |&r| rank(r));
    let shorter = |a: &ServerId, b: &ServerId| (live.jobs(*a) * slots(*b)).cmp(&(live.jobs(*b) * slots(*a)));
    let shortest = |servers: &[ServerId]| smallest_by(servers, shorter);
    let sed = || {
        let delay = |r: ServerId| {
            let per_slot = (live.jobs(r) as f64 + 1.0) / slots(r) as f64;
            per_slot.max(1.0) / fleet.rate(job_type, fleet.server_type(r))
        };
        let least = with_room.iter().map(|&r| delay(r)).fold(f64::INFINITY, f64::min);
        fastest(&with_room.iter().copied().filter(|&r| delay(r) <= least * (1.0 + 1e-12)).collect::<Vec<_>>())
    };
    // A random compatible server may be full: then there is no place.
    let any = || one_of(&up).into_iter().fold(Law::new(), |law, (r, p)| add(law, r.filter(|&r| !is_full(r)), p));
    // Classes of servers that a rule leaves tied, best first.
    let classes = |servers: &[ServerId], by_speed: bool| {
        let mut rest = servers.to_vec();
        let mut classes = Vec::new();
        while !rest.is_empty() {
            let best = shortest(&rest);
            let best = if by_speed { fastest(&best) } else { best };
            rest.retain(|r| !best.contains(r));
            classes.push(best);
        }
        classes
    };
    let no_place_if_full =
        |law: Law| law.into_iter().fold(Law::new(), |law, (r, p)| add(law, r.filter(|&r| !is_full(r)), p));

    match policy {
        PolicySpec::Random => any(),
        PolicySpec::Jsq => one_of(&shortest(&with_room)),
        PolicySpec::Jfsq => one_of(&fastest(&shortest(&with_room))),
        PolicySpec::Jiq if idle.is_empty() => any(),
        PolicySpec::Jiq => one_of(&idle),
        PolicySpec::Jfiq if idle.is_empty() => any(),
        PolicySpec::Jfiq | PolicySpec::Central => one_of(&fastest(&idle)),
        PolicySpec::Sed => one_of(&sed()),
        PolicySpec::Nq if idle.is_empty() => one_of(&sed()),
        PolicySpec::Nq => one_of(&fastest(&idle)),
        PolicySpec::JsqD(d) | PolicySpec::JfsqD(d) => {
            let classes = classes(&up, matches!(policy, PolicySpec::JfsqD(_)));
            no_place_if_full(best_of_samples(&classes, &[(up.clone(), d.count(fleet.server_count()))]))
        }
        PolicySpec::JsqFastOther { fast, other } => {
            let largest = fleet.servers().map(rank).min();
            let (fast_servers, others): (Vec<_>, Vec<_>) = up.iter().partition(|&&r| Some(rank(r)) == largest);
            no_place_if_full(best_of_samples(&classes(&up, true), &[(fast_servers, fast), (others, other)]))
        }
        PolicySpec::Split => unreachable!("split has tests of its own: these fleets have no arrival rates to split"),
    }
}

/// Each of these with the same probability; no place if there is none.
fn one_of(servers: &[ServerId]) -> Law {
    if servers.is_empty() {
        return Law::from([(None, 1.0)]);
    }
    servers.iter().map(|&r| (Some(r), 1.0 / servers.len() as f64)).collect()
}

/// Law of the best server among samples without replacement from each pool: a class wins when no sample meets a
/// better class and some sample meets it; its servers are equally likely.
fn best_of_samples(classes: &[Vec<ServerId>], pools: &[(Vec<ServerId>, u32)]) -> Law {
    // Probability that all samples miss these servers.
    let missed = |servers: &[ServerId]| -> f64 {
        let miss = |(pool, d): &(Vec<ServerId>, u32)| {
            let (n, d) = (pool.len(), (*d as usize).min(pool.len()));
            let hits = pool.iter().filter(|r| servers.contains(r)).count();
            (0..d).map(|i| (n - i).saturating_sub(hits) as f64 / (n - i) as f64).product::<f64>()
        };
        pools.iter().map(miss).product()
    };
    let mut law = Law::new();
    let mut better: Vec<ServerId> = Vec::new();
    for class in classes {
        let before = missed(&better);
        better.extend(class);
        let wins = before - missed(&better);
        for &r in class.iter().filter(|_| wins > 1e-12) {
            law.insert(Some(r), wins / class.len() as f64);
        }
    }
    if law.is_empty() { one_of(&[]) } else { law }
}

fn add(mut law: Law, decision: Option<ServerId>, probability: f64) -> Law {
    *law.entry(decision).or_insert(0.0) += probability;
    law
}

fn smallest<K: Ord>(servers: &[ServerId], key: impl Fn(&ServerId) -> K) -> Vec<ServerId> {
    smallest_by(servers, |a, b| key(a).cmp(&key(b)))
}

fn smallest_by(servers: &[ServerId], order: impl Fn(&ServerId, &ServerId) -> std::cmp::Ordering) -> Vec<ServerId> {
    let Some(least) = servers.iter().min_by(|a, b| order(a, b)) else { return Vec::new() };
    servers.iter().copied().filter(|r| order(r, least).is_eq()).collect()
}
