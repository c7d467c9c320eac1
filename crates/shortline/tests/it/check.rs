//! `shortline check` as its users see it: what it says of fleets of all kinds, and that it says nothing it cannot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::processes::{TWO_SERVERS, file, shortline};

/// Fleets of every kind that the theory tells apart, with the exit status of `check`.
const KINDS: &[(&str, i32, &str)] = &[
    ("one server", 0, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 0.7 }]"),
    ("hot type", 1, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', type = 'A', serves = ['hot', 'rare'] }, { name = 'b', count = 3, type = 'A', serves = ['rare'] }]
        job_type = [{ name = 'hot', rate = 2.4 }, { name = 'rare', rate = 0.3 }]"),
    ("overloaded", 1, "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.5 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }, { name = 'b', type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 3 }]"),
    ("load exactly 1", 1, "server_type = [{ name = 'A', rate = 0.1 }]
        server = [{ name = 'a', count = 3, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 0.3 }]"),
    ("two parts", 0, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', type = 'A', serves = ['m'] }, { name = 'b', type = 'A', serves = ['n'] }]
        job_type = [{ name = 'm', rate = 0.5 }, { name = 'n', rate = 0.2 }]"),
    ("empty serves", 0, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['m'] }, { name = 'b', type = 'A', serves = [] }]
        job_type = [{ name = 'm', rate = 0.5 }]"),
    ("job type on no server", 1, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['m'] }]
        job_type = [{ name = 'm', rate = 0.5 }, { name = 'lost', rate = 0.5 }]"),
    ("job type without arrivals on no server", 0, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['m'] }]
        job_type = [{ name = 'm', rate = 0.5 }, { name = 'never', rate = 0 }]"),
    ("no edges", 1, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = [] }]
        job_type = [{ name = 'm', rate = 0.5 }]"),
    ("nothing arrives", 0, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 0 }]"),
    ("K = M", 0, "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.5 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }, { name = 'b', count = 2, type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2.7 }]"),
    ("load at a type boundary", 0, "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.5 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }, { name = 'b', count = 2, type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }]"),
    ("slots", 0, "server_type = [{ name = 'A', rate = 1, slots = 4 }, { name = 'B', rate = 0.5 }]
        server = [{ name = 'a', type = 'A', serves = ['m'] }, { name = 'b', count = 2, type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }, { name = 'n', rate = 0.4 }]"),
    ("slots and buffers", 0, "fleet = { buffer = 6 }
        server_type = [{ name = 'A', rate = 1, slots = 4 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }]"),
    ("pair rates", 0, "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 2 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }, { name = 'b', count = 3, type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 0.5 }, { name = 'n', rate = 0.2 }]
        rate = [{ job_type = 'm', server_type = 'A', rate = 5 }]"),
    ("pair rates, overloaded", 1, "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 2 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }, { name = 'b', type = 'B', serves = ['m'] }]
        job_type = [{ name = 'm', rate = 5 }, { name = 'n', rate = 2 }]
        rate = [{ job_type = 'm', server_type = 'A', rate = 5 }]"),
    ("ranks", 2, "server_type = [{ name = 'A', rank = 1 }, { name = 'B', rank = 2 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }, { name = 'b', type = 'B', serves = ['m'] }]
        job_type = [{ name = 'm', rate = 0.5 }]"),
    ("missing rates", 2, "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm' }, { name = 'n', rate = 0.1 }]"),
    ("lines in front", 0, "fleet = { buffer = 1, overflow = 'wait' }
        server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 3, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }]"),
    ("short lines in front", 0, "fleet = { buffer = 1, overflow = 'wait', queue_size = 10, queue_timeout_s = 3 }
        server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 3, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }]"),
    ("constant sizes", 0, "service = { distribution = 'deterministic', discipline = 'ps' }
        server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 3, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 2 }]"),
    ("bursts", 0, "fleet = { buffer = 3 }
        arrivals = { process = 'on-off', peak = 2, on_s = 1, off_s = 3 }
        information = { delay_s = 1 }
        failures = { mean_up_s = 9, mean_down_s = 1 }
        server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 3, type = 'A', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 1 }]"),
    ("buffers of one", 0, "fleet = { buffer = 1 }
        server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.25 }]
        server = [{ name = 'a', count = 20, type = 'A', serves = ['*'] }, { name = 'b', count = 20, type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 10 }]"),
    ("tiny and huge rates", 0, "fleet = { buffer = 3 }
        server_type = [{ name = 'A', rate = 1e9 }, { name = 'B', rate = 1e-9 }]
        server = [{ name = 'a', type = 'A', serves = ['*'] }, { name = 'b', type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 1e-8 }, { name = 'n', rate = 1e8 }]"),
    ("unlike buffers", 0, "fleet = { buffer = 3 }
        server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', count = 30, type = 'A', serves = ['*'] }, { name = 'b', type = 'A', serves = ['*'], buffer = 1 }]
        job_type = [{ name = 'm', rate = 20 }]"),
];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn check(fleet: &Path, arguments: &[&str]) -> Output {
    shortline().arg("check").arg(fleet).args(arguments).output().unwrap()
}

fn page(fleet: &Path, arguments: &[&str]) -> String {
    String::from_utf8(check(fleet, arguments).stdout).unwrap()
}

fn json(fleet: &Path, arguments: &[&str]) -> Value {
    let output = check(fleet, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn of_kind(kind: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, toml) = KINDS.iter().find(|(name, ..)| *name == kind).unwrap();
    let path = file(&folder, "fleet.toml", toml);
    (folder, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn close(value: &Value, expected: f64) {
    assert!((number(value) - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value}, expected {expected}");
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// A field of the contract: there, and of one of these JSON types.
fn has(value: &Value, key: &str, types: &str) {
    let found = value.get(key).unwrap_or_else(|| panic!("`{key}` is missing in {value:#}"));
    let kind = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(types.split('|').any(|allowed| allowed == kind), "`{key}` is {found}, should be {types}");
}

fn is_of_the_contract(report: &Value) {
    has(report, "stable", "bool|null");
    for key in ["offered_load", "max_load_factor"] {
        has(report, key, "number|null");
    }
    strings(&report["bottleneck"]["job_types"]);
    strings(&report["bottleneck"]["servers"]);
    assert_eq!(report["stability_by_policy"].as_array().unwrap().len(), 12);
    for row in report["stability_by_policy"].as_array().unwrap() {
        has(row, "policy", "string");
        has(row, "stable", "bool|null");
        has(row, "why", "string");
        assert!(!row["why"].as_str().unwrap().is_empty());
    }
    let kinds: BTreeSet<&str> =
        report["bounds"].as_array().unwrap().iter().map(|bound| bound["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["fluid", "graph", "pooled"]));
    for bound in report["bounds"].as_array().unwrap() {
        has(bound, "mean_response_s", "number|null");
        has(bound, "mean_jobs", "number|null");
        has(bound, "valid", "bool");
        has(bound, "why", "string");
        assert!(bound["valid"] == false || bound["mean_response_s"].is_number(), "{bound:#}");
    }
    let model = &report["model"];
    has(model, "uniform", "bool");
    for key in ["K", "beta", "C_star", "lambda", "tau_1K", "tau_1M", "tau_KM"] {
        has(model, key, "number|null");
        assert!(!model[key].is_null() || model["why"].is_string(), "{key} is null without a reason");
    }
    has(model, "C_star_m", "array|null");
    for row in report["connectivity"].as_array().unwrap() {
        let (lower, upper) = (number(&row["lower"]), number(&row["upper"]));
        assert!((0.0..=upper).contains(&lower) && upper <= 1.0, "{row:#}");
        assert!(row["exact"] == false || lower >= upper, "{row:#}");
        assert!(row["fastest_types"].as_u64() >= Some(1) && row["servers_left_out"].as_u64() >= Some(1), "{row:#}");
    }
    assert!(!report["connectivity"].as_array().unwrap().is_empty() || report["connectivity_why"].is_string());
    let guarantee = &report["guarantee"];
    has(guarantee, "vacuous", "bool");
    has(guarantee, "why", "string");
    for key in ["m", "e", "chi", "mean_jobs", "mean_response_s", "blocking_probability"] {
        has(guarantee, key, "number|null");
    }
    assert_eq!(guarantee["vacuous"] == true, guarantee["mean_response_s"].is_null(), "{guarantee:#}");
    strings(&report["problems"]);
    strings(&report["advice"]);
}

#[test]
fn every_kind_of_fleet_is_answered_in_the_form_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, status, toml) in KINDS {
        let path = file(&folder, "fleet.toml", toml);
        let output = check(&path, &["--json"]);
        assert_eq!(output.status.code(), Some(*status), "{kind}: {}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_of_the_contract(&report);
        let stable = [Value::Bool(true), Value::Bool(false), Value::Null][*status as usize].clone();
        assert_eq!(report["stable"], stable, "{kind}");
        if stable == Value::Bool(false) {
            let numbers = report["bounds"].as_array().unwrap().iter().filter(|bound| !bound["mean_jobs"].is_null());
            assert_eq!(numbers.count(), 0, "{kind}: there is no mean to bound");
        }
        let page = page(&path, &[]);
        assert!(!page.contains("NaN") && !page.contains("inf "), "{kind}: {page}");
    }
}

#[test]
fn both_examples_are_answered_in_the_form_of_the_contract() {
    for name in ["image-generation.toml", "papers-fleet.toml"] {
        let report = json(&example(name), &[]);
        is_of_the_contract(&report);
        assert_eq!(report["stable"], true);
    }
}

#[test]
fn the_figures_of_a_small_fleet_are_those_done_by_hand() {
    let (_folder, path) = of_kind("K = M");
    let report = json(&path, &[]);
    // Capacity 3 of two classes; 2.7 arrive; the slow class does 0.7, 1.4 of its 2 servers.
    close(&report["offered_load"], 0.9);
    close(&report["max_load_factor"], 3.0 / 2.7);
    close(&report["bounds"][0]["mean_jobs"], 3.4);
    close(&report["bounds"][1]["mean_response_s"], 3.4 / 2.7);
    let model = &report["model"];
    assert_eq!((model["K"].as_u64(), model["uniform"].as_bool()), (Some(2), Some(true)));
    close(&model["beta"], 0.1);
    close(&model["load_first_k"], 0.9);
    close(&model["C_star"], 0.85);
    close(&model["C_star_m"][1], 0.35);
    close(&model["lambda"], 0.675);
    for (tau, value) in [("tau_1K", 2.0), ("tau_1M", 2.0), ("tau_KM", 1.0)] {
        close(&model[tau], value);
    }
}

/// One server: M/M/1, whose mean number of jobs is `rho / (1 - rho)`.
#[test]
fn for_one_server_the_pooled_bound_is_the_queue_itself() {
    let (_folder, path) = of_kind("one server");
    let report = json(&path, &[]);
    close(&report["bounds"][2]["mean_jobs"], 0.7 / 0.3);
    assert!(page(&path, &[]).contains("The bound: 3.333 s (pooled)"));
}

#[test]
fn at_a_type_boundary_the_next_class_is_needed_and_none_of_it_is_busy() {
    let (_folder, path) = of_kind("load at a type boundary");
    let model = &json(&path, &[])["model"];
    assert_eq!(model["K"].as_u64(), Some(2));
    close(&model["C_star_m"][1], 0.0);
}

#[test]
fn demand_08_a_job_type_that_is_too_much_for_its_server_is_named_with_what_it_needs() {
    let (_folder, path) = of_kind("hot type");
    let report = json(&path, &[]);
    assert_eq!(strings(&report["bottleneck"]["job_types"]), ["hot"]);
    assert_eq!(strings(&report["bottleneck"]["servers"]), ["a"]);
    close(&report["max_load_factor"], 1.0 / 2.4);
    let advice = strings(&report["advice"]).join("\n");
    assert!(advice.contains("unstable: hot needs 2.4 servers, has 1"), "{advice}");
    let output = check(&path, &[]);
    assert!(text(&output.stderr).contains("the fleet is not stable"), "{}", text(&output.stderr));
}

#[test]
fn a_job_type_on_no_server_makes_a_fleet_unstable_only_if_it_arrives() {
    let (_folder, path) = of_kind("job type on no server");
    let report = json(&path, &[]);
    assert_eq!(strings(&report["bottleneck"]["job_types"]), ["lost"]);
    assert!(strings(&report["bottleneck"]["servers"]).is_empty());
    assert!(strings(&report["problems"]).iter().any(|problem| problem.contains("1 job type on no server: `lost`")));
    let (_folder, path) = of_kind("job type without arrivals on no server");
    assert_eq!(json(&path, &[])["stable"], true);
}

#[test]
fn a_graph_in_parts_is_a_problem() {
    let (_folder, path) = of_kind("two parts");
    let report = json(&path, &[]);
    assert_eq!(report["parts"], 2);
    assert!(strings(&report["problems"]).iter().any(|problem| problem.contains("2 parts")));
    let (_folder, path) = of_kind("slots");
    assert_eq!(json(&path, &[])["parts"], 1);
}

#[test]
fn with_finite_buffers_no_bound_for_fleets_without_losses_is_said_to_hold() {
    let (_folder, path) = of_kind("slots and buffers");
    for bound in json(&path, &[])["bounds"].as_array().unwrap() {
        assert_eq!(bound["valid"], false);
        assert!(bound["why"].as_str().unwrap().contains("lost"), "{bound:#}");
        assert!(bound["mean_response_s"].is_number(), "{bound:#}");
    }
    let (_folder, path) = of_kind("lines in front");
    assert!(json(&path, &[])["bounds"].as_array().unwrap().iter().all(|bound| bound["valid"] == true));
}

#[test]
fn what_a_file_lacks_is_named_and_the_rest_is_still_said() {
    let (_folder, path) = of_kind("missing rates");
    let output = check(&path, &[]);
    assert!(text(&output.stderr).contains("job type `m` has no arrival rate"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 server of 1 type, 2 job types, 2 edges"), "{}", text(&output.stdout));
    let (_folder, path) = of_kind("ranks");
    assert!(text(&check(&path, &[]).stderr).contains("has a `rank` only"));
}

#[test]
fn load_scales_the_arrival_rates() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", TWO_SERVERS);
    let report = json(&path, &["--load", "0.5"]);
    close(&report["offered_load"], 0.5);
    close(&report["max_load_factor"], 2.0);
    close(&report["arrivals_per_s"], 5.5);
    assert_eq!(check(&path, &["--load", "1"]).status.code(), Some(1), "the load at which nothing is to spare");
    assert_eq!(check(&path, &["--load", "1.5"]).status.code(), Some(1));
    assert_eq!(check(&path, &["--load", "0"]).status.code(), Some(2));
    assert_eq!(check(&path, &["--load", "-1"]).status.code(), Some(2));
}

/// `hot` is on two servers of three; with a third copy the whole fleet is the bottleneck.
const ONE_MORE_COPY: &str = "server_type = [{ name = 'A', rate = 1 }]
    server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }, { name = 'b', type = 'A', serves = ['rare'] }]
    job_type = [{ name = 'hot', rate = 1.6 }, { name = 'rare', rate = 0.2 }]";

#[test]
fn the_copy_that_helps_most_is_named_with_the_load_factor_it_gives() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "fleet.toml", ONE_MORE_COPY);
    let report = json(&path, &[]);
    close(&report["max_load_factor"], 2.0 / 1.6);
    assert_eq!((&report["best_edge"]["job_type"], &report["best_edge"]["server"]), (&"hot".into(), &"b".into()));
    close(&report["best_edge"]["max_load_factor"], 3.0 / 1.8);
    let advice = strings(&report["advice"]);
    let first = "hot is on 2 servers; it saturates first, at 1.25 x today's load; adding it to b raises that to 1.667";
    assert_eq!(advice[0], first);
    // Alone, `hot` can grow until its two servers are full, `rare` until all three are.
    assert_eq!(report["slacks"][0]["job_type"], "hot");
    close(&report["slacks"][0]["factor"], 1.25);
    close(&report["slacks"][1]["factor"], 1.0 + 1.2 / 0.2);
    // Without a-0, one server is left for 1.6.
    assert_eq!(report["losses"][0]["server"], "a-0");
    close(&report["losses"][0]["max_load_factor"], 1.0 / 1.6);
    assert!(advice.iter().any(|line| line.starts_with("2 servers cannot be lost: without any one of a-0 and a-1")));
}

#[test]
fn that_a_copy_is_the_best_or_that_none_helps_is_said_to_be_proved() {
    let folder = tempfile::tempdir().unwrap();
    let report = json(&file(&folder, "fleet.toml", ONE_MORE_COPY), &[]);
    assert_eq!(report["best_edge"]["is_best"], true);
    assert_eq!(report["best_edge_why"], "proved: no other single copy raises the load factor more");
    let (_folder, path) = of_kind("K = M");
    let report = json(&path, &[]);
    assert_eq!(report["best_edge"], Value::Null);
    assert_eq!(report["best_edge_why"], "proved: no single copy of a job type raises the load factor");
    assert!(strings(&report["advice"])[0].ends_with("more or faster servers raise that, more copies do not"));
    // All servers that hold anything are the bottleneck, and one holds nothing yet.
    let (_folder, path) = of_kind("empty serves");
    let report = json(&path, &[]);
    assert_eq!(report["best_edge"]["server"], "b");
    let advice = strings(&report["advice"])[0];
    assert!(advice.ends_with("; adding m to b raises that to 6") && !advice.contains("do not"), "{advice}");
    // Two are missing on all servers: one copy is not enough, whichever.
    let two_lost = "server_type = [{ name = 'A', rate = 1 }]
        server = [{ name = 'a', type = 'A', serves = ['m'] }]
        job_type = [{ name = 'm', rate = 0.5 }, { name = 'x', rate = 0.1 }, { name = 'y', rate = 0.1 }]";
    let report = json(&file(&folder, "fleet.toml", two_lost), &[]);
    assert_eq!((&report["best_edge"], &report["max_load_factor"]), (&Value::Null, &0.0.into()));
    assert!(report["best_edge_why"].as_str().unwrap().starts_with("proved: no single copy"), "{report:#}");
}

#[test]
fn with_a_job_type_on_no_server_nothing_is_left_to_lose_and_nothing_can_grow() {
    let (_folder, path) = of_kind("job type on no server");
    let report = json(&path, &[]);
    close(&report["max_load_factor"], 0.0);
    for (list, figure) in [("losses", "max_load_factor"), ("slacks", "factor")] {
        let rows = report[list].as_array().unwrap();
        assert!(!rows.is_empty());
        rows.iter().for_each(|row| close(&row[figure], 0.0));
        assert!(rows.iter().all(|row| row["exact"] == true));
    }
}

#[test]
fn exactly_all_is_not_said_to_be_more() {
    let (_folder, path) = of_kind("load exactly 1");
    let page = page(&path, &[]);
    for wrong in ["needs 1 times", "from 1.000 times", "more than it has", "more work than"] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
    assert!(page.contains("unstable: the fleet has nothing to spare"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let exact = |rate: f64| {
        let text = format!(
            "server_type = [{{ name = 'A', rate = 1 }}]
            server = [{{ name = 'a', type = 'A', serves = ['hot'] }}, {{ name = 'b', type = 'A', serves = ['rare'] }}]
            job_type = [{{ name = 'hot', rate = {rate} }}, {{ name = 'rare', rate = 0.3 }}]"
        );
        strings(&json(&file(&folder, "fleet.toml", &text), &[])["advice"]).join("\n")
    };
    assert!(
        exact(1.0).contains("hot needs all that the 1 server of it can do, and nothing is to spare"),
        "{}",
        exact(1.0)
    );
    assert!(exact(1.2).contains("hot needs 1.2 servers, has 1"), "{}", exact(1.2));
}

#[test]
fn what_is_proved_for_exponential_sizes_only_says_so() {
    let (_folder, path) = of_kind("constant sizes");
    let report = json(&path, &["--policy", "jfsq,random"]);
    for row in report["stability_by_policy"].as_array().unwrap() {
        assert_eq!(row["stable"], true);
        assert!(row["why"].as_str().unwrap().starts_with("for Poisson arrivals and exponential sizes: "), "{row:#}");
    }
}

/// `n` is on both servers, `m` on one: `random` sends half of `n` to where there is no room beside `m`.
const RANDOM_OVERLOADS: &str = "fleet = { policy = 'jfiq' }
    server_type = [{ name = 'A', rate = 1 }]
    server = [{ name = 'a', type = 'A', serves = ['m', 'n'] }, { name = 'b', type = 'A', serves = ['n'] }]
    job_type = [{ name = 'm', rate = 0.8 }, { name = 'n', rate = 0.6 }]";

#[test]
fn policies_are_told_apart_and_the_files_own_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "fleet.toml", RANDOM_OVERLOADS);
    let report = json(&path, &[]);
    let verdict = |policy: &str| {
        let rows = report["stability_by_policy"].as_array().unwrap();
        rows.iter().find(|row| row["policy"] == policy).unwrap()["stable"].clone()
    };
    assert_eq!(verdict("jfsq"), true);
    assert_eq!(verdict("random"), false, "half of n and all of m are 1.1 for server a");
    assert_eq!(verdict("jfiq"), Value::Null);
    let advice = strings(&report["advice"]);
    assert!(advice.contains(&"the file's policy jfiq is not known to be stable here; jfsq is stable"), "{advice:?}");
    let constant = format!("service = {{ distribution = 'deterministic' }}\n{RANDOM_OVERLOADS}");
    let report = json(&file(&folder, "constant.toml", &constant), &[]);
    let advice = strings(&report["advice"]).join("\n");
    assert!(advice.contains("; jfsq is stable, for Poisson arrivals and exponential sizes"), "{advice}");
    let some = json(&path, &["--policy", "random,jsq(2,2)"]);
    let names: Vec<&Value> = some["stability_by_policy"].as_array().unwrap().iter().map(|row| &row["policy"]).collect();
    assert_eq!(names, ["random", "jsq(2,2)"]);
    assert_eq!(check(&path, &["--policy", "jqs"]).status.code(), Some(2));
}

/// 4,096 servers of three speeds and every job type on each: large enough for all that is guaranteed.
const LARGE: &str = "fleet = { buffer = 5 }
    server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.5 }, { name = 'C', rate = 0.25 }]
    server = [{ name = 'a', count = 1024, type = 'A', serves = ['*'] },
        { name = 'b', count = 1024, type = 'B', serves = ['*'] }, { name = 'c', count = 2048, type = 'C', serves = ['*'] }]
    job_type = [{ name = 'm', count = 8, total_rate = 1434 }]";

#[test]
fn a_guarantee_lies_above_the_bounds_and_makes_them_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "fleet.toml", LARGE);
    let report = json(&path, &[]);
    is_of_the_contract(&report);
    let (guarantee, fluid) = (&report["guarantee"], &report["bounds"][0]);
    assert_eq!(guarantee["vacuous"], false, "{guarantee:#}");
    let ratio = number(&guarantee["mean_response_s"]) / number(&fluid["mean_response_s"]);
    assert!((1.0..1.01).contains(&ratio), "{ratio}");
    assert!(number(&guarantee["blocking_probability"]) < 1e-6);
    assert_eq!((&fluid["valid"], &report["bounds"][1]["valid"]), (&true.into(), &true.into()));
    assert!(fluid["why"].as_str().unwrap().contains("under jfsq, jfiq and nq"), "{fluid:#}");
    assert_eq!(report["bounds"][2]["valid"], false, "the pooled bound has no form for losses");
    close(&report["connectivity"][0]["upper"], 0.0);
}

