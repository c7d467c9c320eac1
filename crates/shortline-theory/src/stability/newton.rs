//! Newton's iteration on cuts, with one flow that is kept from factor to factor.
//!
//! At a factor `s` each port offers `s` times its work. If the maximum flow carries all of it, `s* >= s`; else the
//! source side of the minimum cut is a set `S` with a smaller ratio `c(N(S)) / work(S)`: the next `s`. Going down, each
//! port takes back what it offers too much, and what still fits keeps flowing, so that a later flow costs little.

use crate::max_flow::{Amounts, Flow, Scale};
use crate::reduced::{Reduced, Speeds};
use crate::{TheoryError, linear_program};

use super::progress::{Observer, Progress};

/// `s*` of the job types that are on some server, what is tight at it, and a flow of work that attains it.
#[derive(Clone, Debug)]
pub(crate) struct Optimum {
    pub(crate) factor: f64,
    pub(crate) tight_ports: Vec<bool>,
    pub(crate) tight_groups: Vec<bool>,
    pub(crate) work_on_edge: Vec<f64>,
    /// The same flow in units, if the fleet has product form.
    pub(crate) amounts: Option<Amounts>,
    /// Dual prices of work by port, up to a factor: in product form 1 in the bottleneck and 0 elsewhere.
    pub(crate) work_prices: Vec<f64>,
    /// Edges and nodes that the flows looked at; 0 for a linear program.
    pub(crate) visits: u64,
}

impl Optimum {
    pub(crate) fn of(reduced: &Reduced, observer: &mut Observer<'_>) -> Result<Self, TheoryError> {
        match reduced.speeds {
            Speeds::Product(_) => Ok(Self::by_flows(reduced, Cut::everything(reduced), observer)),
            Speeds::PerPort(_) => linear_program::max_load_factor(reduced),
        }
    }

    /// Newton's iteration from the ratio of `start`.
    pub(crate) fn by_flows(reduced: &Reduced, start: Cut, observer: &mut Observer<'_>) -> Self {
        let mut offered = Offered::nothing(reduced);
        let cut = offered.newton(start, observer);
        Self {
            factor: cut.ratio(),
            work_prices: cut.ports.iter().map(|&tight| f64::from(u8::from(tight))).collect(),
            visits: offered.flow.visits(),
            tight_ports: cut.ports,
            tight_groups: cut.groups,
            work_on_edge: offered.work_on_edges(),
            amounts: Some(offered.flow.into_amounts()),
        }
    }
}

/// A maximum flow in a fleet of product form whose ports offer a factor of their work.
#[derive(Debug)]
pub(super) struct Offered<'a> {
    reduced: &'a Reduced,
    pub(super) scale: Scale,
    pub(super) flow: Flow<'a>,
    factor: f64,
    /// A group that lacks some of its capacity, and how much.
    lacks: Option<(usize, f64)>,
    /// The factor before the trial.
    former_factor: f64,
}

impl<'a> Offered<'a> {
    /// All servers, no work.
    pub(super) fn nothing(reduced: &'a Reduced) -> Self {
        let scale = scale_of(reduced);
        let mut flow = Flow::new(&reduced.graph);
        for g in 0..reduced.groups.len() {
            flow.add_room(g, scale.up(reduced.capacity(g)));
        }
        Self { reduced, scale, flow, factor: 0.0, lacks: None, former_factor: 0.0 }
    }

    /// The flow that an earlier iteration left at `factor`.
    pub(super) fn resume(reduced: &'a Reduced, amounts: Amounts, factor: f64) -> Self {
        let flow = Flow::resume(&reduced.graph, amounts);
        Self { reduced, scale: scale_of(reduced), flow, factor, lacks: None, former_factor: factor }
    }

    /// Units that port `p` offers.
    pub(super) fn units(&self, p: usize, factor: f64) -> u64 {
        if self.reduced.graph.row(p).is_empty() { 0 } else { self.scale.down(factor * self.reduced.ports[p].work) }
    }

