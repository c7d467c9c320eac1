//! The fleet file: what it means, and what is said about the wrong ones.

mod broken;
mod edges;
mod meaning;
mod robust;
mod written;

use std::collections::HashMap;
use std::io;

use shortline_core::fleet::{FleetFaults, Parts, Source, read_parts};

/// Three servers of two types, two job types; a file to start from.
const SMALL: &str = r#"
[fleet]
name = "small"

[[server_type]]
name = "fast"
rate = 10

[[server_type]]
name = "slow"
rate = 1.0
slots = 2

[[server]]
name = "a"
type = "fast"
serves = ["*"]

[[server]]
name = "b"
count = 2
type = "slow"
serves = ["M1"]

[[job_type]]
name = "M1"
rate = 3.2

[[job_type]]
name = "M2"
rate = 0.5
size = 2
"#;

/// The files beside a fleet file, by the path it names them by.
fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> io::Result<String> + 'a {
    let texts: HashMap<&str, &str> = files.iter().copied().collect();
    move |path| texts.get(path).map(|&text| text.to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn parse(text: &str) -> Result<Parts, FleetFaults> {
    read_parts(&Source { name: "fleet.toml", text }, &files(&[]))
}

/// The parts of a file that has to be right, without a warning.
#[track_caller]
fn parts(text: &str) -> Parts {
    let parts = parse(text).unwrap_or_else(|faults| panic!("{}", faults.plain()));
    assert!(parts.warnings.is_empty(), "{}", parts.warnings[0].plain());
    parts
}

/// The faults of a file that has to be wrong, one a line.
#[track_caller]
fn faults(text: &str) -> String {
    parse(text).expect_err("the file should be refused").plain().to_string()
}

/// The warnings of a file that has to be usable, one a line.
#[track_caller]
fn warnings(text: &str) -> String {
    let parts = parse(text).unwrap_or_else(|faults| panic!("{}", faults.plain()));
    parts.warnings.iter().map(|warning| format!("{}\n", warning.plain())).collect()
}
