//! What one change does to the load factor: a job type that grows, a server that is lost, an edge that is added.

use shortline_core::fleet::{ArrivalRates, Fleet};
use shortline_core::{JobTypeId, ServerId};
use shortline_theory::stability::{Effort, analyse};

use crate::fleets::{Build, random, with_rates};
use crate::linear_programs;

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

fn rates(fleet: &Fleet) -> (Vec<f64>, Vec<f64>) {
    let rates = fleet.job_types().map(|l| fleet.arrival_rate(l).expect("test fleets have rates")).collect();
    (rates, fleet.job_types().map(|l| fleet.size(l)).collect())
}

/// The fleet with one arrival rate times `factor`.
fn grown(fleet: &Fleet, job_type: JobTypeId, factor: f64) -> Fleet {
    let (mut rates, sizes) = rates(fleet);
    rates[job_type.index()] *= factor;
    fleet.with_traffic(rates, sizes).expect("rates and sizes in range")
}

/// A random fleet; rates per job type for odd seeds. `load`: of `s*`.
fn fleet(seed: u64, load: f64) -> Build {
    let build = if seed.is_multiple_of(2) { random(seed, seed.is_multiple_of(4)) } else { with_rates(seed) };
    let factor = analyse(&build.clone().done()).expect("test fleets have rates and edges").max_load_factor;
    build.scale_arrivals(load * factor)
}

/// The build with its rows as they were drawn, without one server (in the file's order) or with one more edge.
fn changed(build: &Build, change: impl Fn(&mut Vec<Vec<u32>>)) -> Build {
    let fleet = build.clone().done();
    let row = |l: usize| {
        let here = fleet.servers().filter(|&r| fleet.graph().contains(l, r));
        here.map(|r| u32::try_from(fleet.file_index(r)).expect("a test fleet is small")).collect()
    };
    let mut rows: Vec<Vec<u32>> = (0..fleet.job_type_count()).map(row).collect();
    change(&mut rows);
    build.clone().with_rows(rows)
}

#[test]
fn a_job_type_at_its_slack_makes_the_fleet_critical() {
    let (mut larger, mut zero) = (0, 0);
    for seed in 0..150 {
        for load in [0.5, 0.9, 1.3] {
            let fleet = fleet(seed, load).done();
            for slack in analyse(&fleet).unwrap().slacks(Effort::All, &mut |_| ()).unwrap() {
                let x = slack.factor.value;
                assert!(slack.factor.is_exact);
                assert!(x >= 0.0 && (load < 1.0) == (x > 1.0), "seed {seed}, load {load}: {slack:?}");
                let factor = |x: f64| linear_programs::max_load_factor(&grown(&fleet, slack.job_type, x));
                if x > 0.0 {
                    assert!(near(factor(x), 1.0, 1e-7), "seed {seed}, load {load}: {slack:?} {}", factor(x));
                    larger += 1;
                } else {
                    assert!(factor(1e-9) <= 1.0 + 1e-7, "seed {seed}, load {load}: {slack:?} {}", factor(1e-9));
                    zero += 1;
                }
            }
        }
    }
    assert!(larger > 300 && zero > 50, "both occur: {larger} and {zero}");
}

#[test]
fn without_a_server_the_load_factor_is_that_of_the_fleet_without_it() {
    let mut lowered = 0;
    for seed in 0..150 {
        let build = fleet(seed, 0.8);
        let fleet = build.clone().done();
        let stability = analyse(&fleet).unwrap();
        for loss in stability.losses(Effort::All, &mut |_| ()).unwrap() {
            let server = u32::try_from(fleet.file_index(loss.server)).unwrap();
            let rest = changed(&build, |rows| rows.iter_mut().for_each(|row| row.retain(|&r| r != server))).done();
            let expected = if rest.graph().edge_count() == 0 { 0.0 } else { linear_programs::max_load_factor(&rest) };
            let found = loss.max_load_factor;
            assert!(found.is_exact);
            assert!((found.value - expected).abs() <= 1e-7 * expected.max(1e-3), "seed {seed}: {loss:?} {expected}");
            lowered += u32::from(expected < 0.99 * stability.max_load_factor);
        }
    }
    assert!(lowered > 100, "losses matter: {lowered}");
}