    /// Each port offers `factor` times its work; the flow is again a maximum flow.
    pub(super) fn set_factor(&mut self, factor: f64) {
        if factor.total_cmp(&self.factor).is_eq() {
            return;
        }
        for p in 0..self.reduced.ports.len() {
            let (before, now) = (self.units(p, self.factor), self.units(p, factor));
            if now > before {
                self.flow.add_supply(p, now - before);
            } else {
                self.flow.take_supply(p, before - now);
            }
        }
        self.factor = factor;
        self.flow.augment();
    }

    /// From now on changes are noted, and [`end_trial`](Self::end_trial) takes them back.
    pub(super) fn begin_trial(&mut self) {
        self.former_factor = self.factor;
        self.flow.begin_trial();
    }

    pub(super) fn end_trial(&mut self) {
        self.flow.end_trial();
        self.factor = self.former_factor;
        self.lacks = None;
    }

    /// Takes `capacity` away from a group; the flow is again a maximum flow.
    pub(super) fn take_capacity(&mut self, group: usize, capacity: f64) {
        // Room was rounded up over the whole group; what remains of it is rounded up again.
        let all = self.reduced.capacity(group);
        let units = self.scale.up(all) - self.scale.up((all - capacity).max(0.0));
        self.flow.take_room(group, units);
        self.lacks = Some((group, capacity));
        self.flow.augment();
    }

    /// The smallest ratio from `start` on down; the flow is left at it and carries all work, up to rounding.
    pub(super) fn newton(&mut self, start: Cut, observer: &mut Observer<'_>) -> Cut {
        let mut cut = start;
        for flows in 1.. {
            observer(Progress { doing: "maximum flows", done: flows, of: None });
            self.set_factor(cut.ratio());
            match self.violated_cut() {
                Some(tighter) if tighter.ratio() < cut.ratio() => cut = tighter,
                // All work is carried, or what is not lies within rounding.
                _ => break,
            }
        }
        cut
    }

    /// A set of ports with more work than its groups can do, if not all work is carried.
    pub(super) fn violated_cut(&self) -> Option<Cut> {
        (self.flow.unserved() > 0).then(|| Cut::of(self.reduced, self.flow.source_side(), self.lacks))
    }

    pub(super) fn work_on_edges(&self) -> Vec<f64> {
        self.flow.on_edges().iter().map(|&units| self.scale.amount(units)).collect()
    }
}

/// Units such that neither all capacity nor all work at factor 1 overflows.
fn scale_of(reduced: &Reduced) -> Scale {
    let capacity: f64 = (0..reduced.groups.len()).map(|g| reduced.capacity(g)).sum();
    let work: f64 = reduced.ports.iter().map(|port| port.work).sum();
    Scale::new(capacity.max(work))
}

/// A set `S` of ports, their groups `N(S)`, and both sides of the cut condition.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(super) ports: Vec<bool>,
    pub(super) groups: Vec<bool>,
    pub(super) work: f64,
    pub(super) capacity: f64,
}

impl Cut {
    /// All ports that have work and a server.
    pub(super) fn everything(reduced: &Reduced) -> Self {
        let carries = |p: usize| reduced.ports[p].work > 0.0 && !reduced.graph.row(p).is_empty();
        Self::of(reduced, (0..reduced.ports.len()).map(carries).collect(), None)
    }

    /// The cut of these ports, where a group may lack some of its capacity.
    pub(super) fn of(reduced: &Reduced, ports: Vec<bool>, lacks: Option<(usize, f64)>) -> Self {
        let mut groups = vec![false; reduced.groups.len()];
        let mut work = 0.0;
        for p in (0..ports.len()).filter(|&p| ports[p]) {
            work += reduced.ports[p].work;
            for &g in reduced.graph.row(p) {
                groups[g as usize] = true;
            }
        }
        let lack = |g: usize| lacks.map_or(0.0, |(group, capacity)| if group == g { capacity } else { 0.0 });
        let capacity = |g: usize| (reduced.capacity(g) - lack(g)).max(0.0);
        let capacity = (0..groups.len()).filter(|&g| groups[g]).map(capacity).sum();
        Self { ports, groups, work, capacity }
    }

    /// `c(N(S)) / work(S)`; infinite for the empty set.
    pub(super) fn ratio(&self) -> f64 {
        self.capacity / self.work
    }
}
