//! Linear programs for fleets whose service rates are not of product form.
//!
//! Variables are `h_pg`, the share of port `p`'s work that goes to group `g` (they need not add up to 1), so that no
//! arrival rate is too small for the solver's tolerances; a unit of `h_pg` takes `a_pg = work_p / (v_pg slots_g)` of the
//! group's time, scaled to about 1.

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, microlp, variable};

use crate::TheoryError;
use crate::reduced::{Port, Reduced};
use crate::stability::Optimum;

/// Most edges (of distinct job types and servers) that a linear program is tried with.
pub const LARGEST_PROGRAM: usize = 20_000;

/// Primal and dual optimum may differ by this much, relative.
const LARGEST_GAP: f64 = 1e-7;
/// A dual price below this, relative to the largest, counts as 0.
const SMALLEST_PRICE: f64 = 1e-9;

/// `s*`: `max s` with `sum_g h_pg = s` for every port that arrives, `sum_p a_pg h_pg <= 1` for every group. The
/// bottleneck is where the dual prices are above 0.
pub(crate) fn max_load_factor(reduced: &Reduced) -> Result<Optimum, TheoryError> {
    let program = Program::new(reduced)?;
    let (factor, shares) = program.primal(&vec![1.0; reduced.groups.len()])?;
    let (dual, port_prices, group_prices) = program.dual()?;
    if (factor - dual).abs() > LARGEST_GAP * dual {
        let why = format!("the load factor is {factor} by the primal and {dual} by the dual program");
        return Err(TheoryError::LinearProgram { what: MAX_LOAD_FACTOR, why });
    }
    let work_on_edge = |e: usize| shares[e].max(0.0) * reduced.ports[program.port_of_edge[e]].work;
    let price_of_work = |(price, port): (&f64, &Port)| if port.work > 0.0 { price / port.work } else { 0.0 };
    Ok(Optimum {
        factor: program.unit * factor,
        tight_ports: above_zero(&port_prices),
        tight_groups: above_zero(&group_prices),
        work_on_edge: (0..shares.len()).map(work_on_edge).collect(),
        amounts: None,
        work_prices: port_prices.iter().zip(&reduced.ports).map(price_of_work).collect(),
        visits: 0,
    })
}

/// `s*` without one server of `group`.
pub(crate) fn max_load_factor_without(reduced: &Reduced, group: usize) -> Result<f64, TheoryError> {
    let program = Program::new(reduced)?;
    let mut room = vec![1.0; reduced.groups.len()];
    let servers = reduced.groups[group].servers as f64;
    room[group] = (servers - 1.0) / servers;
    Ok(program.unit * program.primal(&room)?.0)
}

/// Most work beyond its own that `port` can have while all others keep theirs; `-work` if they are too much alone.
pub(crate) fn headroom(reduced: &Reduced, port: usize) -> Result<f64, TheoryError> {
    let work = reduced.ports[port].work;
    if work <= 0.0 {
        return Ok(f64::INFINITY);
    }
    let factor = Program::new(reduced)?.largest_factor_of(port)?;
    Ok((factor.unwrap_or(0.0) - 1.0) * work)
}

const MAX_LOAD_FACTOR: &str = "the largest load factor";

/// Fewest busy slots that do all of the work that arrives: `min sum_pg a_pg slots_g h_pg` with `sum_g h_pg = 1` for
/// every port that arrives and `sum_p a_pg h_pg <= 1` for every group. `None` if the servers cannot do it.
pub(crate) fn fewest_busy_slots(reduced: &Reduced) -> Result<Option<f64>, TheoryError> {
    if reduced.has_orphans() {
        return Ok(None);
    }
    Program::new(reduced)?.fewest_busy_slots(Demand::All)
}

/// The same for `work` of the work that arrives, or for as much of that as the servers can do: `sum_g h_pg <= 1`,
/// `sum_pg work_p h_pg = work`.
pub(crate) fn fewest_busy_slots_for(reduced: &Reduced, work: f64) -> Result<f64, TheoryError> {
    let program = Program::new(reduced)?;
    let arriving: f64 = reduced.ports.iter().map(|port| port.work).sum();
    let share = (work / arriving).min(program.largest_share()? * (1.0 - LARGEST_GAP));
    let busy = program.fewest_busy_slots(Demand::Share(share))?;
    busy.ok_or_else(|| TheoryError::LinearProgram { what: GRAPH_BOUND, why: "a part of what fits does not fit".into() })
}

