//! Policy `split`: the shares that the theory computes for the file's rates, given to the fleet.

use std::sync::Arc;

use shortline_core::Fleet;
use shortline_core::policy::PolicySpec;
use shortline_theory::{TheoryError, stability};

use crate::digits::short;
use crate::failure::Failure;
use crate::load;

/// The fleet with the shares of the flow at its largest load, if one of `policies` divides jobs by them. Where that flow
/// is out of reach, with shares that are proved to come close.
pub(crate) fn with_shares(fleet: Arc<Fleet>, policies: &[PolicySpec]) -> Result<Arc<Fleet>, Failure> {
    if !policies.contains(&PolicySpec::Split) {
        return Ok(fleet);
    }
    let unknown =
        |error: TheoryError| Failure::usage(format!("policy `split` divides jobs by the file's rates: {error}"));
    let shares = match stability::analyse(&fleet) {
        Ok(found) => found.shares,
        Err(TheoryError::TooLarge { .. }) => {
            let bounds = load::bounds(&fleet).map_err(unknown)?;
            load::note(&format!(
                "the shares of `split` carry {} times the load, the best ones {} at most",
                short(bounds.at_least),
                short(bounds.at_most)
            ));
            bounds.shares
        }
        Err(error) => return Err(unknown(error)),
    };
    Ok(Arc::new(shares.give_to(&fleet)))
}
