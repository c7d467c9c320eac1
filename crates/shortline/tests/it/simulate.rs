//! `shortline simulate` as its users see it. Runs are short: figures are tested in the simulator's own tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::processes::{TWO_SERVERS, file, message, shortline, simulation, stderr, stdout_of};

/// Counted events of a short run.
const SHORT: [&str; 2] = ["--events", "20000"];

const RANDOM_GRAPH: &str = r#"
[fleet]
name = "random graph"
buffer = 4
policy = "jfsq"
[[server_type]]
name = "fast"
rate = 2.0
[[server_type]]
name = "slow"
rate = 1.0
[[server]]
name = "f"
count = 4
type = "fast"
[[server]]
name = "s"
count = 12
type = "slow"
[[job_type]]
name = "j"
count = 8
rate = 1.6
[graph]
kind = "port-degree"
degree = 8
seed = 3
"#;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn simulate(fleet: &Path, arguments: &[&str]) -> Output {
    simulation(fleet, arguments).output().unwrap()
}

/// What a run that succeeds prints.
fn stdout(fleet: &Path, arguments: &[&str]) -> String {
    stdout_of(&mut simulation(fleet, arguments))
}

fn json(fleet: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(fleet, &[arguments, &["--json"]].concat())).unwrap()
}

fn assert_refused(output: &Output, messages: &[&str]) {
    assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
    messages.iter().for_each(|message| assert!(stderr(output).contains(message), "{message:?} in {}", stderr(output)));
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has_keys(value: &Value, wanted: &str) {
    let missing: Vec<&str> = wanted.split(' ').filter(|key| !keys(value).contains(key)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in {value:#}");
}

fn is_estimate(value: &Value) {
    assert_eq!(keys(value), BTreeSet::from(["mean", "ci95"]), "{value:#}");
    let (mean, low, high) = (value["mean"].as_f64(), value["ci95"][0].as_f64(), value["ci95"][1].as_f64());
    assert!(low <= mean && mean <= high && low.is_some(), "{value:#}");
}

#[test]
fn the_json_has_every_field_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let report = json(&fleet, &[&["--policy", "jfsq,jsq(2)"], SHORT.as_slice()].concat());
    has_keys(&report, "fleet servers job_types edges offered_load policies differences");
    assert_eq!((report["fleet"].as_str(), report["servers"].as_u64()), (Some("random graph"), Some(16)));
    assert_eq!((report["job_types"].as_u64(), report["edges"].as_u64()), (Some(8), Some(64)));
    assert!((report["offered_load"].as_f64().unwrap() - 0.64).abs() < 1e-9);

    assert_eq!(report["policies"].as_array().unwrap().len(), 2);
    for policy in report["policies"].as_array().unwrap() {
        has_keys(policy, "policy engine unstable converged bound events simulated_s cpu_s seed");
        let estimates = "mean_response_s mean_waiting_s mean_service_s mean_jobs fraction_waiting p50_response_s \
                         p95_response_s p99_response_s blocking_probability reneged_probability ratio_to_bound";
        estimates.split_whitespace().for_each(|key| is_estimate(&policy[key]));
        assert_eq!(policy["engine"], "markov");
        assert_eq!(policy["unstable"], false);
        has_keys(&policy["bound"], "kind mean_response_s");
        assert!(policy["events"].as_u64() > Some(20_000) && policy["simulated_s"].as_f64() > Some(0.0));
        assert!(policy["cpu_s"].as_f64() > Some(0.0));
        assert_eq!(policy["seed"], 1);

        let job_types = policy["per_job_type"].as_array().unwrap();
        assert_eq!(job_types.len(), 8);
        has_keys(&job_types[0], "name mean_response_s blocking_probability share");
        is_estimate(&job_types[0]["mean_response_s"]);
        is_estimate(&job_types[0]["blocking_probability"]);
        assert!((job_types[0]["share"].as_f64().unwrap() - 0.125).abs() < 1e-12);

        let server_types = policy["per_server_type"].as_array().unwrap();
        assert_eq!(server_types.len(), 2);
        has_keys(&server_types[0], "name utilisation mean_jobs fluid_mean_jobs occupancy");
        is_estimate(&server_types[0]["utilisation"]);
        is_estimate(&server_types[0]["mean_jobs"]);
        let occupancy: Vec<f64> =
            server_types[0]["occupancy"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert!(occupancy.len() <= 4 && occupancy.is_sorted_by(|a, b| a >= b), "{occupancy:?}");
    }
    let difference = &report["differences"][0];
    assert_eq!((difference["a"].as_str(), difference["b"].as_str()), (Some("jfsq"), Some("jsq(2)")));
    is_estimate(&difference["mean_response_ratio"]);
}

#[test]
fn per_type_chooses_the_job_types_reported() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let listed = |option| {
        let report = json(&fleet, &[&["--per-type", option], SHORT.as_slice()].concat());
        report["policies"][0]["per_job_type"].as_array().unwrap().len()
    };
    assert_eq!((listed("top=3"), listed("all")), (3, 8));
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let report = |threads| {
        let options = ["--policy", "jfsq,split,random", "--threads", threads, "--json"];
        let text = stdout(&fleet, &[options.as_slice(), SHORT.as_slice()].concat());
        text.lines().filter(|line| !line.contains("\"cpu_s\"")).collect::<String>()
    };
    assert_eq!(report("1"), report("3"));
}

#[test]
fn a_run_that_has_not_converged_warns_and_fails_only_if_strict() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let lax = simulate(&fleet, &["--events", "1000"]);
    assert_eq!(lax.status.code(), Some(0));
    assert!(stderr(&lax).contains("`jfsq` has not converged"), "{}", stderr(&lax));
    let strict = simulate(&fleet, &["--events", "1000", "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(!strict.stdout.is_empty(), "the table is printed all the same");
    let converged = simulate(&fleet, &["--relative-error", "0.1", "--strict"]);
    assert_eq!(converged.status.code(), Some(0), "{}", stderr(&converged));
}

#[test]
fn an_overloaded_fleet_is_called_unstable_and_has_no_means() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let report = json(&fleet, &["--load", "1.3", "--relative-error", "0.1"]);
    let policy = &report["policies"][0];
    assert_eq!(policy["unstable"], true);
    // 14.3 come per second, 11 go.
    let growth = policy["growth_jobs_per_s"].as_f64().unwrap();
    assert!((growth / 3.3 - 1.0).abs() < 0.2, "{growth}");
    assert!(policy.get("mean_response_s").is_none(), "{policy:#}");
    assert!(stdout(&fleet, &["--load", "1.3", "--relative-error", "0.1"]).contains("unstable"));
    let strict = simulate(&fleet, &["--load", "1.3", "--relative-error", "0.1", "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{}", stderr(&strict));
}

#[test]
fn what_is_no_markov_chain_is_simulated_with_an_event_calendar() {
    let fleet = example("image-generation.toml");
    let report = json(&fleet, &SHORT);
    assert_eq!(report["policies"][0]["engine"], "calendar");
    assert!(report["policies"][0]["engine_why"].as_str().unwrap().contains("sizes that are not exponential"));
    let instead = simulate(&fleet, &[&["--service", "exponential"], SHORT.as_slice()].concat());
    assert_eq!(instead.status.code(), Some(0), "{}", stderr(&instead));
    assert!(stderr(&instead).contains("its [service] is not used"), "{}", stderr(&instead));
    let report = json(&fleet, &[&["--service", "exponential"], SHORT.as_slice()].concat());
    assert_eq!(report["service"], "exponential");

    let folder = tempfile::tempdir().unwrap();
    let failing =
        file(&folder, "failing.toml", &format!("{TWO_SERVERS}\n[failures]\nmean_up_s = 9\nmean_down_s = 1\n"));
    let report = json(&failing, &SHORT);
    let policy = &report["policies"][0];
    assert!(policy["blocking_probability"]["mean"].as_f64().unwrap() > 0.001, "both are down now and then: {policy:#}");
    assert_eq!(policy["bound"]["kind"], "graph", "at the measured throughput");
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let without = |line: &str| file(&folder, "without.toml", &TWO_SERVERS.replace(line, ""));
    assert_refused(&simulate(&without("rate = 4.0"), &SHORT), &["job type `m` has no arrival rate"]);
    let fleet = file(&folder, "two.toml", TWO_SERVERS);
    assert_refused(&simulate(&fleet, &["--load", "-1"]), &["--load is -1"]);
    assert_refused(&simulate(&fleet, &["--load", "0"]), &["--load is 0"]);
    assert_refused(&simulate(&fleet, &["--events", "0"]), &["--events"]);
    assert_refused(&simulate(&fleet, &["--relative-error", "2"]), &["relative error is 2"]);
    assert_refused(&simulate(&fleet, &["--policy", "jqs"]), &["did you mean `jsq`?"]);
    assert_refused(&simulate(&fleet, &["--policy", ""]), &["no policy is named here; known are random, jsq"]);
    assert_refused(&simulate(&fleet, &["--policy", "jsq,"]), &["no policy is named here"]);
    for threads in ["0", "100000", "-1"] {
        assert_refused(&simulate(&fleet, &["--threads", threads]), &["--threads", "1..=1024"]);
    }
    let nothing = file(&folder, "nothing.toml", &TWO_SERVERS.replace("serves = [\"m\"]", "serves = []"));
    assert_refused(&simulate(&nothing, &[]), &["no job type that arrives is on a server", "`serves`"]);
}

#[test]
fn the_fleet_of_the_papers_runs_as_it_is() {
    let report = json(&example("papers-fleet.toml"), &[&["--policy", "jfsq,split"], SHORT.as_slice()].concat());
    assert!((report["offered_load"].as_f64().unwrap() - 0.9).abs() < 1e-9);
    assert_eq!(report["policies"][1]["policy"], "split");
}

/// Runs until it is interrupted, a second into the run.
#[test]
fn ctrl_c_prints_what_there_is_not_converged() {
    let mut command = shortline();
    command.arg("simulate").arg(example("papers-fleet.toml")).args(["--events", "1e12", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["policies"][0]["converged"], false);
    assert!(report["policies"][0]["events"].as_u64() > Some(0));
    assert!(stderr(&output).contains("has not converged"));
}

/// Every estimate has both its members, and numbers are missing only where they may be.
fn is_sound(value: &Value, key: &str) {
    match value {
        Value::Object(members) => {
            if members.contains_key("mean") {
                is_estimate(value);
            }
            members.iter().for_each(|(key, value)| is_sound(value, key));
        }
        Value::Array(values) => values.iter().for_each(|value| is_sound(value, key)),
        Value::Null => {
            let may_be = ["bound", "ratio_to_bound", "fluid_mean_jobs"];
            assert!(may_be.contains(&key), "`{key}` is null");
        }
        Value::Number(number) => assert!(number.as_f64().is_some_and(f64::is_finite), "`{key}` is {number}"),
        Value::Bool(_) | Value::String(_) => {}
    }
}

#[test]
fn the_json_of_every_kind_of_fleet_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let with = |before: &str, after: &str| TWO_SERVERS.replace(before, after);
    let fleets = [
        ("lossless", TWO_SERVERS.to_owned(), true),
        ("lossy", with("policy =", "buffer = 2\npolicy ="), true),
        ("waiting", with("policy =", "buffer = 2\noverflow = \"wait\"\nqueue_timeout_s = 2\npolicy ="), false),
        (
            "per pair",
            format!(
                "{}[[job_type]]\nname = \"n\"\nrate = 1.0\n[[rate]]\njob_type = \"m\"\nserver_type = \"slow\"\nrate = 2.0\n",
                with("serves = [\"m\"]", "serves = [\"m\", \"n\"]")
            ),
            true,
        ),
        ("rare", with("rate = 4.0", "rate = 4e-9"), true),
    ];
    for (name, text, has_bound) in fleets {
        let fleet = file(&folder, "fleet.toml", &text);
        let report = json(&fleet, &["--policy", "jfsq,jsq", "--events", "60000"]);
        is_sound(&report, name);
        for policy in report["policies"].as_array().unwrap() {
            let of = |key: &str| policy[key].as_f64().unwrap_or_else(|| panic!("{name}: `{key}` in {policy:#}"));
            let mean = |key: &str| policy[key]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: `{key}`"));
            let counted = policy["events"].as_u64().unwrap() - policy["warmup_events"].as_u64().unwrap();
            assert_eq!(counted, 60_000, "{name}");
            // Every arrival leaves, unless it is blocked; times are summed over the replications.
            let rate = report["job_types"].as_f64().unwrap() - 1.0 + if name == "rare" { 4e-9 } else { 4.0 };
            let events_per_s = rate * (2.0 - mean("blocking_probability") - mean("reneged_probability"));
            let ratio = of("events") / of("simulated_s") / events_per_s;
            // Jobs that give up leave without an event.
            assert!((ratio - 1.0).abs() < 0.02, "{name}: {ratio}");
            let sum = mean("mean_waiting_s") + mean("mean_service_s");
            assert!((mean("mean_response_s") / sum - 1.0).abs() < 1e-9, "{name}: waiting and service");
            assert_eq!(policy.get("why").is_some(), policy["bound"].is_null(), "{name}: {policy:#}");
            if has_bound {
                assert!(policy["bound"]["kind"].is_string(), "{name}: {policy:#}");
                assert!(mean("ratio_to_bound") > 0.99, "{name}");
            }
            // Little's law, of the accepted jobs.
            let through = mean("throughput_per_s") * mean("mean_response_s");
            let allowed = if name == "waiting" { 0.3 } else { 0.03 };
            assert!((through / mean("mean_jobs") - 1.0).abs() < allowed, "{name}: {through}");
        }
    }
    let unstable = json(&file(&folder, "fleet.toml", TWO_SERVERS), &["--load", "1.2", "--policy", "jsq,jfsq"]);
    is_sound(&unstable, "unstable");
    assert_eq!(unstable["differences"], Value::Array(vec![]));
    assert!(unstable["policies"][0]["why"].as_str().unwrap().contains("pile up"), "{unstable:#}");
}

#[test]
fn a_run_too_short_for_its_warm_up_has_no_means_and_says_what_to_raise() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    for (limit, value) in [("--time", "0"), ("--events", "1"), ("--events", "500")] {
        let output = simulate(&fleet, &[limit, value, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let warning = stderr(&output);
        assert!(warning.contains("`jfsq` has no means") && warning.contains(&format!("raise {limit}")), "{warning}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let policy = &report["policies"][0];
        assert_eq!((&policy["converged"], &policy["unstable"]), (&Value::Bool(false), &Value::Bool(false)));
        assert!(policy.get("mean_response_s").is_none() && policy["why"].is_string(), "{policy:#}");
        assert!(stdout(&fleet, &[limit, value]).contains("no means"));
        assert_eq!(simulate(&fleet, &[limit, value, "--strict"]).status.code(), Some(1));
    }
}

/// On the second a job at a server of rate 1 has a million million ticks of the other server to wait through.
#[test]
fn rare_jobs_do_not_outlast_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let report = json(&fleet, &["--load", "1e-9", "--policy", "jfsq,random", "--time", "30"]);
    assert_eq!(report["policies"][1]["converged"], true, "{report:#}");
    let slow = "name = \"m\"\nrate = 0.5\n[[job_type]]\nname = \"n\"\nrate = 0.5";
    let unlike = TWO_SERVERS.replace("rate = 10.0", "rate = 1e12").replace("name = \"m\"\nrate = 4.0", slow);
    let unlike = unlike.replace("type = \"slow\"\nserves = [\"m\"]", "type = \"slow\"\nserves = [\"n\"]");
    let fleet = file(&folder, "unlike.toml", &unlike);
    let start = Instant::now();
    let output = simulate(&fleet, &["--time", "0.5"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(stderr(&output).contains("raise --time"), "{}", stderr(&output));
}

#[test]
fn a_line_beside_idle_servers_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = RANDOM_GRAPH.replace("buffer = 4", "buffer = 4\noverflow = \"wait\"");
    let fleet = file(&folder, "fleet.toml", &waiting);
    let output = simulate(&fleet, &[&["--policy", "jfsq,jsq(2)", "--load", "0.3"], SHORT.as_slice()].concat());
    let said = stderr(&output);
    assert!(said.contains("`jsq(2)` with overflow = \"wait\"") && !said.contains("`jfsq` with overflow"), "{said}");
}

/// The second point takes far longer than the first.
#[test]
fn a_point_of_a_sweep_is_in_the_csv_as_soon_as_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", &RANDOM_GRAPH.replace("buffer = 4", ""));
    let path = folder.path().join("out.csv");
    let mut command = shortline();
    command.arg("simulate").arg(fleet).args(["--sweep", "load=0.3,0.9999", "--relative-error", "0.005", "--csv"]);
    let mut child = command.arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let rows = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    while rows() < 2 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running, "the sweep goes on");
    assert_eq!(rows(), 2);
}

/// The CSV that a run writes, by lines and fields.
fn csv(fleet: &Path, arguments: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    stdout(fleet, &[arguments, &["--csv", path.to_str().unwrap()]].concat());
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn column(rows: &[Vec<String>], name: &str) -> Vec<String> {
    let i = rows[0].iter().position(|column| column == name).unwrap_or_else(|| panic!("{name} in {:?}", rows[0]));
    rows[1..].iter().map(|row| row[i].clone()).collect()
}

fn numbers(rows: &[Vec<String>], name: &str) -> Vec<f64> {
    column(rows, name).iter().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_sweep_over_loads_has_a_row_per_policy_and_load() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let options = ["--policy", "jfsq,jsq", "--sweep", "load=0.3..0.9:0.3"];
    let rows = csv(&fleet, &[options.as_slice(), SHORT.as_slice()].concat());
    let wanted = [0.3, 0.3, 0.6, 0.6, 0.9, 0.9];
    assert!(numbers(&rows, "offered_load").iter().zip(wanted).all(|(load, wanted)| (load - wanted).abs() < 1e-9));
    let mean = numbers(&rows, "mean_response_s");
    assert!(mean[0] < mean[2] && mean[2] < mean[4], "{mean:?}");

    assert_eq!(column(&rows, "load"), ["0.3", "0.3", "0.6", "0.6", "0.9", "0.9"]);
    assert_eq!(column(&rows, "offered_load"), column(&rows, "load"), "without the noise of sums");
    assert_eq!(column(&rows, "engine"), ["markov"; 6]);
    assert_eq!(column(&rows, "bound_kind"), ["graph"; 6]);
    assert_eq!(column(&rows, "growth_jobs_per_s"), [""; 6]);
    let bound = numbers(&rows, "bound_s");
    for (i, ratio) in numbers(&rows, "ratio_to_bound").into_iter().enumerate() {
        assert!((ratio - mean[i] / bound[i]).abs() < 1e-9);
        assert!(numbers(&rows, "ratio_low")[i] <= ratio && ratio <= numbers(&rows, "ratio_high")[i]);
    }

    let points = json(&fleet, &[options.as_slice(), SHORT.as_slice()].concat());
    let loads: Vec<f64> = points.as_array().unwrap().iter().map(|point| point["load"].as_f64().unwrap()).collect();
    assert_eq!(loads, [0.3, 0.6, 0.9]);
    has_keys(&points[2], "load fleet servers policies differences");
}

#[test]
fn a_sweep_over_degrees_generates_the_graph_anew() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let options = ["--sweep", "degree=2,8,16", "--load", "0.5"];
    let rows = csv(&fleet, &[options.as_slice(), SHORT.as_slice()].concat());
    assert_eq!(numbers(&rows, "edges"), [16.0, 64.0, 128.0]);
    assert_eq!(numbers(&rows, "degree"), [2.0, 8.0, 16.0]);
    assert!(numbers(&rows, "offered_load").iter().all(|load| (load - 0.5).abs() < 1e-9));
    // Degree 8 is the file's own: the same graph, the same figures.
    let same = csv(&fleet, &[&["--load", "0.5"], SHORT.as_slice()].concat());
    assert_eq!(column(&rows, "mean_response_s")[1], column(&same, "mean_response_s")[0]);
}

#[test]
fn a_sweep_over_sizes_keeps_the_load_and_the_ratio_of_job_types_to_servers() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let rows = csv(&fleet, &[&["--sweep", "servers=16,32,64"], SHORT.as_slice()].concat());
    assert_eq!(numbers(&rows, "servers"), [16.0, 32.0, 64.0]);
    assert_eq!(numbers(&rows, "job_types"), [8.0, 16.0, 32.0]);
    assert_eq!(numbers(&rows, "edges"), [64.0, 128.0, 256.0]);
    assert!(numbers(&rows, "offered_load").iter().all(|load| (load - 0.64).abs() < 1e-9), "{rows:?}");
    assert_eq!(column(&rows, "mean_response_s")[0], column(&csv(&fleet, &SHORT), "mean_response_s")[0]);
}

/// `a` has 2 servers that hold `m`, `b` has 4 that hold `m` and `n`; scaled by three.
#[test]
fn without_a_graph_every_server_of_an_entry_keeps_what_it_holds() {
    let entries = TWO_SERVERS.replace("name = \"a\"", "name = \"a\"\ncount = 2").replace(
        "name = \"b\"\ntype = \"slow\"\nserves = [\"m\"]",
        "name = \"b\"\ncount = 4\ntype = \"slow\"\nserves = [\"m\", \"n\"]",
    );
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", &(entries + "[[job_type]]\nname = \"n\"\nrate = 1.0\n"));
    let rows = csv(&fleet, &[&["--sweep", "servers=6,18"], SHORT.as_slice()].concat());
    assert_eq!(numbers(&rows, "edges"), [10.0, 30.0]);
    assert_eq!(numbers(&rows, "job_types"), [2.0, 2.0]);
}

