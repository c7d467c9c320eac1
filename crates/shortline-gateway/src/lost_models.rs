//! The models that a server has lost: it gets requests for all its job types but these.
//!
//! Each is an edge of the graph that is suspended in the dispatcher: the policy decides exactly on the servers that
//! are left, the server's other job types go on. After `model_lost_s` the edge is back and the next request finds out
//! whether the server has the model again; if not, it is away for twice as long, up to [`LONGEST_S`]. A good answer forgets
//! all of it, and so do the operator's `up`, another address, and a fleet file that no longer asks for it.
//!
//! The last server that takes a job type is not taken off it: if none has the model, then the name is wrong (in the request
//! or in the fleet file), and the servers' own 404 says so better than a refusal. When all have said so, all get requests
//! again, and for `model_lost_s`, or until one has answered well, none is taken off.
//!
//! In the same way, and for `open_s` at first, a server gets none of a job type of which too many requests fail by what may be
//! their own fault (500), if it is the only one for another: so it is not taken off as a whole ([`Server::keep_from`]).
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
use crate::health::Failing;
use crate::stats::JobTypeRecord;

/// The longest absence, unless the first is longer: a model takes minutes to load, not hours.
const LONGEST_S: f64 = 240.0;

/// Enough to reach [`LONGEST_S`] from a millisecond.
const DOUBLINGS: u32 = 20;

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

    /// The absence that began then is over. Whether there is none that began later.
    fn back(&self, job_type: &str, until: Instant) -> bool {
        match self.lock().get_mut(job_type) {
            Some(lost) if lost.until == until => {
                lost.away = false;
                true
            }
            Some(later) => !later.away,
            None => true,
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

    /// Forgets all of them but these; returns those that were away.
    fn forget_all_but(&self, stays: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        if self.count.load(Relaxed) == 0 {
            return Vec::new();
        }
        let mut lost = self.lock();
        let gone: Vec<_> = lost.extract_if(|name, _| !stays(name)).collect();
        self.count.store(lost.len(), Relaxed);
        gone.into_iter().filter(|(_, lost)| lost.away).map(|(name, _)| name).collect()
    }

    /// It has not; until when not to ask again. `None`: that is known already.
    fn note(&self, job_type: &str, first_s: f64, now: Instant) -> Option<Instant> {
        let mut lost = self.lock();
        let times = match lost.get(job_type) {
            Some(known) if known.away => return None,
            Some(known) => (known.times + 1).min(DOUBLINGS),
            None => 0,
        };
        let until = now + seconds((first_s * f64::from(1_u32 << times)).min(LONGEST_S.max(first_s)));
        lost.insert(job_type.into(), Lost { until, times, away: true });
        self.count.store(lost.len(), Relaxed);
        Some(until)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, Lost>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The server says that it does not have this job type's model: it gets no requests for it for a time. Whether
    /// another server may have it.
    pub(crate) fn lose(self: &Arc<Self>, dispatch: &Arc<Dispatch>, job_type: &JobTypeRecord) -> bool {
        let epoch = dispatch.epoch();
        let first_s = epoch.fleet.settings().health.model_lost_s;
        let (now, name) = (Instant::now(), job_type.name());
        if job_type.is_nowhere(now) {
            return false;
        }
        if !dispatch.suspend_unless_last(name, self.name()) {
            tracing::warn!(job_type = name, "no server has the model, as they say; they go on being asked");
            job_type.set_nowhere(Some(now + seconds(first_s)));
            epoch.servers().iter().for_each(|server| server.regain_but(dispatch, |other| other != name));
            return false;
        }
        if let Some(until) = self.lost().note(name, first_s, now) {
            let for_s = (until - now).as_secs_f64();
            tracing::warn!(
                server = self.name(),
                job_type = name,
                for_s,
                "the server says that it does not have the model"
            );
            self.ask_again(dispatch, name, until);
        }
        true
    }

    /// Too many requests of this job type fail at it, by a fault that may be theirs, and other job types have no other server:
    /// it gets none of this one for a time, unless it is the last for it.
    pub(crate) fn keep_from(self: &Arc<Self>, dispatch: &Arc<Dispatch>, job_type: &JobTypeRecord, why: Failing) {
        let (now, name) = (Instant::now(), job_type.name());
        let first_s = dispatch.epoch().fleet.settings().health.open_s;
        if dispatch.suspend_unless_last(name, self.name())
            && let Some(until) = self.lost().note(name, first_s, now)
        {
            let for_s = (until - now).as_secs_f64();
            tracing::warn!(server = self.name(), job_type = name, %why, for_s, "too many requests of this job type fail at the server, and others need it");
            self.ask_again(dispatch, name, until);
        }
    }

    /// From then on it gets requests for this job type again.
    fn ask_again(self: &Arc<Self>, dispatch: &Arc<Dispatch>, job_type: &str, until: Instant) {
        let (server, dispatch, job_type) = (Arc::clone(self), Arc::downgrade(dispatch), job_type.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            if let Some(dispatch) = dispatch.upgrade()
                && server.lost().back(&job_type, until)
            {
                tracing::info!(server = server.name(), job_type, "the server gets requests of this job type again");
                dispatch.resume(&job_type, server.name());
            }
        });
    }

    /// It gets requests again for all job types whose models it has lost but these, whatever was known of it.
    pub(crate) fn regain_but(&self, dispatch: &Arc<Dispatch>, stays: impl Fn(&str) -> bool) {
        self.lost().forget_all_but(stays).iter().for_each(|job_type| dispatch.resume(job_type, self.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_lasts_twice_as_long_up_to_minutes_and_a_good_answer_forgets_it() {
        let (lost, mut now) = (LostModels::default(), Instant::now());
        for seconds in [30, 60, 120, 240, 240, 240] {
            let until = now + Duration::from_secs(seconds);
            assert_eq!(lost.note("m", 30.0, now), Some(until));
            assert_eq!(lost.note("m", 30.0, now), None, "known already");
            assert_eq!(lost.back_in("m", now), Some(until - now));
            assert_eq!((lost.back_in("other", now), lost.names()), (None, vec!["m".to_owned()]));
            assert!(!lost.back("m", now), "the end of an earlier absence is not the end of this one");
            now = until;
            assert!(lost.back("m", until));
            assert_eq!(lost.back_in("m", now), None);
        }
        lost.forget("m");
        assert_eq!(lost.note("m", 1000.0, now), Some(now + Duration::from_secs(1000)), "as long as it is told");
        assert_eq!(lost.forget_all_but(|name| name == "m"), Vec::<Box<str>>::new());
        assert_eq!(lost.forget_all_but(|_| false), [Box::from("m")]);
        assert!(lost.names().is_empty());
    }
}
