//! A certified upper bound on the largest eigenvalue of a positive semidefinite operator that is only applied.
//!
//! Power iteration and Lanczos estimate a largest eigenvalue *from below*, which a certificate must not do. Here the
//! estimate only sets a scale `t`; the bound holds whatever `t` is. Let `a` be the largest eigenvalue of `B`, with unit
//! eigenvector `u`, `T_k` the Chebyshev polynomial and `X = 2 B / t - 1`. If `a > t`, then `T_k(2 a / t - 1)` is the
//! largest eigenvalue of `T_k(X)`, and `|T_k(X) z| >= T_k(2 a / t - 1) |<z, u>|` for every vector `z`. So from any
//! `growth >= T_k(2 a / t - 1)` follows, as `T_k(x) = cosh(k arcosh x)`,
//!
//! `a <= t (1 + cosh(arcosh(growth) / k)) / 2`.
//!
//! * **Small operators: all unit vectors.** `growth^2 = sum_j |T_k(X) e_j|^2 >= T_k(2 a / t - 1)^2`, as the squares
//!   `<e_j, u>^2` add up to 1. Nothing is random in the bound. Degree 60.
//! * **Large ones: one vector `z` of independent standard normals.** `<z, u>` is standard normal, below `eta` in size
//!   with probability `<= eta sqrt(2 / pi)`, so `growth = |T_k(X) z| / eta` except with probability below
//!   `eta = 1e-12` for each bound. `z` comes from a fixed seed, so that a fleet has one answer; the probability is over
//!   that seed. Degree 150.
//!
//! Both are within about 2 % of the eigenvalue, whatever lies below it: only `ln(growth) / k` enters.
//!
//! Rounding: an error in a step of the recurrence of `T_k` grows by at most `k` times what `z` itself grows by, so
//! `growth` is right to a factor `1 + k^2 sqrt(n) 1e-16` or so; it is doubled, which covers that many times over and
//! costs `ln 2 / k`. Source: J. Kuczynski, H. Wozniakowski (1992) for the random start of Lanczos; derived here.

use rand::{Rng, SeedableRng};
use shortline_core::random::Generator;

/// Steps of power iteration that find the scale.
const SCALE_STEPS: usize = 40;
/// Up to this many operations for one step from all unit vectors they are all used.
const LARGEST_FRAME: usize = 4_000_000;
const FRAME_DEGREE: usize = 60;
const NORMAL_DEGREE: usize = 150;
/// A standard normal is smaller than this with probability below `1e-12`.
const ETA: f64 = 1e-12;
/// An eigenvalue below this cannot be told from rounding.
const SMALLEST: f64 = 1e-12;
const SEED: u64 = 0x5eed_0f5b_ec72_a001;

/// An upper bound on the largest eigenvalue of `apply`, a symmetric positive semidefinite operator on vectors of
/// length `n`, that maps its first argument to its second in about `cost` operations. Never NaN; infinite if the
/// operator is not finite.
///
/// Degenerate: `n = 0` has no eigenvalue, and the bound is 0.
pub(crate) fn largest_eigenvalue_bound(n: usize, cost: usize, mut apply: impl FnMut(&[f64], &mut [f64])) -> f64 {
    if n == 0 {
        return 0.0;
    }
    let mut rng = Generator::seed_from_u64(SEED);
    let scale = 1.02 * power_estimate(normals(n, &mut rng), &mut apply);
    if !scale.is_finite() {
        return f64::INFINITY;
    }
    let scale = scale.max(SMALLEST);
    let (growth, degree) = if n.saturating_mul(cost) <= LARGEST_FRAME {
        let unit = |j: usize| (0..n).map(|i| f64::from(u8::from(i == j))).collect();
        let squares = (0..n).map(|j| chebyshev(FRAME_DEGREE, scale, unit(j), &mut apply).powi(2));
        (squares.sum::<f64>().sqrt(), FRAME_DEGREE)
    } else {
        (chebyshev(NORMAL_DEGREE, scale, normals(n, &mut rng), &mut apply) / ETA, NORMAL_DEGREE)
    };
    // arcosh x <= ln 2x, and growth is doubled for rounding.
    let exponent = (4.0 * growth).ln().max(0.0) / degree as f64;
    let bound = scale / 2.0 * (1.0 + exponent.cosh());
    if bound.is_nan() { f64::INFINITY } else { bound }
}

