//! A ledger: what is done stays done, whatever becomes of the process.
//!
//! A file with one line of JSON per finished point: its key, the settings it was found under, what was found. A line is
//! written with one call and synced to disk before the point counts as done. A process that is killed leaves at most a
//! torn last line (it has no line end), which the next run cuts off. A result is used again only under the same settings;
//! what becomes of lines with others, [`Others`] says. A lock keeps a second run out.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// What to do with points that were found under other settings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Others<'a> {
    /// They stay in the file and are passed over.
    PassOver,
    /// The file is refused, with what differs and this remedy.
    Refuse(&'a str),
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line<S, T> {
    key: String,
    settings: S,
    found: T,
}

/// The open file: settings `S`, results `T`.
#[derive(Debug)]
pub(crate) struct Ledger<S, T> {
    file: File,
    path: PathBuf,
    settings: S,
    found: PhantomData<T>,
}

impl<S, T> Ledger<S, T>
where
    S: Clone + PartialEq + Serialize + DeserializeOwned,
    T: Clone + Serialize + DeserializeOwned,
{
    /// Opens the ledger, or begins one; gives what was found under these settings, by key.
    pub(crate) fn open(path: &Path, settings: S, others: Others<'_>) -> Result<(Self, BTreeMap<String, T>), Failure> {
        let mut file = locked(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| unopened(path, error))?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let found = read(path, &bytes[..whole], &settings, others)?;
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(|error| unopened(path, error))?;
        }
        Ok((Self::new(file, path, settings), found))
    }

    /// Begins anew, whatever was in the file.
    pub(crate) fn create(path: &Path, settings: S) -> Result<Self, Failure> {
        let file = locked(path)?;
        file.set_len(0).map_err(|error| unopened(path, error))?;
        Ok(Self::new(file, path, settings))
    }

    fn new(file: File, path: &Path, settings: S) -> Self {
        Self { file, path: path.to_owned(), settings, found: PhantomData }
    }

    /// Adds a point. It is on disk when this returns.
    pub(crate) fn add(&mut self, key: &str, found: &T) -> Result<(), Failure> {
        let line = Line { key: key.to_owned(), settings: self.settings.clone(), found: found.clone() };
        let text = serde_json::to_string(&line).map_err(Failure::run)? + "\n";
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Failure::run(format!("cannot write `{}`: {error}", self.path.display())))
    }
}

/// The file, which nobody else may have while this run has it. Writing appends.
fn locked(path: &Path) -> Result<File, Failure> {
    let options = OpenOptions::new().read(true).append(true).create(true).clone();
    let file = options.open(path).map_err(|error| unopened(path, error))?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            Failure::run(format!("another run writes `{}`; wait for it, or write to another place", path.display()))
        }
        TryLockError::Error(error) => unopened(path, error),
    })?;
    Ok(file)
}

fn unopened(path: &Path, error: std::io::Error) -> Failure {
    Failure::run(format!("cannot open `{}`: {error}", path.display()))
}

fn read<S, T>(path: &Path, bytes: &[u8], settings: &S, others: Others<'_>) -> Result<BTreeMap<String, T>, Failure>
where
    S: PartialEq + Serialize + DeserializeOwned,
    T: DeserializeOwned,
{
    let mut found = BTreeMap::new();
    for (i, line) in bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let place = || format!("`{}`, line {},", path.display(), i + 1);
        let line: Line<S, T> = serde_json::from_slice(line).map_err(|error| {
            let remedy = "remove the line, or the file to start anew";
            Failure::run(format!("{} is not a result of this program ({error}); {remedy}", place()))
        })?;
        if line.settings == *settings {
            found.insert(line.key, line.found);
        } else if let Others::Refuse(remedy) = others {
            let differences = differences(&line.settings, settings)?;
            return Err(Failure::usage(format!("{} was found under other settings: {differences}; {remedy}", place())));
        }
    }
    Ok(found)
}

/// `seed: 1 there, 2 here`, for each member that differs.
fn differences<S: Serialize>(there: &S, here: &S) -> Result<String, Failure> {
    let value = |settings: &S| serde_json::to_value(settings).map_err(Failure::run);
    let (there, here) = (value(there)?, value(here)?);
    let names = there.as_object().into_iter().chain(here.as_object()).flat_map(|members| members.keys());
    let mut differing: Vec<&String> = names.filter(|name| there.get(*name) != here.get(*name)).collect();
    differing.sort();
    differing.dedup();
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let difference =
        |name: &&String| format!("{name} is {} there, {} here", shown(there.get(*name)), shown(here.get(*name)));
    Ok(differing.iter().map(difference).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Settings {
        name: String,
        seed: u64,
    }

    type Numbers = Ledger<Settings, f64>;

    fn settings(seed: u64) -> Settings {
        Settings { name: "e".into(), seed }
    }

    /// What is found under the settings in a file of a folder.
    fn found(path: &Path, seed: u64) -> BTreeMap<String, f64> {
        Numbers::open(path, settings(seed), Others::PassOver).unwrap().1
    }

    #[test]
    fn what_was_added_is_there_again_under_the_same_settings_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        let (mut ledger, before) = Numbers::open(&path, settings(1), Others::PassOver).unwrap();
        assert!(before.is_empty());
        ledger.add("a", &(1.0 / 3.0)).unwrap();
        drop(ledger);
        assert_eq!(found(&path, 1), [("a".to_owned(), 1.0 / 3.0)].into());
        assert!(found(&path, 2).is_empty());
    }

    #[test]
    fn other_settings_are_refused_with_what_differs_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        Numbers::create(&path, settings(1)).unwrap().add("a", &1.0).unwrap();
        let refused = Numbers::open(&path, settings(2), Others::Refuse("go home")).unwrap_err();
        let Failure::Usage(message) = refused else { panic!("{refused:?}") };
        assert!(
            message.contains("line 1, was found under other settings: seed is 1 there, 2 here; go home"),
            "{message}"
        );
        assert_eq!(found(&path, 1).len(), 1);
        assert_eq!(Numbers::open(&path, settings(1), Others::Refuse("")).unwrap().1.len(), 1);
    }

    #[test]
    fn a_ledger_begun_anew_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        Numbers::create(&path, settings(1)).unwrap().add("a", &1.0).unwrap();
        Numbers::create(&path, settings(1)).unwrap().add("b", &2.0).unwrap();
        assert_eq!(found(&path, 1), [("b".to_owned(), 2.0)].into());
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_the_next_one_starts_clean() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        Numbers::create(&path, settings(1)).unwrap().add("a", &1.0).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"key\":\"b\",\"sett").unwrap();
        let (mut ledger, before) = Numbers::open(&path, settings(1), Others::PassOver).unwrap();
        assert_eq!(before.len(), 1);
        ledger.add("c", &2.0).unwrap();
        drop(ledger);
        assert_eq!(found(&path, 1).keys().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_line_that_is_none_is_named_and_a_second_run_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let Err(Failure::Run(message)) = Numbers::open(&path, settings(1), Others::PassOver) else {
            panic!("it was read")
        };
        assert!(message.contains("line 1") && message.contains("remove the line"), "{message}");
        let _first = Numbers::create(&path, settings(1)).unwrap();
        let second = Numbers::create(&path, settings(1)).unwrap_err();
        assert!(matches!(&second, Failure::Run(message) if message.contains("another run")), "{second:?}");
    }
}
