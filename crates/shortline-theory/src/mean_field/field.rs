//! The differential equation: `alpha_m dx_(m,i)/dt = (flow into cell (m, i-1)) - alpha_m mu_m(i) (x_(m,i) - x_(m,i+1))`.

use super::class::{ServerClass, Tail};
use super::ports::Sampling;
use super::preference::{Preference, Tiers};
use super::{MeanField, everything};

/// The equation with so many levels written out per class.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    pub(super) classes: &'a [ServerClass],
    sampling: &'a Sampling,
    pub(super) arrivals_per_s: f64,
    /// Levels written out, by class: at most the buffer.
    pub(super) top: Vec<usize>,
    tiers: Tiers,
    /// Whether servers of `top` jobs or more are followed beyond it as a [`Tail`]; else nobody gets there.
    has_tails: bool,
}

/// Where jobs go at a moment, in jobs per second and server of the fleet.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    /// Fraction of servers by cell.
    pub(super) masses: Vec<f64>,
    /// Jobs that choose a server of the cell; blocked if that one is full.
    pub(super) into: Vec<f64>,
    /// Jobs that find no server to choose.
    pub(super) without_place: f64,
}

impl<'a> Field<'a> {
    pub(super) fn new(model: &'a MeanField, preference: Preference, top: Vec<usize>, has_tails: bool) -> Self {
        Self {
            classes: &model.classes,
            sampling: &model.sampling,
            arrivals_per_s: model.arrivals_per_server_s(),
            tiers: Tiers::new(preference, &model.classes, &top),
            top,
            has_tails,
        }
    }

    /// Number of unknowns: `x_(m,1) ... x_(m,top)` of one class after the other.
    pub(super) fn unknowns(&self) -> usize {
        self.top.iter().sum()
    }

    /// The unknowns of each class.
    pub(super) fn by_class<'x>(&self, x: &'x [f64]) -> Vec<&'x [f64]> {
        let mut rest = x;
        let mut next = |&top: &usize| {
            let (class, others) = rest.split_at(top);
            rest = others;
            class
        };
        self.top.iter().map(&mut next).collect()
    }

    /// The nearest state: fractions between 0 and 1 that fall with the number of jobs.
    pub(super) fn project(&self, x: &mut [f64]) {
        let mut unknown = 0;
        for &top in &self.top {
            let mut above = 1.0;
            for level in &mut x[unknown..unknown + top] {
                *level = level.clamp(0.0, above);
                above = *level;
            }
            unknown += top;
        }
    }

    /// The fastest that anything happens to a server, per second: the scale of derivatives.
    pub(super) fn scale_per_s(&self) -> f64 {
        self.arrivals_per_s + self.classes.iter().map(ServerClass::capacity_per_s).fold(0.0, f64::max)
    }

    pub(super) fn flows(&self, x: &[f64]) -> Flows {
        let mut masses = Vec::with_capacity(x.len() + self.top.len());
        for (class, x) in self.classes.iter().zip(self.by_class(x)) {
            let mut above = 1.0;
            for &level in x {
                masses.push(class.share * (above - level));
                above = level;
            }
            masses.push(class.share * above);
        }
        let mut into = vec![0.0; masses.len()];
        let without_place = match self.sampling {
            Sampling::Everything => {
                everything::flows(self.arrivals_per_s, self.classes, self.tiers.iter(), &masses, &mut into)
            }
            Sampling::Random(samples) => {
                samples.flows(self.arrivals_per_s, self.tiers.iter(), &masses, &mut into);
                self.arrivals_per_s * samples.share_without_servers()
            }
        };
        Flows { masses, into, without_place }
    }

    /// What is beyond the levels written out, of each class.
    pub(super) fn tails(&self, flows: &Flows) -> Vec<Tail> {
        let mut first = 0;
        let tail = |(class, &top): (&ServerClass, &usize)| {
            let cell = first + top;
            first += top + 1;
            let further = class.buffer.map(|buffer| buffer - top as u32);
            let births = flows.into[cell] / flows.masses[cell];
            let ratio = if self.has_tails && births.is_finite() { births / class.capacity_per_s() } else { 0.0 };
            Tail { ratio, further }
        };
        self.classes.iter().zip(&self.top).map(tail).collect()
    }

    /// `dx/dt`.
    pub(super) fn derivative(&self, x: &[f64], dx: &mut [f64]) {
        let flows = self.flows(x);
        let tails = self.tails(&flows);
        let (mut cell, mut unknown) = (0, 0);
        for ((class, &top), tail) in self.classes.iter().zip(&self.top).zip(tails) {
            for jobs in 1..=top {
                let stays = if jobs < top {
                    flows.masses[cell + jobs]
                } else {
                    flows.masses[cell + top] * (1.0 - tail.beyond())
                };
                let completed = stays * class.service_per_s(jobs);
                dx[unknown + jobs - 1] = (flows.into[cell + jobs - 1] - completed) / class.share;
            }
            cell += top + 1;
            unknown += top;
        }
    }
}
