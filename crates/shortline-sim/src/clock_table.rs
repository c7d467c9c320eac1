//! Which clock ticks next: one word a draw, from tables that stay in a near cache whatever the number of clocks.
//!
//! Few clocks ([`FEW`]) are drawn from one alias table, which costs least. Of many, servers of a type tick at the same
//! rate, and often job types do. Neighbours of equal weight form a *run*; an alias
//! table ([`Alias`]) over the runs cuts the words `0..2^64` into intervals, at most two per run, and each interval is
//! mapped linearly on the members of its run. Where weights change so often that runs do not pay ([`MOST_RUNS`]), all
//! job types or all servers form one run, whose members are drawn by an alias table of their own: the whole part of
//! the product is the cell, what is behind the point the coin.
//!
//! Every map is one of words to intervals, so a probability is met to `2^-62` of itself, and `2^-63` times the length
//! of its run. A million equal clocks cost no memory; a million different ones 16 bytes each.

use shortline_core::alias::Alias;

/// Job types, or servers, with more runs than this form one.
const MOST_RUNS: usize = 32;

/// So many clocks or fewer have one table, of 128 KiB at most.
const FEW: usize = 1 << 13;

/// A discrete law over `0..n`.
#[derive(Clone, Debug)]
pub(crate) enum ClockTable {
    Few(Alias),
    Many(Runs),
}

impl ClockTable {
    /// The law proportional to the weights (finite, not negative, not all 0) of two kinds of clocks, numbered through.
    pub(crate) fn new(job_types: &[f64], servers: &[f64]) -> Self {
        if job_types.len() + servers.len() <= FEW {
            Self::Few(Alias::new(&[job_types, servers].concat()))
        } else {
            Self::Many(Runs::new(job_types, servers))
        }
    }

    /// The outcome of a uniformly random word.
    #[inline(always)]
    pub(crate) fn draw(&self, word: u64) -> u32 {
        match self {
            Self::Few(table) => table.draw(word),
            Self::Many(runs) => runs.draw(word),
        }
    }
}

/// The law of many clocks.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    /// One per run: words from here to the end of the cell take the second of its segments.
    splits: Vec<u64>,
    /// Two per run.
    segments: Vec<Segment>,
    /// Cells of the runs with unequal weights, behind one for all others.
    cells: Vec<Cell>,
}

/// An interval of words, mapped on a run.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Its first word.
    base: u64,
    /// `2^(64 + shift) len / width`, rounded down.
    scale: u64,
    shift: u32,
    /// The first outcome of the run.
    start: u32,
    /// Where its cells are; `index & mask` is the cell.
    cells: u32,
    mask: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Coins below this take the cell's own outcome.
    threshold: u64,
    /// Counted from the start of the run.
    other: u32,
}

/// Neighbours that are drawn alike.
struct Run<'a> {
    start: usize,
    weights: &'a [f64],
    is_equal: bool,
}

impl Runs {
    fn new(job_types: &[f64], servers: &[f64]) -> Self {
        let mut runs = Vec::new();
        push_runs(&mut runs, 0, job_types);
        push_runs(&mut runs, job_types.len(), servers);
        let weights: Vec<f64> = runs.iter().map(|run| run.weights.iter().sum()).collect();
        let mut cells = vec![Cell { threshold: u64::MAX, other: 0 }];
        let places: Vec<(u32, u32)> = runs.iter().map(|run| run.push_cells(&mut cells)).collect();

        let top = Alias::new(&weights);
        let (mut splits, mut segments) = (Vec::new(), Vec::new());
        for i in 0..runs.len() {
            let (threshold, own, other) = top.cell(i);
            // The words whose product with the number of cells has `i` as its whole part.
            let first = |i: usize| ((i as u128) << 64).div_ceil(runs.len() as u128);
            let (low, high) = (first(i), first(i + 1));
            let split = low + ((u128::from(threshold) * (high - low)) >> 64);
            for (run, from, to) in [(own, low, split), (other, split, high)] {
                let run = run as usize;
                segments.push(runs[run].segment(from, to - from, places[run]));
            }
            splits.push(split as u64);
        }
        Self { splits, segments, cells }
    }

    /// The outcome of a uniformly random word.
    #[inline(always)]
    pub(crate) fn draw(&self, word: u64) -> u32 {
        let i = ((u128::from(word) * self.splits.len() as u128) >> 64) as usize;
        let segment = &self.segments[2 * i + usize::from(word >= self.splits[i])];
        let product = u128::from(word - segment.base) * u128::from(segment.scale);
        if self.cells.len() == 1 {
            return segment.start + ((product >> 64) as u64 >> segment.shift) as u32;
        }
        let product = product >> segment.shift;
        let index = (product >> 64) as u32;
        // Without a branch on which run it is: that is chance.
        let cell = &self.cells[(segment.cells + (index & segment.mask)) as usize];
        segment.start + if (product as u64) < cell.threshold { index } else { cell.other }
    }
}

