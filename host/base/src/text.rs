//! Texts: how values are read from them and shown to people.

pub mod component_replacement;
pub mod display_path;
pub mod error_causes;
pub mod excerpt;
pub mod media_type;
pub mod ordered_json;
pub mod shell;
pub mod suggest;
pub mod unexpanded_path;
pub mod units;
