//! Policy `split`: the shares that the theory computes for the file's rates, given to the fleet.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_theory::stability;

use crate::failure::Failure;

/// The fleet with the shares of the flow at its largest load, if one of `policies` divides jobs by them.
pub(crate) fn with_shares(fleet: Arc<Fleet>, policies: &[PolicySpec]) -> Result<Arc<Fleet>, Failure> {
    if !policies.contains(&PolicySpec::Split) {
        return Ok(fleet);
    }
    let stability = stability::analyse(&fleet)
        .map_err(|error| Failure::usage(format!("policy `split` divides jobs by the file's rates: {error}")))?;
    Ok(Arc::new(stability.shares.give_to(&fleet)))
}
