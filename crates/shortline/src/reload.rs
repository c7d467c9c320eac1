//! When `serve` reads its fleet file again: on SIGHUP, and when one of its files changes.
//!
//! These are the fleet file, the edge file of its `[graph]` and the files of its `[tls]`. They are looked at once a second,
//! by time, length and number: behind a chain of symbolic links that is the file at its end, so that the exchange of a
//! mounted directory (Kubernetes' ConfigMaps swap a link) is seen too, and so are files on network disks, which no
//! notification of the kernel covers. A change is taken up once the files look the same twice in a row: an editor may
//! still be writing.
//!
//! What a change is measured by is how the files looked when they were read last, for whatever reason ([`Files`]): a reload
//! on SIGHUP or by `POST /reload` is not done again for the change that it has seen, and a bad file is not read again until
//! it changes. One that is gone and stays away is taken for bad.
//!
//! Disks may not answer. Reading has a time limit (the gateway's), and so has looking; whatever hangs is left behind.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shortline_core::Fleet;
use shortline_core::fleet::Loaded;
use shortline_core::policy::PolicySpec;
use shortline_gateway::{CompleteFleet, FleetRead, Gateway, READ_AT_MOST, ReadFleet, open_regular_file};
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::{fleet_file, serve, split};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// So many looks in a row a file has to be gone before it counts as taken away: editors and swapped links take it away for a
/// moment.
const GONE: u32 = 5;

/// The files that make the fleet, each as it looked before it was read last.
#[derive(Clone, Default, Debug)]
pub(crate) struct Files(Arc<Mutex<Known>>);

#[derive(Default, Debug)]
struct Known {
    looks: Looks,
    /// How many readings have begun. One that was given up goes on, and what it notes is of no use.
    readings: u64,
}

/// Files by their paths, in the order of the reading.
type Looks = Vec<(PathBuf, Look)>;

/// How a file looks from outside; `None`: it is not there.
type Look = Option<(Option<SystemTime>, u64, u64)>;

impl Files {
    /// Reads the fleet file. What a bad one names besides is not known; of that the last good one decides.
    pub(crate) fn read(&self, path: &Path) -> Result<Loaded, Failure> {
        let reading = {
            let mut known = self.lock();
            known.readings += 1;
            known.readings
        };
        let named = RefCell::new(Vec::new());
        // At once, not in the end: what cannot be read to its end is not read again until it looks other than now.
        let note = |path: &Path| {
            let look = look(path);
            named.borrow_mut().push(path.to_owned());
            self.note(reading, path, look);
        };
        let read_file = |path: &Path| {
            note(path);
            open_regular_file(path).and_then(std::io::read_to_string)
        };
        let loaded = fleet_file::load_by(path, &read_file);
        if let Ok(loaded) = &loaded {
            let tls = &loaded.fleet.settings().tls;
            let identity = tls.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
            // The gateway reads these next.
            tls.ca_file.iter().chain(identity).for_each(|file| note(&fleet_file::folder(path).join(file)));
            self.keep(reading, &named.into_inner());
        }
        loaded
    }

    fn note(&self, reading: u64, path: &Path, look: Look) {
        let mut known = self.lock();
        if known.readings == reading {
            match known.looks.iter_mut().find(|(known, _)| known == path) {
                Some((_, known)) => *known = look,
                None => known.looks.push((path.to_owned(), look)),
            }
        }
    }

