//! First in, first out: each of the server's slots serves one job at a time, the rest wait in order of arrival.

use std::collections::VecDeque;

use super::queue::{Event, JobNumber, Nanos, Queue, Times};

/// A FIFO queue in front of `slots` equal slots.
#[derive(Debug)]
pub(super) struct Fifo {
    slots: usize,
    in_service: Vec<(JobNumber, Times)>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    job: JobNumber,
    arrived: Nanos,
    service: Nanos,
}

impl Fifo {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots: slots as usize, in_service: Vec::new(), waiting: VecDeque::new() }
    }

    fn start(&mut self, at: Nanos, next: &Waiting, happened: &mut Vec<Event>) {
        let times = Times { arrived: next.arrived, started: at, ended: at.saturating_add(next.service) };
        self.in_service.push((next.job, times));
        happened.push(Event::Started { job: next.job, times });
    }

    fn start_next(&mut self, at: Nanos, happened: &mut Vec<Event>) {
        if let Some(next) = self.waiting.pop_front() {
            self.start(at, &next, happened);
        }
    }

    /// The job in service that ends first, the older one of two.
    fn first_to_end(&self) -> Option<usize> {
        (0..self.in_service.len()).min_by_key(|&i| (self.in_service[i].1.ended, self.in_service[i].0))
    }
}

impl Queue for Fifo {
    fn advance(&mut self, now: Nanos, happened: &mut Vec<Event>) {
        while let Some(first) = self.first_to_end().filter(|&i| self.in_service[i].1.ended <= now) {
            let (job, times) = self.in_service.swap_remove(first);
            happened.push(Event::Ended { job, times });
            self.start_next(times.ended, happened);
        }
    }

    fn arrive(&mut self, now: Nanos, job: JobNumber, service: Nanos, happened: &mut Vec<Event>) {
        let arrival = Waiting { job, arrived: now, service };
        if self.in_service.len() < self.slots {
            self.start(now, &arrival, happened);
        } else {
            self.waiting.push_back(arrival);
        }
    }

    fn leave(&mut self, now: Nanos, job: JobNumber, happened: &mut Vec<Event>) {
        if let Some(i) = self.in_service.iter().position(|&(other, _)| other == job) {
            self.in_service.swap_remove(i);
            self.start_next(now, happened);
        } else if let Some(i) = self.waiting.iter().position(|waiting| waiting.job == job) {
            self.waiting.remove(i);
        }
    }

    fn next(&self) -> Option<Nanos> {
        self.first_to_end().map(|i| self.in_service[i].1.ended)
    }

    fn len(&self) -> usize {
        self.in_service.len() + self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(happened: &[Event]) -> Vec<(JobNumber, Nanos, Nanos)> {
        let ended = |event: &Event| match *event {
            Event::Ended { job, times } => Some((job, times.started, times.ended)),
            Event::Started { .. } => None,
        };
        happened.iter().filter_map(ended).collect()
    }

    #[test]
    fn jobs_start_when_the_one_before_was_due_to_end_however_late_that_is_noticed() {
        let (mut queue, mut happened) = (Fifo::new(1), Vec::new());
        for (job, service) in [(0, 10), (1, 5), (2, 7)] {
            queue.arrive(0, job, service, &mut happened);
        }
        assert_eq!(queue.next(), Some(10));
        queue.advance(1_000, &mut happened);
        assert_eq!(ends(&happened), [(0, 0, 10), (1, 10, 15), (2, 15, 22)]);
        assert_eq!((queue.len(), queue.next()), (0, None));
    }

    #[test]
    fn two_slots_serve_two_jobs_and_the_third_takes_the_slot_that_frees_first() {
        let (mut queue, mut happened) = (Fifo::new(2), Vec::new());
        for (job, service) in [(0, 10), (1, 4), (2, 3)] {
            queue.arrive(0, job, service, &mut happened);
        }
        queue.advance(20, &mut happened);
        assert_eq!(ends(&happened), [(1, 0, 4), (2, 4, 7), (0, 0, 10)]);
    }

    #[test]
    fn a_job_that_leaves_frees_its_slot_at_once_and_one_in_line_just_goes() {
        let (mut queue, mut happened) = (Fifo::new(1), Vec::new());
        for job in 0..3 {
            queue.arrive(0, job, 100, &mut happened);
        }
        queue.leave(10, 1, &mut happened);
        queue.leave(30, 0, &mut happened);
        queue.leave(40, 0, &mut happened);
        queue.advance(500, &mut happened);
        assert_eq!(ends(&happened), [(2, 30, 130)]);
    }
}
