//! The dispatcher of a running gateway: any policy behind one type, servers named by stable keys, the fleet
//! exchangeable under way.
//!
//! A request in flight holds a [`ServerKey`]; it stays valid when the fleet is exchanged, also when its server was
//! removed, and when a server of that name comes back it finds its count again. An exchange is prepared beside the
//! running dispatcher ([`LiveDispatcher::prepare`]) and then only carried out ([`LiveDispatcher::migrate`]): counts,
//! lines, caps and suspended edges are taken over by name.

use std::fmt;
use std::sync::Arc;

use crate::dispatcher::{Blocked, Decision, Dispatcher, Handover, Started};
use crate::fleet::Fleet;
use crate::ids::{JobTypeId, ServerId};
use crate::lines::{Arrival, Lines, Ticket};
use crate::policy::{Policy, PolicyError, PolicySpec, PolicyVisitor, with_policy};
use crate::random::Generator;

/// Names a server for as long as a job is there, whatever happens to the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServerKey {
    index: u32,
    generation: u32,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routed {
    /// It is at a server.
    Joined(Joined),
    /// It waits in the line of its type.
    Waiting(Ticket),
    /// It is refused.
    Blocked(Blocked),
}

/// Where a request went, and why there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The server, in the fleet of this moment.
    pub server: ServerId,
    /// The server, to be handed back to [`LiveDispatcher::complete`].
    pub key: ServerKey,
    /// What it found there.
    pub kind: JoinKind,
    /// When it was decided, for [`LiveDispatcher::come_back`].
    pub arrival: Arrival,
}

/// What a job found at its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    /// A free slot at one of the fastest servers that hold its type.
    IdleFastest,
    /// A free slot at a slower one.
    IdleSlower,
    /// No free slot: it waits at the server.
    Queued,
}

/// A request that waited and is now at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartedLive<J> {
    /// The job started.
    pub job: Started<J>,
    /// The server, to be handed back to [`LiveDispatcher::complete`].
    pub key: ServerKey,
}

/// What an exchange of the fleet did to the waiting jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migrated<J> {
    /// Jobs for which there is room now.
    pub started: Vec<StartedLive<J>>,
    /// Jobs whose type is no more, or whose fleet has no lines.
    pub dropped: Vec<(Ticket, J)>,
}

/// A new fleet with its empty dispatcher, ready to take over.
pub struct Prepared<J> {
    from: Arc<Fleet>,
    policy: PolicySpec,
    dispatcher: Box<dyn Dispatch<J>>,
    /// Old id -> new id.
    servers: Vec<Option<ServerId>>,
    job_types: Vec<Option<JobTypeId>>,
}

impl<J> fmt::Debug for Prepared<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// The dispatcher of a running gateway.
pub struct LiveDispatcher<J> {
    policy: PolicySpec,
    dispatcher: Box<dyn Dispatch<J>>,
    epoch: u64,
    entries: Vec<Entry>,
    free: Vec<u32>,
    entry_of: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    generation: u32,
    place: Place,
}

/// Where the server behind a key is.
#[derive(Debug)]
enum Place {
    InFleet(ServerId),
    /// Removed from the fleet, with jobs that still run.
    Removed {
        name: String,
        jobs: u32,
        cap: Option<u32>,
        is_spared: bool,
    },
    Free,
}