    /// Forgets all but what was `named`, and keeps that in its order.
    fn keep(&self, reading: u64, named: &[PathBuf]) {
        let mut known = self.lock();
        if known.readings == reading {
            let place = |path: &PathBuf| named.iter().position(|named| named == path);
            known.looks.retain(|(path, _)| place(path).is_some());
            known.looks.sort_by_key(|(path, _)| place(path));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the fleet file for a running gateway; errors are rendered with the places of all faults.
pub(crate) fn reader(path: &Path, policy: Option<PolicySpec>, files: Files) -> ReadFleet {
    let path = path.to_owned();
    Arc::new(move || {
        if path == Path::new("-") {
            return Err("the fleet was read from standard input, which cannot be read again".to_owned());
        }
        let Loaded { fleet, warnings, .. } = files.read(&path).map_err(|failure| failure.text())?;
        let not_honoured = serve::not_honoured(fleet.settings());
        let notes = fleet_file::not_honoured("serve", &not_honoured);
        let warnings = warnings.iter().map(|warning| warning.plain().to_string()).chain(notes).collect();
        Ok(FleetRead { fleet: completed(Arc::new(fleet), policy)?, warnings })
    })
}

/// Gives a fleet that was put together what the policy needs.
pub(crate) fn completer(policy: Option<PolicySpec>) -> CompleteFleet {
    Arc::new(move |fleet| completed(fleet, policy))
}

fn completed(fleet: Arc<Fleet>, policy: Option<PolicySpec>) -> Result<Arc<Fleet>, String> {
    let policy = policy.or(fleet.settings().policy);
    split::with_shares(fleet, policy.as_slice()).map_err(|failure| failure.text())
}

/// Reloads whenever there is a reason to, for ever. What comes of it is logged and counted by the gateway.
pub(crate) async fn follow(gateway: Arc<Gateway>, files: Files) {
    let mut hangups = match Hangups::new() {
        Ok(hangups) => Some(hangups),
        Err(error) => {
            tracing::warn!(%error, "SIGHUP will not reload the fleet file");
            None
        }
    };
    let mut watch = Watch::new(files, look, READ_AT_MOST);
    loop {
        let by = tokio::select! {
            () = next(hangups.as_mut()) => "SIGHUP",
            () = watch.change() => "file",
        };
        let gateway = Arc::clone(&gateway);
        let reload = tokio::task::spawn_blocking(move || gateway.reload(by).is_ok());
        if let Err(error) = reload.await {
            tracing::error!(%error, "reading the fleet file again has failed");
        }
    }
}

/// Looks at the files, again and again. On a thread where it may take its time: a disk may not answer.
struct Watch<L> {
    files: Files,
    look: L,
    /// How long one look may take.
    at_most: Duration,
    ticks: tokio::time::Interval,
    /// The look that is under way.
    under_way: Option<JoinHandle<(u64, Looks)>>,
    /// The disk does not answer.
    hangs: bool,
    changes: Changes,
}

impl<L: Fn(&Path) -> Look + Copy + Send + 'static> Watch<L> {
    fn new(files: Files, look: L, at_most: Duration) -> Self {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { files, look, at_most, ticks, under_way: None, hangs: false, changes: Changes::default() }
    }

    /// Waits for a reason to read the files: one has changed or is gone, or they can no longer be looked at (then, once, so
    /// that it is told). May be dropped and called again.
    async fn change(&mut self) {
        loop {
            if self.under_way.is_none() {
                self.ticks.tick().await;
            }
            let under_way = self.under_way.get_or_insert_with(|| {
                let (files, look) = (self.files.clone(), self.look);
                tokio::task::spawn_blocking(move || {
                    let (readings, paths) = {
                        let known = files.lock();
                        (known.readings, known.looks.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>())
                    };
                    (readings, paths.into_iter().map(|path| (path.clone(), look(&path))).collect())
                })
            });
            let Ok(looked) = tokio::time::timeout(self.at_most, under_way).await else {
                if !std::mem::replace(&mut self.hangs, true) {
                    return;
                }
                continue;
            };
            (self.under_way, self.hangs) = (None, false);
            match looked {
                Ok((readings, now)) => {
                    let known = self.files.lock();
                    // What was read meanwhile was looked at later.
                    if readings == known.readings && self.changes.are_due(&known.looks, now) {
                        return;
                    }
                }
                Err(error) => tracing::error!(%error, "looking at the fleet file has failed"),
            }
        }
    }
}

fn look(path: &Path) -> Look {
    let seen = std::fs::metadata(path).ok()?;
    Some((seen.modified().ok(), seen.len(), number(&seen)))
}

#[cfg(unix)]
fn number(seen: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(seen)
}

#[cfg(not(unix))]
fn number(_: &std::fs::Metadata) -> u64 {
    0
}

/// Tells changes that are over from those under way.
#[derive(Default, Debug)]
struct Changes {
    /// The files as they were last seen.
    seen: Looks,
    /// Looks since one of them is gone.
    gone: u32,
}

impl Changes {
    /// Whether one of the files looks other than when it was `read`, and all look the same as a look ago. A file that is
    /// gone has not changed, unless it stays away: it may be on its way back.
    fn are_due(&mut self, read: &Looks, now: Looks) -> bool {
        let is_gone = read.iter().zip(&now).any(|(read, now)| now.1.is_none() && read.1.is_some());
        self.gone = if is_gone { self.gone + 1 } else { 0 };
        let changed = read.iter().zip(&now).any(|(read, now)| now.1.is_some() && read.1 != now.1);
        let settled = now == self.seen;
        self.seen = now;
        settled && (changed || self.gone >= GONE)
    }
}

/// The next SIGHUP; never, if they cannot be heard.
async fn next(hangups: Option<&mut Hangups>) {
    match hangups {
        Some(hangups) => hangups.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    fn new() -> std::io::Result<Self> {
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).map(Self)
    }

    async fn next(&mut self) {
        // `None`: no more signals will come.
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn new() -> std::io::Result<Self> {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
    }

    async fn next(&mut self) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_is_over() {
        let at = |number| Some((None, 10, number));
        let (mut changes, path) = (Changes::default(), PathBuf::from("fleet.toml"));
        let mut has_changed = |read, now| changes.are_due(&vec![(path.clone(), read)], vec![(path.clone(), now)]);
        assert!(!has_changed(at(1), at(1)) && !has_changed(at(1), at(1)));
        assert!(!has_changed(at(1), at(2)), "still being written?");
        assert!(!has_changed(at(1), at(3)));
        assert!(has_changed(at(1), at(3)));
        assert!(!has_changed(at(3), at(3)), "it was read since, by whomever");
        assert!(![None, None, at(3), at(3)].into_iter().any(|now| has_changed(at(3), now)), "gone and back");
        assert!(!has_changed(at(3), at(4)) && has_changed(at(3), at(4)));
        let away = [None; 5].map(|now| has_changed(at(4), now));
        assert_eq!(away, [false, false, false, false, true], "gone for good");
        assert!(![None; 9].into_iter().any(|now| has_changed(None, now)), "that was told");
        assert!(!has_changed(None, at(5)) && has_changed(None, at(5)), "back");
    }

    #[test]
    fn one_changed_file_of_several_is_a_change_and_one_still_changing_delays_it() {
        let (a, b) = (PathBuf::from("fleet.toml"), PathBuf::from("ca.pem"));
        let at = |number| Some((None, 10, number));
        let read = vec![(a.clone(), at(1)), (b.clone(), at(1))];
        let mut changes = Changes::default();
        let mut has_changed = |first, second| changes.are_due(&read, vec![(a.clone(), first), (b.clone(), second)]);
        assert!(!has_changed(at(1), at(1)));
        assert!(!has_changed(at(1), at(2)));
        assert!(!has_changed(at(2), at(2)), "the other one is on its way");
        assert!(has_changed(at(2), at(2)));
        assert!(!has_changed(None, at(2)), "something happens");
        assert!(has_changed(None, at(2)), "one is gone, the other has changed");
    }

    #[test]
    fn a_reading_that_was_given_up_says_nothing_of_how_the_files_look() {
        let (files, path) = (Files::default(), Path::new("fleet.toml"));
        let at = |number| Some((None, 10, number));
        files.lock().readings = 2;
        files.note(2, path, at(2));
        files.note(1, path, at(3));
        files.keep(1, &[]);
        assert_eq!(files.lock().looks, [(path.to_owned(), at(2))], "the change from 2 to 3 is still to be read");
    }

    /// A disk that does not answer: told once, and left alone until it answers.
    #[tokio::test]
    async fn a_look_that_hangs_is_a_reason_to_read_once() {
        let (answers, disk) = std::sync::mpsc::channel::<()>();
        let disk: &'static Mutex<_> = Box::leak(Box::new(Mutex::new(disk)));
        let files = Files::default();
        files.lock().looks.push((PathBuf::from("fleet.toml"), None));
        let look = move |_: &Path| disk.lock().ok().and_then(|disk| disk.recv().ok()).and(None);
        let mut watch = Watch::new(files, look, Duration::from_millis(200));
        tokio::time::timeout(Duration::from_secs(20), watch.change()).await.expect("it is told");
        tokio::time::timeout(Duration::from_secs(1), watch.change()).await.expect_err("once");
        drop(answers);
        tokio::time::timeout(Duration::from_secs(3), watch.change()).await.expect_err("it looks as it did");
        assert!(!watch.hangs);
    }

    #[test]
    fn the_files_are_those_that_the_last_good_reading_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let files = Files::default();
        let read = || {
            let result = files.read(&folder.path().join("fleet.toml")).is_ok();
            let names = files
                .lock()
                .looks
                .iter()
                .map(|(path, _)| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>();
            (result, names.join(" "))
        };
        let fleet = |more: &str| {
            format!(
                "server_type = [{{ name = \"t\", rank = 1 }}]\njob_type = [{{ name = \"m\" }}]\n\
                 server = [{{ name = \"s\", type = \"t\" }}]\n[graph]\nkind = \"file\"\npath = \"edges.csv\"\n{more}"
            )
        };
        let tls = "[tls]\nca_file = \"ca.pem\"\ncertificate_file = \"own.pem\"\nkey_file = \"own.key\"\n";
        write("edges.csv", "job_type,server\nm,s\n");
        write("fleet.toml", &fleet(tls));
        assert_eq!(read(), (true, "fleet.toml edges.csv ca.pem own.pem own.key".into()));
        write("fleet.toml", "[");
        assert_eq!(read(), (false, "fleet.toml edges.csv ca.pem own.pem own.key".into()));
        write("fleet.toml", &fleet(""));
        assert_eq!(read(), (true, "fleet.toml edges.csv".into()));
        std::fs::remove_file(folder.path().join("edges.csv")).unwrap();
        assert_eq!(read(), (false, "fleet.toml edges.csv".into()), "it may come back");
        assert_eq!(files.lock().looks[1].1, None);
    }
}
