//! The ledger of an experiment: `points.jsonl` in its folder. Points of other settings (scale, seed, version of the
//! experiment) stay in the file and are passed over.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::number::Found;
use crate::failure::Failure;
use crate::ledger::{self, Others};

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

/// The results of an experiment's points.
pub(crate) type Ledger = ledger::Ledger<Settings, Found>;

/// Opens the ledger in the folder, or begins one; gives what was found under these settings.
pub(crate) fn open(folder: &Path, settings: Settings) -> Result<(Ledger, BTreeMap<String, Found>), Failure> {
    Ledger::open(&folder.join("points.jsonl"), settings, Others::PassOver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::number::Number;

    fn settings(seed: u64) -> Settings {
        Settings { experiment: "e".into(), version: 1, scale: "quick".into(), seed }
    }

    #[test]
    fn a_point_is_found_again_under_the_same_scale_seed_and_version_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut found = Found::default();
        found.set("response_s", Some(Number { mean: 1.0 / 3.0, low: 0.3, high: 0.4 }));
        open(folder.path(), settings(1)).unwrap().0.add("a", &found).unwrap();
        let again = |settings| open(folder.path(), settings).unwrap().1;
        assert_eq!(again(settings(1)), [("a".to_owned(), found.clone())].into());
        assert!(again(settings(2)).is_empty());
        assert!(again(Settings { version: 2, ..settings(1) }).is_empty());
        assert!(again(Settings { scale: "full".into(), ..settings(1) }).is_empty());
    }
}
