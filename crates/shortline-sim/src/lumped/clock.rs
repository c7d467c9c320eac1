//! Ticks of a fleet of exchangeable servers: an arrival of a job type, or a potential completion at one of the servers
//! of a type, uniformly at random.
//!
//! Two tables make them, in the same law. *By type*: job types, then server types; what the draw leaves of the coin says
//! which of the servers. A few cells for any number of servers, for runs in which all policies are told by counts. *By
//! server*: the very ticks of [`markov`](crate::markov), so that a run of policies on both engines has one stream; a
//! server's number within its type is as good as a random one, since servers are only told by their number of jobs.

use std::sync::Arc;

use rand::Rng;
use shortline_core::alias::Alias;
use shortline_core::fleet::settings::Overflow;
use shortline_core::random::Generator;
use shortline_core::{ServerId, ServerTypeId};

use super::levels::Levels;
use super::narrow;
use crate::markov::Clock;
use crate::model::Model;
use crate::ticks::Ticks;

/// Cells of 16 bytes in 32 KiB.
const SMALL: usize = 1 << 11;

/// A tick.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tick {
    /// A job type, or the number of job types plus a server type.
    pub(crate) outcome: u32,
    /// Which server of the type; 0 for an arrival.
    pub(crate) server: u32,
}

/// Draws ticks; the same for all replications.
#[derive(Debug)]
pub(crate) struct LumpedClock {
    source: Source,
    /// Ticks per second.
    pub(crate) rate: f64,
    pub(crate) job_types: usize,
}

#[derive(Debug)]
enum Source {
    ByType { table: Alias, scales: Vec<Scale> },
    ByServer { clock: Arc<Clock>, ticks: Vec<Tick> },
}

/// Brings a number below a width down to a number of servers.
#[derive(Clone, Copy, Debug)]
struct Scale {
    factor: u64,
    shift: u32,
}

/// Whether the servers of each type are exchangeable: uniform rates, every job type on every server, equal buffers
/// within a type, and nobody waits in front.
pub(crate) fn is_exchangeable(model: &Model) -> bool {
    let fleet = &model.fleet;
    let countable = fleet.server_types().all(|m| fleet.servers_of_type(m).len() <= Levels::MOST_SERVERS);
    let everywhere = fleet.graph().distinct_row_count() == 1 && fleet.graph().has_full_rows();
    let equal_buffers = fleet.server_types().all(|m| {
        let mut buffers = fleet.servers_of_type(m).map(|r| fleet.buffer(ServerId::new(r)));
        let first = buffers.next();
        buffers.all(|buffer| Some(buffer) == first)
    });
    let no_lines = fleet.settings().overflow != Overflow::Wait;
    model.uniform_rates.is_some() && countable && everywhere && equal_buffers && no_lines
}

/// Whether a table of all servers is fast, since it stays in the nearest cache.
pub(crate) fn is_small(model: &Model) -> bool {
    model.fleet.server_count() + model.arrival_rates.len() <= SMALL
}

impl LumpedClock {
    /// A small table, for an exchangeable fleet.
    pub(crate) fn by_type(model: &Model) -> Self {
        let fleet = &model.fleet;
        let rates = model.uniform_rates.as_deref().expect("an exchangeable fleet is uniform");
        let servers = |m: ServerTypeId| narrow(fleet.servers_of_type(m).len());
        let mut weights = model.arrival_rates.clone();
        let rate = |m: ServerTypeId| f64::from(servers(m)) * f64::from(model.slots(m)) * rates[m.index()];
        weights.extend(fleet.server_types().map(rate));
        let job_types = model.arrival_rates.len();
        let table = Alias::new(&weights);
        let scale = |(outcome, width): (u32, u128)| match (outcome as usize).checked_sub(job_types) {
            Some(m) => Scale::new(servers(ServerTypeId::new(m)), width),
            None => Scale::new(1, width),
        };
        let scales = table.parts().map(scale).collect();
        Self { rate: weights.iter().sum(), source: Source::ByType { table, scales }, job_types }
    }

    /// The ticks of `clock`, for an exchangeable fleet.
    pub(crate) fn by_server(model: &Model, clock: Arc<Clock>) -> Self {
        let fleet = &model.fleet;
        let job_types = model.arrival_rates.len();
        let tick = |r: ServerId| {
            let server_type = fleet.server_type(r);
            let first = fleet.servers_of_type(server_type).start;
            Tick { outcome: narrow(job_types + server_type.index()), server: narrow(r.index() - first) }
        };
        let arrivals = (0..narrow(job_types)).map(|outcome| Tick { outcome, server: 0 });
        let ticks = arrivals.chain(fleet.servers().map(tick)).collect();
        Self { rate: clock.rate(), source: Source::ByServer { clock, ticks }, job_types }
    }

    /// Draws the next block of ticks, if the last one is used up; whether it did.
    #[inline(always)]
    pub(crate) fn draw(&self, block: &mut Ticks<Tick>) -> bool {
        match &self.source {
            Source::ByType { table, scales } => block.draw(|words| draw_by_type(table, scales, words)),
            Source::ByServer { clock, ticks } => block.draw(|words| ticks[clock.draw(words) as usize]),
        }
    }

    /// The same for servers of one type: notes a job type, or the number of job types plus the server.
    #[inline(always)]
    pub(crate) fn draw_numbers<T: Copy + Default>(&self, block: &mut Ticks<T>, note: impl Fn(u32) -> T) -> bool {
        let job_types = narrow(self.job_types);
        match &self.source {
            Source::ByType { table, scales } => block.draw(|words| {
                let tick = draw_by_type(table, scales, words);
                note(tick.outcome.min(job_types) + tick.server)
            }),
            Source::ByServer { clock, .. } => block.draw(|words| note(clock.draw(words))),
        }
    }
}

#[inline(always)]
fn draw_by_type(table: &Alias, scales: &[Scale], words: &mut Generator) -> Tick {
    let part = table.draw_part(words.next_u64());
    Tick { outcome: part.outcome, server: scales[part.number].down(part.rest) }
}

impl Scale {
    /// For numbers below `width <= 2^64`.
    fn new(servers: u32, width: u128) -> Self {
        // At least 1: a type without servers is never drawn, nor is a part without width.
        let (servers, width) = (u128::from(servers.max(1)), width.max(1));
        let (whole, rest) = ((servers << 64) / width, (servers << 64) % width);
        let Ok(whole) = u64::try_from(whole) else {
            // A width below the number of servers, met once in 2^32 draws or less: each number stands for itself.
            return Self { factor: u64::MAX, shift: 0 };
        };
        // All 64 bits of the quotient.
        let shift = whole.leading_zeros();
        Self { factor: whole << shift | ((rest << shift) / width) as u64, shift }
    }

    /// `floor(number * servers / width)` to 2^-63.
    #[inline(always)]
    fn down(self, number: u64) -> u32 {
        (((u128::from(number) * u128::from(self.factor)) >> 64) as u64 >> self.shift) as u32
    }
}
