//! `serve --emulate` and `replay`, from banner to SIGTERM.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{Gateway, TWO_SERVERS, file, http, shortline};

#[test]
fn the_curl_line_of_the_banner_is_answered_by_the_fast_server() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&file(&folder, "two.toml", TWO_SERVERS), &[]);
    let curl = gateway.banner.lines().find_map(|line| line.split_once("curl")).unwrap().1;
    let body = curl.split('\'').rfind(|part| part.starts_with('{')).unwrap();
    let answer =
        http(&gateway.requests, "POST /v1/images/generations HTTP/1.1\r\ncontent-type: application/json", body);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("x-served-by: a\r\n"), "{answer}");
}

#[test]
fn unknown_and_missing_models_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&file(&folder, "two.toml", TWO_SERVERS), &[]);
    let unknown = http(&gateway.requests, "POST / HTTP/1.1\r\nx-job-type: none", "");
    assert!(unknown.starts_with("HTTP/1.1 404 ") && unknown.contains("unknown_job_type"), "{unknown}");
    let missing = http(&gateway.requests, "POST / HTTP/1.1\r\ncontent-type: application/json", "{}");
    assert!(missing.starts_with("HTTP/1.1 400 ") && missing.contains("missing_job_type"), "{missing}");
}

/// Shares 10/11 and 1/11, the servers idle each time: a policy that looks at queues would take `a` always. The seed of
/// the gateway is fixed; 100 requests of a free one would all go to `a` with probability 7e-5, and `b` would get more
/// than 30 with less than 1e-8.
#[test]
fn split_sends_its_share_to_the_slow_server_though_the_fast_one_is_idle() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&file(&folder, "two.toml", TWO_SERVERS), &["--policy", "split"]);
    assert!(gateway.banner.contains("policy split"), "{}", gateway.banner);
    let served_by = |name: &str| {
        let answer = http(&gateway.requests, "POST / HTTP/1.1\r\nx-job-type: m\r\nx-service-s: 0.1", "");
        answer.contains(&format!("x-served-by: {name}\r\n"))
    };
    let slow = (0..100).filter(|_| served_by("b")).count();
    assert!((1..=30).contains(&slow), "{slow} of 100 at the slow server");
}

