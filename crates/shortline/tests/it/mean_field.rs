//! `simulate --mean-field`: the limit of large fleets beside the simulation. That it is the limit is tested in the
//! simulator; here, that it is found where it is looked for.

use std::path::Path;

use serde_json::Value;

use crate::processes::{file, simulation, stdout_of};

/// 400 servers on a complete graph, where the mean field is the limit; `jfsq(2)` sees two of them.
const COMPLETE: &str = r#"
[fleet]
name = "complete"
buffer = 4
[[server_type]]
name = "fast"
rate = 2.0
[[server_type]]
name = "slow"
rate = 1.0
[[server]]
name = "f"
count = 100
type = "fast"
serves = ["*"]
[[server]]
name = "s"
count = 300
type = "slow"
serves = ["*"]
[[job_type]]
name = "j"
rate = 400.0
"#;

fn stdout(fleet: &Path, arguments: &[&str]) -> String {
    stdout_of(simulation(fleet, arguments).arg("--mean-field"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn each_policy_has_its_fixed_point_or_why_it_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", COMPLETE);
    let options = ["--policy", "jfsq(2),random,split", "--events", "400000", "--json"];
    let report: Value = serde_json::from_str(&stdout(&fleet, &options)).unwrap();
    for policy in &report["policies"].as_array().unwrap()[..2] {
        let (limit, name) = (&policy["mean_field"], &policy["policy"]);
        // Loose: this is about the place of the figures.
        for figure in ["mean_response_s", "mean_service_s", "mean_jobs", "fraction_waiting"] {
            let ratio = number(&limit[figure]) / number(&policy[figure]["mean"]);
            assert!((ratio - 1.0).abs() < 0.05, "{name}: {figure} {ratio}");
        }
        assert!(
            (number(&limit["blocking_probability"]) - number(&policy["blocking_probability"]["mean"])).abs() < 0.01
        );
        for (limit, simulated) in [0, 1].map(|m| (&limit["per_server_type"][m], &policy["per_server_type"][m])) {
            assert_eq!(limit["name"], simulated["name"]);
            assert!((number(&limit["utilisation"]) - number(&simulated["utilisation"]["mean"])).abs() < 0.03);
            for i in 0..3 {
                let [x, y] = [limit, simulated].map(|of| number(&of["occupancy"][i]));
                assert!((x - y).abs() < 0.03, "{name}: {x} {y}");
            }
        }
        assert!(limit["caveat"].is_null() && number(&limit["residual"]) < 1e-10);
    }
    let why = report["policies"][2]["mean_field"]["why"].as_str().unwrap();
    assert!(why.contains("`split` is not covered by the mean field"), "{why}");
}

#[test]
fn the_table_has_a_column_for_it_and_says_what_it_is_worth() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = COMPLETE.replace("serves = [\"*\"]\n", "").replace("rate = 400.0", "count = 100\nrate = 4.0")
        + "[graph]\nkind = \"port-degree\"\ndegree = 12\nseed = 1\n";
    let fleet = file(&folder, "fleet.toml", &sparse);
    let text = stdout(&fleet, &["--policy", "jsq,split", "--events", "20000"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].trim_end().ends_with("mean field"), "{text}");
    assert!(lines[2].trim_end().ends_with(" s") && lines[3].trim_end().ends_with('-'), "{text}");
    assert!(text.contains("mean field: an approximation: job types have fixed servers (the fewest: 12)"), "{text}");
    assert!(text.contains("mean field of split: policy `split` is not covered"), "{text}");
    let sweep = stdout(&fleet, &["--policy", "jsq", "--events", "20000", "--sweep", "load=0.5,0.7", "--json"]);
    let sweep: Value = serde_json::from_str(&sweep).unwrap();
    let jobs = |point: usize| number(&sweep[point]["policies"][0]["mean_field"]["mean_jobs"]);
    assert!(jobs(1) > 1.2 * jobs(0));
}

#[test]
fn a_trajectory_has_it_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", COMPLETE);
    let csv = folder.path().join("trajectory.csv");
    let times = ["--trajectory", "2:1", "--replications", "10", "--csv", csv.to_str().unwrap()];
    let options = [&["--policy", "jfsq,central"], times.as_slice()].concat();
    let report: Value = serde_json::from_str(&stdout(&fleet, &[options.as_slice(), &["--json"]].concat())).unwrap();
    let trajectory = &report["trajectories"][0];
    for i in 0..3 {
        let (simulated, limit) = (&trajectory["points"][i], &trajectory["mean_field"]["points"][i]);
        assert_eq!(simulated["time_s"], limit["time_s"]);
        let [x, y] = [number(&simulated["mean_jobs"]["mean"]), number(&limit["mean_jobs"])];
        assert!((x - y).abs() <= 0.05 * y, "{x} {y}");
        let [x, y] = [&simulated["per_server_type"][0]["mean_jobs"]["mean"], &limit["per_server_type"][0]["mean_jobs"]];
        assert!((number(x) - number(y)).abs() <= 0.05 * number(y), "{x} {y}");
    }
    assert!(report["trajectories"][1]["mean_field"]["why"].as_str().unwrap().contains("`central`"));
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert!(rows.contains("\"jfsq\",1,\"fast\",mean_field_occupancy,1,"), "{rows}");
    let text = stdout(&fleet, &options);
    assert!(text.contains("mean field") && text.contains("`central` is not covered"), "{text}");
}

#[test]
fn of_a_small_fleet_it_is_said_that_the_limit_is_one_of_large_fleets() {
    let folder = tempfile::tempdir().unwrap();
    let small = file(&folder, "small.toml", &COMPLETE.replace("100", "1").replace("300", "3").replace("400.0", "4.0"));
    let options = ["--policy", "random", "--events", "100000", "--json"];
    let report: Value = serde_json::from_str(&stdout(&small, &options)).unwrap();
    let caveat = report["policies"][0]["mean_field"]["caveat"].as_str().expect("a caveat");
    assert!(caveat.contains("4 servers are few") && caveat.contains("1/N = 0.25"), "{caveat}");
    assert!(stdout(&small, &options[..4]).contains("4 servers are few"));
    let large = file(&folder, "large.toml", COMPLETE);
    let report: Value = serde_json::from_str(&stdout(&large, &options)).unwrap();
    assert_eq!(report["policies"][0]["mean_field"]["caveat"], Value::Null);
}

#[test]
fn without_a_policy_in_the_file_or_on_the_command_line_it_is_jfsq_as_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", COMPLETE);
    let report: Value = serde_json::from_str(&stdout(&fleet, &["--events", "100000", "--json"])).unwrap();
    let policies = report["policies"].as_array().unwrap();
    assert_eq!((policies.len(), &policies[0]["policy"]), (1, &"jfsq".into()));
}
