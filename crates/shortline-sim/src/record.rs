//! What one replication counted since its warm-up, and the figures that follow from it.

use crate::histogram::Histogram;
use crate::response::ResponseLaw;

/// Counts of one replication.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) time_s: f64,
    pub(crate) job_types: Vec<TypeTally>,
    pub(crate) law: Law,
    /// By server type: time (in any unit) that a server of it has `i` jobs.
    pub(crate) occupancy: Vec<Vec<f64>>,
    /// Jobs that waited in front, times seconds.
    pub(crate) line_area_s: f64,
    /// Arrivals by how many idle servers they saw, where that is counted.
    pub(crate) idle: Option<Vec<u64>>,
}

impl Record {
    /// All of these, one after the other; `None` of nothing.
    pub(crate) fn pooled(records: &[Self]) -> Option<Self> {
        let (first, others) = records.split_first()?;
        let mut pooled = first.clone();
        for other in others {
            pooled.time_s += other.time_s;
            pooled.line_area_s += other.line_area_s;
            pooled.idle = None;
            for (sum, tally) in pooled.job_types.iter_mut().zip(&other.job_types) {
                sum.arrivals += tally.arrivals;
                sum.blocked += tally.blocked;
                sum.reneged += tally.reneged;
                sum.responses += tally.responses;
                sum.response_sum_s += tally.response_sum_s;
            }
            for (sum, times) in pooled.occupancy.iter_mut().zip(&other.occupancy) {
                sum.resize(sum.len().max(times.len()), 0.0);
                sum.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
            }
        }
        pooled.law = Law::pooled(records.iter().map(|record| &record.law))?;
        Some(pooled)
    }
}

/// Counts of one job type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypeTally {
    pub(crate) arrivals: u64,
    pub(crate) blocked: u64,
    pub(crate) reneged: u64,
    /// Jobs whose response time is known or expected, and the sum of those times.
    pub(crate) responses: u64,
    pub(crate) response_sum_s: f64,
}

/// The law of response times.
#[derive(Clone, Debug)]
pub(crate) enum Law {
    /// Expected from what jobs found.
    Counted(ResponseLaw),
    /// Measured.
    Measured(Measured),
}

/// Waiting and response times as measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) responses: Histogram,
    /// Jobs that started, of which some had to wait.
    pub(crate) started: u64,
    pub(crate) waited: u64,
    pub(crate) waiting_sum_s: f64,
    pub(crate) service_sum_s: f64,
}

impl Measured {
    fn add(&mut self, other: &Self) {
        self.responses.add_all(&other.responses);
        self.started += other.started;
        self.waited += other.waited;
        self.waiting_sum_s += other.waiting_sum_s;
        self.service_sum_s += other.service_sum_s;
    }
}

/// The law in sums over its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) jobs: f64,
    /// Jobs that did not start at once.
    pub(crate) waited: f64,
    pub(crate) waiting_s: f64,
    pub(crate) service_s: f64,
}

impl Law {
    /// Its sums.
    pub(crate) fn times(&self) -> Times {
        let (jobs, waited, waiting_s, service_s) = match self {
            Self::Counted(law) => (law.jobs(), law.waited(), law.waiting_sum_s(), law.service_sum_s()),
            Self::Measured(law) => (law.started, law.waited, law.waiting_sum_s, law.service_sum_s),
        };
        Times { jobs: jobs as f64, waited: waited as f64, waiting_s, service_s }
    }

    /// The law of the jobs of all these, which come from one engine; `None` of nothing.
    pub(crate) fn pooled<'a>(laws: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut laws = laws.into_iter();
        let mut pooled = laws.next()?.clone();
        for law in laws {
            match (&mut pooled, law) {
                (Self::Counted(pooled), Self::Counted(law)) => pooled.add(law),
                (Self::Measured(pooled), Self::Measured(law)) => pooled.add(law),
                _ => unreachable!("an engine either counts or measures"),
            }
        }
        Some(pooled)
    }

    /// The time that a share `q` of the jobs does not exceed; not a number without jobs.
    pub(crate) fn quantile_s(&self, q: f64) -> f64 {
        match self {
            Self::Counted(law) => law.quantile_s(q),
            Self::Measured(law) => law.responses.quantile(q),
        }
        .unwrap_or(f64::NAN)
    }

    /// The share of the jobs whose time is at most `t`; not a number without jobs.
    pub(crate) fn share_within(&self, t: f64) -> f64 {
        match self {
            Self::Counted(law) => law.share_within(t),
            Self::Measured(law) => 1.0 - law.responses.beyond(t) / law.responses.total() as f64,
        }
    }
}
