//! Large chains whose state is the number of jobs at each server.
//!
//! In a uniform fleet without lines in front the state is a vector of counts `n_r`, `0..=room_r`; it is numbered in mixed
//! radix, so that neighbours `n + e_r` and `n - e_r` are a stride away and no state is stored. Only the rates at which
//! arrivals lead *into* each state are (8 bytes per state and server); completions follow from the counts.
//!
//! **Method.** Gauss-Seidel sweeps over the balance equations, forwards and backwards, each pair followed by an
//! aggregation step (Y. Takahashi 1975; J. Koury, D. McAllister, W. Stewart 1984): given the law within each level `j`
//! = jobs in the fleet, the levels are a birth-death chain, which is solved exactly and each level rescaled to it. That
//! removes at once the error that sweeps alone remove slowly, the one in the total number of jobs.

use shortline_core::{JobTypeId, ServerId};

use super::chain::{Event, System};
use super::{JobSums, Tally};
use crate::TheoryError;

/// Sweeps end at this residual ...
const RESIDUAL: f64 = 1e-12;
/// ... and give up after this many pairs of them.
const MOST_ROUNDS: usize = 5_000;

/// How counts are numbered.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    room: Vec<u32>,
    stride: Vec<usize>,
    pub(super) states: usize,
}

impl Shape {
    /// `None` if there are more than `limit` states; then how many at least.
    pub(super) fn new(room: &[u32], limit: usize) -> Result<Self, usize> {
        let mut stride = Vec::with_capacity(room.len());
        let mut states = 1_usize;
        for &room in room {
            stride.push(states);
            states = states.saturating_mul(room as usize + 1);
        }
        if states > limit { Err(states) } else { Ok(Self { room: room.to_vec(), stride, states }) }
    }

    /// Visits all states in order, with their counts.
    fn forwards(&self, mut visit: impl FnMut(usize, &[u32])) {
        let mut jobs = vec![0; self.room.len()];
        for state in 0..self.states {
            visit(state, &jobs);
            for (count, &room) in jobs.iter_mut().zip(&self.room) {
                if *count < room {
                    *count += 1;
                    break;
                }
                *count = 0;
            }
        }
    }

    /// Visits all states in reverse order.
    fn backwards(&self, mut visit: impl FnMut(usize, &[u32])) {
        let mut jobs = self.room.clone();
        for state in (0..self.states).rev() {
            visit(state, &jobs);
            for (count, &room) in jobs.iter_mut().zip(&self.room) {
                if *count > 0 {
                    *count -= 1;
                    break;
                }
                *count = room;
            }
        }
    }
}

/// The chain: rates into and out of each state.
pub(super) struct CountChain<'a> {
    system: &'a System<'a>,
    shape: Shape,
    /// By state, then server: rate at which arrivals at the server lead into the state.
    into: Vec<f64>,
    /// By state, rate out of it.
    out: Vec<f64>,
    /// By server and number of jobs, the rate of completions.
    completions: Vec<Vec<f64>>,
}

impl<'a> CountChain<'a> {
    pub(super) fn new(system: &'a System<'a>, shape: Shape) -> Self {
        let servers = shape.room.len();
        let completions = |r: usize| {
            let id = ServerId::new(r);
            let rate = system.fleet.service_rate(JobTypeId::new(0), id);
            let busy = |jobs: u32| f64::from(jobs.min(system.fleet.slots(id)));
            (0..=shape.room[r]).map(|jobs| rate * busy(jobs)).collect::<Vec<f64>>()
        };
        let completions: Vec<Vec<f64>> = (0..servers).map(completions).collect();
        let mut chain =
            Self { system, into: vec![0.0; shape.states * servers], out: vec![0.0; shape.states], completions, shape };
        let kinds = chain.kinds();
        let CountChain { shape, into, out, completions, .. } = &mut chain;
        shape.forwards(|state, jobs| {
            for (&kind, &rate) in &kinds {
                for (server, probability) in system.rule.places(jobs, &system.room, JobTypeId::new(kind)) {
                    let (r, rate) = (server.index(), rate * probability);
                    into[(state + shape.stride[r]) * servers + r] += rate;
                    out[state] += rate;
                }
            }
            out[state] += jobs.iter().zip(completions.iter()).map(|(&jobs, rates)| rates[jobs as usize]).sum::<f64>();
        });
        chain
    }

    /// Job types that the rule tells apart, with the arrival rate of all that are like them.
    fn kinds(&self) -> std::collections::BTreeMap<usize, f64> {
        let mut kinds = std::collections::BTreeMap::new();
        for (l, &rate) in self.system.arrivals.iter().enumerate().filter(|&(_, &rate)| rate > 0.0) {
            *kinds.entry(self.system.rule.alike(JobTypeId::new(l)).index()).or_insert(0.0) += rate;
        }
        kinds
    }

