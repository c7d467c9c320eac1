//! The dispatcher: a policy and the live state of the fleet it decides for.
//!
//! A plain state machine that the simulator and the gateway drive alike. Jobs come in by [`route`](Dispatcher::route)
//! and go out by [`complete`](Dispatcher::complete); what finds no place is blocked, or waits in a line per job type
//! and is started by the first place that frees at a compatible server. Time and randomness are arguments.

use std::sync::Arc;

use rand::Rng;

use crate::fleet::Fleet;
use crate::fleet::settings::Overflow;
use crate::ids::{JobTypeId, ServerId};
use crate::lines::{Arrival, Lines, Ticket};
use crate::policy::Policy;
use crate::state::{Places, State};

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is at this server.
    Joined(ServerId),
    /// It waits in the line of its type.
    Waiting(Ticket),
    /// It is lost, or refused.
    Blocked(Blocked),
}

impl Decision {
    /// The server, if the job joined one.
    #[must_use]
    pub fn server(self) -> Option<ServerId> {
        match self {
            Self::Joined(server) => Some(server),
            Self::Waiting(_) | Self::Blocked(_) => None,
        }
    }
}

/// Why a job found no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// The policy found no server with room.
    NoRoom,
    /// The line of its type is full.
    LineFull,
    /// No server that holds its type is up.
    NoServerUp,
}

/// A job that waited and is now at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started<J> {
    /// The place in line it had.
    pub ticket: Ticket,
    /// What was kept with it.
    pub job: J,
    /// Its type.
    pub job_type: JobTypeId,
    /// Its server.
    pub server: ServerId,
}

/// A policy with live state. `J` is kept with a waiting job.
#[derive(Clone, Debug)]
pub struct Dispatcher<P, J> {
    policy: P,
    state: State,
    /// Whether jobs that find no place wait; if not, the lines stay empty.
    waits: bool,
    lines: Lines<J>,
    /// Edges of the graph on which no job goes for now: few, if any.
    suspended: Vec<(JobTypeId, ServerId)>,
    /// Servers whose cap is a preference only: few, if any.
    spared: Vec<ServerId>,
}

