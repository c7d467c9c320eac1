//! Sweeps that are interrupted: what is done stays done, and the files end as if nothing had happened.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{TWO_SERVERS, file, shortline};

/// A sweep whose points take a moment each.
fn sweep(fleet: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = shortline();
    command.arg("simulate").arg(fleet).args(["--policy", "jfsq,jsq(2)", "--events", "400000", "--mean-field"]);
    command.args(["--sweep", "load=0.1..0.9:0.1", "--json", "--csv"]).arg(out.join("out.csv")).args(more);
    command
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// All numbers but the CPU time, which is another each time.
fn without_cpu_time(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().filter(|(key, _)| *key != "cpu_s").map(|(k, v)| (k.clone(), without_cpu_time(v))).collect()
        }
        Value::Array(values) => values.iter().map(without_cpu_time).collect(),
        other => other.clone(),
    }
}

/// The text of the JSON on each line, without the CPU time.
fn lines_of_json(text: &str) -> Vec<String> {
    text.lines().map(|line| without_cpu_time(&serde_json::from_str(line).unwrap()).to_string()).collect()
}

/// The rows of a CSV without its last column, the CPU time.
fn rows(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.rsplit_once(',').unwrap().0).collect()
}

fn assert_succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Goal: `--resume` loses no point and repeats none, whenever the process is killed. Method: SIGKILL some time (from a fixed
/// sequence) after each run has done a point more, until a run comes to its end before that; the files are compared with
/// those of an unbroken run. Results do not depend on time: no false alarms.
#[test]
fn a_sweep_that_is_killed_again_and_again_ends_as_an_unbroken_one() {
    let (killed, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fleet = file(&whole, "fleet.toml", TWO_SERVERS);
    let unbroken = sweep(&fleet, whole.path(), &[]).output().unwrap();
    assert_succeeded(&unbroken);

    let (lines, csv) = (killed.path().join("out.csv.jsonl"), killed.path().join("out.csv"));
    let (mut kills, mut random) = (0, 7_u64);
    loop {
        let before = text(&lines);
        let whole_before = &before[..before.rfind('\n').map_or(0, |end| end + 1)];
        let mut child = sweep(&fleet, killed.path(), &["--resume", "--threads", "1"]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && text(&lines).lines().count() <= whole_before.lines().count() {
            std::thread::sleep(Duration::from_millis(1));
        }
        random = random * 137 % 1009;
        std::thread::sleep(Duration::from_millis(random % 80));
        child.kill().unwrap();
        let has_ended = child.wait().unwrap().success();
        assert!(text(&lines).starts_with(whole_before), "what was done is lost, or done again");
        if has_ended {
            break;
        }
        kills += 1;
        assert!(kills <= 9, "a run that does nothing new");
    }
    assert!(kills >= 2, "killed {kills} times only");
    let kept = text(&lines);
    assert_eq!(kept.lines().count(), 9);

    let resumed = sweep(&fleet, killed.path(), &["--resume"]).output().unwrap();
    assert_succeeded(&resumed);
    assert_eq!(text(&lines), kept, "everything was done already");
    assert_eq!(rows(&text(&csv)), rows(&text(&whole.path().join("out.csv"))));
    assert_eq!(lines_of_json(&kept), lines_of_json(&text(&whole.path().join("out.csv.jsonl"))));
    let printed = |output: &Output| without_cpu_time(&serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(printed(&resumed), printed(&unbroken));
    assert_eq!(printed(&resumed).as_array().unwrap().len(), 9);
}

/// The points of the file, and the found figures as `--json` prints them.
#[test]
fn a_line_has_the_key_the_settings_and_what_the_json_has() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let path = folder.path().join("points.jsonl");
    let run = |sweep: &str, more: &[&str]| {
        let mut command = shortline();
        command.arg("simulate").arg(&fleet).args(["--events", "20000", "--json", "--sweep", sweep, "--jsonl"]);
        let output = command.arg(&path).args(more).output().unwrap();
        assert_succeeded(&output);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let keys = || {
        let lines = text(&path);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let printed = run("load=0.5", &[]);
    let line: Value = serde_json::from_str(&text(&path)).unwrap();
    assert_eq!((&line["key"], &line["settings"]["seed"]), (&Value::from("load=0.5"), &Value::from(1)));
    assert_eq!(line["found"], printed[0]);

    // A longer sweep takes what is there; unstable points are kept like others.
    let longer = run("load=0.5,0.7,1.5", &["--resume"]);
    assert_eq!(keys(), ["load=0.5", "load=0.7", "load=1.5"]);
    assert_eq!(longer[0], printed[0], "the CPU time too: it was not simulated again");
    assert_eq!(longer[2]["policies"][0]["unstable"], true);
    assert_eq!(run("load=1.5,0.5", &["--resume"])[0], longer[2]);
    // Without --resume it begins anew.
    run("load=0.3", &[]);
    assert_eq!(keys(), ["load=0.3"]);
}

#[test]
fn a_sweep_goes_on_under_the_same_settings_only() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let csv = folder.path().join("out.csv");
    let run = |arguments: &[&str]| {
        let mut command = shortline();
        command.arg("simulate").arg(&fleet).args(["--sweep", "load=0.5", "--csv"]).arg(&csv);
        command.args(arguments).output().unwrap()
    };
    assert_succeeded(&run(&["--events", "20000"]));
    let (lines, rows) = (text(&folder.path().join("out.csv.jsonl")), text(&csv));
    let refused = |arguments: &[&str], messages: &[&str]| {
        let output = run(&[arguments, &["--resume"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        messages.iter().for_each(|message| assert!(said.contains(message), "{message:?} in {said}"));
        assert_eq!((text(&folder.path().join("out.csv.jsonl")), text(&csv)), (lines.clone(), rows.clone()));
    };
    refused(
        &["--events", "20000", "--seed", "2"],
        &["out.csv.jsonl", "line 1", "seed is 1 there, 2 here", "without --resume"],
    );
    refused(&["--events", "30000"], &["events is 20000 there, 30000 here"]);
    refused(
        &["--relative-error", "0.1"],
        &["events is 20000 there, none here", "relative_error is none there, 0.1 here"],
    );
    refused(&["--events", "20000", "--policy", "jsq"], &["policies is jfsq there, jsq here"]);
    refused(&["--events", "20000", "--per-type", "all"], &["per_type is"]);
    refused(&["--events", "20000", "--mean-field"], &["mean_field is false there, true here"]);

    // The fleet file may be laid out in another way, but not say another thing.
    std::fs::write(&fleet, TWO_SERVERS.replace("rate = 10.0", "rate = 10.5")).unwrap();
    refused(&["--events", "20000"], &["fleet_fingerprint is"]);
    std::fs::write(&fleet, format!("# the same\n\n{TWO_SERVERS}")).unwrap();
    assert_succeeded(&run(&["--events", "20000", "--resume"]));
    assert_eq!(text(&csv), rows);

    // Another version of the program.
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(lines.contains(&version), "{lines}");
    std::fs::write(folder.path().join("out.csv.jsonl"), lines.replace(&version, "\"version\":\"0.0.1\"")).unwrap();
    let output = run(&["--events", "20000", "--resume"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("version is 0.0.1 there"));
}

#[test]
fn a_point_that_was_cut_short_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let csv = folder.path().join("out.csv");
    let run = |arguments: &[&str]| {
        let mut command = shortline();
        command.arg("simulate").arg(&fleet).args(["--sweep", "load=0.5,0.6", "--csv"]).arg(&csv);
        command.args(arguments).output().unwrap()
    };
    assert_succeeded(&run(&["--events", "1e12", "--time", "0.5"]));
    assert_eq!(text(&csv).lines().count(), 2, "what there is, not converged");
    assert_eq!(text(&folder.path().join("out.csv.jsonl")), "");
}

#[test]
fn resuming_needs_a_sweep_and_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let refused = |arguments: &[&str], message: &str| {
        let output = shortline().arg("simulate").arg(&fleet).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message), "{message:?} in {said}");
    };
    refused(&["--sweep", "load=0.5", "--resume"], "--csv or --jsonl");
    refused(&["--resume", "--csv", "x.csv"], "--sweep");
    refused(&["--jsonl", "x.jsonl"], "--sweep");
    let none: BTreeSet<String> =
        std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(none, BTreeSet::from(["fleet.toml".to_owned()]), "nothing was written");
}
