//! Policies that can be told by counts alone: what kind of server they choose, in the law of the dispatcher's choices.

use shortline_core::policy::{Choices, PolicySpec};
use shortline_core::random::Generator;
use shortline_core::state::Ties;

use super::counts::{Counts, Server};
use super::position::{MOST_SAMPLED, Position};

/// A policy that can be told by counts alone.
pub(crate) trait Lumpable: Copy + std::fmt::Debug + Send + 'static {
    /// A server as the policy chooses it; `None`, or one without room: no place.
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server>;

    /// Where the choice is if all servers are of one type with one slot, and that does not depend on the state.
    fn position(self) -> Option<Position>;
}

/// `jsq`, `jfsq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortest(pub(crate) Ties);
/// `jiq`, `jfiq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle(pub(crate) Ties);
/// `jsq(d)`, `jfsq(d)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled(pub(crate) u32, pub(crate) Ties);
/// `random`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform;
/// `sed`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastDelay;
/// `nq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleElseLeastDelay;

impl Lumpable for Shortest {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.shortest(self.0, rng)
    }

    fn position(self) -> Option<Position> {
        Some(Position::Last)
    }
}

impl Lumpable for Idle {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.idle(self.0, rng).or_else(|| Some(counts.uniform(rng)))
    }

    fn position(self) -> Option<Position> {
        None
    }
}

impl Lumpable for Sampled {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        Some(counts.shortest_of_sampled(self.0, self.1, rng))
    }

    fn position(self) -> Option<Position> {
        Some(Position::LargestOf(self.0))
    }
}

impl Lumpable for Uniform {
    #[inline]
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        Some(counts.uniform(rng))
    }

    fn position(self) -> Option<Position> {
        Some(Position::LargestOf(1))
    }
}

impl Lumpable for LeastDelay {
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.shortest_delay(rng)
    }

    fn position(self) -> Option<Position> {
        Some(Position::Last)
    }
}

impl Lumpable for IdleElseLeastDelay {
    fn choose(self, counts: &Counts, rng: &mut Generator) -> Option<Server> {
        counts.idle(Ties::Fastest, rng).or_else(|| counts.shortest_delay(rng))
    }

    fn position(self) -> Option<Position> {
        Some(Position::Last)
    }
}

/// What to do with a rule once its type is known.
pub(crate) trait LumpableVisitor {
    type Output;
    fn visit<L: Lumpable>(self, rule: L) -> Self::Output;
}

/// The rule of a policy, if counts can tell it.
pub(crate) fn with_lumpable<V: LumpableVisitor>(spec: PolicySpec, servers: usize, visitor: V) -> Option<V::Output> {
    let sampled = |d: Choices| {
        let d = d.count(servers);
        (d <= MOST_SAMPLED && (d as usize) < servers).then_some(d)
    };
    Some(match spec {
        PolicySpec::Random => visitor.visit(Uniform),
        PolicySpec::Jsq => visitor.visit(Shortest(Ties::Uniform)),
        PolicySpec::Jfsq => visitor.visit(Shortest(Ties::Fastest)),
        PolicySpec::Jiq => visitor.visit(Idle(Ties::Uniform)),
        PolicySpec::Jfiq => visitor.visit(Idle(Ties::Fastest)),
        PolicySpec::JsqD(d) => visitor.visit(Sampled(sampled(d)?, Ties::Uniform)),
        PolicySpec::JfsqD(d) => visitor.visit(Sampled(sampled(d)?, Ties::Fastest)),
        PolicySpec::Sed => visitor.visit(LeastDelay),
        PolicySpec::Nq => visitor.visit(IdleElseLeastDelay),
        PolicySpec::JsqFastOther { .. } | PolicySpec::Split | PolicySpec::Central => return None,
    })
}
