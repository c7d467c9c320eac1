//! The definitions as linear programs over single job types and servers, without any of the library's merging.

use good_lp::{Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, microlp, variable};
use shortline_core::{Fleet, JobTypeId, ServerId};

struct Flows {
    edges: Vec<(JobTypeId, ServerId)>,
    flow: Vec<Variable>,
}

impl Flows {
    fn new(fleet: &Fleet, variables: &mut ProblemVariables) -> Self {
        let pairs = fleet.job_types().flat_map(|l| fleet.servers().map(move |r| (l, r)));
        let edges: Vec<_> = pairs.filter(|&(l, r)| fleet.graph().contains(l.index(), r)).collect();
        let flow = variables.add_vector(variable().min(0.0), edges.len());
        Self { edges, flow }
    }

    fn of_job_type(&self, job_type: JobTypeId) -> Expression {
        self.edges.iter().zip(&self.flow).filter(|((l, _), _)| *l == job_type).map(|(_, &f)| f).sum()
    }

    fn busy_slots(&self, fleet: &Fleet, server: ServerId) -> Expression {
        let here = self.edges.iter().zip(&self.flow).filter(|((_, r), _)| *r == server);
        here.map(|((l, r), &f)| f / fleet.service_rate(*l, *r)).sum()
    }
}

fn rate(fleet: &Fleet, job_type: JobTypeId) -> f64 {
    fleet.arrival_rate(job_type).expect("test fleets have rates")
}

fn arrivals(fleet: &Fleet) -> f64 {
    fleet.job_types().map(|l| rate(fleet, l)).sum()
}

/// `s*`.
pub(crate) fn max_load_factor(fleet: &Fleet) -> f64 {
    let mut variables = ProblemVariables::new();
    let flows = Flows::new(fleet, &mut variables);
    let factor = variables.add(variable().min(0.0));
    let mut model = variables.maximise(factor).using(microlp);
    for l in fleet.job_types() {
        model.add_constraint((flows.of_job_type(l) - factor * rate(fleet, l)).eq(0.0));
    }
    for r in fleet.servers() {
        model.add_constraint(flows.busy_slots(fleet, r).leq(f64::from(fleet.slots(r))));
    }
    model.solve().expect("the program has an optimum").value(factor)
}

/// Fewest busy slots at throughput `th` (all that arrives if `None`); `None` if the servers cannot do it.
pub(crate) fn fewest_busy_slots(fleet: &Fleet, th: Option<f64>) -> Option<f64> {
    let mut variables = ProblemVariables::new();
    let flows = Flows::new(fleet, &mut variables);
    let busy: Expression = fleet.servers().map(|r| flows.busy_slots(fleet, r)).sum();
    let mut model = variables.minimise(&busy).using(microlp);
    for l in fleet.job_types() {
        let (sent, rate) = (flows.of_job_type(l), rate(fleet, l));
        model.add_constraint(if th.is_none() { sent.eq(rate) } else { sent.leq(rate) });
    }
    if let Some(th) = th {
        let total: Expression = fleet.job_types().map(|l| flows.of_job_type(l)).sum();
        model.add_constraint(total.eq(th.min(arrivals(fleet))));
    }
    for r in fleet.servers() {
        model.add_constraint(flows.busy_slots(fleet, r).leq(f64::from(fleet.slots(r))));
    }
    match model.solve() {
        Ok(solution) => Some(solution.eval(&busy)),
        Err(ResolutionError::Infeasible) => None,
        Err(error) => panic!("{error}"),
    }
}
