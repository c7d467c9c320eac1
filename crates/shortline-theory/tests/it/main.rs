//! Theory against independent computations, one file per behaviour.

mod fleets;
mod fluid_bound;
mod stability;
