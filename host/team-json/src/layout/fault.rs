//! The format of faults. They are written for people.

use serde::Serialize;

use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::nested_path::NestedPath;

use super::super::field::{Keyword, TextList};

/// A fault, and where it occurred.
#[derive(Serialize)]
pub(in super::super) struct FaultJson<'a> {
    pub role: &'a str,
    pub index: i64,
    pub action: &'a str,
    pub kind: Keyword<FaultKind>,
    pub cause: Keyword<FaultCause>,
    pub attempt: u32,
    pub message: &'a str,
    pub step: u64,
    pub digest: Option<&'a str>,
    pub backtrace: TextList<'a>,
    pub log: TextList<'a>,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<RoleCallJson<'a>>,
}

/// A call of a role by another one.
#[derive(Serialize)]
pub(in super::super) struct RoleCallJson<'a> {
    pub role: &'a str,
    pub turn: u32,
    pub tool_call: u32,
    #[serde(skip_serializing_if = "NestedPath::is_empty")]
    pub nested: NestedPath,
}
