//! Emulated servers over real sockets: timing, order, slots, sharing, refusals, and clients that go away.
//!
//! Upper limits on times are generous (the machine may be busy); lower limits are exact, nothing may end early.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shortline_core::ServerId;
use shortline_core::fleet::settings::{Discipline, Service, SizeLaw};
use shortline_core::fleet::{Source, read};
use shortline_gateway::emulate::{Bind, EmulateError, Emulator};
use tokio::io::AsyncReadExt;

use crate::lab::{Answer, ServerLike, ask, eventually, fleet, job, request, send};

const ONE: ServerLike<'static> = ServerLike { rate: 1.0, slots: 1, buffer: None, holds: &[0] };

fn fifo(law: SizeLaw) -> Service {
    Service { law, discipline: Discipline::Fifo }
}

async fn emulator(servers: &[ServerLike<'_>], job_types: usize, service: Service, time_scale: f64) -> Emulator {
    Emulator::start(fleet(servers, job_types, 0.0, service, time_scale), 7, Bind::Loopback)
        .await
        .expect("loopback has ports")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_takes_size_over_rate_times_the_time_scale() {
    let fast = ServerLike { rate: 2.0, ..ONE };
    let emulator = emulator(&[fast], 1, fifo(SizeLaw::Exponential), 0.01).await;
    let mut took = Vec::new();
    for _ in 0..40 {
        // 3 / 2 * 0.01 = 15 ms.
        let answer = ask(emulator.addresses()[0], &job("a", 3.0)).await;
        assert_eq!((answer.status, answer.header("x-emulated-server")), (200, Some("s0")));
        assert_eq!((answer.seconds("x-service-time-s"), answer.seconds("x-queue-wait-s")), (0.015, 0.0));
        assert_eq!(answer.json()["model"], "a");
        assert!(answer.took >= Duration::from_millis(15), "too early: {:?}", answer.took);
        took.push(answer.took);
    }
    took.sort();
    // A busy machine adds to it; a wrong scale would be further off.
    assert!(took[20] < Duration::from_millis(40), "half of the answers took more than {:?}", took[20]);
    let lateness = emulator.lateness();
    assert_eq!(lateness.count, 40);
    assert!(lateness.p50_s < 0.02, "{lateness:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_served_in_order_of_arrival_and_waits_are_sums_of_service_times() {
    let emulator = emulator(&[ONE], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let address = emulator.addresses()[0];
    let mut asked = Vec::new();
    for (i, size) in [0.2, 0.04, 0.01].into_iter().enumerate() {
        asked.push(tokio::spawn(async move { ask(address, &job("a", size)).await }));
        eventually(|| emulator.jobs(ServerId::new(0)) == i + 1).await;
    }
    let mut answers: Vec<Answer> = Vec::new();
    for answer in asked {
        answers.push(answer.await.unwrap());
    }
    assert!(answers.windows(2).all(|pair| pair[0].ended < pair[1].ended), "the long job was overtaken");
    // Job 1 arrived within the first 0.2 s and starts at 0.2; job 2 starts 0.04 after that.
    let (wait_1, wait_2) = (answers[1].seconds("x-queue-wait-s"), answers[2].seconds("x-queue-wait-s"));
    assert!(wait_1 > 0.0 && wait_1 <= 0.2, "{wait_1}");
    assert!(wait_2 > 0.04 && wait_2 <= wait_1 + 0.04, "{wait_2}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_serve_that_many_jobs_at_once() {
    let emulator = emulator(&[ServerLike { slots: 2, ..ONE }], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let address = emulator.addresses()[0];
    let start = Instant::now();
    let asked: Vec<_> = (0..4).map(|_| tokio::spawn(async move { ask(address, &job("a", 0.1)).await })).collect();
    let mut ended = Vec::new();
    for answer in asked {
        ended.push(answer.await.unwrap().ended - start);
    }
    ended.sort();
    let ms = Duration::from_millis;
    assert!(ended[0] >= ms(100) && ended[1] < ms(170), "two at once: {ended:?}");
    assert!(ended[2] >= ms(200) && ended[3] < ms(290), "then the other two: {ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processor_sharing_slows_all_jobs_down_alike() {
    let service = Service { law: SizeLaw::Exponential, discipline: Discipline::ProcessorSharing };
    let emulator = emulator(&[ONE], 1, service, 1.0).await;
    let address = emulator.addresses()[0];
    let start = Instant::now();
    let long = tokio::spawn(async move { ask(address, &job("a", 0.2)).await });
    let short = ask(address, &job("a", 0.05)).await;
    // The short one shares until it is done at about 0.1 s, the long one has the rest for itself: 0.25 s.
    assert!(short.seconds("x-service-time-s") > 0.06, "{}", short.head);
    let ended = long.await.unwrap().ended - start;
    assert!(ended >= Duration::from_millis(249) && ended < Duration::from_millis(330), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_of_a_json_body_is_the_job_type_when_no_header_says_it() {
    let emulator =
        emulator(&[ONE, ServerLike { rate: 0.5, holds: &[1], ..ONE }], 2, fifo(SizeLaw::Exponential), 1e-3).await;
    let [first, second] = *emulator.addresses() else { panic!("two servers") };
    let body = r#"{"messages": [{"model": "b"}], "model": "a"}"#;
    assert_eq!(ask(first, &request("", body)).await.status, 200);
    assert_eq!(ask(second, &request("", body)).await.json()["error"]["code"], "job_type_not_held");
    assert_eq!(ask(second, &request("x-job-type: b\r\n", body)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_served_is_refused_with_a_reason() {
    let emulator = emulator(&[ServerLike { buffer: Some(1), ..ONE }], 2, fifo(SizeLaw::Trace), 1.0).await;
    let address = emulator.addresses()[0];
    let _busy = send(address, &job("a", 60.0)).await;
    eventually(|| emulator.jobs(ServerId::new(0)) == 1).await;
    for (asked, status, code) in [
        (request("", ""), 400, "missing_job_type"),
        (request("", "{\"model\": 3}"), 400, "missing_job_type"),
        (request("x-job-type: z\r\n", ""), 404, "unknown_job_type"),
        (request("x-job-type: b\r\n", ""), 404, "job_type_not_held"),
        (request("x-job-type: a\r\n", ""), 400, "unknown_size"),
        (request("x-job-type: a\r\nx-service-s: -1\r\n", ""), 400, "bad_service_s"),
        (request("x-job-type: a\r\nx-service-s: NaN\r\n", ""), 400, "bad_service_s"),
        (job("a", 1.0), 503, "no_capacity"),
    ] {
        let answer = ask(address, &asked).await;
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (status, Some(code)), "{asked}");
        assert!(answer.json()["error"]["message"].is_string() && answer.json()["error"]["type"].is_string());
        assert_eq!(answer.header("retry-after"), (status == 503).then_some("1"));
    }
    assert_eq!(emulator.jobs(ServerId::new(0)), 1, "no refused request became a job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_frees_its_slot_and_its_place_in_line() {
    let emulator = emulator(&[ServerLike { buffer: Some(2), ..ONE }], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let (address, server) = (emulator.addresses()[0], ServerId::new(0));
    let in_service = send(address, &job("a", 600.0)).await;
    eventually(|| emulator.jobs(server) == 1).await;
    let in_line = send(address, &job("a", 600.0)).await;
    eventually(|| emulator.jobs(server) == 2).await;
    assert_eq!(ask(address, &job("a", 0.01)).await.status, 503);
    drop(in_line);
    eventually(|| emulator.jobs(server) == 1).await;
    let waiting = tokio::spawn(async move { ask(address, &job("a", 0.01)).await });
    eventually(|| emulator.jobs(server) == 2).await;
    drop(in_service);
    assert_eq!(waiting.await.unwrap().status, 200, "the next in line takes the freed slot");
    assert_eq!(emulator.jobs(server), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_answer_comes_in_pieces_over_the_service_time() {
    let emulator = emulator(&[ONE], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let asked = request("x-job-type: a\r\nx-service-s: 0.4\r\n", r#"{"stream": true}"#);
    let start = Instant::now();
    let mut connection = send(emulator.addresses()[0], &asked).await;
    let (mut text, mut pieces, mut buffer) = (String::new(), Vec::new(), [0; 4096]);
    loop {
        let length = connection.read(&mut buffer).await.unwrap();
        if length == 0 {
            break;
        }
        text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        pieces.push((start.elapsed(), text.matches("data: ").count()));
    }
    assert!(text.contains("content-type: text/event-stream") && text.contains("data: [DONE]"), "{text}");
    assert_eq!(text.matches("data: ").count(), 9, "8 events and [DONE]");
    let halfway: Vec<_> = pieces.iter().filter(|(at, _)| *at < Duration::from_millis(200)).collect();
    assert!(halfway.last().is_some_and(|(_, events)| (2..=4).contains(events)), "{pieces:?}");
    assert!(pieces.last().unwrap().0 >= Duration::from_millis(400), "ended early: {pieces:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_in_mid_stream_frees_its_slot() {
    let emulator = emulator(&[ONE], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let asked = request("x-job-type: a\r\nx-service-s: 60\r\naccept: text/event-stream\r\n", "");
    let mut connection = send(emulator.addresses()[0], &asked).await;
    let mut head = [0; 15];
    connection.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    assert_eq!(emulator.jobs(ServerId::new(0)), 1);
    drop(connection);
    eventually(|| emulator.jobs(ServerId::new(0)) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_seed_draws_the_same_sizes_server_by_server() {
    // Rates that differ too little to show in microseconds, so that equal sizes would give equal times.
    let servers = || [ONE, ServerLike { rate: 1.0 - 1e-9, ..ONE }];
    let draw = async |order: [usize; 4]| {
        let emulator = emulator(&servers(), 1, fifo(SizeLaw::Exponential), 1e-3).await;
        let mut drawn = [Vec::new(), Vec::new()];
        for server in order {
            let answer = ask(emulator.addresses()[server], &request("x-job-type: a\r\n", "")).await;
            drawn[server].push(answer.header("x-service-time-s").unwrap().to_owned());
        }
        drawn
    };
    let drawn = draw([0, 0, 1, 1]).await;
    assert_eq!(drawn, draw([1, 0, 1, 0]).await, "in whatever order servers are asked");
    assert_ne!(drawn[0][0], drawn[0][1]);
    assert_ne!(drawn[0], drawn[1], "each server draws from its own stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_breaks_off_what_runs_and_closes_the_ports() {
    let emulator = emulator(&[ONE], 1, fifo(SizeLaw::Exponential), 1.0).await;
    let address = emulator.addresses()[0];
    let mut busy = send(address, &job("a", 600.0)).await;
    eventually(|| emulator.jobs(ServerId::new(0)) == 1).await;
    tokio::time::timeout(Duration::from_secs(2), emulator.shutdown()).await.expect("shutdown does not wait for jobs");
    let mut rest = Vec::new();
    let closed = busy.read_to_end(&mut rest).await;
    assert!(closed.is_err() || rest.is_empty(), "an answer came from a stopped emulator");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_server_without_address_or_with_a_foreign_one_is_named() {
    let fleet = fleet(&[ONE], 1, 0.0, Service::default(), 1.0);
    let error = Emulator::start(Arc::clone(&fleet), 1, Bind::Addresses).await.unwrap_err();
    assert!(matches!(&error, EmulateError::NoAddress(name) if name == "s0"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_of_the_image_generation_example_does_its_models_in_less_than_a_second() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/image-generation.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let loaded = read(&Source { name: "image-generation.toml", text: &text }, &no_file).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let fleet = Arc::new(loaded.fleet);
    assert_eq!((fleet.server_count(), fleet.job_type_count(), fleet.server_type_count()), (24, 72, 4));

    let emulator = Emulator::start(Arc::clone(&fleet), 7, Bind::Loopback).await.unwrap();
    let mut asked = Vec::new();
    for l in fleet.job_types() {
        fleet.graph().for_each(l.index(), |server| {
            let (address, asked_for) =
                (emulator.addresses()[server.index()], job(&fleet.job_type_name(l), fleet.size(l)));
            let expected = 0.01 / fleet.service_rate(l, server);
            asked.push(tokio::spawn(async move { (ask(address, &asked_for).await, expected) }));
        });
    }
    assert!(asked.len() > 72, "popular models are on several servers");
    for answer in asked {
        let (answer, expected) = answer.await.unwrap();
        assert_eq!(answer.status, 200);
        assert!((answer.seconds("x-service-time-s") - expected).abs() < 1e-6);
        assert!(expected < 0.7, "one request at a time takes {expected} s");
    }
}
