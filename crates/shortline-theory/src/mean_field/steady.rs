//! What the mean field says about a fleet at rest.

use super::MeanField;
use super::class::ServerClass;
use super::everything::ClassAtRest;
use super::field::Field;

/// The fixed point of the mean field, for the fleet at hand: fractions of servers times their numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct SteadyState {
    /// Jobs in the fleet.
    pub mean_jobs: f64,
    /// Arrival to completion of accepted jobs: `mean_jobs / throughput_per_s`. NaN if no job is accepted; so are the next
    /// two and `fraction_waiting`.
    pub mean_response_s: f64,
    /// Arrival to start of service.
    pub mean_waiting_s: f64,
    /// Start of service to completion.
    pub mean_service_s: f64,
    /// Share of the accepted jobs that do not start at once.
    pub fraction_waiting: f64,
    /// Share of the arrivals that find no place.
    pub blocking_probability: f64,
    /// Jobs accepted, and completed, per second.
    pub throughput_per_s: f64,
    /// By class, fastest first.
    pub per_class: Vec<ClassState>,
    /// How far the point is from rest: the largest `dx/dt` over the fastest rate of the equation; where the point is in
    /// closed form, the relative error of the balance of jobs.
    pub residual: f64,
    /// Change of `mean_jobs` (relative) and `blocking_probability` when twice as many levels are told apart; 0 if all are.
    pub truncation_error: f64,
}

/// What the servers of a class do.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassState {
    /// Which servers.
    pub class: ServerClass,
    /// Jobs at one of them.
    pub mean_jobs: f64,
    /// Busy slots, as a share.
    pub utilisation: f64,
    /// `x_(m,i)` for `i = 1, 2, ...`: fraction of them with `i` jobs or more. Levels that nobody reaches are left out; so
    /// are, in unbounded or large buffers, levels that do not matter.
    pub occupancy: Vec<f64>,
}

/// Sums over the servers, per server of the fleet.
#[derive(Clone, Copy, Default)]
struct Sums {
    jobs: f64,
    busy_slots: f64,
    blocked_per_s: f64,
    waiting_per_s: f64,
}

impl Sums {
    /// Jobs that choose a server of this class with `jobs` jobs.
    fn count(&mut self, class: &ServerClass, jobs: usize, flow_per_s: f64) {
        if class.is_full(jobs) {
            self.blocked_per_s += flow_per_s;
        } else if jobs >= class.slots as usize {
            self.waiting_per_s += flow_per_s;
        }
    }

    fn add(&mut self, state: &ClassState) {
        self.jobs += state.class.share * state.mean_jobs;
        self.busy_slots += state.class.share * state.utilisation * f64::from(state.class.slots);
    }
}

impl SteadyState {
    /// From the unknowns of the equation.
    pub(super) fn of(model: &MeanField, field: &Field<'_>, x: &[f64], residual: f64) -> Self {
        let flows = field.flows(x);
        let mut sums = Sums { blocked_per_s: flows.without_place, ..Sums::default() };
        let mut cell = 0;
        for (m, (class, tail)) in model.classes.iter().zip(field.tails(&flows)).enumerate() {
            let top = field.top[m];
            for jobs in 0..top {
                sums.count(class, jobs, flows.into[cell + jobs]);
            }
            let beyond = flows.into[cell + top];
            let full = if class.is_full(top) { 1.0 } else { tail.full() };
            sums.blocked_per_s += beyond * full;
            sums.waiting_per_s += beyond * (1.0 - full);
            cell += top + 1;
        }
        let per_class = field.states(x);
        per_class.iter().for_each(|state| sums.add(state));
        Self::from_sums(model, sums, per_class, residual)
    }

    /// From the closed form of the limit of all servers seen.
    pub(super) fn of_classes_at_rest(model: &MeanField, rest: &[ClassAtRest], residual: f64) -> Self {
        let mut sums = Sums::default();
        let mut per_class = Vec::new();
        for (class, rest) in model.classes.iter().zip(rest) {
            let fewest = rest.fewest;
            if fewest > 0 {
                // A server that would have fewer jobs gets one at once.
                let refilled = class.share * rest.law[0] * class.service_per_s(fewest);
                sums.count(class, fewest - 1, refilled);
            }
            for (j, (p, births)) in rest.law.iter().zip(&rest.births_per_s).enumerate() {
                sums.count(class, fewest + j, class.share * p * births);
            }
            let occupancy = rest.occupancy();
            let busy: f64 = rest.law.iter().enumerate().map(|(j, p)| p * class.service_per_s(fewest + j)).sum::<f64>();
            let state = ClassState {
                class: *class,
                mean_jobs: occupancy.iter().sum(),
                utilisation: busy / class.capacity_per_s(),
                occupancy,
            };
            sums.add(&state);
            per_class.push(state);
        }
        Self::from_sums(model, sums, per_class, residual)
    }

    fn from_sums(model: &MeanField, sums: Sums, per_class: Vec<ClassState>, residual: f64) -> Self {
        let arrivals = model.arrivals_per_server_s();
        let accepted = arrivals - sums.blocked_per_s;
        let over_accepted = |value: f64| if accepted > 0.0 { value / accepted } else { f64::NAN };
        let servers = model.servers as f64;
        Self {
            mean_jobs: servers * sums.jobs,
            mean_response_s: over_accepted(sums.jobs),
            mean_waiting_s: over_accepted(sums.jobs - sums.busy_slots).max(0.0),
            mean_service_s: over_accepted(sums.busy_slots),
            fraction_waiting: over_accepted(sums.waiting_per_s),
            blocking_probability: sums.blocked_per_s / arrivals,
            throughput_per_s: servers * accepted,
            per_class,
            residual,
            truncation_error: 0.0,
        }
    }
}

impl Field<'_> {
    /// What the servers of each class do in a state.
    pub(super) fn states(&self, x: &[f64]) -> Vec<ClassState> {
        let tails = self.tails(&self.flows(x));
        let state = |((class, x), tail): ((&ServerClass, &[f64]), super::class::Tail)| {
            let level = |jobs: usize| if jobs == 0 { 1.0 } else { x[jobs - 1] };
            let beyond = level(x.len()) * tail.mean_beyond();
            let busy: f64 = x.iter().take(class.slots as usize).sum();
            let mut occupancy = x.to_vec();
            while occupancy.last().is_some_and(|&x| x <= 0.0) {
                occupancy.pop();
            }
            ClassState {
                class: *class,
                mean_jobs: x.iter().sum::<f64>() + if beyond > 0.0 { beyond } else { 0.0 },
                utilisation: busy / f64::from(class.slots),
                occupancy,
            }
        };
        self.classes.iter().zip(self.by_class(x)).zip(tails).map(state).collect()
    }
}