const GRAPH_BOUND: &str = "the graph bound";

fn above_zero(prices: &[f64]) -> Vec<bool> {
    let largest = prices.iter().copied().fold(0.0, f64::max);
    prices.iter().map(|&price| price > SMALLEST_PRICE * largest).collect()
}

struct Program<'a> {
    reduced: &'a Reduced,
    port_of_edge: Vec<usize>,
    /// `a_pg / unit`, 0 on edges of ports that never arrive.
    time: Vec<f64>,
    /// What makes the program's load factor the fleet's.
    unit: f64,
}

impl<'a> Program<'a> {
    fn new(reduced: &'a Reduced) -> Result<Self, TheoryError> {
        let graph = &reduced.graph;
        let value = graph.edge_count();
        if value > LARGEST_PROGRAM {
            return Err(TheoryError::TooLarge {
                what: "edges between job types and servers, in a fleet whose [[rate]]s break the proportions between server types",
                value,
                limit: LARGEST_PROGRAM,
                remedy: "drop the [[rate]]s, or make each job type's speeds a multiple of the server types' own",
            });
        }
        let port_of_edge: Vec<usize> =
            (0..graph.port_count()).flat_map(|p| std::iter::repeat_n(p, graph.edges(p).len())).collect();
        let time = |p: usize, g: usize| reduced.ports[p].work / (reduced.speed(p, g) * reduced.groups[g].slots);
        let time: Vec<f64> =
            (0..graph.port_count()).flat_map(|p| graph.row(p).iter().map(move |&g| time(p, g as usize))).collect();
        let largest = time.iter().copied().fold(0.0, f64::max);
        Ok(Self { reduced, port_of_edge, time: time.into_iter().map(|a| a / largest).collect(), unit: 1.0 / largest })
    }

