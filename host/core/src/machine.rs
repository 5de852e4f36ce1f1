//! What decides the next effect and applies events to the state.

pub mod effect;
pub mod stepper;
