//! Opening the fleet file that a command is given.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::fleet::{Fault, FleetFaults, Loaded, Parts, Source, read, read_parts};

use crate::failure::{Failure, render};
use crate::terminal::{self, aside};

/// Warnings shown one by one; further ones are counted.
const WARNINGS_SHOWN: usize = 10;

/// Reads a fleet file; `-` is standard input. Warnings go to standard error.
pub(crate) fn open(path: &Path) -> Result<Arc<Fleet>, Failure> {
    Ok(opened(with_text(path, read, &any_file)?))
}

/// A fleet for a command that does not report warnings itself: they go to standard error.
pub(crate) fn opened(loaded: Loaded) -> Arc<Fleet> {
    print_warnings(&loaded.warnings);
    Arc::new(loaded.fleet)
}

/// The same with its warnings, for a command that reports them.
pub(crate) fn load(path: &Path) -> Result<Loaded, Failure> {
    with_text(path, read, &any_file)
}

/// The same; it, and what it names, is read by `read_file`.
pub(crate) fn load_by(path: &Path, read_file: &dyn Fn(&Path) -> io::Result<String>) -> Result<Loaded, Failure> {
    with_text(path, read, read_file)
}

/// The same as far as its parts, for a command that alters them, with the warnings that matter to it.
pub(crate) fn open_parts(path: &Path, matters: impl Fn(&Fault) -> bool) -> Result<Parts, Failure> {
    let mut parts = with_text(path, read_parts, &any_file)?;
    parts.warnings.retain(matters);
    print_warnings(&parts.warnings);
    Ok(parts)
}

/// What paths in a fleet file are relative to.
pub(crate) fn folder(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).to_owned()
}

/// A pipe that another program writes to is as good as a file, where it is read once.
fn any_file(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// Reads files that a fleet file names.
type ReadFile<'a> = &'a dyn Fn(&str) -> io::Result<String>;

fn with_text<T>(
    path: &Path,
    read: impl FnOnce(&Source<'_>, ReadFile<'_>) -> Result<T, FleetFaults>,
    read_file: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<T, Failure> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let text = if is_stdin { io::read_to_string(io::stdin()) } else { read_file(path) };
    let text = text.map_err(|error| Failure::usage(format!("cannot read the fleet file `{name}`: {error}")))?;
    let folder = folder(path);
    read(&Source { name: &name, text: &text }, &|file| read_file(&folder.join(file)))
        .map_err(|faults| Failure::Fleet(Box::new(faults)))
}

fn print_warnings(warnings: &[Fault]) {
    for warning in warnings.iter().take(WARNINGS_SHOWN) {
        terminal::write_aside(format_args!("{}", render(warning)));
    }
    if warnings.len() > WARNINGS_SHOWN {
        aside!("... and {} more warnings", warnings.len() - WARNINGS_SHOWN);
    }
}

/// Says which sections of the file a command does not honour.
pub(crate) fn say_not_honoured(command: &str, sections: &[(&str, bool)]) {
    for note in not_honoured(command, sections) {
        aside!("note: {note}");
    }
}

/// The same, for those who do not read the terminal.
pub(crate) fn not_honoured<'a>(command: &'a str, sections: &'a [(&str, bool)]) -> impl Iterator<Item = String> + 'a {
    let set = sections.iter().filter(|(_, is_set)| *is_set);
    set.map(move |(section, _)| format!("`{command}` does not use {section} of the fleet file"))
}
