//! What is tested of several modules together: one list for all places where runs are kept, and what becomes of files that
//! are cut, damaged, foreign or of earlier versions.

mod bit_flips;
pub(crate) mod conformance;
mod crash;
pub(crate) mod damage;
mod golden;
mod hostile;
mod lost_log;
mod reading;
pub(crate) mod script;
