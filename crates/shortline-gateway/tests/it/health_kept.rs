//! What is known of a server's health holds in the next fleet, too: breaker, probe, checks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shortline_core::Fleet;
use shortline_core::fleet::settings::Checks;
use shortline_gateway::{Gateway, Options};

use crate::support::{Backend, OK, PATIENCE, Peer, Plan, Running, call, eventually, get};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

/// `s`, perhaps with another server beside it that holds other things.
fn plan(backend: &Backend, beside: bool, open_s: f64) -> Plan {
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, backend.address);
    let plan = if beside { plan.server("beside", 1.0, None, ([127, 0, 0, 1], 1).into()) } else { plan };
    plan.settings(|settings| {
        settings.retry.attempts = 1;
        settings.health.trip_after = 1;
        settings.health.open_s = open_s;
    })
}

/// A gateway, and the fleet that its next reload brings.
async fn serve(plan: &Plan) -> (Running, Arc<Mutex<Arc<Fleet>>>) {
    let file = Arc::new(Mutex::new(plan.fleet()));
    let read = Arc::clone(&file);
    let options = Options {
        read: Some(Arc::new(move || Ok(Arc::clone(&read.lock().unwrap()).into()))),
        ..Options::new(plan.fleet())
    };
    (Running::start(Gateway::new(options).unwrap(), PATIENCE).await, file)
}

fn reload(running: &Running, file: &Mutex<Arc<Fleet>>, plan: &Plan) {
    *file.lock().unwrap() = plan.fleet();
    running.gateway.reload("test").unwrap();
}

fn health(running: &Running) -> &'static str {
    let status = running.gateway.status();
    status.servers.iter().find(|server| server.name == "s").unwrap().health
}

/// Fails until it is well; then a request is answered when the gate lets it.
async fn patient(well: &Arc<AtomicBool>, gate: &Arc<tokio::sync::Semaphore>) -> Backend {
    let (well, gate) = (Arc::clone(well), Arc::clone(gate));
    Backend::scripted(move |mut peer, _| {
        let (well, gate) = (well.load(SeqCst), Arc::clone(&gate));
        async move {
            if well {
                gate.acquire().await.ok()?.forget();
            }
            peer.try_send(if well { OK } else { BUSY }).await.ok()?;
            Some(peer)
        }
    })
    .await
}

#[tokio::test]
async fn an_open_breaker_stays_open_over_reloads_and_absences_and_opens_at_its_time() {
    let (well, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Semaphore::new(100)));
    let backend = patient(&well, &gate).await;
    let (running, file) = serve(&plan(&backend, false, 4.0)).await;
    assert_eq!(call(running.address, get("m")).await.status(), 503);
    assert_eq!(health(&running), "tripped");
    // Beside another one, and away and back.
    let elsewhere = Plan::new(&[("m", &[0])]).server("other", 1.0, None, ([127, 0, 0, 1], 1).into());
    for next in [plan(&backend, true, 4.0), elsewhere, plan(&backend, false, 4.0)] {
        let has_it = next.fleet().find_server("s").is_some();
        reload(&running, &file, &next);
        if has_it {
            assert_eq!(health(&running), "tripped");
            assert_eq!(call(running.address, get("m")).await.error_code(), "no_server_up");
        }
    }
    assert_eq!(backend.requests(), 1, "none of it reached the server");
    well.store(true, SeqCst);
    eventually(|| health(&running) == "probing").await;
    assert_eq!(call(running.address, get("m")).await.status(), 200);
    assert_eq!(health(&running), "slow-start");
    reload(&running, &file, &plan(&backend, true, 4.0));
    assert_eq!(health(&running), "slow-start");
    running.stop().await;
}

#[tokio::test]
async fn a_probe_that_is_under_way_is_still_the_only_one_after_a_reload_and_its_answer_counts() {
    let (well, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Semaphore::new(0)));
    let backend = patient(&well, &gate).await;
    let (running, file) = serve(&plan(&backend, false, 0.1)).await;
    assert_eq!(call(running.address, get("m")).await.status(), 503);
    well.store(true, SeqCst);
    eventually(|| health(&running) == "probing").await;
    let mut probe = Peer::connect(running.address).await;
    probe.send(get("m")).await;
    eventually(|| backend.requests() == 2).await;
    for beside in [true, false] {
        reload(&running, &file, &plan(&backend, beside, 0.1));
        assert_eq!((health(&running), running.jobs()), ("probing", 1));
        assert_eq!(call(running.address, get("m")).await.status(), 503, "one at a time");
    }
    assert_eq!(backend.requests(), 2);
    gate.add_permits(1);
    assert_eq!(probe.answer().await.status(), 200);
    assert_eq!(health(&running), "slow-start");
    running.settled().await;
    running.stop().await;
}

/// The first check of a server decides alone; were the former ones forgotten, the first after the reload would.
#[tokio::test]
async fn what_the_checks_have_found_holds_after_a_reload() {
    let (well, checked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_well, count) = (Arc::clone(&well), Arc::clone(&checked));
    let backend = Backend::scripted(move |mut peer, _| {
        let answer = if is_well.load(SeqCst) { OK } else { BUSY };
        count.fetch_add(1, SeqCst);
        async move {
            peer.try_send(answer).await.ok()?;
            Some(peer)
        }
    })
    .await;
    let checks = Checks { interval_s: 0.02, timeout_s: 5.0, healthy_after: 1_000_000, ..Checks::of("/health") };
    let plan = |beside| plan(&backend, beside, 1.0).settings(|settings| settings.health.checks = Some(checks.clone()));
    let (running, file) = serve(&plan(false)).await;
    eventually(|| health(&running) == "down").await;
    well.store(true, SeqCst);
    reload(&running, &file, &plan(true));
    assert_eq!(health(&running), "down");
    // The checks of the new fleet begin within a quarter of a second.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let before = checked.load(SeqCst);
    eventually(|| checked.load(SeqCst) > before + 3).await;
    assert_eq!(health(&running), "down");
    assert_eq!(call(running.address, get("m")).await.error_code(), "no_server_up");
    running.stop().await;
}
