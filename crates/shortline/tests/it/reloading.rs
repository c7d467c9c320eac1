//! What `serve` says of reloads that go wrong, or not as meant: files that are no files, files that are gone, warnings.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{Gateway, TWO_SERVERS, file, http, message, shortline};

/// Time for what happens within seconds on a machine that has time.
const PATIENCE: Duration = Duration::from_secs(30);

fn pipe(path: &Path) {
    if path.exists() {
        std::fs::remove_file(path).unwrap();
    }
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// `POST /reload`: the status, and the body.
fn reload(gateway: &Gateway) -> (String, Value) {
    let answer = http(&gateway.admin, "POST /reload HTTP/1.1", "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head["HTTP/1.1 ".len()..][..3].to_owned(), serde_json::from_str(body).unwrap())
}

fn refused(gateway: &Gateway) -> String {
    let (status, body) = reload(gateway);
    assert_eq!(status, "400", "{body}");
    // The reports of the reader are wrapped.
    body["error"]["message"]
        .as_str()
        .unwrap()
        .split([' ', '\n', '│', '×'])
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn metric(gateway: &Gateway, sample: &str) -> u64 {
    let metrics = http(&gateway.admin, "GET /metrics HTTP/1.1", "");
    metrics.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok()).unwrap_or(0)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The lines of the log that have all of these words.
fn logged(log: &Path, words: &[&str]) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A pipe in place of the fleet file or of the edge file: nobody waits for who might write to it.
#[test]
fn a_pipe_in_place_of_a_file_fails_the_reload_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let with_edges = TWO_SERVERS.replace("serves = [\"m\"]\n", "") + "[graph]\nkind = \"file\"\npath = \"edges.csv\"\n";
    file(&folder, "edges.csv", "job_type,server\nm,a\n");
    let path = file(&folder, "two.toml", &with_edges);
    let log = folder.path().join("log");
    let gateway = Gateway::logging(&path, &log);
    pipe(&folder.path().join("edges.csv"));
    let why = refused(&gateway);
    assert!(why.contains("edges.csv") && why.contains("it is a pipe, and only regular files are read"), "{why}");
    pipe(&path);
    let why = refused(&gateway);
    assert!(why.contains("two.toml") && why.contains("it is a pipe, and only regular files are read"), "{why}");
    assert_eq!(metric(&gateway, "shortline_config_valid"), 0);
    let failed = metric(&gateway, "shortline_reloads_total{result=\"failed\"}");
    gateway.signal("-HUP");
    eventually("SIGHUP", || metric(&gateway, "shortline_reloads_total{result=\"failed\"}") > failed);
    assert_eq!(logged(&log, &["it is a pipe", "SIGHUP", "ERROR"]).len(), 1);
    std::fs::remove_file(&path).unwrap();
    file(&folder, "two.toml", TWO_SERVERS);
    eventually("the file is read again", || metric(&gateway, "shortline_config_valid") == 1);
    gateway.signal("-TERM");
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn a_pipe_is_no_fleet_file_to_begin_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    pipe(&path);
    let output = shortline().arg("serve").arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("it is a pipe, and only regular files are read"), "{}", message(&output));
}

#[test]
fn a_reload_says_what_it_warns_of_who_wanted_it_and_which_servers_came_and_went() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", TWO_SERVERS);
    let log = folder.path().join("log");
    let gateway = Gateway::logging(&path, &log);
    let without_b = TWO_SERVERS.replace("[[server]]\nname = \"b\"\ntype = \"slow\"\nserves = [\"m\"]\n", "");
    assert_ne!(without_b, TWO_SERVERS);
    let lonely = without_b + "[[job_type]]\nname = \"nowhere\"\nrate = 1.0\n[information]\ndelay_s = 1\n";
    file(&folder, "two.toml", &lonely);
    let (status, done) = reload(&gateway);
    assert_eq!(status, "200", "{done}");
    let warnings: Vec<&str> = done["warnings"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    let nowhere = warnings.iter().find(|warning| warning.contains("nowhere")).expect("a warning");
    assert!(nowhere.contains("two.toml:") && nowhere.contains("warning: "), "with its place: {nowhere}");
    assert!(warnings.iter().any(|warning| warning.contains("does not use [information]")), "{warnings:?}");
    assert_eq!(logged(&log, &["WARN", "two.toml:", "nowhere"]).len(), 1);

    file(&folder, "two.toml", TWO_SERVERS);
    gateway.signal("-HUP");
    eventually("SIGHUP", || metric(&gateway, "shortline_epoch") >= 2);
    let lines = logged(&log, &["the fleet was reloaded"]);
    assert_eq!(
        (&lines[0]["by"], &lines[0]["removed"], &lines[0]["removed_names"]),
        (&"POST /reload".into(), &1.into(), &"b".into())
    );
    assert!(lines[0].get("added_names").is_none(), "{}", lines[0]);
    assert_eq!(
        (&lines[1]["by"], &lines[1]["added"], &lines[1]["added_names"]),
        (&"SIGHUP".into(), &1.into(), &"b".into())
    );

    file(&folder, "two.toml", &TWO_SERVERS.replace("two servers", "the same"));
    eventually("the change is seen", || metric(&gateway, "shortline_epoch") >= 3);
    assert_eq!(logged(&log, &["the fleet was reloaded"])[2]["by"], "file");
}

#[test]
fn a_file_that_is_gone_for_good_is_told_as_a_bad_one_is_and_read_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("real.toml"), TWO_SERVERS).unwrap();
    let path = folder.path().join("two.toml");
    std::os::unix::fs::symlink("real.toml", &path).unwrap();
    let log = folder.path().join("log");
    let gateway = Gateway::logging(&path, &log);
    assert_eq!(metric(&gateway, "shortline_config_valid"), 1);
    // The link dangles.
    std::fs::rename(folder.path().join("real.toml"), folder.path().join("elsewhere.toml")).unwrap();
    eventually("it is told", || metric(&gateway, "shortline_config_valid") == 0);
    let said = logged(&log, &["ERROR", "the fleet was not reloaded"]);
    assert_eq!((said.len(), &said[0]["by"]), (1, &"file".into()));
    assert!(said[0]["error"].as_str().unwrap().contains("No such file"), "{}", said[0]);
    std::fs::rename(folder.path().join("elsewhere.toml"), folder.path().join("real.toml")).unwrap();
    eventually("it is read", || metric(&gateway, "shortline_config_valid") == 1);
    assert_eq!(metric(&gateway, "shortline_epoch"), 1);
    assert_eq!(metric(&gateway, "shortline_reloads_total{result=\"failed\"}"), 1, "once");
}
