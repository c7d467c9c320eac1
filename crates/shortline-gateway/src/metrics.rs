//! `/metrics`: the same counts for Prometheus, written when asked for.
//!
//! | metric | labels |
//! |---|---|
//! | `shortline_requests_total` | `job_type`, `outcome` |
//! | `shortline_decisions_total` | `kind`: idle-fastest, idle-slower, queued, waited, blocked |
//! | `shortline_response_seconds` (histogram) | |
//! | `shortline_waiting_seconds` (histogram): time in line, until a place at a server or in vain | |
//! | `shortline_decision_seconds` (histogram): the dispatcher's lock included | |
//! | `shortline_in_flight`, `shortline_server_up`, `shortline_routed_total` | `server` |
//! | `shortline_server_health`: 1, of servers that are not up | `server`, `health`: draining, down, tripped, probing, slow-start |
//! | `shortline_lost_models`: job types whose models the server has lost | `server` |
//! | `shortline_waiting` | `job_type` |
//! | `shortline_retries_total` | `reason`: connect, reset, status, refused, model_lost |
//! | `shortline_retries_withheld_total`, `shortline_trips_total` | |
//! | `shortline_reloads_total` | `result`: ok, failed |
//! | `shortline_config_valid`: 1 if the last reload succeeded, or there was none; `shortline_epoch`: exchanges of the fleet | |
//! | `shortline_connections`, `shortline_connections_turned_away_total` | |
//! | `shortline_connections_broken_total`: closed for what the client did in HTTP/2 | `reason`: flood, protocol |
//!
//! The number of series is bounded: names come from the fleet only (requests without a known job type have
//! `job_type=""`), series that are 0 are left out where that says the same, and beyond the first [`LABELLED`] servers
//! or job types of the file the others are added up as `other` (of `shortline_server_up`: the number that are up).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use shortline_core::{JobTypeId, ServerId};

use crate::breaker::Condition;
use crate::gateway::Gateway;
use crate::histogram::Histogram;
use crate::in_flight::Reason;
use crate::outcome::Outcome;
use crate::retry::Cause;

/// Most servers and most job types with series of their own.
const LABELLED: usize = 1000;
const OTHER: &str = "other";

/// A registry that reads a gateway.
pub(crate) fn registry(gateway: &Arc<Gateway>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(Arc::clone(gateway))));
    registry
}

#[derive(Debug)]
struct Metrics(Arc<Gateway>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.requests(&mut encoder)?;
        self.decisions(&mut encoder)?;
        let Gateway { stats, dispatch, .. } = &*self.0;
        histogram(&mut encoder, "shortline_response_seconds", "arrival to the end of the answer", &stats.response_s)?;
        histogram(&mut encoder, "shortline_waiting_seconds", "time in line", &stats.waiting_s)?;
        histogram(&mut encoder, "shortline_decision_seconds", "time to choose a server", dispatch.decision_s())?;
        self.retries(&mut encoder)?;
        self.servers(&mut encoder)?;
        self.reloads(&mut encoder)?;
        let connections = stats.connections.load(Relaxed);
        encoder
            .encode_descriptor("shortline_connections", "open client connections", None, MetricType::Gauge)?
            .encode_gauge(&as_gauge(connections))?;
        let (name, help) = ("shortline_connections_broken", "client connections closed for a breach of HTTP/2");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        counter(&mut metric, &[("reason", "flood")], stats.flooded.load(Relaxed))?;
        counter(&mut metric, &[("reason", "protocol")], stats.broke_rules.load(Relaxed))?;
        let help = "client connections beyond connections_per_client";
        encoder
            .encode_descriptor("shortline_connections_turned_away", help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, u64, f64>(&stats.turned_away.load(Relaxed), None)
    }
}

impl Metrics {
    fn reloads(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let reloads = &self.0.reloads;
        let mut metric =
            encoder.encode_descriptor("shortline_reloads", "readings of the fleet file", None, MetricType::Counter)?;
        counter(&mut metric, &[("result", "ok")], reloads.done.load(Relaxed))?;
        counter(&mut metric, &[("result", "failed")], reloads.failed.load(Relaxed))?;
        let help = "whether the last reload succeeded";
        encoder
            .encode_descriptor("shortline_config_valid", help, None, MetricType::Gauge)?
            .encode_gauge(&i64::from(reloads.valid.load(Relaxed)))?;
        encoder
            .encode_descriptor("shortline_epoch", "exchanges of the fleet", None, MetricType::Gauge)?
            .encode_gauge(&as_gauge(self.0.dispatch.exchanges()))
    }

    fn requests(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let (gateway, epoch) = (&self.0, self.0.dispatch.epoch());
        let name = "shortline_requests";
        let mut metric = encoder.encode_descriptor(name, "requests that have ended", None, MetricType::Counter)?;
        let mut write = |job_type: &str, outcome: Outcome, count: u64| match count {
            0 => Ok(()),
            _ => counter(&mut metric, &[("job_type", job_type), ("outcome", outcome.name())], count),
        };
        let job_types = epoch.job_types();
        let (own, others) = job_types.split_at(job_types.len().min(LABELLED));
        for &outcome in Outcome::ALL {
            write("", outcome, gateway.stats.unknown().ended(outcome))?;
            own.iter().try_for_each(|l| write(l.name(), outcome, l.ended(outcome)))?;
            write(OTHER, outcome, others.iter().map(|l| l.ended(outcome)).sum())?;
        }
        Ok(())
    }

