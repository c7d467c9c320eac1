//! What servers say in HTTP/1.1, however it comes, and what of it is not believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};

use crate::support::{Backend, OK, PATIENCE, Peer, Plan, Running, call, get, post};

async fn one(backend: &Backend) -> Running {
    Plan::new(&[("m", &[0])]).server("a", 1.0, Some(20), backend.address).serve("jfsq", 1).await
}

/// Answers with these bytes, so many at a time, each once the last had time to arrive.
async fn dripping(answer: &'static str, piece: usize) -> Backend {
    Backend::scripted(move |mut peer, head| async move {
        peer.body(head, false).await.ok()?;
        for bytes in answer.as_bytes().chunks(piece) {
            peer.try_send(bytes).await.ok()?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Some(peer)
    })
    .await
}

#[tokio::test]
async fn an_answer_is_the_same_however_it_is_cut() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: 1\r\nx-a: 2\r\n\r\n\
                  3\r\nabc\r\na;x=y\r\n0123456789\r\n1 \r\nd\r\n0\r\nx-sum: 7\r\n\r\n";
    for piece in [1, 2, 7, 1000] {
        let backend = dripping(answer, piece).await;
        let running = one(&backend).await;
        for _ in 0..3 {
            let answer = call(running.address, get("m")).await;
            assert_eq!(
                (answer.status(), answer.header("x-a"), answer.text().as_str()),
                (200, Some("1 | 2"), "abc0123456789d")
            );
        }
        assert_eq!((backend.connections(), running.jobs()), (1, 0), "behind the last chunk the next request follows");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_connection_on_which_more_came_than_was_asked_for_is_not_used_again() {
    for (answer, text) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", "ok"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", "ok"),
        // A length beside chunks: the next hop might go by it.
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok"),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok"),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nno", ""),
    ] {
        let backend = Backend::replying(answer).await;
        let running = one(&backend).await;
        for _ in 0..3 {
            let answer = call(running.address, get("m")).await;
            assert_eq!(answer.text(), text, "{answer:?}");
        }
        assert_eq!((backend.connections(), running.jobs()), (3, 0), "{answer}");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_comes_on_an_idle_connection_is_nobodys_answer() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send(OK).await.ok()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await.ok()?;
        Some(peer)
    })
    .await;
    let running = one(&backend).await;
    for _ in 0..3 {
        assert_eq!(call(running.address, get("m")).await.text(), "ok");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(backend.connections(), 3);
    running.stop().await;
}

#[tokio::test]
async fn a_server_of_http_1_0_may_keep_its_connection() {
    let backend = Backend::replying("HTTP/1.0 200 Fine\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok").await;
    let running = one(&backend).await;
    for _ in 0..3 {
        let answer = call(running.address, get("m")).await;
        assert_eq!((answer.first.as_str(), answer.text().as_str()), ("HTTP/1.1 200 Fine", "ok"));
    }
    assert_eq!(backend.connections(), 1);
    running.stop().await;
}

#[tokio::test]
async fn an_answer_that_could_be_read_in_two_ways_or_is_none_is_a_502() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(40_000));
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: 1\r\n folded: 2\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\nok",
        "HTTP/2 200\r\n\r\n",
        &long,
    ] {
        let backend = Backend::replying(answer).await;
        let running = one(&backend).await;
        let refused = call(running.address, get("m")).await;
        assert_eq!((refused.status(), refused.error_code()), (502, "upstream_error".into()), "{answer:.80}");
        assert_eq!(running.jobs(), 0);
        running.stop().await;
    }
}

/// Bodies of many sizes, both ways at once: each chunk comes back before the next is sent, then a long one.
#[tokio::test]
async fn a_server_may_answer_while_it_is_still_asked() {
    let backend = Backend::scripted(|mut peer, _| async move {
        peer.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
        loop {
            let chunk = peer.chunk().await.ok()?;
            if chunk.is_empty() {
                peer.try_send("0\r\n\r\n").await.ok()?;
                peer.head().await.ok();
                return None;
            }
            peer.try_send(format!("{:x}\r\n", chunk.len())).await.ok()?;
            peer.try_send(chunk).await.ok()?;
            peer.try_send("\r\n").await.ok()?;
        }
    })
    .await;
    let running = one(&backend).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await;
    let head = tokio::time::timeout(PATIENCE, peer.head()).await.expect("before the request has ended").unwrap();
    assert_eq!(head.status(), 200);
    let mut back = peer.exactly(6).await;
    assert_eq!(back, b"1\r\nx\r\n");
    for size in [1, 10, 3000, 70_000] {
        let sent = vec![b'a'; size];
        peer.send(format!("{size:x}\r\n")).await;
        peer.send(&sent).await;
        peer.send("\r\n").await;
        back.clear();
        while back.len() < size {
            back.extend(tokio::time::timeout(PATIENCE, peer.chunk()).await.expect("an echo").unwrap());
        }
        assert!(back == sent, "{size} bytes");
    }
    peer.send("0\r\n\r\n").await;
    assert_eq!(peer.chunk().await.unwrap(), b"");
    drop(peer);
    running.stop().await;
}

