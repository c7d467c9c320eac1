//! Time per event of the engine that counts jobs, everything of the report on: an iteration is an event.
//!
//! Random graphs of degree 16, three speeds, buffer 5, load 0.9, one thread. A sample is a whole run; its time is divided
//! by its events, warm-up included. Figures are in README.md.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shortline_core::Fleet;
use shortline_core::fleet::{Source, read};
use shortline_sim::{PerType, Simulation, Until};
use shortline_theory::stability;

const POLICIES: [&str; 12] =
    ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "jsq(2,2)", "sed", "nq", "central", "split"];

/// A quarter of the servers has rate 1, a quarter 1/2, half 1/4; as many job types of equal rates as servers.
fn random_graph(servers: u32) -> Arc<Fleet> {
    let (quarter, half) = (servers / 4, servers / 2);
    let rate = 0.9 * f64::from(quarter) * (1.0 + 0.5 + 0.5);
    let text = format!(
        "[fleet]\nbuffer = 5\n[graph]\nkind = 'port-degree'\ndegree = 16\nseed = 1\n\
         [[server_type]]\nname = 'a'\nrate = 1.0\n[[server_type]]\nname = 'b'\nrate = 0.5\n\
         [[server_type]]\nname = 'c'\nrate = 0.25\n[[server]]\nname = 'a'\ncount = {quarter}\ntype = 'a'\n\
         [[server]]\nname = 'b'\ncount = {quarter}\ntype = 'b'\n[[server]]\nname = 'c'\ncount = {half}\ntype = 'c'\n\
         [[job_type]]\nname = 'j'\ncount = {servers}\ntotal_rate = {rate}\nzipf = 0\n"
    );
    let read = read(&Source { name: "bench", text: &text }, &|_| Err(std::io::ErrorKind::NotFound.into()));
    Arc::new(read.expect("the bench's fleet is valid").fleet)
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn time_of_events(fleet: &Arc<Fleet>, policy: &str, events: u64) -> Duration {
    let policy = policy.parse().expect("the bench names policies that exist");
    let simulation = Simulation::new(fleet).policy(policy).seed(1).threads(1).per_type(PerType::Top(100));
    let started = Instant::now();
    let report = simulation.until(Until::Events(events)).run().expect("the bench's fleet can be simulated");
    let share = events as f64 / report.policies[0].events as f64;
    black_box(report);
    started.elapsed().mul_f64(share)
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("markov");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(1));
    let mut bench = |fleet: &Arc<Fleet>, policy: &str| {
        let name = format!("{} servers, {policy}", fleet.server_count());
        group.bench_function(name, |bencher| bencher.iter_custom(|events| time_of_events(fleet, policy, events)));
    };
    let fleet = random_graph(256);
    let shares = stability::analyse(&fleet).expect("the bench's fleet has rates").shares;
    let fleet = Arc::new(shares.give_to(&fleet));
    POLICIES.iter().for_each(|policy| bench(&fleet, policy));
    bench(&random_graph(2048), "jfsq");
    bench(&random_graph(30_000), "jfsq");
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
