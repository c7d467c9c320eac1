//! Seed 7 gives these decisions. A change here is *value-breaking*: simulations repeat differently from then on, so it
//! goes to the changelog under that word.
//!
//! A fleet of 100 servers, a job type for each form of row, 3,000 steps per policy and form: two of three are arrivals,
//! one a departure. Per policy: the first 22 decisions on the list, then a hash of all decisions per form (list, bits,
//! all).

use std::sync::Arc;

use rand::SeedableRng;
use shortline_core::policy::{Policy, PolicyVisitor, with_policy};
use shortline_core::random::{Generator, below};
use shortline_core::{Decision, Dispatcher, Fleet, JobTypeId};

use crate::fleets::{Draft, policies};

fn fleet() -> Arc<Fleet> {
    let types = Draft::default().server_type("fast", 5.0, 1).server_type("mid", 2.0, 2).server_type("slow", 1.0, 1);
    let servers = (0..100).fold(types, |draft, i| draft.server(&format!("s{i}"), i % 3, Some(6)));
    servers
        .job_type("list", (0..100).filter(|i| i % 10 == 1))
        .job_type("bits", (0..100).filter(|i| i % 4 != 2))
        .job_type("all", 0..100)
        .build()
}

/// Gives the first decisions as numbers of servers (`.` = no place), and an FNV-1a hash of all.
struct Record {
    fleet: Arc<Fleet>,
    job_type: usize,
}

impl PolicyVisitor for Record {
    type Output = (String, u64);

    fn visit<P: Policy>(self, policy: P) -> (String, u64) {
        let mut rng = Generator::seed_from_u64(7);
        let mut dispatcher = Dispatcher::<P, ()>::new(Arc::clone(&self.fleet), policy);
        let (mut running, mut first, mut hash) = (Vec::new(), Vec::new(), 0xcbf2_9ce4_8422_2325_u64);
        for step in 0..3000 {
            if step % 3 == 2 && !running.is_empty() {
                let server = running.swap_remove(below(&mut rng, running.len() as u32) as usize);
                running.extend(dispatcher.complete(server).map(|started| started.server));
                continue;
            }
            let decision = dispatcher.route(JobTypeId::new(self.job_type), || (), &mut rng);
            let server = match decision {
                Decision::Joined(server) => {
                    running.push(server);
                    self.fleet.file_index(server).to_string()
                }
                Decision::Waiting(_) | Decision::Blocked(_) => ".".to_owned(),
            };
            hash = server.bytes().chain([b' ']).fold(hash, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
            first.push(server);
        }
        first.truncate(22);
        (first.join(" "), hash)
    }
}

#[test]
fn seed_7_gives_these_decisions() {
    let fleet = fleet();
    let record =
        |policy, job_type| with_policy(policy, &fleet, Record { fleet: Arc::clone(&fleet), job_type }).unwrap();
    let lines = policies().into_iter().map(|policy| {
        let (first, list) = record(policy, 0);
        let [bits, all] = [1, 2].map(|job_type| record(policy, job_type).1);
        format!("{policy}: {first}\n  {list:016x} {bits:016x} {all:016x}\n")
    });
    insta::assert_snapshot!(lines.collect::<String>(), @"
    random: 21 51 31 71 11 1 21 51 11 51 21 51 51 11 31 11 41 21 51 1 41 21
      119fe0c5294e7642 a7415fada2ba1f45 cffa0d6224b9dab6
    jsq: 21 81 31 71 91 1 51 81 11 21 1 31 61 71 91 41 11 1 81 1 31 61
      77a0e8b34d6498f0 c1d58b980934a51e 0743bc18287dd1e5
    jfsq: 21 51 51 81 81 31 81 1 1 61 51 91 51 11 81 41 61 71 41 1 61 91
      1599ac8726218934 1fcd4c70275b7bb4 a7cced8b54a9f29d
    jiq: 21 81 31 71 91 1 51 81 11 21 1 1 31 41 61 91 71 1 81 61 11 51
      88a4c9e42ededd79 82ff3dfabeae282d c3275355ab7bdbbf
    jfiq: 21 51 51 81 81 31 81 31 1 1 51 91 21 61 31 61 91 91 61 1 51 71
      241bdc0b2eba9090 b1001e1390dbfe88 5a08da3c86bd691b
    jsq(1): 21 51 31 71 11 1 21 51 11 51 21 51 51 11 31 11 41 21 51 1 41 21
      119fe0c5294e7642 a7415fada2ba1f45 cffa0d6224b9dab6
    jsq(2): 51 31 1 11 31 51 31 61 1 81 41 91 11 71 1 61 81 61 61 51 51 21
      2592751aaf9caea8 2c7e9bf4776976cb 8e1599d66b9323bf
    jsq(5): 11 1 31 41 61 11 81 21 11 51 81 31 91 41 1 71 41 61 51 31 31 91
      6dfa97893000e43f 17793fdaf81230a9 6263ea01c1cf3e28
    jsq(40): 21 41 11 1 81 11 71 21 91 71 31 41 1 51 81 61 21 51 71 61 71 91
      dc27aadef1eeeb85 bf7fb95c316b8377 12d8d31947ad1f5f
    jfsq(2): 51 31 1 21 51 31 11 91 61 21 81 61 1 41 71 21 61 81 81 61 51 1
      1222ce91455fbb00 c48d9f23839c44b8 72320167f75e7da4
    jfsq(3): 21 31 21 51 91 61 51 81 1 11 51 61 81 51 71 41 81 91 81 31 31 71
      c7f5fb7b4eeb20fe 990dfef0bd426f63 fb3d19c94ae8ce60
    jsq(1,1): 21 81 51 71 21 81 31 1 61 91 1 61 81 51 31 41 11 21 61 21 91 71
      0e921a3a7385cc7e 4fa9cb62e0b520ea ec1eae22cd21b21d
    jsq(2,2): 51 81 21 51 51 1 61 41 31 1 71 61 1 51 81 91 41 61 91 21 61 11
      1bd1a83fc977d2ae 82b6b50cb733ec65 e16c4656b2fcbd37
    jsq(1,40): 21 61 21 51 31 81 21 51 21 91 1 91 11 51 71 11 91 41 91 91 31 61
      07a9b18de062518b d5b95a73d2b0548f e2cedd7790b55b6a
    sed: 21 51 51 81 81 51 81 21 21 81 21 1 21 1 81 31 51 31 91 91 21 61
      be9a8bec28bf932e 9116cfc51faf863e 1dc019684cc6b3a1
    nq: 21 51 51 81 81 31 81 31 1 1 51 91 21 61 31 61 91 91 61 1 51 71
      e1c9d2379ccc6be0 c8d89dd07cff6faa 5a7582d3af50bcb6
    central: 21 51 51 81 81 31 81 31 1 1 51 91 21 61 31 61 91 91 61 1 51 71
      f5dbc195d1151990 40d3c78556f634ee 194bddd7783774ec
    ");
}