/// The client reads nothing of the answer until all of its request is sent, and the answer does not fit into the sockets.
#[tokio::test]
async fn an_upload_goes_on_behind_an_answer_that_nobody_reads_yet() {
    const UPLOAD: usize = 8 << 20;
    const ANSWER: usize = 32 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut from, mut to) = listener.accept().await.unwrap().0.into_split();
        let answer = async move {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {ANSWER}\r\n\r\n");
            to.write_all(head.as_bytes()).await.unwrap();
            to.write_all(&vec![b'a'; ANSWER]).await.unwrap();
            to
        };
        let upload = async move {
            let mut seen = Vec::new();
            while !seen.ends_with(b"END") {
                assert!(from.read_buf(&mut seen).await.unwrap() > 0, "the upload ends early");
            }
            seen.len()
        };
        tokio::join!(answer, upload)
    });
    let running = Plan::new(&[("m", &[0])]).server("a", 1.0, Some(20), address).serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(format!("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: {}\r\n\r\n", UPLOAD + 3)).await;
    assert_eq!(peer.head().await.unwrap().status(), 200);
    let sent = peer.send([vec![b'u'; UPLOAD], b"END".to_vec()].concat());
    tokio::time::timeout(PATIENCE, sent).await.expect("it is taken");
    let answer = tokio::time::timeout(PATIENCE, peer.exactly(ANSWER)).await.expect("all of it");
    assert!(answer.iter().all(|&byte| byte == b'a'));
    let (_, seen) = server.await.unwrap();
    assert!(seen > UPLOAD);
    drop(peer);
    running.stop().await;
}

