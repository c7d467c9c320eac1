//! The Markov chain of a fleet: its states, what happens in them, and the generator matrix.

use std::collections::HashMap;

use shortline_core::{Fleet, JobTypeId, ServerId};

use super::rules::Rule;
use super::stationary::Generator;
use crate::TheoryError;

/// The jobs in the fleet, oldest first everywhere.
///
/// Where service rates do not depend on the job type the jobs at servers are all written as type 0: only their number
/// matters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    /// Job types at each server; as many as it has slots are in service.
    pub(super) servers: Vec<Vec<u8>>,
    /// Job types in front, all lines together.
    pub(super) line: Vec<u8>,
}

/// What a transition means for a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Completed,
    Blocked { job_type: usize },
    JoinedLine { job_type: usize },
    JoinedServer { job_type: usize, server: usize, ahead: usize, from_line: bool },
}

/// A transition out of a state.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) rate: f64,
    pub(super) to: State,
    pub(super) event: Event,
}

/// A fleet under a rule.
pub(super) struct System<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) rule: &'a dyn Rule,
    pub(super) arrivals: Vec<f64>,
    /// Most jobs at each server.
    pub(super) room: Vec<u32>,
    /// Longest line of a job type in front; 0 = jobs that find no place are blocked.
    pub(super) longest_line: usize,
    /// Whether states keep the job types at servers.
    pub(super) keeps_types: bool,
}

impl System<'_> {
    fn empty(&self) -> State {
        State { servers: vec![vec![]; self.room.len()], line: vec![] }
    }

    /// Everything that can happen next.
    pub(super) fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (l, &rate) in self.arrivals.iter().enumerate().filter(|&(_, &rate)| rate > 0.0) {
            self.arrival(state, l, rate, &mut steps);
        }
        for r in 0..self.room.len() {
            self.completions(state, r, &mut steps);
        }
        steps
    }

    fn arrival(&self, state: &State, job_type: usize, rate: f64, steps: &mut Vec<Step>) {
        let in_line = state.line.iter().filter(|&&l| usize::from(l) == job_type).count();
        let places = if in_line > 0 { vec![] } else { self.places(state, job_type) };
        let mut without_place = 1.0;
        for (server, probability) in places {
            without_place -= probability;
            let (to, event) = self.join(state.clone(), job_type, server.index(), false);
            steps.push(Step { rate: rate * probability, to, event });
        }
        // Probabilities of a handful of servers add up to 1 within rounding.
        if without_place < 1e-12 {
            return;
        }
        let mut to = state.clone();
        let event = if in_line < self.longest_line {
            to.line.push(u8::try_from(job_type).expect("the chain refuses more than 255 job types"));
            Event::JoinedLine { job_type }
        } else {
            Event::Blocked { job_type }
        };
        steps.push(Step { rate: rate * without_place, to, event });
    }

    fn places(&self, state: &State, job_type: usize) -> Vec<(ServerId, f64)> {
        let count = |jobs: &Vec<u8>| u32::try_from(jobs.len()).expect("a server holds no more than its room");
        let jobs: Vec<u32> = state.servers.iter().map(count).collect();
        self.rule.places(&jobs, &self.room, JobTypeId::new(job_type))
    }

    fn join(&self, mut state: State, job_type: usize, server: usize, from_line: bool) -> (State, Event) {
        let ahead = state.servers[server].len();
        let written = if self.keeps_types { job_type } else { 0 };
        state.servers[server].push(u8::try_from(written).expect("the chain refuses more than 255 job types"));
        (state, Event::JoinedServer { job_type, server, ahead, from_line })
    }

    /// Each slot completes its job; the place goes to the job that has waited longest in front and may have it.
    fn completions(&self, state: &State, server: usize, steps: &mut Vec<Step>) {
        let id = ServerId::new(server);
        let in_service = state.servers[server].len().min(self.fleet.slots(id) as usize);
        for slot in 0..in_service {
            let job_type = JobTypeId::new(usize::from(state.servers[server][slot]));
            let rate = self.fleet.service_rate(job_type, id);
            let mut to = state.clone();
            to.servers[server].remove(slot);
            let may_have_it = |l: &u8| self.fleet.graph().contains(usize::from(*l), id);
            let (to, event) = match to.line.iter().position(may_have_it) {
                Some(i) => {
                    let next = usize::from(to.line.remove(i));
                    self.join(to, next, server, true)
                }
                None => (to, Event::Completed),
            };
            steps.push(Step { rate, to, event });
        }
    }
}

/// The states that can be reached from the empty fleet, and the rates between them.
pub(super) struct Chain {
    pub(super) states: Vec<State>,
    pub(super) generator: Generator,
}

impl Chain {
    pub(super) fn explore(system: &System<'_>, limit: usize) -> Result<Self, TheoryError> {
        let mut states = vec![system.empty()];
        let mut number = HashMap::from([(system.empty(), 0_usize)]);
        let mut generator = Generator::default();
        let mut from = 0;
        while from < states.len() {
            for step in system.steps(&states[from]) {
                let to = *number.entry(step.to).or_insert_with_key(|state| {
                    states.push(state.clone());
                    states.len() - 1
                });
                generator.add(from, to, step.rate);
            }
            if states.len() > limit {
                return Err(TheoryError::TooLarge {
                    what: "states of the exact chain",
                    value: states.len(),
                    limit,
                    remedy: "take fewer servers, shorter buffers or lines, or simulate",
                });
            }
            from += 1;
        }
        Ok(Self { states, generator })
    }
}