/// 24,000 edges and a `[[rate]]` that turns the order of the types around for half of the job types.
fn two_orders(load: f64) -> String {
    let job_types = |name: &str, rate: f64| format!("{{ name = '{name}', count = 200, rate = {rate} }}");
    let slow_for_odd: Vec<String> = (0..200)
        .flat_map(|l| [("A", 0.5), ("B", 2.0)].map(|(server_type, rate)| (l, server_type, rate)))
        .map(|(l, server_type, rate)| {
            format!("{{ job_type = 'odd-{l}', server_type = '{server_type}', rate = {rate} }}")
        })
        .collect();
    format!(
        "graph = {{ kind = 'port-degree', degree = 60, seed = 7 }}
        server_type = [{{ name = 'A', rate = 2 }}, {{ name = 'B', rate = 0.5 }}]
        server = [{{ name = 'a', count = 250, type = 'A' }}, {{ name = 'b', count = 250, type = 'B' }}]
        job_type = [{}, {}]
        rate = [{}]",
        job_types("even", 2.5 * load),
        job_types("odd", 2.5 * load),
        slow_for_odd.join(", ")
    )
}

/// Each job type is best at the type that is fast for it, so that `s*` is 1 at `load` 1 but for the graph's unevenness.
#[test]
fn a_fleet_too_large_for_a_linear_program_has_bounds_on_its_load_factor_and_a_verdict_from_them() {
    let folder = tempfile::tempdir().unwrap();
    for (load, status, stable) in [(0.8, 0, Value::Bool(true)), (1.25, 1, Value::Bool(false))] {
        let path = file(&folder, "fleet.toml", &two_orders(load));
        let output = check(&path, &["--json"]);
        assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_of_the_contract(&report);
        assert_eq!((&report["stable"], &report["max_load_factor"]), (&stable, &Value::Null));
        let [least, most] = [0, 1].map(|i| number(&report["max_load_factor_between"][i]));
        assert!(least <= most && most <= 1.02 * least, "{least} {most}");
        assert!(least <= 1.0 / load && most >= 0.9 / load, "{least} {most}");
        assert!(report["slacks_why"].as_str().unwrap().contains("24000"), "{:#}", report["slacks_why"]);
        let random = report["stability_by_policy"].as_array().unwrap().iter().find(|row| row["policy"] == "random");
        assert_eq!(random.unwrap()["stable"], false, "half of the jobs go where they are slow");
    }
    let page = page(&file(&folder, "fleet.toml", &two_orders(0.8)), &[]);
    assert!(page.contains("largest load factor between ") && page.contains("at most 20000 can be solved"), "{page}");
    let critical = 0.8 * bracket_middle(&folder);
    let path = file(&folder, "fleet.toml", &two_orders(critical));
    let output = check(&path, &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["stable"], output.status.code()), (&Value::Null, Some(1)));
    assert!(text(&output.stderr).contains("too close to 1"), "{}", text(&output.stderr));
}

