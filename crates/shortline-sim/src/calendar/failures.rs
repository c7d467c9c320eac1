//! Which server goes down or comes up next: `[failures]`.
//!
//! Random failures alternate, each server for itself, between exponential up and down times. They begin stationary: a
//! server is down at time 0 with probability `mean_down_s / (mean_up_s + mean_down_s)`. Nothing here depends on a policy.

use rand_distr::{Distribution, Exp1};
use shortline_core::ServerId;
use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::Failures as Asked;
use shortline_core::random::Generator;

use super::queue::Queue;
use crate::erlang::unit;

/// The failures of one replication.
#[derive(Debug)]
pub(crate) struct Failures(Kind);

#[derive(Debug)]
enum Kind {
    Never,
    Random {
        next: Queue,
        is_up: Vec<bool>,
        mean_up_s: f64,
        mean_down_s: f64,
        rng: Generator,
    },
    /// Time, server, whether it comes up; the next one last.
    Events(Vec<(f64, ServerId, bool)>),
}

impl Failures {
    pub(crate) fn new(fleet: &Fleet, mut rng: Generator) -> Self {
        Self(match &fleet.settings().failures {
            None => Kind::Never,
            &Some(Asked::Random { mean_up_s, mean_down_s }) => {
                let mut next = Queue::new(fleet.server_count());
                for server in 0..fleet.server_count() {
                    let is_down = unit(&mut rng) * (mean_up_s + mean_down_s) < mean_down_s;
                    next.set(server, if is_down { 0.0 } else { exponential(&mut rng) * mean_up_s });
                }
                let is_up = vec![true; fleet.server_count()];
                Kind::Random { next, is_up, mean_up_s, mean_down_s, rng }
            }
            Some(Asked::Events(events)) => {
                let of = |event: &shortline_core::fleet::settings::FailureEvent| {
                    (event.at_s, fleet.server_at_file_index(event.server), event.up)
                };
                Kind::Events(events.iter().rev().map(of).collect())
            }
        })
    }

    /// When the next one is; infinite if there is none.
    pub(crate) fn next_s(&self) -> f64 {
        match &self.0 {
            Kind::Never => f64::INFINITY,
            Kind::Random { next, .. } => next.earliest_s(),
            Kind::Events(events) => events.last().map_or(f64::INFINITY, |&(at_s, ..)| at_s),
        }
    }

    /// Takes it: the server, and whether it is up now.
    pub(crate) fn take(&mut self) -> (ServerId, bool) {
        match &mut self.0 {
            Kind::Never => unreachable!("nothing fails before infinity"),
            Kind::Random { next, is_up, mean_up_s, mean_down_s, rng } => {
                let (server, now_s) = (next.earliest(), next.earliest_s());
                let up = !is_up[server];
                is_up[server] = up;
                next.set(server, now_s + exponential(rng) * if up { *mean_up_s } else { *mean_down_s });
                (ServerId::new(server), up)
            }
            Kind::Events(events) => {
                let (_, server, up) = events.pop().expect("the caller saw that one is due");
                (server, up)
            }
        }
    }
}

fn exponential(rng: &mut Generator) -> f64 {
    Exp1.sample(rng)
}

/// How long a random failure takes to come and go, or when the last of the listed ones is.
pub(crate) fn cycle_s(asked: Option<&Asked>) -> f64 {
    match asked {
        None => 0.0,
        Some(Asked::Random { mean_up_s, mean_down_s }) => mean_up_s + mean_down_s,
        Some(Asked::Events(events)) => events.last().map_or(0.0, |event| event.at_s),
    }
}
