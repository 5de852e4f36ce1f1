//! Lines for the operator.

use crate::host;

pub use crate::bindings::strata::action::log::Level;

/// Writes one line of any level.
pub fn write(level: Level, message: &str) {
    host::log::write(level, message);
}

/// Writes what is of use to the action's author only.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Writes what a curious operator wants to see.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes that something is wrong while the action goes on.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes that something is wrong and the action is about to fail.
pub fn error(message: &str) {
    write(Level::Error, message);
}
