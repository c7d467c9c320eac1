//! Reads a fleet file and says how long it took and what is in it, or what is wrong with it.
//!
//! ```text
//! cargo run --release --example read_fleet -- fleet.toml
//! ```

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use shortline_core::fleet::{Source, read};

fn main() -> Result<ExitCode, std::io::Error> {
    let Some(name) = std::env::args().nth(1) else {
        eprintln!("usage: read_fleet FLEET");
        return Ok(ExitCode::from(2));
    };
    let text = std::fs::read_to_string(&name)?;
    let folder = Path::new(&name).parent().unwrap_or(Path::new("."));
    let start = Instant::now();
    match read(&Source { name: &name, text: &text }, &|path| std::fs::read_to_string(folder.join(path))) {
        Err(faults) => {
            eprint!("{}", faults.plain());
            Ok(ExitCode::from(2))
        }
        Ok(loaded) => {
            let fleet = &loaded.fleet;
            loaded.warnings.iter().for_each(|warning| eprintln!("{}", warning.plain()));
            println!(
                "{}: {} servers, {} job types, {} edges in {} different rows, read in {:.2} s",
                fleet.name(),
                fleet.server_count(),
                fleet.job_type_count(),
                fleet.graph().edge_count(),
                fleet.graph().distinct_row_count(),
                start.elapsed().as_secs_f64()
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}
