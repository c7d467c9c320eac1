//! Processes that end with the scenario, and what the system says of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::poller::page;

/// A process of this program in another role.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Self {
        Self(Command::new(std::env::current_exe().unwrap()).args(arguments).spawn().unwrap())
    }

    /// Resident memory in KiB.
    pub(crate) fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a running process");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// What the system says of a thread of this name: time on a core and time waited for one.
    fn schedstat(&self, name: &str) -> PathBuf {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let mut threads = threads.map(|thread| thread.unwrap().path());
        let is_named = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap().trim() == name;
        threads.find(is_named).expect("a thread of this name").join("schedstat")
    }
}

impl Drop for Process {
    /// `kill -9`.
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What the system holds for TCP on this machine, in KiB: data sent and not yet read, at either end.
pub(crate) fn tcp_kib() -> u64 {
    let sockets = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let tcp = sockets.lines().find_map(|line| line.strip_prefix("TCP:")).expect("sockets of TCP");
    let pages: u64 = tcp.split_once("mem ").expect("their memory").1.trim().parse().unwrap();
    pages * 4
}

fn free_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn wait_for(address: SocketAddr) {
    let began = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "nothing listens on {address}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server that can die and come back at the same address.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    kind: &'static str,
    process: Option<Process>,
}

impl Server {
    pub(crate) fn start(kind: &'static str) -> Self {
        let mut server = Self { address: free_port(), kind, process: None };
        server.restart();
        server
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn restart(&mut self) {
        self.process = Some(Process::start(&["server", &self.address.to_string(), self.kind]));
        wait_for(self.address);
    }
}

/// A gateway in front of servers.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) process: Process,
}

impl Gateway {
    /// With these settings, and servers that serve the job types beside them.
    pub(crate) fn start(settings: &str, servers: &[(&Server, &str)]) -> Self {
        use std::fmt::Write as _;
        let mut text = format!("{settings}\n[[server_type]]\nname = \"t\"\nrate = 50\n");
        for (i, (server, serves)) in servers.iter().enumerate() {
            write!(
                text,
                "\n[[server]]\nname = \"s{i}\"\ntype = \"t\"\naddress = \"{}\"\nserves = [\"{serves}\"]\n",
                server.address
            )
            .unwrap();
        }
        let mut job_types: Vec<&str> = servers.iter().map(|&(_, serves)| serves).collect();
        job_types.dedup();
        for job_type in job_types {
            write!(text, "\n[[job_type]]\nname = \"{job_type}\"\n").unwrap();
        }
        let (address, admin) = (free_port(), free_port());
        let file = std::env::temp_dir().join(format!("robustness-{}-{}.toml", std::process::id(), address.port()));
        std::fs::write(&file, text).unwrap();
        let words = [address.to_string(), admin.to_string()];
        let process = Process::start(&["gateway", &words[0], &words[1], file.to_str().unwrap()]);
        wait_for(admin);
        // It has begun to serve, and its admin thread is there.
        page(admin, "/healthz").unwrap();
        std::fs::remove_file(file).unwrap();
        Self { address, admin, process }
    }
    /// Where the system counts how long the admin thread waits for a core.
    pub(crate) fn admin_schedstat(&self) -> PathBuf {
        self.process.schedstat("shortline-admin")
    }
}
