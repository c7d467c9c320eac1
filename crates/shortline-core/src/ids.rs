//! Newtypes for the things that are counted: servers, job types, server types.
//!
//! A [`ServerId`] is a row index of *one* [`Fleet`](crate::Fleet): servers are numbered by server type, fastest
//! type first, so that every speed class is one contiguous range. It means nothing in another fleet; what has to
//! survive a reload holds a [`ServerKey`](crate::live::ServerKey).

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name($repr);

        impl $name {
            /// The id with this index.
            ///
            /// # Panics
            /// If `index` does not fit the id's width, which a checked [`Fleet`](crate::Fleet) rules out.
            #[inline]
            pub fn new(index: usize) -> Self {
                Self(<$repr>::try_from(index).expect("a checked fleet keeps its indices within the id's width"))
            }

            /// The index, counted from 0.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A server of one fleet, numbered by server type (fastest first), then in the file's order.
    ServerId(u32)
);
id!(
    /// A job type (a port of the compatibility graph), numbered in the file's order.
    JobTypeId(u32)
);
id!(
    /// A server type (a speed class), numbered from the fastest.
    ServerTypeId(u16)
);
