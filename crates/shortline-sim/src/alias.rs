//! Draws from a discrete law in O(1): the alias method (Walker, 1977; Vose, 1991).
//!
//! One 64-bit word makes a draw: its product with the number of cells gives the cell (high half) and the coin (low
//! half). A probability is met to 2^-64 times the number of cells. 16 bytes a cell, one memory access a draw.

/// A discrete law over `0..n`.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Coins below this take `own`.
    threshold: u64,
    own: u32,
    other: u32,
}

impl Alias {
    /// The law proportional to `weights`, which are finite, not negative and not all 0.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let total: f64 = weights.iter().sum();
        let number = |i: usize| u32::try_from(i).expect("a table has fewer than 2^32 cells");
        let mut rest: Vec<f64> = weights.iter().map(|weight| weight / total * n as f64).collect();
        let heaviest = (0..n).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        // What rounding leaves over goes to the heaviest outcome, never to one of weight 0.
        let mut cells: Vec<Cell> = (0..n)
            .map(|i| {
                let own = if weights[i] > 0.0 { i } else { heaviest };
                Cell { threshold: u64::MAX, own: number(own), other: number(own) }
            })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| rest[i] < 1.0);
        while let (Some(light), Some(&heavy)) = (small.pop(), large.last()) {
            let threshold = (rest[light] * 2_f64.powi(64)) as u64;
            cells[light] = Cell { threshold, own: number(light), other: number(heavy) };
            rest[heavy] -= 1.0 - rest[light];
            if rest[heavy] < 1.0 {
                large.pop();
                small.push(heavy);
            }
        }
        Self { cells }
    }

    /// Cell number `i`: coins below the threshold take the first outcome, the others the second.
    pub(crate) fn cell(&self, i: usize) -> (u64, u32, u32) {
        let cell = &self.cells[i];
        (cell.threshold, cell.own, cell.other)
    }

    /// The outcome of a uniformly random word.
    #[inline(always)]
    pub(crate) fn draw(&self, word: u64) -> u32 {
        let product = u128::from(word) * self.cells.len() as u128;
        let cell = &self.cells[(product >> 64) as usize];
        if (product as u64) < cell.threshold { cell.own } else { cell.other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact law of a table, from its thresholds.
    fn law(table: &Alias) -> Vec<f64> {
        let n = table.cells.len();
        let mut law = vec![0.0; n];
        for cell in &table.cells {
            let own = cell.threshold as f64 / 2_f64.powi(64);
            law[cell.own as usize] += own / n as f64;
            law[cell.other as usize] += (1.0 - own) / n as f64;
        }
        law
    }

    #[test]
    fn the_table_has_the_law_of_its_weights() {
        let weights = [3.0, 0.0, 1e-9, 5.5, 0.25, 0.0, 1e6];
        let total: f64 = weights.iter().sum();
        for (weight, probability) in weights.iter().zip(law(&Alias::new(&weights))) {
            assert!((weight / total - probability).abs() < 1e-15, "{weight} became {probability}");
        }
    }

    #[test]
    fn an_outcome_of_weight_zero_never_comes() {
        let table = Alias::new(&[0.0, 1.0, 1.0, 1.0]);
        for word in [0, 1, u64::MAX / 4, u64::MAX / 4 + 1, u64::MAX - 1, u64::MAX] {
            assert_ne!(table.draw(word), 0);
        }
    }
}
