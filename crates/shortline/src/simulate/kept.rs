//! What a sweep keeps of each point as soon as it is done: a line of JSON with everything, and its rows of the CSV.
//!
//! The lines are a [ledger](crate::ledger), the file of `--jsonl`, or `FILE.jsonl` beside the file of `--csv`. With
//! `--resume` the points in it are not simulated again; the CSV is written anew from them, so that both files end as if the
//! run had never been interrupted. A point that Ctrl-C or `--time` cut short is in the CSV, but not in the ledger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shortline_core::fleet::Parts;
use shortline_core::policy::PolicySpec;

use super::long_run::Simulated;
use super::recorded::Recorded;
use super::sweep::Point;
use super::{Args, ServiceInstead, tables};
use crate::failure::Failure;
use crate::fingerprint::Fingerprint;
use crate::ledger::{Ledger, Others};

/// All that a point's figures depend on, but for the point itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Settings {
    version: String,
    /// Of the fleet file as read, its graph included; comments and layout do not count.
    fleet_fingerprint: String,
    /// Of the recorded jobs, if there are any.
    #[serde(default)]
    jobs_fingerprint: Option<String>,
    policies: String,
    load: Option<f64>,
    service: Option<String>,
    seed: u64,
    events: Option<u64>,
    relative_error: Option<f64>,
    per_type: String,
    mean_field: bool,
}

impl Settings {
    /// Every option is named here, so that a new one cannot be forgotten.
    fn new(args: &Args, file: &Parts, recorded: Option<&Recorded>, policies: &[PolicySpec]) -> Self {
        #[rustfmt::skip]
        let Args {
            load, service, seed, events, relative_error, per_type, mean_field,
            // Below; and the points are the keys.
            fleet: _, policy: _, sweep: _, trace: _, requests: _, columns: _,
            // These change no figure of a point that is done.
            trajectory: _, replications: _, time: _, threads: _, strict: _, json: _, csv: _, jsonl: _, resume: _,
            report: _,
        } = args;
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fleet_fingerprint: Fingerprint::of(&(&file.fleet, &file.graph)).to_string(),
            jobs_fingerprint: recorded.map(|recorded| recorded.fingerprint().to_string()),
            policies: policies.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            load: *load,
            service: service.map(|ServiceInstead::Exponential| "exponential".to_owned()),
            seed: *seed,
            events: *events,
            relative_error: events.is_none().then_some(*relative_error),
            per_type: format!("{per_type:?}"),
            mean_field: *mean_field,
        }
    }
}

/// The files of a run, and what an earlier one found.
pub(super) struct Kept<'a> {
    ledger: Option<Ledger<Settings, Value>>,
    found: BTreeMap<String, Value>,
    csv: Option<tables::CsvFile<'a>>,
}

impl<'a> Kept<'a> {
    /// The files that the options name, begun anew or, with `--resume`, gone on with.
    pub(super) fn open(
        args: &'a Args,
        file: &Parts,
        recorded: Option<&Recorded>,
        policies: &[PolicySpec],
    ) -> Result<Self, Failure> {
        let path = if args.sweep.is_some() { ledger_path(args) } else { None };
        if args.resume && path.is_none() {
            return Err(Failure::usage("--resume goes on with the file of --csv or --jsonl: name one of them"));
        }
        let settings = || Settings::new(args, file, recorded, policies);
        let (ledger, found) = match path {
            None => (None, BTreeMap::new()),
            Some(path) if args.resume => {
                let remedy = "run it with these again, or without --resume to begin anew";
                let (ledger, found) = Ledger::open(&path, settings(), Others::Refuse(remedy))?;
                (Some(ledger), found)
            }
            Some(path) => (Some(Ledger::create(&path, settings())?), BTreeMap::new()),
        };
        let csv = args.csv.as_deref().map(tables::CsvFile::create).transpose()?;
        Ok(Self { ledger, found, csv })
    }

    /// The point, if an earlier run has done it.
    pub(super) fn found(&self, point: Option<Point>, load: Option<f64>) -> Result<Option<Simulated>, Failure> {
        let value = point.and_then(|point| self.found.get(&point.key()));
        value.map(|value| Simulated::from_json(point, load, value)).transpose()
    }

    /// Adds a point that was simulated just now; `json` is what `--json` prints for it.
    pub(super) fn add(
        &mut self,
        point: Option<Point>,
        json: impl FnOnce() -> Result<Value, Failure>,
    ) -> Result<(), Failure> {
        if let (Some(point), Some(ledger)) = (point, &mut self.ledger) {
            let json = json()?;
            ledger.add(&point.key(), &json)?;
            // A sweep that names a point twice has it twice.
            self.found.insert(point.key(), json);
        }
        Ok(())
    }

    /// Writes the point's rows of the CSV.
    pub(super) fn write_rows(&mut self, simulated: &Simulated) -> Result<(), Failure> {
        self.csv.as_mut().map_or(Ok(()), |csv| csv.write(simulated))
    }
}

/// Where the ledger is: none for a CSV that is no file, as a terminal.
fn ledger_path(args: &Args) -> Option<PathBuf> {
    let beside = |csv: &Path| {
        let is_file = csv.is_file() || !csv.exists();
        let mut name = csv.as_os_str().to_owned();
        name.push(".jsonl");
        is_file.then(|| name.into())
    };
    args.jsonl.clone().or_else(|| args.csv.as_deref().and_then(beside))
}
