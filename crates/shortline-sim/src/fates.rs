//! What may happen to a job under a policy: wait, be blocked, give up. What may not has probability 0 for certain, and not
//! because it was not seen, so that its interval is `[0, 0]`.
//!
//! Told from the fleet file alone; only servers with a job type that arrives count.
//!
//! - **In front** (`central`, `overflow = "wait"`) a job waits where the policy can find no place: always under `central`; else if
//!   a server is bounded, no server holds the type, or all servers of a type can be down together. It is blocked there if the line
//!   is bounded, and gives up if there is a timeout.
//! - **Without lines** the same jobs are blocked.
//! - **At a server** a job waits if the server takes more jobs than it has slots, first in first out; under processor
//!   sharing no job waits at a server.
//! - **Gateways** know their own jobs only: a server that can be sent more than it takes refuses, lines or not.
//! - **Old counts** send a job to a server that is full, or down, by now: without lines it is blocked.
//! - **Failures**: random ones bring every set of servers down together some day; listed ones those that are down at one
//!   time of the list.

use shortline_core::fleet::Fleet;
use shortline_core::fleet::settings::{Discipline, FailureEvent, Failures, Overflow};
use shortline_core::state::Places;
use shortline_core::{JobTypeId, ServerId};

/// What may happen to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fates {
    /// It waits before its service.
    pub(crate) waiting: bool,
    /// It finds no place.
    pub(crate) blocked: bool,
    /// It gives up waiting in front.
    pub(crate) reneged: bool,
}

impl Fates {
    /// Under a policy that looks for such places, on jobs of these types. O(edges).
    pub(crate) fn of(fleet: &Fleet, places: Places, arrives: impl Fn(JobTypeId) -> bool) -> Self {
        let settings = fleet.settings();
        let rows = Rows::new(fleet, arrives);
        let held = || fleet.servers().filter(|server| rows.is_held[server.index()]);
        let outage = Outage::of(fleet, &rows);
        let by_slots = places == Places::Slots;
        let in_front = by_slots || settings.overflow == Overflow::Wait;
        let is_bounded = held().any(|server| fleet.buffer(server).is_some());
        let finds_no_place = by_slots || is_bounded || rows.has_orphans || outage.of_all_servers;
        let gateways = u64::from(settings.information.gateways);
        let may_refuse = |server: ServerId| {
            fleet.buffer(server).is_some_and(|buffer| {
                let most = if by_slots { fleet.slots(server) } else { buffer };
                gateways * u64::from(most) > u64::from(buffer)
            })
        };
        let refused = gateways > 1 && held().any(may_refuse);
        let sent_to_one_that_is_down = settings.information.delay_s > 0.0 && outage.of_some_server;
        let waits_there = |server: ServerId| fleet.buffer(server).is_none_or(|buffer| buffer > fleet.slots(server));
        let waits_at_server = settings.service.discipline == Discipline::Fifo && held().any(waits_there);
        let lines = &settings.lines;
        Self {
            waiting: waits_at_server || (in_front && finds_no_place),
            blocked: if in_front {
                refused || (finds_no_place && lines.size.is_some())
            } else {
                finds_no_place || sent_to_one_that_is_down
            },
            reneged: in_front && finds_no_place && lines.timeout_s.is_some(),
        }
    }
}

/// The rows of the graph that matter: those of a job type that arrives.
struct Rows {
    /// A job type of each.
    job_types: Vec<JobTypeId>,
    is_held: Vec<bool>,
    /// A job type arrives that no server holds.
    has_orphans: bool,
}

impl Rows {
    fn new(fleet: &Fleet, arrives: impl Fn(JobTypeId) -> bool) -> Self {
        let graph = fleet.graph();
        let mut seen = vec![false; graph.distinct_row_count()];
        let mut is_held = vec![false; fleet.server_count()];
        let mut job_types = Vec::new();
        for l in fleet.job_types().filter(|&l| arrives(l)) {
            if !std::mem::replace(&mut seen[graph.row_number(l.index())], true) {
                graph.for_each(l.index(), |server| is_held[server.index()] = true);
                job_types.push(l);
            }
        }
        let has_orphans = job_types.iter().any(|l| graph.degree(l.index()) == 0);
        Self { job_types, is_held, has_orphans }
    }
}

/// Which servers may be down.
struct Outage {
    of_some_server: bool,
    /// All that hold some job type, together.
    of_all_servers: bool,
}

impl Outage {
    fn of(fleet: &Fleet, rows: &Rows) -> Self {
        match &fleet.settings().failures {
            None => Self { of_some_server: false, of_all_servers: false },
            Some(Failures::Random { .. }) => Self { of_some_server: true, of_all_servers: true },
            Some(Failures::Events(events)) => Self::listed(fleet, rows, events),
        }
    }

    fn listed(fleet: &Fleet, rows: &Rows, events: &[FailureEvent]) -> Self {
        let mut is_up = vec![true; fleet.server_count()];
        let mut is_named = vec![false; fleet.server_count()];
        let server_of = |event: &FailureEvent| fleet.server_at_file_index(event.server);
        events.iter().for_each(|event| is_named[server_of(event).index()] = true);
        // Of each row, how many servers are up; of each server that is named, the rows it is in.
        let mut up: Vec<usize> = rows.job_types.iter().map(|l| fleet.graph().degree(l.index())).collect();
        let mut rows_of = vec![Vec::new(); fleet.server_count()];
        for (row, l) in rows.job_types.iter().enumerate() {
            fleet.graph().for_each(l.index(), |server| {
                if is_named[server.index()] {
                    rows_of[server.index()].push(row);
                }
            });
        }
        let mut found = Self { of_some_server: false, of_all_servers: false };
        for event in events {
            let server = server_of(event).index();
            if std::mem::replace(&mut is_up[server], event.up) == event.up {
                continue;
            }
            for &row in &rows_of[server] {
                up[row] = if event.up { up[row] + 1 } else { up[row] - 1 };
                found.of_all_servers |= up[row] == 0;
                found.of_some_server |= !event.up;
            }
        }
        found
    }
}
