//! `split`: servers come as often as their shares say, over those that are up.
//!
//! Method: 100,000 decisions in a state that does not change, Pearson's chi-square against the shares. Each test at
//! level 1e-6 with a fixed seed; were the seeds changed, the three together would raise a false alarm with probability
//! below 3e-6. A decision of probability 0 is a failure, whatever the statistic.

use std::sync::Arc;

use rand::SeedableRng;
use shortline_core::policy::{Policy, PolicyError, PolicySpec, Split, SplitShares, SplitSharesError};
use shortline_core::random::Generator;
use shortline_core::{Blocked, Decision, Dispatcher, Fleet, JobTypeId, LiveDispatcher, ServerId};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::fleets::{Draft, server};

const DRAWS: u32 = 100_000;
const SHARES: [f64; 5] = [0.4, 0.3, 0.2, 0.1, 0.0];

/// Job type `m` on five servers, the last without a share; `other` on the last alone. One job fits at each server.
fn fleet() -> Arc<Fleet> {
    let servers =
        (0..5).fold(Draft::default().server_type("t", 1.0, 1), |draft, i| draft.server(&format!("s{i}"), 0, Some(1)));
    servers.job_type("m", 0..5).job_type("other", [4]).build()
}

fn shares(fleet: &Fleet) -> SplitShares {
    let id = |i: usize| server(fleet, &format!("s{i}"));
    let m = (0..4).map(|i| (id(i), SHARES[i])).collect();
    SplitShares::new(fleet, vec![0, 1], &[m, vec![(id(4), 7.0)]]).unwrap()
}

fn dispatcher(down: &[usize]) -> Dispatcher<Split, ()> {
    let fleet = fleet();
    let mut dispatcher = Dispatcher::new(Arc::clone(&fleet), Split::new(Arc::new(shares(&fleet))));
    down.iter().for_each(|i| drop(dispatcher.set_up(server(&fleet, &format!("s{i}")), false)));
    dispatcher
}

