//! What is counted since the warm-up. Everything is measured: a job is counted when it leaves its server, or is blocked, or
//! gives up; servers' numbers of jobs are averaged over time, one addition per change.

use shortline_core::ServerId;

use super::server::{Job, Servers};
use crate::model::Model;
use crate::record::{Law, Measured, Record, TypeTally};

#[derive(Debug)]
pub(crate) struct Tally {
    since_s: f64,
    pub(crate) job_types: Vec<TypeTally>,
    measured: Measured,
    /// By server type and number of jobs: seconds.
    occupancy: Vec<Vec<f64>>,
    /// When each server last changed.
    changed_s: Vec<f64>,
    /// Jobs that waited in front, times seconds.
    pub(crate) line_area_s: f64,
}

impl Tally {
    pub(crate) fn new(model: &Model, now_s: f64) -> Self {
        let fleet = &model.fleet;
        Self {
            since_s: now_s,
            job_types: vec![TypeTally::default(); fleet.job_type_count()],
            measured: Measured::default(),
            occupancy: vec![vec![0.0; 8]; fleet.server_type_count()],
            changed_s: vec![now_s; fleet.server_count()],
            line_area_s: 0.0,
        }
    }

    /// A job has left its server.
    #[inline(always)]
    pub(crate) fn complete(&mut self, job: &Job, now_s: f64) {
        let (waiting_s, response_s) = (job.started_s - job.arrived_s, now_s - job.arrived_s);
        self.measured.responses.add(response_s);
        self.measured.started += 1;
        self.measured.waited += u64::from(waiting_s > 0.0);
        self.measured.waiting_sum_s += waiting_s;
        self.measured.service_sum_s += now_s - job.started_s;
        let of_type = &mut self.job_types[job.job_type as usize];
        of_type.responses += 1;
        of_type.response_sum_s += response_s;
    }

    /// A server had so many jobs until now.
    #[inline(always)]
    pub(crate) fn had(&mut self, model: &Model, server: ServerId, jobs: usize, now_s: f64) {
        let times_s = &mut self.occupancy[model.fleet.server_type(server).index()];
        if jobs >= times_s.len() {
            times_s.resize(jobs + 1, 0.0);
        }
        times_s[jobs] += now_s - self.changed_s[server.index()];
        self.changed_s[server.index()] = now_s;
    }

    /// All up to now.
    pub(crate) fn record(&self, model: &Model, servers: &Servers, now_s: f64) -> Record {
        let mut occupancy = self.occupancy.clone();
        for server in model.fleet.servers() {
            let (times_s, jobs) = (&mut occupancy[model.fleet.server_type(server).index()], servers.jobs(server));
            if jobs >= times_s.len() {
                times_s.resize(jobs + 1, 0.0);
            }
            times_s[jobs] += now_s - self.changed_s[server.index()];
        }
        Record {
            idle: None,
            time_s: now_s - self.since_s,
            job_types: self.job_types.clone(),
            law: Law::Measured(self.measured.clone()),
            occupancy,
            line_area_s: self.line_area_s,
        }
    }
}