#[test]
fn sweeps_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let two = file(&folder, "two.toml", TWO_SERVERS);
    let graph = file(&folder, "graph.toml", RANDOM_GRAPH);
    let sweep = |fleet: &Path, sweep| simulate(fleet, &["--sweep", sweep]);
    assert_refused(&sweep(&two, "degree=1"), &["[graph] has a `degree`", "port-degree"]);
    assert_refused(&sweep(&two, "servers=4"), &["at 4", "no [[server]] has a `count`"]);
    assert_refused(&sweep(&graph, "degree=17"), &["--sweep degree, at 17", "16"]);
    assert_refused(&sweep(&graph, "servers=1"), &["at 1", "leaves none"]);
    let rate = "[[rate]]\njob_type = \"j-1\"\nserver_type = \"slow\"\nrate = 0.5\n";
    let with_rate = file(&folder, "rate.toml", &format!("{rate}{RANDOM_GRAPH}"));
    assert_refused(&sweep(&with_rate, "servers=32"), &["at 32", "[[rate]]", "`j`"]);
    assert_refused(&sweep(&graph, "speed=2"), &["`speed` cannot be swept over"]);
    assert_refused(&sweep(&graph, "load=0.9..0.5:0.1"), &["a range goes up"]);
    assert_refused(&simulate(&graph, &["--sweep", "load=0.5", "--load", "0.5"]), &["exclude each other"]);
}

