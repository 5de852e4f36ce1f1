//! The number of a call that code made, in public events.

use schemars::JsonSchema;
use serde::Serialize;
use strata_core::record::nested_path::NestedPath;

/// The number of a call within the call that it was made in, counted from 0. If the outer call was made by
/// code, too, the numbers of all of them, the outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum NestedNumber {
    /// The code that made it was called by a model.
    One(u16),
    /// The code that made it was called by code.
    Several(Vec<u16>),
}

impl NestedNumber {
    /// Returns the number of a call, or `None` if a model made it.
    pub fn from_path(path: NestedPath) -> Option<Self> {
        match path.numbers() {
            [] => None,
            [number] => Some(Self::One(*number)),
            several => Some(Self::Several(several.to_vec())),
        }
    }
}
