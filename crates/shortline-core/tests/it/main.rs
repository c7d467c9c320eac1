//! Behaviour of the core seen from outside, a file per behaviour.

mod generators;
