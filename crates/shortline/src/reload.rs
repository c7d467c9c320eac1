//! When `serve` reads its fleet file again: on SIGHUP, and when the file changes.
//!
//! The file is looked at once a second, by its time, length and number: behind a chain of symbolic links that is the file
//! at its end, so that the exchange of a mounted directory (Kubernetes' ConfigMaps swap a link) is seen too, and so are
//! files on network disks, which no notification of the kernel covers. A change is taken up once the file looks the same
//! twice in a row: an editor may still be writing. A graph in a file of its own is read again with the fleet file, but not
//! watched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_gateway::{CompleteFleet, Gateway, ReadFleet};

use crate::{fleet_file, split};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Reads the fleet file for a running gateway; errors are rendered with the places of all faults.
pub(crate) fn reader(path: &Path, policy: Option<PolicySpec>) -> ReadFleet {
    let path = path.to_owned();
    Arc::new(move || {
        if path == Path::new("-") {
            return Err("the fleet was read from standard input, which cannot be read again".to_owned());
        }
        let loaded = fleet_file::load(&path).map_err(|failure| failure.text())?;
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
pub(crate) async fn follow(gateway: Arc<Gateway>, path: PathBuf) {
    let mut hangups = match Hangups::new() {
        Ok(hangups) => Some(hangups),
        Err(error) => {
            tracing::warn!(%error, "SIGHUP will not reload the fleet file");
            None
        }
    };
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut watch = Watch::new(look(&path));
    loop {
        let wanted = tokio::select! {
            () = next(hangups.as_mut()) => true,
            _ = looks.tick() => watch.has_changed(look(&path)),
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

/// How a file looks from outside; `None`: it is not there.
type Look = Option<(Option<SystemTime>, u64, u64)>;

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
#[derive(Debug)]
struct Watch {
    /// As it was read.
    read: Look,
    /// As it was last seen.
    seen: Look,
}

impl Watch {
    fn new(read: Look) -> Self {
        Self { read, seen: read }
    }

    /// Whether it looks other than it was read, and the same as a look ago. A file that is gone has not changed: it may be
    /// on its way back.
    fn has_changed(&mut self, now: Look) -> bool {
        let settled = now == std::mem::replace(&mut self.seen, now);
        let changed = settled && now.is_some() && now != self.read;
        if changed {
            self.read = now;
        }
        changed
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
        let mut watch = Watch::new(at(1));
        assert!(!watch.has_changed(at(1)));
        assert!(!watch.has_changed(at(2)), "still being written?");
        assert!(!watch.has_changed(at(3)));
        assert!(watch.has_changed(at(3)));
        assert!(!watch.has_changed(at(3)), "once");
        assert!(![None, None, at(3), at(3)].into_iter().any(|now| watch.has_changed(now)), "gone and back");
        assert!(!watch.has_changed(at(4)) && watch.has_changed(at(4)));
    }
}
