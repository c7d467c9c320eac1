//! Random times: exponential ones and their sums.

use rand::Rng;
use shortline_core::random::Generator;

/// A uniform number in (0, 1).
#[inline]
pub(crate) fn unit(rng: &mut Generator) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// Sums up to this length are drawn term by term.
const SHORT: u64 = 6;

/// The sum of `n` independent exponential times of mean 1, `Erlang(n, 1)`; 0 for `n = 0`.
///
/// Short sums as the logarithm of a product of uniform numbers, long ones by the method of Marsaglia and Tsang (2000, "A
/// simple method for generating gamma variables"), exact and O(1).
pub(crate) fn erlang(n: u64, rng: &mut Generator) -> f64 {
    if n <= SHORT {
        return -(0..n).map(|_| unit(rng)).product::<f64>().ln();
    }
    let d = n as f64 - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v <= 0.0 {
            continue;
        }
        let u = unit(rng);
        // The first condition implies the second.
        if u < 1.0 - 0.0331 * x.powi(4) || u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return d * v;
        }
    }
}

/// A standard normal number, by the polar method (Marsaglia and Bray, 1964).
fn normal(rng: &mut Generator) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let s = x * x + y * y;
        if s < 1.0 {
            return x * (-2.0 * s.ln() / s).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use statrs::distribution::{ContinuousCDF, Gamma};

    use super::*;

    /// Kolmogorov-Smirnov against the law, 20,000 draws each; false-alarm probability 1e-6 each
    /// (`2 exp(-2 n d^2) = 1e-6` at `d = 2.694 / sqrt n`).
    #[test]
    fn sums_of_exponential_times_have_their_law() {
        let mut rng = Generator::seed_from_u64(17);
        for n in [1, 2, SHORT, SHORT + 1, 40, 5000] {
            let law = Gamma::new(n as f64, 1.0).unwrap();
            let mut draws: Vec<f64> = (0..20_000).map(|_| erlang(n, &mut rng)).collect();
            draws.sort_by(f64::total_cmp);
            let count = draws.len() as f64;
            let distance = draws.iter().enumerate().map(|(i, &x)| (law.cdf(x) - (i as f64 + 0.5) / count).abs());
            let distance = distance.fold(0.0, f64::max) + 0.5 / count;
            assert!(distance * count.sqrt() < 2.694, "n = {n}: {distance}");
        }
    }

    #[test]
    fn no_terms_sum_to_nothing() {
        assert!(erlang(0, &mut Generator::seed_from_u64(1)).abs() < 1e-300);
    }
}