#[test]
fn what_is_not_computed_is_bounded_from_above_and_says_so() {
    for seed in 0..100 {
        let stability = analyse(&fleet(seed, 0.8).done()).unwrap();
        let exact = stability.losses(Effort::All, &mut |_| ()).unwrap();
        for loss in stability.losses(Effort::Worst(0), &mut |_| ()).unwrap() {
            let all = exact.iter().find(|other| other.server == loss.server).unwrap().max_load_factor.value;
            let in_bottleneck = stability.bottleneck.servers.contains(&loss.server);
            assert!(loss.max_load_factor.value >= all * (1.0 - 1e-9), "seed {seed}: {loss:?} {all}");
            assert!(!in_bottleneck || loss.max_load_factor.is_exact, "seed {seed}: {loss:?}");
        }
        let exact = stability.slacks(Effort::All, &mut |_| ()).unwrap();
        for slack in stability.slacks(Effort::Worst(0), &mut |_| ()).unwrap() {
            let all = exact.iter().find(|other| other.job_type == slack.job_type).unwrap().factor.value;
            assert!(slack.factor.value >= all * (1.0 - 1e-9), "seed {seed}: {slack:?} {all}");
        }
    }
}

/// A random fleet: every third has servers that hold nothing, every fifth a job type that is on no server.
fn sparse(seed: u64) -> Build {
    let mut build = match seed % 4 {
        0 => random(seed, false),
        1 => with_rates(seed),
        2 => random(seed, true),
        // Speeds that keep product form on the edges there are, and break it on some that could be added.
        _ => random(seed, true).class(1, 0.9, 2).rate(0, 0, 1.7),
    };
    if seed.is_multiple_of(3) {
        build = build.class(2, 1.3, 1).class(1, 0.4, 2);
    }
    if seed.is_multiple_of(5) && build.parts.job_types.len() > 1 {
        build = changed(&build, |rows| rows[0].clear());
    }
    build
}

/// The largest `s*` with one more edge, over all edges that are missing, and with `edge`.
fn by_brute_force(build: &Build) -> Vec<((JobTypeId, ServerId), f64)> {
    let fleet = build.clone().done();
    let factor_with = |l: JobTypeId, r: ServerId| {
        let server = u32::try_from(fleet.file_index(r)).expect("a test fleet is small");
        linear_programs::max_load_factor(&changed(build, |rows| rows[l.index()].push(server)).done())
    };
    let missing = fleet.job_types().flat_map(|l| fleet.servers().map(move |r| (l, r)));
    let missing = missing.filter(|&(l, r)| !fleet.graph().contains(l.index(), r));
    missing.map(|(l, r)| ((l, r), factor_with(l, r))).collect()
}

#[test]
fn the_best_edge_is_the_best_of_all_missing_ones_and_none_means_that_none_helps() {
    let (mut helped, mut none) = ([0; 4], [0; 4]);
    for seed in 0..240 {
        let build = sparse(seed);
        let fleet = build.clone().done();
        let stability = analyse(&fleet).unwrap();
        let with = by_brute_force(&build);
        let most = with.iter().map(|&(_, factor)| factor).fold(stability.max_load_factor, f64::max);
        let found = stability.best_edge(&fleet, u64::MAX, &mut |_| ()).unwrap();
        assert!(found.is_settled, "seed {seed}: {found:?}");
        let kind = usize::try_from(seed % 4).unwrap();
        match found.best {
            Some(edge) => {
                let pair = (edge.job_type, edge.server);
                let (_, expected) = with.iter().find(|(other, _)| *other == pair).expect("the edge is missing");
                assert!(near(edge.max_load_factor, *expected, 1e-6), "seed {seed}: {edge:?} {expected}");
                assert!(near(edge.max_load_factor, most, 1e-6), "seed {seed}: {edge:?}, but one reaches {most}");
                helped[kind] += 1;
            }
            None => {
                assert!(near(most, stability.max_load_factor, 1e-6), "seed {seed}: an edge reaches {most}");
                none[kind] += 1;
            }
        }
    }
    assert!(helped.iter().all(|&n| n >= 10) && none.iter().sum::<i32>() >= 10, "{helped:?} {none:?}");
}

#[test]
fn where_effort_runs_out_the_largest_bound_left_holds_for_all_edges() {
    let (mut open, mut settled) = (0, 0);
    for seed in 0..240 {
        let build = sparse(seed);
        let fleet = build.clone().done();
        let found = analyse(&fleet).unwrap().best_edge(&fleet, 0, &mut |_| ()).unwrap();
        assert!(found.tried <= 1);
        let most = by_brute_force(&build).iter().map(|&(_, factor)| factor).fold(0.0, f64::max);
        assert!(most <= found.at_most * (1.0 + 1e-6), "seed {seed}: {most} {found:?}");
        if found.is_settled {
            settled += 1;
        } else {
            open += 1;
        }
    }
    assert!(open >= 10 && settled >= 10, "both occur: {open} and {settled}");
}