/// A head that does not end, and one that comes to its end behind many interim ones.
#[tokio::test]
async fn interim_answers_without_an_end_take_no_memory_and_end_in_time() {
    let backend = Backend::scripted(|mut peer, _| async move {
        loop {
            peer.try_send("HTTP/1.1 102 Processing\r\n\r\n".repeat(100)).await.ok()?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let plan = Plan::new(&[("m", &[0])])
        .server("a", 1.0, Some(20), backend.address)
        .settings(|settings| settings.timeouts.first_byte_s = 1.0);
    let running = plan.serve("jfsq", 1).await;
    let mut peer = Peer::connect(running.address).await;
    peer.send(get("m").replace("HTTP/1.1", "HTTP/1.0")).await;
    let refused = peer.answer().await;
    assert_eq!((refused.status(), refused.error_code()), (504, "upstream_timeout".into()));
    running.stop().await;
}

/// Hundreds of connections in the pool, and each of them has ended or been spoken on: more than a task may look at in one turn
/// of the runtime's.
#[tokio::test]
async fn of_many_connections_that_died_in_the_pool_none_is_used() {
    const CONNECTIONS: usize = 300;
    for stale in ["", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"] {
        let (all, (end, ended)) = (Arc::new(Barrier::new(CONNECTIONS)), watch::channel(false));
        let seen = Arc::new(AtomicUsize::new(0));
        let backend = Backend::scripted(move |mut peer, head| {
            let (all, mut ended, nth) = (Arc::clone(&all), ended.clone(), seen.fetch_add(1, SeqCst));
            async move {
                peer.body(head, false).await.ok()?;
                if nth >= CONNECTIONS {
                    peer.try_send(OK).await.ok()?;
                    return Some(peer);
                }
                all.wait().await;
                peer.try_send(OK).await.ok()?;
                ended.wait_for(|&ended| ended).await.ok()?;
                peer.try_send(stale).await.ok()?;
                None
            }
        })
        .await;
        let running = Plan::new(&[("m", &[0])]).server("a", 1.0, None, backend.address).serve("jfsq", 1).await;
        let calls: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(call(running.address, get("m")))).collect();
        for called in calls {
            assert_eq!(called.await.unwrap().text(), "ok");
        }
        running.settled().await;
        end.send(true).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        for n in 0..5 {
            // Not to be sent twice, so whoever gets a dead connection fails.
            let answer = call(running.address, post(r#"{"model":"m"}"#)).await;
            assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"), "{n} {stale}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn what_a_server_says_at_once_is_its_answer_to_the_first_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 503 Full\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfull").await.unwrap();
        }
    });
    let plan = Plan::new(&[("m", &[0])]).server("a", 1.0, Some(20), address);
    let running = plan.settings(|settings| settings.health.trip_after = 0).serve("jfsq", 1).await;
    for n in 0..30 {
        let answer = call(running.address, get("m")).await;
        assert_eq!((answer.status(), answer.text().as_str()), (503, "full"), "{n}");
    }
    running.stop().await;
}

/// An answer that lasts until its connection closes, and a connection that is reset.
#[tokio::test]
async fn half_an_answer_is_never_a_whole_one_however_its_connection_ends() {
    let backend = Backend::scripted(|mut peer, head| async move {
        let status = if head.first.contains("/lost") { "404 Not Found" } else { "200 OK" };
        peer.try_send(format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n{{\"half\": ")).await.ok()?;
        tokio::time::sleep(Duration::from_millis(30)).await;
        peer.reset();
        None
    })
    .await;
    let plan = Plan::new(&[("m", &[0])]).server("a", 1.0, Some(20), backend.address);
    let running = plan.settings(|settings| settings.health.trip_after = 0).serve("jfsq", 1).await;
    for n in 0..20 {
        let mut peer = Peer::connect(running.address).await;
        if n % 2 == 0 {
            peer.send(get("m").replace("GET / ", "GET /lost ")).await;
        } else {
            // An upload that goes on until the gateway takes no more of it.
            peer.send("POST / HTTP/1.1\r\nhost: h\r\nx-job-type: m\r\ncontent-length: 100000000\r\n\r\n").await;
            while peer.try_send(vec![b'x'; 100_000]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        match peer.try_answer().await {
            Ok(answer) => assert_eq!((answer.status(), answer.error_code()), (502, "upstream_error".into()), "{n}"),
            Err(_broken_off) => {}
        }
    }
    running.settled().await;
    let page = call(running.admin, "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.text();
    let ok = page.lines().filter(|line| line.contains("outcome=\"ok\"") || line.contains("outcome=\"server_4xx\""));
    assert!(ok.clone().all(|line| line.ends_with(" 0")), "{:?}", ok.collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn two_lengths_are_one_number_or_no_answer_also_for_head() {
    for (lengths, expected) in
        [("content-length: 5\r\ncontent-length: 5", 200), ("content-length: 5\r\ncontent-length: 6", 502)]
    {
        let backend = Backend::replying(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n")).await;
        let running = one(&backend).await;
        let mut peer = Peer::connect(running.address).await;
        peer.send(get("m").replace("GET ", "HEAD ")).await;
        let head = peer.head().await.expect("an answer");
        assert_eq!(head.status(), expected);
        assert!(expected == 502 || head.header("content-length") == Some("5"), "{head:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn trailers_behind_an_answer_that_was_read_ahead_pass() {
    let backend = Backend::replying(
        "HTTP/1.1 404 Not Found\r\ntrailer: x-sum, connection\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nx-sum: 7\r\nconnection: close\r\n\r\n",
    )
    .await;
    let running = one(&backend).await;
    let answer = call(running.address, get("m").replace("\r\n\r\n", "\r\nte: trailers\r\n\r\n")).await;
    assert_eq!((answer.status(), answer.text().as_str()), (404, "no"));
    assert_eq!(answer.trailers.into_iter().collect::<Vec<_>>(), [("x-sum".to_owned(), "7".to_owned())]);
    running.stop().await;
}

/// The whole body is here before it is sent, since its model comes last, and it is larger than what sockets take.
#[tokio::test]
async fn a_large_body_that_is_sent_as_a_whole_has_the_times_of_an_upload() {
    let body = format!("{{\"prompt\":\"{}\",\"model\":\"m\"}}", "x".repeat(24 << 20));
    for takes_it in [true, false] {
        let backend = Backend::scripted(move |mut peer, head| async move {
            let mut left: usize = head.header("content-length")?.parse().ok()?;
            while left > 0 {
                if !takes_it {
                    peer.is_open_for(Duration::from_secs(60)).await;
                    return None;
                }
                let piece = left.min(2 << 20);
                peer.exactly(piece).await;
                left -= piece;
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            peer.try_send(OK).await.ok()?;
            Some(peer)
        })
        .await;
        let plan = Plan::new(&[("m", &[0])]).server("a", 1.0, Some(20), backend.address).settings(|settings| {
            settings.gateway.body_scan_limit = 64 << 20;
            settings.timeouts.first_byte_s = if takes_it { 1.0 } else { 600.0 };
            settings.timeouts.idle_s = if takes_it { 60.0 } else { 1.0 };
        });
        let running = plan.serve("jfsq", 1).await;
        let answer = tokio::time::timeout(PATIENCE, call(running.address, post(&body))).await.expect("within idle_s");
        assert_eq!(answer.status(), if takes_it { 200 } else { 504 }, "{}", answer.text());
        running.stop().await;
    }
}