    /// Ports that arrive and have a server.
    fn live_ports(&self) -> impl Iterator<Item = usize> + '_ {
        let carries = |&p: &usize| self.reduced.ports[p].work > 0.0 && !self.reduced.graph.row(p).is_empty();
        (0..self.reduced.ports.len()).filter(carries)
    }

    /// `time` used at a group, in the program's unit.
    fn time_at(&self, group: usize, shares: &[Variable]) -> Expression {
        let terms = self.reduced.graph.column(group).iter();
        terms.map(|&(_, e)| self.time[e as usize] * shares[e as usize]).sum()
    }

    /// `s*` in the program's unit and the shares that attain it, where groups have `room` of all of their time.
    fn primal(&self, room: &[f64]) -> Result<(f64, Vec<f64>), TheoryError> {
        let mut variables = ProblemVariables::new();
        let shares = variables.add_vector(variable().min(0.0), self.time.len());
        let factor = variables.add(variable().min(0.0));
        let mut model = variables.maximise(factor).using(microlp);
        for p in self.live_ports() {
            model.add_constraint((self.sent(p, &shares) - factor).eq(0.0));
        }
        for (g, &room) in room.iter().enumerate() {
            model.add_constraint(self.time_at(g, &shares).leq(room));
        }
        let solution = model.solve().map_err(|error| failed(MAX_LOAD_FACTOR, &error))?;
        Ok((solution.value(factor), shares.iter().map(|&h| solution.value(h)).collect()))
    }

    /// `max sum_g h_pg` with `sum_g h_qg = 1` for the other ports; `None` if they are too much alone.
    fn largest_factor_of(&self, port: usize) -> Result<Option<f64>, TheoryError> {
        let mut variables = ProblemVariables::new();
        let shares = variables.add_vector(variable().min(0.0), self.time.len());
        let factor = self.sent(port, &shares);
        let mut model = variables.maximise(&factor).using(microlp);
        for p in self.live_ports().filter(|&p| p != port) {
            model.add_constraint(self.sent(p, &shares).eq(1.0));
        }
        for g in 0..self.reduced.groups.len() {
            model.add_constraint(self.time_at(g, &shares).leq(self.unit));
        }
        match model.solve() {
            Ok(solution) => Ok(Some(solution.eval(&factor))),
            Err(good_lp::ResolutionError::Infeasible) => Ok(None),
            Err(error) => Err(failed("how far a job type can grow", &error)),
        }
    }

    /// `min sum_g y_g` with `sum_p u_p = 1` and `u_p <= a_pg y_g` on edges: (optimum, `u` by port, `y` by group).
    fn dual(&self) -> Result<(f64, Vec<f64>, Vec<f64>), TheoryError> {
        let mut variables = ProblemVariables::new();
        let port_prices = variables.add_vector(variable().min(0.0), self.reduced.ports.len());
        let group_prices = variables.add_vector(variable().min(0.0), self.reduced.groups.len());
        let total: Expression = group_prices.iter().sum();
        let mut model = variables.minimise(&total).using(microlp);
        let live: Expression = self.live_ports().map(|p| Expression::from(port_prices[p])).sum();
        model.add_constraint(live.eq(1.0));
        for p in self.live_ports() {
            for (e, &g) in self.reduced.graph.edges(p).zip(self.reduced.graph.row(p)) {
                model.add_constraint((port_prices[p] - self.time[e] * group_prices[g as usize]).leq(0.0));
            }
        }
        let solution = model.solve().map_err(|error| failed(MAX_LOAD_FACTOR, &error))?;
        let mut ports = vec![0.0; port_prices.len()];
        for p in self.live_ports() {
            ports[p] = solution.value(port_prices[p]);
        }
        let groups: Vec<f64> = group_prices.iter().map(|&y| solution.value(y)).collect();
        Ok((solution.eval(&total), ports, groups))
    }

    /// Work done over work that arrives.
    fn share_done(&self, shares: &[Variable]) -> Expression {
        let ports = &self.reduced.ports;
        let arriving: f64 = ports.iter().map(|port| port.work).sum();
        shares.iter().zip(&self.port_of_edge).map(|(&h, &p)| ports[p].work / arriving * h).sum()
    }

    /// What `port` sends to all of its groups.
    fn sent(&self, port: usize, shares: &[Variable]) -> Expression {
        self.reduced.graph.edges(port).map(|e| Expression::from(shares[e])).sum()
    }

    /// The largest share of the arriving work that the servers can do.
    fn largest_share(&self) -> Result<f64, TheoryError> {
        let mut variables = ProblemVariables::new();
        let shares = variables.add_vector(variable().min(0.0), self.time.len());
        let done = self.share_done(&shares);
        let mut model = variables.maximise(&done).using(microlp);
        for p in self.live_ports() {
            model.add_constraint(self.sent(p, &shares).leq(1.0));
        }
        for g in 0..self.reduced.groups.len() {
            model.add_constraint(self.time_at(g, &shares).leq(self.unit));
        }
        let solution = model.solve().map_err(|error| failed(GRAPH_BOUND, &error))?;
        Ok(solution.eval(&done))
    }

    fn fewest_busy_slots(&self, demand: Demand) -> Result<Option<f64>, TheoryError> {
        let groups = &self.reduced.groups;
        let slots: f64 = groups.iter().map(|group| group.slots).sum();
        let mut variables = ProblemVariables::new();
        let shares = variables.add_vector(variable().min(0.0), self.time.len());
        let busy: Expression = (0..groups.len()).map(|g| self.time_at(g, &shares) * (groups[g].slots / slots)).sum();
        let mut model = variables.minimise(&busy).using(microlp);
        for p in self.live_ports() {
            let sent = self.sent(p, &shares);
            model.add_constraint(if matches!(demand, Demand::All) { sent.eq(1.0) } else { sent.leq(1.0) });
        }
        if let Demand::Share(share) = demand {
            model.add_constraint(self.share_done(&shares).eq(share));
        }
        for g in 0..groups.len() {
            model.add_constraint(self.time_at(g, &shares).leq(self.unit));
        }
        match model.solve() {
            Ok(solution) => Ok(Some(solution.eval(&busy) * slots / self.unit)),
            Err(good_lp::ResolutionError::Infeasible) => Ok(None),
            Err(error) => Err(failed(GRAPH_BOUND, &error)),
        }
    }
}

/// How much of the arriving work is to be done.
#[derive(Clone, Copy)]
enum Demand {
    All,
    Share(f64),
}

fn failed(what: &'static str, error: &good_lp::ResolutionError) -> TheoryError {
    TheoryError::LinearProgram { what, why: error.to_string() }
}
