//! Theory against independent computations, one file per behaviour.

mod exact;
mod fleets;
mod fluid_bound;
mod graph_bound;
mod linear_programs;
mod mean_field;
mod pooled_bound;
mod rules;
mod stability;
