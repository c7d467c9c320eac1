//! What is varied: one thing at a time, on one base fleet.
//!
//! The base: servers of three speeds (1, 1/2, 1/4 in shares 1/8, 3/8, 1/2), as many job types with equal rates, each on 16
//! random servers; unbounded buffers, so that no job is lost and response times are those of the same jobs; exponential sizes,
//! Poisson arrivals, one gateway that knows every count. Durations are in *mean services*, those of a busy fleet: `N` over the
//! sum of the rates, 16/7 s.
//!
//! **Generation traffic** is made, not recorded, from what is known of a service that generates images: 72 models, of which
//! the five most used take 68 % of the requests (arrival rates as `i^-1.37`), mean times of 16 to 65 s, sizes about them with a
//! coefficient of variation of 0.45 (lognormal), arrivals in bursts.

use std::fmt;
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::settings::{Arrivals, Failures, SizeLaw};
use shortline_core::fleet::{ArrivalRates, FleetParts, JobTypeParts, Names};
use shortline_core::graph::generate::{arrival_weighted_degrees, port_degrees};

use super::super::experiment::Scale;
use super::super::papers::{Design, Setting, Speeds};
use crate::failure::Failure;

/// Servers of a job type in the base fleet, and in the mean under generation traffic.
const DEGREE: u32 = 16;
/// Sum of the rates over the number of servers.
const MEAN_RATE: f64 = 7.0 / 16.0;
/// Slots of a server in the fleet of few large servers.
const SLOTS: u32 = 8;
/// Mean services that a server is up and down, in the fleet that fails.
const UP_AND_DOWN: [f64; 2] = [190.0, 10.0];

/// Mean services that the bursts of [`Case::OnOff`] last and are apart, in the mean.
const ON_AND_OFF: [f64; 2] = [2.0, 6.0];

/// Cycles of on-off arrivals in a run of so many events. A job is two events, and the servers do `servers` times the load jobs in a
/// mean service.
pub(super) fn cycles(events: u64, servers: u32, load: f64) -> f64 {
    events as f64 / (2.0 * f64::from(servers) * load * ON_AND_OFF.iter().sum::<f64>())
}

/// What is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Factor {
    /// The law of the sizes.
    Sizes,
    /// When jobs come, and how servers are built and fail.
    World,
    /// Age of the counts.
    Delay,
    /// Gateways, each with its own counts.
    Gateways,
}

impl Factor {
    pub(super) const ALL: [Self; 4] = [Self::Sizes, Self::World, Self::Delay, Self::Gateways];

    /// In words.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Sizes => "law of the sizes",
            Self::World => "arrivals, slots, failures, generation traffic",
            Self::Delay => "old counts",
            Self::Gateways => "several gateways",
        }
    }
}

/// One change of the base fleet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Case {
    /// Sizes by this law; exponential is the base.
    Sizes(SizeLaw),
    /// Arrivals at twice the rate for 2 mean services, at two thirds for 6, both in the mean.
    OnOff,
    /// 1.2 and 0.8 times the rate by turns, 20 mean services each.
    DayNight,
    /// A fleet of an eighth as many servers, each with 8 slots, of which a job type is on 4.
    Slots,
    /// Servers stand still for 10 mean services in 200. The load is that of those that are up.
    Failures,
    /// The traffic of image generation, as made here.
    Generation,
    /// Counts of so many mean services ago.
    Delay(f64),
    /// So many gateways.
    Gateways(u32),
}

/// The base fleet.
pub(super) const BASE: Case = Case::Sizes(SizeLaw::Exponential);

impl Case {
    /// The cases of a factor; each of them has the base to compare with, or is named by its own.
    pub(super) fn of(factor: Factor, scale: Scale) -> Vec<Self> {
        let sizes = [
            SizeLaw::Deterministic,
            SizeLaw::Erlang { k: 4 },
            SizeLaw::Exponential,
            SizeLaw::Coxian2 { mu1: 2.0, p: 0.25, mu2: 0.5 },
            SizeLaw::Lognormal { cv2: 4.0 },
            SizeLaw::Lognormal { cv2: 10.0 },
            SizeLaw::Pareto { shape: 2.05 },
        ];
        match factor {
            Factor::Sizes => {
                scale.pick(vec![sizes[0], sizes[2], sizes[5]], sizes.to_vec()).into_iter().map(Self::Sizes).collect()
            }
            Factor::World => vec![Self::OnOff, Self::DayNight, Self::Slots, Self::Failures, Self::Generation],
            Factor::Delay => {
                scale.pick(vec![1.0, 5.0], vec![0.5, 1.0, 2.0, 5.0]).into_iter().map(Self::Delay).collect()
            }
            Factor::Gateways => scale.pick(vec![2, 16], vec![2, 4, 16]).into_iter().map(Self::Gateways).collect(),
        }
    }

    /// Whether the policies see the true counts.
    pub(super) fn is_informed(self) -> bool {
        !matches!(self, Self::Delay(_) | Self::Gateways(_))
    }

