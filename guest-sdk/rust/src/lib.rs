//! Write actions in Rust.
