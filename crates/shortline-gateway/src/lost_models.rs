//! The models that a server has lost: it gets requests for all its job types but these.
//!
//! Each is an edge of the graph that is suspended in the dispatcher: the policy decides exactly on the servers that
//! are left, the server's other job types go on. After `model_lost_s` the edge is back and the next request finds out
//! whether the server has the model again; if not, it is away for twice as long, up to [`DOUBLINGS`] times. A good
//! answer forgets all of it.
//!
//! (Not an exchange of the fleet: that would be O(edges) for one of them, and every id would change its meaning.)

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::breaker::seconds;
use crate::dispatch::Dispatch;
use crate::fleet_server::Server;

/// The longest absence is `2^5 = 32` times the first.
const DOUBLINGS: u32 = 5;

/// What a server has lost.
#[derive(Default, Debug)]
pub(crate) struct LostModels {
    /// By job type.
    lost: Mutex<HashMap<Box<str>, Lost>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    until: Instant,
    times: u32,
    /// Whether it gets no requests; if not, the next one finds out.
    away: bool,
}

impl LostModels {
    /// How long a job type is away yet.
    pub(crate) fn back_in(&self, job_type: &str, now: Instant) -> Option<Duration> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let lost = *self.lock().get(job_type)?;
        lost.away.then(|| lost.until.saturating_duration_since(now))
    }

    /// Job types that are away, in the order of their names.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.lock().iter().filter(|(_, lost)| lost.away).map(|(name, _)| name.to_string()).collect();
        names.sort_unstable();
        names
    }

    /// It gets requests for this job type again.
    fn back(&self, job_type: &str) {
        if let Some(lost) = self.lock().get_mut(job_type) {
            lost.away = false;
        }
    }

    /// The server has answered a request of this type well: it has the model.
    pub(crate) fn forget(&self, job_type: &str) {
        if self.count.load(Relaxed) > 0 {
            let mut lost = self.lock();
            // One that is away again was lost after this request was sent.
            if lost.get(job_type).is_some_and(|lost| !lost.away) {
                lost.remove(job_type);
            }
            self.count.store(lost.len(), Relaxed);
        }
    }

    /// It has not; until when not to ask again. `None`: that is known already.
    fn note(&self, job_type: &str, first_s: f64, now: Instant) -> Option<Instant> {
        let mut lost = self.lock();
        let times = match lost.get(job_type) {
            Some(known) if known.away => return None,
            Some(known) => (known.times + 1).min(DOUBLINGS),
            None => 0,
        };
        let until = now + seconds(first_s * f64::from(1_u32 << times));
        lost.insert(job_type.into(), Lost { until, times, away: true });
        self.count.store(lost.len(), Relaxed);
        Some(until)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Lost>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The server says that it does not have this job type's model: it gets no requests for it for a time.
    pub(crate) fn lose(self: &Arc<Self>, dispatch: &Arc<Dispatch>, job_type: &str) {
        let first_s = dispatch.epoch().fleet.settings().health.model_lost_s;
        let now = Instant::now();
        let Some(until) = self.lost().note(job_type, first_s, now) else { return };
        let for_s = (until - now).as_secs_f64();
        tracing::warn!(server = self.name(), job_type, for_s, "the server says that it does not have the model");
        dispatch.suspend(job_type, self.name(), true);
        let (server, dispatch, job_type) = (Arc::clone(self), Arc::downgrade(dispatch), job_type.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            if let Some(dispatch) = dispatch.upgrade() {
                tracing::info!(server = server.name(), job_type, "the server is asked for the model again");
                dispatch.suspend(&job_type, server.name(), false);
                server.lost().back(&job_type);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_lasts_twice_as_long_and_a_good_answer_forgets_it() {
        let (lost, mut now) = (LostModels::default(), Instant::now());
        for times in [1, 2, 4, 8, 16, 32, 32] {
            let until = now + Duration::from_secs(10 * times);
            assert_eq!(lost.note("m", 10.0, now), Some(until));
            assert_eq!(lost.note("m", 10.0, now), None, "known already");
            assert_eq!(lost.back_in("m", now), Some(until - now));
            assert_eq!((lost.back_in("other", now), lost.names()), (None, vec!["m".to_owned()]));
            now = until;
            lost.back("m");
            assert_eq!(lost.back_in("m", now), None);
        }
        lost.forget("m");
        assert_eq!(lost.note("m", 10.0, now), Some(now + Duration::from_secs(10)));
    }
}