#[test]
fn a_trajectory_starts_empty_and_fills() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    let options = ["--policy", "jfsq,split", "--trajectory", "6:2", "--replications", "20"];
    let report = json(&fleet, &options);
    has_keys(&report, "fleet servers job_types edges replications seed complete trajectories");
    assert_eq!(report["trajectories"].as_array().unwrap().len(), 2);
    for trajectory in report["trajectories"].as_array().unwrap() {
        let points = trajectory["points"].as_array().unwrap();
        let times: Vec<f64> = points.iter().map(|point| point["time_s"].as_f64().unwrap()).collect();
        assert_eq!(times, [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(points[0]["mean_jobs"]["mean"], 0.0);
        assert!(points[3]["mean_jobs"]["mean"].as_f64() > Some(5.0), "{:#}", points[3]);
        is_estimate(&points[3]["per_server_type"][1]["occupancy"][0]);
    }
    let rows = csv(&fleet, &options);
    assert_eq!(rows[0].join(","), "policy,time_s,server_type,quantity,jobs,mean,low,high");
    assert!(rows.iter().any(|row| row[3] == "occupancy" && row[4] == "1"));
    assert!(stdout(&fleet, &options).contains("fast >= 1"));
    assert_refused(&simulate(&fleet, &["--trajectory", "5:0"]), &["a range goes up"]);
    assert_refused(&simulate(&fleet, &["--trajectory", "5", "--replications", "1"]), &["--replications"]);
    assert_refused(&simulate(&fleet, &["--replications", "5"]), &["--trajectory"]);
}

/// A fleet file that never ends keeps the command in its set-up.
fn reading_for_ever(arguments: &[&str]) -> std::process::Child {
    let mut command = shortline();
    command.args(["simulate", "-"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn setting_up_ends_at_the_time_limit_and_at_ctrl_c() {
    for (arguments, why) in [(["--time", "0.2"], "--time 0.2 was over"), (["--seed", "1"], "interrupted")] {
        let mut child = reading_for_ever(&arguments);
        if why == "interrupted" {
            std::thread::sleep(Duration::from_secs(1));
            std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        }
        // Held open, so that reading does not end.
        let input = child.stdin.take();
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        drop(input);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(why) && said.contains("while reading the fleet file; nothing was simulated"), "{said}");
    }
}

/// From the start of the command: of two seconds to read the file nothing is left for the run.
#[test]
fn the_time_to_set_up_counts() {
    let mut child = reading_for_ever(&["--time", "1.5", "--relative-error", "1e-6", "--json"]);
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), TWO_SERVERS.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(start.elapsed() < Duration::from_millis(1400), "{:?}", start.elapsed());
}

#[test]
fn what_is_named_twice_is_refused_wherever_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", RANDOM_GRAPH);
    for (list, twice) in [("jsq,jsq", "`jsq` is named twice"), ("jsq-2,random,jsq(2)", "as `jsq-2` and as `jsq(2)`")] {
        assert_refused(&simulate(&fleet, &["--policy", list]), &[twice]);
        assert_refused(&simulate(&fleet, &["--trajectory", "5", "--policy", list]), &[twice]);
        assert_refused(&shortline().arg("check").arg(&fleet).args(["--policy", list]).output().unwrap(), &[twice]);
    }
    assert_refused(&simulate(&fleet, &["--sweep", "degree=4,8,4"]), &["4 is there twice"]);
    assert_refused(&simulate(&fleet, &["--sweep", "load=0.5,0.50"]), &["0.5 is there twice"]);
    assert_refused(&simulate(&fleet, &["--trajectory", "0,1,1"]), &["1 is there twice"]);
}

#[test]
fn numbers_far_out_are_no_rows_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = |rates: [&str; 3]| {
        let [fast, slow, arrivals] = rates;
        let text = TWO_SERVERS.replace("rate = 10.0", &format!("rate = {fast}"));
        let text = text.replace("rate = 1.0", &format!("rate = {slow}"));
        file(&folder, &format!("{fast}.toml"), &text.replace("rate = 4.0", &format!("rate = {arrivals}")))
    };
    let usual = fleet(["10.0", "1.0", "4.0"]);
    let runs: [(&Path, &[&str], &str); 6] = [
        (&usual, &["--load", "1e300"], "unstable: +1.1e301 jobs/s"),
        (&usual, &["--load", "1e-300"], "offered load 1e-300"),
        (&usual, &["--sweep", "load=1e-200,2e-200"], "(sweep: load 2e-200)"),
        (&usual, &["--trajectory", "0,1e-100"], " 1e-100 s "),
        (&fleet(["1e100", "1e98", "4e99"]), &[], "e-100 s"),
        (&fleet(["1e-98", "1e-99", "4e-99"]), &["--mean-field"], "e98 s"),
    ];
    for (fleet, options, wanted) in runs {
        let short = if options.contains(&"--trajectory") { &[][..] } else { &SHORT };
        let path = folder.path().join("out.csv");
        let csv = ["--csv", path.to_str().unwrap()];
        let text = stdout(fleet, &[options, short, &csv].concat());
        assert!(text.contains(wanted), "{wanted} in {text}");
        let both = text + &std::fs::read_to_string(&path).unwrap();
        assert!(!both.contains(&"0".repeat(16)), "{options:?}: {both}");
    }
    for (option, value) in [("--load", "-1e300"), ("--relative-error", "1e300"), ("--sweep", "degree=1e300")] {
        let output = simulate(&usual, &[option, value]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("1e300") && !stderr(&output).contains("0000"), "{}", stderr(&output));
    }
}