/// The middle of the bounds at load 0.8.
fn bracket_middle(folder: &tempfile::TempDir) -> f64 {
    let report = json(&file(folder, "fleet.toml", &two_orders(0.8)), &[]);
    (number(&report["max_load_factor_between"][0]) + number(&report["max_load_factor_between"][1])) / 2.0
}

#[test]
fn what_echoes_the_file_reads_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "fleet.toml", LARGE);
    let report = json(&path, &["--load", "0.9"]);
    assert_eq!(report["offered_load"].to_string(), "0.9");
    assert_eq!(report["model"]["load_first_k"].to_string(), "0.9");
    assert_eq!(report["model"]["lambda"].to_string(), "0.45");
    assert_eq!(report["max_load_factor"].to_string(), "1.111111111111");
}

#[test]
fn between_stable_and_unstable_lies_what_is_not_known_of_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "fleet.toml", RANDOM_OVERLOADS);
    let report = json(&path, &["--policy", "jfiq,jfsq,random"]);
    let ends = |i: usize| ["stable_below", "unstable_above"].map(|end| report["stability_by_policy"][i][end].clone());
    let [below, above] = ends(0);
    // Server a takes m and half of n under `random`; both servers can do 2 for 1.4.
    close(&below, 1.0 / 1.1);
    close(&above, 1.0 / 0.8);
    for (i, factor) in [(1, 1.0 / 0.8), (2, 1.0 / 1.1)] {
        ends(i).iter().for_each(|end| close(end, factor));
    }
}

