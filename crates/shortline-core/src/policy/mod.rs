//! Policies: which server gets this job?
//!
//! A policy is a rule that reads the [`State`] of the fleet and names a server, or none. One file each; the names that
//! files and commands use are in [`PolicySpec`], and [`with_policy`] is the table from name to rule. The trait is
//! open: your own rule runs in the simulator and in the gateway like the ones here.
//!
//! ```
//! use rand::{Rng, SeedableRng};
//! use shortline_core::policy::Policy;
//! use shortline_core::state::State;
//! use shortline_core::{JobTypeId, ServerId};
//!
//! /// Join the least loaded server, whatever its speed; the first of them in the row.
//! #[derive(Clone, Debug)]
//! struct LeastLoaded;
//!
//! impl Policy for LeastLoaded {
//!     fn choose<R: Rng>(&mut self, state: &State, l: JobTypeId, _: &mut R) -> Option<ServerId> {
//!         let mut best = None;
//!         state.fleet().graph().for_each(l.index(), |server| {
//!             if state.has_room(server) && best.is_none_or(|(load, _)| state.load(server) < load) {
//!                 best = Some((state.load(server), server));
//!             }
//!         });
//!         best.map(|(_, server)| server)
//!     }
//! }
//!
//! # use shortline_core::{Dispatcher, fleet::*, graph::Edges, random::Generator};
//! # use std::sync::Arc;
//! # let parts = FleetParts {
//! #     name: String::new(),
//! #     server_types: vec![ServerTypeParts { name: "A10".into(), speed: Speed::Rate(1.0), slots: 1 }],
//! #     servers: vec![ServerParts { names: Names { base: "gpu".into(), count: Some(3) }, server_type: 0, buffer: None, addresses: vec![] }],
//! #     job_types: vec![JobTypeParts { names: Names { base: "m".into(), count: None }, arrivals: ArrivalRates::Each(1.0), size: 1.0 }],
//! #     rates: vec![], edges: Edges::Complete, settings: Settings::default(),
//! # };
//! let fleet = Arc::new(Fleet::new(parts)?);
//! let mut dispatcher = Dispatcher::<_, ()>::new(fleet, LeastLoaded);
//! let mut rng = Generator::seed_from_u64(7);
//! let job_type = JobTypeId::new(0);
//! let servers: Vec<_> = (0..4).map(|_| dispatcher.route(job_type, || (), &mut rng).server()).collect();
//! assert_eq!(servers[3], servers[0], "the fourth of four jobs on three servers joins the first again");
//! # Ok::<(), shortline_core::FleetError>(())
//! ```

mod central;
mod jfiq;
mod jfsq;
mod jiq;
mod jsq;
mod nq;
mod random;
mod sampled;
mod sed;
mod spec;
mod split;

use std::fmt::Debug;
use std::sync::Arc;

use rand::Rng;

pub use central::Central;
pub use jfiq::JoinFastestIdleQueue;
pub use jfsq::JoinFastestShortestQueue;
pub use jiq::JoinIdleQueue;
pub use jsq::JoinShortestQueue;
pub use nq::NeverQueue;
pub use random::Random;
pub use sampled::{FastAndOther, ShortestOfSampled};
pub use sed::ShortestExpectedDelay;
pub use spec::{Choices, POLICY_NAMES, PolicyListError, PolicyNameError, PolicySpec};
pub use split::{Split, SplitShares, SplitSharesError};

use crate::fleet::Fleet;
use crate::ids::{JobTypeId, ServerId};
use crate::state::{Places, State, Ties};

/// A rule that chooses a server for each job.
pub trait Policy: Clone + Debug + Send + 'static {
    /// Where its jobs may be. With [`Places::Slots`] no job waits at a server, and jobs that find no free slot wait
    /// in front, whatever the fleet's `overflow` says.
    const PLACES: Places = Places::Buffers;

    /// The server for a job of this type: compatible and with room. A server without room, or `None`, means that the
    /// policy finds no place.
    fn choose<R: Rng>(&mut self, state: &State, job_type: JobTypeId, rng: &mut R) -> Option<ServerId>;
}

/// Why a policy cannot be used with a fleet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// The rule compares speeds as numbers and the fleet gives their order only.
    #[error("policy `{0}` compares speeds as numbers; give every [[server_type]] a `rate` instead of a `rank`")]
    NeedsRates(PolicySpec),
    /// The rule divides jobs in fixed shares and the fleet brings none along.
    #[error("policy `{0}` needs the share of each job type at each server; give them with `Fleet::with_split_shares`")]
    NeedsShares(PolicySpec),
}

/// What to do with a policy once its type is known: the hot loops are compiled once per policy.
pub trait PolicyVisitor {
    /// What comes out.
    type Output;
    /// Called with the policy.
    fn visit<P: Policy>(self, policy: P) -> Self::Output;
}

/// The table from name to rule: calls `visitor` with the policy that `spec` names.
///
/// # Errors
/// [`PolicyError`] if the policy cannot be used with this fleet.
pub fn with_policy<V: PolicyVisitor>(spec: PolicySpec, fleet: &Fleet, visitor: V) -> Result<V::Output, PolicyError> {
    if spec.needs_rates() && !fleet.has_rates() {
        return Err(PolicyError::NeedsRates(spec));
    }
    let sampled = |d: Choices, ties| ShortestOfSampled::new(d.count(fleet.server_count()), ties);
    Ok(match spec {
        PolicySpec::Random => visitor.visit(Random),
        PolicySpec::Jsq => visitor.visit(JoinShortestQueue),
        PolicySpec::Jfsq => visitor.visit(JoinFastestShortestQueue),
        PolicySpec::Jiq => visitor.visit(JoinIdleQueue),
        PolicySpec::Jfiq => visitor.visit(JoinFastestIdleQueue),
        PolicySpec::JsqD(d) => visitor.visit(sampled(d, Ties::Uniform)),
        PolicySpec::JfsqD(d) => visitor.visit(sampled(d, Ties::Fastest)),
        PolicySpec::JsqFastOther { fast, other } => visitor.visit(FastAndOther::new(fast, other)),
        PolicySpec::Sed => visitor.visit(ShortestExpectedDelay),
        PolicySpec::Nq => visitor.visit(NeverQueue),
        PolicySpec::Central => visitor.visit(Central),
        PolicySpec::Split => {
            let shares = fleet.split_shares().ok_or(PolicyError::NeedsShares(spec))?;
            visitor.visit(Split::new(Arc::clone(shares)))
        }
    })
}
