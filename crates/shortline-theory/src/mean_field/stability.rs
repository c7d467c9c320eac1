//! Whether unbounded queues stay finite.
//!
//! Jobs whose whole sample is in a set `U` of servers with unbounded buffers must go there, so `U` needs more capacity
//! than they bring: `lambda P(all seen are in U) < sum over U of capacity`. `P` is a convex function of the fraction of
//! servers in `U`, and the capacity of the slowest servers grows linearly within a class, so their difference is smallest
//! where classes end: it suffices to look at the slowest classes, up to each of them (and, for `jsq(d1,d2)`, with and
//! without the fast ones).
//!
//! For `jiq` and `jfiq`, whose jobs may join a long queue beside a short one, this is necessary only; what is left shows at
//! the fixed point, where a class gets more jobs than it completes.

use super::MeanField;
use super::class::ServerClass;
use super::ports::Sampling;
use crate::TheoryError;

impl MeanField {
    /// # Errors
    /// [`TheoryError::NoSteadyState`] if some set of servers gets more jobs than it can complete.
    pub(super) fn check_is_stable(&self) -> Result<(), TheoryError> {
        let mut unbounded: Vec<usize> = (0..self.classes.len()).filter(|&m| self.classes[m].buffer.is_none()).collect();
        unbounded.sort_by(|&a, &b| self.classes[a].capacity_per_s().total_cmp(&self.classes[b].capacity_per_s()));
        let Sampling::Random(samples) = &self.sampling else {
            return if unbounded.len() == self.classes.len() { self.check_set(&unbounded, 1.0) } else { Ok(()) };
        };
        let (fast, other): (Vec<usize>, Vec<usize>) = unbounded.iter().partition(|&&m| samples.pool_of[m] == 0);
        for fast_count in 0..=fast.len() {
            for other_count in 0..=other.len() {
                let set = [&fast[..fast_count], &other[..other_count]].concat();
                let mut among = [0.0; 2];
                set.iter().for_each(|&m| among[samples.pool_of[m]] += self.classes[m].share);
                self.check_set(&set, samples.all_among(among) - samples.share_without_servers())?;
            }
        }
        Ok(())
    }

    /// `share`: of the jobs, those that must go to servers of these classes.
    fn check_set(&self, classes: &[usize], share: f64) -> Result<(), TheoryError> {
        let capacity_of = |class: &ServerClass| class.share * class.capacity_per_s();
        let capacity: f64 = classes.iter().map(|&m| capacity_of(&self.classes[m])).sum();
        let arrivals = self.arrivals_per_server_s() * share;
        if classes.is_empty() || arrivals < capacity {
            return Ok(());
        }
        let servers = self.servers as f64;
        let names: Vec<&str> = classes.iter().map(|&m| self.names[m].as_str()).collect();
        Err(TheoryError::NoSteadyState {
            why: format!(
                "{:.6} jobs per second can only go to servers of type {}, which complete {:.6}",
                arrivals * servers,
                names.join(", "),
                capacity * servers
            ),
        })
    }

    /// Why there is no fixed point where class `m` gets more jobs than it completes.
    pub(super) fn grows(&self, m: usize) -> TheoryError {
        TheoryError::NoSteadyState {
            why: format!("servers of type {} get more jobs than they complete, once they are busy", self.names[m]),
        }
    }
}