/// Servers of two types; `m` is on the slow one too, `n` on the fast ones only.
const TWO_TYPES: &str = "fleet = { buffer = 4, policy = 'jfiq' }
    server_type = [{ name = 'slow', rate = 0.5 }, { name = 'fast', rate = 1 }]
    server = [{ name = 's', type = 'slow', serves = ['m'], buffer = 7 }, { name = 'f', count = 2, type = 'fast', serves = ['*'] }]
    job_type = [{ name = 'm', rate = 0.6 }, { name = 'n', rate = 0.9 }, { name = 'rare', rate = 0.1 }]";

#[test]
fn rows_of_servers_and_job_types_carry_their_own_figures() {
    let folder = tempfile::tempdir().unwrap();
    let report = json(&file(&folder, "fleet.toml", TWO_TYPES), &[]);
    let types = report["server_types"].as_array().unwrap();
    let of_type = |name: &str| types.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&of_type("slow")["servers"], &of_type("fast")["servers"]), (&1.into(), &2.into()));
    assert_eq!((&of_type("slow")["buffer"], &of_type("fast")["buffer"]), (&[7, 7].into(), &[4, 4].into()));
    close(&of_type("slow")["rate"], 0.5);
    let losses = report["losses"].as_array().unwrap();
    let without = |server: &str| losses.iter().find(|row| row["server"] == server).unwrap();
    assert_eq!((&without("s")["server_type"], &without("f-1")["server_type"]), (&"slow".into(), &"fast".into()));
    // 2.5 can be done, 1.6 arrives; n and rare, 1, are on the fast ones only.
    close(&without("s")["max_load_factor"], 2.0 / 1.6);
    close(&without("f-1")["max_load_factor"], 1.5 / 1.6);
    let slacks = report["slacks"].as_array().unwrap();
    let alone = |job_type: &str| slacks.iter().find(|row| row["job_type"] == job_type).unwrap();
    assert_eq!((&alone("m")["servers"], &alone("n")["servers"]), (&3.into(), &2.into()));
    close(&alone("m")["factor"], 1.0 + 0.9 / 0.6);
    assert!(slacks.iter().chain(losses).all(|row| row["exact"] == true));
    assert_eq!((&report["slacks_not_computed"], &report["losses_not_computed"]), (&0.into(), &0.into()));
}

