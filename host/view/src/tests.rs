//! What tests of several modules use: a run whose actions do what a test says.

pub(crate) mod fixture;
