//! Where the equation comes to rest.
//!
//! **Finitely many servers seen.** Pseudo-transient continuation: implicit Euler steps `(1/tau - J) d = f(x)`, whose step
//! `tau` grows as `f` falls, and which end as Newton's iteration (C. T. Kelley, D. E. Keyes, 1998), from the fixed point of
//! the limit of all servers seen, or if that fails from the empty fleet. `J` is taken by differences.
//!
//! Unbounded buffers: levels above `top` are not told apart, that is, all servers with `top` jobs or more get jobs at the
//! same rate, and then their law is geometric. For `random`, `jiq` and `jfiq` this is exact; else `top` is doubled until
//! the results no longer change.
//!
//! **All servers seen.** Closed form, up to one unknown: [`everything`](super::everything).

use super::everything::{self, ClassAtRest};
use super::field::Field;
use super::ports::Sampling;
use super::preference::{Preference, Tiers};
use super::steady::SteadyState;
use super::{MeanField, linear};
use crate::TheoryError;

/// Levels written out at first, beyond the slots.
const LEVELS: usize = 12;
/// Most levels, of all classes together, that the iteration is tried with.
const MOST_UNKNOWNS: usize = 500;
/// Most cells of the closed form.
const MOST_CELLS: usize = 5_000_000;
/// Change of mean jobs (relative) and of the blocking probability on doubling `top`, below which it is enough.
const ENOUGH: f64 = 1e-11;
/// Most steps of the continuation.
const MOST_STEPS: usize = 1000;
/// Derivative at rest, over the fastest rate: what rounding leaves.
const AT_REST: f64 = 1e-14;
/// The same, at which a point that no longer improves is accepted.
const NEARLY_AT_REST: f64 = 1e-11;

/// Jobs that come to a busy server over jobs that it completes, from which on its queue counts as growing.
const GROWS: f64 = 1.0 - 1e-9;

const WHAT: &str = "the mean-field fixed point";

pub(super) fn find(model: &MeanField, preference: Preference) -> Result<SteadyState, TheoryError> {
    match &model.sampling {
        Sampling::Everything => in_closed_form(model, preference),
        Sampling::Random(_) => by_iteration(model, preference),
    }
}

fn by_iteration(model: &MeanField, preference: Preference) -> Result<SteadyState, TheoryError> {
    let slots = model.classes.iter().map(|class| class.slots as usize).max().unwrap_or(1);
    let mut levels = slots + LEVELS;
    let mut before: Option<(Vec<Vec<f64>>, SteadyState)> = None;
    loop {
        let top: Vec<usize> = model
            .classes
            .iter()
            .map(|class| class.buffer.map_or(levels, |buffer| levels.min(buffer as usize)))
            .collect();
        let field = Field::new(model, preference, top, true);
        if field.unknowns() > MOST_UNKNOWNS {
            let reached = before.map_or(f64::INFINITY, |(_, state)| state.truncation_error);
            return Err(TheoryError::Iteration {
                what: WHAT,
                why: format!(
                    "{} unknowns, and at most {MOST_UNKNOWNS} are tried; before, the results changed by {reached:.1e} \
                     when more levels were written out",
                    field.unknowns()
                ),
            });
        }
        let (x, residual) = match &before {
            Some((start, _)) => come_to_rest(&field, start)?,
            // A fleet whose jobs see many servers fills along a path with sharp bends, but ends near the limit.
            None => come_to_rest(&field, &near_the_limit(model, preference, &field.top))
                .or_else(|_| come_to_rest(&field, &[]))?,
        };
        let mut state = SteadyState::of(model, &field, &x, residual);
        let tails = field.tails(&field.flows(&x));
        let growing = tails.iter().position(|tail| tail.further.is_none() && tail.ratio >= GROWS);
        if let (Some(m), Preference::None | Preference::Idle { .. }) = (growing, preference) {
            return Err(model.grows(m));
        }
        let is_written_out = model.classes.iter().zip(&field.top).all(|(class, &top)| class.is_full(top));
        if is_written_out {
            state.truncation_error = 0.0;
            return Ok(state);
        }
        if let Some((_, former)) = &before {
            let jobs = (state.mean_jobs - former.mean_jobs).abs() / state.mean_jobs.max(f64::MIN_POSITIVE);
            let blocked = (state.blocking_probability - former.blocking_probability).abs();
            state.truncation_error = jobs.max(blocked);
            if state.truncation_error <= ENOUGH && growing.is_none() {
                return Ok(state);
            }
        }
        before = Some((field.by_class(&x).into_iter().map(<[f64]>::to_vec).collect(), state));
        levels *= 2;
    }
}

