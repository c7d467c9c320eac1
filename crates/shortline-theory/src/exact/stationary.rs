//! The stationary law of a Markov chain.

use crate::TheoryError;

/// Up to this many states the law is found by elimination.
pub const LARGEST_ELIMINATION: usize = 2_000;

/// Gauss-Seidel stops at this residual ...
const RESIDUAL: f64 = 1e-13;
/// ... and gives up after this many sweeps.
const MOST_SWEEPS: usize = 100_000;

/// Rates between states; what leads from a state to itself is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Generator {
    /// By state the rates out of it, as (state, rate).
    rows: Vec<Vec<(usize, f64)>>,
}

impl Generator {
    pub(super) fn add(&mut self, from: usize, to: usize, rate: f64) {
        let states = self.rows.len().max(from + 1).max(to + 1);
        self.rows.resize_with(states, Vec::new);
        if from == to {
            return;
        }
        match self.rows[from].iter_mut().find(|(known, _)| *known == to) {
            Some((_, sum)) => *sum += rate,
            None => self.rows[from].push((to, rate)),
        }
    }

    fn out_rates(&self) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().map(|&(_, rate)| rate).sum()).collect()
    }

    /// By state the rates into it.
    fn columns(&self) -> Vec<Vec<(usize, f64)>> {
        let mut columns = vec![Vec::new(); self.rows.len()];
        for (from, row) in self.rows.iter().enumerate() {
            for &(to, rate) in row {
                columns[to].push((from, rate));
            }
        }
        columns
    }

    /// `sum_j |inflow_j - outflow_j| / sum_j outflow_j`.
    fn residual(&self, law: &[f64]) -> f64 {
        let out = self.out_rates();
        let mut imbalance: Vec<f64> = law.iter().zip(&out).map(|(p, out)| -p * out).collect();
        for (from, row) in self.rows.iter().enumerate() {
            for &(to, rate) in row {
                imbalance[to] += law[from] * rate;
            }
        }
        let flow: f64 = law.iter().zip(&out).map(|(p, out)| p * out).sum();
        if flow > 0.0 { imbalance.iter().map(|x| x.abs()).sum::<f64>() / flow } else { 0.0 }
    }
}

/// The stationary law of an irreducible chain, and its residual.
pub(super) fn solve(generator: &Generator) -> Result<(Vec<f64>, f64), TheoryError> {
    let law = if generator.rows.len() <= LARGEST_ELIMINATION { eliminate(generator) } else { sweep(generator)? };
    let residual = generator.residual(&law);
    Ok((law, residual))
}

/// W. Grassmann, M. Taksar, D. Heyman (1985): states are censored one by one, last first; no subtraction, so every
/// probability has full relative accuracy. `O(n^3)` at worst, less where rows stay sparse.
fn eliminate(generator: &Generator) -> Vec<f64> {
    let n = generator.rows.len();
    let mut q = vec![0.0; n * n];
    for (from, row) in generator.rows.iter().enumerate() {
        for &(to, rate) in row {
            q[from * n + to] = rate;
        }
    }
    for last in (1..n).rev() {
        let out: Vec<(usize, f64)> = (0..last).map(|j| (j, q[last * n + j])).filter(|&(_, rate)| rate > 0.0).collect();
        let total: f64 = out.iter().map(|&(_, rate)| rate).sum();
        for i in 0..last {
            let into = q[i * n + last] / total;
            if into > 0.0 {
                q[i * n + last] = into;
                for &(j, rate) in &out {
                    q[i * n + j] += into * rate;
                }
            }
        }
    }
    let mut law = vec![1.0; n];
    for j in 1..n {
        law[j] = (0..j).map(|i| law[i] * q[i * n + j]).sum();
    }
    normalised(law)
}

/// Gauss-Seidel: each state's probability from those that lead into it, forwards and backwards in turn.
fn sweep(generator: &Generator) -> Result<Vec<f64>, TheoryError> {
    let n = generator.rows.len();
    let (columns, out) = (generator.columns(), generator.out_rates());
    let mut law = vec![1.0 / n as f64; n];
    for sweeps in 1..=MOST_SWEEPS {
        let mut update = |j: usize| law[j] = columns[j].iter().map(|&(i, rate)| law[i] * rate).sum::<f64>() / out[j];
        (0..n).for_each(&mut update);
        (0..n).rev().for_each(&mut update);
        law = normalised(law);
        if sweeps % 10 == 0 && generator.residual(&law) < RESIDUAL {
            return Ok(law);
        }
    }
    let why = format!("residual {:e} after {MOST_SWEEPS} sweeps", generator.residual(&law));
    Err(TheoryError::Iteration { what: "the stationary law", why })
}

fn normalised(mut law: Vec<f64>) -> Vec<f64> {
    let total: f64 = law.iter().sum();
    law.iter_mut().for_each(|p| *p /= total);
    law
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of `n` states in a ring with chords, rates over six orders of magnitude.
    fn ring(n: usize) -> Generator {
        let mut generator = Generator::default();
        for i in 0..n {
            let rate = |k: usize| 10_f64.powi(i32::try_from((i * 7 + k) % 7).unwrap() - 3);
            generator.add(i, (i + 1) % n, rate(0));
            generator.add(i, (i * 5 + 3) % n, rate(3));
        }
        generator
    }

    #[test]
    fn elimination_and_sweeps_agree() {
        for n in [2, 3, 10, 50, 200] {
            let (a, b) = (eliminate(&ring(n)), sweep(&ring(n)).unwrap());
            for i in 0..n {
                assert!((a[i] - b[i]).abs() < 1e-11, "{n} states, state {i}: {} {}", a[i], b[i]);
            }
            assert!(ring(n).residual(&a) < 1e-14);
        }
    }

    #[test]
    fn elimination_keeps_relative_accuracy_in_the_far_tail() {
        let mut generator = Generator::default();
        for i in 0..30 {
            generator.add(i, i + 1, 1e-6);
            generator.add(i + 1, i, 1.0);
        }
        let law = eliminate(&generator);
        let expected = 1e-6_f64.powi(30) * law[0];
        assert!((law[30] / expected - 1.0).abs() < 1e-12, "{} {expected}", law[30]);
    }
}
