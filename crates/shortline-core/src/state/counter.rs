//! How wide the job counts are: bytes where they fit, so that a neighbourhood of 16 servers is one vector.

use std::fmt::Debug;

/// An unsigned integer that counts jobs; [`Counter::MAX`] is kept free to mean "takes no more jobs".
pub trait Counter: Copy + Ord + Default + Debug + Send + Sync + 'static {
    /// The largest value.
    const MAX: Self;
    /// The value, if it fits.
    fn from_u64(value: u64) -> Option<Self>;
    /// The value.
    fn to_u64(self) -> u64;
    /// One more.
    #[must_use]
    fn up(self) -> Self;
    /// One less.
    #[must_use]
    fn down(self) -> Self;
    /// `self * factor`; the widths were chosen so that it fits.
    #[must_use]
    fn times(self, factor: Self) -> Self;
}

macro_rules! counter {
    ($($t:ty),*) => {$(
        impl Counter for $t {
            const MAX: Self = <$t>::MAX;

            #[inline(always)]
            fn from_u64(value: u64) -> Option<Self> {
                value.try_into().ok()
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn up(self) -> Self {
                self.checked_add(1).expect("a server beyond its capacity takes no more jobs")
            }

            #[inline(always)]
            fn down(self) -> Self {
                self.checked_sub(1).expect("only a job that joined can leave")
            }

            #[inline(always)]
            fn times(self, factor: Self) -> Self {
                debug_assert!(self.checked_mul(factor).is_some(), "{self} x {factor} overflows a counter");
                self.wrapping_mul(factor)
            }
        }
    )*};
}

counter!(u8, u16, u32, u64);
