//! Tests that are skipped where something is missing on the machine, or a registry cannot be reached.

use std::fmt::Display;
use std::io::Write;

/// Says that a test is skipped, past the capture of the test's output, so that it is seen.
pub fn skip(why: impl Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
