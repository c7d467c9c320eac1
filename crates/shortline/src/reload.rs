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
//! it changes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use shortline_core::Fleet;
use shortline_core::fleet::Loaded;
use shortline_core::policy::PolicySpec;
use shortline_gateway::{CompleteFleet, Gateway, ReadFleet};

use crate::failure::Failure;
use crate::{fleet_file, split};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The files that make the fleet, each as it looked before it was read last.
#[derive(Clone, Default, Debug)]
pub(crate) struct Files(Arc<Mutex<Looks>>);

/// Files by their paths, in the order of the reading.
type Looks = Vec<(PathBuf, Look)>;

/// How a file looks from outside; `None`: it is not there.
type Look = Option<(Option<SystemTime>, u64, u64)>;

impl Files {
    /// Reads the fleet file. What a bad one names besides is not known; of that the last good one decides.
    pub(crate) fn read(&self, path: &Path) -> Result<Loaded, Failure> {
        let looks = RefCell::new(Looks::new());
        let note = |path: &Path| looks.borrow_mut().push((path.to_owned(), look(path)));
        let loaded = fleet_file::load_noting(path, &note);
        match &loaded {
            Ok(loaded) => {
                let tls = &loaded.fleet.settings().tls;
                let identity = tls.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
                // The gateway reads these next.
                tls.ca_file.iter().chain(identity).for_each(|file| note(&fleet_file::folder(path).join(file)));
            }
            Err(_) => {
                let named = |path: &Path| looks.borrow().iter().any(|(known, _)| known == path);
                let before: Looks = self.lock().iter().filter(|(path, _)| !named(path)).cloned().collect();
                looks.borrow_mut().extend(before);
            }
        }
        *self.lock() = looks.into_inner();
        loaded
    }

    fn lock(&self) -> MutexGuard<'_, Looks> {
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
        let loaded = files.read(&path).map_err(|failure| failure.text())?;
        completed(Arc::new(loaded.fleet), policy)
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
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut watch = Watch::default();
    loop {
        let wanted = tokio::select! {
            () = next(hangups.as_mut()) => true,
            _ = looks.tick() => watch.has_changed(&files.lock(), look),
        };
        if wanted {
            let gateway = Arc::clone(&gateway);
            let reload = tokio::task::spawn_blocking(move || gateway.reload().is_ok());
            if let Err(error) = reload.await {
                tracing::error!(%error, "reading the fleet file again has failed");
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
struct Watch {
    /// The files as they were last seen.
    seen: Looks,
}

impl Watch {
    /// Whether one of the files looks other than when it was `read`, and all look the same as a look ago. A file that is
    /// gone has not changed: it may be on its way back.
    fn has_changed(&mut self, read: &Looks, look: impl Fn(&Path) -> Look) -> bool {
        let now: Looks = read.iter().map(|(path, _)| (path.clone(), look(path))).collect();
        let changed = read.iter().zip(&now).any(|(read, now)| now.1.is_some() && read.1 != now.1);
        let settled = now == self.seen;
        self.seen = now;
        changed && settled
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
        let (mut watch, path) = (Watch::default(), PathBuf::from("fleet.toml"));
        let mut has_changed = |read, now| watch.has_changed(&vec![(path.clone(), read)], |_| now);
        assert!(!has_changed(at(1), at(1)) && !has_changed(at(1), at(1)));
        assert!(!has_changed(at(1), at(2)), "still being written?");
        assert!(!has_changed(at(1), at(3)));
        assert!(has_changed(at(1), at(3)));
        assert!(!has_changed(at(3), at(3)), "it was read since, by whomever");
        assert!(![None, None, at(3), at(3)].into_iter().any(|now| has_changed(at(3), now)), "gone and back");
        assert!(!has_changed(at(3), at(4)) && has_changed(at(3), at(4)));
    }

    #[test]
    fn one_changed_file_of_several_is_a_change_and_one_still_changing_delays_it() {
        let (a, b) = (PathBuf::from("fleet.toml"), PathBuf::from("ca.pem"));
        let at = |number| Some((None, 10, number));
        let read = vec![(a.clone(), at(1)), (b, at(1))];
        let mut watch = Watch::default();
        let mut has_changed = |first, second| watch.has_changed(&read, |path| if path == a { first } else { second });
        assert!(!has_changed(at(1), at(1)));
        assert!(!has_changed(at(1), at(2)));
        assert!(!has_changed(at(2), at(2)), "the other one is on its way");
        assert!(has_changed(at(2), at(2)));
        assert!(!has_changed(None, at(2)), "something happens");
        assert!(has_changed(None, at(2)), "one is gone, the other has changed");
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
        assert_eq!(files.lock()[1].1, None);
    }
}
