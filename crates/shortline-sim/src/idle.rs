//! How many of the fastest servers are idle: the law that arrivals see.
//!
//! Idle = with a free slot, of the servers of the first so many server types that hold a job type. An arrival sees the fleet as
//! it is at a random time (Wolff, 1982), so that the share of the arrivals that saw `i` idle servers is the probability of `i`.
//! One addition an event; none where nobody asks.

use crate::model::Model;

/// The count, and how often arrivals saw which.
#[derive(Debug)]
pub(crate) struct IdleLaw {
    /// Slots by server type, of the types that count.
    slots: Vec<usize>,
    idle: usize,
    /// Arrivals by the number of idle servers that they saw.
    seen: Vec<u64>,
}

impl IdleLaw {
    /// Of an empty fleet, if the model asks for it.
    pub(crate) fn new(model: &Model) -> Option<Box<Self>> {
        let types = model.idle_of_fastest?;
        let counted = || model.fleet.server_types().take(types);
        let idle = counted().map(|m| model.servers_with_work[m.index()]).sum();
        let slots = counted().map(|m| model.slots(m) as usize).collect();
        Some(Box::new(Self { slots, idle, seen: vec![0; idle + 1] }))
    }

    /// Something arrives.
    pub(crate) fn arrive(&mut self) {
        self.seen[self.idle] += 1;
    }

    /// A job joins a server of this type that had `found`.
    pub(crate) fn join(&mut self, server_type: usize, found: usize) {
        let takes_last_slot = self.slots.get(server_type).is_some_and(|&slots| found + 1 == slots);
        self.idle -= usize::from(takes_last_slot);
    }

    /// A job leaves a server of this type that had `jobs`.
    pub(crate) fn leave(&mut self, server_type: usize, jobs: usize) {
        let frees_a_slot = self.slots.get(server_type).is_some_and(|&slots| jobs == slots);
        self.idle += usize::from(frees_a_slot);
    }

    /// Forgets what was seen, not the state.
    pub(crate) fn forget(&mut self) {
        self.seen.fill(0);
    }

    /// Arrivals by what they saw.
    pub(crate) fn seen(&self) -> Vec<u64> {
        self.seen.clone()
    }
}