/// 250 job types on as many servers, and one on two servers of its own that saturates first.
const MANY: &str = "graph = { kind = 'file', path = 'edges.csv' }
    server_type = [{ name = 'A', rate = 1 }]
    server = [{ name = 's', count = 252, type = 'A' }]
    job_type = [{ name = 'm', count = 250, rate = 0.5 }, { name = 'hot', rate = 1.8 }]";

#[test]
fn what_is_only_bounded_is_counted_and_the_worst_of_it_is_shown_as_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let edges: Vec<String> =
        (0..250).flat_map(|l| [0, 1, 7].map(|k| format!("m-{l},s-{}", (l + k * k) % 250))).collect();
    file(&folder, "edges.csv", &format!("job_type,server\n{}\nhot,s-250\nhot,s-251\n", edges.join("\n")));
    let path = file(&folder, "fleet.toml", MANY);
    let (some, all) = (json(&path, &[]), json(&path, &["--all"]));
    for (list, count, key, name) in
        [("slacks", 251, "factor", "job_type"), ("losses", 252, "max_load_factor", "server")]
    {
        let rows = some[list].as_array().unwrap();
        let bounds: Vec<&Value> = rows.iter().filter(|row| row["exact"] == false).collect();
        let exact = rows.len() - bounds.len();
        assert!(exact >= 100 && exact < count, "{list}: {exact}");
        assert_eq!((bounds.len(), some[format!("{list}_not_computed")].as_u64()), (20, Some((count - exact) as u64)));
        let every = all[list].as_array().unwrap();
        assert_eq!((every.len(), every.iter().all(|row| row["exact"] == true)), (count, true), "{list}");
        for row in rows {
            let truth = number(&every.iter().find(|other| other[name] == row[name]).unwrap()[key]);
            assert!(number(&row[key]) >= truth - 1e-9, "{row:#} {truth}");
        }
    }
    let page = page(&path, &["--top", "200"]);
    assert!(page.contains("at most ") && page.contains("not computed, only bounded (--all)"), "{page}");
}

