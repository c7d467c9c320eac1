//! Opening the fleet file that a command is given.

use std::path::Path;
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{Source, read};

use crate::failure::{Failure, render};

/// Warnings shown one by one; further ones are counted.
const WARNINGS_SHOWN: usize = 10;

/// Reads a fleet file; `-` is standard input. Warnings go to standard error.
pub(crate) fn open(path: &Path) -> Result<Arc<Fleet>, Failure> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let text = if is_stdin { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|error| Failure::usage(format!("cannot read the fleet file `{name}`: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let loaded = read(&Source { name: &name, text: &text }, &|file| std::fs::read_to_string(folder.join(file)))
        .map_err(|faults| Failure::Fleet(Box::new(faults)))?;
    print_warnings(&loaded.warnings);
    Ok(Arc::new(loaded.fleet))
}

#[expect(clippy::print_stderr, reason = "the command line talks to its user")]
fn print_warnings(warnings: &[shortline_core::fleet::Fault]) {
    for warning in warnings.iter().take(WARNINGS_SHOWN) {
        eprint!("{}", render(warning));
    }
    if warnings.len() > WARNINGS_SHOWN {
        eprintln!("... and {} more warnings", warnings.len() - WARNINGS_SHOWN);
    }
}

/// Says which sections of the file a command does not honour.
#[expect(clippy::print_stderr, reason = "the command line talks to its user")]
pub(crate) fn say_not_honoured(command: &str, sections: &[(&str, bool)]) {
    for (section, _) in sections.iter().filter(|(_, is_set)| *is_set) {
        eprintln!("note: `{command}` does not use {section} of the fleet file");
    }
}
