//! The mean field in time: how a fleet fills, or comes back from a given state.

use super::MeanField;
use super::field::Field;
use super::integrate::Integrator;
use super::preference::Preference;
use super::steady::ClassState;
use crate::TheoryError;

/// Levels written out at first, beyond those of the start.
const LEVELS: usize = 8;
/// More levels are written out when more than this fraction of a class has reached the last one.
const REACHED: f64 = 1e-13;
/// Most levels, of all classes together.
const MOST_UNKNOWNS: usize = 200_000;

/// The state at some moments. See [`MeanField::trajectory`].
#[derive(Clone, PartialEq, Debug)]
pub struct Trajectory {
    /// The moments asked for.
    pub points: Vec<Moment>,
    /// In unbounded or large buffers: the largest fraction of a class that ever had as many jobs as were followed.
    pub truncation_error: f64,
}

/// The state at a moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Moment {
    /// Since the start.
    pub time_s: f64,
    /// Jobs in the fleet.
    pub mean_jobs: f64,
    /// By class, fastest first.
    pub per_class: Vec<ClassState>,
}

pub(super) fn follow(
    model: &MeanField,
    preference: Preference,
    start: &[Vec<f64>],
    times_s: &[f64],
) -> Result<Trajectory, TheoryError> {
    check(model, start, times_s)?;
    let top = |m: usize| {
        let levels = start.get(m).map_or(0, Vec::len) + model.classes[m].slots as usize + LEVELS;
        model.classes[m].buffer.map_or(levels, |buffer| levels.min(buffer as usize))
    };
    let mut field = Field::new(model, preference, (0..model.classes.len()).map(top).collect(), false);
    let mut x = written_out(start, &field.top);
    let mut integrator = Integrator::new(1e-3 / field.scale_per_s());
    let truncation = std::cell::Cell::new(0.0_f64);
    let mut points = Vec::with_capacity(times_s.len());
    for &time_s in times_s {
        loop {
            let reached = |x: &[f64]| {
                let reached = open_tops(&field, x).into_iter().map(|(_, x)| x).fold(0.0, f64::max);
                truncation.set(truncation.get().max(reached));
                reached > REACHED
            };
            let derivative = |x: &[f64], dx: &mut [f64]| field.derivative(x, dx);
            if integrator.advance(&mut x, time_s, derivative, |x| field.project(x), reached)? {
                break;
            }
            let mut top = field.top.clone();
            for (m, _) in open_tops(&field, &x).into_iter().filter(|&(_, x)| x > REACHED) {
                let more = top[m] + LEVELS.max(top[m] / 2);
                top[m] = model.classes[m].buffer.map_or(more, |buffer| more.min(buffer as usize));
            }
            let by_class: Vec<Vec<f64>> = field.by_class(&x).into_iter().map(<[f64]>::to_vec).collect();
            field = Field::new(model, preference, top, false);
            if field.unknowns() > MOST_UNKNOWNS {
                return Err(TheoryError::TooLarge {
                    what: "numbers of jobs that servers reach along the mean-field trajectory",
                    value: field.unknowns(),
                    limit: MOST_UNKNOWNS,
                    remedy: "ask for a shorter time",
                });
            }
            x = written_out(&by_class, &field.top);
        }
        let per_class = field.states(&x);
        let jobs: f64 = per_class.iter().map(|state| state.class.share * state.mean_jobs).sum();
        points.push(Moment { time_s, mean_jobs: model.servers as f64 * jobs, per_class });
    }
    Ok(Trajectory { points, truncation_error: truncation.get() })
}

/// The classes whose last level written out is not the buffer, and the fraction that has reached it.
fn open_tops(field: &Field<'_>, x: &[f64]) -> Vec<(usize, f64)> {
    let open = |(m, x): (usize, &[f64])| {
        let is_open = !field.classes[m].is_full(field.top[m]);
        is_open.then(|| (m, x.last().copied().unwrap_or(0.0)))
    };
    field.by_class(x).into_iter().enumerate().filter_map(open).collect()
}

/// The unknowns: levels by class, as many as wanted.
fn written_out(by_class: &[Vec<f64>], top: &[usize]) -> Vec<f64> {
    let mut x = Vec::with_capacity(top.iter().sum());
    for (m, &top) in top.iter().enumerate() {
        let known = by_class.get(m).map_or(&[][..], Vec::as_slice);
        x.extend((0..top).map(|i| known.get(i).copied().unwrap_or(0.0)));
    }
    x
}

fn check(model: &MeanField, start: &[Vec<f64>], times_s: &[f64]) -> Result<(), TheoryError> {
    let fault = |why: String| Err(TheoryError::Trajectory { why });
    let classes = model.classes.len();
    if !start.is_empty() && start.len() != classes {
        return fault(format!("its start has {} classes of servers, the fleet {classes}", start.len()));
    }
    for (class, x) in model.classes.iter().zip(start) {
        let is_law = x.iter().all(|x| (0.0..=1.0).contains(x)) && x.is_sorted_by(|a, b| a >= b);
        if !is_law || class.buffer.is_some_and(|buffer| x.len() > buffer as usize) {
            return fault(format!(
                "its start {x:?} is not one of a class of servers: fractions from 0 to 1 that do not rise, one per place of \
                 the buffer at most"
            ));
        }
    }
    let mut earlier = 0.0;
    for &time_s in times_s {
        if !(time_s >= earlier && time_s.is_finite()) {
            return fault(format!("time {time_s} s is not finite, or before 0 or the one before it"));
        }
        earlier = time_s;
    }
    Ok(())
}
