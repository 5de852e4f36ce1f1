//! Whole-program tests: the real binary, real components, real processes and signals.
//!
//! What is tested:
//!
//! | module | what |
//! |---|---|
//! | `crash` | `kill -9` at every event of a run, and of its resumes |
//!
//! What they are made of: `place` (a folder with a team in which the host is run), `process` (a running host),
//! `stream` (event lines), `saved` (`team.json`), `probe` (the component that does as it is told). Teams that are
//! longer than a few lines are fixtures.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

mod crash;
mod place;
mod probe;
mod process;
mod saved;
mod stream;