#[test]
fn work_is_compared_with_work_where_job_sizes_differ() {
    // "large" is 10 units of work per job, "small" 0.1; both are on the slow server; a fast one holds nothing.
    let build = Build::servers(&[1.0, 5.0]).job_type(0.09, 10.0, &[0]).job_type(1.0, 0.1, &[0]);
    let fleet = build.done();
    let found = analyse(&fleet).unwrap().best_edge(&fleet, u64::MAX, &mut |_| ()).unwrap();
    let edge = found.best.unwrap();
    assert_eq!((edge.job_type, edge.server), (JobTypeId::new(0), fleet.find_server("s1-0").unwrap()));
    assert!(near(edge.max_load_factor, 6.0, 1e-9), "the slow server is left with the small jobs: {edge:?}");
}

#[test]
fn a_popular_job_type_on_one_server_is_told_from_the_others() {
    // As in the module's example: gpu-0 of two takes all of "popular".
    let fleet = Build::servers(&[1.0, 1.0]).job_type(0.8, 1.0, &[0]).job_type(0.4, 1.0, &[0, 1]).done();
    let stability = analyse(&fleet).unwrap();
    let slacks = stability.slacks(Effort::default(), &mut |_| ()).unwrap();
    assert!(near(slacks[0].factor.value, 1.25, 1e-12) && slacks[0].job_type == JobTypeId::new(0));
    // The other can have all of the second server and 0.2 of the first.
    assert!(near(slacks[1].factor.value, 3.0, 1e-12));
    let losses = stability.losses(Effort::default(), &mut |_| ()).unwrap();
    assert!(losses[0].max_load_factor.value.abs() < f64::MIN_POSITIVE && losses[0].server == ServerId::new(0));
    assert!(near(losses[1].max_load_factor.value, 1.0 / 1.2, 1e-12));
    let edge = stability.best_edge(&fleet, u64::MAX, &mut |_| ()).unwrap().best.unwrap();
    assert_eq!((edge.job_type, edge.server), (JobTypeId::new(0), ServerId::new(1)));
    assert!(near(edge.max_load_factor, 2.0 / 1.2, 1e-12));
}

#[test]
fn job_types_that_never_arrive_or_are_nowhere_and_idle_servers_are_answered() {
    let build = Build::servers(&[1.0, 1.0, 1.0]);
    let fleet = build.job_type(0.5, 1.0, &[0]).job_type(0.0, 1.0, &[0, 1]).job_type(0.2, 1.0, &[]).done();
    let stability = analyse(&fleet).unwrap();
    let slacks = stability.slacks(Effort::All, &mut |_| ()).unwrap();
    assert_eq!(slacks.len(), 2, "the job type that is nowhere has none");
    // As long as jobs arrive that no server holds, nothing can grow, and s* = 0 is all that can be lost.
    assert!(slacks[0].factor.is_exact && near(slacks[0].factor.value, 0.0, 1e-12), "{slacks:?}");
    assert!(slacks[1].factor.value.is_infinite());
    let losses = stability.losses(Effort::All, &mut |_| ()).unwrap();
    assert_eq!(losses.len(), 2, "the server that holds nothing has none");
    for loss in &losses {
        assert!(loss.max_load_factor.is_exact && loss.max_load_factor.value <= stability.max_load_factor, "{loss:?}");
    }
    let edge = stability.best_edge(&fleet, u64::MAX, &mut |_| ()).unwrap().best.unwrap();
    assert_eq!(edge.job_type, JobTypeId::new(2), "what is nowhere comes first");
    assert!(near(edge.max_load_factor, 2.0, 1e-12));
}

#[test]
fn progress_is_told_step_by_step() {
    let fleet = random(4, false).done();
    let stability = analyse(&fleet).unwrap();
    let mut seen = Vec::new();
    stability.losses(Effort::All, &mut |progress| seen.push((progress.done, progress.of))).unwrap();
    let groups = seen.len();
    assert!(groups > 1);
    assert_eq!(seen, (1..=groups).map(|done| (done, Some(groups))).collect::<Vec<_>>());
}

#[test]
fn a_tight_fleet_of_equal_servers_has_no_edge_to_add() {
    let mut build = Build::servers(&[]).class(4, 1.0, 1).job_type_on_all(3.0, 1.0);
    let search = |build: &Build| {
        let fleet = build.clone().done();
        analyse(&fleet).unwrap().best_edge(&fleet, 9, &mut |_| ()).unwrap()
    };
    let found = search(&build);
    assert!(found.best.is_none() && found.is_settled && found.tried == 0, "{found:?}");
    build.parts.job_types[0].arrivals = ArrivalRates::Each(5.0);
    let found = search(&build);
    assert!(found.best.is_none() && found.is_settled, "{found:?}");
}
