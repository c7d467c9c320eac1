//! Running the binary: files to give it, and processes that end with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Two servers, speeds 10 and 1, one job type; 100 times faster than written.
pub(crate) const TWO_SERVERS: &str = r#"
[fleet]
name = "two servers"
policy = "jfsq"
[emulate]
time_scale = 0.01
[[server_type]]
name = "fast"
rate = 10.0
[[server_type]]
name = "slow"
rate = 1.0
[[server]]
name = "a"
type = "fast"
serves = ["m"]
[[server]]
name = "b"
type = "slow"
serves = ["m"]
[[job_type]]
name = "m"
rate = 4.0
"#;

/// The binary, in an environment without settings of the caller.
pub(crate) fn shortline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shortline"));
    command.env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// `shortline simulate` of a fleet.
pub(crate) fn simulation(fleet: &Path, arguments: &[&str]) -> Command {
    let mut command = shortline();
    command.arg("simulate").arg(fleet).args(arguments);
    command
}

/// What it said on standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The same on one line, however it was broken.
pub(crate) fn message(output: &Output) -> String {
    stderr(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a command that succeeds prints.
pub(crate) fn stdout_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A file that lasts as long as the folder.
pub(crate) fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// `shortline serve FLEET --emulate` on ports of the system's choice.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) requests: String,
    pub(crate) admin: String,
    pub(crate) banner: String,
}

impl Gateway {
    pub(crate) fn start(fleet: &Path, arguments: &[&str]) -> Self {
        Self::start_as(shortline().args(["serve", "--log", "off"]).args(arguments), fleet)
    }

    /// The same with its log in a file.
    pub(crate) fn logging(fleet: &Path, log: &Path) -> Self {
        Self::start_as(shortline().arg("serve").stderr(std::fs::File::create(log).unwrap()), fleet)
    }

    fn start_as(command: &mut Command, fleet: &Path) -> Self {
        let mut child = command
            .args(["--emulate", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .arg(fleet)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = String::new();
        while !banner.contains("curl") {
            banner += &lines.next().expect("the banner ends with a curl line").unwrap();
            banner += "\n";
        }
        let address = |label: &str| {
            let line = banner.lines().find(|line| line.trim_start().starts_with(label)).unwrap();
            line.split_once("http://").unwrap().1.split(['/', ' ']).next().unwrap().to_owned()
        };
        Self { child, requests: address("requests"), admin: address("admin"), banner }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the process to end by itself.
    pub(crate) fn ended(mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the gateway does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends one HTTP/1.1 request and gives the whole answer.
pub(crate) fn http(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
