//! Any text is read or refused: no panic, and every fault has a place that exists and can be shown.
//!
//! The text is a fleet file, TOML or JSON, and behind a NUL byte the edge file that it may name.
//!
//! ```text
//! mkdir -p fuzz/corpus/fleet_file
//! cargo +nightly fuzz run fleet_file fuzz/corpus/fleet_file fuzz/seeds/fleet_file -- -max_total_time=60
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use miette::{GraphicalReportHandler, GraphicalTheme};
use shortline_core::Fleet;
use shortline_core::fleet::{Source, read_parts};

fuzz_target!(|input: &str| {
    let (text, edges) = input.split_once('\0').unwrap_or((input, "job_type,server\n"));
    if describes_something_huge(text) {
        return;
    }
    let source = Source { name: "fleet.toml", text };
    match read_parts(&source, &|_| Ok(edges.to_owned())) {
        Ok(parts) => drop(Fleet::new(parts.fleet).expect("a file without faults is a fleet")),
        Err(faults) => {
            assert!(!faults.faults().is_empty());
            for fault in faults.faults() {
                let file = if fault.file() == source.name { text } else { edges };
                let file = file.strip_prefix('\u{feff}').unwrap_or(file);
                assert!(file.get(fault.span()).is_some(), "{:?} is no place", fault.span());
            }
            let mut shown = String::new();
            let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
            handler.render_report(&mut shown, &faults).expect("a string can be written to");
            assert!(!shown.contains("Failed to read contents"), "{shown}");
        }
    }
});

/// Whether a number in the text could make a fleet or graph that takes gigabytes, which is not what is looked for.
fn describes_something_huge(text: &str) -> bool {
    let digits = text.replace('_', "");
    let longest = digits.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    longest > Some(3) || ["0x", "0o", "0b"].iter().any(|prefix| text.contains(prefix))
}
