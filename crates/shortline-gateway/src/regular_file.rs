//! Opening files that are read while requests are served: the fleet file, those that it names.
//!
//! Only regular files: opening a named pipe waits for a writer, and reading one, or a terminal, for what is written, maybe
//! for ever. What is no regular file is refused by its kind before it is opened; opened it is without waiting, so that a
//! pipe put there in between does not stop anybody either.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading, and nothing else; behind symbolic links what is at their end. It waits for no
/// writer. (A disk that does not answer keeps it waiting.)
///
/// # Errors
/// The system's, and [`ErrorKind::InvalidInput`] for whatever is no regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    only_regular(std::fs::metadata(path)?.file_type())?;
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    only_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn only_regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let kind = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}, and only regular files are read")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let read = |name: &str| open_regular_file(&at(name)).and_then(io::read_to_string).map_err(|e| e.to_string());
        assert_eq!([read("file"), read("link")], [Ok("text".into()), Ok("text".into())]);
        let refused = |kind| Err(format!("it is {kind}, and only regular files are read"));
        assert_eq!(read("pipe"), refused("a pipe"));
        assert_eq!(read("socket"), refused("a socket"));
        assert_eq!(read("/dev/zero"), refused("a device"));
        assert_eq!(read("."), refused("a directory"));
        assert!(read("none").unwrap_err().contains("No such file"));
    }
}
