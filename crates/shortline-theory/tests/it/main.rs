//! Theory against independent computations, one file per behaviour.

mod connectivity;
mod exact;
mod fleets;
mod fluid_bound;
mod graph_bound;
mod guarantee;
mod linear_programs;
mod mean_field;
mod policy_stability;
mod pooled_bound;
mod rules;
mod sensitivity;
mod sparsity;
mod stability;
