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
    jsq: 21 81 31 71 91 1 51 81 11 21 1 31 61 71 91 41 11 1 81 31 51 1
      6c4ab10051405511 a2ffcc0e0a816b6c 61a74f3993db54c7
    jfsq: 21 51 51 81 51 31 1 31 21 61 51 91 81 71 51 41 21 11 31 31 1 1
      f45bf9cf1d68bc1d 8e189816402d7e7b 874040a40749d0fc
    jiq: 21 81 31 71 91 1 51 81 11 21 1 1 31 41 61 91 71 1 81 61 11 51
      32bc4ca91d37e316 f9a6167aeedf519b b7350940dbf12ee0
    jfiq: 21 51 51 81 51 31 1 1 21 31 51 31 81 91 51 91 21 61 1 61 1 11
      ce755c7a6a9410ab 55195eec0ee6b982 44c4fe1a5a2258e7
    jsq(1): 21 11 31 1 51 11 21 51 91 11 21 51 41 61 91 61 71 21 61 21 21 81
      9d703f37f8440b58 74bbbebdeb36b6da 28a0389e410b764e
    jsq(2): 51 31 1 11 21 11 61 21 41 1 61 71 51 81 81 61 71 21 51 11 41 81
      257815b5ab70f6e2 e79cdd9944790361 1ee333ce81ed77c6
    jsq(5): 11 1 31 41 61 11 81 21 11 51 81 31 91 41 1 51 71 91 1 31 91 31
      7bba181d4c2b2e26 b0b781629de8ebb5 55bd8d63a0e8c62f
    jsq(40): 81 31 51 91 51 61 61 21 71 1 31 21 11 61 41 21 41 51 71 91 81 61
      9554f8e5a80299d8 15cb878fb28ecd3c 2448ce8732249107
    jfsq(2): 51 31 1 11 21 51 61 21 41 1 61 91 51 81 81 61 71 21 51 11 41 81
      571839b8748fc6a1 23c6618adafb26a6 cb96b2c71d68914b
    jfsq(3): 21 31 51 31 91 21 81 1 61 91 81 61 51 11 91 11 41 31 31 71 61 31
      1e78a808215907d7 d17b77b553208bd2 339de3916a386e59
    jsq(1,1): 21 51 71 31 51 21 51 81 61 91 31 41 21 61 1 21 61 31 81 31 11 91
      cba29fc2426eee81 81a076016a3cdfc0 643bcc6b2b5876c2
    jsq(2,2): 51 81 21 51 21 61 31 21 1 51 71 1 41 91 31 61 81 81 21 11 31 61
      475b47c99cce1d02 78e40334b3fc3da5 2a67353e6060a00c
    jsq(1,40): 21 1 81 51 81 21 61 1 31 91 1 31 51 41 31 11 71 1 21 61 61 91
      ec8c09f7a70d35e3 baf83c3f63b7fb54 2e23478f3ee3b1de
    sed: 21 51 51 81 51 21 21 51 81 21 51 1 81 91 51 91 81 1 51 31 21 31
      fcee16fe05f5865a c1e8091a5774b799 05b66a415410f636
    nq: 21 51 51 81 51 31 1 1 21 31 51 31 81 91 51 91 21 61 1 61 1 11
      5159dc34d5038d66 085193c25c83a75f 968700e6e7ebf116
    central: 21 51 51 81 51 31 1 1 21 31 51 31 81 91 51 91 21 61 1 61 1 11
      60ea3a1e2c29ec34 b49fa60d66368fca ef27d5060d97569f
    ");
}