impl<J> fmt::Debug for LiveDispatcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveDispatcher")
            .field("policy", &self.policy)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<J: Send + 'static> LiveDispatcher<J> {
    /// All servers up and empty.
    ///
    /// # Errors
    /// [`PolicyError`] if the policy cannot be used with the fleet.
    pub fn new(fleet: Arc<Fleet>, policy: PolicySpec) -> Result<Self, PolicyError> {
        let dispatcher = boxed(fleet, policy)?;
        let servers = dispatcher.fleet().server_count();
        Ok(Self {
            policy,
            entries: (0..servers).map(|i| Entry { generation: 0, place: Place::InFleet(ServerId::new(i)) }).collect(),
            free: Vec::new(),
            entry_of: (0..servers).map(|i| u32::try_from(i).expect("fewer than 2^32 servers")).collect(),
            dispatcher,
            epoch: 0,
        })
    }

    /// The fleet of this moment.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        self.dispatcher.fleet()
    }

    /// Number of exchanges of the fleet so far: ids of one epoch mean nothing in another.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> PolicySpec {
        self.policy
    }

    /// Decides about a request; `job` is called if it has to wait. By the edges that are not suspended.
    pub fn route(&mut self, job_type: JobTypeId, job: impl FnOnce() -> J, rng: &mut Generator) -> Routed {
        let mut job = Some(job);
        let mut make = || (job.take().expect("a job waits once"))();
        match self.dispatcher.route(job_type, &mut make, rng) {
            Decision::Joined(server) => Routed::Joined(self.joined(job_type, server)),
            Decision::Waiting(ticket) => Routed::Waiting(ticket),
            Decision::Blocked(blocked) => Routed::Blocked(blocked),
        }
    }

    /// Decides about a request that may not go (back) to these servers (see [`Dispatcher::route_avoiding`]). Keys of
    /// servers that are no longer in the fleet avoid nothing.
    pub fn route_avoiding(&mut self, job_type: JobTypeId, avoid: &[ServerKey], rng: &mut Generator) -> Option<Joined> {
        let avoid: Vec<ServerId> = avoid.iter().filter_map(|&key| self.find(key)).collect();
        let server = self.dispatcher.route_avoiding(job_type, &avoid, rng)?;
        Some(self.joined(job_type, server))
    }

    fn joined(&mut self, job_type: JobTypeId, server: ServerId) -> Joined {
        let arrival = self.dispatcher.arrival();
        Joined { server, key: self.key(server), kind: self.dispatcher.join_kind(job_type, server), arrival }
    }

    /// A request that was at these servers in vain, and for which there is no place at another one, waits for one, at its
    /// age; `job` is called if it does (see [`Dispatcher::come_back`]).
    ///
    /// # Errors
    /// Why it does not wait: requests do not wait here, and the other servers are full, or none is up.
    pub fn come_back(
        &mut self,
        job_type: JobTypeId,
        arrival: Arrival,
        avoid: &[ServerKey],
        job: impl FnOnce() -> J,
    ) -> Result<Ticket, Blocked> {
        let avoid = avoid.iter().filter_map(|&key| self.find(key)).collect();
        let mut job = Some(job);
        let mut make = || (job.take().expect("a job waits once"))();
        match self.dispatcher.come_back(job_type, arrival, avoid, &mut make) {
            Decision::Waiting(ticket) => Ok(ticket),
            Decision::Blocked(blocked) => Err(blocked),
            Decision::Joined(_) => unreachable!("what comes back waits or is blocked"),
        }
    }

    /// A request has left its server, in whatever way. The place it frees may start a waiting one.
    ///
    /// # Panics
    /// If the key is used again after its job has left.
    pub fn complete(&mut self, key: ServerKey) -> Option<StartedLive<J>> {
        let entry = &mut self.entries[key.index as usize];
        assert_eq!(entry.generation, key.generation, "a job leaves its server once");
        match &mut entry.place {
            Place::InFleet(server) => {
                let started = self.dispatcher.complete(*server)?;
                Some(self.with_key(started))
            }
            Place::Removed { jobs, .. } => {
                *jobs -= 1;
                if *jobs == 0 {
                    self.release(key.index);
                }
                None
            }
            Place::Free => panic!("a job leaves its server once"),
        }
    }

    /// A waiting request gives up. `None`: it does not wait any more, a server has it.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<J> {
        self.dispatcher.cancel(ticket)
    }

    /// Takes a server up or down; either may start waiting requests (see [`Dispatcher::set_up`]).
    pub fn set_up(&mut self, server: ServerId, up: bool) -> Vec<StartedLive<J>> {
        self.set_cap(server, if up { None } else { Some(0) })
    }

    /// From `cap` jobs on a server counts as down; any change may start waiting requests (see [`Dispatcher::set_cap`]).
    pub fn set_cap(&mut self, server: ServerId, cap: Option<u32>) -> Vec<StartedLive<J>> {
        self.dispatcher.set_cap(server, cap).into_iter().map(|started| self.with_key(started)).collect()
    }

    /// From `cap` jobs on a server gets none for which there is a place elsewhere (see [`Dispatcher::spare`]).
    pub fn spare(&mut self, server: ServerId, cap: u32) -> Vec<StartedLive<J>> {
        self.dispatcher.spare(server, cap).into_iter().map(|started| self.with_key(started)).collect()
    }

    /// Jobs from which on a server counts as down, or is spared; 0 = it is down, unless it is spared.
    #[must_use]
    pub fn cap(&self, server: ServerId) -> Option<u32> {
        self.dispatcher.cap(server)
    }

    /// No request of this type goes to this server for now; may start waiting requests elsewhere (see
    /// [`Dispatcher::suspend`]).
    pub fn suspend(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<StartedLive<J>> {
        self.dispatcher.suspend(job_type, server).into_iter().map(|started| self.with_key(started)).collect()
    }

    /// Requests of this type go to this server again (see [`Dispatcher::resume`]).
    pub fn resume(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<StartedLive<J>> {
        self.dispatcher.resume(job_type, server).into_iter().map(|started| self.with_key(started)).collect()
    }

    /// Edges on which no request goes for now.
    #[must_use]
    pub fn suspended(&self) -> &[(JobTypeId, ServerId)] {
        self.dispatcher.suspended()
    }

    /// Jobs at a server, those in service included.
    #[must_use]
    pub fn jobs(&self, server: ServerId) -> u32 {
        self.dispatcher.jobs(server)
    }

    /// Jobs at a server beyond its slots.
    #[must_use]
    pub fn waiting_at(&self, server: ServerId) -> u32 {
        self.jobs(server).saturating_sub(self.fleet().slots(server))
    }

    /// Whether a server is up.
    #[must_use]
    pub fn is_up(&self, server: ServerId) -> bool {
        self.dispatcher.is_up(server)
    }

    /// Whether some server takes requests of this type (see [`Dispatcher::has_server_up`]).
    #[must_use]
    pub fn has_server_up(&self, job_type: JobTypeId) -> bool {
        self.dispatcher.has_server_up(job_type)
    }

    /// Whether some server beside these takes requests of this type. Keys of servers that are no longer in the fleet leave
    /// nothing out.
    #[must_use]
    pub fn has_server_up_beside(&self, job_type: JobTypeId, these: &[ServerKey]) -> bool {
        let these: Vec<ServerId> = these.iter().filter_map(|&key| self.find(key)).collect();
        self.dispatcher.has_server_up_beside(job_type, &these)
    }

    /// The same of servers that take requests without a cap, or with one that is a preference only (see
    /// [`Dispatcher::has_uncapped_server_beside`]).
    #[must_use]
    pub fn has_uncapped_server_beside(&self, job_type: JobTypeId, these: &[ServerKey]) -> bool {
        let these: Vec<ServerId> = these.iter().filter_map(|&key| self.find(key)).collect();
        self.dispatcher.has_uncapped_server_beside(job_type, &these)
    }

    /// The types of the requests that wait in line; one may come more than once (see
    /// [`Dispatcher::job_types_in_line`]).
    #[must_use]
    pub fn job_types_in_line(&self) -> Vec<JobTypeId> {
        self.dispatcher.job_types_in_line()
    }

    /// Requests of this type that wait in line.
    #[must_use]
    pub fn waiting(&self, job_type: JobTypeId) -> usize {
        self.dispatcher.waiting(job_type)
    }

    /// Requests that wait in line.
    #[must_use]
    pub fn waiting_total(&self) -> usize {
        self.dispatcher.waiting_total()
    }

    /// Jobs that still run at servers that are no longer in the fleet.
    #[must_use]
    pub fn jobs_at_removed_servers(&self) -> u64 {
        let jobs = |entry: &Entry| match entry.place {
            Place::Removed { jobs, .. } => u64::from(jobs),
            Place::InFleet(_) | Place::Free => 0,
        };
        self.entries.iter().map(jobs).sum()
    }

    /// The stable key of a server.
    #[must_use]
    pub fn key(&self, server: ServerId) -> ServerKey {
        let index = self.entry_of[server.index()];
        ServerKey { index, generation: self.entries[index as usize].generation }
    }

    /// The server behind a key, if it is in the fleet of this moment.
    #[must_use]
    pub fn find(&self, key: ServerKey) -> Option<ServerId> {
        match self.entries.get(key.index as usize) {
            Some(Entry { generation, place: Place::InFleet(server) }) if *generation == key.generation => Some(*server),
            _ => None,
        }
    }

    /// Builds the dispatcher of a new fleet beside the running one of `from`: the part of an exchange that takes
    /// time. O(servers + job types + edges).
    ///
    /// # Errors
    /// [`PolicyError`] if the policy cannot be used with the new fleet.
    pub fn prepare(from: &Arc<Fleet>, to: Arc<Fleet>, policy: PolicySpec) -> Result<Prepared<J>, PolicyError> {
        let servers = from.servers().map(|server| to.find_server(&from.server_name(server))).collect();
        let job_types = from.job_types().map(|l| to.find_job_type(&from.job_type_name(l))).collect();
        Ok(Prepared { from: Arc::clone(from), policy, dispatcher: boxed(to, policy)?, servers, job_types })
    }

    /// Exchanges the fleet: counts, lines, caps (preferences or not) and suspended edges are carried over by name.
    /// O(servers + waiting jobs).
    ///
    /// # Panics
    /// If `prepared` was prepared from another fleet than the running one.
    pub fn migrate(&mut self, prepared: Prepared<J>) -> Migrated<J> {
        assert!(Arc::ptr_eq(&prepared.from, self.fleet()), "prepare an exchange from the fleet that is running");
        let old = std::mem::replace(&mut self.dispatcher, prepared.dispatcher);
        let old_entry_of = std::mem::take(&mut self.entry_of);
        let new_count = self.dispatcher.fleet().server_count();
        let mut entry_of: Vec<Option<u32>> = vec![None; new_count];
        let mut carried = Vec::with_capacity(new_count);

        for (r, new) in prepared.servers.iter().enumerate() {
            let (server, index) = (ServerId::new(r), old_entry_of[r]);
            match new {
                Some(new) => {
                    self.entries[index as usize].place = Place::InFleet(*new);
                    entry_of[new.index()] = Some(index);
                    carried.push((*new, old.jobs(server), old.cap(server)));
                }
                None if old.jobs(server) == 0 => self.release(index),
                None => {
                    let name = prepared.from.server_name(server);
                    let (jobs, cap, is_spared) = (old.jobs(server), old.cap(server), old.spared().contains(&server));
                    self.entries[index as usize].place = Place::Removed { name, jobs, cap, is_spared };
                }
            }
        }
        let mut spared: Vec<ServerId> =
            old.spared().iter().filter_map(|server| prepared.servers[server.index()]).collect();
        // A server that was removed with running jobs and is back now finds them again.
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Place::Removed { name, jobs, cap, is_spared } = &entry.place
                && let Some(new) = self.dispatcher.fleet().find_server(name)
                && entry_of[new.index()].is_none()
            {
                carried.push((new, *jobs, *cap));
                spared.extend(is_spared.then_some(new));
                entry.place = Place::InFleet(new);
                entry_of[new.index()] = Some(u32::try_from(index).expect("entries are numbered in 32 bits"));
            }
        }
        self.entry_of = entry_of
            .into_iter()
            .enumerate()
            .map(|(r, entry)| entry.unwrap_or_else(|| self.new_entry(ServerId::new(r))))
            .collect();
        self.policy = prepared.policy;
        self.epoch += 1;
        let both = |&(l, r): &(JobTypeId, ServerId)| prepared.job_types[l.index()].zip(prepared.servers[r.index()]);
        let handover = Handover {
            servers: carried,
            suspended: old.suspended().iter().filter_map(both).collect(),
            spared,
            lines: old.into_lines(),
            job_types: &prepared.job_types,
            new_servers: &prepared.servers,
        };
        let (started, dropped) = self.dispatcher.take_over(handover);
        Migrated { started: started.into_iter().map(|started| self.with_key(started)).collect(), dropped }
    }

    fn with_key(&self, job: Started<J>) -> StartedLive<J> {
        StartedLive { key: self.key(job.server), job }
    }

    fn new_entry(&mut self, server: ServerId) -> u32 {
        let place = Place::InFleet(server);
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize].place = place;
                index
            }
            None => {
                self.entries.push(Entry { generation: 0, place });
                u32::try_from(self.entries.len() - 1).expect("entries are numbered in 32 bits")
            }
        }
    }

    fn release(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.place = Place::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
    }
}

