//! Lines in front of the servers: jobs that found no place wait here, one line per job type.
//!
//! A freed place goes to the longest-waiting job that its server can serve. The lines that are not empty are kept in
//! the order of their first jobs, so that the search for it looks at the oldest first and stops at the first
//! compatible one. A job leaves its line from any position in O(1).
//!
//! A job that was at a server in vain comes *back*, at its age, and beside the line: it has servers to avoid, and those
//! behind it are not to wait for that. There are few of these; a freed place looks at each of them.

use std::collections::VecDeque;

use crate::ids::{JobTypeId, ServerId};

/// A place in a line; never another job's. One that comes back a second time has the same ticket again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    slot: u32,
    number: u64,
}

impl Ticket {
    /// When its job came.
    #[must_use]
    pub fn arrival(self) -> Arrival {
        Arrival(self.number)
    }
}

/// When a job came, among those of one dispatcher: the earlier, the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Arrival(u64);

const NONE: u32 = u32::MAX;

/// The slot of jobs that are back: they are found by their number.
const BACK: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Lines<J> {
    places: Vec<Place<J>>,
    free: Vec<u32>,
    lines: Vec<Line>,
    /// (number of the first ticket, job type) of the lines that are not empty, oldest first.
    heads: VecDeque<(u64, u32)>,
    /// Jobs that are back, in no order.
    back: Vec<Back<J>>,
    next_number: u64,
    limit: u32,
}

#[derive(Clone, Debug)]
struct Back<J> {
    number: u64,
    job_type: JobTypeId,
    avoid: Vec<ServerId>,
    job: J,
}

#[derive(Clone, Debug)]
struct Place<J> {
    number: u64,
    line: u32,
    before: u32,
    behind: u32,
    job: Option<J>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    first: u32,
    last: u32,
    len: u32,
}

const EMPTY: Line = Line { first: NONE, last: NONE, len: 0 };