#[test]
fn connectivity_rows_say_which_servers_they_are_about() {
    let folder = tempfile::tempdir().unwrap();
    let report = json(&file(&folder, "fleet.toml", TWO_TYPES), &[]);
    let rows = report["connectivity"].as_array().unwrap();
    let row = |m: u64, e: u64| {
        rows.iter()
            .find(|row| row["fastest_types"] == m && row["servers_left_out"] == e)
            .unwrap_or_else(|| panic!("{rows:?}"))
    };
    // The fast servers hold everything; the slow one has no copy of n and rare.
    assert_eq!((&row(1, 1)["servers"], &row(2, 1)["servers"]), (&2.into(), &3.into()));
    close(&row(1, 1)["upper"], 0.0);
    close(&row(2, 1)["lower"], 1.0 / 1.6);
    close(&row(2, 2)["upper"], 0.0);
    // Without speed classes all servers are one class, named by the number of their types.
    let (_folder, path) = of_kind("pair rates");
    let report = json(&path, &[]);
    assert_eq!(
        (&report["connectivity"][0]["fastest_types"], &report["connectivity"][0]["servers"]),
        (&2.into(), &4.into())
    );
}

#[test]
fn the_guarantee_is_that_of_the_files_policy() {
    let folder = tempfile::tempdir().unwrap();
    let own = json(&file(&folder, "fleet.toml", &LARGE.replace("buffer = 5", "buffer = 5, policy = 'jfiq'")), &[]);
    let policies = strings(&own["guarantee"]["policies"]);
    assert!(policies.contains(&"jfiq") && !policies.contains(&"jfsq"), "{policies:?}");
    let default = json(&file(&folder, "fleet.toml", LARGE), &[]);
    assert_eq!(strings(&default["guarantee"]["policies"]), ["jfsq"]);
    let guarantee = &default["guarantee"];
    close(
        &(number(&guarantee["mean_response_s"]) / number(&default["bounds"][0]["mean_response_s"])).into(),
        number(&guarantee["ratio_to_fluid"]),
    );
    assert_eq!(guarantee["m"], 3);
    let (chi, e) = (number(&guarantee["chi"]), number(&guarantee["e"]));
    assert!(chi < 1.0 && (1.0..=4096.0).contains(&e), "{guarantee:#}");
}

/// One job in twenty may be lost: a guarantee, and far too much for bounds that know no losses.
#[test]
fn a_guarantee_of_some_blocking_does_not_make_the_bounds_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, toml) = KINDS.iter().find(|(name, ..)| *name == "buffers of one").unwrap();
    let report = json(&file(&folder, "fleet.toml", &toml.replace("rate = 10 ", "rate = 20 ")), &[]);
    let blocking = number(&report["guarantee"]["blocking_probability"]);
    assert!((0.01..0.1).contains(&blocking), "{blocking}");
    assert!(report["bounds"].as_array().unwrap().iter().all(|bound| bound["valid"] == false), "{:#}", report["bounds"]);
}

/// The theorems bound it by 0.88 there: proved, and of no use to anybody.
#[test]
fn a_blocking_probability_of_more_than_a_half_is_no_guarantee() {
    let report = json(&example("papers-fleet.toml"), &[]);
    for guarantee in report["guarantees"].as_array().unwrap() {
        assert!(guarantee["blocking_probability"].is_null(), "{guarantee:#}");
        assert!(guarantee["why"].as_str().unwrap().contains("blocking"), "{guarantee:#}");
    }
}