impl<P: Policy, J> Dispatcher<P, J> {
    /// All servers up and empty, nobody waiting.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, policy: P) -> Self {
        let waits = P::PLACES == Places::Slots || fleet.settings().overflow == Overflow::Wait;
        let lines = Lines::new(if waits { fleet.job_type_count() } else { 0 }, fleet.settings().lines.size);
        Self { policy, state: State::new(fleet, P::PLACES), waits, lines, suspended: Vec::new(), spared: Vec::new() }
    }

    /// The state that the policy sees.
    #[inline]
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Decides about a job that arrives. While jobs of its type wait it joins the end of their line; otherwise the
    /// policy chooses. `job` is called if it has to wait.
    #[inline]
    pub fn route<R: Rng>(&mut self, job_type: JobTypeId, job: impl FnOnce() -> J, rng: &mut R) -> Decision {
        let others_wait = !self.lines.is_empty() && self.lines.len(job_type) > 0;
        if !others_wait
            && let Some(server) = self.policy.choose(&self.state, job_type, rng)
            && self.state.has_room(server)
        {
            self.state.join(server);
            return Decision::Joined(server);
        }
        self.without_place(job_type, job)
    }

    /// The server that the policy would choose now, with room or not; no count changes. With [`place`](Self::place), for
    /// decisions by other counts than those of who carries them out: old ones, say.
    pub fn propose<R: Rng>(&mut self, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        self.policy.choose(&self.state, job_type, rng)
    }

    /// A job goes to this server, whoever decided so; whether it has room for it.
    pub fn place(&mut self, server: ServerId) -> bool {
        let has_room = self.state.has_room(server);
        if has_room {
            self.state.join(server);
        }
        has_room
    }

    /// [`route`](Self::route) by those edges of the graph that are not [suspended](Self::suspend): the policy's rule on
    /// the servers that are left; then, if it finds no place there, also on those that are [spared](Self::spare), up to
    /// their buffers. O(edges suspended + servers spared) more than `route`, and as much while there are none.
    pub fn route_unsuspended<R: Rng>(&mut self, job_type: JobTypeId, job: impl FnOnce() -> J, rng: &mut R) -> Decision {
        if self.spared.is_empty() && !self.suspended.iter().any(|(of, _)| *of == job_type) {
            return self.route(job_type, job, rng);
        }
        let others_wait = !self.lines.is_empty() && self.lines.len(job_type) > 0;
        if !others_wait && let Some(server) = self.route_avoiding(job_type, &[], rng) {
            return Decision::Joined(server);
        }
        self.without_place(job_type, job)
    }

    /// Decides about a job that has been at these servers and may not go back: the policy's rule on the other
    /// compatible servers, as if these were down. It never waits in line: a place that frees there may be at a server
    /// that it has to avoid. Nor does it wait behind others: it was routed before them.
    ///
    /// `None`: no place. O(servers avoided and edges suspended) more than [`route`](Self::route).
    pub fn route_avoiding<R: Rng>(&mut self, job_type: JobTypeId, avoid: &[ServerId], rng: &mut R) -> Option<ServerId> {
        let suspended = self.suspended.iter().filter(|(of, _)| *of == job_type).map(|(_, server)| *server);
        let avoided: Vec<(ServerId, Option<u32>)> =
            avoid.iter().copied().chain(suspended).map(|server| (server, self.state.cap(server))).collect();
        avoided.iter().for_each(|&(server, _)| self.state.set_cap(server, Some(0)));
        let mut chosen = self.choose_with_room(job_type, rng);
        if chosen.is_none() && !self.spared.is_empty() {
            let spared = self.spared.iter().filter(|spared| avoided.iter().all(|(avoided, _)| avoided != *spared));
            let spared: Vec<(ServerId, Option<u32>)> = spared.map(|&server| (server, self.state.cap(server))).collect();
            spared.iter().for_each(|&(server, _)| self.state.set_cap(server, None));
            chosen = self.choose_with_room(job_type, rng);
            spared.iter().for_each(|&(server, cap)| self.state.set_cap(server, cap));
        }
        avoided.iter().for_each(|&(server, cap)| self.state.set_cap(server, cap));
        chosen.inspect(|&server| self.state.join(server))
    }

    fn choose_with_room<R: Rng>(&mut self, job_type: JobTypeId, rng: &mut R) -> Option<ServerId> {
        self.policy.choose(&self.state, job_type, rng).filter(|&server| self.state.has_room(server))
    }

    /// A job that does not wait has come now; for [`come_back`](Self::come_back).
    pub fn arrival(&mut self) -> Arrival {
        self.lines.arrival()
    }

    /// A job that came then has been at these servers in vain and found no place at another one
    /// ([`route_avoiding`](Self::route_avoiding)): it waits as if they had been down from the start, at its age among those
    /// that wait, for a place at another server. One that comes back from being down, or into the fleet, is no longer
    /// avoided. Nobody waits behind it for servers that it avoids. O(1); while some are back, O(those) more for each place
    /// that frees.
    ///
    /// Blocked if jobs do not wait here. Whether some server is left that takes it is for the caller to find out
    /// ([`has_server_up_beside`](Self::has_server_up_beside)).
    pub fn come_back(
        &mut self,
        job_type: JobTypeId,
        arrival: Arrival,
        avoid: Vec<ServerId>,
        job: impl FnOnce() -> J,
    ) -> Decision {
        if self.waits && self.lines.take_any() {
            Decision::Waiting(self.lines.come_back(job_type, arrival, avoid, job))
        } else if self.has_server_up_beside(job_type, &avoid) {
            Decision::Blocked(Blocked::NoRoom)
        } else {
            Decision::Blocked(Blocked::NoServerUp)
        }
    }

    #[cold]
    fn without_place(&mut self, job_type: JobTypeId, job: impl FnOnce() -> J) -> Decision {
        if self.waits {
            match self.lines.push(job_type, job) {
                Some(ticket) => Decision::Waiting(ticket),
                None => Decision::Blocked(Blocked::LineFull),
            }
        } else if self.has_server_up(job_type) {
            Decision::Blocked(Blocked::NoRoom)
        } else {
            Decision::Blocked(Blocked::NoServerUp)
        }
    }

    /// A job leaves its server: done, failed or given up. The place it frees may start a waiting job.
    ///
    /// # Panics
    /// If no job is at the server.
    #[inline]
    pub fn complete(&mut self, server: ServerId) -> Option<Started<J>> {
        self.complete_if(server, true)
    }

    /// [`complete`](Self::complete) if `is_done`, else nothing: one path for both, for callers to whom it is chance
    /// which of the two it is.
    ///
    /// # Panics
    /// If `is_done` and no job is at the server.
    #[inline(always)]
    pub fn complete_if(&mut self, server: ServerId, is_done: bool) -> Option<Started<J>> {
        self.state.leave_if(server, is_done);
        if self.lines.is_empty() || !is_done { None } else { self.start_waiting(server) }
    }

    /// Starts the longest-waiting job that this server can serve, if it has room and there is one.
    fn start_waiting(&mut self, server: ServerId) -> Option<Started<J>> {
        if !self.state.has_room(server) && !self.has_room_beyond_cap(server) {
            return None;
        }
        let graph = self.state.fleet().graph();
        let compatible = |job_type: JobTypeId| {
            graph.contains(job_type.index(), server) && !self.suspended.contains(&(job_type, server))
        };
        let (ticket, job_type, job) = self.lines.take(server, compatible)?;
        self.state.join(server);
        Some(Started { ticket, job, job_type, server })
    }

    /// Whether a server that is spared has room for those who find it nowhere else.
    fn has_room_beyond_cap(&mut self, server: ServerId) -> bool {
        self.spared.contains(&server) && {
            let cap = self.state.cap(server);
            self.state.set_cap(server, None);
            let has_room = self.state.has_room(server);
            self.state.set_cap(server, cap);
            has_room
        }
    }

    /// Starts waiting jobs at this server until it is full or none is left for it.
    fn fill(&mut self, server: ServerId, started: &mut Vec<Started<J>>) {
        while let Some(job) = self.start_waiting(server) {
            started.push(job);
        }
    }

    /// A waiting job gives up. `None`: it does not wait any more, a server has it.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<J> {
        self.lines.cancel(ticket).map(|(_, job)| job)
    }

    /// Takes a server up or down: [`set_cap`](Self::set_cap) with no cap, or with 0.
    pub fn set_up(&mut self, server: ServerId, up: bool) -> Vec<Started<J>> {
        self.set_cap(server, if up { None } else { Some(0) })
    }

    /// From `cap` jobs on the server counts as down, below it as up; `None` = it is up. 0 takes it down; 1 lets one job
    /// through to see how it fares; 1, 2, 4, ... let a server in slowly. Jobs at it beyond the cap stay counted until
    /// they complete. A server whose cap rises starts waiting jobs.
    ///
    /// When it falls, jobs that wait are offered all room there is: a policy that samples may have sent them into
    /// the line for want of a place there, and at a server that stays idle no place would ever free for them.
    pub fn set_cap(&mut self, server: ServerId, cap: Option<u32>) -> Vec<Started<J>> {
        let was_down = self.is_down(server);
        self.spared.retain(|spared| *spared != server);
        self.change_cap(server, cap, was_down)
    }

    /// From `cap` jobs on the server gets none for which there is a place elsewhere: like [`set_cap`](Self::set_cap) with
    /// such a cap, but nobody is blocked or waits for it. At 0 it is the last resort, and not down. Until its cap is set.
    ///
    /// A place elsewhere is one that the policy finds: one that samples may miss some. Those who wait already are offered
    /// all room elsewhere first, and a place that frees at the server as any other.
    pub fn spare(&mut self, server: ServerId, cap: u32) -> Vec<Started<J>> {
        let was_down = self.is_down(server);
        if !self.spared.contains(&server) {
            self.spared.push(server);
        }
        self.change_cap(server, Some(cap), was_down)
    }

    fn change_cap(&mut self, server: ServerId, cap: Option<u32>, was_down: bool) -> Vec<Started<J>> {
        let rank = |cap: Option<u32>| cap.map_or(u64::MAX, u64::from);
        let falls = rank(cap) < rank(self.state.cap(server));
        self.state.set_cap(server, cap);
        if was_down && !self.is_down(server) {
            self.lines.forgive(server);
        }
        let mut started = Vec::new();
        if falls || cap == Some(0) {
            self.fill_all(&mut started)
        } else {
            self.fill(server, &mut started)
        }
        started
    }

    /// No job of this type goes to this server until [`resume`](Self::resume), as if the graph had no such edge: by
    /// [`route_unsuspended`](Self::route_unsuspended) and [`route_avoiding`](Self::route_avoiding), and from a line. Jobs
    /// that are there stay. Jobs that wait are offered all room there is, as by [`set_cap`](Self::set_cap).
    pub fn suspend(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>> {
        let mut started = Vec::new();
        if !self.suspended.contains(&(job_type, server)) {
            self.suspended.push((job_type, server));
            self.fill_all(&mut started);
        }
        started
    }

    /// Jobs of this type go to this server again; those that wait start there if it has room.
    pub fn resume(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>> {
        self.suspended.retain(|edge| *edge != (job_type, server));
        let mut started = Vec::new();
        self.fill(server, &mut started);
        started
    }

    /// Servers whose cap is a preference only.
    #[must_use]
    pub fn spared(&self) -> &[ServerId] {
        &self.spared
    }

    /// Edges on which no job goes for now.
    #[must_use]
    pub fn suspended(&self) -> &[(JobTypeId, ServerId)] {
        &self.suspended
    }

    /// Whether a server takes no job: its cap is 0, and no mere preference.
    fn is_down(&self, server: ServerId) -> bool {
        self.state.cap(server) == Some(0) && !self.spared.contains(&server)
    }

    /// Whether a server takes jobs of this type: up, or at a cap that is not 0, or [spared](Self::spare); by an edge that
    /// is not suspended.
    #[must_use]
    pub fn has_server_up(&self, job_type: JobTypeId) -> bool {
        if self.spared.is_empty() && !self.suspended.iter().any(|(of, _)| *of == job_type) {
            return self.state.has_server_up(job_type);
        }
        self.has_server_up_beside(job_type, &[])
    }

    /// The same of the servers that are not among these. O(degree).
    #[must_use]
    pub fn has_server_up_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool {
        self.has_server_beside(job_type, these, |server| !self.is_down(server))
    }

    /// The same, but servers that take jobs up to a cap only do not count, unless the cap is a [preference](Self::spare).
    /// O(degree).
    #[must_use]
    pub fn has_uncapped_server_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool {
        let is_free = |server| self.state.cap(server).is_none() || self.spared.contains(&server);
        self.has_server_beside(job_type, these, is_free)
    }

    fn has_server_beside(&self, job_type: JobTypeId, these: &[ServerId], takes: impl Fn(ServerId) -> bool) -> bool {
        let goes_to =
            |server| takes(server) && !these.contains(&server) && !self.suspended.contains(&(job_type, server));
        self.state.fleet().graph().any(job_type.index(), goes_to)
    }

    /// Starts waiting jobs wherever there is room, server by server in id order; those for which there is none, also
    /// beyond the caps of the servers that are spared.
    fn fill_all(&mut self, started: &mut Vec<Started<J>>) {
        if self.lines.is_empty() {
            return;
        }
        for server in self.state.fleet().servers() {
            while self.state.has_room(server)
                && let Some(job) = self.start_waiting(server)
            {
                started.push(job);
            }
        }
        let mut spared = self.spared.clone();
        spared.sort_unstable();
        spared.into_iter().for_each(|server| self.fill(server, started));
    }

    /// Jobs of this type that wait.
    #[must_use]
    pub fn waiting(&self, job_type: JobTypeId) -> usize {
        if self.waits { self.lines.waiting(job_type) } else { 0 }
    }

    /// The types of the jobs that wait; one may come more than once. O(those types + jobs that are back).
    #[must_use]
    pub fn job_types_in_line(&self) -> Vec<JobTypeId> {
        self.lines.job_types().collect()
    }

    /// Jobs that wait.
    #[must_use]
    pub fn waiting_total(&self) -> usize {
        self.lines.total()
    }

    /// Takes over counts, lines, caps (preferences or not) and suspended edges from the dispatcher of another fleet, job
    /// types and servers matched by the maps from old to new ids; then starts the waiting jobs for which there is room
    /// now. Returns the jobs started, and the waiting jobs that have no line here. `old` keeps neither lines nor jobs of
    /// servers it shares.
    pub(crate) fn take_over(&mut self, old: Handover<'_, J>) -> (Vec<Started<J>>, Vec<(Ticket, J)>) {
        for (server, jobs, cap) in old.servers {
            self.state.carry(server, jobs);
            self.state.set_cap(server, cap);
        }
        self.suspended = old.suspended;
        self.spared = old.spared;
        let size = self.state.fleet().settings().lines.size;
        let job_types = if self.waits { self.state.fleet().job_type_count() } else { 0 };
        let waits = self.waits;
        self.lines = old.lines;
        let job_type = |l: JobTypeId| if waits { old.job_types[l.index()] } else { None };
        let dropped = self.lines.renumber(job_types, size, job_type, |server| old.new_servers[server.index()]);
        let mut started = Vec::new();
        self.fill_all(&mut started);
        (started, dropped)
    }

    /// The lines, for another dispatcher: also empty ones, so that tickets stay unique across fleets.
    pub(crate) fn into_lines(self) -> Lines<J> {
        self.lines
    }
}

/// What one dispatcher hands to the next.
pub(crate) struct Handover<'a, J> {
    /// New id, jobs, cap, of each server that stays.
    pub(crate) servers: Vec<(ServerId, u32, Option<u32>)>,
    /// Suspended edges, by new ids.
    pub(crate) suspended: Vec<(JobTypeId, ServerId)>,
    /// Servers that are spared, by new ids.
    pub(crate) spared: Vec<ServerId>,
    pub(crate) lines: Lines<J>,
    /// Old job type -> new one.
    pub(crate) job_types: &'a [Option<JobTypeId>],
    /// Old server -> new one.
    pub(crate) new_servers: &'a [Option<ServerId>],
}
