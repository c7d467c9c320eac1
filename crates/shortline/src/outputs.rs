//! Files that a command writes at its end: whether they can be written is found out at its start.

use std::fs::OpenOptions;
use std::path::Path;

use crate::failure::Failure;

/// Refuses a file that cannot be written, before there is anything to write; leaves it as it is.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| unwritten(path, error))?;
    if is_new { std::fs::remove_file(path).map_err(|error| unwritten(path, error)) } else { Ok(()) }
}

/// Writes it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| unwritten(path, error))
}

/// That a file could not be written.
pub(crate) fn unwritten(path: &Path, error: std::io::Error) -> Failure {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    Failure::run(match folder {
        Some(folder) => {
            format!("cannot write `{}`: there is no folder `{}`; make it", path.display(), folder.display())
        }
        None => format!("cannot write `{}`: {error}", path.display()),
    })
}
