//! The graph bound: as the fluid bound, but work goes only to servers that can do it.
//!
//! `value = min sum_r x_r` (busy slots) with `f_lr >= 0` on edges only, `sum_r f_lr = lambda_l`,
//! `sum_l f_lr / mu_lr = x_r <= slots_r`; then `T >= value / Lambda`. Infeasible: the fleet is overloaded.
//!
//! **Product form** (`mu_lr = v_r / e_l`): in units of work it is a flow, and opening the speed classes one by one,
//! fastest first, with `F_m` the maximum flow after class `m`, gives `value = sum_m (F_m - F_(m-1)) / v_m`: loads of
//! the servers form a polymatroid, on which the greedy choice is optimal. Else a linear program, or, beyond
//! [`LARGEST_PROGRAM`](crate::LARGEST_PROGRAM) edges, a certified bound on its value by dual prices: still a lower bound,
//! but below the program's value by a percent or so, and finite though the fleet may be overloaded.
//!
//! **At accepted throughput** `th`: at least the work `W(th)` of the smallest jobs is done, so
//! `T >= value(W(th)) / th` with `value(W) = sum_m (min(F_m, W) - min(F_(m-1), W)) / v_m`. For uniform fleets that is
//! the linear program with `sum_r f_lr <= lambda_l` and total `th`; where sizes differ it may lie below it.
//!
//! Never below the fluid bound of a uniform fleet. Derived for this project (theory notes, section 2).

use shortline_core::Fleet;
use shortline_core::fleet::speeds_equal;

use super::prices::PricedBound;
use super::{
    Bound, BoundKind, BusySlots, LeastWork, Validity, check_throughput, validity_at_throughput, validity_of_means,
};
use crate::linear_program::LARGEST_PROGRAM;
use crate::max_flow::{Flow, Scale};
use crate::reduced::{Reduced, Speeds};
use crate::{TheoryError, linear_program};

/// The graph bound of a fleet as a function of the throughput. See [`graph`].
#[derive(Clone, Debug)]
pub struct GraphBound {
    arrivals: f64,
    work: LeastWork,
    busy: Busy,
    without_losses: Validity,
    at_throughput: Validity,
}

#[derive(Clone, Debug)]
enum Busy {
    Flows { busy: BusySlots, is_feasible: bool },
    Program { fleet: Box<Reduced>, all_busy: Option<f64> },
    Prices { priced: PricedBound, has_orphans: bool },
}

/// The graph bound without losses; for fleets that lose jobs see [`GraphBound::at`].
///
/// # Errors
/// If rates are missing or all 0, no server holds a job type, or the linear program of a fleet without product form
/// fails.
pub fn graph(fleet: &Fleet) -> Result<Bound, TheoryError> {
    Ok(GraphBound::new(fleet)?.without_losses())
}

impl GraphBound {
    /// Computes the flows once; evaluating the bound is then cheap (with product form; else a linear program each).
    ///
    /// # Errors
    /// As [`graph`].
    pub fn new(fleet: &Fleet) -> Result<Self, TheoryError> {
        let reduced = Reduced::new(fleet)?;
        Ok(Self {
            arrivals: reduced.arrivals(),
            work: LeastWork::new(&reduced),
            busy: match &reduced.speeds {
                Speeds::Product(speeds) => open_classes(&reduced, speeds),
                Speeds::PerPort(_) if reduced.graph.edge_count() > LARGEST_PROGRAM => {
                    Busy::Prices { priced: PricedBound::new(&reduced), has_orphans: reduced.has_orphans() }
                }
                Speeds::PerPort(_) => {
                    let all_busy = linear_program::fewest_busy_slots(&reduced)?;
                    Busy::Program { fleet: Box::new(reduced), all_busy }
                }
            },
            without_losses: validity_of_means(fleet),
            at_throughput: validity_at_throughput(fleet),
        })
    }

    /// The bound if no job is lost.
    #[must_use]
    pub fn without_losses(&self) -> Bound {
        let busy = match &self.busy {
            Busy::Flows { busy, is_feasible } => is_feasible.then_some(busy.most().1),
            Busy::Program { all_busy, .. } => *all_busy,
            Busy::Prices { priced, has_orphans } => (!has_orphans).then(|| priced.of_all()),
        };
        Bound::new(BoundKind::Graph, self.arrivals, busy.unwrap_or(f64::INFINITY), self.without_losses)
    }

    /// The bound at accepted throughput `throughput_per_s`. Beyond what arrives or what the servers can do (an
    /// estimate may be) it is the bound at the largest throughput that is possible.
    ///
    /// # Errors
    /// If the throughput is not positive and finite, or the linear program fails.
    pub fn at(&self, throughput_per_s: f64) -> Result<Bound, TheoryError> {
        check_throughput(throughput_per_s)?;
        let throughput = throughput_per_s.min(self.arrivals);
        let work = self.work.of(throughput);
        let busy_slots = match &self.busy {
            Busy::Flows { busy, .. } => busy.at(work).unwrap_or(busy.most().1),
            Busy::Program { fleet, .. } => linear_program::fewest_busy_slots_for(fleet, work)?,
            Busy::Prices { priced, .. } => priced.of(work),
        };
        Ok(Bound::new(BoundKind::Graph, throughput, busy_slots, self.at_throughput))
    }
}

/// Maximum flows as the speed classes open, fastest first.
fn open_classes(reduced: &Reduced, speeds: &[f64]) -> Busy {
    let speed_of = |g: usize| speeds[reduced.groups[g].server_type.index()];
    let all_work: f64 = reduced.ports.iter().map(|port| port.work).sum();
    let capacity: f64 = (0..reduced.groups.len()).map(|g| reduced.capacity(g)).sum();
    let scale = Scale::new(all_work.max(capacity));
    let mut flow = Flow::new(&reduced.graph);
    for (p, port) in reduced.ports.iter().enumerate() {
        flow.add_supply(p, scale.down(port.work));
    }
    let mut order: Vec<usize> = (0..reduced.groups.len()).collect();
    order.sort_by(|&a, &b| speed_of(b).total_cmp(&speed_of(a)));
    let mut busy = BusySlots::default();
    for class in order.chunk_by(|&a, &b| speeds_equal(speed_of(a), speed_of(b))) {
        for &g in class {
            flow.add_room(g, scale.up(reduced.capacity(g)));
        }
        busy.push(scale.amount(flow.augment()), speed_of(class[0]));
    }
    Busy::Flows { busy, is_feasible: flow.unserved() == 0 }
}
