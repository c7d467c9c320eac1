//! `shortline reproduce`: the list, one quick experiment to its page, and what a kill leaves.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::processes::shortline;

#[test]
fn without_a_name_the_experiments_are_listed() {
    let output = shortline().arg("reproduce").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("optimality-in-n (about") && text.contains("[W]"), "{text}");
    let json = shortline().args(["reproduce", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(list.as_array().unwrap().iter().any(|entry| entry["name"] == "buffers"));
}

#[test]
fn an_option_of_a_run_without_a_name_is_wrong_usage() {
    for options in [["--quick", "--json"].as_slice(), &["--out", "results"], &["--seed", "2"], &["--threads", "1"]] {
        let output = shortline().arg("reproduce").args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("type `shortline reproduce optimality-in-n`") && error.contains(options[0]), "{error}");
    }
}

#[test]
fn an_unknown_name_is_wrong_usage_and_the_known_ones_are_said() {
    let output = shortline().args(["reproduce", "optimality"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("optimality-in-load"));
}

fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
}

fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    let results = named.filter(|(name, _)| name != "points.jsonl");
    let mut results: Vec<_> = results.map(|(name, path)| (name, std::fs::read(path).unwrap())).collect();
    results.sort();
    results
}

/// Goal: a run that was killed goes on from where it was, and its results are those of a run that was not, to the byte. Method:
/// SIGKILL after a few points, a torn line behind them, the rest on another number of threads. The seed is fixed and the
/// results do not depend on time: no false alarms.
#[test]
fn a_killed_run_goes_on_and_comes_to_the_same_results() {
    let (killed, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let command = |folder: &Path, threads: &str| {
        let mut command = shortline();
        command.args(["reproduce", "buffers", "--quick", "--threads", threads, "--out"]).arg(folder);
        command
    };
    let ledger = killed.path().join("buffers/points.jsonl");
    let mut child = command(killed.path(), "1").stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while lines(&ledger) < 3 {
        assert!(Instant::now() < deadline, "no point is done");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed before its end");
    assert!(!killed.path().join("buffers/README.md").exists());
    let before = std::fs::read(&ledger).unwrap();
    let kept = lines(&ledger);
    std::fs::write(&ledger, [before.as_slice(), b"{\"key\":\"torn"].concat()).unwrap();

    let resumed = command(killed.path(), "2").args(["--json"]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(command(whole.path(), "2").stdout(Stdio::null()).status().unwrap().success());
    let after = std::fs::read(&ledger).unwrap();
    let whole_lines = before.iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    assert!(after.starts_with(&before[..whole_lines]), "what was done is done once");
    assert_eq!(lines(&ledger), 24, "{kept} points were kept");
    let (resumed_results, at_once) = (results(&killed.path().join("buffers")), results(&whole.path().join("buffers")));
    let names: Vec<&str> = at_once.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["README.md", "blocking.svg", "points.csv", "response.svg"]);
    assert!(resumed_results == at_once);

    let verdict: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(verdict[0]["answer"], "holds");
    let page = String::from_utf8(at_once[0].1.clone()).unwrap();
    for part in ["**Claim.** [W]", "**Verdict: holds.**", "shortline reproduce buffers --quick", "![", "| policy |"] {
        assert!(page.contains(part), "{part}");
    }
}

/// Goal: every experiment runs to its page, and the exit status says what the answers say. Which answer a quick run gives is not
/// tested: that is what it is run for. No false alarms.
#[test]
fn all_experiments_are_judged_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let list = shortline().args(["reproduce", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let output =
        shortline().args(["reproduce", "all", "--quick", "--json", "--out"]).arg(folder.path()).output().unwrap();
    let verdicts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&verdicts), names(&list));
    let answers: Vec<&str> = verdicts.as_array().unwrap().iter().map(|v| v["answer"].as_str().unwrap()).collect();
    assert!(answers.iter().all(|answer| ["holds", "does-not-hold", "inconclusive"].contains(answer)), "{answers:?}");
    assert_eq!(output.status.code(), Some(i32::from(answers.contains(&"does-not-hold"))), "{answers:?}");
    for name in names(&list) {
        let results = results(&folder.path().join(&name));
        for kind in ["README.md", ".svg", ".csv"] {
            assert!(results.iter().any(|(file, content)| file.ends_with(kind) && !content.is_empty()), "{name} {kind}");
        }
    }
}