#[test]
fn what_was_never_seen_is_shown_with_its_limit_and_what_cannot_be_without() {
    let folder = tempfile::tempdir().unwrap();
    let lossy = file(&folder, "lossy.toml", RANDOM_GRAPH);
    let table = stdout(&lossy, &["--load", "0.2", "--events", "100000"]);
    // 3.69 of 50,000 arrivals.
    assert!(table.contains("none seen (below 0.0074 %)"), "{table}");
    let lossless = file(&folder, "lossless.toml", &RANDOM_GRAPH.replace("buffer = 4", ""));
    let table = stdout(&lossless, &["--load", "0.2", "--events", "100000"]);
    assert!(table.contains("  0 %  markov"), "{table}");
    let filling = stdout(&lossy, &["--trajectory", "0,0.1", "--replications", "50"]);
    // At 0 all servers are empty for certain; later 3.69 of 4 x 50 and 12 x 50 servers.
    assert!(filling.contains("none seen (below 1.8 %)"), "{filling}");
    assert!(filling.lines().any(|line| line.contains(" 0 s") && !line.contains("none seen")), "{filling}");
}

/// 400 job types, each at the speed of its own at either of two server types; too large for the linear program.
fn per_pair() -> String {
    let rates: String = (0..200)
        .flat_map(|l| [("A", 0.5), ("B", 2.0)].map(|(m, rate)| (l, m, rate)))
        .map(|(l, m, rate)| format!("[[rate]]\njob_type = \"odd-{l}\"\nserver_type = \"{m}\"\nrate = {rate}\n"))
        .collect();
    format!(
        "[graph]\nkind = 'port-degree'\ndegree = 60\nseed = 7\n\
         [[server_type]]\nname = 'A'\nrate = 2\n[[server_type]]\nname = 'B'\nrate = 0.5\n\
         [[server]]\nname = 'a'\ncount = 250\ntype = 'A'\n[[server]]\nname = 'b'\ncount = 250\ntype = 'B'\n\
         [[job_type]]\nname = 'even'\ncount = 200\nrate = 2.0\n[[job_type]]\nname = 'odd'\ncount = 200\nrate = 2.0\n{rates}"
    )
}

