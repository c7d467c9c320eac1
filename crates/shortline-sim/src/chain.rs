//! What the statistics see of an engine: a chain that runs on, and a record of what it counted.

use std::fmt::Debug;

use rand::SeedableRng;
use shortline_core::random::Generator;

use crate::record::Record;

/// One replication of one policy, on whatever engine.
pub(crate) trait Chain: Debug + Send {
    /// Runs until this many more events (arrivals, departures) have happened, but hardly longer than so many ticks of the
    /// clock: where jobs are rare, most ticks are no events. Returns the number of events that happened. How often it is
    /// called, and with what, changes nothing of what happens.
    fn run(&mut self, events: u64, ticks: u64) -> u64;
    /// Forgets what was counted, not the state: the end of the warm-up.
    fn forget(&mut self);
    /// How far it is, warm-up included.
    fn progress(&self) -> Progress;
    /// Visits the servers: a number of jobs, and how many servers have it (in any portions).
    fn jobs_at_servers(&self, visit: &mut dyn FnMut(u64, u64));
    /// Visits the length of each line in front (empty ones may be left out).
    fn lines(&self, visit: &mut dyn FnMut(u64));
    /// What was counted since the warm-up.
    fn record(&self) -> Record;
}

/// A replication that can be looked at when the time comes.
pub(crate) trait Walk: Send {
    /// Runs until this time, or until `is_stopped` says so, which now and then is told how many events there were since it was
    /// told last.
    fn run_until(&mut self, time_s: f64, is_stopped: &dyn Fn(u64) -> bool);
    /// Visits the servers: index of the server type, and number of jobs.
    fn servers(&self, visit: &mut dyn FnMut(usize, usize));
    /// Jobs that wait in front.
    fn waiting(&self) -> u64;
}

/// How far a chain is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) events: u64,
    pub(crate) time_s: f64,
}

/// The random streams of one replication. What depends on the policy has a
/// stream of its own, so that all policies meet the same ticks.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// Which clock ticks next: one word a tick, whatever the policy.
    pub(crate) ticks: Generator,
    /// Everything that depends on the policy.
    pub(crate) choices: Generator,
    /// Times, where they are drawn; sizes, where jobs have one.
    pub(crate) gaps: Generator,
    /// Which servers fail, and when.
    pub(crate) failures: Generator,
}

impl Streams {
    /// The streams of replication number `replication` of a run with this seed.
    pub(crate) fn new(seed: u64, replication: u64) -> Self {
        let stream = |name: u64| Generator::seed_from_u64(mix(mix(mix(seed) ^ replication) ^ name));
        Self { ticks: stream(1), choices: stream(2), gaps: stream(3), failures: stream(4) }
    }
}

impl Streams {
    /// The streams of a path of recorded jobs. The choices are those of a gateway with this seed.
    pub(crate) fn of_path(seed: u64) -> Self {
        Self { choices: Generator::seed_from_u64(seed), ..Self::new(seed, 0) }
    }
}

/// A bijection that spreads neighbouring numbers: the finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
