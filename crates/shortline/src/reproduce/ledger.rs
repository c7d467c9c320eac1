//! The ledger of an experiment: what is done stays done, whatever becomes of the process.
//!
//! `points.jsonl` has one line of JSON per finished point: its key, the settings it was found under, the result. A line is
//! written with one call and synced to disk before the point counts as done. A process that is killed leaves at most a
//! torn last line (it has no line end), which the next run cuts off. Points of other settings (scale, seed, version of the
//! experiment) stay in the file and are passed over. A lock keeps a second run out.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::number::Found;
use crate::failure::Failure;

/// Under which settings a point was found; a result is used again only under the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) experiment: String,
    /// Of the experiment: see [`About::version`](super::experiment::About::version).
    pub(crate) version: u32,
    /// `quick` or `full`.
    pub(crate) scale: String,
    pub(crate) seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    settings: Settings,
    found: Found,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    path: PathBuf,
    settings: Settings,
}

impl Ledger {
    /// Opens the ledger in the folder, or begins one; gives what was found under these settings.
    pub(crate) fn open(folder: &Path, settings: Settings) -> Result<(Self, BTreeMap<String, Found>), Failure> {
        let path = folder.join("points.jsonl");
        let failed = |error: std::io::Error| Failure::run(format!("cannot open `{}`: {error}", path.display()));
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut file = options.open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::run(format!(
                "another run is at work in `{}`; wait for it, or pass another --out",
                folder.display()
            )),
            TryLockError::Error(error) => failed(error),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
            file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        let found = read(&path, &bytes[..whole], &settings)?;
        Ok((Self { file, path, settings }, found))
    }

    /// Adds a point. It is on disk when this returns.
    pub(crate) fn add(&mut self, key: &str, found: &Found) -> Result<(), Failure> {
        let line = Line { key: key.to_owned(), settings: self.settings.clone(), found: found.clone() };
        let text = serde_json::to_string(&line).map_err(Failure::run)? + "\n";
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Failure::run(format!("cannot write `{}`: {error}", self.path.display())))
    }
}

fn read(path: &Path, bytes: &[u8], settings: &Settings) -> Result<BTreeMap<String, Found>, Failure> {
    let mut found = BTreeMap::new();
    for (i, line) in bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let line: Line = serde_json::from_slice(line).map_err(|error| {
            Failure::run(format!(
                "`{}`, line {}, is not a result of this program ({error}); remove the line, or the file to start anew",
                path.display(),
                i + 1
            ))
        })?;
        if line.settings == *settings {
            found.insert(line.key, line.found);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::reproduce::number::Number;

    fn settings(seed: u64) -> Settings {
        Settings { experiment: "e".into(), version: 1, scale: "quick".into(), seed }
    }

    fn found(value: f64) -> Found {
        let mut found = Found::default();
        found.set("response_s", Some(Number { mean: value, low: value - 0.1, high: value + 0.1 }));
        found
    }

    #[test]
    fn what_was_added_is_there_again_under_the_same_settings_only() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ledger, before) = Ledger::open(folder.path(), settings(1)).unwrap();
        assert!(before.is_empty());
        ledger.add("a", &found(1.0 / 3.0)).unwrap();
        drop(ledger);
        assert_eq!(Ledger::open(folder.path(), settings(1)).unwrap().1, [("a".to_owned(), found(1.0 / 3.0))].into());
        assert!(Ledger::open(folder.path(), settings(2)).unwrap().1.is_empty());
        let newer = Settings { version: 2, ..settings(1) };
        assert!(Ledger::open(folder.path(), newer).unwrap().1.is_empty());
        let full = Settings { scale: "full".into(), ..settings(1) };
        assert!(Ledger::open(folder.path(), full).unwrap().1.is_empty());
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_the_next_one_starts_clean() {
        let folder = tempfile::tempdir().unwrap();
        Ledger::open(folder.path(), settings(1)).unwrap().0.add("a", &found(1.0)).unwrap();
        let path = folder.path().join("points.jsonl");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"key\":\"b\",\"sett").unwrap();
        let (mut ledger, before) = Ledger::open(folder.path(), settings(1)).unwrap();
        assert_eq!(before.len(), 1);
        ledger.add("c", &found(2.0)).unwrap();
        drop(ledger);
        let after = Ledger::open(folder.path(), settings(1)).unwrap().1;
        assert_eq!(after.keys().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_line_that_is_none_is_named_and_a_second_run_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("points.jsonl"), "{}\n").unwrap();
        let Err(Failure::Run(message)) = Ledger::open(folder.path(), settings(1)) else { panic!("it was read") };
        assert!(message.contains("line 1") && message.contains("remove the line"), "{message}");
        let other = tempfile::tempdir().unwrap();
        let _first = Ledger::open(other.path(), settings(1)).unwrap();
        let Err(Failure::Run(message)) = Ledger::open(other.path(), settings(1)) else { panic!("two at a time") };
        assert!(message.contains("another run"), "{message}");
    }
}