fn push_runs<'a>(runs: &mut Vec<Run<'a>>, start: usize, weights: &'a [f64]) {
    let equal = || weights.chunk_by(|a, b| a.to_bits() == b.to_bits());
    if equal().take(MOST_RUNS + 1).count() > MOST_RUNS {
        return runs.push(Run { start, weights, is_equal: false });
    }
    let mut start = start;
    for weights in equal() {
        runs.push(Run { start, weights, is_equal: true });
        start += weights.len();
    }
}

impl Run<'_> {
    /// Adds the cells of a run of unequal weights; returns where they are, and the mask.
    fn push_cells(&self, cells: &mut Vec<Cell>) -> (u32, u32) {
        if self.is_equal {
            return (0, 0);
        }
        let at = narrow(cells.len());
        let table = Alias::new(self.weights);
        cells.extend((0..self.weights.len()).map(|i| match table.cell(i) {
            (threshold, own, other) if own as usize == i => Cell { threshold, other },
            (_, own, _) => Cell { threshold: 0, other: own },
        }));
        (at, u32::MAX)
    }

    /// `width` words from `base` on are mapped on this run. So few words that they do not reach all its members all
    /// go to the first.
    fn segment(&self, base: u128, width: u128, (cells, mask): (u32, u32)) -> Segment {
        let len = self.weights.len() as u128;
        let (scale, shift) = match width / (2 * len) {
            0 => (0, 0),
            ratio => {
                let shift = ratio.ilog2();
                ((len << (64 + shift)) / width, shift)
            }
        };
        let scale = u64::try_from(scale).expect("the width is at least 2^(shift + 1) len");
        Segment { base: base as u64, scale, shift, start: narrow(self.start), cells, mask }
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a fleet has fewer than 2^32 clocks")
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use shortline_core::random::Generator;

    use super::*;

    /// How many of the words, one in `2^64 / n` each, fall on each outcome.
    fn counts(table: &Runs, outcomes: usize, n: u64) -> Vec<u64> {
        let mut counts = vec![0; outcomes];
        let step = u64::MAX / n;
        (0..n).for_each(|i| counts[table.draw(step / 2 + i * step) as usize] += 1);
        counts
    }

    fn unequal() -> Vec<f64> {
        (0..50).map(|i| if i % 7 == 3 { 0.0 } else { 1.0 / f64::from(1 + i) }).collect()
    }

    #[test]
    fn the_table_has_the_law_of_its_weights() {
        let (equal, servers) = (vec![0.25; 40], [vec![2.0; 3], vec![0.0; 2], vec![0.5; 10], vec![1e-3; 1]].concat());
        for job_types in [equal, unequal()] {
            for servers in [&servers, &unequal()] {
                let weights = [&job_types[..], servers].concat();
                let total: f64 = weights.iter().sum();
                // An equidistant word misses an interval's share by one word at each end; there are at most 4 intervals
                // a run, and in a run of unequal weights at most one for each member.
                let n = 1 << 20;
                for (i, (&count, weight)) in
                    counts(&Runs::new(&job_types, servers), weights.len(), n).iter().zip(&weights).enumerate()
                {
                    let expected = weight / total * n as f64;
                    assert!((count as f64 - expected).abs() <= 110.0, "{i}: {count} words instead of {expected}");
                    assert!(*weight > 0.0 || count == 0, "{i} has weight 0 and came {count} times");
                }
            }
        }
    }

    #[test]
    fn equal_clocks_need_no_memory_and_unequal_ones_a_cell() {
        assert_eq!(Runs::new(&[1.0; 1000], &[0.5; 1000]).cells.len(), 1);
        assert_eq!(Runs::new(&unequal(), &[0.5; 1000]).cells.len(), 51);
    }

    #[test]
    fn the_ends_of_every_interval_stay_in_their_run() {
        for job_types in [vec![0.3; 1 << 20], unequal(), vec![1e-30], vec![7.0]] {
            let table = Runs::new(&job_types, &[1.0, 1.0, 1.0, 0.1]);
            let ends = table.segments.iter().map(|segment| segment.base).chain(table.splits.iter().copied());
            for word in ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]) {
                assert!((table.draw(word) as usize) < job_types.len() + 4);
            }
        }
    }

    /// Members of a run, by chi-square over 101 cells, 1e6 draws; false-alarm probability 1e-6 (quantile 180.8 at 100
    /// degrees of freedom).
    #[test]
    fn the_members_of_a_run_are_equally_likely() {
        let table = Runs::new(&[0.7, 0.2], &[1.0; 101]);
        let mut words = Generator::seed_from_u64(3);
        let mut counts = [0_u32; 101];
        let mut draws = 0;
        while draws < 1_000_000 {
            if let Some(member) = (table.draw(words.next_u64()) as usize).checked_sub(2) {
                counts[member] += 1;
                draws += 1;
            }
        }
        let expected = f64::from(draws) / 101.0;
        let chi2: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        assert!(chi2 < 180.8, "chi-square {chi2}");
    }
}
