//! Forward in time: the embedded Runge-Kutta pair of order 5(4) of J. Dormand and P. Prince (1980), with the step chosen
//! so that the estimated error of each step stays below a tolerance.
//!
//! The unknowns are fractions that fall with the number of jobs; rounding is undone by projecting on that order. Where
//! the right side jumps, steps shrink until the estimated error is within tolerance, then grow again; the estimate sees the
//! jump with weights down to 1/40, so that it is met within about 100 tolerances.

use crate::TheoryError;

/// Largest estimated error of a step, in fractions of the servers.
pub(super) const TOLERANCE: f64 = 1e-10;
/// Most steps, rejected ones included.
const MOST_STEPS: usize = 2_000_000;
/// Shortest step, relative to the time so far.
const SHORTEST: f64 = 1e-14;

const NODES: usize = 7;
/// Coefficients of the stages; the last row is the solution of order 5.
const STAGES: [[f64; NODES - 1]; NODES - 1] = [
    [1.0 / 5.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [3.0 / 40.0, 9.0 / 40.0, 0.0, 0.0, 0.0, 0.0],
    [44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0, 0.0, 0.0, 0.0],
    [19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0, 0.0, 0.0],
    [9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0, 0.0],
    [35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
];
/// Solution of order 5 less that of order 4.
const ERROR: [f64; NODES] =
    [71.0 / 57600.0, 0.0, -71.0 / 16695.0, 71.0 / 1920.0, -17253.0 / 339_200.0, 22.0 / 525.0, -1.0 / 40.0];

/// An integration that can be stopped at given times.
#[derive(Clone, Debug)]
pub(super) struct Integrator {
    time_s: f64,
    step_s: f64,
    steps: usize,
}

impl Integrator {
    /// From time 0; the first step tried is `step_s` long.
    pub(super) fn new(step_s: f64) -> Self {
        Self { time_s: 0.0, step_s, steps: 0 }
    }

    /// Moves `x` to time `until_s`, or until `pause` says so after a step. Says whether `until_s` is reached.
    ///
    /// # Errors
    /// After too many steps, or when steps become too short.
    pub(super) fn advance(
        &mut self,
        x: &mut Vec<f64>,
        until_s: f64,
        derivative: impl Fn(&[f64], &mut [f64]),
        project: impl Fn(&mut [f64]),
        pause: impl Fn(&[f64]) -> bool,
    ) -> Result<bool, TheoryError> {
        let mut stages = vec![vec![0.0; x.len()]; NODES];
        let mut at = x.clone();
        while self.time_s < until_s {
            self.steps += 1;
            let left = until_s - self.time_s;
            let step = self.step_s.min(left);
            if self.steps > MOST_STEPS || step < SHORTEST * self.time_s.max(step) {
                return Err(TheoryError::Iteration {
                    what: "the mean-field trajectory",
                    why: format!(
                        "after {} steps it is at {} s of {until_s} s; ask for a shorter time",
                        self.steps, self.time_s
                    ),
                });
            }
            derivative(x, &mut stages[0]);
            for (s, row) in STAGES.iter().enumerate() {
                for (i, value) in at.iter_mut().enumerate() {
                    let slope: f64 = row[..=s].iter().zip(&stages).map(|(a, stage)| a * stage[i]).sum();
                    *value = x[i] + step * slope;
                }
                derivative(&at, &mut stages[s + 1]);
            }
            let error_of = |i: usize| ERROR.iter().zip(&stages).map(|(e, stage)| e * stage[i]).sum::<f64>();
            let error = step * (0..x.len()).map(|i| error_of(i).abs()).fold(0.0, f64::max) / TOLERANCE;
            let factor = (0.9 * error.max(1e-10).powf(-0.2)).clamp(0.2, 5.0);
            if error <= 1.0 {
                std::mem::swap(x, &mut at);
                project(x);
                self.time_s = if step >= left { until_s } else { self.time_s + step };
            }
            // A step cut short by `until_s` says nothing against a longer one.
            if error > 1.0 || step >= self.step_s || factor < 1.0 {
                self.step_s = step * factor;
            }
            if error <= 1.0 && self.time_s < until_s && pause(x) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_end(end_s: f64, start: &[f64], derivative: impl Fn(&[f64], &mut [f64])) -> Vec<f64> {
        let mut x = start.to_vec();
        let reached = Integrator::new(1.0).advance(&mut x, end_s, derivative, |_| {}, |_| false);
        assert!(reached.unwrap());
        x
    }

    #[test]
    fn an_oscillator_comes_back() {
        let x = at_end(std::f64::consts::TAU, &[1.0, 0.0], |x, dx| (dx[0], dx[1]) = (x[1], -x[0]));
        assert!((x[0] - 1.0).abs() < 1e-8 && x[1].abs() < 1e-8, "{x:?}");
    }

    #[test]
    fn a_jump_of_the_right_side_is_met_within_a_hundred_tolerances() {
        // Falls at rate 1 to 0 and stays there.
        let x = at_end(2.0, &[1.0], |x, dx| dx[0] = if x[0] > 0.0 { -1.0 } else { 0.0 });
        assert!(x[0].abs() < 100.0 * TOLERANCE, "{x:?}");
    }
}
