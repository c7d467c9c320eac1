//! What one more edge can do at most.
//!
//! **Prices.** Let each unit of work of job type `l` have a price `w_l >= 0`, with `sum_l work_l w_l = 1`, and let `y_r` be
//! the most that server `r` can earn with all of its time, `max w_l mu_lr e_l slots_r` over the job types it holds. Then
//! `s* <= sum_r y_r`: what arrives at `s*` is worth `s*`, and no server does more than `y_r`. With `w` equal on a set `S`
//! and 0 elsewhere this is the cut `c(N(S)) / work(S)`; at the dual optimum it is `s*`.
//!
//! **A new edge** `(l, r)`, on which the server does `x = mu_lr e_l slots_r` work per second, breaks the bound only if
//! `w_l x > y_r`. It is mended by raising `y_r` to `w_l x`, by lowering `w_l` to `y_r / x` (and dividing by what the
//! prices then add up to), or by `w_l = 0`, where servers that were dear for `l` alone become cheaper:
//!
//! `s* with the edge <= min( Y + w_l x - y_r, Y / (1 - work_l (w_l - y_r / x)), (Y - released_l) / (1 - work_l w_l) )`.
//!
//! So any prices, whatever they come from, bound what every edge can do, in `O(1)` each. An edge that no prices are broken
//! by cannot help.

use crate::reduced::Reduced;

/// An edge that is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingEdge {
    pub(super) job_type: usize,
    pub(super) port: usize,
    /// The server's group, if it holds a job type.
    pub(super) group: Option<usize>,
    /// Work of the job type that arrives per second.
    pub(super) work: f64,
    /// Work of the job type that the server could do per second.
    pub(super) rate: f64,
}

/// Prices of work, and what they make of the servers' time.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// `w` of the job types of a port.
    of_port: Vec<f64>,
    /// A job type with a price other than its port's.
    exception: Option<(usize, f64)>,
    /// `y` of one server of a group.
    of_server: Vec<f64>,
    /// `Y = sum_r y_r`.
    pub(super) total: f64,
    /// By how much `Y` falls once a port's work is worth nothing.
    released: Vec<f64>,
}

impl Prices {
    /// Prices proportional to these; `None` if nothing that arrives has one.
    pub(super) fn new(reduced: &Reduced, mut of_port: Vec<f64>, mut exception: Option<(usize, f64)>) -> Option<Self> {
        for (price, port) in of_port.iter_mut().zip(&reduced.ports) {
            *price = if port.work > 0.0 { price.max(0.0) } else { 0.0 };
        }
        let mut worth: f64 = of_port.iter().zip(&reduced.ports).map(|(price, port)| price * port.work).sum();
        if let Some((l, price)) = exception {
            worth += work_of(reduced, l) * (price - of_port[reduced.port_of[l] as usize]);
        }
        if worth <= 0.0 {
            return None;
        }
        of_port.iter_mut().for_each(|price| *price /= worth);
        if let Some((_, price)) = &mut exception {
            *price /= worth;
        }
        let dearest = |p: usize| match exception {
            Some((l, price)) if reduced.port_of[l] as usize == p => price.max(of_port[p]),
            _ => of_port[p],
        };
        let mut of_server = Vec::with_capacity(reduced.groups.len());
        let mut released = vec![0.0; reduced.ports.len()];
        let mut total = 0.0;
        for (g, group) in reduced.groups.iter().enumerate() {
            let (mut first, mut second) = ((0.0, None), 0.0);
            for &(p, _) in reduced.graph.column(g) {
                let worth = dearest(p as usize) * reduced.speed(p as usize, g) * group.slots;
                if worth > first.0 {
                    (first, second) = ((worth, Some(p as usize)), first.0);
                } else if worth > second {
                    second = worth;
                }
            }
            if let (worth, Some(p)) = first {
                released[p] += worth - second;
            }
            total += first.0;
            of_server.push(first.0 / group.servers as f64);
        }
        Some(Self { of_port, exception, of_server, total, released })
    }

    /// `w` of a job type.
    pub(super) fn of(&self, job_type: usize, port: usize) -> f64 {
        match self.exception {
            Some((l, price)) if l == job_type => price,
            _ => self.of_port[port],
        }
    }

    /// Upper bound on `s*` with the edge.
    pub(super) fn at_most(&self, reduced: &Reduced, edge: &MissingEdge) -> f64 {
        let price = self.of(edge.job_type, edge.port);
        let earns = edge.group.map_or(0.0, |g| self.of_server[g]);
        if price * edge.rate <= earns {
            return self.total;
        }
        let raised = self.total + price * edge.rate - earns;
        let lowered = quotient(self.total, 1.0 - edge.work * (price - earns / edge.rate));
        raised.min(lowered).min(self.without(reduced, edge.job_type, edge.port, edge.work))
    }

    /// Upper bound on `s*` with any edge of the job type.
    pub(super) fn without(&self, reduced: &Reduced, job_type: usize, port: usize, work: f64) -> f64 {
        let is_alone = reduced.ports[port].most_work >= reduced.ports[port].work;
        let released = if is_alone { self.released[port] } else { 0.0 };
        quotient(self.total - released, 1.0 - work * self.of(job_type, port))
    }
}

/// Work of a job type that arrives per second.
pub(super) fn work_of(reduced: &Reduced, job_type: usize) -> f64 {
    let (rate, work) = reduced.job_types[job_type];
    rate * work
}

/// Infinite where nothing, up to rounding, is left to divide by.
fn quotient(value: f64, by: f64) -> f64 {
    if by > 1e-12 { value / by } else { f64::INFINITY }
}
