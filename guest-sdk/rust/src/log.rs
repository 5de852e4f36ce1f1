//! Log lines for the operator.

use crate::host;

pub use crate::bindings::strata::action::log::Level;

/// Writes a line with any level.
pub fn write(level: Level, message: &str) {
    host::log::write(level, message);
}

/// Writes information that is useful to the action's author.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Writes information that is useful to the operator.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes a warning: something is wrong, but the action goes on.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes an error: something is wrong, and the action is about to fail.
pub fn error(message: &str) {
    write(Level::Error, message);
}