#[test]
fn a_load_between_bounds_is_scaled_to_and_split_as_well_as_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", &per_pair());
    let output = simulate(&fleet, &["--load", "0.7", "--policy", "split", "--events", "200000", "--json"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("note: load 0.7 is one between 0.69") && said.contains("the shares of `split` carry 1."),
        "{said}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["offered_load"], Value::Null);
    let [low, high] = [0, 1].map(|i| report["offered_load_between"][i].as_f64().unwrap());
    assert!(0.69 < low && low < 0.7 && 0.7 < high && high < 0.71, "{low} {high}");
    // M/M/1 queues, none busier than the upper end of the load.
    let policy = &report["policies"][0];
    assert!(policy["mean_response_s"]["mean"].as_f64() < Some(1.02 * 0.5 / (1.0 - high)), "{policy:#}");
    let checked = shortline().arg("check").arg(&fleet).args(["--load", "0.7", "--json"]).output().unwrap();
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let factor = checked["max_load_factor_between"][0].as_f64().unwrap();
    assert!((factor * 0.7 - 1.0).abs() < 0.02, "{factor}");
}

/// 0.1 % above what the servers can do.
#[test]
fn just_above_the_largest_load_theory_says_what_the_run_cannot_show() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let options = ["--load", "1.001", "--policy", "jfsq,jsq", "--time", "1.5"];
    let output = simulate(&fleet, &[options.as_slice(), &["--json"]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for policy in report["policies"].as_array().unwrap() {
        assert_eq!((&policy["unstable"], &policy["converged"]), (&Value::Bool(false), &Value::Bool(false)));
        assert!(policy.get("mean_response_s").is_none() && policy["bound"].is_null(), "{policy:#}");
        let why = policy["why"].as_str().unwrap();
        assert!(why.contains("0.1 % more work arrives") && why.contains("no policy is stable"), "{why}");
    }
    assert_eq!(report["differences"], Value::Array(vec![]));
    let said = stderr(&output);
    assert!(said.contains("no policy is stable") && !said.contains("raise"), "{said}");
    // With losses there is a steady state at any load.
    let lossy = file(&folder, "lossy.toml", &TWO_SERVERS.replace("policy =", "buffer = 3\npolicy ="));
    let report = json(&lossy, &["--load", "1.001", "--events", "500000"]);
    assert!(report["policies"][0]["mean_response_s"]["mean"].is_f64(), "{report:#}");
}

/// One job type is on one server alone, which blind choices overload by 0.1 %; the fleet as a whole is far from full.
#[test]
fn a_policy_just_above_its_own_largest_load_is_known_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = TWO_SERVERS.replace("rate = 10.0", "rate = 1.0").replace("rate = 4.0", "rate = 0.702");
    let text = text.replace(
        "name = \"b\"\ntype = \"slow\"\nserves = [\"m\"]",
        "name = \"b\"\ntype = \"slow\"\nserves = [\"m\", \"n\"]",
    );
    let fleet = file(&folder, "fleet.toml", &format!("{text}[[job_type]]\nname = \"n\"\nrate = 0.65\n"));
    let why = |policy| {
        let report = json(&fleet, &["--policy", policy, "--time", "1"]);
        report["policies"][0]["why"].as_str().map(str::to_owned)
    };
    assert!(why("random").unwrap().starts_with("the policy is unstable (blind shares: `b`"));
    assert!(why("jsq").is_none_or(|why| !why.contains("unstable")), "jsq is stable there");
}

/// Found out at the start: a run of a minute would be lost.
#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    for option in ["--report", "--csv", "--jsonl"] {
        let start = Instant::now();
        let missing = folder.path().join("nowhere").join("file");
        let sweep = if option == "--jsonl" { &["--sweep", "load=0.5"][..] } else { &[] };
        let arguments = [&[option, missing.to_str().unwrap(), "--events", "1e12"], sweep].concat();
        let output = simulate(&fleet, &arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(message(&output).contains("there is no folder") && message(&output).contains("make it"));
        assert!(start.elapsed() < Duration::from_secs(20), "{option}");
    }
    let trajectory = ["--trajectory", "1", "--csv", "/nowhere/file"];
    assert_eq!(simulate(&fleet, &trajectory).status.code(), Some(1));
    // A run that is refused leaves no file, and one that was there as it was.
    let report = folder.path().join("report.html");
    let refused = ["--report", report.to_str().unwrap(), "--load", "-1"];
    assert_eq!(simulate(&fleet, &refused).status.code(), Some(2));
    assert!(!report.exists());
    std::fs::write(&report, "kept").unwrap();
    assert_eq!(simulate(&fleet, &refused).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "kept");
}