#[test]
fn a_replay_is_answered_in_full_and_leaves_nothing_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "two.toml", TWO_SERVERS);
    let trace: String = (0..200).map(|i| format!("{},m,{}\n", f64::from(i) * 0.15, 0.5)).collect();
    let trace = file(&folder, "trace.csv", &format!("arrival_s,job_type,service_s\n{trace}"));
    let gateway = Gateway::start(&fleet, &["--policy", "jfiq"]);
    let output = shortline()
        .args(["replay", "--json", "--target", &format!("http://{}", gateway.requests)])
        .args(["--trace".as_ref(), trace.as_os_str(), "--fleet".as_ref(), fleet.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["sent"], 200);
    assert_eq!(report["outcomes"], serde_json::json!({ "200": 200 }));
    assert_eq!(report["misrouted"], 0);
    assert_eq!(report["outstanding_cap_hit"], false);
    assert_eq!(report["bound"]["kind"], "fluid");
    let mean = report["mean_response_s"]["mean"].as_f64().unwrap();
    assert!(mean > report["bound"]["mean_response_s"].as_f64().unwrap(), "{report}");

    let status = http(&gateway.admin, "GET /status HTTP/1.1", "");
    let status: Value = serde_json::from_str(status.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(status["policy"], "jfiq");
    let in_flight: u64 = status["servers"].as_array().unwrap().iter().map(|s| s["in_flight"].as_u64().unwrap()).sum();
    assert_eq!((in_flight, status["waiting_total"].as_u64()), (0, Some(0)));
    let routed: u64 = status["servers"].as_array().unwrap().iter().map(|s| s["routed_total"].as_u64().unwrap()).sum();
    assert_eq!(routed, 200);
}

#[test]
fn sigterm_lets_running_requests_finish_and_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&file(&folder, "two.toml", TWO_SERVERS), &[]);
    let requests = gateway.requests.clone();
    // Size 300 on the fast server: 0.3 s at this time scale.
    let running =
        std::thread::spawn(move || http(&requests, "POST / HTTP/1.1\r\nx-job-type: m\r\nx-service-s: 300", ""));
    while !http(&gateway.admin, "GET /status HTTP/1.1", "").contains(r#""in_flight":1"#) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    gateway.signal("-TERM");
    let answer = running.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn emulated_servers_listen_on_the_addresses_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    // Ports that were free a moment ago.
    let ports: Vec<u16> = {
        let listeners = [0, 0].map(|_: u16| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
    };
    let with_address = |text: String, name: &str, port| {
        text.replace(&format!("name = \"{name}\""), &format!("name = \"{name}\"\naddress = \"127.0.0.1:{port}\""))
    };
    let text = with_address(with_address(TWO_SERVERS.to_owned(), "a", ports[0]), "b", ports[1]);
    let mut emulator = shortline()
        .arg("emulate")
        .arg(file(&folder, "two.toml", &text))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first_line = String::new();
    let mut stdout = std::io::BufReader::new(emulator.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut first_line).unwrap();
    assert_eq!(first_line, format!("a\thttp://127.0.0.1:{}\n", ports[0]));
    let answer = http(&format!("127.0.0.1:{}", ports[0]), "POST / HTTP/1.1\r\nx-job-type: m", "");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    emulator.kill().unwrap();
    emulator.wait().unwrap();
}

/// One line each, for whoever starts them from a program: where they are is where they answer.
#[test]
fn serve_and_emulate_say_in_json_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "two.toml", TWO_SERVERS);
    let loopback = "127.0.0.1:0";
    // A name is as good as an address.
    let serve = ["serve", "--emulate", "--listen", loopback, "--admin", "localhost:0", "--log", "off", "--json"];
    let ask = |url: &Value, head: &str| {
        let answer = http(url.as_str().unwrap().strip_prefix("http://").unwrap(), head, "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{url} {head}: {answer}");
    };
    for words in [&serve[..], &["emulate", "--any-port", "--json"]] {
        let mut child = shortline().args(words).arg(&fleet).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut next = || serde_json::from_str::<Value>(&lines.next().expect("a line").unwrap()).unwrap();
        let said = next();
        let servers = if words[0] == "serve" { &said["emulated"] } else { &said["servers"] };
        assert_eq!(servers.as_array().unwrap().iter().map(|s| s["name"].clone()).collect::<Vec<_>>(), ["a", "b"]);
        ask(&servers[0]["url"], "POST / HTTP/1.1\r\nx-job-type: m");
        if words[0] == "serve" {
            ask(&said["requests"], "POST / HTTP/1.1\r\nx-job-type: m");
            ask(&said["admin"], "GET /status HTTP/1.1");
            assert_eq!((&said["servers"], &said["policy"]), (&2.into(), &"jfsq".into()));
        }
        let end = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(end.success());
        if words[0] == "emulate" {
            let end = next();
            assert!(end["jobs"] == 1 && end["lateness_s"]["p99"].as_f64().unwrap() >= 0.0, "{end}");
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_schedule_nobody_can_keep_up_with_ends_with_its_time_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "two.toml", TWO_SERVERS);
    let gateway = Gateway::start(&fleet, &[]);
    let began = std::time::Instant::now();
    let output = shortline()
        .args(["replay", "--target", &format!("http://{}", gateway.requests), "--load", "1e9", "--duration", "0.5"])
        .args(["--max-outstanding", "5", "--fleet"])
        .arg(&fleet)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("fell behind its schedule"), "{report}");
}

/// Exchanges of the fleet so far.
fn epoch(gateway: &Gateway) -> u64 {
    let status = http(&gateway.admin, "GET /status HTTP/1.1", "");
    let status: Value = serde_json::from_str(status.split_once("\r\n\r\n").unwrap().1).unwrap();
    status["epoch"].as_u64().unwrap()
}

