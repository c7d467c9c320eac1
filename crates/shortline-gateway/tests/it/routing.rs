//! Which server gets a request: the policies' promises, seen from outside.

use shortline_core::live::{Routed, ServerKey};
use shortline_core::random::Generator;
use shortline_core::{JobTypeId, LiveDispatcher, ServerId};

use crate::support::{Holding, Peer, Plan, Running, get};

/// Opens a request and waits until a server has it.
async fn open(running: &Running, request: String, server: &Holding, received: usize) -> Peer {
    let mut peer = Peer::connect(running.address).await;
    peer.send(request).await;
    server.received(received).await;
    peer
}

#[tokio::test]
async fn with_the_fast_server_busy_the_slow_one_gets_it_and_with_both_busy_the_shorter() {
    let (fast, slow) = (Holding::start().await, Holding::start().await);
    let plan = Plan::new(&[("m", &[0, 1])]).server("fast", 10.0, None, fast.backend.address).server(
        "slow",
        1.0,
        None,
        slow.backend.address,
    );
    let running = plan.serve("jfsq", 1).await;
    for n in 0..50 {
        let mut first = open(&running, get("m"), &fast, 2 * n + 1).await;
        let mut second = open(&running, get("m"), &slow, n + 1).await;
        // 1 and 1: the fastest of the shortest; then 2 and 1: the shorter.
        let mut third = open(&running, get("m"), &fast, 2 * n + 2).await;
        fast.answer_one();
        fast.answer_one();
        slow.answer_one();
        for peer in [&mut first, &mut second, &mut third] {
            assert_eq!(peer.answer().await.status(), 200);
        }
        assert_eq!(running.jobs(), 0, "counts are down before the client has its last byte");
    }
    let _two_at_the_fast = (
        open(&running, get("m"), &fast, 101).await,
        open(&running, get("m"), &slow, 51).await,
        open(&running, get("m"), &fast, 102).await,
    );
    let _shorter = open(&running, get("m"), &slow, 52).await;
    for sample in [("idle-fastest", 51), ("idle-slower", 51), ("queued", 52)] {
        let name = format!("shortline_decisions_total{{kind=\"{}\"}}", sample.0);
        assert_eq!(running.metric(&name).await, sample.1, "{name}");
    }
    running.trigger.end();
    running.ended().await;
}

#[tokio::test]
async fn a_burst_over_equal_servers_spreads_evenly() {
    let mut backends = Vec::new();
    for _ in 0..10 {
        backends.push(Holding::start().await);
    }
    let all: Vec<u32> = (0..10).collect();
    let mut plan = Plan::new(&[("m", &all)]);
    for (i, holding) in backends.iter().enumerate() {
        plan = plan.server(&format!("s{i}"), 1.0, None, holding.backend.address);
    }
    let running = plan.serve("jsq", 1).await;
    let mut peers = Vec::new();
    for _ in 0..100 {
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m")).await;
        peers.push(peer);
    }
    crate::support::eventually(|| running.jobs() == 100).await;
    assert!(running.gateway.status().servers.iter().all(|s| s.in_flight == 10 && s.waiting == 9));
    running.trigger.end();
    running.ended().await;
}

/// What happens in the recorded sequence.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request of this job type.
    Arrives(usize),
    /// Of the open requests at the server of the one at this position (modulo their number), the oldest is answered.
    Ends(usize),
}

/// 150 events, from a fixed linear congruential generator.
fn recorded() -> Vec<Event> {
    let mut x = 12_345_u64;
    let mut draw = move |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((x >> 33) % n).unwrap()
    };
    (0..150).map(|_| if draw(5) < 3 { Event::Arrives(draw(3)) } else { Event::Ends(draw(100)) }).collect()
}

/// The servers chosen by the core alone.
fn decisions_of_the_core(plan: &Plan, policy: &str, seed: u64) -> Vec<String> {
    use rand::SeedableRng;
    let fleet = plan.fleet();
    let mut rng = Generator::seed_from_u64(seed);
    let mut dispatcher = LiveDispatcher::<()>::new(fleet.clone(), policy.parse().unwrap()).unwrap();
    let (mut open, mut chosen) = (Vec::<(ServerKey, ServerId)>::new(), Vec::new());
    for event in recorded() {
        match event {
            Event::Arrives(l) => match dispatcher.route(JobTypeId::new(l), || (), &mut rng) {
                Routed::Joined(joined) => {
                    open.push((joined.key, joined.server));
                    chosen.push(fleet.server_name(joined.server));
                }
                other => panic!("unbounded servers take every job, not {other:?}"),
            },
            Event::Ends(_) if open.is_empty() => {}
            Event::Ends(n) => {
                let server = open[n % open.len()].1;
                let (key, _) = open.remove(open.iter().position(|(_, s)| *s == server).unwrap());
                assert!(dispatcher.complete(key).is_none());
            }
        }
    }
    chosen
}

/// The servers that the same sequence reaches through the gateway.
async fn decisions_over_sockets(running: &Running, holding: &[Holding]) -> Vec<String> {
    let names: Vec<String> = running.gateway.status().servers.iter().map(|s| s.name.clone()).collect();
    let (mut open, mut chosen) = (Vec::<(Peer, usize)>::new(), Vec::new());
    for event in recorded() {
        match event {
            Event::Arrives(l) => {
                let before = running.routed();
                let mut peer = Peer::connect(running.address).await;
                peer.send(get(["a", "b", "c"][l])).await;
                let mut server = None;
                crate::support::eventually(|| {
                    server = running.routed().iter().zip(&before).position(|(now, before)| now > before);
                    server.is_some()
                })
                .await;
                let server = server.unwrap();
                chosen.push(names[server].clone());
                open.push((peer, server));
            }
            Event::Ends(_) if open.is_empty() => {}
            Event::Ends(n) => {
                let server = open[n % open.len()].1;
                let (mut peer, _) = open.remove(open.iter().position(|(_, s)| *s == server).unwrap());
                let before = running.jobs();
                holding[server].answer_one();
                assert_eq!(peer.answer().await.status(), 200);
                assert_eq!(running.jobs(), before - 1);
            }
        }
    }
    chosen
}

/// The twin test: one dispatcher, two clocks.
#[tokio::test]
async fn the_gateway_decides_as_the_core_alone_does() {
    for policy in ["random", "jsq", "jfsq", "jiq", "jfiq", "jsq(2)", "jfsq(2)", "jsq(1,2)", "sed", "nq"] {
        let mut holding = Vec::new();
        for _ in 0..5 {
            holding.push(Holding::start().await);
        }
        let mut plan = Plan::new(&[("a", &[0, 1, 2, 3, 4]), ("b", &[1, 3]), ("c", &[0, 2, 3])]);
        for (i, (rate, holding)) in [1.0, 4.0, 2.0, 4.0, 1.0].iter().zip(&holding).enumerate() {
            plan = plan.server(&format!("s{i}"), *rate, None, holding.backend.address);
        }
        let running = plan.serve(policy, 99).await;
        let over_sockets = decisions_over_sockets(&running, &holding).await;
        let alone = decisions_of_the_core(&plan, policy, 99);
        assert!(alone.len() > 60, "{} arrivals", alone.len());
        assert_eq!(over_sockets, alone, "{policy}");
        running.trigger.end();
        running.ended().await;
    }
}
