//! Processor sharing: the `n` jobs at a server share its `c` slots equally, each at `min(c, n)/n` of a slot's speed.
//!
//! All jobs attain service at the same rate, so one number suffices: the *attained service* `V(t)` of a job present
//! since the last idle moment grows by `min(c, n)/n` a nanosecond. A job that needs `s` and came at `V_0` is done
//! when `V` reaches `V_0 + s`. An arrival or departure is O(log n). `V` returns to 0 when the server is idle; as an
//! `f64` it then counts fractions of a nanosecond exactly enough for weeks.

use std::collections::{BTreeMap, HashMap};

use super::queue::{Event, JobNumber, Nanos, Queue, Times};

/// A processor-sharing queue on `slots` equal slots.
#[derive(Debug)]
pub(super) struct Sharing {
    slots: f64,
    /// `V` at time `last`.
    attained: f64,
    last: Nanos,
    /// Jobs by the `V` at which they are done, as bits: positive floats and their bits order alike.
    jobs: BTreeMap<(u64, JobNumber), Nanos>,
    goals: HashMap<JobNumber, u64>,
}

impl Sharing {
    pub(super) fn new(slots: u32) -> Self {
        let (jobs, goals) = (BTreeMap::new(), HashMap::new());
        Self { slots: f64::from(slots), attained: 0.0, last: 0, jobs, goals }
    }

    /// Service that each job attains per nanosecond.
    fn speed(&self) -> f64 {
        let jobs = self.jobs.len() as f64;
        self.slots.min(jobs) / jobs
    }

    fn attain_until(&mut self, now: Nanos) {
        if self.jobs.is_empty() {
            self.attained = 0.0;
        } else {
            self.attained += now.saturating_sub(self.last) as f64 * self.speed();
        }
        self.last = now;
    }
}

impl Queue for Sharing {
    fn advance(&mut self, now: Nanos, happened: &mut Vec<Event>) {
        while let Some(ended) = self.next().filter(|&ended| ended <= now) {
            let Some(((goal, job), arrived)) = self.jobs.pop_first() else { break };
            self.goals.remove(&job);
            self.attained = f64::from_bits(goal);
            self.last = ended;
            happened.push(Event::Ended { job, times: Times { arrived, started: arrived, ended } });
        }
        self.attain_until(now);
    }

    fn arrive(&mut self, now: Nanos, job: JobNumber, service: Nanos, happened: &mut Vec<Event>) {
        self.attain_until(now);
        let goal = (self.attained + service as f64).to_bits();
        self.jobs.insert((goal, job), now);
        self.goals.insert(job, goal);
        let times = Times { arrived: now, started: now, ended: now.saturating_add(service) };
        happened.push(Event::Started { job, times });
    }

    fn leave(&mut self, now: Nanos, job: JobNumber, _happened: &mut Vec<Event>) {
        self.attain_until(now);
        if let Some(goal) = self.goals.remove(&job) {
            self.jobs.remove(&(goal, job));
        }
    }

    fn next(&self) -> Option<Nanos> {
        let (&(goal, _), _) = self.jobs.first_key_value()?;
        let left = (f64::from_bits(goal) - self.attained).max(0.0) / self.speed();
        Some(self.last.saturating_add(left.ceil() as Nanos))
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(happened: &[Event]) -> Vec<(JobNumber, Nanos)> {
        let ended = |event: &Event| match *event {
            Event::Ended { job, times } => Some((job, times.ended)),
            Event::Started { .. } => None,
        };
        happened.iter().filter_map(ended).collect()
    }

    #[test]
    fn two_jobs_on_one_slot_are_served_at_half_speed_each() {
        let (mut queue, mut happened) = (Sharing::new(1), Vec::new());
        queue.arrive(0, 0, 100, &mut happened);
        queue.advance(50, &mut happened);
        queue.arrive(50, 1, 100, &mut happened);
        // Job 0 has 50 left, at half speed until 150; job 1 then has 50 left, alone.
        queue.advance(1_000, &mut happened);
        assert_eq!(ends(&happened), [(0, 150), (1, 200)]);
    }

    #[test]
    fn as_many_jobs_as_slots_do_not_slow_each_other_down() {
        let (mut queue, mut happened) = (Sharing::new(2), Vec::new());
        queue.arrive(0, 0, 100, &mut happened);
        queue.arrive(0, 1, 60, &mut happened);
        queue.advance(10, &mut happened);
        queue.arrive(10, 2, 40, &mut happened);
        // From 10 on three jobs share two slots: 2/3 of a slot each. Job 2 is done at 10 + 40 * 3/2 = 70; job 1 has
        // then attained 10 + 40 and needs 10 more, alone on its slot: 80; job 0: 100 - 50 more: 120.
        queue.advance(1_000, &mut happened);
        assert_eq!(ends(&happened), [(2, 70), (1, 80), (0, 120)]);
    }

    #[test]
    fn a_job_that_leaves_gives_its_share_back() {
        let (mut queue, mut happened) = (Sharing::new(1), Vec::new());
        queue.arrive(0, 0, 100, &mut happened);
        queue.arrive(0, 1, 100, &mut happened);
        queue.advance(100, &mut happened);
        queue.leave(100, 1, &mut happened);
        queue.leave(100, 1, &mut happened);
        queue.advance(1_000, &mut happened);
        assert_eq!(ends(&happened), [(0, 150)]);
        assert_eq!((queue.len(), queue.next()), (0, None));
    }
}
