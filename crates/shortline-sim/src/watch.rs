//! The number of jobs over time, at equal steps from the empty start: what tells the warm-up's end, and growth.

use crate::chain::Chain;

/// Most values kept; when they are reached, neighbours are averaged and the step doubles.
const MOST: usize = 256;

/// Ticks between two looks at whether to go on: a few hundredths of a second in the largest fleets.
const TICKS: u64 = 1 << 17;

/// Values of one replication.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Events between two values.
    step: u64,
    /// Events until the next value.
    left: u64,
    /// Jobs in the system.
    jobs: Vec<f64>,
    /// Euclidean norm of the numbers of jobs at each server and in each line: a few queues that grow are seen in it
    /// before they are seen in the total.
    norms: Vec<f64>,
}

impl Watch {
    pub(crate) fn new(step: u64) -> Self {
        Self { step, left: step, jobs: Vec::new(), norms: Vec::new() }
    }

    /// Events between two values.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Runs the chain for so many events, or until told to stop.
    pub(crate) fn run(&mut self, chain: &mut dyn Chain, events: u64, mut go_on: impl FnMut(u64) -> bool) {
        let mut left = events;
        while left > 0 {
            let events = chain.run(left.min(self.left), TICKS);
            left -= events;
            self.left -= events;
            if self.left == 0 {
                self.look(chain);
            }
            if !go_on(events) {
                return;
            }
        }
    }

    fn look(&mut self, chain: &dyn Chain) {
        let (mut sum, mut squares) = (0_u64, 0.0);
        let mut see = |jobs: u64, queues: u64| {
            sum += jobs * queues;
            squares += (jobs as f64).powi(2) * queues as f64;
        };
        chain.jobs_at_servers(&mut see);
        chain.lines(&mut |jobs| see(jobs, 1));
        self.jobs.push(sum as f64);
        self.norms.push(squares.sqrt());
        if self.jobs.len() == MOST {
            self.step *= 2;
            for values in [&mut self.jobs, &mut self.norms] {
                *values = values.chunks_exact(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
            }
        }
        self.left = self.step;
    }

    pub(crate) fn jobs(&self) -> &[f64] {
        &self.jobs
    }

    pub(crate) fn norms(&self) -> &[f64] {
        &self.norms
    }
}
