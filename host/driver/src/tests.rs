//! What tests of several modules use: a team in the middle of a step.

pub(crate) mod fixture;
