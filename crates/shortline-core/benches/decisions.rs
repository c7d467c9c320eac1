//! How long a decision takes: one `route` and one `complete`, generator included.
//!
//! The fleet is kept at a constant number of jobs, 0.9 per server, with types drawn from a prepared list and the
//! oldest job leaving, so that the measured loop holds nothing but the dispatcher. Figures are in README.md.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use rand::SeedableRng;
use shortline_core::fleet::{
    ArrivalRates, FleetParts, JobTypeParts, Names, ServerParts, ServerTypeParts, Settings, Speed,
};
use shortline_core::graph::Edges;
use shortline_core::live::{LiveDispatcher, Routed};
use shortline_core::policy::{Policy, PolicySpec, PolicyVisitor, with_policy};
use shortline_core::random::{Generator, below};
use shortline_core::{Dispatcher, Fleet, JobTypeId, ServerId};

const POLICIES: [&str; 9] = ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jsq(2,2)", "sed", "nq"];

/// Three speeds 1 : 1/2 : 1/4 in shares 1/4, 1/4, 1/2, as many job types as servers, each on `degree` random servers.
fn fleet(servers: u32, degree: u32) -> Arc<Fleet> {
    let mut rng = Generator::seed_from_u64(7);
    let row = |rng: &mut Generator| {
        let mut all: Vec<u32> = (0..servers).collect();
        for i in 0..degree {
            all.swap(i as usize, (i + below(rng, servers - i)) as usize);
        }
        all.truncate(degree as usize);
        all
    };
    let rows: Vec<Vec<u32>> = (0..servers).map(|_| row(&mut rng)).collect();
    let server_type = |name: &str, rate| ServerTypeParts { name: name.into(), speed: Speed::Rate(rate), slots: 1 };
    let group = |name: &str, server_type, count| ServerParts {
        names: Names { base: name.into(), count: Some(count) },
        server_type,
        buffer: None,
        addresses: Vec::new(),
    };
    let parts = FleetParts {
        name: format!("{servers} servers, degree {degree}"),
        server_types: vec![server_type("fast", 1.0), server_type("medium", 0.5), server_type("slow", 0.25)],
        servers: vec![group("f", 0, servers / 4), group("m", 1, servers / 4), group("s", 2, servers / 2)],
        job_types: vec![JobTypeParts {
            names: Names { base: "t".into(), count: Some(servers) },
            arrivals: ArrivalRates::Each(1.0),
            size: 1.0,
        }],
        rates: Vec::new(),
        edges: Edges::from_rows(rows),
        settings: Settings::default(),
    };
    Arc::new(Fleet::new(parts).expect("the bench's fleet is valid"))
}

struct Bench<'a> {
    criterion: &'a mut Criterion,
    fleet: &'a Arc<Fleet>,
    name: String,
}

impl PolicyVisitor for Bench<'_> {
    type Output = ();

    fn visit<P: Policy>(self, policy: P) {
        let mut rng = Generator::seed_from_u64(11);
        let n = u32::try_from(self.fleet.server_count()).expect("the bench's fleets are small");
        let types: Vec<JobTypeId> = (0..8192).map(|_| JobTypeId::new(below(&mut rng, n) as usize)).collect();
        let mut dispatcher = Dispatcher::<P, ()>::new(Arc::clone(self.fleet), policy);
        let mut running: Vec<ServerId> = Vec::new();
        let mut next = 0;
        let mut arrive = |dispatcher: &mut Dispatcher<P, ()>| {
            next = (next + 1) % types.len();
            dispatcher.route(types[next], || (), &mut rng).server().expect("buffers are unbounded")
        };
        for _ in 0..n * 9 / 10 {
            running.push(arrive(&mut dispatcher));
        }
        let mut oldest = 0;
        self.criterion.bench_function(&self.name, |b| {
            b.iter(|| {
                let joined = arrive(&mut dispatcher);
                let left = std::mem::replace(&mut running[oldest], joined);
                oldest = if oldest + 1 == running.len() { 0 } else { oldest + 1 };
                black_box(dispatcher.complete(left));
            });
        });
    }
}

fn decisions(criterion: &mut Criterion) {
    for (servers, degree) in [(256, 16), (4096, 4096), (4096, 2048)] {
        let fleet = fleet(servers, degree);
        for policy in POLICIES {
            let spec: PolicySpec = policy.parse().expect("a policy of the table");
            let name = format!("{servers} servers, degree {degree}/{policy}");
            with_policy(spec, &fleet, Bench { criterion, fleet: &fleet, name }).expect("the fleet has rates");
        }
    }
}

#[expect(clippy::print_stdout, reason = "criterion reports no distribution of lock waits; the bench prints it")]
/// 16 threads on one lock, as in the gateway: decisions per second, and how long a thread waits for the lock.
fn contended(_: &mut Criterion) {
    const THREADS: u64 = 16;
    const DECISIONS: u64 = 500_000;
    let fleet = fleet(256, 16);
    for policy in ["jfsq", "jfiq", "jsq(2)"] {
        let spec = policy.parse().expect("a policy of the table");
        let live = LiveDispatcher::<()>::new(Arc::clone(&fleet), spec).expect("the fleet has rates");
        let shared = Mutex::new((live, Generator::seed_from_u64(1)));
        let started = Instant::now();
        let mut waits: Vec<Duration> = std::thread::scope(|scope| {
            let run = |thread: u64| {
                let mut rng = Generator::seed_from_u64(thread);
                let mut waits = Vec::with_capacity(2 * DECISIONS as usize);
                let mut lock = || {
                    let asked = Instant::now();
                    let guard = shared.lock().expect("no thread panics");
                    waits.push(asked.elapsed());
                    guard
                };
                for _ in 0..DECISIONS {
                    let job_type = JobTypeId::new(below(&mut rng, 256) as usize);
                    let joined = {
                        let (live, rng) = &mut *lock();
                        live.route(job_type, || (), rng)
                    };
                    if let Routed::Joined(joined) = joined {
                        lock().0.complete(joined.key);
                    }
                }
                waits
            };
            let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || run(t))).collect();
            threads.into_iter().flat_map(|t| t.join().expect("no thread panics")).collect()
        });
        let per_second = (THREADS * DECISIONS) as f64 / started.elapsed().as_secs_f64();
        waits.sort_unstable();
        let at = |share: f64| waits[(share * (waits.len() - 1) as f64) as usize];
        println!(
            "16 threads, one lock/{policy}: {:.2} M decisions/s (route and complete under the lock each); lock wait p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
            per_second / 1e6,
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
}

criterion_group!(benches, decisions, contended);
criterion_main!(benches);