    fn decisions(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let name = "shortline_decisions";
        let mut metric = encoder.encode_descriptor(name, "decisions by kind", None, MetricType::Counter)?;
        Reason::ALL
            .iter()
            .try_for_each(|&kind| counter(&mut metric, &[("kind", kind.name())], self.0.dispatch.decisions(kind)))
    }

    fn retries(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Gateway { stats, dispatch, .. } = &*self.0;
        let name = "shortline_retries";
        let mut metric =
            encoder.encode_descriptor(name, "requests sent to another server", None, MetricType::Counter)?;
        Cause::ALL
            .iter()
            .try_for_each(|&cause| counter(&mut metric, &[("reason", cause.name())], stats.retries.of(cause)))?;
        let name = "shortline_retries_withheld";
        encoder
            .encode_descriptor(name, "retries for which there was no budget", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, u64, f64>(&stats.retries.total_withheld(), None)?;
        encoder
            .encode_descriptor("shortline_trips", "breakers that opened", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, u64, f64>(&dispatch.trips(), None)
    }

    fn servers(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let snapshot = self.0.dispatch.snapshot();
        let (epoch, fleet) = (&snapshot.epoch, &snapshot.epoch.fleet);
        let servers: Vec<ServerId> = fleet.servers_in_file_order().collect();
        let job_types: Vec<JobTypeId> = fleet.job_types().collect();
        let server_name = |s: ServerId| fleet.server_name(s);

        let in_flight = |s: ServerId| snapshot.servers[s.index()].jobs;
        let mut metric =
            encoder.encode_descriptor("shortline_in_flight", "jobs at the server", None, MetricType::Gauge)?;
        each(&servers, in_flight, |s, n| gauge(&mut metric, "server", &s.map_or(OTHER.into(), server_name), n))?;

        let up = |s: ServerId| u64::from(snapshot.servers[s.index()].up);
        let mut metric = encoder.encode_descriptor("shortline_server_up", "1: up", None, MetricType::Gauge)?;
        each(&servers, up, |s, n| gauge(&mut metric, "server", &s.map_or(OTHER.into(), server_name), n))?;

        let mut metric =
            encoder.encode_descriptor("shortline_server_health", "1: as the label says", None, MetricType::Gauge)?;
        for &server in servers.iter().take(LABELLED) {
            let health = epoch.server(server).health().condition();
            if health != Condition::Up {
                let labels = [("server", server_name(server)), ("health", health.name().to_owned())];
                metric.encode_family(&labels)?.encode_gauge(&1_i64)?;
            }
        }

        let lost = |s: ServerId| epoch.server(s).lost().names().len() as u64;
        let (name, help) = ("shortline_lost_models", "job types whose models the server has lost");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        each(&servers, lost, |s, n| gauge(&mut metric, "server", &s.map_or(OTHER.into(), server_name), n))?;

        let mut metric =
            encoder.encode_descriptor("shortline_routed", "requests sent to the server", None, MetricType::Counter)?;
        each(
            &servers,
            |s| epoch.server(s).routed(),
            |s, n| counter(&mut metric, &[("server", &s.map_or(OTHER.into(), server_name))], n),
        )?;

        let waiting = |l: JobTypeId| snapshot.waiting[l.index()] as u64;
        let mut metric = encoder.encode_descriptor("shortline_waiting", "requests in line", None, MetricType::Gauge)?;
        each(&job_types, waiting, |l, n| {
            gauge(&mut metric, "job_type", &l.map_or(OTHER.into(), |l| fleet.job_type_name(l)), n)
        })
    }
}

/// Writes the first [`LABELLED`] one by one and the others, if there are any, as a sum (`None`).
fn each<T: Copy>(
    items: &[T],
    value: impl Fn(T) -> u64,
    mut write: impl FnMut(Option<T>, u64) -> fmt::Result,
) -> fmt::Result {
    let (own, others) = items.split_at(items.len().min(LABELLED));
    own.iter().try_for_each(|&item| write(Some(item), value(item)))?;
    if others.is_empty() { Ok(()) } else { write(None, others.iter().map(|&item| value(item)).sum()) }
}

fn counter<const N: usize>(metric: &mut MetricEncoder, labels: &[(&str, &str); N], value: u64) -> fmt::Result {
    metric.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn gauge(metric: &mut MetricEncoder, label: &str, name: &str, value: u64) -> fmt::Result {
    metric.encode_family(&[(label, name)])?.encode_gauge(&as_gauge(value))
}

fn as_gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn histogram(encoder: &mut DescriptorEncoder, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
    histogram.encode(encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_there_is_one_more_series_with_the_sum() {
        let items: Vec<usize> = (0..LABELLED + 5).collect();
        let mut written = Vec::new();
        each(
            &items,
            |i| i as u64,
            |item, n| {
                written.push((item, n));
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(written.len(), LABELLED + 1);
        assert_eq!(written[LABELLED], (None, (LABELLED..LABELLED + 5).map(|i| i as u64).sum()));
        written.clear();
        each(
            &items[..3],
            |i| i as u64,
            |item, n| {
                written.push((item, n));
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(written, [(Some(0), 0), (Some(1), 1), (Some(2), 2)]);
    }
}
