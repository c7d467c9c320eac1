//! `shortline simulate --trace` as its users see it.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::processes::{file, message, shortline, simulation, stderr, stdout_of};

const FLEET: &str = r#"
[[server_type]]
name = "fast"
rate = 2.0
[[server_type]]
name = "slow"
rate = 1.0
[[server]]
name = "f"
type = "fast"
serves = ["a", "b"]
[[server]]
name = "s"
type = "slow"
serves = ["*"]
[[job_type]]
name = "a"
[[job_type]]
name = "b, with a comma"
[service]
distribution = "trace"
"#;

fn fleet() -> String {
    FLEET.replace("\"a\", \"b\"", "\"a\", \"b, with a comma\"")
}

fn simulate(fleet: &Path, trace: &Path, arguments: &[&str]) -> Output {
    simulation(fleet, arguments).arg("--trace").arg(trace).output().unwrap()
}

/// The report on a trace with these lines.
fn json(lines: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, trace) = (file(&folder, "fleet.toml", &fleet()), file(&folder, "trace.csv", lines));
    serde_json::from_str(&stdout_of(simulation(&fleet, arguments).arg("--trace").arg(trace).arg("--json"))).unwrap()
}

/// What a trace that is none is refused with.
fn refusal(lines: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, trace) = (file(&folder, "fleet.toml", &fleet()), file(&folder, "trace.csv", lines));
    let output = simulate(&fleet, &trace, arguments);
    assert_eq!(output.status.code(), Some(2), "{lines}: {}", stderr(&output));
    message(&output)
}

/// 400 jobs, one a second, of 1.2 size units, every other one of each type.
fn regular() -> String {
    let job = |i: u32| format!("{i},{},1.2\n", if i.is_multiple_of(2) { "a" } else { "\"b, with a comma\"" });
    ["arrival_s,job_type,service_s\n".to_owned()].into_iter().chain((1000..1400).map(job)).collect()
}

#[test]
fn the_jobs_of_a_trace_are_simulated_once() {
    let report = json(&regular(), &["--policy", "jfsq,central,split"]);
    assert!((report["offered_load"].as_f64().unwrap() - 0.4).abs() < 1e-9, "{}", report["offered_load"]);
    for policy in report["policies"].as_array().unwrap().iter().take(2) {
        assert_eq!((policy["engine"].as_str(), policy["events"].as_u64()), (Some("calendar"), Some(800)));
        assert_eq!(policy["warmup_events"], 0);
        // The fast server is idle again when the next job comes.
        assert!((policy["mean_response_s"]["mean"].as_f64().unwrap() - 0.6).abs() < 1e-9, "{policy:#}");
        let bound = &policy["bound"];
        assert_eq!(bound["kind"], "graph");
        assert!(bound["mean_response_s"].as_f64().unwrap() <= 0.6 + 1e-9, "{policy:#}");
    }
}

