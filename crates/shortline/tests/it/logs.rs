//! The log of `serve` on standard error.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::processes::{TWO_SERVERS, file, http, shortline};

/// `shortline serve` with a log.
struct Serving {
    child: Child,
    requests: String,
}

impl Serving {
    fn start(fleet: &Path, change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = shortline();
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--json"]).arg(fleet);
        let mut child = change(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut banner = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut banner).unwrap();
        let banner: Value = serde_json::from_str(&banner).unwrap();
        let requests = banner["requests"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
        Self { requests: requests.to_owned(), child }
    }

    /// Ends it; all that it has logged.
    fn log(mut self) -> Vec<Value> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success());
        // The reader's warnings about the fleet file come before, and are no log.
        log.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        let _: std::io::Result<()> = self.child.kill();
    }
}

#[test]
fn an_empty_rust_log_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "two.toml", TWO_SERVERS);
    let is_access = |line: &Value| line["target"] == "shortline::access";
    for (wish, has_access) in [("", true), ("  ", true), ("warn", false)] {
        let serving = Serving::start(&fleet, |command| command.arg("--emulate").env("RUST_LOG", wish));
        let answer = http(&serving.requests, "POST / HTTP/1.1\r\nx-job-type: m", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let log = serving.log();
        assert_eq!(log.iter().filter(|line| is_access(line)).count(), usize::from(has_access), "{wish:?}: {log:?}");
    }
}

/// The server takes connections and says nothing.
#[test]
fn a_tls_handshake_that_takes_too_long_is_logged_under_the_servers_name_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let fleet = format!(
        r#"
[[server_type]]
name = "t"
rank = 1
[[server]]
name = "the \"silent\" one"
type = "t"
address = "https://{}"
serves = ["*"]
[[job_type]]
name = "m"
[timeouts]
connect_s = 0.3
[tls]
verify = false
"#,
        silent.local_addr().unwrap()
    );
    let serving = Serving::start(&file(&folder, "silent.toml", &fleet), |command| command);
    for _ in 0..2 {
        let answer = http(&serving.requests, "POST / HTTP/1.1\r\nx-job-type: m", "");
        assert!(answer.contains("upstream_connect"), "{answer}");
    }
    let log = serving.log();
    let failures: Vec<_> = log.iter().filter(|line| line["message"] == "TLS to a server failed").collect();
    assert_eq!(failures.len(), 1, "once, not for each connection: {log:?}");
    assert_eq!(failures[0]["server"], "the \"silent\" one");
    assert_eq!(failures[0]["why"], "the handshake did not end within `connect_s`, 0.3 s");
}
