//! Wrong usage and bad files: exit status 2 and a message that names place and remedy.

use std::process::Output;

use crate::processes::{TWO_SERVERS, file, shortline};

fn run(arguments: &[&str]) -> Output {
    shortline().args(arguments).output().unwrap()
}

fn assert_refused(output: &Output, message: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(message), "expected {message:?} in:\n{stderr}");
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["check", "serve", "emulate", "replay", "simulate"] {
        let output = run(&[command, "--help"]);
        assert!(output.status.success());
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(help.contains("Example") && help.contains(&format!("shortline {command}")), "{help}");
    }
}

#[test]
fn a_bad_fleet_file_shows_every_fault_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let bad = TWO_SERVERS.replace("rate = 10.0", "rat = 10.0").replace("type = \"slow\"", "type = \"slwo\"");
    let path = file(&folder, "bad.toml", &bad);
    for command in
        [vec!["serve", "--emulate"], vec!["emulate"], vec!["replay", "--target", "http://127.0.0.1:1", "--fleet"]]
    {
        let output = shortline().args(&command).arg(&path).output().unwrap();
        assert_refused(&output, "did you mean `rate`?");
        assert_refused(&output, "did you mean `slow`?");
        assert_refused(&output, "bad.toml:9:1");
    }
}

#[test]
fn a_missing_fleet_file_is_named() {
    assert_refused(&run(&["serve", "no-such.toml"]), "cannot read the fleet file `no-such.toml`");
}

#[test]
fn wrong_policies_are_refused_with_a_suggestion() {
    assert_refused(&run(&["serve", "x.toml", "--policy", "jqs"]), "did you mean `jsq`?");
}

#[test]
fn an_empty_policy_is_refused_with_those_there_are() {
    for command in ["serve", "simulate"] {
        assert_refused(&run(&[command, "x.toml", "--policy", ""]), "no policy is named here; known are random, jsq");
    }
}

/// A negative number after an option is its value, not an option of its own.
#[test]
fn negative_values_are_refused_as_values() {
    let replay = ["replay", "--target", "http://127.0.0.1:1", "--fleet", "x.toml"];
    let options: [(&[&str], &str); 5] = [
        (&["serve", "x.toml"], "--grace"),
        (&["emulate", "x.toml"], "--seed"),
        (&replay, "--timeout"),
        (&["simulate", "x.toml"], "--time"),
        (&["simulate", "x.toml"], "--seed"),
    ];
    for (command, option) in options {
        for value in ["-1", "-2.5", "-1e9"] {
            assert_refused(
                &run(&[command, &[option, value]].concat()),
                &format!("invalid value '{value}' for '{option}"),
            );
        }
    }
}

#[test]
fn split_without_arrival_rates_says_what_it_needs_them_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", &TWO_SERVERS.replace("rate = 4.0", ""));
    let output = shortline().args(["serve", "--emulate", "--policy", "split"]).arg(&path).output().unwrap();
    assert_refused(&output, "policy `split` divides jobs by the file's rates: job type `m` has no arrival rate");
}

#[test]
fn a_gateway_without_addresses_says_what_to_add() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", TWO_SERVERS);
    let output = shortline().args(["serve", "--listen", "127.0.0.1:0"]).arg(&path).output().unwrap();
    assert_refused(&output, "has no address");
}

#[test]
fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "two.toml", TWO_SERVERS);
    let output = shortline().args(["serve", "--emulate", "--listen", &address]).arg(&path).output().unwrap();
    assert_refused(&output, &format!("--listen {address}"));
}

#[test]
fn a_bad_trace_is_refused_with_line_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = file(&folder, "trace.csv", "arrival_s,job_type\n0,m\n-1,m\n2\n");
    let target = ["replay", "--target", "http://127.0.0.1:1", "--trace"];
    let output = shortline().args(target).arg(&trace).output().unwrap();
    assert_refused(&output, "line 3");
    assert_refused(&output, "line 4");
}

#[test]
fn replay_options_out_of_range_are_refused() {
    let replay = ["replay", "--target", "http://127.0.0.1:1", "--fleet", "x.toml"];
    for (option, value) in [("--load", "0"), ("--speedup", "-1"), ("--requests", "5..5"), ("--duration", "NaN")] {
        assert_refused(&run(&[replay.as_slice(), &[option, value]].concat()), option);
    }
    assert_refused(&run(&["replay", "--target", "http://127.0.0.1:1"]), "--trace");
    assert_refused(&run(&["replay", "--target", "ftp://x", "--fleet", "x.toml"]), "ftp");
}

/// A pipe whose reader has gone before the command begins.
fn closed() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn output_that_nobody_reads_ends_every_command_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = file(&folder, "fleet.toml", TWO_SERVERS);
    let fleet = fleet.to_str().unwrap();
    let (loopback, nobody) = ("127.0.0.1:0", "http://127.0.0.1:1");
    for arguments in [
        &["check", fleet][..],
        &["check", fleet, "--json"],
        &["simulate", fleet, "--events", "20000"],
        &["simulate", fleet, "--trajectory", "1", "--replications", "2"],
        &["reproduce"],
        &["emulate", fleet, "--any-port"],
        &["serve", fleet, "--emulate", "--listen", loopback, "--admin", loopback, "--log", "off"],
        &["replay", "--target", nobody, "--fleet", fleet, "--duration", "0.1"],
    ] {
        let output = shortline().args(arguments).stdout(closed()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("error"), "{arguments:?}: {said}");
    }
}

#[test]
fn complaints_that_nobody_reads_leave_the_exit_status() {
    let output = shortline().args(["check", "no-such.toml"]).stderr(closed()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