#[test]
fn processor_sharing_is_a_problem_only_where_sizes_are_not_exponential() {
    let folder = tempfile::tempdir().unwrap();
    let problems = |service: &str| {
        let toml = format!("service = {{ {service} }}\n{LARGE}");
        let report = json(&file(&folder, "fleet.toml", &toml), &[]);
        (report["problems"].to_string().contains("\\\"ps\\\""), report["guarantee"]["vacuous"].clone())
    };
    assert_eq!(problems("discipline = 'ps'"), (false, Value::Bool(false)));
    assert_eq!(problems("discipline = 'ps', distribution = 'deterministic'"), (true, Value::Bool(true)));
    assert_eq!(problems("discipline = 'fifo', distribution = 'deterministic'"), (false, Value::Bool(true)));
}

#[test]
fn where_the_theorems_do_not_apply_the_guarantee_says_why_and_has_no_number() {
    let reasons = [
        ("one server", "unbounded"),
        ("slots and buffers", "several slots"),
        ("pair rates", "depend on the job type"),
        ("short lines in front", "wait in front"),
        ("bursts", "not Poisson"),
    ];
    for (kind, reason) in reasons {
        let (_folder, path) = of_kind(kind);
        let guarantee = &json(&path, &[])["guarantee"];
        assert_eq!(guarantee["vacuous"], true, "{kind}");
        assert!(guarantee["why"].as_str().unwrap().contains(reason), "{kind}: {guarantee:#}");
        assert!(guarantee["mean_jobs"].is_null(), "{kind}: {guarantee:#}");
    }
}

#[test]
fn a_guarantee_that_says_nothing_names_the_term_and_what_would_mend_it() {
    let guarantee = &json(&example("papers-fleet.toml"), &[])["guarantee"];
    assert_eq!((&guarantee["vacuous"], &guarantee["mean_jobs"]), (&true.into(), &Value::Null));
    let why = guarantee["why"].as_str().unwrap();
    assert!(why.contains("vacuous at this size") && why.contains("delta") && why.contains("load <="), "{why}");
}

#[test]
fn all_computes_what_is_left_out_by_default_and_names_witnesses() {
    let some = json(&example("papers-fleet.toml"), &[]);
    assert!(some["connectivity"][0].get("witness").is_none());
    let (_folder, path) = of_kind("two parts");
    let all = json(&path, &["--all"]);
    let row = &all["connectivity"][0];
    assert_eq!(row["servers_left_out"].as_u64(), Some(1));
    close(&row["lower"], 0.5 / 0.7);
    assert_eq!(strings(&row["witness"]["servers"]), ["b"]);
    assert_eq!(strings(&row["witness"]["job_types"]), ["m"]);
}

#[test]
fn the_report_for_people_reads_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", TWO_SERVERS);
    insta::assert_snapshot!(page(&path, &[]), @r"
    two servers: 2 servers of 2 types, 1 job type, 2 edges

    Fleet
     server type  servers  slots  rate     buffer  job types held
     fast               1      1    10  unbounded  1
     slow               1      1     1  unbounded  1
     Servers that hold a job type: 2. 4 jobs/s arrive.

    Stability
     stable: the servers can do more work than arrives, for every set of job types
     offered load 0.3636: arriving work over what all servers can do
     largest load factor 2.75: by so much all arrival rates together can grow (s*)
     bottleneck: all servers together

    What job types and servers are worth
     job type  on servers  can grow alone
     m                  2          2.75 x
     server  type  s* without it
     a       fast           0.25
     b       slow            2.5

    Stability by policy
     policy                       stable     why
     jfsq, jsq, nq, sed, central  yes        stable whenever some policy is; up to 2.750 times the load
     jfiq, jiq                    not known  when no compatible server is idle the job goes to a random one: surely
                                             stable only where `random` is, up to 0.500 times the load, and surely
                                             unstable only from 2.750 times on
     jfsq(2), jsq(2), jsq(2,2)    yes        no set of servers gets too many whole samples, up to at least 2.750 times
                                             the load
     random                       NO         blind shares: `b` is busy 2.000 of the time, more than it has; it saturates
                                             first, at 0.500 times the load
     split                        yes        fixed shares under which no server is overloaded; up to 2.750 times the load

    Bounds: no policy has a shorter mean response time
     bound   mean response  mean jobs  holds  assumes
     fluid           0.1 s        0.4  yes    no losses; any sizes of the file's means; servers pooled
     graph           0.1 s        0.4  yes    no losses; any sizes of the file's means
     pooled       0.1516 s     0.6065  yes    no losses; Poisson arrivals, exponential sizes; servers pooled
     fluid, graph and pooled: holds for every policy
     The bound: 0.1516 s (pooled)

    Symbols of the papers
     N       2       slots of servers that hold a job type
     M       2       speed classes
     mu_m    10, 1   jobs/s of one slot, by class
     lambda  2       jobs/s that arrive, per slot
     K       1       classes needed, fastest first
     beta    0.6     part of their capacity to spare; their load is 1 - beta
     C*      0.2     fluid optimum: busy slots over all slots
     C*_m    0.2, 0  the same by class
     tau_1K  1       mu_1 / mu_K
     tau_1M  10      mu_1 / mu_M
     tau_KM  10      mu_K / mu_M

    Connectivity: the share of the arrivals that some e servers have no copy of
     fastest types  servers  e  at least  at most
                 1        1  1         0    exact
                 2        2  1         0    exact

    Guarantee: no more than this, in the long run
     jfsq, jfiq, nq: the guarantee does not apply: a buffer is unbounded; give [fleet] `buffer` a number

    Advice
     - all servers together saturate first, at 2.75 x today's load: more or faster servers raise that, more copies do not
     - a cannot be lost: without it the others cannot do all the work that arrives
    ");
}

