//! What is kept of each answer while a replay runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use http::StatusCode;
use shortline_core::{Fleet, JobTypeId};

/// Different reasons for aborted requests that are told apart; further ones are "other reasons".
const MOST_REASONS: usize = 20;

/// Lags are recorded up to an hour, to about 1 %.
const LONGEST_LAG_NS: u64 = 3_600_000_000_000;

/// How a request ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With an answer, complete.
    Status {
        status: StatusCode,
        /// The server that the answer names.
        server: Option<String>,
    },
    /// Without a complete answer, for this reason.
    Aborted(String),
}

/// When a request ended.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) number: u64,
    pub(super) job_type: u32,
    pub(super) size: Option<f64>,
    /// From the intended to the real time of sending.
    pub(super) lag: Duration,
    /// From the intended time of sending to the end of the answer.
    pub(super) response: Duration,
    /// From the start of the replay to the end of the answer.
    pub(super) ended_after: Duration,
}

/// A request answered with 200.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) number: u64,
    pub(super) job_type: u32,
    pub(super) response_s: f64,
}

/// Sent and answered requests of one job type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobTypeCount {
    pub(super) ended: u64,
    pub(super) ok: u64,
    /// Sum of the sizes sent with the requests answered by 200; NaN when sizes are not known.
    pub(super) ok_size: f64,
}

/// Everything that is measured.
#[derive(Debug)]
pub(super) struct Record {
    fleet: Option<Arc<Fleet>>,
    in_fleet: Vec<Option<JobTypeId>>,
    pub(super) samples: Vec<Sample>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) aborted: BTreeMap<String, u64>,
    pub(super) job_types: Vec<JobTypeCount>,
    /// Answers 200 by server, and those that name no server of the fleet.
    pub(super) by_server: Vec<u64>,
    pub(super) by_unknown_server: u64,
    /// Answers of any status from a server that does not hold the job type.
    pub(super) misrouted: u64,
    /// In nanoseconds.
    pub(super) lag: Histogram<u64>,
    pub(super) from_send_sum_s: f64,
    pub(super) last_ended_after: Duration,
}

impl Default for Record {
    fn default() -> Self {
        Self::new(0, None, Vec::new())
    }
}

impl Record {
    pub(super) fn new(job_types: usize, fleet: Option<Arc<Fleet>>, in_fleet: Vec<Option<JobTypeId>>) -> Self {
        let servers = fleet.as_ref().map_or(0, |fleet| fleet.server_count());
        Self {
            fleet,
            in_fleet,
            samples: Vec::new(),
            statuses: BTreeMap::new(),
            aborted: BTreeMap::new(),
            job_types: vec![JobTypeCount::default(); job_types],
            by_server: vec![0; servers],
            by_unknown_server: 0,
            misrouted: 0,
            lag: Histogram::new_with_bounds(1, LONGEST_LAG_NS, 2).expect("1 ns to an hour are bounds"),
            from_send_sum_s: 0.0,
            last_ended_after: Duration::ZERO,
        }
    }

    pub(super) fn note(&mut self, answered: &Answered, outcome: Outcome) {
        let count = &mut self.job_types[answered.job_type as usize];
        count.ended += 1;
        let lag_ns = u64::try_from(answered.lag.as_nanos()).unwrap_or(u64::MAX);
        self.lag.saturating_record(lag_ns.clamp(1, LONGEST_LAG_NS));
        self.last_ended_after = self.last_ended_after.max(answered.ended_after);
        match outcome {
            Outcome::Aborted(reason) => {
                let known = self.aborted.len() < MOST_REASONS || self.aborted.contains_key(&reason);
                *self.aborted.entry(if known { reason } else { "other reasons".into() }).or_default() += 1;
            }
            Outcome::Status { status, server } => {
                *self.statuses.entry(status.as_u16()).or_default() += 1;
                if status == StatusCode::OK {
                    count.ok += 1;
                    count.ok_size += answered.size.unwrap_or(f64::NAN);
                    let response_s = answered.response.as_secs_f64();
                    self.from_send_sum_s += response_s - answered.lag.as_secs_f64();
                    let (number, job_type) = (answered.number, answered.job_type);
                    self.samples.push(Sample { number, job_type, response_s });
                }
                self.note_server(answered.job_type, status == StatusCode::OK, server.as_deref());
            }
        }
    }

    fn note_server(&mut self, job_type: u32, ok: bool, name: Option<&str>) {
        let server = name.and_then(|name| self.fleet.as_ref()?.find_server(name));
        match (server, &self.fleet) {
            (Some(server), Some(fleet)) => {
                self.by_server[server.index()] += u64::from(ok);
                let holds = |l: JobTypeId| fleet.graph().contains(l.index(), server);
                self.misrouted += u64::from(!self.in_fleet[job_type as usize].is_some_and(holds));
            }
            _ => self.by_unknown_server += u64::from(ok),
        }
    }
}
