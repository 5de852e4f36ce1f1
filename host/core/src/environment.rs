//! The environment (in the making).
pub mod scope;