impl<J> Lines<J> {
    /// Empty lines for `job_types` job types, each at most `limit` long (`None` = unbounded).
    pub(crate) fn new(job_types: usize, limit: Option<u32>) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            lines: vec![EMPTY; job_types],
            heads: VecDeque::new(),
            back: Vec::new(),
            next_number: 0,
            limit: limit.unwrap_or(NONE - 1),
        }
    }

    pub(crate) fn len(&self, job_type: JobTypeId) -> usize {
        self.lines[job_type.index()].len as usize
    }

    /// Jobs of this type that wait: those in line, and those that are back.
    pub(crate) fn waiting(&self, job_type: JobTypeId) -> usize {
        self.len(job_type) + self.back.iter().filter(|back| back.job_type == job_type).count()
    }

    /// Job types of which some wait; one may come more than once.
    pub(crate) fn job_types(&self) -> impl Iterator<Item = JobTypeId> {
        let lines = self.heads.iter().map(|&(_, line)| JobTypeId::new(line as usize));
        lines.chain(self.back.iter().map(|back| back.job_type))
    }

    pub(crate) fn total(&self) -> usize {
        self.places.len() - self.free.len() + self.back.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.back.is_empty()
    }

    /// Whether a job may ever wait.
    pub(crate) fn take_any(&self) -> bool {
        self.limit > 0
    }

    /// A job comes that does not wait, for now.
    pub(crate) fn arrival(&mut self) -> Arrival {
        let number = self.next_number;
        self.next_number += 1;
        Arrival(number)
    }

    /// A job that came then is back from these servers. It takes no place of its line's limit.
    pub(crate) fn come_back(
        &mut self,
        job_type: JobTypeId,
        arrival: Arrival,
        avoid: Vec<ServerId>,
        job: impl FnOnce() -> J,
    ) -> Ticket {
        self.back.push(Back { number: arrival.0, job_type, avoid, job: job() });
        Ticket { slot: BACK, number: arrival.0 }
    }

    /// Nobody avoids this server any more.
    pub(crate) fn forgive(&mut self, server: ServerId) {
        self.back.iter_mut().for_each(|back| back.avoid.retain(|avoided| *avoided != server));
    }

    /// Adds a job at the end of its line; `None` if the line is full.
    pub(crate) fn push(&mut self, job_type: JobTypeId, job: impl FnOnce() -> J) -> Option<Ticket> {
        if self.lines[job_type.index()].len >= self.limit {
            return None;
        }
        let Arrival(number) = self.arrival();
        let line = &mut self.lines[job_type.index()];
        let type_number = u32::try_from(job_type.index()).expect("job types are numbered in 32 bits");
        let place = Place { number, line: type_number, before: line.last, behind: NONE, job: Some(job()) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.places[slot as usize] = place;
                slot
            }
            None => {
                self.places.push(place);
                u32::try_from(self.places.len() - 1)
                    .ok()
                    .filter(|&slot| slot < BACK)
                    .expect("fewer than 2^32 jobs wait")
            }
        };
        match line.last {
            NONE => {
                line.first = slot;
                self.heads.push_back((number, type_number));
            }
            last => self.places[last as usize].behind = slot,
        }
        line.last = slot;
        line.len += 1;
        Some(Ticket { slot, number })
    }

    /// Takes a job out of its line; `None` if it does not wait any more.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Option<(JobTypeId, J)> {
        if ticket.slot == BACK {
            let at = self.back.iter().position(|back| back.number == ticket.number)?;
            let back = self.back.swap_remove(at);
            return Some((back.job_type, back.job));
        }
        let place = self.places.get(ticket.slot as usize)?;
        (place.number == ticket.number && place.job.is_some()).then(|| self.remove(ticket.slot, None))
    }

    /// Takes out the longest-waiting job for this server: of a `compatible` type, and not back from it.
    pub(crate) fn take(
        &mut self,
        server: ServerId,
        compatible: impl Fn(JobTypeId) -> bool,
    ) -> Option<(Ticket, JobTypeId, J)> {
        let at = self.heads.iter().position(|(_, line)| compatible(JobTypeId::new(*line as usize)));
        let suits = |back: &Back<J>| compatible(back.job_type) && !back.avoid.contains(&server);
        let oldest = self.back.iter().filter(|back| suits(back)).map(|back| back.number).min();
        if let Some(number) = oldest.filter(|oldest| at.is_none_or(|at| *oldest < self.heads[at].0)) {
            let ticket = Ticket { slot: BACK, number };
            return self.cancel(ticket).map(|(job_type, job)| (ticket, job_type, job));
        }
        let at = at?;
        let (number, line) = self.heads[at];
        let slot = self.lines[line as usize].first;
        let (job_type, job) = self.remove(slot, Some(at));
        Some((Ticket { slot, number }, job_type, job))
    }

    /// Takes a job out; `at` is where its line stands among the heads, if that is known and it is the first.
    fn remove(&mut self, slot: u32, at: Option<usize>) -> (JobTypeId, J) {
        let place = &mut self.places[slot as usize];
        let job = place.job.take().expect("only a waiting job is removed");
        let (number, line_number, before, behind) = (place.number, place.line, place.before, place.behind);
        let line = &mut self.lines[line_number as usize];
        line.len -= 1;
        match behind {
            NONE => line.last = before,
            behind => self.places[behind as usize].before = before,
        }
        match before {
            NONE => {
                line.first = behind;
                let at = at.unwrap_or_else(|| {
                    let head = self.heads.binary_search(&(number, line_number));
                    head.expect("every line that is not empty has its head listed")
                });
                self.move_head(at, behind);
            }
            before => self.places[before as usize].behind = behind,
        }
        self.free.push(slot);
        (JobTypeId::new(line_number as usize), job)
    }

    /// The first job of the line that stands at `at` has left; `next` is first now, younger than it was.
    fn move_head(&mut self, at: usize, next: u32) {
        let line = self.heads[at].1;
        if next == NONE {
            self.heads.remove(at);
            return;
        }
        let head = (self.places[next as usize].number, line);
        let to = at + self.heads.range(at + 1..).take_while(|other| **other < head).count();
        (at..to).for_each(|i| self.heads[i] = self.heads[i + 1]);
        self.heads[to] = head;
    }

    /// Moves the lines to another numbering of the job types and servers; jobs of types that are no more are returned.
    pub(crate) fn renumber(
        &mut self,
        job_types: usize,
        limit: Option<u32>,
        new_of: impl Fn(JobTypeId) -> Option<JobTypeId>,
        new_server: impl Fn(ServerId) -> Option<ServerId>,
    ) -> Vec<(Ticket, J)> {
        let old = std::mem::replace(&mut self.lines, vec![EMPTY; job_types]);
        self.limit = limit.unwrap_or(NONE - 1);
        self.heads.clear();
        let mut dropped = Vec::new();
        for (l, line) in old.iter().enumerate().filter(|(_, line)| line.len > 0) {
            let new = new_of(JobTypeId::new(l));
            let mut slot = line.first;
            while slot != NONE {
                let place = &mut self.places[slot as usize];
                let behind = place.behind;
                match new {
                    Some(new) => place.line = u32::try_from(new.index()).expect("job types are numbered in 32 bits"),
                    None => {
                        let job = place.job.take().expect("a place in a line holds a job");
                        dropped.push((Ticket { slot, number: place.number }, job));
                        self.free.push(slot);
                    }
                }
                slot = behind;
            }
            if let Some(new) = new {
                self.lines[new.index()] = *line;
                let new = u32::try_from(new.index()).expect("job types are numbered in 32 bits");
                self.heads.push_back((self.places[line.first as usize].number, new));
            }
        }
        self.heads.make_contiguous().sort_unstable();
        for Back { number, job_type, avoid, job } in std::mem::take(&mut self.back) {
            match new_of(job_type) {
                Some(job_type) => {
                    let avoid = avoid.into_iter().filter_map(&new_server).collect();
                    self.back.push(Back { number, job_type, avoid, job });
                }
                None => dropped.push((Ticket { slot: BACK, number }, job)),
            }
        }
        dropped
    }
}
