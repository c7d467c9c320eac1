//! Same seed, same report; same jobs for all policies.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::Settings;
use shortline_core::fleet::settings::{Arrivals, Discipline, Failures, Information, SizeLaw};
use shortline_sim::{Report, Simulation, Unobserved, Until};

use crate::fleets::{Sketch, fleet, policy};

fn mixed() -> Sketch {
    let rows: &[&[u32]] = &[&[0, 1, 2], &[2, 3, 4], &[0, 4]];
    fleet(&[(2.0, 1, 2), (0.8, 2, 3)], &[1.4, 1.2, 0.9]).buffer(4).rows(rows)
}

fn report(fleet: &Arc<Fleet>, policies: &[&str], threads: usize) -> Report {
    let simulation = Simulation::new(fleet).seed(7).threads(threads).calendar(true).until(Until::Events(200_001));
    policies.iter().fold(simulation, |simulation, name| simulation.policy(policy(name))).run().unwrap()
}

/// All that the engine can do, one by one.
fn asked() -> Vec<Arc<Fleet>> {
    let change: [fn(&mut Settings); 13] = [
        |_| {},
        |s| s.service.law = SizeLaw::Deterministic,
        |s| s.service.law = SizeLaw::Erlang { k: 3 },
        |s| s.service.law = SizeLaw::Hyperexponential { cv2: 4.0 },
        |s| s.service.law = SizeLaw::Coxian2 { mu1: 2.0, p: 0.25, mu2: 0.5 },
        |s| s.service.law = SizeLaw::Lognormal { cv2: 2.0 },
        |s| s.service.law = SizeLaw::Pareto { shape: 2.5 },
        |s| s.service.discipline = Discipline::ProcessorSharing,
        |s| s.arrivals = Arrivals::Renewal { cv2: 0.5 },
        |s| s.arrivals = Arrivals::OnOff { peak: 2.0, on_s: 1.0, off_s: 3.0 },
        |s| s.arrivals = Arrivals::Piecewise(vec![(0.0, 0.5), (3.0, 1.5)]),
        |s| s.failures = Some(Failures::Random { mean_up_s: 20.0, mean_down_s: 2.0 }),
        |s| s.information = Information { delay_s: 0.5, gateways: 3 },
    ];
    change.map(|change| mixed().settings(change).build()).to_vec()
}

#[test]
fn one_thread_and_many_give_the_same_bytes() {
    let fleet = &asked()[12];
    let json = |threads| serde_json::to_string(&report(fleet, &["jfsq", "jsq(2)", "central"], threads)).unwrap();
    assert_eq!(json(1), json(3));
}

#[test]
fn exactly_the_events_asked_for_are_counted() {
    for policy in report(&asked()[11], &["jsq", "central"], 2).policies {
        assert_eq!(policy.events - policy.warmup_events, 200_001, "{}", policy.policy);
    }
}

/// Jobs at each of two moments, from empty. A change of these numbers is value-breaking and said so in the changelog.
#[test]
fn seed_7_gives_these_values() {
    let jobs = |fleet: &Arc<Fleet>| {
        let simulation = Simulation::new(fleet).policy(policy("jfsq")).seed(7).calendar(true);
        let points = simulation.trajectory(&[2.0, 20.0], 200, &Unobserved).unwrap().trajectories.remove(0).points;
        let jobs: Vec<String> = points.iter().map(|point| format!("{:.3}", point.mean_jobs.unwrap().mean)).collect();
        jobs.join(" ")
    };
    let values = [
        "2.415 3.260",
        "3.040 3.195",
        "2.845 3.060",
        "2.000 3.095",
        "2.240 3.340",
        "2.205 3.390",
        "2.825 3.255",
        "2.415 3.320",
        "2.460 3.110",
        "2.465 3.195",
        "1.250 2.120",
        "2.525 3.795",
        "2.660 3.615",
    ];
    assert_eq!(asked().iter().map(jobs).collect::<Vec<_>>(), values);
}

/// Two policies that meet the same jobs, failures and pattern of the day differ by far less than two seeds.
#[test]
fn paired_ratios_are_narrower_than_unpaired_ones() {
    for fleet in [&asked()[3], &asked()[9], &asked()[11]] {
        let report = report(fleet, &["jfsq", "jsq"], 2);
        let of = |i: usize| report.policies[i].means.as_ref().unwrap().mean_response_s.unwrap();
        let ratio = report.differences[0].mean_response_ratio.unwrap();
        let unpaired = of(0).relative_half_width().hypot(of(1).relative_half_width());
        assert!(ratio.relative_half_width() < 0.6 * unpaired, "{} against {unpaired}", ratio.relative_half_width());
    }
}