/// `|T_k(2 B / t - 1) z|`, by `y_0 = z`, `y_1 = X z`, `y_(j+1) = 2 X y_j - y_(j-1)`.
fn chebyshev(degree: usize, scale: f64, z: Vec<f64>, apply: &mut impl FnMut(&[f64], &mut [f64])) -> f64 {
    let mut before = z;
    let mut product = vec![0.0; before.len()];
    apply(&before, &mut product);
    let mut now: Vec<f64> = product.iter().zip(&before).map(|(b, z)| 2.0 / scale * b - z).collect();
    for _ in 1..degree {
        apply(&now, &mut product);
        for ((old, &y), &b) in before.iter_mut().zip(&now).zip(&product) {
            *old = 2.0 * (2.0 / scale * b - y) - *old;
        }
        std::mem::swap(&mut before, &mut now);
    }
    norm(&now)
}

/// Rayleigh quotient after a few steps: below the largest eigenvalue.
fn power_estimate(mut x: Vec<f64>, apply: &mut impl FnMut(&[f64], &mut [f64])) -> f64 {
    let mut product = vec![0.0; x.len()];
    let mut estimate = 0.0;
    for _ in 0..SCALE_STEPS {
        let length = norm(&x);
        if length <= f64::MIN_POSITIVE {
            return estimate;
        }
        x.iter_mut().for_each(|value| *value /= length);
        apply(&x, &mut product);
        estimate = x.iter().zip(&product).map(|(a, b)| a * b).sum();
        std::mem::swap(&mut x, &mut product);
    }
    estimate
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Independent standard normals, by Box and Muller (1958).
fn normals(n: usize, rng: &mut Generator) -> Vec<f64> {
    let mut open_unit = || ((rng.next_u64() >> 11) as f64 + 0.5) * (0.5_f64).powi(53);
    let mut normals = Vec::with_capacity(n + 1);
    while normals.len() < n {
        let radius = (-2.0 * open_unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * open_unit()).sin_cos();
        normals.extend([radius * cos, radius * sin]);
    }
    normals.truncate(n);
    normals
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound for a diagonal operator, from all unit vectors and from a random one.
    fn of_diagonal(values: &[f64]) -> [f64; 2] {
        [values.len(), LARGEST_FRAME + 1].map(|cost| {
            largest_eigenvalue_bound(values.len(), cost, |x, y| {
                y.iter_mut().zip(x).zip(values).for_each(|((y, x), value)| *y = value * x);
            })
        })
    }

    #[test]
    fn the_bound_is_above_the_largest_eigenvalue_and_close_to_it() {
        let clustered: Vec<f64> = (0..500).map(|i| 0.25 - 1e-6 * f64::from(i)).collect();
        let spread: Vec<f64> = (0..500).map(|i| f64::from(i) / 499.0 * 0.7).collect();
        let one_above: Vec<f64> = (0..500).map(|i| if i == 77 { 0.3 } else { 0.2 }).collect();
        for values in [clustered, spread, one_above, vec![0.4]] {
            let largest = values.iter().copied().fold(0.0, f64::max);
            for bound in of_diagonal(&values) {
                assert!(bound >= largest && bound <= 1.04 * largest, "{bound} for {largest}");
            }
        }
    }

    #[test]
    fn a_scale_that_misses_the_largest_eigenvalue_still_gives_a_bound() {
        // Power iteration from a vector that lacks the eigenvector of 0.9 would estimate 0.3.
        let values = [0.9, 0.3, 0.2, 0.1];
        let mut apply = |x: &[f64], y: &mut [f64]| y.iter_mut().zip(x).zip(values).for_each(|((y, x), v)| *y = v * x);
        assert!(power_estimate(vec![0.0, 1.0, 1.0, 1.0], &mut apply) < 0.31);
        let start = |j: usize| (0..4).map(|i| f64::from(u8::from(i == j))).collect();
        let squares = (0..4).map(|j| chebyshev(FRAME_DEGREE, 0.3, start(j), &mut apply).powi(2));
        let growth = squares.sum::<f64>().sqrt();
        let exact = (60.0 * (2.0 * 0.9 / 0.3 - 1.0_f64).acosh()).cosh();
        assert!(growth >= exact * (1.0 - 1e-9) && growth <= 1.01 * exact, "{growth} for {exact}");
    }

    #[test]
    fn a_zero_operator_has_a_bound_at_rounding_and_an_infinite_one_none() {
        assert!(of_diagonal(&[0.0; 5]).iter().all(|&bound| bound < 2e-12));
        assert!(of_diagonal(&[f64::INFINITY, 1.0]).iter().all(|bound| bound.is_infinite()));
        assert!(of_diagonal(&[]).iter().all(|&bound| bound.abs() < f64::MIN_POSITIVE));
    }
}