#[test]
fn a_load_compresses_arrival_times_and_leaves_sizes() {
    let points = json(&regular(), &["--policy", "jfsq", "--sweep", "load=0.2,0.8"]);
    let policy = |i: usize| &points[i]["policies"][0];
    assert!((points[1]["offered_load"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    let spans = [0, 1].map(|i| policy(i)["simulated_s"].as_f64().unwrap());
    // 399 s at load 0.4, and the last service.
    assert!((spans[0] - 798.6).abs() < 0.7 && (spans[1] - 199.5).abs() < 2.0, "{spans:?}");
    assert!((policy(0)["mean_service_s"]["mean"].as_f64().unwrap() - 0.6).abs() < 1e-9);
    assert_eq!(
        json(&regular(), &["--load", "0.8", "--policy", "jfsq"])["policies"][0]["mean_response_s"],
        policy(1)["mean_response_s"]
    );
}

#[test]
fn a_slice_starts_at_its_first_job() {
    let report = json(&regular(), &["--requests", "100..164", "--policy", "jfsq"]);
    assert_eq!(report["policies"][0]["events"], 128);
    assert!((report["policies"][0]["simulated_s"].as_f64().unwrap() - 63.6).abs() < 1e-6);
    assert!(refusal(&regular(), &["--requests", "390..410"]).contains("has 400 requests"));
}

#[test]
fn windows_line_ends_quotes_and_other_columns_are_read() {
    let lines = "when,what,extra,work\r\n0,\"a\",x,2\r\n1,\"b, with a comma\",\"y \"\"z\"\"\",2\r\n";
    let report = json(lines, &["--columns", "arrival_s=when,job_type=what,service_s=work", "--policy", "jsq"]);
    assert_eq!(report["policies"][0]["events"], 4);
}

#[test]
fn faults_are_named_with_their_line() {
    let header = "arrival_s,job_type,service_s\n";
    for (rows, line, what) in [
        ("-1,a,1\n", "line 2", "-1"),
        ("0,a,1\n5,a,1\n4,a,1\n", "line 4", "sort the trace"),
        ("0,a,1\nNaN,a,1\n", "line 3", "NaN"),
        ("0,a,1\n1,c,1\n", "line 3", "job type `c` is not in the fleet, which has `a`, `b, with a comma`"),
        ("0,a,1\n1,\"c,1\n", "line 3", "quote"),
        ("0,a,-2\n", "line 2", "-2"),
        ("0,a\n", "line 2", "2 fields where the header has 3"),
        ("0,a,1\n\n1,a,1\n", "line 3", "blank"),
        ("", "line 1", "no requests"),
    ] {
        let refusal = refusal(&format!("{header}{rows}"), &[]);
        assert!(refusal.contains(line) && refusal.contains(what), "{rows:?}: {refusal}");
    }
    assert!(refusal("", &[]).contains("empty"));
    let sliced = refusal(&format!("{header}0,a,1\n1,a,1\n2,c,1\n"), &["--requests", "1..3"]);
    assert!(sliced.contains("line 4"), "{sliced}");
}

#[test]
fn sizes_come_from_the_trace_or_from_a_law() {
    assert!(refusal("arrival_s,job_type\n0,a\n", &[]).contains("has no column `service_s`"));
    let folder = tempfile::tempdir().unwrap();
    let constant = fleet().replace("\"trace\"", "\"deterministic\"");
    let (fleet, trace) =
        (file(&folder, "fleet.toml", &constant), file(&folder, "trace.csv", "arrival_s,job_type\n0,a\n9,a\n"));
    let output = simulate(&fleet, &trace, &["--json", "--policy", "jfsq"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["policies"][0]["simulated_s"], 9.5, "size 1 on the fast server: {}", stderr(&output));
    let without = simulation(&fleet, &["--events", "1000"]).output().unwrap();
    assert!(stderr(&without).contains("rate"), "a fleet without rates needs a trace: {}", stderr(&without));
}

#[test]
fn a_fleet_that_waits_for_a_trace_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let with_rates =
        fleet().replace("name = \"a\"\n", "name = \"a\"\nrate = 1.0\n").replace("comma\"\n[", "comma\"\nrate = 1.0\n[");
    let fleet = file(&folder, "fleet.toml", &with_rates);
    let output = simulation(&fleet, &[]).output().unwrap();
    let message = message(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("[service] distribution is \"trace\"") && message.contains("--trace CSV"), "{message}");
}

/// A server that goes down and stays down keeps its job.
#[test]
fn jobs_that_never_leave_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let failing = fleet() + "[failures]\nevents = [[0.5, \"s\", \"down\"], [0.5, \"f\", \"down\"]]\n";
    let (fleet, trace) = (
        file(&folder, "fleet.toml", &failing),
        file(&folder, "trace.csv", "arrival_s,job_type,service_s\n0,a,4\n1,a,1\n"),
    );
    let output = simulate(&fleet, &trace, &["--json", "--policy", "jfsq"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let policy = &report["policies"][0];
    assert_eq!((policy["unfinished"].as_u64(), policy["converged"].as_bool()), (Some(1), Some(false)));
    assert!(stderr(&output).contains("1 job of the trace did not leave"), "{}", stderr(&output));
}

#[test]
fn a_trace_without_work_or_time_between_its_jobs_has_no_load_to_scale() {
    for (jobs, why) in [
        ("0,a,0\n1,a,0\n", "bring no work"),
        ("5,a,1\n5,a,2\n", "arrive at one moment"),
        ("5,a,1\n", "a single job has no load"),
    ] {
        for arguments in [&["--load", "0.5"][..], &["--sweep", "load=0.5"]] {
            let refusal = refusal(&format!("arrival_s,job_type,service_s\n{jobs}"), arguments);
            assert!(refusal.contains(why) && refusal.contains("leave --load out"), "{refusal}");
        }
    }
}

/// Sixty-four jobs of a second each, faster than the servers can do them: nearly all leave when the last one has come.
#[test]
fn jobs_that_come_faster_than_they_are_served_have_exact_means_and_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, trace) = (file(&folder, "fleet.toml", &fleet()), file(&folder, "trace.csv", &regular()));
    for load in ["3", "1e6", "1e300"] {
        let output = simulate(&fleet, &trace, &["--load", load, "--policy", "jfsq", "--json"]);
        let note = message(&output);
        assert!(note.contains("the trace brings more work than the servers can do"), "{note}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let policy = &report["policies"][0];
        assert!(policy["mean_response_s"]["mean"].as_f64().unwrap() > 1.0, "{load}: {policy}");
        assert_eq!(policy["mean_response_s"]["ci95"].is_null(), load != "3", "{load}: {policy}");
        assert_eq!(note.contains("parts cannot be compared"), load != "3", "{note}");
    }
    assert!(!message(&simulate(&fleet, &trace, &["--load", "0.5"])).contains("more work"));
}

#[test]
fn jobs_of_no_size_take_no_time() {
    let lines: String = (0..40).map(|i| format!("{i},a,0\n")).collect();
    let report = json(&format!("arrival_s,job_type,service_s\n{lines}"), &["--policy", "jfsq"]);
    for figure in ["mean_response_s", "p50_response_s", "p95_response_s", "p99_response_s"] {
        assert_eq!(report["policies"][0][figure]["mean"], 0.0, "{figure}");
    }
}

#[test]
fn a_trace_that_the_clock_cannot_tell_is_refused_with_what_to_do() {
    for arguments in [&["--load", "1e-14"][..], &["--sweep", "load=1e-14"]] {
        let refusal = refusal(&regular(), arguments);
        assert!(refusal.contains("ticks in steps of") && refusal.contains("--requests A..B"), "{refusal}");
    }
}

#[test]
fn a_trace_of_a_few_jobs_has_exact_means_and_says_that_it_has_no_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "arrival_s,job_type,service_s\n0,a,2\n10,a,4\n";
    let (fleet, trace) = (file(&folder, "fleet.toml", &fleet()), file(&folder, "trace.csv", lines));
    let csv = folder.path().join("out.csv");
    let arguments = ["--policy", "jfsq,jsq", "--csv", csv.to_str().unwrap()];
    let output = simulate(&fleet, &trace, &arguments);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains(" 1.5 s ") && !printed.contains('±'), "{printed}");
    assert_eq!(stderr(&output).matches("2 jobs are too few").count(), 1, "said once: {}", stderr(&output));
    assert!(!stderr(&output).contains("no `rate`"), "the trace has the rates: {}", stderr(&output));
    let rows = std::fs::read_to_string(csv).unwrap();
    assert!(rows.contains(",1.5,,,") && !rows.contains("NaN"), "{rows}");
    let report = json(lines, &["--policy", "jfsq"]);
    assert_eq!(report["policies"][0]["mean_response_s"], serde_json::json!({ "mean": 1.5, "ci95": null }));
    assert!(report["policies"][0]["why"].as_str().unwrap().contains("too few"));
}

/// The first look is after 100,000 events.
#[test]
fn a_trace_that_is_stopped_says_how_far_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..200_000).map(|i| format!("{i},a,1\n")).collect();
    let (fleet, trace) = (
        file(&folder, "fleet.toml", &fleet()),
        file(&folder, "t.csv", &("arrival_s,job_type,service_s\n".to_owned() + &lines)),
    );
    let message = message(&simulate(&fleet, &trace, &["--policy", "jfsq", "--time", "0"]));
    // What is done before the run ends within a moment, or there is no run.
    assert!(message.contains("of 200000 jobs; raise --time") || message.contains("nothing was simulated"), "{message}");
}

#[test]
fn a_trace_may_come_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, trace) = (file(&folder, "fleet.toml", &fleet()), file(&folder, "trace.csv", &regular()));
    let mut command = shortline();
    command.arg("simulate").arg(&fleet).args(["--trace", "-", "--json", "--policy", "jfsq"]);
    let piped = stdout_of(command.stdin(std::fs::File::open(trace).unwrap()));
    let piped: Value = serde_json::from_str(&piped).unwrap();
    assert_eq!(piped["policies"][0]["events"], 800);
    let both = shortline().args(["simulate", "-", "--trace", "-"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
    assert!(message(&both).contains("cannot both be standard input"), "{}", message(&both));
}
