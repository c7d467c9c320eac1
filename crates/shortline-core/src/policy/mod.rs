//! Policies: which server gets this job?

mod spec;

pub use spec::{Choices, POLICY_NAMES, PolicyNameError, PolicySpec};
