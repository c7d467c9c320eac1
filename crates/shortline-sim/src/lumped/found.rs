//! What equal servers' ticks found: one number a tick, from which everything of the report follows.

use super::equal::capacity;
use super::heights::HEAD;
use crate::model::Model;
use crate::record::{Law, Record, TypeTally};
use crate::response::{self, ResponseLaw};

/// Ticks by what they were and how many jobs their server had: a row a job type, and a last one for servers' own ticks.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) ticks: u64,
    /// Up to [`HEAD`] jobs; in the last place all with so many or more.
    rows: Vec<[u64; HEAD + 1]>,
    /// By jobs beyond [`HEAD`].
    deep: Vec<Vec<u64>>,
}

impl Found {
    pub(crate) fn new(rows: usize) -> Self {
        Self { ticks: 0, rows: vec![[0; HEAD + 1]; rows], deep: vec![Vec::new(); rows] }
    }

    /// Sets all counts to 0.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.rows.len());
    }

    /// A tick whose server had `jobs`, or [`HEAD`] and more.
    #[inline(always)]
    pub(crate) fn add(&mut self, row: u32, jobs: usize) {
        self.rows[row as usize][jobs] += 1;
    }

    /// That tick's server had so many jobs beyond [`HEAD`].
    #[inline(never)]
    pub(crate) fn add_deep(&mut self, row: u32, beyond: usize) {
        let counts = &mut self.deep[row as usize];
        if beyond >= counts.len() {
            counts.resize(beyond + 1, 0);
        }
        counts[beyond] += 1;
    }

    /// Ticks of servers without jobs: those that are no events.
    #[inline(always)]
    pub(crate) fn idle_ticks(&self) -> u64 {
        self.rows.last().map_or(0, |row| row[0])
    }

    /// The counts as a record; ticks come at `tick_rate`.
    pub(crate) fn record(&self, model: &Model, tick_rate: f64) -> Record {
        let (fleet, capacity) = (&model.fleet, capacity(&model.fleet));
        let rates = model.uniform_rates.as_deref().expect("equal servers are uniform");
        let server_type = fleet.server_type(fleet.servers().next().expect("a fleet has a server"));
        let rate = rates[server_type.index()];
        let rows = self.rows.iter().zip(&self.deep).map(|(row, deep)| [&row[..HEAD], deep].concat());
        let mut rows: Vec<Vec<u64>> = rows.collect();
        let seen = rows.pop().expect("servers have a row");
        let mut all = Vec::new();
        let tally = |row: &Vec<u64>| {
            // A job that found a full server was blocked.
            let (joined, blocked) = row.split_at(capacity.min(row.len()));
            all.resize(joined.len().max(all.len()), 0);
            all.iter_mut().zip(joined).for_each(|(all, jobs)| *all += jobs);
            let response_s = |(found, &jobs): (usize, &u64)| jobs as f64 * response::mean_s(found, rate, 1);
            let (responses, blocked): (u64, u64) = (joined.iter().sum(), blocked.iter().sum());
            let response_sum_s = joined.iter().enumerate().map(response_s).sum();
            TypeTally { arrivals: responses + blocked, blocked, reneged: 0, responses, response_sum_s }
        };
        let job_types = rows.iter().map(tally).collect();
        let mut law = ResponseLaw::default();
        law.push(rate, 1, all);
        let seen: Vec<f64> = seen.iter().map(|&ticks| ticks as f64).collect();
        let occupancy = |m| if m == server_type { seen.clone() } else { Vec::new() };
        Record {
            time_s: self.ticks as f64 / tick_rate,
            job_types,
            law: Law::Counted(law),
            occupancy: fleet.server_types().map(occupancy).collect(),
            line_area_s: 0.0,
            idle: None,
        }
    }
}