/// Draws for `m` and compares with these probabilities of the five servers.
fn assert_drawn_with(down: &[usize], probabilities: [f64; 5]) {
    let dispatcher = dispatcher(down);
    let mut policy = Split::new(Arc::new(shares(dispatcher.state().fleet())));
    let (mut rng, mut counts) = (Generator::seed_from_u64(7), [0_u32; 5]);
    for _ in 0..DRAWS {
        let chosen: ServerId = policy.choose(dispatcher.state(), JobTypeId::new(0), &mut rng).unwrap();
        counts[dispatcher.state().fleet().file_index(chosen)] += 1;
    }
    let (mut statistic, mut cells) = (0.0, 0);
    for (&count, probability) in counts.iter().zip(probabilities) {
        if probability == 0.0 {
            assert_eq!(count, 0, "{counts:?}");
        } else {
            let expected = probability * f64::from(DRAWS);
            statistic += (f64::from(count) - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if cells > 1 {
        let surprise = ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic);
        assert!(surprise > 1e-6, "{counts:?} instead of {probabilities:?}: {surprise:e}");
    }
}

#[test]
fn servers_come_as_often_as_their_shares_say() {
    assert_drawn_with(&[], SHARES);
}

#[test]
fn shares_are_renormalised_over_the_servers_that_are_up() {
    assert_drawn_with(&[0, 2], [0.0, 0.75, 0.0, 0.25, 0.0]);
    assert_drawn_with(&[0, 1, 2], [0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn a_job_whose_shares_are_all_down_goes_to_another_server_that_holds_it() {
    assert_drawn_with(&[0, 1, 2, 3], [0.0, 0.0, 0.0, 0.0, 1.0]);
}

/// Of 200 servers three are up: one with a share of 0.006, one of 0.002, and one without. 32 draws find neither of the
/// two with probability 0.77, so most decisions walk the table; there the first stands in two cells, for its share is
/// above the average. 20,000 decisions may miss 3/4 by five standard errors: false-alarm probability 6e-7.
#[test]
fn small_shares_among_many_that_are_down_are_found_too() {
    let draft =
        (0..200).fold(Draft::default().server_type("t", 1.0, 1), |draft, i| draft.server(&format!("s{i}"), 0, None));
    let fleet = draft.job_type("m", 0..200).build();
    let [often, seldom, never] = [198, 3, 199].map(ServerId::new);
    let share = |server| match server {
        server if server == often => 0.006,
        server if server == seldom => 0.002,
        _ => 0.992 / 197.0,
    };
    let distribution =
        fleet.servers().filter(|&server| server != never).map(|server| (server, share(server))).collect();
    let shares = Arc::new(SplitShares::new(&fleet, vec![0], &[distribution]).unwrap());
    let mut dispatcher = Dispatcher::<_, ()>::new(Arc::clone(&fleet), Split::new(shares));
    let down = fleet.servers().filter(|server| ![often, seldom, never].contains(server));
    down.for_each(|server| drop(dispatcher.set_up(server, false)));
    let (mut rng, mut counts) = (Generator::seed_from_u64(1), [0_u32; 2]);
    for _ in 0..20_000 {
        match dispatcher.route(JobTypeId::new(0), || (), &mut rng) {
            Decision::Joined(server) if server == often => counts[0] += 1,
            Decision::Joined(server) if server == seldom => counts[1] += 1,
            decision => panic!("{decision:?}"),
        }
    }
    assert!((f64::from(counts[0]) - 15_000.0).abs() < 5.0 * (20_000.0_f64 * 0.75 * 0.25).sqrt(), "{counts:?}");
}

#[test]
fn there_is_no_place_if_the_server_drawn_is_full() {
    let mut dispatcher = dispatcher(&[]);
    let mut rng = Generator::seed_from_u64(3);
    let decisions: Vec<_> = (0..400).map(|_| dispatcher.route(JobTypeId::new(0), || (), &mut rng)).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.server().is_some()).count(), 4, "one fits at each");
    let blocked = |decision: &&Decision| **decision == Decision::Blocked(Blocked::NoRoom);
    assert_eq!(decisions.iter().filter(blocked).count(), 396, "s4 has room, but no share");
    let other = dispatcher.route(JobTypeId::new(1), || (), &mut rng);
    assert_eq!(other.server(), Some(server(&fleet(), "s4")));
}

/// A change here is *value-breaking*, as those in `value_stability.rs`.
#[test]
fn seed_7_gives_these_decisions() {
    let decisions = |down: &[usize]| {
        let mut dispatcher = dispatcher(down);
        let mut rng = Generator::seed_from_u64(7);
        let mut decide = || {
            let server = dispatcher.route(JobTypeId::new(0), || (), &mut rng).server().unwrap();
            dispatcher.complete(server);
            dispatcher.state().fleet().file_index(server).to_string()
        };
        (0..24).map(|_| decide()).collect::<Vec<_>>().join("")
    };
    assert_eq!(decisions(&[]), "000010011000000000032032");
    assert_eq!(decisions(&[0]), "111323231132312123121211");
}

#[test]
fn without_shares_the_policy_is_refused_and_with_them_it_runs() {
    let fleet = fleet();
    let refused = LiveDispatcher::<()>::new(Arc::clone(&fleet), PolicySpec::Split).unwrap_err();
    assert_eq!(refused, PolicyError::NeedsShares(PolicySpec::Split));
    let with_shares = Arc::new(fleet.with_split_shares(shares(&fleet)));
    assert!(LiveDispatcher::<()>::new(Arc::clone(&with_shares), PolicySpec::Split).is_ok());
    let other_traffic = with_shares.with_traffic(vec![1.0, 1.0], vec![1.0, 1.0]).unwrap();
    assert!(other_traffic.split_shares().is_none(), "shares are those of the traffic they were made for");
}

#[test]
fn shares_that_do_not_fit_the_fleet_are_refused_by_name() {
    let fleet = fleet();
    let refused = |of: Vec<u32>, shares: &[Vec<(ServerId, f64)>]| SplitShares::new(&fleet, of, shares).unwrap_err();
    let (s0, s4) = (server(&fleet, "s0"), server(&fleet, "s4"));
    assert_eq!(refused(vec![0], &[vec![]]), SplitSharesError::Count { given: 1, job_types: 2 });
    assert!(refused(vec![0, 3], &[vec![(s4, 1.0)]]).to_string().contains("distribution 3 of job type `other`"));
    assert!(refused(vec![0, 0], &[vec![(s0, 1.0)]]).to_string().contains("`s0` has a share of `other`"));
    assert!(refused(vec![0, 0], &[vec![(s4, f64::NAN)]]).to_string().contains("share of `m` at `s4` is NaN"));
}