    /// The fleet at this load, its graph drawn from the seed.
    pub(super) fn fleet(self, servers: u32, load: f64, seed: u64) -> Result<Arc<Fleet>, Failure> {
        let base = Setting {
            speeds: Speeds::ThreeAllNeeded,
            design: Design::Degree(DEGREE),
            load_first_k: load,
            buffer: None,
            ..Setting::papers(servers)
        };
        let service_s = 1.0 / MEAN_RATE;
        match self {
            Self::Slots => {
                let few = Setting { servers: servers / SLOTS, design: Design::Degree(DEGREE / 4), ..base };
                few.changed(seed, |parts| {
                    parts.server_types.iter_mut().for_each(|server_type| server_type.slots = SLOTS);
                    scale_rates(parts, f64::from(SLOTS));
                    Ok(())
                })
            }
            Self::Generation => base.changed(seed, |parts| generation(parts, servers, load, seed)),
            _ => base.changed(seed, |parts| {
                let settings = &mut parts.settings;
                match self {
                    Self::Sizes(law) => settings.service.law = law,
                    Self::OnOff => settings.arrivals = on_off(service_s),
                    Self::DayNight => {
                        settings.arrivals = Arrivals::Piecewise(vec![(0.0, 1.2), (20.0 * service_s, 0.8)]);
                    }
                    Self::Failures => {
                        let [up, down] = UP_AND_DOWN;
                        let (mean_up_s, mean_down_s) = (up * service_s, down * service_s);
                        settings.failures = Some(Failures::Random { mean_up_s, mean_down_s });
                        scale_rates(parts, up / (up + down));
                    }
                    Self::Delay(services) => settings.information.delay_s = services * service_s,
                    Self::Gateways(count) => settings.information.gateways = count,
                    Self::Slots | Self::Generation => unreachable!("these have fleets of their own"),
                }
                Ok(())
            }),
        }
    }
}

fn scale_rates(parts: &mut FleetParts, factor: f64) {
    for job_type in &mut parts.job_types {
        if let ArrivalRates::Split { total, .. } = &mut job_type.arrivals {
            *total *= factor;
        }
    }
}

fn on_off(service_s: f64) -> Arrivals {
    let [on_s, off_s] = ON_AND_OFF.map(|services| services * service_s);
    Arrivals::OnOff { peak: 2.0, on_s, off_s }
}

/// Replaces job types, graph, sizes and arrivals.
fn generation(parts: &mut FleetParts, servers: u32, load: f64, seed: u64) -> Result<(), Failure> {
    const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_9;
    let popularity: Vec<f64> = (1..=72).map(|i| f64::from(i).powf(-1.37)).collect();
    // From 16 to 65 s in a mixed order, so that popular models are neither fast nor slow ones.
    let size = |i: usize| 16.0 * (65.0_f64 / 16.0).powf((i as f64 * GOLDEN_SECTION).fract());
    let work: f64 = popularity.iter().enumerate().map(|(i, weight)| weight * size(i)).sum();
    let scale = load * MEAN_RATE * f64::from(servers) / work;
    let job_type = |(i, weight): (usize, &f64)| JobTypeParts {
        names: Names { base: format!("model-{}", i + 1), count: None },
        arrivals: ArrivalRates::Each(weight * scale),
        size: size(i),
    };
    let degrees = arrival_weighted_degrees(&popularity, DEGREE, servers as usize).map_err(Failure::run)?;
    parts.edges = port_degrees(&degrees, servers as usize, seed).map_err(Failure::run)?;
    parts.job_types = popularity.iter().enumerate().map(job_type).collect();
    parts.settings.service.law = SizeLaw::Lognormal { cv2: 0.45 * 0.45 };
    parts.settings.arrivals = on_off(work / popularity.iter().sum::<f64>() / MEAN_RATE);
    Ok(())
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Sizes(SizeLaw::Deterministic) => f.write_str("constant"),
            Self::Sizes(SizeLaw::Exponential) => f.write_str("exponential"),
            Self::Sizes(SizeLaw::Erlang { k }) => write!(f, "erlang-{k}"),
            Self::Sizes(SizeLaw::Hyperexponential { cv2 }) => write!(f, "hyper-{cv2}"),
            Self::Sizes(SizeLaw::Coxian2 { .. }) => f.write_str("coxian-2"),
            Self::Sizes(SizeLaw::Lognormal { cv2 }) => write!(f, "logn-{cv2}"),
            Self::Sizes(SizeLaw::Pareto { shape }) => write!(f, "pareto-{shape}"),
            Self::Sizes(SizeLaw::Trace) => f.write_str("trace"),
            Self::OnOff => f.write_str("on-off"),
            Self::DayNight => f.write_str("day-night"),
            Self::Slots => write!(f, "slots-{SLOTS}"),
            Self::Failures => f.write_str("failures"),
            Self::Generation => f.write_str("generation"),
            Self::Delay(services) => write!(f, "delay-{services}"),
            Self::Gateways(count) => write!(f, "gateways-{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use shortline_theory::stability;

    use super::*;

    #[test]
    fn every_case_has_the_load_it_says() {
        for case in Factor::ALL.into_iter().flat_map(|factor| Case::of(factor, Scale::Full)) {
            let fleet = case.fleet(64, 0.8, 1).unwrap();
            let up = if case == Case::Failures { 0.95 } else { 1.0 };
            let offered: f64 = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap() * fleet.size(l)).sum();
            assert!((offered / 28.0 - 0.8 * up).abs() < 1e-9, "{case}: {offered}");
            assert!(stability::offered_load(&fleet).unwrap() < 1.0, "{case}: the graph carries it");
        }
    }

    #[test]
    fn the_five_most_used_models_take_68_percent() {
        let fleet = Case::Generation.fleet(64, 0.8, 1).unwrap();
        let rates: Vec<f64> = fleet.job_types().map(|l| fleet.arrival_rate(l).unwrap()).collect();
        let share = rates[..5].iter().sum::<f64>() / rates.iter().sum::<f64>();
        assert!((share - 0.68).abs() < 0.005, "{share}");
        assert!(fleet.job_types().all(|l| (16.0..=65.0).contains(&fleet.size(l))));
    }
}
