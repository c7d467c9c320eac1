//! What comes next: one time for each of a fixed number of places, the earliest of them always known.
//!
//! A tree of minima with 16 children a node. The leaves are the times, infinite where nothing is due; each node holds the
//! least of its 16 children. A change recomputes one node a level, two levels for 256 places, five for a million, without
//! a branch on a time; the earliest place is found from the root by comparing for equality.
//!
//! Chosen because a server has at most one departure due at a time, which is moved (a server fails, or shares its slots
//! among more jobs) as often as it is taken, and because the branches of a heap are decided by chance. Removing the
//! earliest and entering one anew, in ns, the exponential draw included (least of 3 runs on a busy 2.6 GHz Xeon, so that the order
//! says more than the figures):
//!
//! | servers | this | 8 children | winner tree | 4-ary heap with positions | `BinaryHeap` (cannot move) |
//! |---|---|---|---|---|---|
//! | 256 | 59 | 72 | 77 | 77 | 97 |
//! | 4,096 | 159 | 172 | 206 | 207 | 111 |
//!
//! At equal times the place with the lowest number comes first.

/// Children of a node.
const WIDTH: usize = 16;

/// Times by place.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The leaves first, the root's children last.
    levels: Vec<Vec<[f64; WIDTH]>>,
    earliest_s: f64,
}

impl Queue {
    /// Nothing is due at any of so many places.
    pub(crate) fn new(places: usize) -> Self {
        let mut nodes = places.max(1);
        let mut levels = Vec::new();
        while nodes > 1 || levels.is_empty() {
            nodes = nodes.div_ceil(WIDTH);
            levels.push(vec![[f64::INFINITY; WIDTH]; nodes]);
        }
        Self { levels, earliest_s: f64::INFINITY }
    }

    /// When the next one is due; infinite if none is.
    #[inline(always)]
    pub(crate) fn earliest_s(&self) -> f64 {
        self.earliest_s
    }

    /// Which one that is.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> usize {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let equal =
                |mask, (i, &time): (usize, &f64)| mask | (u32::from(time.to_bits() == self.earliest_s.to_bits()) << i);
            let mask: u32 = level[at].iter().enumerate().fold(0, equal);
            at = at * WIDTH + mask.trailing_zeros() as usize;
        }
        at
    }

    /// When something is due at this place; infinite if nothing is.
    #[inline]
    pub(crate) fn time_s(&self, place: usize) -> f64 {
        self.levels[0][place / WIDTH][place % WIDTH]
    }

    /// Something is due at this place then, instead of what was.
    #[inline(always)]
    pub(crate) fn set(&mut self, place: usize, time_s: f64) {
        let (mut at, mut time_s) = (place, time_s);
        for level in &mut self.levels {
            let node = &mut level[at / WIDTH];
            let least = least_with(node, at % WIDTH, time_s);
            node[at % WIDTH] = time_s;
            (at, time_s) = (at / WIDTH, least);
        }
        self.earliest_s = time_s;
    }
}

/// The least time of a node once child `i` has this one. It is not stored first: a vector load of what was just stored in
/// pieces would wait for the store.
#[inline(always)]
fn least_with(node: &[f64; WIDTH], i: usize, time_s: f64) -> f64 {
    let mut lanes = [f64::INFINITY; 4];
    for (first, times) in node.chunks_exact(4).enumerate() {
        for (lane, &time) in times.iter().enumerate() {
            lanes[lane] = least(if first * 4 + lane == i { time_s } else { time }, lanes[lane]);
        }
    }
    least(least(lanes[0], lanes[1]), least(lanes[2], lanes[3]))
}

/// No time is NaN, and so this is one instruction.
#[inline(always)]
fn least(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use shortline_core::random::Generator;

    use super::*;

    #[test]
    fn the_earliest_is_the_one_found_by_looking_at_all() {
        let mut words = Generator::seed_from_u64(1);
        for places in [1, 2, 16, 17, 256, 257, 5000] {
            let (mut queue, mut times) = (Queue::new(places), vec![f64::INFINITY; places]);
            assert_eq!(queue.earliest_s().to_bits(), f64::INFINITY.to_bits());
            for _ in 0..2000 {
                let place = words.next_u64() as usize % places;
                // Few different times: ties are common.
                let time_s = if words.next_u64() % 4 == 0 { f64::INFINITY } else { (words.next_u64() % 50) as f64 };
                times[place] = time_s;
                queue.set(place, time_s);
                let earliest = (0..places).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap();
                assert_eq!(queue.earliest_s().to_bits(), times[earliest].to_bits());
                assert_eq!(queue.time_s(place).to_bits(), time_s.to_bits());
                if times[earliest] < f64::INFINITY {
                    assert_eq!(queue.earliest(), earliest, "the first of the earliest");
                }
            }
        }
    }
}
