//! Dense linear systems: elimination with partial pivoting.

/// Solves `a y = b` in place of `b`; `a` is by rows and is destroyed. `None` if it is singular.
pub(super) fn solve(a: &mut [Vec<f64>], b: &mut [f64]) -> Option<()> {
    let n = b.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))?;
        a.swap(column, pivot);
        b.swap(column, pivot);
        let (upper, lower) = a.split_at_mut(column + 1);
        let row = &upper[column];
        if !(row[column].abs() > 0.0 && row[column].is_finite()) {
            return None;
        }
        for (other, i) in lower.iter_mut().zip(column + 1..) {
            let factor = other[column] / row[column];
            if factor.abs() > 0.0 {
                other[column..].iter_mut().zip(&row[column..]).for_each(|(value, above)| *value -= factor * above);
                b[i] -= factor * b[column];
            }
        }
    }
    for i in (0..n).rev() {
        let known: f64 = a[i][i + 1..].iter().zip(&b[i + 1..]).map(|(a, y)| a * y).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_needs_pivots_is_solved_and_a_singular_one_refused() {
        let mut b = [5.0, 4.0, 9.0];
        solve(&mut [vec![0.0, 1.0, 1.0], vec![2.0, 1.0, 0.0], vec![1.0, 1.0, 2.0]], &mut b).unwrap();
        b.iter().zip([1.0, 2.0, 3.0]).for_each(|(y, expected)| assert!((y - expected).abs() < 1e-14, "{b:?}"));
        assert_eq!(solve(&mut [vec![1.0, 2.0], vec![2.0, 4.0]], &mut [1.0, 1.0]), None);
    }
}
