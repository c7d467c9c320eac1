//! What is rare, or was never seen, in the figures of a report: no interval leaves the range of its quantity, and never seen
//! is not the same as impossible.

use shortline_sim::{Estimate, Means};

use crate::fleets::{fleet, simulate};

/// Not for want of luck.
const NEVER: Option<Estimate> = Some(Estimate { mean: 0.0, ci95: [0.0, 0.0] });

/// Probabilities, then times and numbers of jobs.
fn figures(means: &Means) -> (Vec<Estimate>, Vec<Estimate>) {
    let mut shares = vec![means.fraction_waiting, means.blocking_probability, means.reneged_probability];
    let mut times = vec![means.mean_response_s, means.mean_waiting_s, means.mean_service_s, means.mean_jobs];
    times.extend([means.p50_response_s, means.p95_response_s, means.p99_response_s, means.throughput_per_s]);
    means.per_job_type.iter().for_each(|l| {
        shares.push(l.blocking_probability);
        times.push(l.mean_response_s);
    });
    means.per_server_type.iter().for_each(|m| {
        shares.push(m.utilisation);
        times.push(m.mean_jobs);
    });
    (shares.into_iter().flatten().collect(), times.into_iter().flatten().collect())
}

/// Counted, lumped and followed; a load at which hardly anybody is blocked or waits, and one at which most are; few events.
#[test]
fn no_interval_leaves_the_range_of_its_quantity() {
    let mut seen = 0;
    for load in [0.05, 0.3, 0.6, 3.0] {
        let arrivals = [3.0 * load, 1.5 * load];
        let complete = || fleet(&[(1.0, 1, 3), (0.5, 1, 3)], &arrivals).buffer(4);
        let rows: &[&[u32]] = &[&[0, 1, 2, 3], &[3, 4, 5]];
        let fleets = [
            complete().build(),
            complete().rows(rows).build(),
            complete().pair_rates(&[(0, 1, 0.9)]).build(),
            complete().waits(Some(2), Some(0.5)).build(),
        ];
        for fleet in fleets {
            for policy in ["jfsq", "random"] {
                let Some(means) = simulate(&fleet, policy, 2000).means else { continue };
                let (shares, times) = figures(&means);
                let holds = |estimate: &Estimate, high: f64| {
                    let [a, b] = estimate.ci95;
                    0.0 <= a && a <= estimate.mean && estimate.mean <= b && b <= high
                };
                let bad = shares.iter().find(|share| !holds(share, 1.0));
                let bad = bad.or(times.iter().find(|time| !holds(time, f64::INFINITY)));
                assert_eq!(bad, None, "{policy} at load {load}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 24, "{seen} runs have means");
}

#[test]
fn what_was_never_seen_may_be_as_frequent_as_the_rule_of_three_allows() {
    let rare = fleet(&[(1.0, 1, 20)], &[4.0]).buffer(5).build();
    let report = simulate(&rare, "jsq", 100_000);
    let means = report.means.unwrap();
    // Half of the events are arrivals.
    let limit = 3.69 / 50_000.0;
    let blocked = means.blocking_probability.unwrap();
    assert!(blocked.mean <= 0.0 && (blocked.ci95[1] / limit - 1.0).abs() < 0.02, "{blocked:?}, limit {limit}");
    assert_eq!(means.reneged_probability, NEVER, "nobody waits in front");
    let [waits, waiting] = [means.fraction_waiting, means.mean_waiting_s].map(Option::unwrap);
    assert!(waits.mean <= 0.0 && waits.ci95[1] > 0.0 && waiting.ci95[1] > 0.0, "{waits:?} {waiting:?}");
    assert!((waiting.ci95[1] / waits.ci95[1] - 1.0).abs() < 1e-9, "a service takes a second");
}

#[test]
fn what_cannot_happen_has_an_interval_without_width() {
    let unbounded = simulate(&fleet(&[(1.0, 1, 20)], &[4.0]).build(), "jsq", 20_000).means.unwrap();
    assert_eq!(unbounded.blocking_probability, NEVER, "there is always room");
    let no_line = simulate(&fleet(&[(1.0, 2, 4)], &[8.0]).buffer(2).build(), "jsq", 20_000).means.unwrap();
    assert_eq!(no_line.fraction_waiting, NEVER, "there is no room to wait");
    assert!(no_line.blocking_probability.unwrap().mean > 0.0);
}