fn reaches(gateway: &Gateway, wanted: u64) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while epoch(gateway) < wanted {
        assert!(Instant::now() < deadline, "epoch {wanted} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Which server an idle fleet gives the next request of `m` to.
fn served_by(gateway: &Gateway) -> String {
    let answer = http(&gateway.requests, "POST / HTTP/1.1\r\nx-job-type: m\r\nx-service-s: 0.01", "");
    answer.lines().find_map(|line| line.strip_prefix("x-served-by: ")).unwrap_or("nobody").to_owned()
}

/// Goal: the fleet file is read again on SIGHUP, when it changes, and when the link to it is swapped; a bad one changes
/// nothing and is told with its place. Method: `x-served-by` of an idle fleet, the fast server first.
#[test]
fn the_fleet_file_is_read_again_on_sighup_on_change_and_behind_links() {
    let folder = tempfile::tempdir().unwrap();
    let slow_only = TWO_SERVERS
        .replace("name = \"a\"\ntype = \"fast\"\nserves = [\"m\"]", "name = \"a\"\ntype = \"fast\"\nserves = []");
    assert_ne!(slow_only, TWO_SERVERS);
    // As a mounted directory does it: a link to a link to a folder.
    for (version, text) in [("v1", TWO_SERVERS), ("v2", slow_only.as_str())] {
        std::fs::create_dir(folder.path().join(version)).unwrap();
        std::fs::write(folder.path().join(version).join("two.toml"), text).unwrap();
    }
    let point = |version: &str| {
        let (next, data) = (folder.path().join("next"), folder.path().join("data"));
        std::os::unix::fs::symlink(version, &next).unwrap();
        std::fs::rename(next, data).unwrap();
    };
    point("v1");
    let path = folder.path().join("two.toml");
    std::os::unix::fs::symlink("data/two.toml", &path).unwrap();
    let gateway = Gateway::start(&path, &[]);
    assert_eq!(served_by(&gateway), "a");
    point("v2");
    reaches(&gateway, 1);
    assert_eq!(served_by(&gateway), "b", "the link was swapped");
    std::fs::write(folder.path().join("v2/two.toml"), TWO_SERVERS).unwrap();
    reaches(&gateway, 2);
    assert_eq!(served_by(&gateway), "a", "the file was written");
    gateway.signal("-HUP");
    reaches(&gateway, 3);

    std::fs::write(folder.path().join("v2/two.toml"), TWO_SERVERS.replace("\"fast\"\nserves", "\"fats\"\nserves"))
        .unwrap();
    let refused = http(&gateway.admin, "POST /reload HTTP/1.1", "");
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    assert!(refused.contains("two.toml:") && refused.contains("fats"), "with its place: {refused}");
    assert_eq!((served_by(&gateway), epoch(&gateway)), ("a".to_owned(), 3), "the former fleet goes on");
}

/// Goal: the edge file and those of `[tls]` are watched as the fleet file is, also behind links that are swapped; and a
/// change that was taken up by hand, by SIGHUP or POST /reload, is not taken up again. Method: exchanges are counted; after
/// a reload by hand for three looks of the watcher.
#[test]
fn files_that_the_fleet_file_names_are_watched_and_what_was_read_by_hand_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = |version: &str| {
        std::fs::create_dir(folder.path().join(version)).unwrap();
        std::fs::write(folder.path().join(version).join("ca.pem"), version).unwrap();
        std::os::unix::fs::symlink(version, folder.path().join("next")).unwrap();
        std::fs::rename(folder.path().join("next"), folder.path().join("certificates")).unwrap();
    };
    certificates("one");
    file(&folder, "edges.csv", "job_type,server\nm,a\n");
    let text = TWO_SERVERS.replace("serves = [\"m\"]\n", "")
        + "[graph]\nkind = \"file\"\npath = \"edges.csv\"\n[tls]\nca_file = \"certificates/ca.pem\"\n";
    // Emulated servers are not spoken to by TLS, so what is in the file does not matter here.
    let path = file(&folder, "two.toml", &text);
    let gateway = Gateway::start(&path, &[]);
    assert_eq!(served_by(&gateway), "a");
    file(&folder, "edges.csv", "job_type,server\nm,b\n");
    reaches(&gateway, 1);
    assert_eq!(served_by(&gateway), "b");
    certificates("another");
    reaches(&gateway, 2);

    let renamed = text.replace("name = \"two servers\"", "name = \"the same two servers\"");
    file(&folder, "two.toml", &renamed);
    gateway.signal("-HUP");
    reaches(&gateway, 3);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(epoch(&gateway), 3, "once");
    file(&folder, "two.toml", &text);
    assert!(http(&gateway.admin, "POST /reload HTTP/1.1", "").starts_with("HTTP/1.1 200 "));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(epoch(&gateway), 4, "once");
}

/// About 40 requests a second on a fleet that runs 100 times as fast as written are 0.4 in one of its seconds. (Sizes are
/// measured, too; the millisecond of such a service is no more than what a busy machine adds.)
#[test]
fn the_running_fleet_is_a_file_that_check_reads_with_the_load_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&file(&folder, "two.toml", TWO_SERVERS), &["--policy", "sed"]);
    let (began, mut sent) = (Instant::now(), 0.0);
    while began.elapsed() < Duration::from_secs(3) {
        http(&gateway.requests, "POST / HTTP/1.1\r\nx-job-type: m\r\nx-service-s: 0.1", "");
        sent += 1.0;
        std::thread::sleep(Duration::from_millis(25));
    }
    let rate = sent / began.elapsed().as_secs_f64() * 0.01;
    let answer = http(&gateway.admin, "GET /fleet HTTP/1.1", "");
    let now = file(&folder, "now.toml", answer.split_once("\r\n\r\n").unwrap().1);
    let output = shortline().args(["check", "--json"]).arg(&now).output().unwrap();
    assert!(output.status.success(), "{answer}{}", String::from_utf8_lossy(&output.stderr));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["stable"], true);
    assert!(checked["offered_load"].as_f64().unwrap() > 0.0, "{checked}");
    let job_type = answer.split_once("[[job_type]]").unwrap().1;
    let measured: f64 = job_type.split_once("\nrate = ").unwrap().1.split('\n').next().unwrap().parse().unwrap();
    assert!(measured > rate / 2.0 && measured < rate * 2.0, "{measured} measured, {rate} sent: {answer}");
    assert!(answer.contains("policy = \"sed\"") && answer.contains("time_scale = 0.01"), "{answer}");
}
