//! Fleet files that are written: read again, they are the same.

use super::{SMALL, parse};

/// Every key there is, each with a value that is not the default.
const ALL: &str = r#"
[fleet]
name = "all \"of\" it \\ é"
policy = "jsq(2,2)"
overflow = "wait"
queue_size = 100
queue_timeout_s = 0.1
hold_s = 60
[service]
distribution = "coxian2(1.5,0.25,1e-3)"
discipline = "ps"
[arrivals]
piecewise = [[0, 1], [3600, 2.5], [7200, 0]]
[failures]
events = [[1, "a", "down"], [2.5, "b-1", "up"]]
[information]
delay_s = 0.05
gateways = 3
[timeouts]
connect_s = 1
first_byte_s = 0.3333333333333333
idle_s = 3
header_s = 4
[health]
path = "/health"
interval_s = 1
timeout_s = 0.5
unhealthy_after = 7
healthy_after = 8
trip_after = 9
trip_status = [503]
open_s = 2
longest_open_s = 20
slow_start_s = 0
obey_retry_after = false
model_lost_status = [404, 410]
model_lost_s = 1e-7
[retry]
attempts = 2
budget = 0.125
floor_per_s = 1e17
body_limit = "1 MiB"
[emulate]
time_scale = 0.01
[gateway]
job_type_from = ["host", "model", "path"]
body_scan_limit = 1000
no_capacity_status = 429
served_by = false
models = false
max_header_bytes = 2048
max_headers = 50
connections_per_client = 5
[tls]
ca_file = "ca.pem"
certificate_file = "own.pem"
key_file = "key.pem"
[[route]]
path_prefix = "/images"
job_type = "m-1"
[[route]]
host = "n.example"
job_type = "n"
[[server_type]]
name = "fast"
rate = 0.1
slots = 3
[[server_type]]
name = "slow"
rate = 0.07
[[server]]
name = "a"
type = "fast"
address = "https://[::1]:8000"
protocol = "h2"
tls_name = "a.example"
serves = ["m-0", "n"]
[[server]]
name = "b"
count = 2
type = "slow"
address = "http://b.example:80-81"
protocol = "http1"
serves = ["*"]
buffer = 8
[[server]]
name = "c"
type = "slow"
serves = []
[[job_type]]
name = "m"
count = 2
total_rate = 1.7
zipf = 0.9
[[job_type]]
name = "n"
size = 2.5
[[rate]]
job_type = "m-1"
server_type = "fast"
rate = 0.3
"#;

#[test]
fn what_is_written_is_read_as_the_same_parts() {
    let variants = [
        ("process = \"poisson\"", "piecewise = [[0, 1], [3600, 2.5], [7200, 0]]"),
        ("process = \"on-off(1.5,10,20)\"", "piecewise = [[0, 1], [3600, 2.5], [7200, 0]]"),
        ("process = \"renewal(0.5)\"", "piecewise = [[0, 1], [3600, 2.5], [7200, 0]]"),
        ("mean_up_s = 100\nmean_down_s = 1", "events = [[1, \"a\", \"down\"], [2.5, \"b-1\", \"up\"]]"),
        ("distribution = \"pareto(1.5)\"", "distribution = \"coxian2(1.5,0.25,1e-3)\""),
        ("distribution = \"erlang(3)\"", "distribution = \"coxian2(1.5,0.25,1e-3)\""),
        ("verify = false", "ca_file = \"ca.pem\""),
    ];
    let texts = variants.map(|(new, old)| {
        assert!(ALL.contains(old), "{old}");
        ALL.replace(old, new)
    });
    for text in [SMALL, ALL].into_iter().chain(texts.iter().map(String::as_str)) {
        let parts = parse(text).unwrap_or_else(|faults| panic!("{}", faults.plain())).fleet;
        let written = parts.to_toml();
        let again = parse(&written).unwrap_or_else(|faults| panic!("{}\n{written}", faults.plain())).fleet;
        assert_eq!(again, parts, "{written}");
    }
}

#[test]
fn servers_of_one_count_are_told_apart_where_a_graph_tells_them_apart() {
    let text = SMALL.replace("serves = [\"*\"]", "").replace("serves = [\"M1\"]", "");
    let text = format!("{text}\n[graph]\nkind = \"port-degree\"\ndegree = 2\nseed = 1\n");
    let fleet = parse(&text).unwrap().fleet;
    let again = parse(&fleet.to_toml()).unwrap().fleet;
    assert_eq!(again.edges, fleet.edges);
    let names = |fleet: &shortline_core::fleet::FleetParts| {
        let each = |server: &shortline_core::fleet::ServerParts| {
            (0..server.names.len()).map(|i| server.names.get(i)).collect::<Vec<_>>()
        };
        fleet.servers.iter().flat_map(each).collect::<Vec<_>>()
    };
    assert_eq!(names(&again), names(&fleet));
}
