//! How far one job type can grow while all others stay.
//!
//! `x_l = max x` such that a fleet whose job type `l` arrives at rate `x lambda_l` satisfies the cut condition, at equality:
//! `x_l = min over S with l in S of (c(N(S)) - work(S without l)) / work_l`, and 0 if the others alone are too much.
//! Job types on the same servers share one headroom `h`, the most extra work that a maximum flow of all other work
//! leaves room for: `x_l = 1 + h / work_l`, so `x_l < 1` in a fleet that job type `l` overloads.
//!
//! **Which are computed.** Three sets bound `h` from above at once: the port alone, the bottleneck, and all job types.
//! The smallest of these is certified and costs one pass over the edges; the worst by it are computed exactly, by
//! letting the port offer all that its servers can do and growing the flow that carries everything else.

use shortline_core::JobTypeId;

use super::Stability;
use super::newton::Offered;
use super::progress::{Effort, Factor, Observer, Progress};
use crate::reduced::Reduced;
use crate::{TheoryError, linear_program};

/// How far a job type can grow, all others staying as they are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slack {
    /// The job type.
    pub job_type: JobTypeId,
    /// Largest factor on its arrival rate alone; below 1 it overloads the fleet, and 0 means that the others do, one that
    /// is on no server included.
    pub factor: Factor,
}

impl Stability {
    /// The slack of every job type that is on some server, the smallest first. Those with `is_exact` false were not
    /// computed: they have at most the factor shown.
    ///
    /// # Errors
    /// If a linear program fails (fleets that are not of product form).
    pub fn slacks(&self, effort: Effort, observer: &mut Observer<'_>) -> Result<Vec<Slack>, TheoryError> {
        let reduced = self.reduced();
        let mut ports: Vec<PortHeadroom> =
            (0..reduced.ports.len()).filter(|&p| !reduced.graph.row(p).is_empty()).map(|p| self.at_most(p)).collect();
        ports.sort_by(|a, b| a.least_factor.total_cmp(&b.least_factor).then(a.port.cmp(&b.port)));
        // Then the answer is the same for all, and costs nothing.
        let effort = if reduced.has_orphans() { Effort::All } else { effort }.within_reason(reduced);
        let chosen = effort.chosen(&ports, |port| self.optimum.tight_ports[port.port]);
        let of = Some(chosen.iter().filter(|&&chosen| chosen).count());
        let mut exact = Headrooms::new(self, effort.most_visits);
        let chosen = ports.iter_mut().zip(&chosen).filter(|(_, chosen)| **chosen);
        for (done, (port, _)) in chosen.enumerate() {
            observer(Progress { doing: "how far job types can grow", done: done + 1, of });
            let Some(headroom) = exact.of(port.port)? else { break };
            (port.headroom, port.is_exact) = (headroom, true);
        }
        let mut of_port = vec![None; reduced.ports.len()];
        ports.iter().for_each(|port| of_port[port.port] = Some(*port));
        let slack = |l: usize| {
            let PortHeadroom { headroom, is_exact, .. } = of_port[reduced.port_of[l] as usize]?;
            let (rate, work_of_job) = reduced.job_types[l];
            let value = if rate > 0.0 { (1.0 + headroom / (rate * work_of_job)).max(0.0) } else { f64::INFINITY };
            Some(Slack { job_type: JobTypeId::new(l), factor: Factor { value, is_exact } })
        };
        let mut slacks: Vec<Slack> = (0..reduced.job_types.len()).filter_map(slack).collect();
        slacks.sort_by(|a, b| a.factor.value.total_cmp(&b.factor.value).then(a.job_type.cmp(&b.job_type)));
        Ok(slacks)
    }

    /// The certified upper bound on the headroom of a port.
    fn at_most(&self, port: usize) -> PortHeadroom {
        let reduced = self.reduced();
        let own = &reduced.ports[port];
        let row = reduced.graph.row(port).iter().map(|&g| g as usize);
        let alone = row.map(|g| reduced.groups[g].slots * reduced.speed(port, g)).sum::<f64>() - own.work;
        let of_cuts = self.cuts.iter().filter(|cut| cut.ports[port]).map(|cut| cut.capacity - cut.work);
        let headroom = of_cuts.fold(alone, f64::min);
        let least_factor = if own.most_work > 0.0 { 1.0 + headroom / own.most_work } else { f64::INFINITY };
        PortHeadroom { port, least_factor, headroom, is_exact: false }
    }
}

/// Work per second that a port has room for beyond its own.
#[derive(Clone, Copy)]
struct PortHeadroom {
    port: usize,
    /// By the upper bound, of its job type with most work.
    least_factor: f64,
    headroom: f64,
    is_exact: bool,
}

/// Computes headrooms one by one.
enum Headrooms<'a> {
    Flow(Box<Offered<'a>>, &'a Reduced),
    Program(&'a Reduced),
    /// A job type arrives that is on no server: whatever the others do, the fleet is overloaded.
    Nothing(&'a Reduced),
}

impl<'a> Headrooms<'a> {
    fn new(stability: &'a Stability, most_visits: u64) -> Self {
        let reduced = stability.reduced();
        match &stability.optimum.amounts {
            _ if reduced.has_orphans() => Self::Nothing(reduced),
            Some(amounts) => {
                let mut offered = Offered::resume(reduced, amounts.clone(), stability.optimum.factor);
                offered.set_factor(1.0);
                offered.flow.give_up_after(most_visits);
                Self::Flow(Box::new(offered), reduced)
            }
            None => Self::Program(reduced),
        }
    }

    /// Headroom of a port that is on some server, `-work` if the others alone are too much; `None` once effort is spent.
    fn of(&mut self, port: usize) -> Result<Option<f64>, TheoryError> {
        let (offered, reduced) = match self {
            Self::Program(reduced) => return linear_program::headroom(reduced, port).map(Some),
            Self::Flow(offered, reduced) => (offered, reduced),
            Self::Nothing(reduced) => return Ok(Some(-reduced.ports[port].work)),
        };
        let own = offered.units(port, 1.0);
        let row = reduced.graph.row(port).iter().map(|&g| g as usize);
        let all: u64 = row.map(|g| offered.scale.up(reduced.capacity(g))).sum();
        let flow = &mut offered.flow;
        flow.begin_trial();
        if flow.unserved() > 0 {
            flow.take_supply(port, own);
            flow.augment();
            let others_fit = flow.unserved() == 0;
            flow.add_supply(port, if others_fit { all } else { 0 });
            flow.augment();
            let served = if others_fit { all - flow.unserved_at(port) } else { 0 };
            flow.end_trial();
            let headroom = offered.scale.amount(served) - reduced.ports[port].work;
            return Ok((!offered.flow.has_given_up()).then_some(headroom));
        }
        flow.add_supply(port, all);
        let more = flow.augment();
        flow.end_trial();
        Ok((!offered.flow.has_given_up()).then(|| offered.scale.amount(more)))
    }
}
