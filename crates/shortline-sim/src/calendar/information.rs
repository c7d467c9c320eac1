//! What a decision knows: `[information]`.
//!
//! - **gateways = G**: each job comes through one of `G` gateways, uniformly at random, and each has a dispatcher of its own
//!   that counts its own jobs only, with lines of its own. A server that is full of others' jobs refuses: the job is
//!   blocked. Which servers are up, all know.
//! - **delay_s**: the policy chooses by counts (and by knowledge of who is up) that are so old: what changes is written
//!   down, and read by a second dispatcher when its time has come. If the server that it chooses has no room any more, the
//!   job is blocked. With lines (`overflow = "wait"`, `central`) it is offered to the policy once more, by the true counts,
//!   before it waits; and a line knows of each place that frees at once: a server asks for a job.
//!
//! Without both, this is one dispatcher and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::Overflow;
use shortline_core::policy::Policy;
use shortline_core::random::Generator;
use shortline_core::state::Places;
use shortline_core::{Blocked, Decision, Dispatcher, JobTypeId, ServerId, Started, Ticket};

/// A job that waits in front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) arrived_s: f64,
    pub(crate) size: f64,
}

/// A gateway: the dispatcher of its own jobs, and what its policy sees of them if that is old.
#[derive(Debug)]
pub(crate) struct Gateway<P> {
    own: Dispatcher<P, Waiting>,
    seen: Option<Seen<P>>,
}

/// Old counts.
#[derive(Debug)]
struct Seen<P> {
    dispatcher: Dispatcher<P, ()>,
    delay_s: f64,
    /// Whether jobs that find no place wait.
    waits: bool,
    news: VecDeque<(f64, News)>,
}

#[derive(Clone, Copy, Debug)]
enum News {
    Joined(ServerId),
    Left(ServerId),
    Up(ServerId, bool),
}

impl<P: Policy> Gateway<P> {
    pub(crate) fn new(fleet: &Arc<Fleet>, policy: P) -> Self {
        let delay_s = fleet.settings().information.delay_s;
        let seen = (delay_s > 0.0).then(|| Seen {
            dispatcher: Dispatcher::new(Arc::clone(fleet), policy.clone()),
            delay_s,
            waits: P::PLACES == Places::Slots || fleet.settings().overflow == Overflow::Wait,
            news: VecDeque::new(),
        });
        Self { own: Dispatcher::new(Arc::clone(fleet), policy), seen }
    }

    /// Decides about a job.
    #[inline(always)]
    pub(crate) fn route(&mut self, job_type: JobTypeId, job: Waiting, now_s: f64, rng: &mut Generator) -> Decision {
        if self.seen.is_none() {
            return self.own.route(job_type, || job, rng);
        }
        self.route_by_old_counts(job_type, job, now_s, rng)
    }

    fn route_by_old_counts(&mut self, job_type: JobTypeId, job: Waiting, now_s: f64, rng: &mut Generator) -> Decision {
        let Self { own, seen } = self;
        let seen = seen.as_mut().expect("the caller saw that counts are old");
        let decision = if own.waiting(job_type) == 0
            && let Some(server) = seen.dispatcher.propose(job_type, rng)
            && own.place(server)
        {
            Decision::Joined(server)
        } else if seen.waits {
            own.route(job_type, || job, rng)
        } else {
            Decision::Blocked(Blocked::NoRoom)
        };
        if let Decision::Joined(server) = decision {
            seen.write(now_s, News::Joined(server));
        }
        decision
    }

    /// A job of this gateway has left its server, or was refused there.
    #[inline(always)]
    pub(crate) fn complete(&mut self, server: ServerId, now_s: f64) -> Option<Started<Waiting>> {
        let started = self.own.complete(server);
        if let Some(seen) = &mut self.seen {
            seen.write(now_s, News::Left(server));
            if started.is_some() {
                seen.write(now_s, News::Joined(server));
            }
        }
        started
    }

    /// A server went down or came up.
    pub(crate) fn set_up(&mut self, server: ServerId, up: bool, now_s: f64) -> Vec<Started<Waiting>> {
        let started = self.own.set_up(server, up);
        if let Some(seen) = &mut self.seen {
            seen.write(now_s, News::Up(server, up));
            started.iter().for_each(|job| seen.write(now_s, News::Joined(job.server)));
        }
        started
    }

    /// A job gives up waiting; whether it still waited.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        self.own.cancel(ticket).is_some()
    }

    /// Jobs of this type that wait.
    pub(crate) fn waiting(&self, job_type: JobTypeId) -> usize {
        self.own.waiting(job_type)
    }

    /// Jobs that wait.
    #[inline(always)]
    pub(crate) fn waiting_total(&self) -> usize {
        self.own.waiting_total()
    }

    /// When there is news next; infinite if there is none.
    pub(crate) fn news_s(&self) -> f64 {
        self.seen.as_ref().and_then(|seen| seen.news.front()).map_or(f64::INFINITY, |&(at_s, _)| at_s)
    }

    /// Reads the news of this moment.
    pub(crate) fn read(&mut self, now_s: f64) {
        let Some(seen) = &mut self.seen else { return };
        while let Some(&(at_s, news)) = seen.news.front()
            && at_s <= now_s
        {
            seen.news.pop_front();
            match news {
                News::Joined(server) => {
                    let had_room = seen.dispatcher.place(server);
                    debug_assert!(had_room, "what had room had it {} s ago too", seen.delay_s);
                }
                News::Left(server) => {
                    let started = seen.dispatcher.complete(server);
                    debug_assert!(started.is_none(), "nobody waits where nobody is sent into line");
                }
                News::Up(server, up) => {
                    let started = seen.dispatcher.set_up(server, up);
                    debug_assert!(started.is_empty(), "nobody waits where nobody is sent into line");
                }
            }
        }
    }
}

impl<P> Seen<P> {
    fn write(&mut self, now_s: f64, news: News) {
        self.news.push_back((now_s + self.delay_s, news));
    }
}
