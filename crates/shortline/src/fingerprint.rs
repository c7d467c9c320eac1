//! A short mark of a long text: FNV-1a of 64 bits (Fowler, Noll and Vo), to notice that something has changed.
//!
//! Two texts that differ have the same mark with a probability of about 2^-64, unless someone looks for such a pair.

use std::fmt::{self, Write};

/// The mark of what has been added so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of nothing.
    pub(crate) const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// The same with more bytes behind.
    pub(crate) fn and(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Of a value, as `Debug` writes it, without keeping that text.
    pub(crate) fn of(value: &impl fmt::Debug) -> Self {
        let mut mark = Self::EMPTY;
        write!(mark, "{value:?}").expect("adding to a mark does not fail");
        mark
    }

    /// As a number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        *self = self.and(text.as_bytes());
        Ok(())
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;

    /// From the test vectors of the authors.
    #[test]
    fn known_marks_are_met() {
        assert_eq!(Fingerprint::EMPTY.and(b"a").to_string(), "af63dc4c8601ec8c");
        assert_eq!(Fingerprint::EMPTY.and(b"foo").and(b"bar").to_string(), "85944171f73967e8");
    }

    #[test]
    fn a_value_has_the_mark_of_its_text() {
        assert_eq!(Fingerprint::of(&[1, 2]).to_string(), Fingerprint::EMPTY.and(b"[1, 2]").to_string());
        assert_ne!(Fingerprint::of(&0.1).number(), Fingerprint::of(&0.2).number());
    }
}