#[test]
fn what_is_not_sure_of_huge_jobs_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (shape, is_said) in [("2.0", true), ("2.5", true), ("3.0", true), ("3.1", false)] {
        let service = format!("[service]\ndistribution = \"pareto({shape})\"\n");
        let fleet = file(&folder, "fleet.toml", &(TWO_SERVERS.to_owned() + &service));
        let output = simulate(&fleet, &SHORT);
        assert_eq!(stderr(&output).contains("infinite variance"), is_said, "{}", stderr(&output));
    }
}

/// With a bound at a measured throughput, chance would be in it.
#[test]
fn where_nothing_can_be_lost_the_bound_is_that_of_what_is_offered() {
    let folder = tempfile::tempdir().unwrap();
    // Rates that vary, so that the bound at the file's rates does not hold; nothing is lost.
    let fleet =
        file(&folder, "fleet.toml", &(TWO_SERVERS.to_owned() + "[arrivals]\npiecewise = [[0, 0.5], [10, 1.5]]\n"));
    let bound = |seed: &str| -> f64 {
        let report: Value =
            serde_json::from_str(&stdout(&fleet, &[&SHORT[..], &["--json", "--seed", seed]].concat())).unwrap();
        report["policies"][0]["bound"]["mean_response_s"].as_f64().unwrap()
    };
    // All work fits on the fast server: 1/10 s a job.
    assert!((bound("1") - 0.1).abs() < 1e-12 && (bound("2") - 0.1).abs() < 1e-12, "{} and {}", bound("1"), bound("2"));
}

#[test]
fn the_csv_tells_the_warm_up_from_what_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, csv) = (file(&folder, "fleet.toml", TWO_SERVERS), folder.path().join("out.csv"));
    stdout(&fleet, &["--events", "20000", "--csv", csv.to_str().unwrap()]);
    let text = std::fs::read_to_string(csv).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    let number = |name: &str| -> u64 { row[header.iter().position(|column| column == name).unwrap()].parse().unwrap() };
    assert_eq!(number("events") - number("warmup_events"), 20_000);
}