/// [`Dispatcher`] behind a pointer: one indirect call a decision.
trait Dispatch<J>: Send {
    fn fleet(&self) -> &Arc<Fleet>;
    fn route(&mut self, job_type: JobTypeId, job: &mut dyn FnMut() -> J, rng: &mut Generator) -> Decision;
    fn route_avoiding(&mut self, job_type: JobTypeId, avoid: &[ServerId], rng: &mut Generator) -> Option<ServerId>;
    fn arrival(&mut self) -> Arrival;
    fn come_back(
        &mut self,
        job_type: JobTypeId,
        arrival: Arrival,
        avoid: Vec<ServerId>,
        job: &mut dyn FnMut() -> J,
    ) -> Decision;
    fn join_kind(&self, job_type: JobTypeId, server: ServerId) -> JoinKind;
    fn complete(&mut self, server: ServerId) -> Option<Started<J>>;
    fn cancel(&mut self, ticket: Ticket) -> Option<J>;
    fn set_cap(&mut self, server: ServerId, cap: Option<u32>) -> Vec<Started<J>>;
    fn spare(&mut self, server: ServerId, cap: u32) -> Vec<Started<J>>;
    fn spared(&self) -> &[ServerId];
    fn cap(&self, server: ServerId) -> Option<u32>;
    fn suspend(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>>;
    fn resume(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>>;
    fn suspended(&self) -> &[(JobTypeId, ServerId)];
    fn jobs(&self, server: ServerId) -> u32;
    fn is_up(&self, server: ServerId) -> bool;
    fn has_server_up(&self, job_type: JobTypeId) -> bool;
    fn has_server_up_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool;
    fn has_uncapped_server_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool;
    fn job_types_in_line(&self) -> Vec<JobTypeId>;
    fn waiting(&self, job_type: JobTypeId) -> usize;
    fn waiting_total(&self) -> usize;
    fn into_lines(self: Box<Self>) -> Lines<J>;
    fn take_over(&mut self, old: Handover<'_, J>) -> (Vec<Started<J>>, Vec<(Ticket, J)>);
}

impl<P: Policy, J: Send> Dispatch<J> for Dispatcher<P, J> {
    fn fleet(&self) -> &Arc<Fleet> {
        self.state().fleet()
    }

    fn route(&mut self, job_type: JobTypeId, job: &mut dyn FnMut() -> J, rng: &mut Generator) -> Decision {
        self.route_unsuspended(job_type, job, rng)
    }

    fn route_avoiding(&mut self, job_type: JobTypeId, avoid: &[ServerId], rng: &mut Generator) -> Option<ServerId> {
        self.route_avoiding(job_type, avoid, rng)
    }

    fn arrival(&mut self) -> Arrival {
        self.arrival()
    }

    fn come_back(
        &mut self,
        job_type: JobTypeId,
        arrival: Arrival,
        avoid: Vec<ServerId>,
        job: &mut dyn FnMut() -> J,
    ) -> Decision {
        self.come_back(job_type, arrival, avoid, job)
    }

    fn join_kind(&self, job_type: JobTypeId, server: ServerId) -> JoinKind {
        let state = self.state();
        if state.jobs(server) > state.fleet().slots(server) {
            JoinKind::Queued
        } else if state.is_fastest(job_type, server) {
            JoinKind::IdleFastest
        } else {
            JoinKind::IdleSlower
        }
    }

    fn complete(&mut self, server: ServerId) -> Option<Started<J>> {
        self.complete(server)
    }

    fn cancel(&mut self, ticket: Ticket) -> Option<J> {
        self.cancel(ticket)
    }

    fn set_cap(&mut self, server: ServerId, cap: Option<u32>) -> Vec<Started<J>> {
        self.set_cap(server, cap)
    }

    fn spare(&mut self, server: ServerId, cap: u32) -> Vec<Started<J>> {
        self.spare(server, cap)
    }

    fn spared(&self) -> &[ServerId] {
        self.spared()
    }

    fn cap(&self, server: ServerId) -> Option<u32> {
        self.state().cap(server)
    }

    fn suspend(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>> {
        self.suspend(job_type, server)
    }

    fn resume(&mut self, job_type: JobTypeId, server: ServerId) -> Vec<Started<J>> {
        self.resume(job_type, server)
    }

    fn suspended(&self) -> &[(JobTypeId, ServerId)] {
        self.suspended()
    }

    fn jobs(&self, server: ServerId) -> u32 {
        self.state().jobs(server)
    }

    fn is_up(&self, server: ServerId) -> bool {
        self.state().is_up(server)
    }

    fn has_server_up(&self, job_type: JobTypeId) -> bool {
        self.has_server_up(job_type)
    }

    fn has_server_up_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool {
        self.has_server_up_beside(job_type, these)
    }

    fn has_uncapped_server_beside(&self, job_type: JobTypeId, these: &[ServerId]) -> bool {
        self.has_uncapped_server_beside(job_type, these)
    }

    fn job_types_in_line(&self) -> Vec<JobTypeId> {
        self.job_types_in_line()
    }

    fn waiting(&self, job_type: JobTypeId) -> usize {
        self.waiting(job_type)
    }

    fn waiting_total(&self) -> usize {
        self.waiting_total()
    }

    fn into_lines(self: Box<Self>) -> Lines<J> {
        (*self).into_lines()
    }

    fn take_over(&mut self, old: Handover<'_, J>) -> (Vec<Started<J>>, Vec<(Ticket, J)>) {
        self.take_over(old)
    }
}

fn boxed<J: Send + 'static>(fleet: Arc<Fleet>, policy: PolicySpec) -> Result<Box<dyn Dispatch<J>>, PolicyError> {
    struct Boxed<J>(Arc<Fleet>, std::marker::PhantomData<J>);

    impl<J: Send + 'static> PolicyVisitor for Boxed<J> {
        type Output = Box<dyn Dispatch<J>>;

        fn visit<P: Policy>(self, policy: P) -> Self::Output {
            Box::new(Dispatcher::<P, J>::new(self.0, policy))
        }
    }

    with_policy(policy, &fleet, Boxed(Arc::clone(&fleet), std::marker::PhantomData))
}