    fn inflow(&self, law: &[f64], state: usize, jobs: &[u32]) -> f64 {
        let servers = jobs.len();
        let into = &self.into[state * servers..(state + 1) * servers];
        let mut inflow = 0.0;
        for r in 0..servers {
            let (count, stride) = (jobs[r], self.shape.stride[r]);
            if count > 0 {
                inflow += law[state - stride] * into[r];
            }
            if count < self.shape.room[r] {
                inflow += law[state + stride] * self.completions[r][count as usize + 1];
            }
        }
        inflow
    }

    /// The stationary law and its residual.
    pub(super) fn solve(&self) -> Result<(Vec<f64>, f64), TheoryError> {
        let mut law = vec![1.0 / self.shape.states as f64; self.shape.states];
        let mut residual = f64::INFINITY;
        for round in 0..MOST_ROUNDS {
            self.shape.forwards(|state, jobs| law[state] = self.inflow(&law, state, jobs) / self.out[state]);
            self.shape.backwards(|state, jobs| law[state] = self.inflow(&law, state, jobs) / self.out[state]);
            self.balance_levels(&mut law);
            if round % 5 == 4 {
                residual = self.residual(&law);
                if residual < RESIDUAL {
                    return Ok((law, residual));
                }
            }
        }
        let why = format!("residual {residual:e} after {MOST_ROUNDS} rounds of sweeps");
        Err(TheoryError::Iteration { what: "the stationary law", why })
    }

    /// Rescales the levels to the birth-death chain that they form, and all to sum 1.
    fn balance_levels(&self, law: &mut [f64]) {
        let most: u32 = self.shape.room.iter().sum();
        // By level: probability, rate up, rate down (each times the probability).
        let mut levels = vec![[0.0; 3]; most as usize + 1];
        self.shape.forwards(|state, jobs| {
            let down: f64 = jobs.iter().zip(&self.completions).map(|(&jobs, rates)| rates[jobs as usize]).sum();
            let level = &mut levels[jobs.iter().sum::<u32>() as usize];
            level[0] += law[state];
            level[1] += law[state] * (self.out[state] - down);
            level[2] += law[state] * down;
        });
        let mut weights = vec![1.0];
        for pair in levels.windows(2) {
            let (below, above) = (pair[0], pair[1]);
            let weight = weights[weights.len() - 1];
            let up = if below[0] > 0.0 { below[1] / below[0] } else { 0.0 };
            weights.push(if above[2] > 0.0 { weight * up.max(0.0) * above[0] / above[2] } else { 0.0 });
        }
        let total: f64 = weights.iter().sum();
        let scale = |(weight, level): (&f64, &[f64; 3])| if level[0] > 0.0 { weight / total / level[0] } else { 0.0 };
        let scales: Vec<f64> = weights.iter().zip(&levels).map(scale).collect();
        self.shape.forwards(|state, jobs| law[state] *= scales[jobs.iter().sum::<u32>() as usize]);
    }

    /// `sum_j |inflow_j - outflow_j| / sum_j outflow_j`.
    fn residual(&self, law: &[f64]) -> f64 {
        let (mut imbalance, mut flow) = (0.0, 0.0);
        self.shape.forwards(|state, jobs| {
            let out = law[state] * self.out[state];
            imbalance += (self.inflow(law, state, jobs) - out).abs();
            flow += out;
        });
        imbalance / flow
    }

    /// What happens to jobs and servers under the law.
    pub(super) fn tally(&self, law: &[f64]) -> Tally<'a> {
        let mut tally = Tally::new(self.system);
        let kinds = self.kinds();
        // Per arrival and second of each kind; job types that are alike share it.
        let mut sums = std::collections::BTreeMap::new();
        self.shape.forwards(|state, jobs| {
            let probability = law[state];
            for (r, &jobs) in jobs.iter().enumerate() {
                tally.count_server(r, jobs as usize, probability);
            }
            for &kind in kinds.keys() {
                let sums: &mut JobSums = sums.entry(kind).or_default();
                let mut without_place = 1.0;
                for (server, share) in self.system.rule.places(jobs, &self.system.room, JobTypeId::new(kind)) {
                    without_place -= share;
                    let (server, ahead) = (server.index(), jobs[server.index()] as usize);
                    let event = Event::JoinedServer { job_type: kind, server, ahead, from_line: false };
                    sums.count(self.system.fleet, event, probability * share);
                }
                if without_place > 1e-12 {
                    sums.count(self.system.fleet, Event::Blocked { job_type: kind }, probability * without_place);
                }
            }
        });
        for (l, &rate) in self.system.arrivals.iter().enumerate().filter(|&(_, &rate)| rate > 0.0) {
            let kind = self.system.rule.alike(JobTypeId::new(l)).index();
            tally.per_job_type[l] = sums[&kind].times(rate);
        }
        tally
    }
}