/// The fixed point of the limit of all servers seen, in so many levels.
fn near_the_limit(model: &MeanField, preference: Preference, top: &[usize]) -> Vec<Vec<f64>> {
    let tiers = Tiers::new(preference, &model.classes, top);
    let (rest, _) = everything::at_rest(model.arrivals_per_server_s(), &model.classes, &tiers, top);
    rest.iter().map(ClassAtRest::occupancy).collect()
}

/// From `start` (by class, as far as known; else empty) to rest; with the largest derivative left, over the fastest rate.
fn come_to_rest(field: &Field<'_>, start: &[Vec<f64>]) -> Result<(Vec<f64>, f64), TheoryError> {
    let mut x: Vec<f64> = Vec::with_capacity(field.unknowns());
    for (m, &top) in field.top.iter().enumerate() {
        let known = start.get(m).map_or(&[][..], Vec::as_slice);
        x.extend((0..top).map(|i| known.get(i).copied().unwrap_or(0.0)));
    }
    let scale = field.scale_per_s();
    let derivative = |x: &[f64]| {
        let mut dx = vec![0.0; x.len()];
        field.derivative(x, &mut dx);
        dx
    };
    let size = |dx: &[f64]| dx.iter().map(|d| d.abs()).fold(0.0, |a, b| if a >= b { a } else { b }) / scale;
    let mut dx = derivative(&x);
    let mut tau = 1.0 / scale;
    let mut stuck = 0;
    for _ in 0..MOST_STEPS {
        let rest = size(&dx);
        if rest <= AT_REST || (rest <= NEARLY_AT_REST && stuck > 2) {
            return Ok((x, rest));
        }
        let step = newton_step(&x, &dx, tau, derivative);
        let mut next = x.clone();
        next.iter_mut().zip(step.iter().flatten()).for_each(|(x, step)| *x += step);
        field.project(&mut next);
        let next_dx = derivative(&next);
        let next_rest = size(&next_dx);
        // While it fills, the derivative may rise somewhat; a step that is too long shows.
        if step.is_none() || !next_rest.is_finite() || next_rest > 2.0 * rest.max(AT_REST) {
            tau *= 0.25;
            stuck += usize::from(rest <= NEARLY_AT_REST);
            continue;
        }
        stuck += usize::from(rest <= NEARLY_AT_REST && next_rest > 0.5 * rest);
        tau *= (rest / next_rest.max(f64::MIN_POSITIVE)).clamp(1.5, 1e4);
        tau = tau.min(1e15 / scale);
        (x, dx) = (next, next_dx);
    }
    Err(TheoryError::Iteration {
        what: WHAT,
        why: format!("after {MOST_STEPS} steps the derivative is {:.1e} of the fastest rate", size(&dx)),
    })
}

/// `(1/tau - J)^-1 dx`; `None` if the matrix is singular.
fn newton_step(x: &[f64], dx: &[f64], tau: f64, derivative: impl Fn(&[f64]) -> Vec<f64>) -> Option<Vec<f64>> {
    const STEP: f64 = 1e-8;
    let n = x.len();
    let mut matrix = vec![vec![0.0; n]; n];
    let mut moved = x.to_vec();
    for j in 0..n {
        moved[j] = x[j] + STEP;
        for (i, (there, here)) in derivative(&moved).iter().zip(dx).enumerate() {
            matrix[i][j] = (here - there) / STEP;
        }
        moved[j] = x[j];
        matrix[j][j] += 1.0 / tau;
    }
    let mut step = dx.to_vec();
    linear::solve(&mut matrix, &mut step)?;
    Some(step)
}

fn in_closed_form(model: &MeanField, preference: Preference) -> Result<SteadyState, TheoryError> {
    // With an unbounded buffer the fleet is not overloaded, so that no job waits unless the policy prefers a wait at a
    // faster server (`sed`) to service at a slower one.
    let longest_s = model.classes.iter().map(|class| 1.0 / class.rate_per_s).fold(0.0, f64::max);
    let needed = |class: &super::ServerClass| match (class.buffer, preference) {
        (Some(buffer), _) => buffer as usize,
        (None, Preference::Delay { idle_first: false }) => {
            class.slots as usize + (class.capacity_per_s() * longest_s).min(1e9) as usize + 2
        }
        (None, _) => class.slots as usize + 1,
    };
    let top: Vec<usize> = model.classes.iter().map(needed).collect();
    let cells = top.iter().map(|top| top + 1).sum();
    if cells > MOST_CELLS {
        return Err(TheoryError::TooLarge {
            what: "numbers of jobs that servers can have",
            value: cells,
            limit: MOST_CELLS,
            remedy: "take smaller buffers",
        });
    }
    let tiers = Tiers::new(preference, &model.classes, &top);
    let arrivals = model.arrivals_per_server_s();
    let (rest, taken): (Vec<ClassAtRest>, f64) = everything::at_rest(arrivals, &model.classes, &tiers, &top);
    Ok(SteadyState::of_classes_at_rest(model, &rest, (taken - arrivals).abs() / arrivals))
}
