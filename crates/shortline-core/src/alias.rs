//! Draws from a discrete law in O(1): the alias method (Walker, 1977; Vose, 1991).
//!
//! All cells of a table are equally likely, and each holds one or two outcomes. One 64-bit word makes a draw: its
//! product with the number of cells gives the cell (high half) and the coin (low half) that decides between its two
//! outcomes. A probability is met to 2^-64 times the number of cells. 16 bytes a cell, one memory access a draw.

/// A discrete law over numbered outcomes.
///
/// ```
/// use shortline_core::alias::Alias;
///
/// let table = Alias::new(&[1.0, 3.0]);
/// let draws = (0..1000).map(|i| table.draw(u64::MAX / 2000 * (2 * i + 1)));
/// assert_eq!(draws.filter(|&outcome| outcome == 0).count(), 250);
/// ```
#[derive(Clone, Debug)]
pub struct Alias {
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Coins below this take the first outcome.
    threshold: u64,
    outcomes: [u32; 2],
}

impl Alias {
    /// The law proportional to `weights`, which are finite, not negative and not all 0: outcome `i` with
    /// `weights[i]`. No weights make an empty table, from which nothing can be drawn.
    ///
    /// # Panics
    /// If there are 2^32 weights or more.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let total: f64 = weights.iter().sum();
        let number = |i: usize| u32::try_from(i).expect("a table has fewer than 2^32 cells");
        let mut rest: Vec<f64> = weights.iter().map(|weight| weight / total * n as f64).collect();
        let heaviest = (0..n).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0);
        // What rounding leaves over goes to the heaviest outcome, never to one of weight 0.
        let mut cells: Box<[Cell]> = (0..n)
            .map(|i| {
                let own = if weights[i] > 0.0 { i } else { heaviest };
                Cell { threshold: u64::MAX, outcomes: [number(own); 2] }
            })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| rest[i] < 1.0);
        while let (Some(light), Some(&heavy)) = (small.pop(), large.last()) {
            let threshold = (rest[light] * 2_f64.powi(64)) as u64;
            cells[light] = Cell { threshold, outcomes: [number(light), number(heavy)] };
            rest[heavy] -= 1.0 - rest[light];
            if rest[heavy] < 1.0 {
                large.pop();
                small.push(heavy);
            }
        }
        Self { cells }
    }

    /// The same law with other names of the outcomes.
    #[must_use]
    pub fn rename(mut self, name: impl Fn(u32) -> u32) -> Self {
        self.cells.iter_mut().for_each(|cell| cell.outcomes = cell.outcomes.map(&name));
        self
    }

    /// Number of cells: one for each weight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The outcome of a uniformly random word.
    ///
    /// # Panics
    /// If the table is empty.
    #[inline(always)]
    #[must_use]
    pub fn draw(&self, word: u64) -> u32 {
        let product = u128::from(word) * self.cells.len() as u128;
        let cell = &self.cells[(product >> 64) as usize];
        // By index, for no branch can be made of that: which of the two it is, is chance.
        cell.outcomes[usize::from(product as u64 >= cell.threshold)]
    }

    /// Cell number `i`: coins below the threshold take the first outcome, the others the second.
    ///
    /// # Panics
    /// If there is no such cell.
    #[must_use]
    pub fn cell(&self, i: usize) -> (u64, u32, u32) {
        let cell = &self.cells[i];
        (cell.threshold, cell.outcomes[0], cell.outcomes[1])
    }

    /// The two parts of each cell: outcome and width. The probability of a part is its width over 2^64 times the number
    /// of cells.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u128)> {
        self.cells.iter().flat_map(|cell| {
            let own = u128::from(cell.threshold);
            [(cell.outcomes[0], own), (cell.outcomes[1], (1 << 64) - own)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact law of a table.
    fn law(table: &Alias) -> Vec<f64> {
        let mut law = vec![0.0; table.len()];
        for (outcome, width) in table.parts() {
            law[outcome as usize] += width as f64 / 2_f64.powi(64) / table.len() as f64;
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