/// One server that is up 10/12 of the time carries 0.8 and not 0.9.
#[test]
fn servers_that_fail_count_with_the_time_that_they_are_up() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = |overflow: &str, rate: f64, failures: &str| {
        let text = format!(
            "[fleet]\noverflow = \"{overflow}\"\n[[server_type]]\nname = \"A\"\nrate = 1.0\n[[server]]\nname = \"s\"\n\
             type = \"A\"\nserves = [\"*\"]\n[[job_type]]\nname = \"j\"\nrate = {rate}\n[failures]\n{failures}\n"
        );
        let output = check(&file(&folder, "fleet.toml", &text), &["--json", "--policy", "jsq,central"]);
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let random = "mean_up_s = 10\nmean_down_s = 2";
    let (code, report) = fleet("wait", 0.8, random);
    assert_eq!((code, &report["stable"], &report["capacity"]["used"]), (Some(0), &true.into(), &"available".into()));
    assert!((report["max_load_factor"].as_f64().unwrap() - 1.0 / 0.96).abs() < 1e-9, "{}", report["max_load_factor"]);
    assert!((report["offered_load"].as_f64().unwrap() - 0.8).abs() < 1e-9, "load is against the full capacity");
    assert!((report["capacity"]["availability"].as_f64().unwrap() - 5.0 / 6.0).abs() < 1e-9);
    let (code, report) = fleet("wait", 0.9, random);
    assert_eq!((code, &report["stable"]), (Some(1), &false.into()));
    let stable = |report: &Value, i: usize| report["stability_by_policy"][i]["stable"].clone();
    assert_eq!([stable(&report, 0), stable(&report, 1)], [Value::from(false), Value::from(false)]);
    // Jobs that find it down are lost, and what is left is 0.75: no claim about jsq; central lets them wait.
    let (_, report) = fleet("reject", 0.9, random);
    assert_eq!([stable(&report, 0), stable(&report, 1)], [Value::Null, Value::from(false)]);
    let (_, report) = fleet("reject", 1.1, random);
    assert_eq!(stable(&report, 0), Value::from(false));
}

/// `check` of a fleet of so many servers of rate 1.
fn listed(servers: u32, rate: f64, events: &str) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[fleet]\nbuffer = 5\n[[server_type]]\nname = \"A\"\nrate = 1.0\n[[server]]\nname = \"s\"\ncount = {servers}\ntype = \"A\"\n\
         serves = [\"*\"]\n[[job_type]]\nname = \"j\"\nrate = {rate}\n{events}"
    );
    let output = check(&file(&folder, "fleet.toml", &text), &["--json"]);
    (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
}

fn figures<const N: usize>(report: &Value, pointers: [&str; N]) -> [f64; N] {
    pointers.map(|pointer| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN))
}

#[test]
fn servers_that_stay_down_after_listed_failures_count_nowhere() {
    let events = "[failures]\nevents = [[5, \"s-1\", \"down\"], [6, \"s-2\", \"down\"], [7, \"s-2\", \"up\"]]\n";
    let (code, report) = listed(3, 1.5, events);
    assert_eq!((code, &report["capacity"]["used"]), (Some(0), &"left".into()));
    assert_eq!(report["capacity"]["down"], Value::from(vec!["s-1"]));
    assert!(report["capacity"]["why"].as_str().unwrap().starts_with("1 server stays down"), "{}", report["capacity"]);
    let wanted = ["/max_load_factor", "/model/N", "/connectivity/0/servers", "/offered_load"];
    let found = figures(&report, wanted);
    assert!(found.iter().zip([4.0 / 3.0, 2.0, 2.0, 0.5]).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    // Bounds and guarantee are those of two servers. Policies too, but `split`, whose shares are those of three.
    let two = listed(2, 1.5, "").1;
    assert_eq!([&report["bounds"], &report["guarantees"]], [&two["bounds"], &two["guarantees"]]);
    let rows = report["stability_by_policy"].as_array().unwrap();
    let unknown: Vec<&str> =
        rows.iter().filter(|row| row["stable"] != true).map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(unknown, ["split"]);
    assert!(!report.to_string().contains("servers fail"), "{report}");

    // Two servers cannot do what three could.
    let (code, report) = listed(3, 2.5, events);
    assert_eq!((code, &report["stable"]), (Some(1), &false.into()));
    assert!(report["stability_by_policy"].as_array().unwrap().iter().all(|row| row["stable"] == false), "{report}");
    assert!((figures(&report, ["/max_load_factor"])[0] - 0.8).abs() < 1e-9, "{report}");

    let all = "[failures]\nevents = [[5, \"s-0\", \"down\"], [5, \"s-1\", \"down\"], [5, \"s-2\", \"down\"]]\n";
    let (code, report) = listed(3, 1.5, all);
    assert_eq!((code, &report["max_load_factor"]), (Some(1), &0.0.into()));
    assert_eq!(report["stable_why"], "some job types that arrive are on no server that stays up");
}

/// A logarithm of three servers is 2, of the two that stay up 1: `jsq(log)` goes on sampling two, which `random` shows to matter.
#[test]
fn a_policy_samples_as_many_after_listed_failures_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let text = "server_type = [{ name = 'A', rate = 1 }, { name = 'B', rate = 0.2 }]
        server = [{ name = 'a', count = 2, type = 'A', serves = ['*'] }, { name = 'b', type = 'B', serves = ['*'] }]
        job_type = [{ name = 'm', rate = 0.9 }]
        failures = { events = [[1, 'a-1', 'down']] }";
    let report = json(&file(&folder, "fleet.toml", text), &["--policy", "jsq(log),random"]);
    let stable = |i: usize| (&report["stability_by_policy"][i]["policy"], &report["stability_by_policy"][i]["stable"]);
    assert_eq!([stable(0), stable(1)], [(&"jsq(log)".into(), &true.into()), (&"random".into(), &false.into())]);
}

#[test]
fn listed_failures_that_leave_all_servers_up_change_nothing_in_the_long_run() {
    let (code, mut never) = listed(3, 1.5, "");
    assert_eq!(code, Some(0));
    never.as_object_mut().unwrap().remove("capacity");
    let pair = "[failures]\nevents = [[5, \"s-1\", \"down\"], [6, \"s-1\", \"up\"]]\n";
    for events in ["[failures]\nevents = []\n", pair] {
        let (code, mut report) = listed(3, 1.5, events);
        assert_eq!((code, &report["capacity"]["used"]), (Some(0), &"full".into()));
        report.as_object_mut().unwrap().remove("capacity");
        assert_eq!(report, never, "{events}");
    }
}
